"""A session's pages and actions, the original's oddities included; rewards are tested apart."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("Stemmer")
pytest.importorskip("thefuzz")

from hypothesis import given
from hypothesis import strategies as st

from jitmem_lab.benchmarks.webshop import engine, reward
from jitmem_lab.benchmarks.webshop.catalogue import Catalogue
from jitmem_lab.benchmarks.webshop.engine import Shopping, can_click, parse
from jitmem_lab.benchmarks.webshop.goals import Goal
from jitmem_lab.benchmarks.webshop.products import Product

from .webshop_goods import products

pytestmark = pytest.mark.unit

PLAIN = products()[1]
GOAL = Goal("A000000001", "socks", "Woollen Socks", "", "I want socks", ("soft",), 20.0, {})
HEAD = "Instruction: [SEP] I want socks [SEP] Back to Search"


@pytest.fixture(autouse=True)
def no_tagger(monkeypatch):
    score = reward.score
    monkeypatch.setattr(engine, "score", lambda *args: score(*args, lambda title: title.lower().split()))


def shop(*more: Product, **options) -> Shopping:
    return Shopping(Catalogue([*products(), *more]), GOAL, **options)


def visit(*actions: str, shopping: Shopping | None = None) -> engine.Answer:
    shopping = shopping or shop()
    answers = [shopping.step(action) for action in actions]
    assert all(answer.accepted for answer in answers)
    return answers[-1]


def odd(**changes) -> Product:
    return PLAIN._replace(asin="A00000000X", name="Odd Socks", **changes)


def test_the_pages_read_as_the_originals():
    shopping = shop()
    assert shopping.reset().page.text == "WebShop [SEP] Instruction: [SEP] I want socks [SEP] Search"
    results = shopping.step("search[woollen socks]").page
    assert results.text == (
        f"{HEAD} [SEP] Page 1 (Total results: 2) [SEP] Next > [SEP] A000000001 [SEP] "
        "Woollen Socks & Stockings [SEP] $7.99 to $14.99 [SEP] A000000002 [SEP] Cotton Socks [SEP] $100.0"
    )
    assert list(results.clickables) == ["back to search", "next >", "a000000001", "a000000002"]
    item = shopping.step("click[a000000001]").page
    assert item.text == (
        f"{HEAD} [SEP] < Prev [SEP] color [SEP] red | blue [SEP] green [SEP] size [SEP] small [SEP] large"
        " [SEP] Woollen Socks & Stockings [SEP] Price: $7.99 to $14.99 [SEP] Rating: N.A. [SEP] Description"
        " [SEP] Features [SEP] Reviews [SEP] Buy Now"
    )
    assert list(item.clickables) == [
        "back to search", "< prev", "description", "features", "reviews", "buy now",
        "red | blue", "green", "small", "large",
    ]  # fmt: skip
    assert shopping.step("click[description]").page.text == f"{HEAD} [SEP] < Prev [SEP] Knitted <by hand>."
    shopping.step("click[< prev]")
    assert shopping.step("click[features]").page.text == (
        f"{HEAD} [SEP] < Prev [SEP] Soft to the touch [SEP] Machine wash cold"
    )
    shopping.step("click[< prev]")
    assert shopping.step("click[reviews]").page.text == f"{HEAD} [SEP] < Prev"


def test_a_purchase_ends_it_and_nothing_changes_after():
    shopping = shop()
    done = visit("search[socks]", "click[a000000001]", "click[green]", "click[buy now]", shopping=shopping)
    assert done.done
    assert not done.page.clickables
    assert 'asin [SEP] A000000001 [SEP] options [SEP] {"color": "green"} [SEP]' in done.page.text
    assert f"Your score (min 0.0, max 1.0) [SEP] {done.reward} [SEP]" in done.page.text
    after = shopping.step("search[socks]")
    assert (after.accepted, after.done, after.reward, after.page) == (False, True, done.reward, done.page)
    assert not shopping.reset().done


@pytest.mark.parametrize(
    "action",
    ["", "wait", "buy now", "search[]", "search", "click[search]", "click[b000000000]", "click[green]",
     "Search[socks]", " search[socks]", "click[]", "search[so\ncks]", "search[a[b]", "\ud800",
     "click[buy now]"],
)  # fmt: skip
def test_anything_else_changes_nothing(action):
    shopping = shop()
    before = shopping.reset()
    after = shopping.step(action)
    assert (after.accepted, after.reward, after.done, after.page) == (False, 0.0, False, before.page)


def test_case_does_not_matter_and_a_search_is_taken_on_any_page():
    answer = visit("search[WOOLLEN]", "click[A000000001]", "click[Buy NOW]")
    assert answer.done
    assert (
        visit("search[woollen]", "click[a000000001]", "click[features]", "search[table]").page.name
        == "results"
    )


def test_options_are_kept_on_a_product_and_cleared_by_leaving_it():
    shopping = shop()
    visit("search[socks]", "click[a000000001]", "click[green]", "click[features]", "click[< prev]",
          "click[small]", "click[red | blue]", shopping=shopping)  # fmt: skip
    assert shopping.options == {"color": "red | blue", "size": "small"}
    for leave in ("click[< prev]", "click[back to search]", "search[socks]"):
        shopping.reset()
        visit("search[socks]", "click[a000000001]", "click[green]", leave, shopping=shopping)
        assert shopping.options == {}


def test_ten_hits_a_page_and_pages_without_an_end():
    many = [PLAIN._replace(asin=f"A00000001{n:02}"[:10], name=f"Sock {n}") for n in range(10, 34)]
    many = [product._replace(asin=f"S{n:09}") for n, product in enumerate(many)]
    shopping = shop(*many)
    first = visit("search[sock]", shopping=shopping).page
    assert "Page 1 (Total results: 26)" in first.text
    assert len([text for text in first.clickables if text.startswith(("s0", "a0"))]) == 10
    third = visit("click[next >]", "click[next >]", shopping=shopping).page
    assert "Page 3 (Total results: 26) [SEP] < Prev [SEP] Next >" in third.text
    assert len(third.clickables) == 3 + 6
    beyond = visit("click[next >]", shopping=shopping).page
    assert beyond.text == f"{HEAD} [SEP] Page 4 (Total results: 26) [SEP] < Prev [SEP] Next >"
    back = visit("click[< prev]", shopping=shopping).page
    assert back == third
    item = next(text for text in third.clickables if text.startswith("s0"))
    assert visit(f"click[{item}]", "click[< prev]", shopping=shopping).page == third


def test_a_search_without_hits():
    page = visit("search[zeppelin]").page
    assert page.text == f"{HEAD} [SEP] Page 1 (Total results: 0) [SEP] Next >"


def test_a_given_ranking_is_followed_and_unknown_ids_in_it_are_left_out():
    shopping = shop(search=lambda query: ["A000000003", "B000000000", "A000000001"])
    page = visit("search[anything]", shopping=shopping).page
    assert "Total results: 2" in page.text
    assert list(page.clickables)[2:] == ["a000000003", "a000000001"]


def test_attributes_are_shown_on_request():
    shopping = shop(show_attributes=True)
    page = visit("search[woollen]", "click[a000000001]", "click[attributes]", shopping=shopping).page
    assert page.text.endswith(
        "machine wash [SEP] hand made [SEP] fashion [SEP] socks [SEP] Clothing › Women › Socks"
    )
    assert "attributes" not in visit("search[woollen]", "click[a000000001]").page.clickables


def test_blank_pieces_are_shown_as_the_originals_parser_leaves_them():
    bullets = ("", "a", " \n ", "\xa0", "b\nc")
    shopping = shop(odd(bullets=bullets, description=" \n "))
    page = visit("search[odd]", "click[a00000000x]", "click[features]", shopping=shopping).page
    assert page.text == f"{HEAD} [SEP] < Prev [SEP]  [SEP] a [SEP]  [SEP] b\nc"
    assert visit("click[< prev]", "click[description]", shopping=shopping).page.text == f"{HEAD} [SEP] < Prev"


def test_reviews_are_read_where_there_are_any():
    review = {"title": "Warm", "score": 5, "body": "Like <them>"}
    shopping = shop(odd(reviews=(review,)))
    page = visit("search[odd]", "click[a00000000x]", "click[reviews]", shopping=shopping).page
    assert page.text.endswith('< Prev [SEP] "Warm" [SEP] 5 [SEP] Like <them>')


def test_options_named_like_buttons_act_as_the_buttons():
    options = {"a": ["description", "back to search", "buy now", "search", "next >"], "b": ["next >"]}
    shopping = shop(odd(options=options))
    item = visit("search[odd]", "click[a00000000x]", shopping=shopping)
    assert list(item.page.clickables).count("description") == 1
    assert not shopping.step("click[search]").accepted
    assert visit("click[next >]", shopping=shopping).page.name == "item"
    assert shopping.options == {"b": "next >"}  # the last option of that value takes it
    assert visit("click[description]", shopping=shopping).page.name == "sub"
    assert visit("click[< prev]", "click[back to search]", shopping=shopping).page.name == "search"


def test_text_that_means_something_in_html_comes_through():
    shopping = shop(odd(options={"size": ["<b>'9\"&</b>"]}))
    done = visit(
        "search[odd]", "click[a00000000x]", "click[<b>'9\"&</b>]", "click[buy now]", shopping=shopping
    )
    assert r'{"size": "\u003cb\u003e\u00279\"\u0026\u003c/b\u003e"}' in done.page.text


@given(st.text(alphabet="ab[]\n\r é", max_size=14))
def test_an_action_is_read_as_by_the_originals_pattern(action):
    found = re.match(r"(.+)\[(.+)\]", action)
    assert parse(action) == (found.groups() if found else ("", ""))


def test_long_actions_are_read_at_once_and_brackets_may_make_a_text_unclickable():
    for text in ("[" * 50_000, "search[" + "[" * 50_000, "search[" + "a" * 50_000 + "]" * 50_000):
        parse(text)
    assert can_click("a (b]")
    assert not can_click("a [2 pack]")
    assert not can_click("")
