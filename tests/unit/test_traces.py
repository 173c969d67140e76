"""Traces as text, and what is cut when they are too long."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.records import Step, Task, Trajectory
from jitmem_lab.traces import cut_middle, fit, trace_text

pytestmark = pytest.mark.unit

COUNTS = {"chars": len, "quarter": lambda text: -(-len(text) // 4), "words": lambda text: len(text.split())}
TEXTS = st.lists(
    st.tuples(st.sampled_from(["a", "ab c ", "word\n\n", "土豆 "]), st.integers(0, 900)).map(
        lambda p: p[0] * p[1]
    ),
    max_size=6,
)


def trajectory(**changes: object) -> Trajectory:
    task = Task(benchmark="b", split="s", task_id="t", description="heat the mug")
    steps = (
        Step(
            observation="A room.\n\nA desk.",
            admissible=("look", "take mug"),
            raw="<think>no</think>",
            action="look",
        ),
        Step(observation="Same.", admissible=("take mug",), raw="?", action="", valid=False),
        Step(observation="Same.", admissible=("take mug",), action="fly", valid=False),
        Step(observation="Same.", admissible=("take mug",), action="take mug"),
    )
    return Trajectory(task=task, steps=steps, final_observation="You hold it.", **changes)


def test_a_full_trace_shows_every_step_and_no_raw_text() -> None:
    text = trace_text(trajectory())
    assert [int(n) for n in re.findall(r"\[Step (\d)\]", text)] == [1, 2, 3, 4]
    assert "A room.\n\nA desk." in text
    assert text.count("(nothing usable)") == 1
    assert "Did: fly" in text
    assert text.endswith("You hold it.")
    assert "think" not in text
    assert "Result" not in text


def test_a_list_of_actions_has_those_that_had_an_effect_numbered_on() -> None:
    assert trace_text(trajectory(), "actions") == "1. look\n2. take mug"
    assert trace_text(Trajectory(task=trajectory().task), "actions") == ""


@pytest.mark.parametrize("form", ["full", "actions"])
def test_a_label_is_the_last_line(form: str) -> None:
    assert trace_text(trajectory(), form, True).endswith("\nResult: success")
    assert trace_text(trajectory(), form, False).endswith("\nResult: failure")


@given(st.text(max_size=300), st.integers(-5, 320))
def test_a_cut_keeps_both_ends_and_counts_the_rest(text: str, limit: int) -> None:
    cut = cut_middle(text, limit)
    if len(text) <= limit:
        assert cut == (text, 0)
        return
    mark = f"\n[... {cut.cut_chars} characters cut ...]\n"
    head, found, tail = cut.text.partition(mark)
    assert found
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(head) + len(tail) + cut.cut_chars == len(text)
    assert len(head) >= len(tail) - 1
    assert len(cut.text) <= max(limit, len(mark)) + 10


@settings(max_examples=200)
@given(TEXTS, st.integers(-10, 6000), st.sampled_from(sorted(COUNTS)))
def test_the_budget_holds_and_nothing_is_cut_without_need(texts: list[str], budget: int, unit: str) -> None:
    count = COUNTS[unit]
    cut = fit(texts, budget, count)
    assert len(cut) == len(texts)
    total = sum(count(text) for text in texts)
    if total <= max(budget, 0):
        assert [c.text for c in cut] == texts
        return
    assert sum(count(c.text) for c in cut) <= max(budget, 0)
    shares = [count(t) for t, c in zip(texts, cut, strict=True) if c.cut_chars]
    whole = [count(t) for t, c in zip(texts, cut, strict=True) if not c.cut_chars]
    assert shares, "too much and nothing cut"
    assert max(whole, default=0) <= min(shares), "a text was cut while a longer one stayed whole"


@pytest.mark.parametrize("unit", sorted(COUNTS))
def test_long_traces_share_evenly_what_short_ones_leave(unit: str) -> None:
    count = COUNTS[unit]
    short, long = "go on " * 20, "go on and on " * 20_000
    budget = count(long) // 2
    cut = fit([long, short, long + long, long], budget, count)
    assert cut[1] == (short, 0)
    kept = [count(c.text) for c in cut if c.cut_chars]
    assert len(kept) == 3
    assert max(kept) - min(kept) < 0.02 * budget
    assert sum(kept) > 0.9 * (budget - count(short)), "what there is room for is used"


def test_no_room_at_all_cuts_everything_and_says_so() -> None:
    for budget in (0, -500):
        assert fit(["a" * 50, "b" * 900], budget, len) == [("", 50), ("", 900)]
    assert fit([], 0, len) == []
