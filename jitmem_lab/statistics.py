"""Means over orders, paired intervals and tests, wins and losses, and judges against the environment.

All of it works on episodes: a *stream* is the list of episodes of one run, and what is compared are streams
by replicate (order and seed), `Mapping[replicate, episodes]`. Two systems are compared on pairs: the same
task (benchmark, split, id, trial) in the same replicate. Errors are no results: a pair with one is left out
and counted.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from .errors import UserError
from .frames import frame
from .records import Episode

if TYPE_CHECKING:
    import pandas as pd

Metric = Literal["success", "reward"]
"""`success`: 1 for a success, 0 for a failure. `reward`: the benchmark's own metric, with partial credit."""
Streams = Mapping[Any, Sequence[Episode]]
"""Episodes of one system by replicate."""
TaskKey = tuple[str, str, str, int]
"""Benchmark, split, task id and trial."""


class Interval(NamedTuple):
    """A two-sided interval."""

    low: float
    high: float


def wilson(successes: int, n: int, z: float = 1.959964) -> Interval:
    """Wilson's score interval of a share (E. B. Wilson 1927); 95 % by default, (0, 1) for n = 0."""
    if n == 0:
        return Interval(0.0, 1.0)
    p = successes / n
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    centre = p + z * z / (2 * n)
    low = (centre - spread) / scale if successes else 0.0
    high = (centre + spread) / scale if successes < n else 1.0
    return Interval(low, high)


class Spread(NamedTuple):
    """A mean over replicates."""

    mean: float | None
    """None without any."""
    std: float | None
    """Sample standard deviation (n - 1); None for fewer than two."""
    n: int
    """Replicates."""


def mean_std(values: Sequence[float]) -> Spread:
    """Mean and sample standard deviation."""
    if not values:
        return Spread(None, None, 0)
    std = float(np.std(values, ddof=1)) if len(values) > 1 else None
    return Spread(float(np.mean(values)), std, len(values))


def value(episode: Episode, metric: Metric = "success") -> float | None:
    """What an episode counts; None for an error, and for a reward that is missing."""
    if episode.outcome == "error" or episode.trajectory is None:
        return None
    if metric == "success":
        return float(episode.outcome == "success")
    return episode.trajectory.reward


def task_key(episode: Episode) -> TaskKey:
    """By what episodes of two systems are matched."""
    return (episode.task.benchmark, episode.task.split, episode.task.task_id, episode.trial)


def over_orders(streams: Streams, metric: Metric = "success") -> Spread:
    """Mean and sample std, over replicates, of each replicate's mean; one without a result is left out."""
    means = []
    for episodes in streams.values():
        found = [v for v in (value(e, metric) for e in episodes) if v is not None]
        if found:
            means.append(sum(found) / len(found))
    return mean_std(means)


class Table(NamedTuple):
    """Values of one system, or differences of two, by replicate and task."""

    replicates: list[Hashable]
    """Rows."""
    tasks: list[TaskKey]
    """Columns."""
    values: np.ndarray
    """Float array of shape (replicates, tasks), NaN where there is none."""


def value_table(streams: Streams, metric: Metric = "success") -> Table:
    """The values of one system; NaN for errors and for tasks that a replicate did not play."""
    tasks = sorted({task_key(e) for episodes in streams.values() for e in episodes})
    place = {key: column for column, key in enumerate(tasks)}
    values = np.full((len(streams), len(tasks)), np.nan)
    for row, episodes in enumerate(streams.values()):
        for episode in episodes:
            found = value(episode, metric)
            if found is not None:
                values[row, place[task_key(episode)]] = found
    return Table(list(streams), tasks, values)


class Pairs(NamedTuple):
    """Two systems on the same tasks in the same replicates."""

    replicates: list[Hashable]
    """Replicates that both have, in order of the first."""
    tasks: list[TaskKey]
    """Tasks of at least one pair."""
    a: np.ndarray
    """Values of the first, of shape (replicates, tasks), NaN where there is no pair."""
    b: np.ndarray
    """Values of the second, NaN in the same places."""
    errors: int
    """Pairs left out because one side ended in an error or was not scored."""
    unmatched: int
    """Episodes with a result whose partner was never played."""

    @property
    def number(self) -> int:
        """How many pairs there are."""
        return int(np.isfinite(self.a).sum())

    @property
    def difference(self) -> float | None:
        """Mean, over replicates, of each one's mean of b - a; None without any pair."""
        gaps = [row[np.isfinite(row)].mean() for row in self.b - self.a if np.isfinite(row).any()]
        return float(np.mean(gaps)) if gaps else None


