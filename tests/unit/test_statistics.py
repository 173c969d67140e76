"""Figures against known values and brute force, on records with gaps, errors and odd rewards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.records import Episode, Task, Trajectory, Verdict
from jitmem_lab.statistics import (
    Confusion,
    bootstrap,
    confusion,
    difference_interval,
    learning_curve,
    mcnemar,
    mcnemar_by_replicate,
    mean_std,
    over_orders,
    paired,
    rate_interval,
    task_key,
    value,
    value_table,
    wilson,
    wins_losses,
)

pytestmark = pytest.mark.unit


def episode(name: str, outcome: str, position: int = 0, **more: Any) -> Episode:
    """An episode of task `name`; `w`, `l` and `e` are won, lost and error."""
    ended = {"w": "success", "l": "failure", "e": "error"}[outcome]
    task = Task(benchmark="b", split="s", task_id=name, description=f"do {name}")
    reward = more.pop("reward", float(outcome == "w"))
    trajectory = Trajectory(task=task, outcome=ended, reward=reward) if outcome != "e" else None
    return Episode(
        key=name, position=position, batch=0, task=task, outcome=ended, trajectory=trajectory, **more
    )


def stream(outcomes: str, names: Sequence[str] | None = None, **more: Any) -> list[Episode]:
    """One episode a letter, of tasks 0, 1, …"""
    names = names or [str(number) for number in range(len(outcomes))]
    return [
        episode(name, outcome, n, **more)
        for n, (name, outcome) in enumerate(zip(names, outcomes, strict=True))
    ]


# Means


def test_mean_and_sample_std() -> None:
    assert mean_std([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]) == (5.0, pytest.approx(math.sqrt(32 / 7)), 8)
    assert mean_std([3.0]) == (3.0, None, 1)
    assert mean_std([]) == (None, None, 0)


def test_orders_are_averaged_as_orders_and_errors_are_no_results() -> None:
    streams = {0: stream("wwll"), 1: stream("wwwe"), 2: stream("eeee")}
    assert over_orders(streams) == (0.75, pytest.approx(math.sqrt(0.125)), 2)
    assert over_orders({}) == (None, None, 0)


def test_the_reward_is_the_benchmarks_own_and_a_missing_one_is_no_zero() -> None:
    episodes = [
        episode("a", "l", reward=0.5),
        episode("b", "w", reward=1.0),
        episode("c", "l", reward=None),
        episode("d", "l", reward=float("nan")),
        episode("e", "e"),
    ]
    assert [value(e, "reward") for e in episodes] == [0.5, 1.0, None, None, None]
    assert over_orders({0: episodes}, "reward").mean == 0.75
    assert over_orders({0: episodes}).mean == 0.25


# Pairs


def test_pairs_are_matched_by_task_within_an_order() -> None:
    a = {0: stream("wlwl"), 1: stream("wwll")}
    b = {0: stream("lwwl", ["1", "0", "3", "2"]), 1: stream("llww")}
    pairs = paired(a, b)
    assert pairs.replicates == [0, 1]
    assert [key[2] for key in pairs.tasks] == ["0", "1", "2", "3"]
    assert pairs.a.tolist() == [[1, 0, 1, 0], [1, 1, 0, 0]]
    assert pairs.b.tolist() == [[1, 0, 0, 1], [0, 0, 1, 1]]
    assert (pairs.number, pairs.errors, pairs.unmatched) == (8, 0, 0)
    assert pairs.difference == 0.0


def test_errors_leave_both_sides_and_what_has_no_partner_is_counted() -> None:
    pairs = paired({0: stream("wle"), 1: stream("w")}, {0: stream("ewww"), 2: stream("lle")})
    assert [key[2] for key in pairs.tasks] == ["1"]
    assert pairs.a.tolist() == [[0.0]]
    assert pairs.b.tolist() == [[1.0]]
    assert pairs.errors == 2
    assert pairs.unmatched == 1 + 1 + 2  # task 3 in order 0, order 1 of a, two results of order 2 of b
    assert pairs.difference == 1.0
    nothing = paired({0: stream("w")}, {1: stream("w")})
    assert (nothing.number, nothing.difference, difference_interval(nothing)) == (0, None, None)


def test_a_task_that_stands_twice_in_a_stream_is_two_pairs() -> None:
    twice = [episode("a", "w"), episode("a", "l", trial=1)]
    pairs = paired({0: twice}, {0: [episode("a", "l", trial=1), episode("a", "w")]})
    assert pairs.number == 2
    assert pairs.difference == 0.0


def test_tasks_of_other_splits_are_other_tasks() -> None:
    other = episode("0", "w").model_copy(
        update={"task": Task(benchmark="b", split="other", task_id="0", description="")}
    )
    assert task_key(other) != task_key(episode("0", "w"))
    assert paired({0: stream("w")}, {0: [other]}).number == 0


# Intervals


def test_the_interval_of_one_order_agrees_with_the_exact_distribution_of_the_mean() -> None:
    values = np.array([[1.0, 0.0, 1.0, 1.0, 0.0]])
    means = sorted(sum(draw) / 5 for draw in itertools.product(values[0], repeat=5))
    low, high = bootstrap(values, draws=20_000) or (0, 0)
    assert low == means[round(0.025 * len(means))]
    assert high == means[round(0.975 * len(means)) - 1]


def test_the_interval_resamples_orders_and_tasks() -> None:
    """By the definition: rows and columns drawn, the mean of the means of the rows' cells that are known."""
    values = np.array([[1.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0], [1.0, 0.5, 1.0, 1.0]])
    values = np.repeat(values, 2, axis=1)
    values[0, 4] = values[2, 2] = np.nan
    random = np.random.default_rng(5)
    rows, columns = random.integers(0, 3, (20_000, 3)), random.integers(0, 8, (20_000, 8))
    means = np.nanmean(values[rows[:, :, None], columns[:, None, :]], axis=2).mean(axis=1)
    low, high = bootstrap(values, draws=20_000) or (0, 0)
    assert low == pytest.approx(np.quantile(means, 0.025), abs=0.02)
    assert high == pytest.approx(np.quantile(means, 0.975), abs=0.02)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from("wl"), min_size=2, max_size=30), st.integers(0, 3))
