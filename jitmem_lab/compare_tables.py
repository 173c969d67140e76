"""The paper's tables for what was run, as frames: our figures, and the paper's cells in their own columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .accounting import Prices, cost_rows, per_task
from .comparison import Comparison, Group, Replicate
from .frames import frame
from .prompt_prefixes import PrefixShare, prefix_rows
from .published import BENCHMARKS, GPT, Published, check_executors, find, heading
from .statistics import (
    Metric,
    Spread,
    confusion,
    mean_std,
    over_orders,
    paired,
    rate_interval,
    task_key,
    wins_losses,
)
from .write_counts import write_counts

if TYPE_CHECKING:
    import pandas as pd

NONE = "–"
"""Stands where there is no figure."""
METHOD = ("bootstrap", "Wilson")
"""What an interval was made by; the second where nothing varies."""


def _frame(rows: list[dict[str, Any]]) -> pd.DataFrame:
    return frame(rows)


def percent(number: float | None, digits: int = 1) -> str:
    """A share in percent, without the sign."""
    return NONE if number is None else f"{100 * number:.{digits}f}"


def spread(found: Spread) -> str:
    """Mean and, where there is one, std in percent: `47.9 (1.2)`, as the paper prints them."""
    return percent(found.mean) if found.std is None else f"{percent(found.mean)} ({percent(found.std)})"


def _number(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:,.{digits}f}"


def coverage(comparison: Comparison) -> pd.DataFrame:
    """What was read: a row a system and split, with orders, episodes, errors, what is owed, writes."""
    rows = []
    for group in comparison.groups:
        errors = sum(episode.outcome == "error" for episode in group.episodes)
        written: Counter[str] = Counter()
        for run in group.runs.values():
            written.update(write_counts(run)._asdict())
        planned = sum((run.settings.get("tasks") or {}).get("count") or 0 for run in group.runs.values())
        rows.append(
            {
                **place_cells(group),
                "orders": ", ".join(map(str, group.runs)),
                "episodes": len(group.episodes) - errors,
                "errors": errors,
                "owed": max(0, planned - len(group.episodes) + errors),
                "writes": written["changed"],
                "empty writes": written["empty"],
                "refused parts": written["refused"],
                "failed writes": written["failed"],
                "folders": ", ".join(str(run.path) for run in group.runs.values()),
            }
        )
    return _frame(rows)


def place_cells(group: Group) -> dict[str, str]:
    """Model, memory, benchmark and split: the cells that tell a row's system."""
    model = short_model(group.model)
    return {"model": model, "memory": group.label, "benchmark": group.benchmark, "split": group.split}


def short_model(name: str) -> str:
    """A model's name without the address of its server."""
    return name.partition("#")[2] or name


def _metrics(group: Group) -> tuple[Metric, ...]:
    return ("success", "reward") if group.graded else ("success",)


def rates(comparison: Comparison, draws: int = 10_000, seed: int = 0) -> pd.DataFrame:
    """Every rate at full precision, as shares: mean, std over orders, 95 % interval over tasks and orders."""
    rows = []
    for group in comparison.groups:
        for metric in _metrics(group):
            found = over_orders(group.streams, metric)
            interval = rate_interval(group.streams, metric, draws=draws, seed=seed)
            rows.append(
                {
                    **place_cells(group),
                    "metric": "score" if metric == "reward" else metric,
                    "orders": found.n,
                    "episodes": sum(e.outcome != "error" for e in group.episodes),
                    "mean": found.mean,
                    "std": found.std,
                    "low": interval.low if interval else None,
                    "high": interval.high if interval else None,
                    "interval by": NONE if interval is None else METHOD[found.mean in (0.0, 1.0)],
                }
            )
    return _frame(rows)


def table_1(comparison: Comparison, executors: Sequence[str] = ()) -> pd.DataFrame:
    """Success rate (SR) and score in percent by memory, mean (std over orders), for all but τ²-bench.

    Args:
        comparison: The runs.
        executors: Executors whose published cells stand beside, in columns that say so. Rows of the paper
            that no run stands beside come last.

    Raises:
        UserError: An executor that the paper does not have.
    """
    check_executors(executors)
    groups = [group for group in comparison.groups if group.benchmark != "tau2"]
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for group in groups:
        row = rows.setdefault((group.model, group.label), {})
        row |= {"model": short_model(group.model), "memory": group.label}
        for metric in _metrics(group):
            what = "score" if metric == "reward" else "SR"
            column = f"{BENCHMARKS.get(group.benchmark, group.benchmark)} {group.split} {what}"
            row[column] = spread(over_orders(group.streams, metric))
        row["orders"] = str(max(int(row.get("orders", 0)), len(group.runs)))
    benchmarks = {group.benchmark for group in groups}
    return _with_paper(list(rows.values()), "1", executors, benchmarks)


