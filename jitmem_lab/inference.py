"""What many pairs of systems in several orders need: one p each, its correction, what can be detected.

`statistics` has what one pair in one order needs; `compare_pairs` has the tables with all of it.

Orders of the same tasks are no new tasks. A task counts once, by its mean over orders, and what is said holds
for the orders that were played: how much another order would change is told by the std over orders alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np

from .errors import UserError
from .statistics import Pairs

Name = TypeVar("Name", bound=Hashable)
Method = Literal["exact", "Monte Carlo"]
FEW = 3
"""Orders up to which a warning is given: as many as the paper has on most benchmarks."""
_TOTAL = 2**20
"""Largest sum of whole differences whose distribution is computed in full."""
_ENUMERATED = 16
"""Most tasks whose signs are all gone through where differences are no whole numbers."""


@overload
def holm(p_values: Mapping[Name, float | None]) -> dict[Name, float | None]: ...
@overload
def holm(p_values: Sequence[float | None]) -> list[float | None]: ...
def holm(p_values: Any) -> Any:
    """Adjusted p values by the step-down procedure of S. Holm (1979), valid however the tests depend.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none is below the one before it, nor
    above 1. None is no test: it stays None and does not count.

    Returns:
        As given: a dict for a mapping, a list for a sequence.

    Raises:
        UserError: A p value that is not within 0 and 1.
    """
    named = dict(p_values) if isinstance(p_values, Mapping) else dict(enumerate(p_values))
    tests = {name: p for name, p in named.items() if p is not None}
    for p in tests.values():
        if not 0 <= p <= 1:
            raise UserError(f"a p value lies between 0 and 1, {p} doesn't")
    adjusted, least = dict.fromkeys(named), 0.0
    for rank, name in enumerate(sorted(tests, key=tests.__getitem__)):
        least = max(least, min(1.0, (len(tests) - rank) * tests[name]))
        adjusted[name] = least
    return adjusted if isinstance(p_values, Mapping) else list(adjusted.values())


class PairedTest(NamedTuple):
    """A test of two systems over tasks."""

    p: float | None
    """Two-sided p value; None without any pair."""
    tasks: int
    """Tasks with a pair."""
    orders: int
    """Orders with a pair."""
    nonzero: int
    """Tasks whose mean over orders differs: the others don't move p."""
    method: Method
    """Whether p is exact, or by draws and so never below 1 / (1 + draws)."""


def paired_test(pairs: Pairs, *, draws: int = 10_000, seed: int = 0) -> PairedTest:
    """One p for two systems over all orders: the signs of the tasks' mean differences are flipped.

    The randomisation test for paired samples (R. A. Fisher 1935, E. J. G. Pitman 1937). If the systems were
    alike, each task's mean difference over its orders would as likely have the other sign; p is the share
    of all ways to choose the signs whose sum is at least as far from zero. Of one order it is McNemar's exact
    test. Pooling the pairs of all orders, as if they were new tasks, would give too small a p.

    It takes tasks for independent, which a stream's are not quite: what memory took in by luck shifts many
    of a run together. More orders help; the test doesn't tell.

    Args:
        pairs: Successes and failures, or rewards. A task counts once, however many orders have it.
        draws, seed: For rewards that differ on more than 16 tasks, and whole sums too large to go through;
            then p = (1 + draws at least as far) / (1 + draws).

    Raises:
        UserError: No draws, or a negative seed.
    """
    if draws < 1 or seed < 0:
        raise UserError(f"draws must be 1 or more, and seed 0 or more, not {draws} and {seed}")
    gaps = task_differences(pairs)
    moved = gaps[gaps != 0]
    if not len(gaps):
        return PairedTest(None, 0, 0, 0, "exact")
    p, method = _flipped(pairs, moved, draws, seed)
    return PairedTest(p, len(gaps), tested_orders(pairs), len(moved), method)


def task_differences(pairs: Pairs) -> np.ndarray:
    """Each task's mean of b - a over the orders that have the pair; float array of shape (tasks,)."""
    gaps = (pairs.b - pairs.a)[:, np.isfinite(pairs.a).any(axis=0)]
    means = np.nansum(gaps, axis=0) / np.isfinite(gaps).sum(axis=0)
    return np.where(np.abs(means) < 1e-12, 0.0, means)  # rewards that add up to the same, but for rounding


def tested_orders(pairs: Pairs) -> int:
    """Orders that have a pair."""
    return int(np.isfinite(pairs.a).any(axis=1).sum()) if pairs.a.size else 0


def _binary(pairs: Pairs) -> bool:
    """Whether all values are successes and failures."""
    both = np.stack([pairs.a, pairs.b])
    return bool(np.isin(both[np.isfinite(both)], (0.0, 1.0)).all())


