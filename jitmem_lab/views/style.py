"""How the views look: one style sheet, light and dark, and the few pieces that pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..render import escape

TEXT_LIMIT = 8000
"""Characters of one text that are shown unless all are asked for."""
SHORT = 300
"""Characters of a text on one line."""

STYLE = """
:host { color: var(--background-text-color, inherit); }
* { box-sizing: border-box; }
.jm { font: 14px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; color: inherit;
  --line: rgba(128,128,128,.32); --soft: rgba(128,128,128,.1);
  --good: color-mix(in srgb, #1a9e4b 75%, currentColor); --bad: color-mix(in srgb, #e0384a 75%, currentColor);
  --warn: color-mix(in srgb, #d98a00 75%, currentColor); }
.jm h1, .jm h2, .jm h3 { font-size: 15px; margin: 0; line-height: 1.35; }
.jm h1 { font-size: 17px; white-space: pre-wrap; }
.jm h2 { padding: 0 0 6px; border-bottom: 1px solid var(--line); margin-bottom: 8px; }
.jm h3 { font-size: 13.5px; }
.jm .facts { opacity: .75; font-size: 13px; font-weight: normal; }
.jm .badge { display: inline-block; padding: 0 8px; border: 1px solid currentColor; border-radius: 9px;
  font-size: 13px; font-weight: 600; opacity: 1; }
.jm .success { color: var(--good); } .jm .failure { color: var(--bad); } .jm .error { color: var(--warn); }
.jm .columns { display: grid; grid-template-columns: minmax(0,1fr) minmax(0,1fr) minmax(0,1.35fr); gap: 12px;
  margin-top: 10px; }
@media (max-width: 900px) { .jm .columns { grid-template-columns: minmax(0,1fr); } }
.jm .column { border: 1px solid var(--line); border-radius: 6px; padding: 10px; min-width: 0;
  max-height: max(24em, calc(100vh - 190px)); overflow: auto; }
.jm pre { white-space: pre-wrap; margin: 4px 0; padding: 6px 8px; background: var(--soft); border-radius: 4px;
  font: 12.5px/1.45 ui-monospace, monospace; color: inherit; }
.jm .payload { border-left: 3px solid currentColor; }
.jm code { font: 12.5px/1.45 ui-monospace, monospace; background: none; color: inherit;
  white-space: pre-wrap; }
.jm summary { cursor: pointer; padding: 2px 0; } .jm summary:hover { background: var(--soft); }
.jm details { margin: 2px 0; } .jm details > :not(summary) { margin-left: 14px; }
.jm .folds { display: flex; flex-wrap: wrap; gap: 0 12px; font-size: 12.5px; }
.jm .folds .facts { font-size: 12.5px; }
.jm .folds > details { min-width: 0; max-width: 100%; } .jm .folds > details[open] { flex-basis: 100%; }
.jm details[open] > summary > .excerpt { display: none; }
.jm .step { border-top: 1px solid var(--line); padding: 8px 0; } .jm .step:first-of-type { border-top: 0; }
.jm .numbered { display: grid; grid-template-columns: 4em minmax(0,1fr); }
.jm .numbered > * { grid-column: 2; }
.jm .numbered > h3 { grid-column: 1; grid-row: 1; padding-top: 5px; }
.jm .step.refused { box-shadow: inset 3px 0 var(--bad); padding-left: 8px; }
.jm .act code { font-weight: 700; } .jm .empty { opacity: .7; font-style: italic; }
.jm .call { margin: 2px 0 2px 4px; padding-left: 8px; border-left: 2px solid var(--line); }
.jm .result { padding-bottom: 6px; } .jm .result table { margin: 2px 0 8px; }
.jm table { border-collapse: collapse; font-size: 12.5px; }
.jm th, .jm td { text-align: left; padding: 1px 10px 1px 0; vertical-align: top; font-weight: normal; }
.jm th { opacity: .7; } .jm td.n { text-align: right; font-variant-numeric: tabular-nums; }
.jm .note { padding: 10px 12px; border: 1px solid var(--line); border-left: 4px solid var(--warn);
  border-radius: 4px; }
.jm mark { color: inherit; border-radius: 2px; box-decoration-break: clone;
  background: color-mix(in srgb, var(--hue) 30%, transparent); }
.jm mark.weak { background: none; box-shadow: inset 0 -1px var(--hue); }
.jm mark::after { content: attr(data-n); font: 600 9px system-ui, sans-serif; vertical-align: super;
  margin-left: 1px; color: color-mix(in srgb, var(--hue) 55%, currentColor); user-select: none; }
.jm .hue0 { --hue: #2f7fe0; } .jm .hue1 { --hue: #d9860a; } .jm .hue2 { --hue: #2aa25c; }
.jm .hue3 { --hue: #b455d6; } .jm .hue4 { --hue: #d64a6b; }
.jm .rank { display: inline-block; min-width: 1.5em; padding: 0 4px; border-radius: 3px; text-align: center;
  font-weight: 600; background: color-mix(in srgb, var(--hue) 30%, transparent); }
.jm .word { display: inline-block; padding: 0 5px; margin: 1px 3px 1px 0; border: 1px solid var(--line);
  border-radius: 3px; font-size: 12.5px;
  background: color-mix(in srgb, currentColor calc(var(--share, 0) * 24%), transparent); }
.jm .trace pre { max-height: 22em; overflow: auto; }
"""


def page(body: str) -> str:
    """HTML in the box that the style is for."""
    return f'<div class="jm mathjax_ignore tex2jax_ignore">{body}</div>'


def note(sentence: str) -> str:
    """A sentence in place of what cannot be shown."""
    return page(f'<div class="note" role="status">{escape(sentence, TEXT_LIMIT)}</div>')


def facts(*parts: str) -> str:
    """Small facts on one line; they are HTML already, empty ones are left out."""
    return f'<span class="facts">{" · ".join(part for part in parts if part)}</span>'


def fold(title: str, body: str, opened: bool = False, kind: str = "") -> str:
    """A part that unfolds; title and body are HTML already."""
    named = f' class="{kind}"' if kind else ""
    return f"<details{named}{' open' if opened else ''}><summary>{title}</summary>{body}</details>"


def folds(*parts: str) -> str:
    """Several folds beside each other; one that is open takes the whole width."""
    shown = "".join(parts)
    return f'<div class="folds">{shown}</div>' if shown else ""


def empty(text: str) -> str:
    """A sentence in place of nothing."""
    return f'<div class="empty">{escape(text)}</div>'


def badge(outcome: str) -> str:
    """An outcome in its colour; other words than success and failure in that of errors."""
    kind = outcome if outcome in ("success", "failure") else "error"
    return f'<span class="badge {kind}">{escape(outcome, 80)}</span>'


def block(text: str, limit: int | None = TEXT_LIMIT, kind: str = "") -> str:
    """A text with its line breaks."""
    named = f' class="{kind}"' if kind else ""
    return f"<pre{named}>{escape(text, limit)}</pre>"


def code(text: str, limit: int = SHORT) -> str:
    """A short text of somebody else's."""
    return f"<code>{escape(text, limit)}</code>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is text, the others numbers; cells are HTML already."""
    top = "".join(f"<th>{name}</th>" for name in head)
    lines = (
        "<tr>" + "".join(f"<td{' class=n' if i else ''}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
