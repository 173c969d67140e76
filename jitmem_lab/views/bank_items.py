"""The items of a write-time memory on the bank's page: what it holds after any write, and every change."""

from __future__ import annotations

import contextlib
import html
from collections.abc import Callable
from typing import Any

import panel as pn
import param

from ..errors import UserError
from ..render import clean_text, escape, fields_text
from ..runs import Run
from .choosing import html_pane
from .diffing import STYLE as DIFF_STYLE
from .diffing import diff_html
from .paging import Column, Pager
from .style import facts, fold, page

_COLUMNS = (
    Column("write", True),
    Column("after episode"),
    Column("what was done"),
    Column("item"),
    Column("what it says, or how it changed"),
    Column("kept with the write"),
)
_LONG = 600
"""Characters of an item or a note beyond which it is folded."""
_STYLE = """
.jm .change { min-width: 30em; } .jm .change .diff td { padding: 0 6px; max-width: none; }
.jm td:nth-child(4) { white-space: nowrap; } .jm td:last-child:nth-child(6) { min-width: 22em; }
.jm ol { margin: 2px 0; padding-left: 1.6em; }
"""


def has_items(run: Run) -> bool:
    """Whether the run's memory writes items."""
    from ..memories.items import ItemStore

    try:
        with contextlib.closing(ItemStore(run.path / "bank.sqlite", read_only=True)):
            return True
    except UserError:
        return False


def item_growth(run: Run) -> tuple[list[int], list[int]]:
    """Items that stood after each write, from 0 (before the first one)."""
    frame = run.items()
    if frame.empty:
        return [0], [0]
    step = frame["op"].map({"insert": 1, "delete": -1}).fillna(0).astype(int)
    sizes = step.groupby(frame["write"]).sum().sort_index().cumsum()
    return [0, *map(int, sizes.index)], [0, *map(int, sizes)]


def item_texts(run: Run) -> list[tuple[int, str]]:
    """The items that stand now: number and all texts in their fields."""
    from ..item_frames import memory_frame

    frame = memory_frame(run)
    fields = [name for name in frame.columns if str(name).startswith("data.")]
    named = {"data.task_id", "data.task_ids"}
    return [
        (int(row["item"]), " ".join(_texts(row[name]) for name in fields if name not in named))
        for _, row in frame.iterrows()
    ]


def _texts(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return " ".join(map(_texts, value.values()))
    return " ".join(map(_texts, value)) if isinstance(value, list | tuple) else ""


class ItemsPart(pn.viewable.Viewer):
    """Items after a write, and the history of all.

    Args:
        place: Gives a link to an episode.
    """

    at = param.Integer(
        default=None, allow_None=True, bounds=(0, None), label="As of write", doc="None: as it is now."
    )

    def __init__(self, place: Callable[[int], str]) -> None:
        super().__init__()
        self._place = place
        self._run: Run | None = None
        self._at = pn.widgets.IntInput.from_param(
            self.param.at, description=None, width=140, placeholder="now"
        )
        self._held, self._head = html_pane(), html_pane()
        changes = html_pane()
        changes.stylesheets = [*changes.stylesheets, DIFF_STYLE + _STYLE]
        self._history = Pager(_COLUMNS, self._cells, "Nothing has been written yet.", changes)

    def __panel__(self) -> pn.viewable.Viewable:
        return pn.Column(self._at, self._held, self._head, self._history, sizing_mode="stretch_width")

    def draw(self, run: Run) -> None:
        """Show a run's items."""
        self._run = run
        there = has_items(run)
        self._at.visible = self._head.visible = self._history._buttons.visible = there
        if not there:
            self._held.object = page(
                '<p class="empty">This memory writes no items: it keeps whole trajectories.</p>'
            )
            self._head.object = self._history._pane.object = ""
            return
        self._show_items()
        self._head.object = page("<h3>Every change, newest first</h3>")
        self._history.fill(_once(run.items().iloc[::-1].to_dict("records")))

    @param.depends("at", watch=True)
    def _show_items(self) -> None:
        from ..item_frames import memory_html

        if self._run is None:
            return
        try:
            self._held.object = page(memory_html(self._run, self.at))
        except UserError as error:
            self._held.object = page(f'<p class="empty">{escape(error, 400)}</p>')

    def _cells(self, past: dict[str, Any]) -> list[str]:
        from ..item_frames import said_of, taught_by

        key, number, note = str(past["key"]), past["item"], past["note"]
        before, after = (_fields(past[name]) for name in ("before", "after"))
        if isinstance(past["position"], int):
            where = self._place(past["position"])
        else:
            where = escape(said_of(key, None, taught_by(before, after)), 200)
        item = f"{escape(past['kind'], 40)} {number}" if isinstance(number, int) else ""
        return [
            str(past["write"]),
            where,
            escape(past["op"], 20),
            item,
            change_html(before, after),
            _folded(note) if isinstance(note, dict) and note else "",
        ]


def _once(rows: list[dict[Any, Any]]) -> list[dict[Any, Any]]:
    """Changes with the note of a write at the first of them alone."""
    before = [None, *(row["write"] for row in rows)]
    return [
        row | {"note": None} if row["write"] == last else row for last, row in zip(before, rows, strict=False)
    ]


def change_html(before: dict[str, Any] | None, after: dict[str, Any] | None) -> str:
    """An item as it came or went, or the fields that changed as a diff."""
    if before is None or after is None:
        found = before if after is None else after
        return "" if found is None else f'<div class="change">{_folded(found)}</div>'
    names = list(dict.fromkeys([*before, *after]))
    other = [name for name in names if before.get(name) != after.get(name)]
    old, new = (fields_text({name: one[name] for name in other if name in one}) for one in (before, after))
    same = ", ".join(name for name in names if name not in other)
    told = facts(f"as before: {escape(same, 300)}") if same else ""
    return f'<div class="change">{diff_html(old, new, "unified")}{told}</div>'


def _folded(data: dict[str, Any]) -> str:
    """Fields one a line, folded where they are long."""
    from ..item_frames import fields_html

    text = fields_text(data)
    if len(text) <= _LONG:
        return fields_html(data)
    excerpt = clean_text(" ".join(text[:140].split()), None)
    return fold(f"{html.escape(excerpt)}… {facts(f'{len(text):,} characters')}", fields_html(data))


def _fields(value: Any) -> dict[str, Any] | None:
    """An item's fields out of a frame, where what is missing may be NaN."""
    return value if isinstance(value, dict) else None
