"""The published reward's rules, one at a time; nouns are given, so that no tagger is needed."""

from __future__ import annotations

import pytest

pytest.importorskip("thefuzz")

from jitmem_lab.benchmarks.webshop.goals import Goal
from jitmem_lab.benchmarks.webshop.reward import (
    first_colour,
    fits,
    has_attribute,
    score,
    similarity,
    type_parts,
)

from .webshop_goods import products

pytestmark = pytest.mark.unit

SOCKS = products()[0]


def goal(**changes) -> Goal:
    base = Goal(
        asin=SOCKS.asin,
        query=SOCKS.query,
        name=SOCKS.name,
        product_category=SOCKS.product_category,
        instruction_text="",
        attributes=("machine wash",),
        price_upper=20.0,
        goal_options={"color": "green", "size": "small"},
    )
    return base._replace(**changes)


def nouns(title: str) -> list[str]:
    return title.lower().split()


def worth(wanted: Goal, options: dict[str, str], price: float | None = 10.0):
    return score(SOCKS, wanted, options, price, nouns)


def test_the_target_with_its_options_earns_one():
    found = worth(goal(), {"color": "green", "size": "small"})
    assert found.reward == 1
    assert found.parts == {
        "r_type": 1.0, "query_match": True, "category_match": True, "title_score": 1.0,
        "r_att": 1.0, "w_att": 0.25, "r_option": 1.0, "w_option": 0.5, "r_price": True, "w_price": 0.25,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "price", "expected"),
    [
        ({}, 10.0, 0.5),
        ({"color": "green"}, 10.0, 0.75),
        ({"color": "red | blue", "size": "small"}, 10.0, 0.75),
        ({"color": "green", "size": "small"}, 20.0, 1.0),
        ({"color": "green", "size": "small"}, 20.01, 0.75),
        ({"color": "green", "size": "small"}, None, 0.75),
    ],
)
def test_each_option_and_the_price_count_alike(options, price, expected):
    assert worth(goal(), options, price).reward == pytest.approx(expected)


def test_parts_that_are_not_asked_for_are_left_out():
    found = worth(goal(attributes=(), goal_options=[], price_upper=0.0), {})
    assert set(found.parts) == {"r_type", "query_match", "category_match", "title_score"}
    assert found.reward == 0
    assert worth(goal(attributes=(), goal_options={}), {}).reward == 1


@pytest.mark.parametrize(
    ("name", "query", "category", "r_type"),
    [
        ("Woollen Socks & Stockings", "x", "y", 1.0),
        ("socks one two three four", "x", "y", 0.5),  # a fifth of the nouns, nothing else in common
        ("socks one two three four", "socks", "y", 1.0),
        ("socks one two three four", "x", "Women › Clothing › Hats", 1.0),
        ("socks one two three four", "x", "Women › Hats", 0.5),
        (" ".join(["socks", *map(str, range(10))]), "socks", "y", 0.1),  # under a tenth wins over a match
        ("table", "socks", "Clothing › Women › Socks", 0.0),
        ("", "socks", "y", 1.0),  # no nouns count as a fifth
        ("", "x", "y", 0.5),
    ],
)
def test_the_kind_of_product(name, query, category, r_type):
    parts = type_parts(SOCKS, goal(name=name, query=query, product_category=category), nouns)
    assert parts["r_type"] == r_type


def test_repeated_nouns_of_the_goal_count_each_time_among_those_wanted():
    assert type_parts(SOCKS, goal(name="socks socks hats hats"), nouns)["title_score"] == 0.25


@pytest.mark.parametrize(
    ("attribute", "found"),
    [
        ("washing by machine", False),
        ("machine wash", True),
        ("hand made socks", True),  # the set of its words holds all of `hand made`
        ("knitted", True),  # in the description
        ("soft to the touch machine", False),
        ("touch  machine", True),  # features are joined by a blank, whatever theirs end in
        ("stockings", True),  # in the title
        ("Knitted", False),
    ],
)
def test_where_an_attribute_is_looked_for(attribute, found):
    assert has_attribute(SOCKS, attribute) is found


@pytest.mark.parametrize(
    ("wanted", "chosen", "fit"),
    [
        ("dark green", "dark red", True),  # both are `dark`
        ("light green", "dark green", False),
        ("green", "sea green 42", True),
        (("color", "green"), "sea green 42", True),  # the value is a colour word as it stands
        (("color", "sea green"), "sea green", True),  # the pair's text holds the word
        (("color", "green2"), "green2", False),  # chosen turns into `green`, the pair does not
        (("item shape", "rectangular"), "rectangular", False),  # holds `tan`
        (("size", "x-large"), "x-large", True),
        ("x-large", "xx-large", True),
        ("small", "large", False),
    ],
)
def test_when_an_option_is_the_one_wanted(wanted, chosen, fit):
    assert fits(wanted, chosen) is fit


def test_colours_are_looked_for_in_order():
    assert first_colour("red and blue") == "blue"
    assert first_colour("stonewash") == "ash"
    assert first_colour("plain") == "plain"
    assert first_colour(("color", "deep red")) == ("color", "deep red")


def test_similarity_is_thefuzz():
    from thefuzz import fuzz

    for pair in (("red", "dark red"), ("Größe 9", "grosse 9"), ("", ""), ("!", "?"), (("a", "b"), "b")):
        assert similarity(*pair) == fuzz.token_set_ratio(*pair)
    assert similarity("", "") == 0
