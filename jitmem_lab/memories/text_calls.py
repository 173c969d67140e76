"""Tool calls in a written answer: `name(argument="…")` or JSON objects, one after the other.

For models that call no tools. Read as such models write: strings over several lines, calls in code fences,
lists or `<tool_call>` tags, JSON arrays, an answer that ends in the middle of a call.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from ..records import ToolCall
from ..tool_calls import parse_call

_MOST_UNREADABLE = 20
_BEFORE = r"[ \t]*+(?:[\w ]{0,24}:)?(?:[ \t]|[-*>`\[]|\d+[.)]|<tool_call>)*+"
_BETWEEN = re.compile(r"(?:[\s;,\])`]|</?tool_call>)*")
_TOKEN = re.compile(
    r"""("{3}|'{3})(?:\\.|(?!\1).)*\1 | "(?:\\.|[^"\\])*" | '(?:\\.|[^'\\])*'
    | [()\[\]{}] | [^"'()\[\]{}]+""",
    re.S | re.X,
)
_ODD = re.compile(r"\\(.)|([\x00-\x08\x0b-\x1f\ud800-\udfff]|\n)", re.S)


class Said(NamedTuple):
    """One call as it stands in an answer."""

    call: ToolCall | None
    """The call; None where it can't be read."""
    text: str
    """How it was written, at most its first 200 characters."""


def calls_in(answer: str, names: Iterable[str]) -> list[Said]:
    """The calls in an answer, in order.

    A call of one of `names` counts where a line begins with it (behind list marks, a label or a fence) or
    where it follows another call; so does a JSON object with a `name`. One that can't be read counts too,
    without its call, and the next line that begins with one is read on.
    """
    plain = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    begin = re.compile(rf"{_BEFORE}(?P<call>(?:{plain})[ \t]*\(|\{{)")
    line = re.compile(rf"^{begin.pattern}", re.M)
    found: list[Said] = []
    at, unreadable = 0, 0
    match = line.search(answer)
    while match is not None and unreadable < _MOST_UNREADABLE:
        start = match.start("call")
        read = _json(answer, start) if answer[start] == "{" else _plain(answer, start)
        if read is not None and read.call is not None:
            found.append(Said(read.call, answer[start : min(read.end, start + 200)]))
            at = read.end
            between = _BETWEEN.match(answer, at)
            match = begin.match(answer, between.end()) if between else None
            match = match or line.search(answer, at)
            continue
        if read is not None:
            found.append(Said(None, answer[start : start + 200]))
            unreadable += 1
        at = answer.find("\n", start) + 1
        match = line.search(answer, at) if at else None
    return found


class _Read(NamedTuple):
    call: ToolCall | None
    end: int


def _plain(answer: str, start: int) -> _Read:
    parts, depth = [], 0
    at = start
    while (token := _TOKEN.match(answer, at)) is not None:
        part, at = token[0], token.end()
        parts.append(_literal(part) if part[0] in "\"'" else part)
        depth += (part in "([{") - (part in ")]}")
        if depth == 0 and part in ")]}":
            return _Read(parse_call("".join(parts)), at)
    return _Read(None, len(answer))


def _literal(text: str) -> str:
    """A string as Python reads it: with line breaks and characters that source code can't hold escaped."""
    return _ODD.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    if match[1] is None:
        return "\\n" if match[2] == "\n" else f"\\u{ord(match[2]):04x}"
    if match[1] == "\n":
        return "\\n"
    return match[0] if match[1] in "\\'\"abfnrtvxuUN01234567" else f"\\\\{match[1]}"


def _json(answer: str, start: int) -> _Read | None:
    """The call that a JSON object is; None for an object that is no call."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(answer, start)
    except (ValueError, RecursionError):
        torn = re.match(r'\{\s*"(?:name|function|type)"\s*:', answer[start : start + 80])
        return _Read(None, len(answer)) if torn else None
    inner: Any = value.get("function", value)
    if not isinstance(inner, dict) or "name" not in inner:
        return None
    return _Read(parse_call(json.dumps(inner)), end)
