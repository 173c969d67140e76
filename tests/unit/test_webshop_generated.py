"""The synthetic catalogue and its frozen goals: clean, distinct, solvable, and no two runs apart."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from rank_bm25 import BM25Okapi

from jitmem_lab.benchmarks.webshop import generated
from jitmem_lab.benchmarks.webshop.generated_goals import NO_LIMIT, SIZES, answers, stated
from jitmem_lab.benchmarks.webshop.generated_words import kinds, words
from jitmem_lab.errors import UserError
from jitmem_lab.records import content_hash

pytestmark = pytest.mark.unit

PRODUCTS = generated.products()
BY_ASIN = {product["asin"]: product for product in PRODUCTS}
GOALS = {split: generated.goals(split) for split in generated.SPLITS}
ALL_GOALS = [goal for goals in GOALS.values() for goal in goals]
FIELDS = {
    *("name", "full_description", "pricing", "images", "product_category", "average_rating"),
    *("small_description", "customization_options", "asin", "category", "query", "page", "Title"),
    *("Description", "Reviews", "Rating", "BulletPoints", "Price", "options", "option_to_image"),
    *("Attributes", "MainImage"),
}
BUTTONS = {"search", "back to search", "next >", "< prev", "description", "features", "reviews"}


def page(product: dict[str, Any]) -> str:
    return "\n".join([product["Title"], product["Description"], *product["BulletPoints"]])


def tokens(text: str) -> list[str]:
    """Words without a plural's s."""
    return [word.removesuffix("s") for word in re.findall(r"[a-z0-9]+", text.lower())]


# Products


def test_products_have_the_schema_of_the_load_step() -> None:
    for product in PRODUCTS:
        assert set(product) == FIELDS
        assert product["name"] == product["Title"]
        assert product["full_description"] == product["Description"]
        assert product["small_description"] == product["BulletPoints"]
        assert (product["Rating"], product["Reviews"], product["images"]) == ("N.A.", [], [])
        assert 1 <= len(product["pricing"]) <= 2
        assert product["pricing"] == sorted(product["pricing"])
        assert all(isinstance(price, float) and price >= 4 for price in product["pricing"])
        assert product["Price"] == " to ".join(f"${price}" for price in product["pricing"])
        assert product["product_category"].count(" › ") >= 1
        assert all(isinstance(value, str) for values in product["options"].values() for value in values)


def test_the_catalogue_is_wide_and_its_products_are_distinct() -> None:
    assert len(PRODUCTS) >= 400
    assert len({product["category"] for product in PRODUCTS}) >= 12
    assert len(BY_ASIN) == len({product["Title"] for product in PRODUCTS}) == len(PRODUCTS)
    assert all(re.fullmatch(r"G0[0-9A-Z]{8}", asin) for asin in BY_ASIN)
    shelves = Counter(product["query"] for product in PRODUCTS)
    assert len(shelves) == len(kinds())
    assert min(shelves.values()) >= 8, "several products compete for each query"


def test_products_vary_in_options_prices_and_in_what_they_state() -> None:
    options = Counter(len(product["options"]) for product in PRODUCTS)
    assert set(options) == {0, 1, 2, 3}
    assert min(options.values()) >= 40
    ranges = sum(len(product["pricing"]) == 2 for product in PRODUCTS)
    assert 0.1 < ranges / len(PRODUCTS) < 0.5
    hidden = Counter(len(product["Attributes"]) - len(stated(product)) for product in PRODUCTS)
    assert set(hidden) == {0, 1}
    assert 0.1 < hidden[1] / len(PRODUCTS) < 0.4
    in_title = [sum(a in p["Title"].lower() for a in p["Attributes"]) for p in PRODUCTS]
    assert set(in_title) == {0, 1, 2}


def test_a_page_states_no_attribute_that_the_product_lacks() -> None:
    pools = {kind.query: kind.attributes for kind in kinds()}
    for product in PRODUCTS:
        text = page(product).lower()
        lacking = set(pools[product["query"]]) - set(product["Attributes"])
        assert not [attribute for attribute in lacking if attribute in text], product["asin"]
        assert not any(set(pair) <= set(product["Attributes"]) for pair in words()["exclusive"])


def test_all_text_is_clean() -> None:
    texts = [page(product) for product in PRODUCTS] + [goal["instruction_text"] for goal in ALL_GOALS]
    texts += [value for p in PRODUCTS for values in p["options"].values() for value in values]
    for text in texts:
        assert text.isascii()
        assert "  " not in text
        assert not re.search(r"[\[\]{}<>\t]|SEP", text)
        assert text == text.strip() or text.startswith(tuple(p["Title"] for p in PRODUCTS))
        assert not re.search(r" [,.;:]|\.\.|,,", text)
    for product in PRODUCTS:
        assert all(bullet == bullet.strip() for bullet in product["BulletPoints"])
        assert all(bullet.endswith((".", "!", "?")) for bullet in product["BulletPoints"])


