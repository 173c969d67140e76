"""Corrections, tests over tasks and what can be detected: against definitions, brute force and simulation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.compare_pairs import order_notes, pair_table, steps_table
from jitmem_lab.comparison import Comparison
from jitmem_lab.errors import UserError
from jitmem_lab.inference import detectable, detectable_for, few_orders, holm, paired_test, task_differences
from jitmem_lab.statistics import Pairs, mcnemar, paired

from .compared import make_run, make_runs

pytestmark = pytest.mark.unit
SHARES = st.floats(0, 1, allow_nan=False)


def pairs_of(gaps: Sequence[Sequence[float]]) -> Pairs:
    """Pairs whose b - a is this, of shape (orders, tasks), NaN where there is none."""
    given_ = np.array(gaps, dtype=float)
    keys = [("b", "s", str(n), 0) for n in range(given_.shape[1])]
    a = np.where(np.isnan(given_), np.nan, np.maximum(0.0, -given_))
    return Pairs(list(range(len(given_))), keys, a, a + given_, 0, 0)


# Holm


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm({"a": 0.02, "b": None, "c": 0.04}) == {"a": 0.04, "b": None, "c": 0.04}
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.5]) == [0.5]
    assert holm([None]) == [None]
    assert (holm([]), holm({})) == ([], {})


@settings(deadline=None)
@given(st.lists(SHARES, min_size=1, max_size=6))
def test_holm_is_the_closure_of_bonferroni(p_values: list[float]) -> None:
    """By definition: a hypothesis is as doubtful as the least doubtful set with it, each by Bonferroni."""
    places = range(len(p_values))
    sets = [s for size in range(1, len(p_values) + 1) for s in itertools.combinations(places, size)]
    worst = [
        max(min(1.0, len(s) * min(p_values[i] for i in s)) for s in sets if place in s) for place in places
    ]
    assert holm(p_values) == pytest.approx(worst)


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan])
def test_holm_takes_shares_only(wrong: float) -> None:
    with pytest.raises(UserError, match="between 0 and 1"):
        holm([0.5, wrong])


# One p over all orders


@settings(deadline=None)
@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=60))
def test_of_one_order_it_is_mcnemars_exact_test(gaps: list[int]) -> None:
    found = paired_test(pairs_of([gaps]))
    assert found.p == pytest.approx(mcnemar(gaps.count(-1), gaps.count(1)).p, rel=1e-9)
    assert found[1:] == (len(gaps), 1, len(gaps) - gaps.count(0), "exact")


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(1, 9), st.integers(0, 10_000))
def test_it_is_the_share_of_all_signs_that_lie_as_far_also_with_gaps(
    orders: int, tasks: int, seed: int
) -> None:
    gaps = np.random.default_rng(seed).choice([-1, 0, 1, np.nan], (orders, tasks)).astype(float)
    means = [np.mean(c[np.isfinite(c)]) for c in gaps.T if np.isfinite(c).any()]
    found = paired_test(pairs_of(gaps.tolist()))
    if not means:
        assert found == (None, 0, 0, 0, "exact")
        return
    far = [
        abs(np.dot(signs, means)) >= abs(sum(means)) - 1e-9
        for signs in itertools.product((-1, 1), repeat=len(means))
    ]
    assert found.p == pytest.approx(np.mean(far))
    assert found.orders == sum(np.isfinite(row).any() for row in gaps)


def test_it_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    gaps = np.random.default_rng(2).choice([-1, 0, 0, 1, 1], (3, 12)).astype(float)
    means = gaps.mean(axis=0)
    theirs = stats.permutation_test(
        (means,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    assert paired_test(pairs_of(gaps.tolist())).p == pytest.approx(theirs.pvalue)


def test_orders_of_the_same_tasks_are_no_new_tasks() -> None:
    once = [1, 1, 1, 1, -1, 0]
    assert paired_test(pairs_of([once] * 5)).p == paired_test(pairs_of([once])).p == 0.375
    assert mcnemar(5, 20).p < 0.005, "pooled, the same five tasks would look like twenty-five"


def test_it_rejects_as_rarely_as_it_says_where_tasks_differ_and_pooling_does_not() -> None:
    """Each task suits one system or the other, in all three orders, and neither on the whole."""
    random, worlds, wrong, pooled = np.random.default_rng(4), 600, 0, 0
    for _ in range(worlds):
        leaning = random.choice([-0.8, 0.8], 50)
        gaps = np.where(random.random((3, 50)) < np.abs(leaning), np.sign(leaning), 0.0)
        wrong += (paired_test(pairs_of(gaps.tolist())).p or 0) < 0.05
        pooled += mcnemar(int((gaps < 0).sum()), int((gaps > 0).sum())).p < 0.05
    assert 0.02 * worlds < wrong < 0.08 * worlds
    assert pooled > 0.15 * worlds


def test_rewards_are_enumerated_or_drawn_and_draws_agree_with_the_exact_value() -> None:
    gaps = np.round(np.random.default_rng(3).normal(0.2, 0.5, (2, 16)).clip(-1, 1), 2)
    exact = paired_test(pairs_of(gaps.tolist()))
    assert exact.method == "exact"
    more = pairs_of(np.hstack([gaps, [[0.0001] * 4] * 2]).tolist())  # too small to count, but twenty tasks
    drawn = paired_test(more, draws=20_000)
    assert (drawn.method, drawn.nonzero) == ("Monte Carlo", 20)
    assert drawn.p == pytest.approx(exact.p, abs=0.015)
    assert paired_test(more, draws=20_000) == drawn
    assert paired_test(more, draws=20_000, seed=1).p != drawn.p
    clear = pairs_of(np.linspace(0.2, 0.9, 40)[None, :].tolist())
    assert paired_test(clear, draws=99).p == 0.01, "never below 1 / (1 + draws)"


def test_rewards_that_sum_to_the_same_do_not_differ() -> None:
    gaps = pairs_of([[0.1, 0.3], [0.2, -0.1], [-0.3, -0.2]])
    assert task_differences(gaps).tolist() == [0.0, 0.0]
    assert paired_test(gaps)[:4] == (1.0, 2, 3, 0)


def test_hundreds_of_tasks_in_many_uneven_orders_have_a_p_at_once() -> None:
    random = np.random.default_rng(6)
    gaps = random.choice([-1, 0, 0, 1], (12, 300)).astype(float)
    gaps[random.random(gaps.shape) < 0.2] = np.nan
    found = paired_test(pairs_of(gaps.tolist()), draws=2000)
    assert found.method == "Monte Carlo", "sums of a 27720th of a win are too many"
    means = task_differences(pairs_of(gaps.tolist()))
    normal = math.erfc(abs(means.sum()) / math.sqrt(2 * (means**2).sum()))
    assert found.p == pytest.approx(normal, abs=0.04)


def test_draws_and_seeds_that_cannot_be_are_told() -> None:
    for wrong in ({"draws": 0}, {"seed": -1}):
        with pytest.raises(UserError, match="draws must be"):
            paired_test(pairs_of([[1.0]]), **wrong)  # type: ignore[arg-type]


# What can be detected


@pytest.mark.parametrize(("tasks", "share"), [(60, 0.5), (140, 0.3), (500, 0.1)])
def test_a_detectable_difference_is_found_four_times_of_five(tasks: int, share: float) -> None:
    gap = detectable(tasks, share) or 0
    random = np.random.default_rng(7)
    ways = [(share + gap) / 2, (share - gap) / 2, 1 - share]
    only_b, only_a, _ = random.multinomial(tasks, ways, 4000).T
    z = (only_b - only_a) / np.sqrt(np.maximum(1, only_a + only_b))
    assert (z > 1.96).mean() == pytest.approx(0.8, abs=0.025)
    exact = np.mean([mcnemar(int(a), int(b)).p < 0.05 for a, b in zip(only_a, only_b, strict=True)])
    assert 0.7 < exact < 0.8, "the exact test wants somewhat more"


def test_over_three_orders_it_is_found_four_times_of_five() -> None:
    """Differences of 0 to 3 orders in fixed shares, with as many for the one system as the size asks."""
    random, tasks = np.random.default_rng(8), 140
    sizes = np.repeat([0, 1, 2, 3], [84, 35, 14, 7])

    def study(for_b: float) -> Pairs:
        drawn = random.choice(sizes, tasks) * np.where(random.random(tasks) < (1 + for_b) / 2, 1, -1)
        return pairs_of(np.sign(drawn) * (np.arange(3)[:, None] < np.abs(drawn)))  # type: ignore[arg-type]

    gap = detectable(tasks, float(((sizes / 3) ** 2).mean()), orders=3) or 0
    found = [(paired_test(study(gap / (sizes / 3).mean())).p or 0) < 0.05 for _ in range(1500)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.04)
    assert np.mean([detectable_for(study(0.3)) for _ in range(200)]) == pytest.approx(gap, rel=0.03)


def test_it_solves_its_formula_and_bounds_what_is_discordant() -> None:
    z, reach = 1.959964, 0.841621
    gap = detectable(200, 0.25) or 0
    assert math.sqrt(200) * gap == pytest.approx(z * 0.5 + reach * math.sqrt(0.25 - gap**2), abs=1e-5)
    bounded = detectable(20, 0.0) or 0
    assert 20 * bounded == pytest.approx((z + reach * math.sqrt(1 - bounded)) ** 2, rel=1e-4)
    assert detectable(20, 0.1) == bounded, "a difference of 30 points wants 30 discordant tasks of a hundred"
    assert detectable(3, 0.5) is None
    assert (detectable(100, 0.2, power=0.9) or 0) > (detectable(100, 0.2) or 0)
    assert (detectable(100, 0.2, alpha=0.01) or 0) > (detectable(100, 0.2) or 0)


def test_more_orders_of_noise_show_smaller_differences_and_no_difference_shows_no_orders() -> None:
    random = np.random.default_rng(9)
    one, four = random.choice([-1, 0, 1], (1, 100)), random.choice([-1, 0, 1], (4, 100))
    assert detectable_for(pairs_of(four)) == pytest.approx(  # type: ignore[arg-type]
        (detectable_for(pairs_of(one)) or 0) / 2,  # type: ignore[arg-type]
        rel=0.2,
    )
    alike = [[0] * 100]
    assert detectable_for(pairs_of(alike * 4)) == detectable_for(pairs_of(alike)) == detectable(100, 0.0)
    assert detectable_for(paired({}, {})) is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_tasks": 0},
        {"discordant_share": 1.2},
        {"discordant_share": math.nan},
        {"power": 0.3},
        {"power": 1.0},
        {"alpha": 0.0},
        {"orders": 0},
    ],
)
def test_a_design_that_cannot_be_is_told(wrong: dict[str, float]) -> None:
    with pytest.raises(UserError):
        detectable(**({"n_tasks": 10, "discordant_share": 0.2} | wrong))  # type: ignore[arg-type]


# Few orders


def test_few_orders_are_told() -> None:
    assert "nothing can be told" in (few_orders(0) or "")
    assert "one order: no std" in (few_orders(1) or "")
    assert "0.4 to 32 times" in (few_orders(2) or "")
    assert "2/3 of the variance" in (few_orders(3) or "")
    assert few_orders(4) is None


@pytest.mark.parametrize(("n", "low", "high"), [(2, 0.446, 31.9), (3, 0.521, 6.28)])
def test_a_std_of_few_orders_is_as_uncertain_as_it_says(n: int, low: float, high: float) -> None:
    found = np.random.default_rng(10).normal(size=(200_000, n)).std(axis=1, ddof=1)
    assert np.quantile(1 / found, [0.025, 0.975]) == pytest.approx([low, high], rel=0.05)
    assert f"{low:.1f} to {high:.0f} times" in (few_orders(n) or "")


# Tables


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    root = tmp_path_factory.mktemp("compared")
    make_runs(root)
    return Comparison.read(root)


def group_pairs(comparison: Comparison, better: str, worse: str, split: str) -> Pairs:
    by_name = {(g.label, g.split): g for g in comparison.groups}
    return paired(by_name[worse, split].streams, by_name[better, split].streams)


def test_an_ordering_is_told_step_by_step_and_from_end_to_end(comparison: Comparison) -> None:
    table = steps_table(comparison, ["jitmem", "raw", "none"], draws=500)
    seen = table[table["split"] == "valid_seen"]
    assert list(zip(seen["memory"], seen["against"], strict=True)) == [
        ("jitmem", "raw"),
        ("raw", "none"),
        ("jitmem", "none"),
    ]
    others = table[table["split"] != "valid_seen"]
    assert set(zip(others["memory"], others["against"], strict=True)) == {("jitmem", "none")}
    assert others["split"].tolist() == ["airline", "retail", "small_test", "small_test"]
    for row in seen.to_dict("records"):
        pairs = group_pairs(comparison, row["memory"], row["against"], "valid_seen")
        gaps = np.nanmean(pairs.b - pairs.a, axis=0)
        assert row["difference"] == f"{100 * (pairs.difference or 0):.1f}"
        assert (row["wins"], row["losses"]) == ((gaps > 0).sum(), (gaps < 0).sum())
        assert (row["orders"], row["tasks"]) == (3, 10)
        assert row["p"] == f"{paired_test(pairs).p:.3g}"
        assert row["detectable"] == f"{100 * (detectable_for(pairs) or 0):.1f}"


def test_turning_an_ordering_around_turns_its_signs(comparison: Comparison) -> None:
    up, down = (
        steps_table(comparison, names, draws=50) for names in (["jitmem", "none"], ["none", "jitmem"])
    )
    assert len(up) == 5, "two systems are one step each place"
    assert [-float(x) for x in up["difference"]] == [float(x) for x in down["difference"]]
    assert up["wins"].tolist() == down["losses"].tolist()
    assert up["p"].tolist() == down["p"].tolist()


def test_p_is_corrected_over_the_rows_of_the_table(comparison: Comparison) -> None:
    for table in (steps_table(comparison, ["jitmem", "none"], draws=200), pair_table(comparison, draws=200)):
        adjusted = holm([float(p) for p in table["p"]])
        assert [float(p) for p in table["p Holm"]] == pytest.approx(adjusted, rel=0.01)
        assert table["p Holm"].tolist() != table["p"].tolist()


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        (["none"], "two different systems"),
        (["none", "none"], "two different systems"),
        ([], "two different systems or more, not none"),
        (["none", "jitmen"], "did you mean 'jitmem'"),
    ],
)
def test_an_ordering_that_cannot_be_is_told(comparison: Comparison, labels: list[str], told: str) -> None:
    with pytest.raises(UserError, match=told):
        steps_table(comparison, labels)


def test_a_memory_names_a_system_only_where_there_is_one(tmp_path: Path) -> None:
    for memory, k in (("none", 1), ("raw", 1), ("raw", 3)):
        make_run(tmp_path / f"{memory}{k}", "alfworld", "s", memory, 0, k=k)
    comparison = Comparison.read(tmp_path)
    with pytest.raises(UserError, match=r"several systems in one place.*raw k=1, raw k=3"):
        steps_table(comparison, ["raw", "none"])
    assert len(steps_table(comparison, ["raw k=3", "raw k=1", "none"], draws=50)) == 3


def test_without_a_common_order_nothing_is_tested(tmp_path: Path) -> None:
    make_run(tmp_path / "none", "alfworld", "s", "none", 0)
    make_run(tmp_path / "raw", "alfworld", "s", "raw", 1)
    (row,) = steps_table(Comparison.read(tmp_path), ["raw", "none"], draws=50).to_dict("records")
    assert {row[name] for name in ("difference", "95 % bootstrap", "p", "p Holm", "detectable")} == {"–"}
    assert (row["orders"], row["tasks"], row["wins"]) == (0, 0, 0)


def test_notes_name_whose_orders_are_few(comparison: Comparison, tmp_path: Path) -> None:
    two, three = sorted(order_notes(comparison), key=lambda note: "3 orders" in note)
    assert three.startswith("none on alfworld valid_seen; raw on alfworld valid_seen; jitmem on alfworld")
    assert three.endswith(few_orders(3) or "?")
    assert "none on tau2 airline" in two
    for order in range(4):
        make_run(tmp_path / f"none{order}", "alfworld", "s", "none", order)
    assert order_notes(Comparison.read(tmp_path)) == []
    make_run(tmp_path / "raw", "alfworld", "s", "raw", 0)
    assert order_notes(Comparison.read(tmp_path)) == [f"raw on alfworld s: {few_orders(1)}"]
    alone = Comparison([group for group in Comparison.read(tmp_path).groups if group.label == "raw"])
    assert order_notes(alone) == [f"all systems: {few_orders(1)}"]
