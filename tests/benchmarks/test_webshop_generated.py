"""Shopping in the synthetic catalogue: every goal can be met, and harder goals are met less by rote."""

from __future__ import annotations

import random
from collections.abc import Iterator
from statistics import mean

import pytest

pytest.importorskip("spacy")
pytest.importorskip("thefuzz")
pytest.importorskip("Stemmer")

from jitmem_lab.benchmarks.floors import play, random_policy
from jitmem_lab.benchmarks.webshop import generated
from jitmem_lab.benchmarks.webshop.benchmark import Webshop
from jitmem_lab.benchmarks.webshop.catalogue import Catalogue, catalogue_at, locate
from jitmem_lab.benchmarks.webshop.engine import Answer, Shopping
from jitmem_lab.benchmarks.webshop.goals import Goal
from jitmem_lab.benchmarks.webshop.oracle import solve
from jitmem_lab.benchmarks.webshop.queries import suggested

pytestmark = pytest.mark.benchmarks

ROWS = {split: generated.goals(split) for split in generated.SPLITS}
SAMPLED = [*ROWS["test"], *ROWS["dev"][::3], *ROWS["train"][::6]]


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return catalogue_at(locate("generated"))


@pytest.fixture(scope="module")
def webshop() -> Iterator[Webshop]:
    made = Webshop("generated_test")
    yield made
    made.close()


def buy_first(catalogue: Catalogue, goal: Goal, choose: bool) -> Answer:
    """Search for the whole wish, take the first hit, perhaps click what the goal names, buy."""
    shopping = Shopping(catalogue, goal)
    hits = shopping.step(f"search[{suggested(goal.instruction_text)[-1]}]")
    first = next(text for text in hits.page.clickables if text.startswith("g0"))
    item = shopping.step(f"click[{first}]")
    assert isinstance(goal.goal_options, dict)
    for name, value in goal.goal_options.items():
        if choose and item.page.clickables.get(value) == name:
            shopping.step(f"click[{value}]")
    return shopping.step("click[buy now]")


def rewards(catalogue: Catalogue, grade: int, choose: bool) -> list[float]:
    rows = [row for rows in ROWS.values() for row in rows if row["difficulty"] == grade]
    return [buy_first(catalogue, Goal.of(row), choose).reward for row in rows]


def test_the_oracle_scores_one_on_every_goal(catalogue: Catalogue) -> None:
    for row in SAMPLED:
        solution = solve(catalogue, Goal.of(row))
        assert solution.reachable
        assert solution.reward == 1, row["instruction_text"]
        assert solution.actions[-1] == "click[buy now]"


def test_no_price_that_a_page_allows_breaks_a_limit(catalogue: Catalogue) -> None:
    for rows in ROWS.values():
        for row in rows:
            product = catalogue.product(row["asin"])
            assert product is not None
            assert product.pricing[0] <= catalogue.price(product) <= max(product.pricing) < row["price_upper"]


def test_the_first_search_that_an_instruction_suggests_shows_the_target(catalogue: Catalogue) -> None:
    """And leaves options and price out, whichever sentence frame the instruction has."""
    for rows in ROWS.values():
        for row in rows:
            core, *_ = suggested(row["instruction_text"])
            assert row["query"] in core
            assert not any(value in core.split() for value in row["goal_options"].values())
            assert "dollars" not in core
            assert row["asin"] in catalogue.search(core)


def test_buying_the_first_hit_is_worth_less_on_harder_goals(catalogue: Catalogue) -> None:
    bare = {grade: rewards(catalogue, grade, choose=False) for grade in (1, 2, 3)}
    chosen = {grade: rewards(catalogue, grade, choose=True) for grade in (1, 2, 3)}
    for grade in (1, 2, 3):
        for how, found in (("first hit", bare[grade]), ("with options", chosen[grade])):
            solved = mean(reward == 1 for reward in found)
            print(f"grade {grade}, {how}: {mean(found):.3f} score, {solved:.3f} success")
    for found in (bare, chosen):
        success = {grade: mean(reward == 1 for reward in found[grade]) for grade in found}
        assert success[1] > success[2] > success[3]
        assert mean(found[1]) > mean(found[2]) > mean(found[3])
    assert mean(reward == 1 for reward in bare[3]) == 0
    assert mean(reward == 1 for reward in chosen[3]) < 0.6


def test_floors_are_low(webshop: Webshop) -> None:
    tasks = webshop.tasks()
    shown = webshop.make_env(tasks[0])
    assert play(shown, lambda seen: webshop.noop, 3) == (False, 0.0, 3)
    shown.close()
    played = []
    for number, task in enumerate(random.Random(0).sample(tasks, 25)):
        env = webshop.make_env(task)
        played.append(play(env, random_policy(number), webshop.max_steps))
        env.close()
    assert mean(each.reward for each in played) < 0.4
    assert sum(each.success for each in played) <= 2


def test_grades_reach_the_tasks(webshop: Webshop) -> None:
    tasks = webshop.tasks()
    assert [task.description for task in tasks] == [row["instruction_text"] for row in ROWS["test"]]
    assert {task.meta["goal"]["difficulty"] for task in tasks} == {1, 2, 3}
    env = webshop.make_env(tasks[0])
    env.reset()
    last = [env.step(action) for action in webshop.oracle(tasks[0])][-1]
    assert (last.reward, last.done, last.success) == (1.0, True, True)
    env.close()
