"""Tool calls in written answers: every form that models write, and what can't be read."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.memories.text_calls import calls_in
from jitmem_lab.records import ToolCall
from jitmem_lab.tool_calls import format_call

pytestmark = pytest.mark.unit

NAMES = ("insert", "update", "delete", "insert_skill")
CALL = ToolCall(name="insert", arguments={"skill_name": "a", "content": "one\ntwo"})
AS_JSON = json.dumps({"name": "insert", "arguments": CALL.arguments})


def read(answer: str) -> list[ToolCall | None]:
    return [said.call for said in calls_in(answer, NAMES)]


@pytest.mark.parametrize(
    "answer",
    [
        'insert(skill_name="a", content="one\\ntwo")',
        'insert(skill_name="a", content="one\ntwo")',
        'insert(skill_name="a",\n       content="""one\ntwo""",\n)',
        "insert (skill_name='a', content='one\ntwo')",
        'Analysis: it went well (mostly).\n\nTool Calls:\ninsert(skill_name="a", content="one\ntwo")\nDone.',
        'Call 1: insert(skill_name="a", content="one\ntwo");',
        '- `insert(skill_name="a", content="one\ntwo")`',
        '1. insert(skill_name="a", content="one\ntwo")',
        '```python\ninsert(skill_name="a", content="one\ntwo")\n```',
        '[insert(skill_name="a", content="one\ntwo")]',
        AS_JSON,
        f"```json\n[{AS_JSON}]\n```",
        f"<tool_call>\n{AS_JSON}\n</tool_call>",
        f"<tool_call>{AS_JSON}</tool_call>",
        json.dumps([{"type": "function", "function": json.loads(AS_JSON)}], indent=2),
        AS_JSON.replace("\\n", "\n"),
        json.dumps({"name": "insert", "arguments": json.dumps(CALL.arguments)}),
    ],
)
def test_one_call_in_every_form(answer: str) -> None:
    assert read(answer) == [CALL]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Nothing to do.",
        "I would insert(skill_name='a') if it were worth it.",
        "search(skill_name='a')",
        '{"skill_name": "a"}',
        "{not json}",
        '{"function": "insert"}',
        "- update the list (later)",
    ],
)
def test_what_is_no_call(answer: str) -> None:
    assert read(answer) == []


@pytest.mark.parametrize(
    "answer",
    [
        'insert("a", "b")',
        'insert(skill_name="a", content="press the "red" one")',
        'insert(skill_name="a", content="never closed',
        "insert(skill_name=a)",
        "delete()x(",
        '{"name": "insert", "arguments": {"skill_name": "a", "cont',
        '{"name": "insert", "arguments": [1]}',
        '{"name": 3}',
    ],
)
def test_what_cannot_be_read_counts_as_a_call(answer: str) -> None:
    assert read(answer) in ([None], [ToolCall(name="delete")])


def test_the_calls_around_one_that_cannot_be_read_are_read() -> None:
    good = 'delete(skill_name="x")'
    gone = ToolCall(name="delete", arguments={"skill_name": "x"})
    for bad in ('insert("a")', 'insert(skill_name="a, content="b")', "insert(skill_name=a)", "update("):
        assert read(f"{good}\n{bad}\n{good}\n- {good}") == [gone, None, gone, gone], bad
    assert read(f"[{AS_JSON}, {AS_JSON}, {AS_JSON[:40]}") == [CALL, CALL, None]
    assert read(f"{good}; {good}, {good}") == [gone] * 3


def test_calls_inside_a_calls_text_are_text() -> None:
    text = 'First\ndelete(skill_name="b")\n{"name": "delete", "arguments": {"skill_name": "c"}}'
    call = ToolCall(name="insert", arguments={"skill_name": "a", "content": text})
    for written in (format_call(call), json.dumps({"name": call.name, "arguments": call.arguments})):
        assert read(f"{written}\n") == [call]
    raw = text.replace('"', "'")
    assert read(f'insert(skill_name="a", content="""{raw}""")')[0].arguments["content"] == raw  # type: ignore[union-attr]
    assert len(read(f'insert(skill_name="a", content="""{raw}""")')) == 1


@pytest.mark.parametrize("quote", ['"', "'", '"""'])
@pytest.mark.parametrize(
    "text", ["\x00 \ud83d \u2028", "a\rb\r\nc", "\\d and \\", "tab\t土豆", "\N{SNOWMAN}"]
)
def test_odd_characters_come_through(quote: str, text: str) -> None:
    written = f"{text}\\" if text.endswith("\\") else text  # a last backslash would take the quote with it
    call = read(f"insert(skill_name={quote}a{quote}, content={quote}{written}{quote})")[0]
    assert call is not None
    assert call.arguments["content"] == text


TEXT = st.text(st.characters(codec="utf-16-le"), max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(NAMES), TEXT, TEXT), max_size=5), st.sampled_from(["\n", "; ", ",\n"])
)
def test_calls_are_read_back(rows: list[tuple[str, str, str]], between: str) -> None:
    calls = [ToolCall(name=name, arguments={"skill_name": a, "content": b}) for name, a, b in rows]
    assert read(between.join(map(format_call, calls))) == calls


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.sampled_from(["insert(", "{", '"', "'", '"""', "\\", ")", "\n", '"name":', "a=", " ", "x\x00"])
    )
)
def test_any_answer_is_read(parts: list[str]) -> None:
    for said in calls_in("".join(parts), NAMES):
        assert 0 < len(said.text) <= 200


@pytest.mark.parametrize(
    "answer",
    [
        "insert(\n" * 8_000,
        'insert(skill_name="x\n' * 3_000,
        "{" * 60_000,
        '[{"name": "insert", "arguments": ' * 2_000,
        "insert(" + "(" * 50_000,
        "insert(skill_name=" + "[" * 50_000 + "]" * 50_000 + ")",
        "-" * 60_000,
        " ." * 30_000,
        'insert(content="' + "\\" * 60_000,
    ],
)
def test_a_long_odd_answer_takes_no_time(answer: str) -> None:
    begun = time.perf_counter()
    assert all(said.call is None for said in calls_in(answer, NAMES))
    assert time.perf_counter() - begun < 5