def table_2(comparison: Comparison, paper: bool = True) -> pd.DataFrame:
    """τ²-bench: success rate by split, micro average over tasks and macro average over splits.

    The averages are over all splits that stand in the table, and only of rows that have them all, order by
    order. Empty where τ² was not run.
    """
    groups = [group for group in comparison.groups if group.benchmark == "tau2"]
    splits = sorted({group.split for group in groups})
    rows: dict[tuple[str, str], dict[str, str]] = {}
    for model, label in dict.fromkeys((group.model, group.label) for group in groups):
        own = {g.split: g for g in groups if (g.model, g.label) == (model, label)}
        row = {"model": short_model(model), "memory": label}
        row |= {f"{s} SR": spread(over_orders(own[s].streams)) if s in own else NONE for s in splits}
        micro, macro = _averages([own[s] for s in splits]) if set(own) == set(splits) else ([], [])
        row |= {"micro average": spread(mean_std(micro)), "macro average": spread(mean_std(macro))}
        rows[model, label] = row | {"orders": str(max(len(g.runs) for g in own.values()))}
    if not rows:
        return _frame([])
    return _with_paper(list(rows.values()), "2", [GPT] if paper else [], {"tau2"}, "micro average")


def _averages(groups: Sequence[Group]) -> tuple[list[float], list[float]]:
    """Micro and macro averages of each order that all groups have."""
    micro, macro = [], []
    common: list[Replicate] = [r for r in groups[0].runs if all(r in group.runs for group in groups)]
    for replicate in common:
        scored = [
            [e.outcome == "success" for e in group.streams[replicate] if e.outcome != "error"]
            for group in groups
        ]
        if all(scored):
            micro.append(sum(map(sum, scored)) / sum(map(len, scored)))
            macro.append(sum(sum(won) / len(won) for won in scored) / len(scored))
    return micro, macro


def table_4(comparison: Comparison, prices: Prices | None = None, paper: bool = True) -> pd.DataFrame:
    """Tokens and steps a task: the executor's alone, as in the paper's table, then those of all roles.

    Means over orders. Calls and tokens are of models that write; what an embedder read stands in a column of
    its own. What attempts that ended in errors and the warm start cost is no task's: it stands at the end, a
    run.
    """
    rows = []
    for group in comparison.groups:
        found = [per_task(one, prices) for one in group.accounts.values()]
        mean = {
            name: mean_std([each[name] for each in found if each[name] is not None]).mean  # type: ignore[misc]
            for name in found[0]
        }
        rows.append(
            place_cells(group)
            | {
                "executor input K": _number(mean["executor_input_k"]),
                "executor output K": _number(mean["executor_output_k"]),
                "steps": _number(mean["steps"], 1),
                "all roles input K": _number(mean["all_input_k"]),
                "all roles output K": _number(mean["all_output_k"]),
                "embedded K": _number(mean["embedded_k"]),
                "calls": _number(mean["calls"], 1),
                "model s": _number(mean["seconds"], 1),
                "price $": _number(mean["price"], 4),
                "lost K a run": _number(mean["lost_k"], 1),
                "warm start K a run": _number(mean["warm_k"], 1),
            }
        )
    benchmarks = {group.benchmark for group in comparison.groups}
    return _with_paper(rows, "4", [GPT] if paper and "alfworld" in benchmarks else [], {"alfworld"})


def _with_paper(
    rows: list[dict[str, Any]],
    table: str,
    executors: Sequence[str],
    benchmarks: set[str],
    what: str = "",
) -> pd.DataFrame:
    """Rows of ours with the paper's cells beside them, each in a column that names its source.

    `what` stands instead of the cells' own metric. Rows of the paper beside none of ours come last.
    """
    alone: dict[str, dict[str, Any]] = {}
    for executor in executors:
        cells = [cell for cell in find(table, executor) if cell.benchmark in benchmarks]
        beside: set[str] = set()
        for row in rows:
            if row.get("benchmark") in (None, *benchmarks):
                own = [cell for cell in cells if cell.memory and cell.memory == row["memory"]]
                row |= _cells(own, executor, what)
                beside |= {cell.row for cell in own}
        for name in dict.fromkeys(cell.row for cell in cells):
            if name not in beside:
                row = alone.setdefault(name, {"model": NONE, "memory": NONE})
                row |= _cells([cell for cell in cells if cell.row == name], executor, what)
    printed = [cell.row for cell in find(table)]
    last = sorted(alone.items(), key=lambda item: printed.index(item[0]))
    frame = _frame([*rows, *(row for _, row in last)])
    theirs = [column for column in frame if str(column).startswith("paper, ")]
    return frame[[*(column for column in frame if column not in theirs), *theirs]].fillna(NONE)


