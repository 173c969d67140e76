"""What a payload took up of the traces: runs of words that both have. A match of texts, no proof of use.

Compared are words, not characters: upper and lower case, spacing, punctuation and the numbers of a list make
no difference. Shared is a run of three or more words of one line, or a whole action line of fewer. All places
in a text are those of the text as it is shown (`clean_text`): marks are set before anything becomes HTML.
"""

from __future__ import annotations

import html
import itertools
import re
import unicodedata
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..render import clean_text

LABEL = (
    "Marked are the words that trace and payload share, three or more in a row or a whole action line: "
    "a match of texts, no proof of use."
)
"""What is said beside the marks."""
SHORTEST = 3
"""Words of a run that counts."""
COMPARED = 80_000
"""Characters of a text that are compared; what comes after them is never marked."""
_PLACES = 4
"""Places of a trace that are tried for one run: more only in texts that say the same again and again."""
_HUES = 5
_GAP = 3
_LINE, _LINE_OF_TRACE = "\n", "\n\n"

_SINGLE = "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"(\n(?:[ \t]*(?:\d{{1,4}}[.)]|[-*•])(?=\s))?)|[{_SINGLE}]|[^\W{_SINGLE}]+")
_ACTION = re.compile(r"(?m)^[ \t]*(?:\d{1,4}[.)][ \t]+|[-*•][ \t]+|Did:[ \t]*)(\S+(?:[ \t]+\S+)?)[ \t]*$")


FRAME = re.compile(r"(?m)^[ \t]*(Task: .*|Steps to do it:|What was done:|Lessons:)$")
"""Lines that a payload is framed with, as `curation.HEADINGS` has them: nobody took them from a trace."""


class Mark(NamedTuple):
    """A part of a text that is marked."""

    start: int
    """Its first character, in the text as shown."""
    end: int
    """One behind its last."""
    trace: int
    """Place of the trace that it is shared with, from 0."""
    label: str
    """The same in trace and payload; empty where the payload's words bear the mark of another trace."""


class Uptake(NamedTuple):
    """What texts share."""

    payloads: tuple[tuple[Mark, ...], ...]
    """The marks of each payload, in order."""
    traces: tuple[tuple[Mark, ...], ...]
    """The marks of each trace, in order."""
    words: int
    """Words of all payloads together, but for the lines that frame them."""
    shared: int
    """How many of them are in a run that some trace has too."""
    by_trace: tuple[int, ...]
    """How many of them are in a run that this trace has too."""
    cut: bool
    """Whether a text was too long to be compared whole."""

    @property
    def share(self) -> float | None:
        """The part of the payloads' words that some trace has too; None without words."""
        return self.shared / self.words if self.words else None


class _Run(NamedTuple):
    """Equal words in the payloads and a trace."""

    payload: int
    """First word in the payloads."""
    trace: int
    """First word in the trace."""
    length: int
    """Number of words."""
    of: int
    """Place of the trace."""