def test_an_option_value_can_be_clicked_without_doubt() -> None:
    for product in PRODUCTS:
        values = [value for values in product["options"].values() for value in values]
        assert len(values) == len(set(values)), product["asin"]
        assert all(value == value.lower() and value.strip() == value for value in values)
        assert not set(values) & (BUTTONS | {"buy now", "attributes", product["asin"].lower()})
        assert all(len(values) >= 2 for values in product["options"].values())


def test_colours_stand_alone_and_inside_longer_names() -> None:
    values = {v for p in PRODUCTS for name in ("color", "finish") for v in p["options"].get(name, ())}
    plain = {"black", "white", "navy", "teal", "purple", "pink", "cream"}
    assert len(plain & values) >= 5
    assert sum(any(c in v.split() for c in plain) and v not in plain for v in values) >= 6


def test_attributes_of_one_kind_are_not_alike_for_the_reward() -> None:
    fuzz = pytest.importorskip("thefuzz.fuzz")
    for kind in kinds():
        for one, other in itertools.permutations(kind.attributes, 2):
            assert fuzz.token_set_ratio(one, other) <= 85, (one, other)


def test_every_option_value_counts_as_itself() -> None:
    """To WebShop's reward a colour word inside another word (`ash` in `dash`) would hide it."""
    pytest.importorskip("thefuzz")
    reward = pytest.importorskip("jitmem_lab.benchmarks.webshop.reward")
    axes = {axis for kind in kinds() for axis in kind.axes}
    for name, pool in sorted(axes):
        for value in words()["pools"][pool]:
            assert reward.fits((name, value), value), (name, value)


def test_few_wrong_options_pass_for_the_right_one() -> None:
    """Sizes do: to WebShop's reward, `large` is good enough where `x-large` is asked for."""
    fuzz = pytest.importorskip("thefuzz.fuzz")
    passing: Counter[bool] = Counter()
    for goal in ALL_GOALS:
        for name, value in goal["goal_options"].items():
            for other in BY_ASIN[goal["asin"]]["options"][name]:
                if other != value:
                    passing[fuzz.token_set_ratio(other, f"{name} {value}") > 85] += 1
    assert passing[True] < 0.05 * passing.total()


# Goals


def test_the_frozen_goals_are_what_the_code_makes() -> None:
    file = generated.Path(generated.__file__).with_name("generated_goals.json")
    held = file.read_bytes()
    assert held == generated.frozen_text().encode()
    assert json.loads(held)["catalogue"] == content_hash(generated.products()) == generated.catalogue_hash()
    assert len(held) < 400_000


def test_another_process_makes_the_same() -> None:
    code = (
        "from jitmem_lab.benchmarks.webshop import generated as g\n"
        "from jitmem_lab.records import content_hash\n"
        "print(g.catalogue_hash(), content_hash(g.frozen_text()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "7"}, capture_output=True, text=True, check=True
    )
    assert ran.stdout.split() == [generated.catalogue_hash(), content_hash(generated.frozen_text())]


def test_goals_of_another_catalogue_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generated, "catalogue_hash", lambda: "0" * 16)
    generated._frozen.cache_clear()
    with pytest.raises(UserError, match="another catalogue"):
        generated.goals("test")
    monkeypatch.undo()
    generated._frozen.cache_clear()
    assert generated.goals("test") == GOALS["test"]


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(UserError, match="train, dev, test"):
        generated.goals("valid")


def test_a_caller_cannot_spoil_the_next_ones() -> None:
    goal = generated.goals("dev")[0]
    goal["attributes"].append("x")
    goal["goal_options"]["x"] = "y"
    generated.products()[0]["options"]["x"] = ["y"]
    assert generated.goals("dev") == GOALS["dev"]
    assert generated.products() == PRODUCTS


def test_each_goal_fits_its_product() -> None:
    for goal in ALL_GOALS:
        product = BY_ASIN[goal["asin"]]
        for field in ("category", "query", "name", "product_category"):
            assert goal[field] == product[field]
        assert set(goal["attributes"]) <= set(product["Attributes"])
        assert len(goal["attributes"]) == len(set(goal["attributes"])) >= 1
        assert list(goal["goal_options"]) == list(product["options"])
        assert all(value in product["options"][name] for name, value in goal["goal_options"].items())
        assert goal["price_upper"] > product["pricing"][-1]
        assert goal["price_upper"] == NO_LIMIT or goal["price_upper"] % 10 == 0


