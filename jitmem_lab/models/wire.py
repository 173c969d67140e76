"""What an OpenAI-compatible server is sent, and how its answers are read."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..records import Message, Sampling, ToolCall, Usage, content_hash, to_json
from ..tool_calls import too_deep
from .base import Reply, Tool
from .rendering import clean_text
from .retrying import Again

_NO_TOOLS = re.compile(
    r"--jinja|enable-auto-tool-choice|unsupported param\w*\W+tools|support tool use"
    r"|(not|n't) support(ed)?\b.{0,40}\b(tools?|function call)"
    r"|\b(tools?|function call\w*)\b.{0,40}\bnot support",
    re.I,
)
"""How servers say that they do no tool calls; some say it with status 500."""
_REFUSED_NAME = re.compile(
    r"(unrecognized|unsupported|unknown|unexpected|permitted|extra).*\b(tools|tool_choice)\b"
    r"|\b(tools|tool_choice)\b.*(unrecognized|unsupported|unknown|unexpected|permitted|extra)",
    re.I,
)
"""How servers refuse a field of a request."""


class BodyError(Exception):
    """An error that came with status 200."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def settings(sampling: Sampling, sample: int) -> dict[str, Any]:
    """The part of a request that says how to draw."""
    body: dict[str, Any] = {"temperature": sampling.temperature, "max_tokens": sampling.max_tokens}
    if sampling.top_p < 1:
        body["top_p"] = sampling.top_p
    if sampling.top_k > 0:
        body["top_k"] = sampling.top_k
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        seed = sampling.seed if sample == 0 else int(content_hash([sampling.seed, sample], 8), 16)
        body["seed"] = seed & 0x7FFFFFFF
    if sampling.thinking is not None:
        body["chat_template_kwargs"] = {"enable_thinking": sampling.thinking}
    return body


def turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the server's form; a tool's message that answers no call goes out as the user's."""
    return [_turn(message) for message in messages]


def _turn(message: Message) -> dict[str, Any]:
    text = clean_text(message.content)
    if message.role == "tool":
        if not message.tool_call_id:
            return {"role": "user", "content": text}
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": text}
    if message.role != "assistant" or not message.tool_calls:
        return {"role": message.role, "content": text}
    calls = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": clean_text(call.name), "arguments": _arguments_text(call.arguments)},
        }
        for call in message.tool_calls
    ]
    return {"role": "assistant", "content": text or None, "tool_calls": calls}


def _arguments_text(arguments: dict[str, Any]) -> str:
    try:
        text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(json.loads(to_json(arguments)), ensure_ascii=False)
    return clean_text(text)


def offered(tools: Sequence[Tool]) -> dict[str, Any]:
    """The part of a request that offers tools; empty without any."""
    return {"tools": list(tools), "tool_choice": "auto"} if tools else {}


def refuses_tools(status: int, text: str) -> bool:
    """Whether a server's error refuses tools as such, rather than one wrong call or message."""
    if status not in (400, 404, 422, 500, 501):
        return False
    return bool(_NO_TOOLS.search(text) or (status < 500 and _REFUSED_NAME.search(text)))


def parse_body(response: Any) -> dict[str, Any]:
    """The JSON object that a server answered.

    Raises:
        Again: It is no JSON object.
        BodyError: It is an error that came with status 200.
    """
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        raise Again(f"an answer that is no JSON ({len(response.content)} bytes)") from None
    if not isinstance(answer, dict):
        raise Again("an answer that is no JSON object")
    if answer.get("error") and not answer.get("choices"):
        error = answer["error"]
        code = error.get("code") if isinstance(error, dict) else None
        raise BodyError(
            int(str(code)) if str(code).isdigit() else 500, error_text(json.dumps(answer), "error")
        )
    return answer


def choices(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The choices in an answer; `Again` if it has none."""
    found = answer.get("choices")
    if not isinstance(found, list) or not found or not all(isinstance(choice, dict) for choice in found):
        raise Again("an answer without choices")
    return found


def read_reply(answer: dict[str, Any], tools: bool = False) -> Reply:
    """The first choice as a reply; its tool calls are read if `tools` were offered.

    Raises:
        Again: It holds neither text nor a call.
    """
    choice = choices(answer)[0]
    finish = "length" if choice.get("finish_reason") == "length" else "stop"
    message = choice.get("message") or {}
    calls = _tool_calls(message.get("tool_calls")) if tools else ()
    text = choice.get("text") if "text" in choice else message.get("content")
    if isinstance(text, list):
        text = "".join(str(part.get("text", "")) for part in text if isinstance(part, dict))
    thought = message.get("reasoning_content") or message.get("reasoning")
    if text is None:
        text = message.get("refusal")
    if text is None and (calls or finish == "length"):
        text = ""
    if not isinstance(text, str):
        raise Again("an answer without content")
    if isinstance(thought, str) and thought and "</think>" not in text:
        text = f"<think>\n{thought.strip()}\n</think>\n\n{text}"
    if calls and finish == "stop":
        finish = "tool_calls"
    return Reply(text, usage(answer), finish, calls)


def _tool_calls(given: Any) -> tuple[ToolCall, ...]:
    if not isinstance(given, list):
        return ()
    functions = [(one.get("function"), one.get("id")) for one in given if isinstance(one, dict)]
    return tuple(
        ToolCall(
            name=str(function.get("name") or ""),
            arguments=_arguments(function.get("arguments")),
            id=str(identifier or ""),
        )
        for function, identifier in functions
        if isinstance(function, dict)
    )


def _arguments(given: Any) -> dict[str, Any]:
    """Arguments as a JSON object, or `{"": the raw text}`.

    NaN and infinity are no JSON: were they let through, a record could not give them back. Nor could it hold
    a thousand brackets in each other, which a model that goes astray may write.
    """
    if given is None or given == "":
        return {}
    raw = given if isinstance(given, str) else to_json(given)
    try:
        value = json.loads(raw)
        json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        return {"": raw}
    return value if isinstance(value, dict) and not too_deep(value, 50) else {"": raw}


def usage(answer: dict[str, Any]) -> Usage:
    """What the server says an answer cost, as one call."""
    given = answer.get("usage") or {}
    return Usage(
        calls=1,
        prompt_tokens=int(given.get("prompt_tokens") or 0),
        completion_tokens=int(given.get("completion_tokens") or 0),
    )


def error_text(body: str, otherwise: str) -> str:
    """The server's own words about an error, on one line."""
    try:
        error = json.loads(body)
        error = error.get("error", error) if isinstance(error, dict) else error
        found = error.get("message") or error.get("detail") if isinstance(error, dict) else error
        text = str(found or otherwise)
        if isinstance(error, dict) and error.get("param"):
            text += f" (param {error['param']}, {error.get('code')})"
    except ValueError:
        text = body or otherwise
    return " ".join(text.split())[:500]
