"""Light and dark for the pages, and the looks of Panel's own widgets in them."""

from __future__ import annotations

import panel as pn

_THEME = """
:root { color-scheme: %s;
  --design-background-color: light-dark(#ffffff, #16191d);
  --design-background-text-color: light-dark(#1d2126, #e4e7eb);
  --design-surface-color: light-dark(#f3f4f6, #21262c);
  --design-surface-text-color: light-dark(#1d2126, #e4e7eb); }
html, body { background: light-dark(#ffffff, #16191d); }
"""

# The arrow that Panel draws is black in every theme; the browser's own follows it.
LIST_STYLE = "select.bk-input { appearance: auto !important; background-image: none !important; }"

BUTTONS_STYLE = """
.bk-btn { background: transparent !important; color: inherit !important;
  border: 1px solid rgba(128,128,128,.45) !important; box-shadow: none !important; }
.bk-btn.bk-active { background: rgba(47,127,224,.25) !important; font-weight: 600; }
"""
CHOICE_STYLE = """
.choices__inner, .choices__input { background: transparent !important; color: inherit !important; }
.choices__list--dropdown { background: var(--design-surface-color, Canvas) !important; }
.choices__list--dropdown .is-highlighted { background: rgba(128,128,128,.25) !important; }
"""

# Panel's theme is made for a light page.
TABLE_STYLE = """
:host { --line: rgba(128,128,128,.32); }
.tabulator, .tabulator .tabulator-header, .tabulator .tabulator-header .tabulator-col,
.tabulator .tabulator-row, .tabulator .tabulator-footer, .tabulator .tabulator-tableholder,
.tabulator .tabulator-tableholder .tabulator-table {
  background: transparent !important; color: var(--design-background-text-color, inherit) !important;
  border-color: var(--line) !important; font: 13px/1.3 system-ui, sans-serif; }
.tabulator .tabulator-row { cursor: pointer; border-bottom: 1px solid var(--line); }
.tabulator .tabulator-row:hover { background: rgba(128,128,128,.12) !important; }
.tabulator .tabulator-row.tabulator-selected { background: rgba(47,127,224,.22) !important; }
.tabulator .tabulator-row .tabulator-cell { border-color: var(--line) !important; text-overflow: ellipsis; }
.tabulator .tabulator-row .tabulator-cell > div { overflow: hidden; text-overflow: ellipsis; }
.tabulator .tabulator-footer * { color: var(--design-background-text-color, inherit) !important; }
.tabulator .tabulator-footer .tabulator-page { background: transparent !important;
  border-color: var(--line) !important; }
.tabulator .tabulator-footer .tabulator-page.active { font-weight: 700; text-decoration: underline; }
"""


def page_theme() -> None:
    """Light or dark as the URL's `theme` says, else as the browser does; once for each page served."""
    asked = pn.state.session_args.get("theme", [b""])[0].decode("ascii", "replace")
    scheme = {"dark": "dark", "light": "light", "default": "light"}.get(asked, "light dark")
    pn.config.raw_css = [*pn.config.raw_css, _THEME % scheme]