def test_the_interval_holds_the_mean_and_equal_seeds_give_equal_ones(outcomes: list[str], seed: int) -> None:
    streams = {0: stream("".join(outcomes))}
    low, high = rate_interval(streams, draws=2000, seed=seed) or (2, 2)
    assert 0 <= low <= value_table(streams).values.mean() <= high <= 1
    assert rate_interval(streams, draws=2000, seed=seed) == (low, high)


def test_an_order_weighs_the_same_in_mean_and_interval_however_far_it_got() -> None:
    streams = {0: stream("wl" * 50), 1: stream("ww")}
    low, high = rate_interval(streams) or (0, 0)
    assert over_orders(streams).mean == 0.75
    assert low < 0.75 < high
    assert low > 0.40, "of 100 pooled episodes it would be 0.41 to 0.61"
    assert high == 1.0
    pairs = paired({0: stream("l" * 100), 1: stream("ll")}, streams)
    assert pairs.difference == 0.75
    assert difference_interval(pairs) == (low, high)


def test_orders_and_tasks_without_a_result_change_no_interval() -> None:
    known = {0: stream("wlwwl"), 1: stream("lllww")}
    more = {order: [*episodes, episode("broken", "e", 5)] for order, episodes in known.items()}
    assert rate_interval(more | {2: stream("eeeee")}) == rate_interval(known)


def test_a_paired_interval_is_narrower_than_the_systems_apart() -> None:
    random = np.random.default_rng(0)
    hard = random.random(100)
    a = "".join("w" if h < 0.4 else "l" for h in hard)
    b = "".join("w" if h < 0.5 else "l" for h in hard)
    pairs = paired({0: stream(a)}, {0: stream(b)})
    low, high = difference_interval(pairs) or (0, 0)
    assert 0 < low < pairs.difference < high
    one, other = bootstrap(pairs.a) or (0, 0), bootstrap(pairs.b) or (0, 0)
    assert high - low < (one[1] - one[0] + other[1] - other[0]) / 2


def test_no_interval_from_nothing_or_one_task() -> None:
    assert bootstrap(np.zeros((1, 0))) is None
    assert bootstrap(np.zeros((3, 1))) is None
    assert bootstrap(np.full((2, 5), np.nan)) is None
    assert bootstrap(np.ones((2, 5))) is None
    assert rate_interval({}) is None


def test_where_nothing_varies_the_interval_says_how_little_is_known() -> None:
    lost, won = {0: stream("l" * 20), 1: stream("l" * 20)}, {0: stream("w" * 20), 1: stream("w" * 20)}
    assert rate_interval(lost) == wilson(0, 20)
    assert rate_interval(won) == wilson(20, 20)
    room = wilson(0, 20).high
    assert difference_interval(paired(lost, lost)) == (-room, room)
    assert difference_interval(paired(lost, won)) == (1 - room, 1)
    assert difference_interval(paired(won, lost)) == (-1, room - 1)
    mixed = {0: stream("w" + "l" * 19)}
    assert difference_interval(paired(mixed, mixed)) == (-room, room)
    half = {0: [episode(str(n), "l", reward=0.5) for n in range(3)]}
    assert rate_interval(half, "reward") is None


def test_the_interval_covers_the_truth_about_as_often_as_it_says() -> None:
    """Two systems with a common difficulty a task: 95 % intervals of their difference over 200 worlds."""
    random = np.random.default_rng(1)
    covered = 0
    for world in range(200):
        hard = random.random(60)
        a = (random.random((3, 60)) < hard).astype(float)
        b = (random.random((3, 60)) < np.minimum(hard + 0.1 * (1 - hard), 1)).astype(float)
        low, high = bootstrap(b - a, draws=500, seed=world) or (0, 0)
        covered += low <= 0.05 <= high
    assert covered >= 186  # a true 95 % gives fewer in 1 of 60 tries; this one is rather too wide


