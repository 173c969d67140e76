"""What the pages about a whole run count: a few facts an episode and a write, read past their long texts.

Most of a line are the prompts as sent and the steps. Both are stepped over unparsed, so that ten thousand
episodes are read in a second or two; where that fails, the line is parsed whole. A quote inside a text is
always escaped, so bytes such as `"calls": [` are part of the structure wherever they stand.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from pydantic_core import from_json

from .following import Follower

NEWEST = 20
"""Lines that are kept as the newest."""
_CALLS = b'"calls": ['
_STEPS = (b'"steps": [', b'], "task": {')
_USAGE, _ROLE, _SAMPLE = b'"usage": {"cached_calls": ', b'"role": "', b'", "sample": '
_COUNTS = re.compile(rb'(\d+), "calls": (\d+), "completion_tokens": (\d+), "prompt_tokens": (\d+)')


class Tokens(NamedTuple):
    """What the calls of one role cost."""

    calls: int = 0
    """Calls that reached a model."""
    cached: int = 0
    """Calls answered from a cache."""
    read: int = 0
    """Tokens of prompts."""
    written: int = 0
    """Tokens of answers."""


_NOTHING = Tokens()


class Fact(NamedTuple):
    """What is kept of one episode."""

    position: int
    """Place in the stream."""
    key: str
    """What resume recognises it by."""
    outcome: str
    """success, failure or error."""
    verdict: bool | None
    """What the gate says, None without a usable verdict."""
    source: str
    """Who said so: judge, environment, none."""
    description: str
    """The task's sentence."""
    traces: tuple[int, ...]
    """What was retrieved for it, best first."""
    seconds: float
    """Wall time."""
    ended: float
    """Unix time of its end."""
    error: str
    """Why it ended in an error; empty otherwise."""


class Facts(Follower):
    """The facts of a run's episodes."""

    name: ClassVar[str] = "episodes.jsonl"

    def forget(self) -> None:
        """Let go of all lines."""
        self.tokens: dict[str, Tokens] = {}
        """By role, over all attempts at all episodes."""
        self.sentences: dict[int, str] = {}
        """Of which task each retrieved trace tells."""
        self.last: list[Fact] = []
        """The newest lines, newest last, errors that were made good included."""
        self._found: dict[str, Fact] = {}

    def take(self, line: bytes) -> None:
        """Take in an episode's line."""
        raw, calls = without_texts(line, b'], "error": ')
        fact = self._fact(raw)
        _add(self.tokens, _tokens(calls))
        self.last = [*self.last[1 - NEWEST :], fact]
        old = self._found.get(fact.key)
        if old is None or old.outcome == "error":
            self._found[fact.key] = fact

    def _fact(self, raw: dict[str, Any]) -> Fact:
        traces = raw["recall"]["traces"]
        verdict, position = raw["verdict"], raw["position"]
        if type(position) is not int or position < 0 or not _is_verdict(verdict):
            raise ValueError(position)
        seconds = float(raw.get("seconds") or 0)
        fact = Fact(
            position,
            str(raw["key"]),
            str(raw["outcome"]),
            verdict["success"],
            str(verdict["source"]),
            str(raw["task"]["description"]),
            tuple(int(trace["trace_id"]) for trace in traces),
            seconds,
            float(raw.get("started") or 0) + seconds,
            str(raw.get("error") or ""),
        )
        for trace in traces:
            self.sentences.setdefault(int(trace["trace_id"]), str(trace["description"]))
        return fact

    def __len__(self) -> int:
        return len(self._found)

    def episodes(self, writes: Writes | None = None) -> list[Fact]:
        """The episode that counts for each task, in stream order: its result, else its last error.

        With `writes`, a verdict that the judge gave only before memory's write stands in its place.
        """
        late = {} if writes is None else writes.verdicts
        found = [
            fact._replace(verdict=late[fact.key][0], source=late[fact.key][1]) if fact.key in late else fact
            for fact in list(self._found.values())
        ]
        return sorted(found, key=lambda fact: fact.position)

    def counts(self) -> Counter[str]:
        """Number of episodes by outcome."""
        return Counter(fact.outcome for fact in list(self._found.values()))


