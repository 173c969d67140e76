"""The paper's tables 5, 8 and 9 and our controls as rows of one grid, each a change of few parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .accounting import per_task
from .compare_tables import NONE, percent, spread
from .comparison import Comparison, Group
from .errors import UserError
from .grids import Grid, duplicates
from .published import CELLS, check_executors, heading
from .statistics import Metric, difference_interval, mean_std, over_orders, paired, rate_interval
from .sweep import Sweep

if TYPE_CHECKING:
    import pandas as pd


class Row(NamedTuple):
    """One row of the grid."""

    of: str
    """The paper's table that it belongs to, or `control`."""
    parameters: dict[str, Any]
    """What differs from the preset, with memory `jitmem`."""
    says: str
    """What the row asks."""
    against: str = "jitmem"
    """The row that it is compared with."""
    published: str = ""
    """The paper's name of the row, which stands beside its cells: most are of trained curators."""


ROWS: dict[str, Row] = {
    "jitmem": Row("", {}, "as the preset has it", "none"),
    "none": Row("control", {"memory": "none"}, "no memory"),
    "raw": Row("control", {"memory": "raw"}, "the same traces without a curator"),
    "oracle": Row("control", {"memory": "oracle"}, "the benchmark's own solution as payload: the ceiling"),
    "another": Row("control", {"payload_of": "another"}, "a payload made for another task"),
    "k=1": Row("8", {"k": 1}, "one trace"),
    "k=3": Row("8", {"k": 3}, "three traces", published="JitMem (trained), k = 3"),
    "k=5": Row("8", {"k": 5}, "five traces", published="JitMem (trained), k = 5"),
    "cold": Row("5", {"warm_start": 0}, "the bank begins empty", published="JitMem (trained)"),
    "warm": Row("5", {"warm_start": 100}, "100 demonstrations first", "cold", "warm start of 100"),
    "judge": Row("9", {"gate": "judge"}, "a model decides what is kept"),
    "environment": Row("9", {"gate": "environment"}, "the environment decides what is kept"),
    "all+labels": Row(
        "9", {"gate": "all+labels"}, "all is kept, with its label", published="all + labels, untrained"
    ),
    "distilled": Row(
        "9", {"traces": "distilled", "warm_start": 0}, "lessons written beforehand, not traces", "cold"
    ),
    "untold": Row(
        "9",
        {"task_conditioned": False},
        "the curator is not told the task",
        published="trained, not told the task",
    ),
    "empty": Row(
        "9", {"retrieval": "empty"}, "nothing is retrieved", published="trained without retrieved traces"
    ),
    "random": Row("control", {"retrieval": "random"}, "any traces"),
    "shuffled": Row("control", {"retrieval": "shuffled"}, "the traces found for another task"),
    "own_type": Row("control", {"retrieval": "own_type"}, "only traces of the task's own type"),
    "other_type": Row("control", {"retrieval": "other_type"}, "only traces of other types"),
    "dense": Row("control", {"retrieval": "dense"}, "by meaning instead of words"),
}
"""Rows by name. Staged refresh (table 5) needs a trained curator and is none of them."""


def ablation_grid(
    fixed: Mapping[str, Any], orders: Sequence[int], rows: Sequence[str] = ()
) -> tuple[Grid, dict[str, str]]:
    """The grid of some or all rows, and the rows that ask for the same as an earlier one.

    Args:
        fixed: Parameters of every cell (benchmark, split, games, model, preset and the like).
        orders: Orders of the tasks.
        rows: Names of rows; none takes all. What a row is compared with is taken along.

    Raises:
        UserError: An unknown row, or no order.
    """
    if not orders:
        raise UserError("orders is empty; give one order or more, such as [0]")
    chosen = dict.fromkeys(rows or ROWS)
    for name in list(chosen):
        if name not in ROWS:
            near = difflib.get_close_matches(str(name), ROWS, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(ROWS)}"
            raise UserError(f"there is no row {name!r}; {hint}")
        chosen[ROWS[name].against] = None
    asked = {
        name: {"memory": "jitmem"} | ROWS[name].parameters for name in sorted(chosen, key=list(ROWS).index)
    }
    same = duplicates(asked, fixed)
    kept = {name: parameters for name, parameters in asked.items() if name not in same}
    return Grid(dict(fixed), {"order": list(orders)}, kept), same


