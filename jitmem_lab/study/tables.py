"""The study's tables, each recomputed from run directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..accounting import per_task
from ..compare_tables import NONE, percent, spread
from ..comparison import Comparison, Group
from ..errors import UserError
from ..frames import frame
from ..inference import detectable_for, holm, paired_test
from ..published import CELLS, GPT, QWEN, heading
from ..report import Link
from ..runs import Run
from ..statistics import Metric, difference_interval, mean_std, over_orders, paired, rate_interval
from .analysis import plain_type
from .parts import WRITTEN
from .plan import RUNS, Plan, Planned

if TYPE_CHECKING:
    import pandas as pd

EXECUTOR = {"table_2": GPT, "table_3": GPT}
"""The paper's executor whose cells stand beside; Qwen3-8B elsewhere."""


def played(plan: Plan, planned: Planned) -> dict[str, list[Run]]:
    """The runs of each row that have an episode with a result."""
    found: dict[str, list[Run]] = {}
    for label, names in planned.rows.items():
        for name in names:
            run, _ = run_of(plan, name)
            if run is not None and any(episode.outcome != "error" for episode in run.latest()):
                found.setdefault(label, []).append(run)
    return found


def run_of(plan: Plan, name: str) -> tuple[Run | None, str]:
    """A run of the plan; of one that is not there or damaged None, and why in words."""
    folder = plan.out / RUNS / name
    if not (folder / "config.json").is_file():
        return None, "it failed or is owed"
    try:
        return Run(folder), ""
    except UserError as error:
        return None, str(error)


def compared(plan: Plan, planned: Planned) -> Comparison:
    """A part's rows as groups, under their labels."""
    return Comparison.of(played(plan, planned))


def base_of(planned: Planned, label: str) -> str:
    """The row that a row is compared with: of the same executor, where labels begin with one."""
    prefix, colon, _ = label.rpartition(": ")
    return f"{prefix}{colon}{planned.part.base}"


