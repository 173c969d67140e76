"""An ordering by type of task, and how much of the tasks' solutions the payloads held."""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..benchmarks import load_benchmark
from ..compare_pairs import corrected, figures
from ..compare_tables import NONE, percent
from ..comparison import Comparison, Group, Replicate
from ..frames import frame
from ..inference import task_differences
from ..records import Episode
from ..statistics import over_orders, paired

if TYPE_CHECKING:
    import pandas as pd

_SHARES = ("none of it", "some, less than half", "half or more")
"""How much of a solution stands in a payload."""


def plain_type(kind: str) -> str:
    """A type of task in words that a heading can break."""
    return (kind or "no type").replace("_", " ")


def type_table(comparison: Comparison) -> pd.DataFrame:
    """Success in percent by type of task, mean over orders; the number of tasks stands beside the type."""
    groups = comparison.groups
    types = Counter({e.task.task_id: e.task.task_type for g in groups for e in g.episodes}.values())
    rows = []
    for group in groups:
        row: dict[str, Any] = {"row": group.label}
        for kind, count in sorted(types.items()):
            row[f"{plain_type(kind)} ({count})"] = _rate(group, kind)
        rows.append(row)
    return frame(rows)


def _of_type(group: Group, kind: str) -> dict[Replicate, list[Episode]]:
    return {
        order: [episode for episode in stream if episode.task.task_type == kind]
        for order, stream in group.streams.items()
    }


def _rate(group: Group, kind: str) -> str:
    return percent(over_orders(_of_type(group, kind)).mean)


def type_steps_table(
    comparison: Comparison, labels: Sequence[str], draws: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """The steps of an ordering within each type of task, those that speak against it first.

    Figures as in `compare_pairs.steps_table`, p corrected for all rows. An interval from few tasks is a rough
    one.
    """
    groups = {group.label: group for group in comparison.groups}
    found: list[tuple[float, dict[str, Any]]] = []
    for better, worse in pairwise(groups[label] for label in labels if label in groups):
        for kind in sorted({episode.task.task_type for episode in better.episodes}):
            pairs = paired(_of_type(worse, kind), _of_type(better, kind))
            row = {
                "step": f"{better.label} against {worse.label}",
                "type": plain_type(kind),
                "tasks": len(task_differences(pairs)),
                "SR": f"{_rate(better, kind)} against {_rate(worse, kind)}",
            }
            found.append((pairs.difference or 0.0, row | figures(pairs, draws, seed)))
    return corrected([row for _, row in sorted(found, key=itemgetter(0))])


def solutions(comparison: Comparison) -> dict[str, list[str]]:
    """The benchmark's own solution of each task that was played, by the task's id, where it has one here."""
    played = {episode.task.task_id for group in comparison.groups for episode in group.episodes}
    found: dict[str, list[str]] = {}
    for benchmark, split in dict.fromkeys((group.benchmark, group.split) for group in comparison.groups):
        with (
            contextlib.suppress(Exception),  # data that are not here or damaged: runs are reported without
            contextlib.closing(load_benchmark(benchmark, split)) as world,
        ):
            for task in world.tasks():
                with contextlib.suppress(Exception):
                    found |= {task.task_id: world.oracle(task)} if task.task_id in played else {}
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
                f"SR, {name}": f"{_pooled(shares[name])} ({len(shares[name])})" if shares[name] else NONE
                for name in _SHARES
            }
            rows.append(row)
    return frame(rows)


def _pooled(episodes: Sequence[Episode]) -> str:
    """Success in percent of episodes with a result, whatever their order."""
    return percent(sum(episode.outcome == "success" for episode in episodes) / len(episodes))


def _name(share: float) -> str:
    return _SHARES[0 if share == 0 else 1 if share < 0.5 else 2]
