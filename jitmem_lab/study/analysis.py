"""Why an ordering came out as it did: by type of task, and by what payloads held of the tasks' solutions."""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..benchmarks import load_benchmark
from ..compare_tables import NONE, percent
from ..comparison import Comparison, Group
from ..errors import JitmemError
from ..frames import frame
from ..inference import detectable_for, holm, paired_test, task_differences
from ..records import Episode
from ..statistics import Streams, difference_interval, paired

if TYPE_CHECKING:
    import pandas as pd

_SHARES = ("none of it", "less than half", "half or more")
"""How much of a solution stands in a payload."""


def plain_type(kind: str) -> str:
    """A type of task in words that a heading can break."""
    return (kind or "no type").replace("_", " ")


def type_table(comparison: Comparison) -> pd.DataFrame:
    """Success in percent by type of task, a row a system; the number of tasks stands beside the type."""
    groups = comparison.groups
    types = Counter({e.task.task_id: e.task.task_type for g in groups for e in g.episodes}.values())
    rows = []
    for group in groups:
        row: dict[str, Any] = {"row": group.label}
        for kind, count in sorted(types.items()):
            row[f"{plain_type(kind)} ({count})"] = _rate(
                [e for e in group.episodes if e.task.task_type == kind]
            )
        rows.append(row)
    return frame(rows)


def _rate(episodes: Sequence[Episode]) -> str:
    won = [episode.outcome == "success" for episode in episodes if episode.outcome != "error"]
    return percent(sum(won) / len(won)) if won else NONE


def type_steps_table(
    comparison: Comparison, labels: Sequence[str], draws: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """The steps of an ordering within each type of task, those that speak against it first.

    In points with 95 % intervals; p as `inference.paired_test` has it, corrected by Holm over all rows. An
    interval from few tasks is a rough one.
    """
    groups = {group.label: group for group in comparison.groups}
    rows: list[dict[str, Any]] = []
    for better, worse in pairwise(label for label in labels if label in groups):
        kinds = {e.task.task_type for e in groups[better].episodes}
        for kind in sorted(kinds):
            pairs = paired(_of_type(groups[worse], kind), _of_type(groups[better], kind))
            gaps, gap = task_differences(pairs), difference_interval(pairs, draws=draws, seed=seed)
            rates = [_rate(_those(groups[label], kind)) for label in (better, worse)]
            rows.append(
                {
                    "step": f"{better} against {worse}",
                    "type": plain_type(kind),
                    "tasks": len(gaps),
                    "SR": " against ".join(rates),
                    "difference": pairs.difference,
                    "95 %": f"{percent(gap[0])} to {percent(gap[1])}" if gap else NONE,
                    "p": paired_test(pairs, draws=draws, seed=seed).p,
                    "p Holm": None,
                    "detectable": percent(detectable_for(pairs)),
                }
            )
    for row, corrected in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p Holm"] = NONE if corrected is None else f"{corrected:.3g}"
        row["p"] = NONE if row["p"] is None else f"{row['p']:.3g}"
    rows.sort(key=lambda row: 0.0 if row["difference"] is None else row["difference"])
    for row in rows:
        row["difference"] = percent(row["difference"])
    return frame(rows)


def _those(group: Group, kind: str) -> list[Episode]:
    return [episode for episode in group.episodes if episode.task.task_type == kind]


def _of_type(group: Group, kind: str) -> Streams:
    return {
        order: [episode for episode in stream if episode.task.task_type == kind]
        for order, stream in group.streams.items()
    }


def solutions(comparison: Comparison) -> dict[str, list[str]]:
    """The benchmark's own solution of each task, by the task's id; those that it has none of are left out."""
    found: dict[str, list[str]] = {}
    for benchmark, split in dict.fromkeys((group.benchmark, group.split) for group in comparison.groups):
        with contextlib.suppress(JitmemError):  # data that are not here: the table is left out
            world = load_benchmark(benchmark, split)
            try:
                for task in world.tasks():
                    found[task.task_id] = world.oracle(task)
            finally:
                world.close()
    return found


def held(payload: str, solution: Sequence[str]) -> float | None:
    """The share of a solution's different actions that stand in a payload word for word, 0 to 1.

    Upper and lower case and spacing make no difference. None without any action.
    """
    actions = {_plain(action) for action in solution} - {""}
    text = _plain(payload)
    there = [re.search(rf"(?<!\w){re.escape(action)}(?!\w)", text) is not None for action in actions]
    return sum(there) / len(there) if there else None


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def solution_table(comparison: Comparison, known: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """What payloads held of the tasks' own solutions, and success by how much, over all orders.

    Only episodes with a payload count; a match of texts says nothing of whether the executor went by it.
    """
    rows = []
    for group in comparison.groups:
        shares: dict[str, list[Episode]] = defaultdict(list)
        every: list[float] = []
        for episode in group.episodes:
            share = held(episode.recall.payload, known.get(episode.task.task_id, ()))
            if episode.outcome == "error" or not episode.recall.payload or share is None:
                continue
            every.append(share)
            shares[_name(share)].append(episode)
        if every:
            row: dict[str, Any] = {"row": group.label, "payloads": len(every)}
            row["of the solution"] = percent(sum(every) / len(every))
            row |= {
                f"SR, {name}": f"{_rate(shares[name])} ({len(shares[name])})" if shares[name] else NONE
                for name in _SHARES
            }
            rows.append(row)
    return frame(rows)


def _name(share: float) -> str:
    return _SHARES[0 if share == 0 else 1 if share < 0.5 else 2]