def test_goals_have_the_keys_of_webshop() -> None:
    keys = {"asin", "category", "query", "name", "product_category", "instruction_text", "attributes"}
    keys |= {"price_upper", "goal_options", "difficulty"}
    assert all(set(goal) == keys for goal in ALL_GOALS)


def test_an_instruction_says_all_that_is_asked_and_gives_nothing_away() -> None:
    for goal in ALL_GOALS:
        text = goal["instruction_text"]
        asked = [goal["query"], *goal["attributes"], *map(": ".join, goal["goal_options"].items())]
        assert all(part in text for part in asked), text
        limited = goal["price_upper"] < NO_LIMIT
        assert (f"price lower than {goal['price_upper']:.2f} dollars" in text) is limited
        assert ("dollars" in text) is limited
        assert goal["asin"] not in text
        assert goal["name"] not in text
    opens = Counter(goal["instruction_text"].split()[0] for goal in ALL_GOALS)
    assert len(opens) >= 4
    assert opens["Find"] > 0.2 * len(ALL_GOALS)


def test_splits_are_disjoint_and_half_of_dev_and_test_is_on_new_products() -> None:
    assert {split: len(goals) for split, goals in GOALS.items()} == SIZES
    targets = [(goal["asin"], json.dumps(goal["goal_options"])) for goal in ALL_GOALS]
    assert len(set(targets)) == len({goal["instruction_text"] for goal in ALL_GOALS}) == len(targets)
    in_train = {goal["asin"] for goal in GOALS["train"]}
    for split in ("dev", "test"):
        new = {goal["asin"] for goal in GOALS[split]} - in_train
        assert len(new) == SIZES[split] // 2
        other = GOALS["test" if split == "dev" else "dev"]
        assert not new & {goal["asin"] for goal in other}


def test_grades_are_even_and_mean_what_they_say() -> None:
    for split, goals in GOALS.items():
        counts = Counter(goal["difficulty"] for goal in goals)
        assert set(counts) == {1, 2, 3}
        assert min(counts.values()) >= 0.25 * SIZES[split]
    for goal in ALL_GOALS:
        asked = len(goal["attributes"]), len(goal["goal_options"])
        seen = set(goal["attributes"]) <= set(stated(BY_ASIN[goal["asin"]]))
        right = answers(goal, goal["query"], PRODUCTS)
        assert goal["asin"] in right
        if goal["difficulty"] == 1:
            assert asked <= (2, 1)
            assert seen
        elif goal["difficulty"] == 2:
            assert asked[0] in (2, 3)
            assert asked[1] <= 2
            assert seen
        else:
            assert asked[0] >= 3
            assert asked[1] >= 1
            assert right == [goal["asin"]]


def test_easier_goals_have_more_answers() -> None:
    means = {
        grade: np.mean([len(answers(g, g["query"], PRODUCTS)) for g in ALL_GOALS if g["difficulty"] == grade])
        for grade in (1, 2, 3)
    }
    assert means[1] > means[2] > means[3] == 1


def test_prices_are_frozen_and_within_what_the_page_says() -> None:
    prices = generated.prices()
    assert list(prices) == [product["asin"] for product in PRODUCTS]
    for asin, price in prices.items():
        low, high = BY_ASIN[asin]["pricing"][0], BY_ASIN[asin]["pricing"][-1]
        assert low <= price <= high
    assert sum(prices[p["asin"]] not in p["pricing"] for p in PRODUCTS) > 50


# Search


@cache
def index() -> BM25Okapi:
    return BM25Okapi([tokens(product["Title"] + " " + product["Description"]) for product in PRODUCTS])


def place(goal: dict[str, Any], query: str) -> int:
    """Hits that stand before the goal's product, those of its own score included."""
    scores = index().get_scores(tokens(query))
    own = next(number for number, product in enumerate(PRODUCTS) if product["asin"] == goal["asin"])
    assert scores[own] > 0
    return int((scores >= scores[own]).sum()) - 1


def test_a_search_for_the_product_finds_every_target_within_fifty_hits() -> None:
    assert max(place(goal, goal["query"]) for goal in ALL_GOALS) < 50


def test_the_first_hit_for_an_instruction_is_the_target_for_a_part_of_the_goals_only() -> None:
    share = np.mean([place(goal, goal["instruction_text"]) == 0 for goal in GOALS["test"]])
    assert 0.1 < share < 0.6
