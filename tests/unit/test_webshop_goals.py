"""Goals: how many a product gives, their sentences, their frozen prices."""

from __future__ import annotations

import json
import random

import pytest

from jitmem_lab.benchmarks.webshop import frozen
from jitmem_lab.benchmarks.webshop.catalogue import Place, locate
from jitmem_lab.benchmarks.webshop.goals import (
    NO_LIMIT,
    Goal,
    human_goals,
    price_limit,
    shuffled,
    synthetic_goals,
)
from jitmem_lab.errors import UserError

from .webshop_goods import products, write_raw

pytestmark = pytest.mark.unit


@pytest.fixture
def small(tmp_path, monkeypatch) -> Place:
    """The invented products as the small set, with a cache of their own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("JITMEM_DATA", str(tmp_path))
    write_raw(tmp_path / "webshop", name="items_shuffle_1000.json")
    frozen.goals_at.cache_clear()
    yield locate("small")
    frozen.goals_at.cache_clear()


def test_a_synthetic_goal_for_each_combination_of_options():
    goals = list(synthetic_goals(products(), 0))
    assert len(goals) == 4
    assert {goal.asin for goal in goals} == {"A000000001"}
    limit = goals[0].price_upper
    assert goals[0].instruction_text == (
        "Find me machine wash socks with color: red | blue, and size: small"
        f", and price lower than {limit:.2f} dollars"
    )
    assert goals[0].goal_options == {"color": "red | blue", "size": "small"}
    assert len({goal.price_upper for goal in goals}) == 1
    assert all("A0000" not in goal.instruction_text for goal in goals)


def test_a_human_goal_for_each_instruction_that_asks_for_an_attribute():
    (goal,) = human_goals(products(), 0)
    assert goal.goal_options == []
    assert goal.instruction_text == f"i want a table, and price lower than {goal.price_upper:.2f} dollars"


def test_the_same_seed_gives_the_same_goals_whatever_else_is_sold():
    everything = list(synthetic_goals(products(), 5))
    assert everything == list(synthetic_goals(products()[:1], 5))
    assert any(everything != list(synthetic_goals(products(), seed)) for seed in range(5))


def test_price_limits_are_the_larger_of_two_of_the_next_four_tens():
    drawn = {price_limit(12.5, random.Random(seed)) for seed in range(200)}
    assert drawn == {30.0, 40.0, 50.0}
    assert price_limit(20.0, random.Random(0)) > 20
    assert price_limit(980.0, random.Random(0)) == NO_LIMIT


def test_the_order_is_that_of_the_originals_seed():
    rows = list(range(20))
    expected = list(rows)
    random.seed(233)
    random.shuffle(expected)
    assert shuffled(rows) == expected


def test_a_record_survives_and_a_foreign_one_is_refused():
    goal = next(iter(synthetic_goals(products(), 0)))
    assert Goal.of(json.loads(json.dumps(goal.record()))) == goal
    with pytest.raises(UserError, match="no WebShop goal"):
        Goal.of({"asin": "A1"})


def test_goals_are_frozen_in_the_cache(small, monkeypatch):
    goals = frozen.goals_at(small)
    path = frozen.goals_file(small)
    head, *rows = path.read_text().splitlines()
    assert json.loads(head)["count"] == len(rows) == 4
    assert json.loads(head)["price_seed"] == 0
    frozen.goals_at.cache_clear()
    monkeypatch.setattr(frozen, "make_goals", lambda place: pytest.fail("made anew"))
    assert frozen.goals_at(small) == goals


@pytest.mark.parametrize("damage", ["torn", "changed", "other seed", "empty"])
def test_a_damaged_file_of_goals_is_made_anew(small, damage):
    goals = frozen.goals_at(small)
    path = frozen.goals_file(small)
    whole = path.read_text()
    damaged = {
        "torn": whole[:-40],
        "changed": whole.replace("red", "blue"),
        "other seed": whole.replace('"price_seed": 0', '"price_seed": 1'),
        "empty": "",
    }[damage]
    assert damaged != whole
    path.write_text(damaged)
    frozen.goals_at.cache_clear()
    assert frozen.goals_at(small) == goals
    assert path.read_text() == whole


def test_a_cache_that_cannot_be_written_does_not_matter(small, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert len(frozen.goals_at(small)) == 4


def test_products_with_too_many_combinations_are_refused(monkeypatch):
    monkeypatch.setattr("jitmem_lab.benchmarks.webshop.goals.MOST_GOALS", 5)
    with pytest.raises(UserError, match=r"more than 5 combinations.*items_human_ins"):
        shuffled(iter(range(10**9)))
    assert sorted(shuffled(range(5))) == [0, 1, 2, 3, 4]
