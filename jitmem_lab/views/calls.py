"""Model calls as HTML: the exact prompt, what could be chosen, the raw answer; all folded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..records import Call, Message, Step, Usage
from ..render import escape
from ..tool_calls import answer_text, message_text
from .style import block, facts, fold, folds, table

ALIKE = 600
"""Characters that two prompts have in common from which on they are told of, not shown again."""
MOST_OPTIONS = 200
"""Options that are listed unless all are asked for."""
_PIECE = 4096


class StepCalls(NamedTuple):
    """The calls that belong to one step."""

    decided: Call | None
    """The executor's, whose answer the step is; None for the second and later tools of one answer."""
    before: tuple[Call, ...]
    """Made on the way to it: the simulated user's, and those by which memory was asked for this step."""


def by_step(steps: Sequence[Step], calls: Sequence[Call]) -> tuple[list[StepCalls], list[Call]]:
    """The calls made while acting, step by step, and those that belong to none."""
    left = [call for call in calls if call.role == "executor" or call.phase == "act"]
    found: list[StepCalls] = []
    for step in steps:
        at = next((n for n, call in enumerate(left) if call.role == "executor"), None)
        if at is None or not _decides(left[at], step):
            found.append(StepCalls(None, ()))
            continue
        found.append(StepCalls(left[at], tuple(left[:at])))
        del left[: at + 1]
    return found, left


def _decides(call: Call, step: Step) -> bool:
    """Whether a step is what a call answered; a call of tools is kept whole, in the first of its steps."""
    return bool(step.raw) if call.tool_calls else call.text == step.raw


def prompt(
    call: Call, limit: int | None, before: tuple[str, Call] | None = None, opened: bool = False
) -> str:
    """The exact prompt of a call, folded.

    Args:
        call: The call.
        limit: Characters of one message that are shown; None shows all.
        before: Another call and what it is called: where this prompt is the same for long, that is said
            instead.
        opened: Whether it starts open.
    """
    others = before[1].messages if before is not None and limit is not None else ()
    name = "" if before is None else escape(before[0], 80)
    parts, same, place = [], 0, 0
    for place, message in enumerate(call.messages):
        if place == same and place < len(others) and _equal(message, others[place]):
            same += 1
    known = sum(len(message.content) for message in call.messages[:same])
    if known < ALIKE:
        same = 0
    else:
        messages = "the message" if same == 1 else f"the first {same:,} messages"
        parts.append(f'<div class="facts">{messages}, {known:,} characters: the same as {name}</div>')
    for place, message in enumerate(call.messages[same:], same):
        text = message_text(message)
        begun = _common(text, message_text(others[place])) if place < len(others) else 0
        head = escape(message.role)
        if begun >= ALIKE:
            head += f", after {begun:,} characters that are the same as {name}"
            text = text[begun:]
        parts.append(f'<div class="facts">{head}</div>{block(text, limit)}')
    if call.tools:
        parts.append(f'<div class="facts">tools</div>{block(chr(10).join(call.tools), limit)}')
    done = "written" if call.options is None else f"scored in {len(call.options):,} options"
    cost = facts(f"{call.usage.prompt_tokens:,} tokens read, {call.usage.completion_tokens:,} {done}")
    return fold(f"prompt as sent {cost}", "".join(parts), opened)


def _equal(one: Message, other: Message) -> bool:
    same = one.role == other.role and one.content == other.content
    return same and one.tool_calls == other.tool_calls


def _common(one: str, other: str) -> int:
    """How many characters two texts begin with in common, back to the last beginning of a line."""
    most, at = min(len(one), len(other)), 0
    while at < most and one[at : at + _PIECE] == other[at : at + _PIECE]:
        at += _PIECE
    low, high = min(at, most), min(at + _PIECE, most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[at:middle] == other[at:middle] else (low, middle - 1)
    return one.rfind("\n", 0, low) + 1 or low


def options(call: Call, limit: int | None) -> str:
    """The options of a choice, best first, each with its mean log-probability."""
    scores = call.scores or ()
    scored = [
        (scores[n] if n < len(scores) else float("-inf"), option)
        for n, option in enumerate(call.options or ())
    ]
    scored.sort(key=lambda pair: -pair[0])
    most = len(scored) if limit is None else MOST_OPTIONS
    lines = [f"{score:9.3f}  {option}" for score, option in scored[:most]]
    lines += [f"… {len(scored) - most:,} more"] if len(scored) > most else []
    told = '<div class="facts">mean log-probability, option</div>'
    return fold(f"{len(scored):,} options, likeliest first", told + block("\n".join(lines), None))


def call_html(call: Call, limit: int | None, title: str = "") -> str:
    """A whole call, folded but for its title."""
    failed = '<span class="error">failed</span>' if call.error else ""
    told = facts(escape(call.model, 120), escape(call.finish, 40), failed)
    answer = call.error or answer_text(call)
    parts = [
        prompt(call, limit),
        options(call, limit) if call.options else "",
        fold("raw answer", block(answer, limit)) if answer else "",
    ]
    return f'<div class="call"><h3>{title or escape(call.role) + " call"} {told}</h3>{folds(*parts)}</div>'


def usage_html(usage: dict[str, Usage]) -> str:
    """What each role cost, as a table."""
    rows = [
        (
            escape(role),
            *(f"{n:,}" for n in (u.calls, u.cached_calls, u.prompt_tokens, u.completion_tokens)),
            f"{u.seconds:,.1f}",
        )
        for role, u in usage.items()
    ]
    return table(("role", "calls", "from cache", "tokens read", "written", "seconds"), rows)


def calls_html(calls: Iterable[Call], limit: int | None) -> str:
    """Several calls, one below the other."""
    return "".join(call_html(call, limit) for call in calls)