def paired(a: Streams, b: Streams, metric: Metric = "success") -> Pairs:
    """The pairs of two systems."""
    common = [replicate for replicate in a if replicate in b]
    rows: list[dict[TaskKey, tuple[float, float]]] = []
    errors = unmatched = 0
    for replicate in common:
        left = {task_key(e): value(e, metric) for e in a[replicate]}
        right = {task_key(e): value(e, metric) for e in b[replicate]}
        unmatched += _scored(left, right) + _scored(right, left)
        both = [(key, left[key], right[key]) for key in left if key in right]
        found = {key: (x, y) for key, x, y in both if x is not None and y is not None}
        errors += len(both) - len(found)
        rows.append(found)
    for streams, other in ((a, b), (b, a)):
        for replicate in streams:
            if replicate not in other:
                unmatched += sum(value(e, metric) is not None for e in streams[replicate])
    tasks = sorted({key for row in rows for key in row})
    grid = np.full((2, len(rows), len(tasks)), np.nan)
    for number, row in enumerate(rows):
        for column, key in enumerate(tasks):
            if key in row:
                grid[:, number, column] = row[key]
    return Pairs(common, tasks, grid[0], grid[1], errors, unmatched)


def _scored(values: Mapping[TaskKey, float | None], other: Mapping[TaskKey, float | None]) -> int:
    """How many results have no partner."""
    return sum(found is not None and key not in other for key, found in values.items())


def bootstrap(
    values: np.ndarray, *, draws: int = 10_000, seed: int = 0, level: float = 0.95
) -> Interval | None:
    """Percentile interval of the mean of the rows' means of a (replicates, tasks) array with gaps.

    Replicates and tasks are each drawn with replacement (the pigeonhole bootstrap, A. B. Owen 2007, which is
    rather too wide than too narrow). A replicate weighs the same however many of its tasks are known, as in
    the means that the interval belongs to; one without any is left out, as is a task that no replicate
    knows. With one replicate only tasks are drawn. Equal seeds give equal intervals.

    Returns:
        None for fewer than two tasks, or where all values are equal: it can't tell what it never saw.

    Raises:
        UserError: No draws, or a negative seed.
    """
    if draws < 1 or seed < 0:
        raise UserError(f"draws must be 1 or more, and seed 0 or more, not {draws} and {seed}")
    seen = np.isfinite(values)
    values = values[seen.any(axis=1)][:, seen.any(axis=0)]
    rows, columns = values.shape
    if columns < 2 or _constant(values) is not None:
        return None
    known = np.isfinite(values).astype(float)
    filled = np.where(known > 0, values, 0.0)
    random = np.random.default_rng(seed)
    means = []
    for start in range(0, draws, 1000):
        size = min(1000, draws - start)
        by_task = random.multinomial(columns, np.full(columns, 1 / columns), size=size).astype(float)
        by_row = random.multinomial(rows, np.full(rows, 1 / rows), size=size).astype(float)
        sums, counts = by_task @ filled.T, by_task @ known.T
        weights = by_row * (counts > 0)
        of_rows = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        drawn = weights.sum(axis=1) > 0
        means.append((weights * of_rows).sum(axis=1)[drawn] / weights.sum(axis=1)[drawn])
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(means), [tail, 1 - tail])
    return Interval(float(low), float(high))


def _constant(values: np.ndarray) -> float | None:
    """The one value that there is, if there is but one."""
    found = np.unique(values[np.isfinite(values)])
    return float(found[0]) if len(found) == 1 else None


def rate_interval(
    streams: Streams, metric: Metric = "success", *, draws: int = 10_000, seed: int = 0
) -> Interval | None:
    """95 % interval of a system's mean, by `bootstrap` over tasks and replicates.

    Where all was won or all lost: Wilson's interval for that many tasks, each counted once.
    """
    found = value_table(streams, metric)
    constant = _constant(found.values)
    if constant in (0.0, 1.0):
        tasks = int(np.isfinite(found.values).any(axis=0).sum())
        return wilson(tasks if constant else 0, tasks)
    return bootstrap(found.values, draws=draws, seed=seed)


def difference_interval(pairs: Pairs, *, draws: int = 10_000, seed: int = 0) -> Interval | None:
    """95 % interval of the mean of b - a, by `bootstrap` over tasks and replicates.

    Where no pair differs, or all do in the same way: what Wilson's limit for 0 of so many tasks leaves open.
    """
    constant = _constant(pairs.b - pairs.a)
    if constant in (-1.0, 0.0, 1.0):
        room = wilson(0, len(pairs.tasks)).high
        return Interval(max(-1.0, constant - room), min(1.0, constant + room))
    return bootstrap(pairs.b - pairs.a, draws=draws, seed=seed)


class McNemar(NamedTuple):
    """McNemar's exact test of one replicate."""

    only_a: int
    """Pairs that only the first won."""
    only_b: int
    """Pairs that only the second won."""
    p: float
    """Two-sided p value."""


def mcnemar(only_a: int, only_b: int) -> McNemar:
    """The exact test: the smaller count against a fair coin, both tails (Q. McNemar 1947)."""
    n, tail, ways = only_a + only_b, 0, 1
    for i in range(min(only_a, only_b) + 1):
        tail += ways
        ways = ways * (n - i) // (i + 1)
    return McNemar(only_a, only_b, min(1.0, 2 * tail / 2**n))