def part_table(planned: Planned, comparison: Comparison, draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """A part as a table: rates and differences with 95 % intervals and tests, tokens, the paper's cells.

    In percent and points; p by flipping the signs of the tasks' mean differences, corrected by Holm over the
    table; a row's name leads to its first run.
    """
    groups = {group.label: group for group in comparison.groups}
    metrics: tuple[Metric, ...] = (
        ("success", "reward") if any(g.graded for g in groups.values()) else ("success",)
    )
    rows: list[dict[str, Any]] = []
    for label in planned.rows:
        group = groups.get(label)
        if group is None:
            rows.append({"row": label, "orders": "not run yet"})
            continue
        base = groups.get(base_of(planned, label))
        row: dict[str, Any] = {"row": run_link(group, label), "orders": str(len(group.runs))}
        row["games"] = str(len({episode.task.task_id for episode in group.episodes}))
        for metric in metrics:
            row |= _rate(group, metric, draws, seed)
        row["against"] = NONE if base is None or base is group else base.label
        for metric in metrics:
            row |= _difference(group, base, metric, draws, seed)
        row |= _costs(group) | _published(planned, label)
        rows.append(row)
    for metric in metrics:
        name = f"p {_word(metric)}"
        adjusted = holm([row.get(name) for row in rows])
        for row, corrected in zip(rows, adjusted, strict=True):
            if name in row:
                row[f"{name} Holm"] = NONE if corrected is None else f"{corrected:.3g}"
                row[name] = NONE if row[name] is None else f"{row[name]:.3g}"
    return _ordered(rows)


def _word(metric: Metric) -> str:
    return "score" if metric == "reward" else "SR"


def _rate(group: Group, metric: Metric, draws: int, seed: int) -> dict[str, Any]:
    level = rate_interval(group.streams, metric, draws=draws, seed=seed)
    what = _word(metric)
    return {
        what: spread(over_orders(group.streams, metric)),
        f"{what} 95 %": f"{percent(level[0])} to {percent(level[1])}" if level else NONE,
    }


def _difference(group: Group, base: Group | None, metric: Metric, draws: int, seed: int) -> dict[str, Any]:
    what = _word(metric)
    names = (
        f"{what} difference",
        f"{what} difference 95 %",
        f"p {what}",
        f"p {what} Holm",
        f"{what} detectable",
    )
    if base is None or base is group:
        return dict.fromkeys(names, NONE) | {names[2]: None}
    pairs = paired(base.streams, group.streams, metric)
    gap = difference_interval(pairs, draws=draws, seed=seed)
    shown = f"{percent(gap[0])} to {percent(gap[1])}" if gap else NONE
    found = (
        percent(pairs.difference),
        shown,
        paired_test(pairs, draws=draws, seed=seed).p,
        NONE,
        percent(detectable_for(pairs)),
    )
    return dict(zip(names, found, strict=True))


def _costs(group: Group) -> dict[str, str]:
    """Steps and tokens a task, of the executor and of all roles, in thousands."""
    costs = [cost for cost in map(per_task, group.accounts.values()) if cost["steps"] is not None]
    found = {"steps": mean_std([cost["steps"] for cost in costs if cost["steps"] is not None]).mean}
    for what, name in (("executor K", "executor_"), ("all roles K", "all_")):
        tokens = [sum(cost[f"{name}{way}_k"] or 0.0 for way in ("input", "output")) for cost in costs]
        found[what] = mean_std(tokens).mean
    return {
        name: NONE if value is None else f"{value:.{1 if name == 'steps' else 2}f}"
        for name, value in found.items()
    }


def _published(planned: Planned, label: str) -> dict[str, str]:
    """The paper's cells of a row, with the paper's own name of it."""
    executor = EXECUTOR.get(planned.part.name, QWEN)
    number = planned.part.source.removeprefix("table ")
    row = planned.part.rows[label].published
    cells = [
        cell
        for cell in CELLS
        if (cell.table, cell.row, cell.executor) == (number, row, executor)
        and cell.benchmark == planned.benchmark
    ]
    return {f"{heading(executor)}: row": row} | {cell.column: cell.text for cell in cells} if cells else {}


def _ordered(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Published columns last."""
    table = frame(rows)
    theirs = [name for name in table.columns if str(name).startswith("paper, ")]
    return table[[*(name for name in table.columns if name not in theirs), *theirs]].fillna(NONE)


def run_link(run: Group | str, text: str = "") -> Link:
    """A run directory, or a group's first one, seen from the report."""
    name = run if isinstance(run, str) else next(iter(run.runs.values())).name
    return Link(text or name, f"../{RUNS}/{quote(name)}/")


def best_written(groups: Mapping[str, Group]) -> str | None:
    """The write-time system with the highest mean success; None where none was run."""
    rates = {name: over_orders(groups[name].streams).mean for name in WRITTEN if name in groups}
    known = {name: rate for name, rate in rates.items() if rate is not None}
    return max(known, key=known.__getitem__) if known else None


def run_table(plan: Plan, commands: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Every run: where it is, how it stands, what must be told with its figures, and the command for it."""
    rows = []
    for name in plan.all_cells:
        run, why = run_of(plan, name)
        there = (plan.out / RUNS / name / "config.json").exists()
        state = str(run.status().get("state")) if run else "damaged" if there else "not run"
        rows.append(
            {
                "run": run_link(name),
                "stands in": ", ".join(
                    f"{p.part.name}: {row}" for p in plan.parts for row, own in p.rows.items() if name in own
                ),
                "state": state,
                "to be told": "; ".join(run.card().cautions) if run else why if there else "",
                "command": " ".join(commands[name]),
            }
        )
    return frame(rows)


def payload_table(comparison: Comparison, labels: Sequence[str], most: int = 4) -> pd.DataFrame:
    """Tasks on which some of these systems won and others lost, with what each of them was shown.

    Of every pattern of wins and losses the first task, `most` tasks at most.
    """
    groups = [group for label in labels for group in comparison.groups if group.label == label]
    first = [
        {e.task.task_id: e for e in next(iter(group.streams.values())) if e.outcome != "error"}
        for group in groups
    ]
    common = [task for task in first[0] if all(task in own for own in first)] if first else []
    by_pattern: dict[tuple[bool, ...], str] = {}
    for task in common:
        pattern = tuple(own[task].outcome == "success" for own in first)
        if len(set(pattern)) > 1:
            by_pattern.setdefault(pattern, task)
    rows = []
    for task in list(by_pattern.values())[:most]:
        for group, own in zip(groups, first, strict=True):
            episode = own[task]
            rows.append(
                {
                    "task": episode.task.description,
                    "type": plain_type(episode.task.task_type),
                    "row": group.label,
                    "outcome": episode.outcome,
                    "steps": len(episode.trajectory.steps) if episode.trajectory else 0,
                    "payload": episode.recall.payload or "(none)",
                }
            )
    return frame(rows)
