"""The items of a write-time memory on the bank's page: what it holds after any write, and every change."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import panel as pn
import param

from ..errors import UserError
from ..render import escape, short_repr
from ..runs import Run
from .choosing import html_pane
from .paging import Column, Pager
from .style import page

_COLUMNS = (
    Column("write", True),
    Column("after episode"),
    Column("what was done"),
    Column("item"),
    Column("before"),
    Column("after"),
    Column("kept with the write"),
)
_LONG = 400


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
        self._history = Pager(_COLUMNS, self._cells, "Nothing has been written yet.", html_pane())

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
        self._history.fill(run.items().iloc[::-1].to_dict("records"))

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
        key, number, note = str(past["key"]), past["item"], past["note"]
        where = "a demonstration" if key.startswith("warm:") else escape(key, 40)
        if isinstance(past["position"], int):
            where = self._place(past["position"])
        item = f"{escape(past['kind'], 40)} {number}" if isinstance(number, int) else ""
        return [
            str(past["write"]),
            where,
            escape(past["op"], 20),
            item,
            _data(past["before"]),
            _data(past["after"]),
            escape(short_repr(note, depth=3, text=200), _LONG) if note else "",
        ]


def _data(value: Any) -> str:
    return escape(short_repr(value, depth=3, text=160, items=8), _LONG) if isinstance(value, dict) else ""
