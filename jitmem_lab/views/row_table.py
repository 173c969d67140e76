"""A table of rows with keys, a page at a time; what is clicked is known by its key, however it is sorted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import panel as pn

from .theme import TABLE_STYLE

PAGE = 10
"""Rows of a page."""


class RowTable:
    """Rows of a frame, known by the texts of its index.

    Args:
        picked: Takes the key of a row that was clicked.
    """

    def __init__(self, picked: Callable[[str], None]) -> None:
        self._picked = picked
        self._keys: list[str] = []
        self.pane: Any = pn.widgets.Tabulator(
            pd.DataFrame(),
            pagination="remote",
            page_size=PAGE,
            show_index=False,
            disabled=True,
            selectable=False,
            layout="fit_columns",
            stylesheets=[TABLE_STYLE],
            sizing_mode="stretch_width",
        )
        self.pane.on_click(lambda event: self._picked(self._keys[event.row]))

    def fill(
        self, frame: pd.DataFrame, widths: Mapping[str, int], titles: Mapping[str, str] | None = None
    ) -> None:
        """Show other rows.

        Args:
            frame: The rows, with texts as cells and unique keys as index.
            widths: Of columns, in pixels; the others share the rest.
            titles: What stands above columns instead of their names, which are told to who points there.
        """
        short = {name: title for name, title in (titles or {}).items() if title != name}
        self._keys = [str(key) for key in frame.index]
        self.pane.visible = len(frame) > 0
        self.pane.param.update(titles=short, header_tooltips={name: name for name in short})
        self.pane.param.update(value=frame, widths=dict(widths), selection=[], page=1)

    def keys(self) -> list[str]:
        """The keys, in the order of the table."""
        return [str(key) for key in self.pane.current_view.index] if self.pane.sorters else self._keys

    def choose(self, key: str) -> None:
        """Mark a row, and turn to its page."""
        keys = self.keys()
        if key in keys:
            page = keys.index(key) // PAGE + 1
            self.pane.param.update(selection=[self._keys.index(key)], page=page)
        else:
            self.pane.selection = []

    def beside(self, key: str, by: int) -> str | None:
        """The key before (-1) or behind (1) another one; of one that is not listed the first."""
        keys = self.keys()
        if key not in keys:
            return keys[0] if keys else None
        place = keys.index(key) + by
        return keys[place] if 0 <= place < len(keys) else None
