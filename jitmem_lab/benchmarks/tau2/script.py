"""The scripted user: a deterministic customer who needs no model.

It says why it calls and what it knows, does with its own tools what is asked of it in call form, agrees
to any question, and ends the conversation at a message that asks nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ...records import ToolCall
from ...tool_calls import parse_call

VERSION = 1
"""Raised whenever the script says or does something else than before."""
STOP = "###STOP###"
"""τ²'s token that ends a conversation."""
MOST_CALLS = 20
"""Calls that the user makes for one message; more are not read."""
_LONGEST_CALL = 2000
AGREES = "Yes, please go ahead."
ENDS = f"Goodbye. {STOP}"

_PERSONS = {
    "you are": "I am",
    "you were": "I was",
    "you're": "I'm",
    "you've": "I've",
    "you'd": "I'd",
    "you'll": "I'll",
    "yourself": "myself",
    "yours": "mine",
    "your": "my",
}
_YOU = re.compile(r"\b(" + "|".join(_PERSONS) + r"|you)\b", re.I)
_BEFORE_OBJECT = re.compile(
    r"\b(to|for|with|at|by|of|from|about|tell|told|give|gave|gives|ask|asks|asked|let|lets|help|helps|helped|"
    r"send|sent|charged|allow|allows|caused|causes|owe|owes|pay|refund)\s+$",
    re.I,
)
_STAGE = re.compile(r"\bagent|\breveal|\bpersona\b", re.I)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def request(call: str) -> str:
    """A message that asks the scripted user to make one of its own calls."""
    return f"Please do this: {call}"


def opening(instructions: Mapping[str, Any] | str) -> str:
    """The user's first message: the reason for the call and what the scenario says it knows.

    Sentences that direct the actor ("if the agent asks …") are left out unless nothing else is there.
    A scenario in one piece (mock) is said whole.
    """
    if isinstance(instructions, str):
        told = [instructions]
    else:
        told = [str(instructions.get(part) or "") for part in ("reason_for_call", "known_info")]
    said = [" ".join(_spoken(part)) for part in told]
    return first_person(" ".join(part for part in said if part)) or "Hello."


def _spoken(text: str) -> list[str]:
    sentences = [part.strip() for part in _SENTENCE.split(text) if part.strip()]
    return [part for part in sentences if not _STAGE.search(part)] or sentences


def first_person(text: str) -> str:
    """`text` about "you" as that person would say it."""

    def swap(match: re.Match[str]) -> str:
        found = match[0].lower()
        if found == "you":
            behind = text[match.end() : match.end() + 1]
            is_object = _BEFORE_OBJECT.search(text[: match.start()]) or behind in ".,;!?)"
            return "me" if is_object else "I"
        said = _PERSONS[found]
        return said[0].upper() + said[1:] if match[0][0].isupper() else said

    return _YOU.sub(swap, text)


def asked_calls(message: str, needs: Mapping[str, bool]) -> tuple[list[ToolCall], list[str]]:
    """The user's own tools that a message names.

    Args:
        message: What the agent says.
        needs: The user's tools by name, and whether each needs arguments.

    Returns:
        Calls in the order asked, `MOST_CALLS` at most: `tool(argument=value)` each time it stands there, and
        once a bare name that needs no argument; and the names of tools whose call can't be read.
    """
    calls: list[ToolCall] = []
    unclear: list[str] = []
    names = sorted(needs, key=len, reverse=True)
    if not names:
        return [], []
    for match in re.finditer(rf"\b({'|'.join(map(re.escape, names))})\b(\s*\()?", message):
        name = match[1]
        text = f"{name}()" if not match[2] else _balanced(message, match.start(), match.end())
        call = parse_call(text) if match[2] or not needs[name] else None
        if call is None:
            unclear.append(name)
            if len(unclear) == MOST_CALLS:
                break
        elif match[2] or all(name != known.name for known in calls):
            calls.append(call)
            if len(calls) == MOST_CALLS:
                break
    return calls, list(dict.fromkeys(unclear))


def _balanced(message: str, start: int, inside: int) -> str:
    """The text from `start` to the parenthesis that closes the one before `inside`, quotes respected."""
    depth, quote, at = 1, "", inside
    while at < min(len(message), start + _LONGEST_CALL):
        char = message[at]
        if quote:
            at += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        else:
            depth += (char in "([{") - (char in ")]}")
            if depth == 0:
                return message[start : at + 1]
        at += 1
    return ""


def answer(message: str, unclear: list[str]) -> str:
    """What the user says to a message in which it was asked for no call that it can make."""
    if unclear:
        return f"I can do that if you write it like this: {unclear[0]}(argument=value)"
    return AGREES if "?" in message else ENDS


def report(done: list[tuple[str, str]]) -> str:
    """What the user says after its calls: each with what its device showed."""
    return "\n".join(f"I did {call}. It says: {shown}" for call, shown in done)


def manner(user_tools: list[str]) -> str:
    """A note for the agent on how to talk with this user; empty where it has no tools of its own."""
    if not user_tools:
        return ""
    example = request(user_tools[0].partition("(")[0] + "()")
    lines = [
        "",
        "<user>",
        "The user is a script. It does on its own device what a message names as a call, for example "
        f'"{example}", and reports what it sees. It agrees to any question, and a message that asks nothing '
        "ends the conversation. It can do:",
        *(f"- {tool}" for tool in user_tools),
        "</user>",
    ]
    return "\n".join(lines)
