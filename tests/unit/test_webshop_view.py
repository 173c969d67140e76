"""A session's pages as HTML: what was chosen, what it earned, nothing that could run."""

from __future__ import annotations

import pytest

from jitmem_lab.benchmarks.webshop.view import PAGE_LIMIT, pages_html
from jitmem_lab.records import Step, Task, Trajectory

pytestmark = pytest.mark.unit

HEAD = "Instruction: [SEP] buy <i>socks</i> $x$ [SEP] Back to Search"
SEARCH = "WebShop [SEP] Instruction: [SEP] buy <i>socks</i> $x$ [SEP] Search"
RESULTS = (
    f"{HEAD} [SEP] Page 1 (Total results: 1) [SEP] Next > [SEP] A1 [SEP] Socks <script>x</script> [SEP] $1.0"
)
ITEM = (
    f"{HEAD} [SEP] < Prev [SEP] color [SEP] red [SEP] blue [SEP] size [SEP] 9 [SEP] Socks [SEP] Price: $1.0"
    " [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews [SEP] Buy Now"
)
CLICKS = tuple(f"click[{text}]" for text in ("back to search", "< prev", "buy now", "red", "blue", "9"))
DONE = "Thank you for shopping with us! [SEP] Your code:"
TASK = Task(benchmark="webshop", split="x", task_id="t", description="buy <i>socks</i> $x$")


def step(observation: str, action: str, valid: bool = True) -> Step:
    return Step(observation=observation, admissible=CLICKS, raw=action, action=action, valid=valid)


def trajectory(*steps: Step, final: str = DONE, **changes) -> Trajectory:
    return Trajectory(task=TASK, steps=steps, final_observation=final, **changes)


BOUGHT = trajectory(
    step(SEARCH, "search[socks]"),
    step(RESULTS, "click[a1]"),
    step(ITEM, "click[red]"),
    step(ITEM, "click[Blue]"),
    step(ITEM, "click[green]", valid=False),
    step(ITEM, "click[buy now]"),
    reward=0.5,
    parts={"r_type": 1.0, "r_att": 0.5, "w_att": 0.25, "r_price": True, "w_price": 0.25, "title_score": 0.75},
)


def test_pages_choices_and_the_rewards_parts_are_shown():
    html = pages_html(BOUGHT)
    for text in (
        "results, page 1 of 1 hits",
        "→",
        "(not taken)",
        "reward 0.500",
        "price within the limit",
        "yes",
    ):
        assert text in html
    shown = html.split("product</div>")[1:]
    assert ["✓" in page for page in shown] == [False, True, True, True]
    assert "✓ <code" in shown[1]
    assert shown[1].index("✓") < shown[1].index(">red<") < shown[1].index(">blue<")
    assert shown[2].index(">red<") < shown[2].index("✓") < shown[2].index(">blue<")


def test_choices_end_with_the_product():
    again = trajectory(
        step(ITEM, "click[red]"), step(ITEM, "click[< prev]"), step(RESULTS, "click[a1]"), step(ITEM, "x")
    )
    shown = pages_html(again).split("product</div>")[1:]
    assert ["✓" in page for page in shown] == [False, True, False]


def test_text_is_escaped_and_not_typeset():
    html = pages_html(BOUGHT)
    assert "<script" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html
    assert "mathjax_ignore" in html
    odd = trajectory(step("\x1b[31m\ud800 <img src=x onerror=alert(1)>", "<b>"), final="\x00")
    html = pages_html(odd)
    assert "<img" not in html
    html.encode("utf-8")


def test_long_sessions_and_texts_are_cut():
    html = pages_html(trajectory(*[step("x" * 10**5, "y" * 10**5) for _ in range(500)]))
    assert len(html) < 200_000
    assert f"{501 - PAGE_LIMIT} pages left out" in html


def test_an_unfinished_session_says_that_nothing_was_bought():
    assert "Nothing was bought" in pages_html(trajectory(step(SEARCH, "wait", valid=False), final=SEARCH))
    assert "search page" in pages_html(trajectory(final=SEARCH))


@pytest.mark.parametrize(
    "text", ["", " [SEP] ", "Buy Now", "Price: 1 [SEP] Buy Now", "< Prev [SEP] Price:  [SEP] Buy Now"]
)
def test_text_that_is_no_page_is_shown_as_it_is(text):
    assert pages_html(trajectory(step(text, "click[red]"), final=text))
