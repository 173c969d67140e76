"""The list of a run's tasks: a table that sends one page at a time."""

from __future__ import annotations

import pandas as pd
import panel as pn

from ..render import clean_text
from .reading import Row
from .theme import TABLE_STYLE

PAGE = 8
"""Rows of a page."""
COLUMNS = {
    "position": ("#", 70),
    "outcome": ("outcome", 95),
    "type": ("type", 235),
    "task": ("task", None),
    "reward": ("reward", 85),
    "steps": ("steps", 75),
    "tokens": ("tokens", 95),
}
"""Title and width of each column."""


class TaskTable:
    """Rows of an index as a table; what is asked of it is by position in the stream, however it is sorted."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._position: int | None = None
        self._built = False
        self.pane = pn.widgets.Tabulator(
            _frame([]),
            pagination="remote",
            page_size=PAGE,
            show_index=False,
            disabled=True,
            selectable=False,
            layout="fit_columns",
            titles={name: title for name, (title, _) in COLUMNS.items()},
            widths={name: width for name, (_, width) in COLUMNS.items() if width},
            text_align={"reward": "right", "steps": "right", "tokens": "right", "position": "right"},
            stylesheets=[TABLE_STYLE],
            sizing_mode="stretch_width",
            margin=(0, 5),
        )

    @property
    def sorted(self) -> bool:
        """Whether the order is other than that of the stream."""
        return bool(self.pane.sorters)

    @property
    def order(self) -> list[int]:
        """Positions in the order of the table."""
        if not self.sorted:
            return [row.position for row in self._rows]
        return [int(place) for place in self.pane.current_view["position"]]

    def rank(self, position: int | None) -> int | None:
        """The place of a position in the table, from 0."""
        order = self.order
        return order.index(position) if position in order else None

    def fill(self, rows: list[Row], position: int | None) -> None:
        """Show rows, turned to the page of one of them."""
        if rows != self._rows:
            self._rows = rows
            self.pane.param.update(value=_frame(rows), selection=[], page=1)
        self.pane.visible = len(rows) > 0
        self._position = position
        if self._built:
            self.turn()

    def turn(self) -> None:
        """Turn to the page of the row that is shown, now that the browser has built the table."""
        self._built = True
        rank = self.rank(self._position)
        place = next((i for i, row in enumerate(self._rows) if row.position == self._position), None)
        changes = {} if rank is None else {"page": rank // PAGE + 1}
        self.pane.param.update(selection=[] if place is None else [place], **changes)


def _cell(text: str, limit: int) -> str:
    """What `clean_text` gives, for most texts at once: there are as many as the run has episodes."""
    plain = len(text) <= limit and text.isascii() and text.isprintable()
    return text if plain else clean_text(text, limit)


def _frame(rows: list[Row]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "position": pd.Series([row.position for row in rows], dtype="int64"),
            "outcome": pd.Series([row.outcome for row in rows], dtype="object"),
            "type": pd.Series([_cell(row.task_type, 80) for row in rows], dtype="object"),
            "task": pd.Series([_cell(row.description, 200) for row in rows], dtype="object"),
            "reward": pd.Series([row.reward for row in rows], dtype="float64"),
            "steps": pd.Series([row.steps for row in rows], dtype="int64"),
            "tokens": pd.Series([row.prompt_tokens + row.completion_tokens for row in rows], dtype="int64"),
        }
    )
