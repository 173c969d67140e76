"""The executor that calls tools: the conversation so far, rebuilt from steps, and a reply as actions."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from .benchmarks.base import Observation
from .models.base import Reply
from .parsing import strip_thinking
from .records import Call, Message, Step, Tool, ToolCall, to_json
from .tool_calls import format_call, parse_call
from .traces import cut_middle, fit

NO_ANSWER = "(no answer)"
"""Stands where the agent wrote nothing usable, or where a call has no result of its own."""
KEPT_CHARS = 400
"""Characters left of an old tool result in a conversation that is too long."""
LEFT_OUT = "[{turns} earlier turns are left out here, since the conversation has grown too long.]"
"""Told behind the first message where whole turns had to go."""
CUT = "[...]"
"""Stands for a text of which nothing is left."""
_PER_MESSAGE = 8
_LEAST_SCALE = 0.5


def conversation(
    system: Message, past: Sequence[Step], now: Observation, shown: Callable[[str], str]
) -> list[Message]:
    """The whole conversation of an episode as chat messages, the current observation last.

    What was seen is the user's message or the result of the call before it; what was done is the assistant's
    call or message. Several calls of one reply come one after another, each with its result: some chat
    templates refuse more than one a message. Thinking is not fed back.

    Args:
        system: The first message.
        past: All steps taken.
        now: What is seen now.
        shown: Cuts an observation for the prompt.
    """
    messages, called = [system], ""
    for number, step in enumerate(past, 1):
        messages += _seen(shown(step.observation), step.speaker, called)
        call = _parsed(step.action)
        if call is None:
            called = ""
            messages.append(Message(role="assistant", content=step.action or NO_ANSWER))
        else:
            # Nine letters and digits: Mistral's templates take no other ids.
            called = f"call{number:05d}"
            call = call.model_copy(update={"id": called})
            text = strip_thinking((_written(step.raw) or {}).get("text", ""))
            messages.append(Message(role="assistant", content=text, tool_calls=(call,)))
    return messages + _seen(shown(now.text), now.speaker, called)


_parsed = functools.lru_cache(maxsize=8192)(parse_call)


def _seen(text: str, speaker: str, called: str) -> list[Message]:
    if not called:
        return [Message(role="user", content=text)]
    if speaker != "user":
        return [Message(role="tool", content=text, tool_call_id=called)]
    # Servers want a result for each call before anybody else speaks.
    nothing = Message(role="tool", content=NO_ANSWER, tool_call_id=called)
    return [nothing, Message(role="user", content=text)]


def actions(reply: Reply) -> list[tuple[str, str]]:
    """What the model wrote and the action in it: one pair a call, else its text as a message.

    The raw text of the first call holds the whole reply as JSON, that of the others is empty. A call without
    a name is no action. Arguments are put in the order in which records keep them, so that a replay acts by
    the same text.
    """
    if not reply.tool_calls:
        return [(reply.text, strip_thinking(reply.text))]
    calls = [
        ToolCall(name=call.name.strip(), arguments=json.loads(to_json(call.arguments)))
        for call in reply.tool_calls
    ]
    written = {
        "text": reply.text,
        "tool_calls": [{"name": call.name, "arguments": call.arguments} for call in calls],
    }
    raws = [json.dumps(written, ensure_ascii=False), *[""] * (len(calls) - 1)]
    return [(raw, format_call(call) if call.name else "") for raw, call in zip(raws, calls, strict=True)]


def raw_without_thinking(raw: str) -> str:
    """A step's raw text without think blocks, whether it is plain text or a reply with calls."""
    written = _written(raw)
    if written is None:
        return strip_thinking(raw)
    return json.dumps(written | {"text": strip_thinking(written["text"])}, ensure_ascii=False)


def _written(raw: str) -> dict[str, Any] | None:
    """The reply that `actions` wrote into a raw text; None for any other text."""
    if not raw.startswith('{"text": '):
        return None
    try:
        written = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return written if set(written) == {"text", "tool_calls"} and isinstance(written["text"], str) else None


def fitted(
    messages: Sequence[Message], tools: Sequence[Tool], budget: float, count: Callable[[str], int]
) -> tuple[Message, ...]:
    """A conversation within `budget` tokens, the tools' schemas included.

    What is too long is shortened in this order, each time no more than needed: the oldest tool results keep
    their head and tail; the oldest turns behind the first message are left out, which that message then
    says; of what is left, the longest texts lose their middle. The system message is never touched: where it
    alone is too long, the server says so. Every cut leaves a mark in the text, and calls are recorded with
    their exact messages.
    """
    kept = list(messages)
    over = prompt_tokens(kept, tools, count) - budget
    for at, message in enumerate(kept[:-1]):
        if over <= 0:
            break
        if message.role == "tool":
            kept[at] = _with_text(message, cut_middle(message.content, KEPT_CHARS).text)
            over -= _tokens(message, count) - _tokens(kept[at], count)
    turns = 0
    while over > 0 and len(kept) > 4 and (end := _next_turn(kept)):
        over -= sum(_tokens(message, count) for message in kept[2:end])
        del kept[2:end]
        turns += 1
    if turns:
        first = kept[1]
        kept[1] = _with_text(first, f"{first.content}\n\n{LEFT_OUT.format(turns=turns)}")
        over += _tokens(kept[1], count) - _tokens(first, count)
    if over > 0:
        texts = [message.content for message in kept[1:]]
        cut = fit(texts, int(sum(map(count, texts)) - over), count)
        kept[1:] = [
            _with_text(message, short.text or (CUT if message.content else ""))
            for message, short in zip(kept[1:], cut, strict=True)
        ]
    return tuple(kept)


def _next_turn(messages: Sequence[Message]) -> int:
    """Where the second turn behind the first message begins; 0 if there is none."""
    return next((at for at in range(3, len(messages)) if messages[at].role == "assistant"), 0)


def _with_text(message: Message, text: str) -> Message:
    return message.model_copy(update={"content": text})


def prompt_tokens(messages: Sequence[Message], tools: Sequence[Tool], count: Callable[[str], int]) -> int:
    """Tokens of a conversation and its tools by `count`."""
    offered = count(json.dumps(tools)) if tools else 0
    return offered + sum(_tokens(message, count) for message in messages)


def _tokens(message: Message, count: Callable[[str], int]) -> int:
    called = "".join(f"{call.name}{json.dumps(call.arguments)}" for call in message.tool_calls)
    return count(message.content) + (count(called) if called else 0) + _PER_MESSAGE


def token_scale(calls: Sequence[Call], tools: Sequence[Tool], count: Callable[[str], int]) -> float:
    """Tokens by the server's own count for each by `count`, from the executor's last call; 1 where unknown.

    A served model's count is an upper estimate, by a third too high on policies and databases; taken as it
    is, it would cut conversations that fit.
    """
    for call in reversed(calls):
        if call.role == "executor" and call.usage.prompt_tokens > 0:
            counted = prompt_tokens(call.messages, tools, count)
            return min(1.0, max(_LEAST_SCALE, 1.02 * call.usage.prompt_tokens / counted))
    return 1.0
