"""The bar on top of each served page: the dashboards, one click apart, with the run that was chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import parse_qs, urlencode

import panel as pn

from ..render import escape

TRAINING = "train"
"""The page that shows trainings, not runs."""
KEPT = ("run", "theme")
"""What of the selection goes along to another page."""

_STYLE = """
nav { font: 14px/1.4 system-ui, sans-serif; display: flex; flex-wrap: wrap; gap: 2px 6px; align-items: center;
  color: light-dark(#1d2126, #e4e7eb); border-bottom: 1px solid rgba(128,128,128,.32); padding: 4px 10px; }
nav b { margin-right: 10px; }
nav a { color: inherit; text-decoration: none; padding: 3px 10px; border-radius: 5px; }
nav a:hover, nav a:focus-visible { background: rgba(128,128,128,.16); }
nav a[aria-current] { background: rgba(128,128,128,.16); font-weight: 600; }
nav .theme a { padding: 3px 6px; }
nav .theme { margin-left: auto; font-size: 13px; opacity: .85; }
"""


class Navigation(pn.viewable.Viewer):
    """Links to the dashboards.

    Args:
        here: The page that it stands on.
        names: All pages, in order.
        location: A `panel.io.location.Location`, whose run and theme the links keep.
        browser: What keeps the address bar instead of it, with a parameter `search`.
    """

    def __init__(self, here: str, names: Sequence[str], location: Any = None, browser: Any = None) -> None:
        super().__init__()
        self._here, self._names = here, list(names)
        self._pane = pn.pane.HTML("", stylesheets=[_STYLE], sizing_mode="stretch_width", margin=0)
        self._show("" if location is None else location.search or "")
        for place in (location, browser):
            if place is not None:
                place.param.watch(lambda event: self._show(event.new or ""), "search")

    def __panel__(self) -> pn.viewable.Viewable:
        return self._pane

    def _show(self, search: str) -> None:
        asked = {name: values[-1] for name, values in parse_qs(search.lstrip("?")).items()}
        kept = {name: asked[name] for name in KEPT if name in asked}
        links = [self._link(name, name, self._with(name, kept), name == self._here) for name in self._names]
        turned = [
            self._link(self._here, theme, asked | {"theme": theme}, asked.get("theme") == theme)
            for theme in ("light", "dark")
        ]
        self._pane.object = (
            f'<nav aria-label="Dashboards"><b>JitMem Lab</b>{"".join(links)}'
            f'<span class="theme">theme: {"".join(turned)}</span></nav>'
        )

    def _with(self, name: str, kept: dict[str, str]) -> dict[str, str]:
        """What goes along to a page: no run of one kind to a page of the other."""
        same = (name == TRAINING) == (self._here == TRAINING)
        return kept if same else {key: value for key, value in kept.items() if key != "run"}

    def _link(self, page: str, text: str, query: dict[str, str], here: bool) -> str:
        asked = "?" + urlencode(query, errors="replace") if query else ""
        current = ' aria-current="true"' if here else ""
        return f'<a href="{escape(page + asked, None)}"{current}>{escape(text)}</a>'