def mcnemar_by_replicate(pairs: Pairs) -> dict[Hashable, McNemar]:
    """The test for each replicate that has a pair, on pairs of successes and failures.

    Replicates aren't pooled: the same task in two orders is no second, independent pair.
    """
    found: dict[Hashable, McNemar] = {}
    for replicate, a, b in zip(pairs.replicates, pairs.a, pairs.b, strict=True):
        if np.isfinite(a).any():
            found[replicate] = mcnemar(int((a > b).sum()), int((b > a).sum()))
    return found


def wins_losses(pairs: Pairs, descriptions: Mapping[TaskKey, str] | None = None) -> pd.DataFrame:
    """One row a task: how often each system won it, of how many pairs, and who did better.

    `better` is a or b; where they won equally often, both if they won every pair, neither if none, else
    equal. Most instructive rows first: tasks that only one of them wins.
    """

    rows = []
    for column, key in enumerate(pairs.tasks):
        a, b = pairs.a[:, column], pairs.b[:, column]
        n, won_a, won_b = int(np.isfinite(a).sum()), float(np.nansum(a)), float(np.nansum(b))
        equal = "neither" if won_a == 0 else "both" if won_a == n else "equal"
        better = "a" if won_a > won_b else "b" if won_b > won_a else equal
        rows.append(
            {
                "benchmark": key[0],
                "split": key[1],
                "task_id": key[2],
                "trial": key[3],
                "task": (descriptions or {}).get(key, ""),
                "pairs": n,
                "a": won_a,
                "b": won_b,
                "better": better,
            }
        )
    columns = ["benchmark", "split", "task_id", "trial", "task", "pairs", "a", "b", "better"]
    found = frame(rows, columns)
    gap = (found["b"] - found["a"]).abs()
    return found.assign(gap=gap).sort_values("gap", ascending=False, kind="stable").drop(columns="gap")


class Confusion(NamedTuple):
    """A judge's verdicts against the environment."""

    true_positive: int
    """Both say success."""
    false_positive: int
    """Only the judge says success."""
    true_negative: int
    """Both say failure."""
    false_negative: int
    """Only the environment says success."""
    unknown: int
    """No usable verdict."""

    @property
    def judged(self) -> int:
        """Usable verdicts."""
        return sum(self[:4])

    @property
    def agreement(self) -> float | None:
        """Share of usable verdicts that agree."""
        return (self.true_positive + self.true_negative) / self.judged if self.judged else None

    @property
    def precision(self) -> float | None:
        """Share of what the judge lets in that is a success."""
        taken = self.true_positive + self.false_positive
        return self.true_positive / taken if taken else None

    @property
    def recall(self) -> float | None:
        """Share of the successes that the judge lets in."""
        won = self.true_positive + self.false_negative
        return self.true_positive / won if won else None


def confusion(episodes: Sequence[Episode]) -> Confusion | None:
    """Verdicts of a model against outcomes; None where no model judged. Errors are left out."""
    counts = dict.fromkeys(Confusion._fields, 0)
    for episode in episodes:
        if episode.outcome == "error" or episode.verdict.source == "environment":
            continue
        said = episode.verdict.success
        if said is None:
            counts["unknown"] += 1
        else:
            right = "true" if said == (episode.outcome == "success") else "false"
            counts[f"{right}_{'positive' if said else 'negative'}"] += 1
    return Confusion(**counts) if any(counts.values()) else None


class Curve(NamedTuple):
    """Success so far over the stream, mean of the replicates."""

    played: list[int]
    """Episodes with a result, from 1 to as many as the longest replicate has."""
    mean: list[float]
    """Share of successes among the first so many, mean over replicates that have as many."""
    low: list[float]
    """Lowest of these replicates; where there is but one, the low end of its 95 % Wilson interval."""
    high: list[float]
    """Highest, likewise."""


def learning_curve(streams: Streams) -> Curve:
    """The learning curve of one system; an unfinished replicate counts as far as it got."""
    won = [
        [found for found in (value(e) for e in sorted(s, key=lambda e: e.position)) if found is not None]
        for s in streams.values()
    ]
    length = max(map(len, won), default=0)
    if not length:
        return Curve([], [], [], [])
    counts = np.full((len(won), length), np.nan)
    for row, own in enumerate(won):
        counts[row, : len(own)] = np.cumsum(own)
    shares = counts / np.arange(1, length + 1)
    mean, low, high = (f(shares, axis=0).tolist() for f in (np.nanmean, np.nanmin, np.nanmax))
    wins = np.nansum(counts, axis=0).tolist()
    for place in np.flatnonzero(np.isfinite(counts).sum(axis=0) == 1).tolist():
        low[place], high[place] = wilson(int(wins[place]), place + 1)
    return Curve(list(range(1, length + 1)), mean, low, high)
