"""Tool calls over the wire: what is sent, how odd answers are read, and servers that do none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models.base import refuse_tools
from jitmem_lab.models.wire import refuses_tools
from jitmem_lab.records import Message, Sampling, ToolCall, to_json

from .stub_server import Say, calling, stub_server
from .test_models_served import ASK, model_at

pytestmark = pytest.mark.unit

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "book",
            "description": "Book a seat.",
            "parameters": {"type": "object", "properties": {"seat": {"type": "string"}}},
        },
    }
]


def test_tools_are_offered_only_when_there_are_some() -> None:
    with stub_server(Say("fine")) as server:
        model = model_at(server)
        reply = model.chat(ASK, Sampling(), 0, TOOLS)
        assert (reply.text, reply.finish, reply.tool_calls) == ("fine", "stop", ())
        assert server.requests[0][1]["tools"] == TOOLS
        assert server.requests[0][1]["tool_choice"] == "auto"
        model.chat(ASK, Sampling())
        assert not {"tools", "tool_choice"} & set(server.requests[1][1])
        model.close()


def raw_call(**function: Any) -> dict[str, Any]:
    return {"content": None, "tool_calls": [{"id": "a", "type": "function", "function": function}]}


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        (calling(("book", {"seat": "1A"})), [("book", {"seat": "1A"})]),
        (calling(("book", {"seat": "1A"}), ("look", {})), [("book", {"seat": "1A"}), ("look", {})]),
        (raw_call(name="book", arguments={"seat": "1A"}), [("book", {"seat": "1A"})]),
        (raw_call(name="look", arguments=""), [("look", {})]),
        (raw_call(name="look", arguments=None), [("look", {})]),
        (raw_call(name="look"), [("look", {})]),
        (raw_call(name="book", arguments='{"seat": "1A'), [("book", {"": '{"seat": "1A'})]),
        (raw_call(name="book", arguments='["1A"]'), [("book", {"": '["1A"]'})]),
        (raw_call(name="book", arguments=["1A"]), [("book", {"": '["1A"]'})]),
        (raw_call(name="book", arguments='{"n": NaN}'), [("book", {"": '{"n": NaN}'})]),
        (raw_call(name="book", arguments='{"n": 1e999}'), [("book", {"": '{"n": 1e999}'})]),
        (raw_call(name="book", arguments='{"seat": "\\ud83d"}'), [("book", {"seat": "\ud83d"})]),
        (raw_call(name="", arguments="{}"), [("", {})]),
        (raw_call(name=None, arguments="{}"), [("", {})]),
        (
            {"content": None, "tool_calls": [7, {"id": 1}, *calling(("look", {}))["tool_calls"]]},
            [("look", {})],
        ),
    ],
)
def test_calls_are_read_whatever_a_model_writes(message: dict[str, Any], calls: list[Any]) -> None:
    with stub_server(Say(message=message)) as server:
        model = model_at(server)
        reply = model.chat(ASK, Sampling(), 0, TOOLS)
        assert [(call.name, call.arguments) for call in reply.tool_calls] == calls
        assert (reply.text, reply.finish) == ("", "tool_calls")
        assert reply.usage.calls == len(server.requests) == 1
        for call in reply.tool_calls:
            assert ToolCall.from_line(call.to_line()) == call, "a record gives the arguments back"
        model.close()


@pytest.mark.parametrize("brackets", [60, 5000])
def test_arguments_nested_beyond_sense_stay_text(brackets: int) -> None:
    arguments = '{"a": ' + "[" * brackets + "]" * brackets + "}"
    with stub_server(Say(message=raw_call(name="book", arguments=arguments))) as server:
        model = model_at(server)
        (call,) = model.chat(ASK, Sampling(), 0, TOOLS).tool_calls
        assert call.arguments == {"": arguments}
        model.close()


def test_words_thoughts_and_calls_of_one_answer_are_all_kept() -> None:
    message = calling(("book", {}), text="One moment. END") | {"reasoning_content": "Which seat?"}
    says = [
        Say(message=message),
        Say(message=message, finish="length"),
        Say(message={"content": "Hello.", "tool_calls": None}),
        Say(message={"content": "Hello.", "tool_calls": []}),
    ]
    with stub_server(says) as server:
        model = model_at(server)
        reply, cut, *plain = (model.chat(ASK, Sampling(stop=("END",)), 0, TOOLS) for _ in says)
        assert reply.text == "<think>\nWhich seat?\n</think>\n\nOne moment. "
        assert [call.name for call in reply.tool_calls] == ["book"]
        assert cut.finish == "length"
        assert cut.tool_calls == reply.tool_calls
        assert {(one.text, one.finish, one.tool_calls) for one in plain} == {("Hello.", "stop", ())}
        model.close()


def test_calls_that_nobody_offered_are_no_answer() -> None:
    with stub_server([Say(message=calling(("book", {}))), Say("fine")]) as server:
        model = model_at(server)
        assert model.chat(ASK, Sampling()).text == "fine"
        model.close()


def test_messages_go_out_in_the_servers_form() -> None:
    odd = {"seat": "1\ud83d", "n": float("nan")}
    messages = [
        Message(role="system", content="s"),
        Message(role="user", content="u"),
        Message(role="assistant", content="", tool_calls=(ToolCall(name="book", arguments=odd, id="c1"),)),
        Message(role="tool", content="done \ud83d", tool_call_id="c1"),
        Message(role="assistant", content="Wait.", tool_calls=(ToolCall(name="look", id="c2"),)),
        Message(role="tool", content="seen", tool_call_id="c2"),
        Message(role="tool", content="nobody asked"),
    ]
    with stub_server(Say()) as server:
        model = model_at(server)
        model.chat(messages, Sampling(), 0, TOOLS)
        sent = server.requests[0][1]["messages"]
        model.close()
    assert [turn["role"] for turn in sent] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "tool",
        "user",
    ]
    (call,) = sent[2]["tool_calls"]
    assert sent[2]["content"] is None
    assert (call["id"], call["type"], call["function"]["name"]) == ("c1", "function", "book")
    assert json.loads(call["function"]["arguments"]) == {"seat": "1\ufffd", "n": "NaN"}
    assert sent[3] == {"role": "tool", "tool_call_id": "c1", "content": "done \ufffd"}
    assert sent[4]["content"] == "Wait."
    assert sent[4]["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
    assert sent[6] == {"role": "user", "content": "nobody asked"}


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'),
        (400, "registry/library/gemma does not support tools"),
        (404, "No endpoints found that support tool use."),
        (422, "Extra inputs are not permitted: tools"),
        (500, "tools param requires --jinja flag"),
        (500, "Unsupported param: tools"),
    ],
)
def test_a_server_without_tool_calls_is_told_at_once_with_what_to_do(
    status: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret-9")
    with stub_server(Say(f"{words} (very-secret-9)", status=status)) as server:
        model = model_at(server)
        with pytest.raises(UserError, match=r'start the server with tool calling.*act="write"') as caught:
            model.chat(ASK, Sampling(), 0, TOOLS)
        assert len(server.requests) == 1
        assert "very-secret-9" not in str(caught.value)
        model.close()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "messages with role 'tool' must be a response to a preceding message with 'tool_calls'"),
        (400, "Invalid schema for function 'book': array schema missing items"),
        (404, "model 'groq-tool-use' not found"),
        (500, "Failed to parse the tool call: unexpected end of input"),
        (503, "tools param requires --jinja flag"),
    ],
)
def test_one_wrong_call_or_message_is_no_refusal_of_tools(status: int, words: str) -> None:
    assert not refuses_tools(status, words)


def test_a_server_that_refuses_the_choice_only_is_asked_without_it() -> None:
    def script(_path: str, body: dict[str, Any], _number: int) -> Say:
        return Say("Unrecognized field: tool_choice", status=400) if "tool_choice" in body else Say("fine")

    with stub_server(script) as server:
        model = model_at(server)
        assert model.chat(ASK, Sampling(), 0, TOOLS).text == "fine"
        assert server.requests[-1][1]["tools"] == TOOLS
        model.close()


@pytest.mark.parametrize("bad", [Say(status=429), Say(status=500), Say(seconds=1.0), Say(text=None)])
def test_what_may_pass_is_tried_again_with_tools_too(bad: Say) -> None:
    good = Say(message=calling(("book", {"seat": "1A"})))
    with stub_server([bad, good]) as server:
        model = model_at(server, timeout=0.3)
        assert [call.name for call in model.chat(ASK, Sampling(), 0, TOOLS).tool_calls] == ["book"]
        assert server.requests[0][1] == server.requests[1][1]
        model.close()
    with stub_server(bad) as server:
        model = model_at(server, timeout=0.1, retries=1)
        with pytest.raises(InfrastructureError):
            model.chat(ASK, Sampling(), 0, TOOLS)
        assert len(server.requests) == 2
        model.close()


def test_a_model_without_tools_names_what_to_use_instead() -> None:
    refuse_tools("hf:some", ())
    with pytest.raises(UserError, match=r'hf:some.*act="write" or act="choose"'):
        refuse_tools("hf:some", TOOLS)


def test_arguments_of_a_message_have_one_form_in_requests_and_records() -> None:
    call = ToolCall(name="book", arguments={"b": [1, {"é": None}], "a": 0.1})
    with stub_server(Say()) as server:
        model = model_at(server)
        model.chat([*ASK, Message(role="assistant", content="", tool_calls=(call,)), *ASK], Sampling())
        sent = server.requests[0][1]["messages"][1]["tool_calls"][0]["function"]["arguments"]
        model.close()
    assert json.loads(sent) == call.arguments == json.loads(to_json(call.arguments))
