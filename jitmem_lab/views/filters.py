"""Filters of tasks and runs as one line of text: `outcome:failure type:heat tokens>2000 mug`.

Names are strict: one that there is not is refused with the nearest that there is. What has no name is
searched for in the tasks' sentences; quotes keep words together, and `-` before a part turns it round.
"""

from __future__ import annotations

import math
import operator
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from ..errors import UserError, did_you_mean
from ..render import clean_text
from .reading import Listed
from .scanning import Row

OUTCOMES = ("success", "failure", "error")
"""How an episode can end."""
NAMES = ("benchmark", "memory", "outcome", "type", "task")
"""Filters that take texts, several with commas."""
NUMBERS = ("tokens", "steps", "reward", "traces", "position")
"""Filters that compare numbers."""
EXAMPLE = "outcome:failure type:heat tokens>2000 mug"
"""A line that says how it is done."""
LONGEST = 1000
"""Characters of the longest filter."""

_SIGNS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
    ":": operator.eq,
}
_PART = re.compile(
    r'(?P<minus>-?)(?:(?P<name>[^\W\d]\w*)(?P<sign><=|>=|[<>=:]))?(?P<value>(?:"[^"]*"|[^\s"])*)(?P<open>"?)'
)


class Part(NamedTuple):
    """One condition of a filter."""

    name: str
    """What it is about; empty for words of the task's sentence."""
    sign: str
    """How it compares."""
    value: str
    """With what; several with commas."""
    negated: bool
    """Whether it holds for the others."""

    def __str__(self) -> str:
        plain = re.fullmatch(r"\S+" if self.name else r"[^\s:<>=-][^\s:<>=]*", self.value)
        quotes = "" if plain else '"'
        return f"{'-' * self.negated}{self.name}{self.sign}{quotes}{self.value}{quotes}"


def parse(line: str) -> tuple[Part, ...]:
    """The conditions in a line.

    Raises:
        UserError: A name that there is not, a number that is none, a quote that is not closed.
    """
    if len(line) > LONGEST:
        raise UserError(f"a filter has at most {LONGEST:,} characters, this one {len(line):,}")
    parts = []
    at = 0
    while (match := _PART.match(line, at)) is not None and at < len(line):
        at = match.end()
        if match["open"]:
            raise UserError(f'close the quote in {clean_text(line[match.start() :], 80)}, as in "mug 1"')
        if match[0]:
            parts.append(_part(match))
        while at < len(line) and line[at].isspace():
            at += 1
    return tuple(parts)


def _part(match: re.Match[str]) -> Part:
    name, sign = match["name"] or "", match["sign"] or ""
    part = Part(name, sign, match["value"].replace('"', ""), bool(match["minus"]))
    if name and name not in NAMES + NUMBERS:
        raise UserError(
            f"there is no filter {clean_text(name, 40)!r}; {_hint(name, NAMES + NUMBERS)}"
            f'put what is no filter in quotes, as in "{clean_text(match[0], 40)}"'
        )
    if name and not part.value:
        raise UserError(f"say what {name} must be, as in {_example(name)}")
    if not name and not part.value:
        raise UserError("say what must not be there, as in -mug")
    if name in NAMES and sign not in ":=":
        raise UserError(f"{name} takes a text, as in {_example(name)}")
    if name in NUMBERS:
        _number(part)
    if name == "outcome":
        for value in _values(part):
            _matching("outcome", value, OUTCOMES)
    return part


def _example(name: str) -> str:
    examples = {"outcome": "outcome:failure", "type": "type:heat", "memory": "memory:jitmem"}
    return examples.get(name, f"{name}:alfworld" if name in NAMES else f"{name}>2")


def _values(part: Part) -> list[str]:
    return [value for value in part.value.split(",") if value]


def _number(part: Part) -> float:
    try:
        value = float(part.value)
        if not math.isfinite(value):
            raise ValueError(value)
    except ValueError:
        raise UserError(
            f"{part.name} takes a number, as in {part.name}>2, not {clean_text(part.value, 40)!r}"
        ) from None
    return value


def _fold(text: str) -> str:
    """A text for comparing: one form of accents, no capitals."""
    return (text if text.isascii() else unicodedata.normalize("NFC", text)).casefold()


def _hint(value: str, known: Iterable[str]) -> str:
    names = list(known)
    return did_you_mean(value, names, f"there are {', '.join(names)};") + " "


def _matching(what: str, value: str, known: Iterable[str]) -> set[str]:
    """Those of the known values that are the value, else those that it is a part of."""
    names = sorted(set(known))
    folded = _fold(value)
    found = {name for name in names if _fold(name) == folded}
    found = found or {name for name in names if folded in _fold(name)}
    if not found and names:
        words = [word for name in names for word in (name, *re.split(r"\W|_", name)) if word]
        some = [clean_text(name, 60) for name in names[:12]]
        more = f" and {len(names) - 12:,} more" if len(names) > 12 else ""
        hint = clean_text(did_you_mean(folded, words), 80)
        raise UserError(
            f"there is no {what} {clean_text(value, 60)!r} here; {hint} there are {', '.join(some)}{more}"
        )
    return found


def choose(parts: Sequence[Part], rows: Sequence[Row]) -> list[Row]:
    """The rows for which all conditions hold; those on `memory` are about runs and hold here.

    Raises:
        UserError: A type or benchmark that none of the rows has.
    """
    found = list(rows)
    for part in parts:
        if part.name != "memory":
            holds = _test(part, rows)
            found = [row for row in found if holds(row) is not part.negated]
    return found


def choose_runs(parts: Sequence[Part], runs: Iterable[Listed]) -> list[Listed]:
    """The runs for which the conditions on memory and benchmark hold.

    Raises:
        UserError: A memory or benchmark that none of the runs has.
    """
    listed = list(runs)
    kept = listed
    for part in parts:
        if part.name in ("memory", "benchmark"):
            known = [str(getattr(run, part.name)) for run in listed]
            wanted = set().union(*(_matching(part.name, value, known) for value in _values(part)))
            kept = [run for run in kept if (getattr(run, part.name) in wanted) is not part.negated]
    return kept


def _test(part: Part, rows: Sequence[Row]) -> Callable[[Row], bool]:
    if part.name in NUMBERS:
        compare, wanted = _SIGNS[part.sign], _number(part)

        def number(row: Row) -> bool:
            value = getattr(row, part.name)
            return value is not None and compare(value, wanted)

        return number
    if part.name in ("", "task"):
        folded = _fold(part.value)
        field = "task_id" if part.name else "description"
        return lambda row: folded in _fold(getattr(row, field))
    field = {"type": "task_type"}.get(part.name, part.name)
    known = OUTCOMES if field == "outcome" else {getattr(row, field) for row in rows}
    kept = set().union(*(_matching(part.name, value, known) for value in _values(part)))
    return lambda row: getattr(row, field) in kept


def value_of(line: str, name: str) -> str | None:
    """The one value that a line asks for under a name; None where it asks for none, or for more than that."""
    try:
        found = [part for part in parse(line) if part.name == name]
    except UserError:
        return None
    return found[0].value if len(found) == 1 and not found[0].negated else None


def with_value(line: str, name: str, value: str | None) -> str:
    """The line with one value under a name, in place of what it asked for before; None takes it away.

    Raises:
        UserError: The line cannot be read.
    """
    parts = [part for part in parse(line) if part.name != name]
    if value:
        parts.insert(0, Part(name, ":", value, False))
    return " ".join(map(str, parts))
