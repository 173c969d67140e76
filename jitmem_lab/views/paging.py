"""Long tables a page at a time: only the rows shown go to the browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import panel as pn
import param

from ..render import escape
from .style import page

ROWS = 20
"""Rows on one page."""


class Column(NamedTuple):
    """One column of a table."""

    name: str
    """Its heading."""
    number: bool = False
    """Whether its cells are numbers, set to the right."""


def table_html(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> str:
    """A table; the cells are HTML already."""
    kinds = [' class="n"' if column.number else "" for column in columns]
    head = "".join(
        f"<th{kind}>{escape(column.name, 80)}</th>" for column, kind in zip(columns, kinds, strict=True)
    )
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Pager(pn.viewable.Viewer):
    """A table of which one page is shown.

    Args:
        columns: Its columns.
        cells: Gives a row's cells as HTML; called for the rows shown only.
        empty: Said where there are no rows.
        pane: What the table is drawn into.
    """

    page = param.Integer(default=0, bounds=(0, None), doc="The page shown, from 0.")

    def __init__(
        self,
        columns: Sequence[Column],
        cells: Callable[[Any], Sequence[str]],
        empty: str,
        pane: pn.pane.HTML,
    ) -> None:
        super().__init__()
        self._columns, self._cells, self._empty, self._pane = list(columns), cells, empty, pane
        self._rows: Sequence[Any] = []
        self._back = pn.widgets.Button(label="‹ Earlier rows", width=120)
        self._on = pn.widgets.Button(label="Later rows ›", width=120)
        self._back.on_click(lambda _: self.turn(-1))
        self._on.on_click(lambda _: self.turn(1))
        self._buttons = pn.Row(self._back, self._on, visible=False)

    def __panel__(self) -> pn.viewable.Viewable:
        return pn.Column(self._pane, self._buttons, sizing_mode="stretch_width")

    def fill(self, rows: Sequence[Any]) -> None:
        """Show other rows; stays on the page where there is one."""
        self._rows = rows
        self.page = min(self.page, self._last())
        self._show()

    def turn(self, by: int) -> None:
        """Go on (1) or back (-1) by one page."""
        self.page = max(0, min(self.page + by, self._last()))

    def _last(self) -> int:
        return max(0, len(self._rows) - 1) // ROWS

    @param.depends("page", watch=True)
    def _show(self) -> None:
        start = self.page * ROWS
        shown = self._rows[start : start + ROWS]
        self._buttons.visible = len(self._rows) > ROWS
        self._back.disabled, self._on.disabled = self.page == 0, self.page == self._last()
        if not shown:
            self._pane.object = page(f'<p class="empty">{escape(self._empty)}</p>')
            return
        table = table_html(self._columns, [self._cells(row) for row in shown])
        where = f"{start + 1:,} to {start + len(shown):,} of {len(self._rows):,}"
        self._pane.object = page(f'{table}<p class="facts">{where}</p>')
