"""Two texts as a diff in HTML of our own: lines side by side or in one column, changed words marked."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

from ..render import clean_text, escape
from .style import TEXT_LIMIT

Kind = Literal["side", "unified"]
"""Side by side, or one below the other."""
KINDS: dict[str, Kind] = {"side by side": "side", "unified": "unified"}
"""What a reader chooses from."""
ALIKE = 0.3
"""Share of words in common from which on two lines are one line that was changed."""
WORK = 20_000
"""Pairs of equal parts up to which two texts are compared; beyond, it could take minutes."""
PARTS = 8_000
"""Parts of both texts up to which they are compared."""

STYLE = """
.jm .diff { width: 100%; table-layout: fixed; background: var(--soft); border-radius: 4px;
  font: 12.5px/1.45 ui-monospace, monospace; }
.jm .diff col.mark { width: 1.6em; }
.jm .diff th { padding: 4px 6px; opacity: .85; font: 600 13px/1.35 system-ui, sans-serif;
  border-bottom: 1px solid var(--line); }
.jm .diff td { padding: 0 6px; white-space: pre-wrap; overflow-wrap: anywhere; border: 0; }
.jm .diff td.mark { padding: 0; text-align: center; opacity: .8; user-select: none; }
.jm .diff .del { background: rgba(224,56,74,.13); } .jm .diff .ins { background: rgba(26,158,75,.13); }
.jm .diff del, .jm .diff ins { text-decoration: none; border-radius: 2px; font-weight: 600; }
.jm .diff del { background: rgba(224,56,74,.38); } .jm .diff ins { background: rgba(26,158,75,.38); }
.jm .diff .gone { background: repeating-linear-gradient(135deg, var(--soft) 0 4px, transparent 4px 9px); }
"""


class Pair(NamedTuple):
    """A line of each text that belong together; None where a text has none."""

    a: str | None
    b: str | None


def diff_html(
    a: str, b: str, kind: Kind = "side", titles: tuple[str, str] = ("", ""), limit: int | None = TEXT_LIMIT
) -> str:
    """Two texts as a table of their lines, with what differs marked.

    Both are shown as `render.clean_text` shows them, so nothing in them is markup or runs.

    Args:
        a: The first text.
        b: The second text.
        kind: `side` or `unified`.
        titles: What stands above each text: HTML already.
        limit: Characters of each text that are shown; None shows and compares all.
    """
    left, right = clean_text(a, limit), clean_text(b, limit)
    pairs = line_pairs(*(text.split("\n") if text else [] for text in (left, right)))
    said = ""
    if a == b:
        said = "the two texts are the same" if a else "both are empty"
    elif left == right:
        said = "the two texts differ only in what is not shown"
    elif pairs is None:
        said = "the two texts are too long and repetitive to be compared line by line"
        pairs = [Pair(left, right)]
    told = f'<div class="facts">{escape(said)}</div>' if said else ""
    rows = _side(pairs or []) if kind == "side" else _unified(pairs or [])
    body = "".join(rows) if said != "both are empty" else ""
    return told + (_frame(kind, titles, body) if body else "")


def line_pairs(a: Sequence[str], b: Sequence[str]) -> list[Pair] | None:
    """The lines of two texts beside each other; None where comparing them would take too long."""
    if _work(a, b) > WORK:
        return None
    found: list[Pair] = []
    for tag, i, j, k, m in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            found += [Pair(x, y) for x, y in zip(a[i:j], b[k:m], strict=True)]
        else:
            found += _beside(a[i:j], b[k:m])
    return found


def _work(a: Sequence[str], b: Sequence[str]) -> int:
    """How often a part of one text is found in the other: what the comparison's time grows with."""
    if len(a) + len(b) > PARTS:
        return WORK + 1
    left, right = Counter(a), Counter(b)
    return sum(count * right[part] for part, count in left.items())