def ablation_table(
    sweep: Sweep,
    same: Mapping[str, str],
    executors: Sequence[str] = (),
    draws: int = 10_000,
    seed: int = 0,
) -> pd.DataFrame:
    """The grid as one table: rates, differences with 95 % intervals, tokens, and the paper's cells.

    Args:
        sweep: A sweep over `ablation_grid`.
        same: What `ablation_grid` gave beside the grid.
        executors: The paper's executors whose cells stand beside.
        draws, seed: Of the bootstrap intervals.

    Raises:
        UserError: An executor that the paper does not have.
    """
    import pandas as pd

    check_executors(executors)
    groups = ablation_groups(sweep)
    rows = []
    for name, row in ROWS.items():
        group = groups.get(same.get(name, name))
        if group is None:
            continue
        base = groups.get(same.get(row.against, row.against))
        shown: dict[str, Any] = {"row": name, "table": row.of or NONE, "what": row.says}
        shown["orders"] = len(group.runs)
        shown["episodes"] = sum(episode.outcome != "error" for episode in group.episodes)
        for metric in ("success", "reward") if any(g.graded for g in groups.values()) else ("success",):
            shown |= _figures(group, base, metric, draws, seed)
        shown["against"] = row.against
        shown["same run as"] = same.get(name, NONE)
        costs = [per_task(one) for one in group.accounts.values()]
        for what, field in (("executor K", "executor_"), ("all roles K", "all_")):
            played = [cost for cost in costs if cost["steps"] is not None]
            tokens = [sum(cost[f"{field}{way}_k"] or 0.0 for way in ("input", "output")) for cost in played]
            mean = mean_std(tokens).mean
            shown[what] = NONE if mean is None else f"{mean:.2f}"
        for cell in CELLS:
            fits = cell.table == row.of and cell.row == row.published and cell.executor in executors
            if fits and cell.benchmark == group.benchmark:
                shown |= {f"{heading(cell.executor)}: row": cell.row, cell.column: cell.text}
        rows.append(shown)
    frame = pd.DataFrame(rows)
    theirs = [column for column in frame if str(column).startswith("paper, ")]
    return frame[[*(column for column in frame if column not in theirs), *theirs]].fillna(NONE)


def ablation_groups(sweep: Sweep) -> dict[str, Group]:
    """The sweep's runs by row."""
    runs = sweep.runs()
    by_row: dict[str, list[Any]] = {}
    for place in sweep.places:
        if place.cell.name in runs:
            by_row.setdefault(place.cell.row, []).append(runs[place.cell.name])
    return {group.label: group for group in Comparison.of(by_row).groups}


def _figures(group: Group, base: Group | None, metric: Metric, draws: int, seed: int) -> dict[str, str]:
    """Rate and difference of one metric, in percent and points."""
    what = "score" if metric == "reward" else "SR"
    level = rate_interval(group.streams, metric, draws=draws, seed=seed)
    pairs = None if base is None or base is group else paired(base.streams, group.streams, metric)
    gap = None if pairs is None else difference_interval(pairs, draws=draws, seed=seed)
    return {
        what: spread(over_orders(group.streams, metric)),
        f"{what} 95 %": _interval(level),
        f"{what} difference": NONE if pairs is None else percent(pairs.difference),
        f"{what} difference 95 %": _interval(gap),
    }


def _interval(found: tuple[float, float] | None) -> str:
    return NONE if found is None else f"{percent(found[0])} to {percent(found[1])}"
