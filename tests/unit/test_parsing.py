"""What is taken out of a model's raw text, and what must not get through."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitmem_lab.parsing import match_admissible, parse_action, parse_json_object, strip_thinking

pytestmark = pytest.mark.unit

PIECES = st.sampled_from(
    [
        "<think>",
        "</think>",
        "<THINK>",
        "</Think>",
        "<action>",
        "</action>",
        "go to desk 1",
        "<thi",
        "nk>",
        "\n",
    ]
)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("plain", "plain"),
        ("", ""),
        ("<think></think>", ""),
        ("<think>a\nb</think>\n\nanswer", "answer"),
        ("<THINK>a</Think>answer", "answer"),
        ("thought without a beginning</think>answer", "answer"),
        ("thought without a beginning</THINK>answer", "answer"),
        ("answer<think>afterthought", "answer"),
        ("<think>a</think>one <think>b</think>two", "one two"),
        ("before <think>a<think>b</think>c</think> after", "before  after"),
        ("<think>I close with <think> as told</think>answer", "answer"),
        ("<think>never ends <action>go</action>", ""),
        ("answer <thi<think>a</think>nk>hidden", "answer"),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>"),
    ],
)
def test_think_blocks_are_removed(text: str, left: str) -> None:
    assert strip_thinking(text) == left


@given(st.lists(PIECES | st.text(max_size=5), max_size=20).map("".join))
def test_no_think_tag_is_left_and_a_second_pass_changes_nothing(text: str) -> None:
    left = strip_thinking(text)
    assert "<think>" not in left.lower()
    assert "</think>" not in left.lower()
    assert strip_thinking(left) == left


@given(st.text(max_size=50), st.text(max_size=50), st.sampled_from(["look", "go to desk 1", "把 土豆 加热"]))
def test_the_last_block_wins_whatever_stands_around_it(before: str, after: str, command: str) -> None:
    assert parse_action(f"{before}<action>{command}</action>{after}") == command
    assert parse_action(f"<action>x</action>{before}<action> {command}\n</action>") == command


@pytest.mark.parametrize(
    ("raw", "action"),
    [
        ("", ""),
        ("go to desk 1", ""),
        ("<action></action>", ""),
        ("<action>  \n </action>", ""),
        ("<action>go to desk 1", ""),
        ("go to desk 1</action>", ""),
        ("<action>a</action><action>b</action>", "b"),
        ("<action>a</action><action></action>", ""),
        ("<think><action>a</action></think>", ""),
        ("<think><action>a</action></think><action>b</action>", "b"),
        ("<action>b</action><think><action>a</action></think>", "b"),
        ("<think>x<think>y</think><action>a</action></think><action>b</action>", "b"),
        ("<ACTION>Go  To\tdesk 1</Action>", "Go To desk 1"),
        ("In an <action> tag I write <action>look</action>", "look"),
        ("<action>open <b>drawer</b> 1</action>", "open <b>drawer</b> 1"),
        ("<action>bad \ud83d\x00</action>", "bad \ud83d\x00"),
    ],
)
def test_actions(raw: str, action: str) -> None:
    assert parse_action(raw) == action


def test_case_and_spacing_do_not_make_an_action_invalid_but_anything_else_does() -> None:
    admissible = ("go to desk 1", "Take mug 1", "look")
    assert match_admissible("GO TO  Desk 1", admissible) == "go to desk 1"
    assert match_admissible("take mug 1", admissible) == "Take mug 1"
    for action in ("", "go to desk", "go to desk 11", "look.", "help"):
        assert match_admissible(action, admissible) is None
    assert match_admissible("look", ()) is None
    assert match_admissible("a B", ("A b", "a B")) == "a B", "an exact one comes first"


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ('{"success": true}', {"success": True}),
        ('```json\n{"success": false}\n```', {"success": False}),
        ('<think>{"success": true}</think>{"success": false}', {"success": False}),
        ('Well {as said}: {"success": true}', {"success": True}),
        ('{"a": {"success": true}, "success": fal', None),
        ('{"rationale": "he wrote {"success": true}"}', None),
        ('{"success": true', None),
        ("YES, but…", None),
        ("", None),
        ("{" * 5000, None),
        ('{"a":' * 50000, None),
        ("[" * 50000, None),
        ('{"a":' + "[" * 50000, None),
        ('{"success": true, "step": ' + "9" * 5000 + "}", None),
    ],
)
def test_json_objects(raw: str, value: object) -> None:
    assert parse_json_object(raw) == value


@pytest.mark.parametrize("piece", ["<think>", "</think>", "<action>", "</action>", '{"a":', "{", '{"', " "])
def test_long_degenerate_answers_take_no_time(piece: str) -> None:
    text = piece * (30_000 // len(piece))
    begun = time.process_time()
    parse_action(text)
    parse_json_object(text)
    assert time.process_time() - begun < 1