# McNemar


@pytest.mark.parametrize(
    ("only_a", "only_b", "p"),
    [
        # As scipy.stats.binomtest(only_a, only_a + only_b) has it.
        (0, 0, 1.0),
        (1, 0, 1.0),
        (5, 0, 0.0625),
        (6, 0, 0.03125),
        (10, 10, 1.0),
        (1, 9, 0.021484375),
        (59, 6, 4.9646503e-12),
        (86, 150, 3.715e-05),
    ],
)
def test_mcnemar_is_the_exact_binomial(only_a: int, only_b: int, p: float) -> None:
    assert mcnemar(only_a, only_b).p == pytest.approx(p, rel=1e-3)
    assert mcnemar(only_b, only_a).p == mcnemar(only_a, only_b).p


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 12), st.integers(0, 12))
def test_mcnemar_sums_what_is_no_likelier(only_a: int, only_b: int) -> None:
    """By the definition: of all fair splits of n pairs, the share that is as uneven or more."""
    n = only_a + only_b
    uneven = sum(
        Fraction(math.comb(n, i), 2**n) for i in range(n + 1) if abs(2 * i - n) >= abs(only_a - only_b)
    )
    assert mcnemar(only_a, only_b).p == pytest.approx(float(uneven))


def test_mcnemar_of_thousands_of_pairs_is_a_number() -> None:
    assert 0 < mcnemar(3000, 3100).p < 1
    assert mcnemar(0, 5000).p == 0.0


def test_each_order_is_tested_alone() -> None:
    pairs = paired({0: stream("wwwl"), 1: stream("llll")}, {0: stream("llww"), 1: stream("wwww")})
    found = mcnemar_by_replicate(pairs)
    assert found[0][:2] == (2, 1)
    assert found[1][:2] == (0, 4)
    unplayed = paired({0: stream("wl"), 1: stream("ee")}, {0: stream("ww"), 1: stream("ww")})
    assert list(mcnemar_by_replicate(unplayed)) == [0], "no pair is no test"


# Wins and losses, judge, curve


def test_wins_and_losses_put_tasks_first_that_only_one_wins() -> None:
    a, b = {0: stream("wwll"), 1: stream("wlle")}, {0: stream("wlwl"), 1: stream("wlww")}
    frame = wins_losses(paired(a, b), {task_key(e): e.task.description for e in a[0]})
    assert list(frame["task_id"]) == ["2", "1", "0", "3"]
    assert list(frame["task"]) == ["do 2", "do 1", "do 0", "do 3"]
    assert list(frame["better"]) == ["b", "a", "both", "neither"]
    assert list(frame["pairs"]) == [2, 2, 2, 1]
    assert frame[["a", "b"]].to_numpy().tolist() == [[0, 2], [1, 0], [2, 2], [0, 0]]
    assert len(wins_losses(paired({}, {}))) == 0
    once = wins_losses(paired({0: stream("w"), 1: stream("l")}, {0: stream("l"), 1: stream("w")}))
    assert list(once["better"]) == ["equal"], "each won it once"


def test_the_judge_against_the_environment() -> None:
    def judged(outcome: str, said: bool | None, source: str = "judge") -> Episode:
        return episode("x", outcome, verdict=Verdict(success=said, source=source))

    episodes = [
        judged("w", True),
        judged("w", True),
        judged("l", True),
        judged("l", False),
        judged("w", False),
        judged("w", None),
        judged("l", None, "none"),
        judged("e", None, "none"),
    ]
    found = confusion(episodes)
    assert found == Confusion(2, 1, 1, 1, 2)
    assert found.agreement == 0.6
    assert found.precision == found.recall == pytest.approx(2 / 3)
    assert confusion([judged("w", True, "environment")]) is None
    assert Confusion(0, 0, 0, 0, 3).agreement is None


def test_the_learning_curve_is_the_share_so_far() -> None:
    one = learning_curve({0: stream("wle" + "w")})
    assert one.played == [1, 2, 3]
    assert one.mean == pytest.approx([1, 1 / 2, 2 / 3])
    assert one.low[2] == wilson(2, 3).low
    two = learning_curve({0: stream("wlw"), 1: stream("ww"), 2: stream("e")})
    assert two.played == [1, 2, 3], "an unfinished order does not cut the others short"
    assert two.mean == pytest.approx([1, 0.75, 2 / 3])
    assert (two.low[:2], two.high[:2]) == ([1, 0.5], [1, 1])
    assert (two.low[2], two.high[2]) == wilson(2, 3)
    backwards = learning_curve({0: list(reversed(stream("wll")))})
    assert backwards.mean == pytest.approx([1, 1 / 2, 1 / 3])
    assert learning_curve({}).played == []