def _beside(a: Sequence[str], b: Sequence[str]) -> list[Pair]:
    """Changed lines with their new forms: those in order that have most words in common."""
    if len(a) * len(b) > 2_500:
        return [*(Pair(line, None) for line in a), *(Pair(None, line) for line in b)]
    words = [[Counter(_words(line)) for line in lines] for lines in (a, b)]
    best = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            best[i][j] = max(
                best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + _alike(words[0][i], words[1][j])
            )
    found: list[Pair] = []
    i = j = 0
    while i < len(a) and j < len(b):
        alike = _alike(words[0][i], words[1][j])
        if alike and best[i][j] == best[i + 1][j + 1] + alike:
            found.append(Pair(a[i], b[j]))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            found.append(Pair(a[i], None))
            i += 1
        else:
            found.append(Pair(None, b[j]))
            j += 1
    return [*found, *(Pair(line, None) for line in a[i:]), *(Pair(None, line) for line in b[j:])]


def _words(line: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", line)


def _alike(a: Counter[str], b: Counter[str]) -> float:
    """Share of words in common; 0 for less than `ALIKE`."""
    total = a.total() + b.total()
    share = 2 * (a & b).total() / total if total else 0.0
    return share if share >= ALIKE else 0.0


def _marked(a: str, b: str) -> tuple[str, str]:
    """A line and its new form as HTML, with the words marked that differ."""
    left, right = (re.findall(r"\w+|\s+|[^\w\s]", line) for line in (a, b))
    if _work([p for p in left if not p.isspace()], [p for p in right if not p.isspace()]) > WORK:
        return html.escape(a), html.escape(b)
    parts: tuple[list[str], list[str]] = ([], [])
    for tag, i, j, k, m in SequenceMatcher(str.isspace, left, right, autojunk=False).get_opcodes():
        for own, piece, mark in zip(parts, (left[i:j], right[k:m]), ("del", "ins"), strict=True):
            text = html.escape("".join(piece))
            own.append(text if tag == "equal" or not text else f"<{mark}>{text}</{mark}>")
    return "".join(parts[0]), "".join(parts[1])


def _frame(kind: Kind, titles: tuple[str, str], body: str) -> str:
    columns, heads = ["mark", ""], [f"− {titles[0]}<br>+ {titles[1]}"] if any(titles) else []
    if kind == "side":
        columns, heads = columns * 2, list(titles) if any(titles) else []
    cols = "".join(f'<col class="{name}">' if name else "<col>" for name in columns)
    top = "".join(f'<th colspan="2" scope="col">{head}</th>' for head in heads)
    head = f"<thead><tr>{top}</tr></thead>" if top else ""
    return f'<table class="diff {kind}"><colgroup>{cols}</colgroup>{head}<tbody>{body}</tbody></table>'


def _cells(mark: str, text: str | None, kind: str = "") -> str:
    if text is None:
        return '<td class="mark gone"></td><td class="gone"></td>'
    own = f' class="{kind}"' if kind else ""
    return f'<td class="mark {kind}">{mark}</td><td{own}>{text}</td>'


def _side(pairs: Sequence[Pair]) -> Iterator[str]:
    for a, b in pairs:
        if a is not None and a == b:
            text = html.escape(a)
            yield f"<tr>{_cells('', text)}{_cells('', text)}</tr>"
            continue
        left, right = _both(a, b)
        yield f"<tr>{_cells('−', left, 'del')}{_cells('+', right, 'ins')}</tr>"


def _both(a: str | None, b: str | None) -> tuple[str | None, str | None]:
    if a is not None and b is not None:
        return _marked(a, b)
    return (None if a is None else html.escape(a), None if b is None else html.escape(b))


def _unified(pairs: Sequence[Pair]) -> Iterator[str]:
    """Runs of changed lines: first those of the first text, then those of the second."""
    gone: list[str] = []
    come: list[str] = []
    for a, b in [*pairs, Pair(None, None)]:
        if a != b:
            left, right = _both(a, b)
            gone += [] if left is None else [left]
            come += [] if right is None else [right]
            continue
        yield from (f"<tr>{_cells('−', text, 'del')}</tr>" for text in gone)
        yield from (f"<tr>{_cells('+', text, 'ins')}</tr>" for text in come)
        gone, come = [], []
        if a is not None:
            yield f"<tr>{_cells('', html.escape(a))}</tr>"