class _Words:
    """A text's words, each with its place; between two lines stands what is equal to nothing.

    Args:
        text: The text.
        between: What stands there; not the same in a payload as in a trace.
    """

    def __init__(self, text: str, between: str) -> None:
        shown = clean_text(text[:COMPARED], None)
        if between == _LINE:
            shown = FRAME.sub(lambda line: " " * len(line[0]), shown)
        shown = f"\n{shown}"  # so that the first line begins like the others
        self.words: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        plain = shown.isascii()
        for found in _WORD.finditer(shown):
            word = found[0] if plain else unicodedata.normalize("NFKC", found[0])
            self.words.append(between if found[1] else word.casefold())
            self.starts.append(found.start() - 1)
            self.ends.append(found.end() - 1)
        self.size = len(self.words) - self.words.count(between)
        self.short = dict(self._short(shown))

    def _short(self, shown: str) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Action lines too short to be a run: first word, and all of them."""
        for found in _ACTION.finditer(shown):
            first = bisect_left(self.starts, found.start(1) - 1)
            length = bisect_left(self.starts, found.end(1) - 1) - first
            if 0 < length < SHORTEST:
                yield first, tuple(self.words[first : first + length])


def uptake(payloads: Sequence[str], traces: Sequence[str]) -> Uptake:
    """What payloads and traces share.

    Args:
        payloads: Usually one; several where memory gave one at each step.
        traces: Texts that were retrieved, best first.
    """
    given = [_Words(text, _LINE) for text in payloads]
    sources = [_Words(text, _LINE_OF_TRACE) for text in traces]
    joined: list[str] = []
    begins: list[int] = []
    lines: list[tuple[int, tuple[str, ...]]] = []
    for one in given:
        begins.append(len(joined))
        lines += [(begins[-1] + first, words) for first, words in one.short.items()]
        joined += one.words
    runs = [run for of, source in enumerate(sources) for run in _runs(joined, lines, source, of)]
    by_trace = tuple(
        len({word for run in runs if run.of == of for word in range(run.payload, run.payload + run.length)})
        for of in range(len(sources))
    )
    whole = _passages(runs)
    longest = sorted(range(len(runs)), key=lambda number: (-whole[number], -runs[number].length))
    owners = _owners(runs, longest, len(joined), in_trace=False)
    labels = _labels(owners, runs)
    payload_marks = [
        tuple(_payload_marks(one, owners[begin : begin + len(one.words)], runs, labels))
        for one, begin in zip(given, begins, strict=True)
    ]
    trace_marks = [tuple(_trace_marks(source, runs, labels, of)) for of, source in enumerate(sources)]
    return Uptake(
        payloads=tuple(payload_marks),
        traces=tuple(trace_marks),
        words=sum(one.size for one in given),
        shared=sum(owner is not None for owner in owners),
        by_trace=by_trace,
        cut=any(len(text) > COMPARED for text in (*payloads, *traces)),
    )


def _runs(
    words: list[str], lines: list[tuple[int, tuple[str, ...]]], source: _Words, of: int
) -> Iterator[_Run]:
    """The longest equal runs from left to right, and equal short action lines."""
    theirs = source.words
    known: dict[tuple[str, ...], list[int]] = {}
    for place, gram in enumerate(zip(theirs, theirs[1:], theirs[2:], strict=False)):
        known.setdefault(gram, []).append(place)
    grams = list(zip(words, words[1:], words[2:], strict=False))
    place, taken, read = 0, 0, 0
    covered = bytearray(len(words))
    while place < len(grams):
        places = known.get(grams[place])
        if places is None:
            place += 1
            continue
        # Among equals the next place in the trace: texts that say the same again are taken up in order.
        on = bisect_left(places, read)
        tried = (*places[on : on + _PLACES], *places[: min(on, _PLACES)])
        length, _, start = max((_length(words, theirs, place, at), at >= read, -at) for at in tried)
        skipped = max(0, taken - place)  # words that the run before it has already
        if length > skipped:
            yield _Run(place + skipped, skipped - start, length - skipped, of)
        taken, read = place + length, length - start
        covered[place:taken] = b"\1" * length
        place = max(place + 1, taken - SHORTEST + 1)
    actions = {gram: first for first, gram in source.short.items()}
    for first, line in lines:
        if line in actions and not all(covered[first : first + len(line)]):
            yield _Run(first, actions[line], len(line), of)


def _length(words: list[str], theirs: list[str], place: int, at: int) -> int:
    """How many words are equal from two places on."""
    length, most = SHORTEST, min(len(words) - place, len(theirs) - at)
    while length < most and words[place + length] == theirs[at + length]:
        length += 1
    return length


def _passages(runs: Sequence[_Run]) -> list[int]:
    """For each run the words of its passage: lines one after the other that one trace has so, too."""
    passage, sizes = list(range(len(runs))), [run.length for run in runs]
    order = sorted(range(len(runs)), key=lambda number: (runs[number].of, runs[number].payload))
    for before, number in itertools.pairwise(order):
        a, b = runs[before], runs[number]
        gaps = (b.payload - a.payload - a.length, b.trace - a.trace - a.length)
        if a.of == b.of and all(0 <= gap <= _GAP for gap in gaps):
            passage[number] = passage[before]
            sizes[passage[before]] += b.length
    return [sizes[first] for first in passage]


def _owners(runs: Sequence[_Run], order: Sequence[int], size: int, in_trace: bool) -> list[int | None]:
    """For each word of a text the number of the run that has it, the first in `order` before the others."""
    owners: list[int | None] = [None] * size
    for number in order:
        start = runs[number].trace if in_trace else runs[number].payload
        for word in range(start, start + runs[number].length):
            if owners[word] is None:
                owners[word] = number
    return owners


def _labels(owners: Sequence[int | None], runs: Sequence[_Run]) -> dict[int, str]:
    """A label for each run that the payload's marks show: the trace's rank and a number in reading order."""
    labels: dict[int, str] = {}
    known: dict[tuple[int, int, int], str] = {}
    counts: Counter[int] = Counter()
    for owner in owners:
        if owner is not None and owner not in labels:
            run = runs[owner]
            same = (run.of, run.trace, run.length)
            if same not in known:
                counts[run.of] += 1
                known[same] = f"{run.of + 1}.{counts[run.of]}"
            labels[owner] = known[same]
    return labels


def _pieces(owners: Sequence[int | None]) -> Iterator[tuple[int, int, int]]:
    """First word, last word and owner of each stretch of one owner."""
    start = 0
    for word in range(1, len(owners) + 1):
        if word == len(owners) or owners[word] != owners[start]:
            owner = owners[start] if owners else None
            if owner is not None:
                yield start, word - 1, owner
            start = word


def _payload_marks(
    one: _Words, owners: Sequence[int | None], runs: Sequence[_Run], labels: dict[int, str]
) -> Iterator[Mark]:
    for first, last, owner in _pieces(owners):
        yield Mark(one.starts[first], one.ends[last], runs[owner].of, labels[owner])


def _trace_marks(source: _Words, runs: Sequence[_Run], labels: dict[int, str], of: int) -> Iterator[Mark]:
    own = [number for number, run in enumerate(runs) if run.of == of]
    own.sort(key=lambda number: (number not in labels, -runs[number].length))
    for first, last, owner in _pieces(_owners(runs, own, len(source.words), in_trace=True)):
        yield Mark(source.starts[first], source.ends[last], of, labels.get(owner, ""))


def hue(trace: int) -> str:
    """The style's class for what belongs to the trace at this place, from 0."""
    return f"hue{trace % _HUES}"


def marked(text: str, marks: Sequence[Mark], limit: int | None) -> str:
    """A text as HTML with its marks, cut at `limit` as `clean_text` does."""
    shown = clean_text(text if limit is None else text[:limit], None)
    parts, place = [], 0
    for mark in marks:
        start, end = max(mark.start, place), min(mark.end, len(shown))
        if start >= end:
            continue
        kind = f"hue{mark.trace % _HUES}"
        kind += f'" data-n="{mark.label}' if mark.label else " weak"
        parts += [
            html.escape(shown[place:start]),
            f'<mark class="{kind}">{html.escape(shown[start:end])}</mark>',
        ]
        place = end
    parts.append(html.escape(shown[place:]))
    missing = 0 if limit is None else max(0, len(text) - limit)
    return "".join(parts) + (f"… {missing:,} more characters" if missing else "")