class Writes(Follower):
    """What memory did after each episode."""

    name: ClassVar[str] = "writes.jsonl"

    def forget(self) -> None:
        """Let go of all lines."""
        self.tokens: dict[str, Tokens] = {}
        """By role, the warm start's included."""
        self.changes: dict[str, dict[str, Any]] = {}
        """What changed, by the episode's key, in order of the writes."""
        self.errors: dict[str, str] = {}
        """Why a write failed that has not been made good, by key."""
        self.verdicts: dict[str, tuple[bool | None, str]] = {}
        """Verdicts that the judge gave only before the write, by key, with who gave them."""

    def take(self, line: bytes) -> None:
        """Take in a write's line."""
        raw, calls = without_texts(line, *(b'], "%s": ' % name for name in (b"change", b"error", b"key")))
        key = raw["key"]
        if not isinstance(key, str):
            raise TypeError(key)
        _add(self.tokens, _tokens(calls))
        if _is_verdict(raw.get("verdict")):
            self.verdicts[key] = (raw["verdict"]["success"], str(raw["verdict"]["source"]))
        if raw.get("error") is not None:
            self.errors[key] = str(raw["error"])
        elif isinstance(raw.get("change"), dict):
            self.changes[key] = raw["change"]
            self.errors.pop(key, None)


def added(*parts: Mapping[str, Tokens]) -> dict[str, Tokens]:
    """Tokens by role, summed."""
    total: dict[str, Tokens] = {}
    for part in parts:
        _add(total, part)
    return total


def _add(total: dict[str, Tokens], part: Mapping[str, Tokens]) -> None:
    for role, tokens in list(part.items()):
        old = total.get(role, _NOTHING)
        total[role] = Tokens(*(a + b for a, b in zip(old, tokens, strict=True)))


def _is_verdict(value: Any) -> bool:
    return isinstance(value, dict) and value.get("success") in (True, False, None) and "source" in value


def without_texts(line: bytes, *ends: bytes) -> tuple[dict[str, Any], bytes]:
    """A line's JSON without model calls and steps, and the calls unparsed.

    Args:
        line: The line.
        ends: What may stand behind the calls.
    """
    begin = line.find(_CALLS)
    if begin < 0:
        return _object(line), b""
    begin += len(_CALLS)
    if line[begin : begin + 1] == b"]":
        end = begin
    else:
        end = next((at for at in (line.find(end, begin) for end in ends) if at >= 0), -1)
    calls, rest = line[begin:end], line[end:]
    first, last = rest.find(_STEPS[0]), rest.rfind(_STEPS[1])
    short = rest[: first + len(_STEPS[0])] + rest[last:] if 0 <= first < last else rest
    for tail in (short, rest):
        try:
            return _object(line[:begin] + tail), calls
        except ValueError:  # the ends found were not the right ones
            continue
    return _object(line), line


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = from_json(text)
    except ValueError:  # the slow parser takes more, such as half a surrogate pair
        found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _tokens(calls: bytes) -> dict[str, Tokens]:
    """What calls cost, by role."""
    found: dict[str, Tokens] = {}
    parts = calls.split(_USAGE)
    for before, after in pairwise(parts):
        end = before.rfind(_SAMPLE)
        start = before.rfind(_ROLE, 0, end)
        counts = _COUNTS.match(after)
        if start >= 0 and counts is not None:
            role = before[start + len(_ROLE) : end].decode("ascii", "replace")
            cached, asked, written, read = map(int, counts.groups())
            a, b, c, d = found.get(role, _NOTHING)
            found[role] = Tokens(a + asked, b + cached, c + read, d + written)
    return found
