"""A shopping session as a human reads it: its pages in order, what was clicked, what the purchase earned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...records import Step, Trajectory
from ...render import escape
from .pages import BUY, PREVIOUS, SEPARATOR

PAGE_LIMIT = 40
"""Pages that are shown: the first and the last of a longer session."""
TEXT_LIMIT = 1200
"""Characters of a long text that are shown."""
LINE_LIMIT = 200
"""Characters of a title or an option that are shown."""
VALUE_LIMIT = 60
"""Values of an option that are shown."""

_LINE = "1px solid rgba(128,128,128,.35)"
_ROOT = "color:inherit;line-height:1.4;overflow-wrap:anywhere"
_BOX = f"border:{_LINE};border-radius:6px;padding:6px 10px;margin:6px 0"
_CHIP = f"display:inline-block;border:{_LINE};border-radius:10px;padding:0 7px;margin:1px 3px 1px 0"
_CHOSEN = f"{_CHIP};font-weight:bold;border-width:2px"
_CELL = f"text-align:left;vertical-align:top;padding:1px 8px;border-bottom:{_LINE}"
_CODE = "font:inherit;color:inherit;background:none;padding:0"
_NUMBER = re.compile(r"Page (\d+) \(Total results: (\d+)\)")
_PARTS = {
    "r_type": "kind of product",
    "r_att": "attributes",
    "r_option": "options",
    "r_price": "price within the limit",
}
_WEIGHTS = {"r_att": "w_att", "r_option": "w_option", "r_price": "w_price"}


class _Shown(NamedTuple):
    """One page and what was done on it."""

    number: int
    text: str
    step: Step | None


def pages_html(trajectory: Trajectory) -> str:
    """All pages of a session as HTML: escaped, cut to a readable size, no script and no picture."""
    pages = [_Shown(number, step.observation, step) for number, step in enumerate(trajectory.steps)]
    if trajectory.final_observation:
        pages.append(_Shown(len(pages), trajectory.final_observation, None))
    left_out = range(PAGE_LIMIT // 2, len(pages) - PAGE_LIMIT // 2) if len(pages) > PAGE_LIMIT else range(0)
    boxes, chosen = [], dict[str, str]()
    for page in pages:
        chosen = _still_chosen(page.text, chosen)
        if page.number not in left_out:
            boxes.append(_page(page, chosen))
        elif page.number == left_out[0]:
            boxes.append(f'<div style="{_BOX}">… {len(left_out)} pages left out</div>')
        chosen = _after(page, chosen)
    head = f"<div><b>{_text(trajectory.task.description, TEXT_LIMIT)}</b></div>"
    body = "".join([head, *boxes, _worth(trajectory)])
    return f'<div class="jitmem-record mathjax_ignore tex2jax_ignore" style="{_ROOT}">{body}</div>'


def _page(page: _Shown, chosen: Mapping[str, str]) -> str:
    pieces = page.text.split(SEPARATOR)
    kind, body = _body(pieces, page.step, chosen)
    action = ""
    if page.step is not None:
        refused = "" if page.step.valid else " (not taken)"
        action = f"<div>→ <b>{_text(page.step.action or '–')}</b>{refused}</div>"
    return f'<div style="{_BOX}"><div>{page.number} · {kind}</div>{body}{action}</div>'


def _body(pieces: Sequence[str], step: Step | None, chosen: Mapping[str, str]) -> tuple[str, str]:
    """The kind of a page, and its contents as HTML."""
    if pieces[0] == "WebShop":
        return "search page", ""
    if pieces[0].startswith("Thank you for shopping"):
        return "bought", ""
    shelf = next((at for at, piece in enumerate(pieces) if _NUMBER.fullmatch(piece)), None)
    if shelf is not None and (found := _NUMBER.fullmatch(pieces[shelf])):
        return f"results, page {found[1]} of {found[2]} hits", _hits(pieces[shelf + 1 :])
    if pieces[-1] == BUY and (item := _item(pieces, step)) is not None:
        return "product", item.html(chosen)
    if PREVIOUS in pieces:
        text = "\n".join(pieces[pieces.index(PREVIOUS) + 1 :])
        return "details", _block(text or "(nothing)")
    return "page", _block("\n".join(pieces))


def _hits(pieces: Sequence[str]) -> str:
    rows = [piece for piece in pieces if piece not in (PREVIOUS, "Next >")]
    triples = [rows[at : at + 3] for at in range(0, len(rows), 3)]
    return f"<table><tbody>{_rows(triples)}</tbody></table>" if triples else ""


class _Item(NamedTuple):
    """A product's page."""

    title: str
    facts: Sequence[str]
    options: dict[str, list[str]]

    def html(self, chosen: Mapping[str, str]) -> str:
        parts = [f"<div><b>{_text(self.title)}</b></div>", f"<div>{_text(' · '.join(self.facts))}</div>"]
        for name, values in self.options.items():
            chips = (
                f'<span style="{_CHOSEN if chosen.get(name) == value else _CHIP}">'
                f"{'✓ ' if chosen.get(name) == value else ''}{_text(value)}</span>"
                for value in values[:VALUE_LIMIT]
            )
            more = f"… {len(values) - VALUE_LIMIT} more" if len(values) > VALUE_LIMIT else ""
            parts.append(f"<div>{_text(name)}: {''.join(chips)}{more}</div>")
        return "".join(parts)