def _flipped(pairs: Pairs, moved: np.ndarray, draws: int, seed: int) -> tuple[float, Method]:
    """The share of signs whose sum is as far from zero as that of `moved`, of shape (tasks,)."""
    if _binary(pairs):
        unit = math.lcm(*{int(n) for n in np.isfinite(pairs.a).sum(axis=0) if n})
        whole = [round(gap * unit) for gap in moved.tolist()]
        if sum(map(abs, whole)) <= _TOTAL:
            return _by_sums(whole), "exact"
    least = abs(moved.sum()) - 1e-9 * np.abs(moved).sum()
    if len(moved) <= _ENUMERATED:
        sums = np.zeros(1)
        for gap in moved:
            sums = np.concatenate([sums + gap, sums - gap])
        return float((np.abs(sums) >= least).mean()), "exact"
    random, far = np.random.default_rng(seed), 0
    for start in range(0, draws, 1000):
        signs = random.choice((-1.0, 1.0), size=(min(1000, draws - start), len(moved)))
        far += int((np.abs(signs @ moved) >= least).sum())
    return (1 + far) / (1 + draws), "Monte Carlo"


def _by_sums(whole: Sequence[int]) -> float:
    """The exact p of whole differences: the distribution of their sum under free signs, by convolution."""
    total, observed = sum(map(abs, whole)), abs(sum(whole))
    chance = np.ones(1)  # by the sum of those with sign +; the signed sum is twice it less the total
    for size in map(abs, whole):
        longer = np.zeros(len(chance) + size)
        longer[: len(chance)] += chance / 2
        longer[size:] += chance / 2
        chance = longer
    return min(1.0, float(chance[np.abs(2 * np.arange(total + 1) - total) >= observed].sum()))


def detectable(
    n_tasks: int, discordant_share: float, power: float = 0.8, alpha: float = 0.05, orders: float = 1
) -> float | None:
    """The smallest difference of success rates that a paired design shows with that power.

    From the sample size of McNemar's test (O. S. Miettinen 1968; R. J. Connor 1987), solved for the
    difference d: sqrt(n) d = z(1 - alpha / 2) sqrt(s) + z(power) sqrt(s - d²), with s the discordant share.
    A normal approximation, two-sided: the exact test wants somewhat more, most of all with few tasks.

    Args:
        n_tasks: Tasks, each played by both.
        discordant_share: Share of tasks that one system alone wins; over several orders the mean square of
            the tasks' mean differences, which is the same with one. It is held fixed, but raised where a
            difference could not be without more: it is d / orders at the least, and d² at the least.
        power: Chance of a p below alpha if the true difference is as large.
        alpha: Level of the test, two-sided, of this pair alone.
        orders: Orders over which a task's difference is a mean; `math.inf` for rewards.

    Returns:
        A fraction (0.1 is ten points); None where so few tasks show no difference at all.

    Raises:
        UserError: No task or order, a share or an alpha outside 0 to 1, a power outside 0.5 to 1.
    """
    if n_tasks < 1 or orders < 1:
        raise UserError(f"there must be a task and an order, not {n_tasks} and {orders}")
    if not 0 <= discordant_share <= 1:
        raise UserError(f"a share lies between 0 and 1, {discordant_share} doesn't")
    if not (0.5 <= power < 1 and 0 < alpha < 1):
        raise UserError(f"power is from 0.5 to below 1, alpha between 0 and 1, not {power} and {alpha}")
    level, reach = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(power)

    def shown(d: float) -> bool:
        share = max(discordant_share, d / orders, d * d)
        return math.sqrt(n_tasks) * d >= level * math.sqrt(share) + reach * math.sqrt(share - d * d)

    if not shown(1.0):
        return None
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def detectable_for(pairs: Pairs, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """The smallest difference that a study like these pairs shows: as many tasks, orders, and as much spread.

    It assumes that a new study's tasks differ as much as these did (mean square of their mean differences,
    itself an estimate), that tasks are independent, and that the orders are those that were played. It says
    nothing on whether this study's own difference is real. Where no task differs, each counts as in one
    order.

    Returns:
        A fraction; None without a pair, or where so few tasks show nothing.

    Raises:
        UserError: As `detectable`.
    """
    gaps = task_differences(pairs)
    if not len(gaps):
        return None
    orders = 1 if not gaps.any() else tested_orders(pairs) if _binary(pairs) else math.inf
    return detectable(len(gaps), min(1.0, float((gaps**2).mean())), power, alpha, orders)


def few_orders(n_orders: int) -> str | None:
    """What has to be told of a std or an interval over so few orders; None for more than three.

    The range of a std is that of a normal sample's, from the chi-squared distribution with n - 1 degrees of
    freedom. Drawing n rows with replacement shows (n - 1) / n of their variance.
    """
    if n_orders < 1:
        return "no order has a result, so nothing can be told"
    if n_orders == 1:
        return (
            "one order: no std, and intervals and p tell of tasks alone; what another order of them would "
            "change is unknown"
        )
    if n_orders > FEW:
        return None
    low, high = _std_range(n_orders)
    return (
        f"{n_orders} orders: few, though published tables have hardly more; the true std may well be "
        f"{low:.1f} to {high:.0f} times the one shown (95 %), and the bootstrap shows only "
        f"{n_orders - 1}/{n_orders} of the variance between orders"
    )


def _std_range(n: int) -> tuple[float, float]:
    """95 % limits of a true std as multiples of a sample's, of 2 or 3 values (closed quantiles)."""
    if n == 2:
        upper, lower = (NormalDist().inv_cdf(p) ** 2 for p in (0.9875, 0.5125))
    else:
        upper, lower = -2 * math.log(0.025), -2 * math.log(0.975)
    return math.sqrt((n - 1) / upper), math.sqrt((n - 1) / lower)
