"""Tool calls as text: what is written is read back, and what is no call is told apart from one."""

from __future__ import annotations

import json
import math
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitmem_lab.records import ToolCall
from jitmem_lab.tool_calls import format_call, parse_call, tools_text

pytestmark = pytest.mark.unit

text = st.text(st.characters(), max_size=12)
value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
name = st.text(string.ascii_letters + "_-.é ", min_size=1, max_size=8)
argument = name | st.sampled_from(["class", "from", "None", "True", "print", "ﬁ", ""])
call = st.builds(ToolCall, name=name, arguments=st.dictionaries(argument, value, max_size=4))


@given(call)
def test_what_is_written_is_read_back(made: ToolCall) -> None:
    written = format_call(made)
    assert "\n" not in written
    assert "\r" not in written
    read = parse_call(f"  {written}\n")
    assert read == made
    assert json.dumps(read.model_dump()) == json.dumps(made.model_dump()), "types and order are kept too"


@given(st.text(max_size=200))
def test_any_text_is_a_call_or_none_and_never_an_error(given: str) -> None:
    for wrapped in (given, f"f({given})", f'f(x="{given}")', "{" + given):
        found = parse_call(wrapped)
        assert found is None or json.loads(json.dumps(found.arguments)) == found.arguments or "NaN" in wrapped


def test_a_call_is_written_like_code_where_that_can_be_read_back() -> None:
    plain = ToolCall(name="book", arguments={"user": "mia", "bags": 2, "paid": None, "seats": ["1A", True]})
    assert format_call(plain) == 'book(user="mia", bags=2, paid=None, seats=["1A", True])'
    assert format_call(ToolCall(name="look", id="call_1")) == "look()"
    for odd in (
        ToolCall(name="book", arguments={"class": "economy"}),
        ToolCall(name="flights.find", arguments={"to": "OSL"}),
        ToolCall(name="book", arguments={"": "{broken"}),
        ToolCall(name="book", arguments={"text": "x" * 200_000}),
        ToolCall(name="book", arguments={"halves\ud83d\ude00": "\ud83d\ude00"}),
        ToolCall(name="book", arguments={"nested": json.loads("[" * 300 + "]" * 300)}),
    ):
        assert format_call(odd).startswith('{"name": ')
        assert parse_call(format_call(odd)) == odd


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("f()", {}),
        (" f ( a = 'x' , b = -1.5 ) ", {"a": "x", "b": -1.5}),
        ("f(a=true, b=false, c=null, d=[true, {'k': null}])", {"a": True, "b": False, "c": None}),
        ("f(a=None, b=True,)", {"a": None, "b": True}),
        ("f(a=1, a=2)", {"a": 2}),
        ("f(\n  a=1,\n  b='''two\nlines''',\n)", {"a": 1, "b": "two\nlines"}),
        ("f(a=(1, 2))", {"a": [1, 2]}),
        ("f(a={1: 2})", {"a": {"1": 2}}),
        ("f(a=-Infinity)", {"a": -math.inf}),
        ('{"name": "f", "arguments": {"a": 1}}', {"a": 1}),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', {"a": 1}),
        ('{"name": "f", "arguments": ""}', {}),
        ('{"name": "f"}', {}),
    ],
)
def test_usual_ways_of_writing_a_call_are_read(written: str, arguments: dict[str, Any]) -> None:
    found = parse_call(written)
    assert found is not None
    assert found.name == "f"
    assert arguments.items() <= found.arguments.items()


def test_numbers_that_are_none_are_read_wherever_they_stand() -> None:
    found = parse_call("f(a=NaN, b=[NaN, 1], c={'k': NaN})")
    assert found is not None
    assert math.isnan(found.arguments["a"])
    assert math.isnan(found.arguments["b"][0])
    assert found.arguments["b"][1] == 1
    again = parse_call(format_call(found))
    assert again is not None
    assert format_call(again) == format_call(found) == 'f(a=NaN, b=[NaN, 1], c={"k": NaN})'


@pytest.mark.parametrize(
    "message",
    [
        "",
        "Hello, how can I help?",
        "I booked it (seat 12).",
        "done",
        "f(1)",
        "f(*a)",
        "f(**a)",
        "f(a=b)",
        "f(a=open('x'))",
        "f(a=1).g()",
        "f(a=1) and more",
        "f(a=1",
        "f(a={1, 2})",
        "f(a=b'x')",
        "f(a=1j)",
        "f(a=...)",
        "f(a=" + "[" * 5000 + "]" * 5000 + ")",
        "f(a='" + "x" * 200_000 + "')",
        "{}",
        '{"name": ""}',
        '{"name": 3, "arguments": {}}',
        '{"name": "f", "arguments": [1]}',
        '{"name": "f", "arguments": "no json"}',
        '{"name": "f", "arguments": {"a": 1}} and more',
        '[{"name": "f", "arguments": {}}]',
        "{" * 100_000,
    ],
)
def test_what_is_no_call_is_a_message(message: str) -> None:
    assert parse_call(message) is None


def test_tools_are_listed_one_a_line_with_types_and_what_may_be_left_out() -> None:
    parameters = {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "unit": {"enum": ["C", "F"]},
            "tags": {"type": "array", "items": {"type": "string"}},
            "any": {},
        },
        "required": ["city"],
    }
    tools = [
        {"type": "function", "function": {"name": "look", "description": "Look.\nAround."}},
        {"type": "function", "function": {"name": "weather", "parameters": parameters}},
    ]
    first, second = tools_text(tools).split("\n")
    assert first == "look() - Look. Around."
    assert second.startswith("weather(city: string, days: integer or null (may be left out), ")
    assert 'unit: "C" or "F"' in second
    assert "tags: list of string" in second
    assert tools_text([]) == ""


@pytest.mark.parametrize("levels", [400, 700])
def test_arguments_nested_beyond_reason_are_no_call(levels: int) -> None:
    deep = "[" * levels + "1" + "]" * levels
    assert parse_call(f"book(user={deep})") is None
    assert parse_call('{"name": "book", "arguments": {"user": ' + deep + "}}") is None
    assert parse_call("book(user=" + "[" * 40 + "1" + "]" * 40 + ")") is not None