def _cells(cells: Sequence[Published], executor: str, what: str) -> dict[str, str]:
    """Published cells by column, with the paper's name of their row."""
    if not cells:
        return {}
    named = {f"{heading(executor)}: row": cells[0].row}
    return named | {f"{heading(executor)}: {what}" if what else c.column: c.text for c in cells}


def cost_table(comparison: Comparison, prices: Prices | None = None) -> pd.DataFrame:
    """Calls, tokens, seconds and price by stage, role and phase, a finished episode, mean over orders.

    Orders are weighed as in `table_4`, so that rows of the stages `episode` and `write` add up to its figures
    (embedders' tokens and calls stand in rows of their own here). Of a system that finished no episode the
    rows tell who was asked, without figures.
    """
    rows = []
    for group in comparison.groups:
        accounts = [one for one in group.accounts.values() if one.episodes] or [*group.accounts.values()]
        parts: dict[tuple[str, str, str, str], list[dict[str, Any]]] = {}
        for one in accounts:
            for row in cost_rows(one, prices):
                figures = {name: _share(row[name], one.episodes) for name in _COSTS}
                key = (row["stage"], row["role"], row["phase"], row["model"])
                parts.setdefault(key, []).append(figures)
        for (stage, role, phase, model), own in sorted(parts.items()):
            place = {"stage": stage, "role": role, "phase": phase, "asked": short_model(model)}
            means = {name: _over([each[name] for each in own], len(accounts)) for name in _COSTS}
            rows.append(place_cells(group) | place | means)
    return _frame(rows)


_COSTS = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "seconds", "price", "paid")


def _share(value: float | None, episodes: int) -> float | None:
    return None if value is None or not episodes else value / episodes


def _over(values: Sequence[float | None], orders: int) -> float | None:
    """A mean over orders, of which those without a value add nothing; None where a value is missing."""
    known = [value for value in values if value is not None]
    return sum(known) / orders if len(known) == len(values) else None


def prefix_table(comparison: Comparison) -> pd.DataFrame:
    """The share of prompts that a server's prefix cache could reuse, by role and phase, over all orders."""
    rows = []
    for group in comparison.groups:
        sums: dict[tuple[str, str, str], PrefixShare] = {}
        for run in group.runs.values():
            for row in prefix_rows(run):
                key = (row["model"], row["role"], row["phase"])
                before = sums.get(key, PrefixShare(0, 0, 0))
                counts = (row["prompts"], row["characters"], row["reusable"])
                sums[key] = PrefixShare(*(a + b for a, b in zip(before, counts, strict=True)))
        for (model, role, phase), found in sums.items():
            row = (
                place_cells(group)
                | {"asked": short_model(model), "role": role, "phase": phase}
                | found._asdict()
            )
            rows.append(row | {"share %": percent(found.share)})
    return _frame(rows)


def judge_table(comparison: Comparison) -> pd.DataFrame:
    """Verdicts of models against the environment; empty where none judged."""
    rows = []
    for group in comparison.groups:
        found = confusion(group.episodes)
        if found is not None:
            names = ("true positive", "false positive", "true negative", "false negative", "unknown")
            rows.append(
                place_cells(group)
                | dict(zip(names, found, strict=True))
                | {
                    "agreement %": percent(found.agreement),
                    "precision %": percent(found.precision),
                    "recall %": percent(found.recall),
                }
            )
    return _frame(rows)


def task_table(comparison: Comparison, label: str, baseline: str = "none") -> pd.DataFrame:
    """Wins of a system and of the baseline by task, over all orders; tasks that only one wins come first."""
    import pandas as pd

    frames = []
    for group in comparison.groups:
        base = comparison.baseline(group, baseline)
        if group.label == label and base is not None:
            told = {task_key(e): e.task.description for e in group.episodes}
            frame = wins_losses(paired(base.streams, group.streams), told)
            better = frame["better"].map({"a": base.label, "b": group.label}).fillna(frame["better"])
            frame = frame.assign(better=better).rename(columns={"a": base.label, "b": group.label})
            frames.append(frame.assign(model=short_model(group.model)))
    return pd.concat(frames, ignore_index=True) if frames else _frame([])