def _item(pieces: Sequence[str], step: Step | None) -> _Item | None:
    """A product's page taken apart; None where it can't be told."""
    prices = [at for at, piece in enumerate(pieces) if piece.startswith("Price: ")]
    if not prices or PREVIOUS not in pieces:
        return None
    price, start = prices[-1], pieces.index(PREVIOUS) + 1
    if price <= start:
        return None
    clickable = {action[6:-1].strip() for action in step.admissible} if step else set()
    options: dict[str, list[str]] = {}
    name = ""
    for piece in pieces[start : price - 1]:
        if piece in clickable:
            options.setdefault(name, []).append(piece)
        else:
            name = piece
            options.setdefault(name, [])
    return _Item(pieces[price - 1], pieces[price : price + 2], options)


def _still_chosen(text: str, chosen: dict[str, str]) -> dict[str, str]:
    """Options survive a product's pages only."""
    pieces = text.split(SEPARATOR)
    inside = PREVIOUS in pieces and not any(_NUMBER.fullmatch(piece) for piece in pieces)
    return chosen if inside else {}


def _after(page: _Shown, chosen: dict[str, str]) -> dict[str, str]:
    """The chosen options after a page's action."""
    step = page.step
    pieces = page.text.split(SEPARATOR)
    if step is None or not step.valid or pieces[-1] != BUY or (item := _item(pieces, step)) is None:
        return chosen
    value = step.action[6:-1].strip().lower()
    names = [name for name, values in item.options.items() if value in values]
    return {**chosen, names[-1]: value} if names else chosen


def _worth(trajectory: Trajectory) -> str:
    """The reward and what it is made of."""
    parts = trajectory.parts
    if not parts:
        return f'<div style="{_BOX}">Nothing was bought.</div>'
    reward = "unscored" if trajectory.reward is None else f"{trajectory.reward:.3f}"
    rows = [
        (label, _figure(parts[name]), _figure(parts[_WEIGHTS[name]]) if name in _WEIGHTS else "factor")
        for name, label in _PARTS.items()
        if name in parts
    ]
    told = {*_PARTS, *_WEIGHTS.values()}
    extra = [(name, _figure(value), "") for name, value in parts.items() if name not in told]
    return (
        f'<div style="{_BOX}"><b>reward {reward}</b>{_table(("part", "value", "weight"), rows + extra)}</div>'
    )


def _figure(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f'<th style="{_CELL}">{_text(name)}</th>' for name in head)
    return f"<table><thead><tr>{top}</tr></thead><tbody>{_rows(rows)}</tbody></table>"


def _rows(rows: Iterable[Sequence[str]]) -> str:
    lines = ("".join(f'<td style="{_CELL}">{_text(cell)}</td>' for cell in row) for row in rows)
    return "".join(f"<tr>{line}</tr>" for line in lines)


def _text(text: Any, limit: int = LINE_LIMIT) -> str:
    """A short text; Jupyter typesets `$` in HTML, but not within code."""
    wrap = "nowrap" if len(str(text)) < 24 else "pre-wrap"
    return f'<code style="{_CODE};white-space:{wrap}">{escape(text, limit)}</code>'


def _block(text: str) -> str:
    return f'<pre style="white-space:pre-wrap;margin:2px 0;background:none">{escape(text, TEXT_LIMIT)}</pre>'
