"""Tables and figures as files: CSV, LaTeX, and one HTML page that needs nothing but itself."""

from __future__ import annotations

import csv
import errno
import io
import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .errors import InfrastructureError, UserError
from .files import make_folder, write_atomic
from .render import clean_text, escape

if TYPE_CHECKING:
    import pandas as pd

CELL_LIMIT = 400
"""Characters of a text that a page shows in one cell; CSV and LaTeX hold all of it."""
LONG = 30
"""Rows beyond which a page's table scrolls by itself."""
PAPER = "paper, "
"""How the heading of a column begins that holds published figures."""

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:1800px;margin:2em auto;padding:0 1.5em;color:#1b1f24}
h1{font-size:1.5em}h2{font-size:1.15em;margin-top:2em;border-bottom:1px solid #d8dde3;padding-bottom:.2em}
table{border-collapse:collapse;font-size:13px;margin:.6em 0}
th,td{padding:3px 10px;border-bottom:1px solid #e3e7ec;text-align:left;vertical-align:top}
th{border-bottom:2px solid #b9c1ca;vertical-align:bottom;max-width:11em}
td{font-variant-numeric:tabular-nums;white-space:pre-line}p,li{max-width:52em}
@media print{body{max-width:none;margin:0;font-size:9pt}table{font-size:7pt}
th,td{padding:2px 4px}th{white-space:normal!important}
td{white-space:pre-line!important;overflow-wrap:break-word}h2{break-after:avoid}
div{max-height:none!important;overflow:visible!important}tr{break-inside:avoid}
@page{size:A4 landscape;margin:12mm}}
footer{margin-top:3em;color:#5c6670;font-size:13px}
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"


class Link(str):
    """A text that a page links to a place beside it, such as `../runs/a`; CSV and LaTeX hold the text.

    Raises:
        UserError: An address with a scheme or host: a page needs nothing but what lies beside it.
    """

    href: str

    def __new__(cls, text: str, href: str) -> Link:
        """A text with its address."""
        if re.match(r"[A-Za-z][A-Za-z0-9+.-]*:|//", href):
            raise UserError(f"{href} is not beside the page")
        link = super().__new__(cls, text)
        link.href = href
        return link


class Section(NamedTuple):
    """A part of a report."""

    name: str
    """Name of its files: letters, digits, _ and -."""
    title: str
    """Its heading."""
    text: str = ""
    """A paragraph that says what is shown, or one a line."""
    table: pd.DataFrame | None = None
    """A table."""
    figures: Sequence[Any] = ()
    """Plotly figures."""

    def _repr_html_(self) -> str:
        """Text and table for a notebook's cell; figures are shown by themselves."""
        return "".join(_words(self))


def write_report(folder: str | Path, title: str, sections: Sequence[Section]) -> list[Path]:
    """Write `NAME.csv` and `NAME.tex` of each table and `report.html` of everything; gives their paths.

    Raises:
        UserError: The folder cannot be made or written to, or a name is no file's name.
        InfrastructureError: The disk is full.
    """
    root = make_folder(folder)
    names = [section.name for section in sections]
    for name in names:
        if not re.fullmatch(r"[A-Za-z0-9_-]+", name) or names.count(name) > 1:
            raise UserError(f"{name!r} names no file of its own; use letters, digits, _ and -")
    texts: dict[str, str] = {}
    for section in sections:
        if section.table is not None and len(section.table):
            texts[f"{section.name}.csv"] = to_csv(section.table)
            texts[f"{section.name}.tex"] = to_latex(section.table, section.title, f"tab:{section.name}")
    texts["report.html"] = to_html(title, sections)
    for name, text in texts.items():
        try:
            write_atomic(root / name, text)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise InfrastructureError(
                    f"{root / name} cannot be written ({error.strerror}); make room and write it again"
                ) from None
            raise UserError(f"{root / name} cannot be written ({error.strerror}); choose another") from None
    return [root / name for name in texts]


def _rows(frame: pd.DataFrame) -> Iterable[list[Any]]:
    """Rows as plain values; what is missing as an empty text."""
    for row in frame.itertuples(index=False, name=None):
        yield ["" if value is None or value != value else value for value in row]


def to_csv(frame: pd.DataFrame) -> str:
    """A table as CSV (UTF-8), figures at full precision.

    A text that a spreadsheet would take for a formula gets an apostrophe before it; controls are escaped.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_plain(name) for name in frame.columns])
    writer.writerows(
        [_plain(value) if isinstance(value, str) else value for value in row] for row in _rows(frame)
    )
    return out.getvalue()


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")


def _plain(text: Any) -> str:
    text = str(text).replace("\r\n", "\n").encode("utf-8", "backslashreplace").decode("utf-8")
    text = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)
    formula = text.lstrip()[:1] in ("=", "+", "-", "@") and not _FIGURE.fullmatch(text)
    return f"'{text}" if formula else text


_TEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "τ²": r"$\tau^2$",
    "–": "--",
    "…": r"\dots{}",
    "±": r"$\pm$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
} | {mark: f"\\{mark}" for mark in "&%$#_{}"}
_TEX_MARKS = re.compile("|".join(map(re.escape, sorted(_TEX, key=len, reverse=True))))


def latex_escape(text: Any) -> str:
    """A text as LaTeX prints it, on one line."""
    plain = _TEX_MARKS.sub(lambda match: _TEX[match[0]], " ".join(clean_text(text, None).split()))
    return f"{{}}{plain}" if plain[:1] in ("[", "*") else plain  # else an option of the line break before it


def to_latex(frame: pd.DataFrame, caption: str, label: str) -> str:
    """A table as LaTeX (packages booktabs, and fontenc with T1); columns of figures are set right."""
    numeric = _numeric(frame)
    columns = "".join("r" if name in numeric else "l" for name in frame.columns)
    head = " & ".join(latex_escape(name) for name in frame.columns)
    body = [" & ".join(latex_escape(shown(value)) for value in row) + r" \\" for row in _rows(frame)]
    lines = [
        r"\begin{table}[t]",
        r"\centering",
        rf"\caption{{{latex_escape(caption)}}}",
        rf"\label{{{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def shown(value: Any) -> str:
    """A value as a reader sees it: four significant digits are enough, and a dash stands for nothing."""
    if value == "":
        return "–"
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:,.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


_FIGURE = re.compile(r"(–|-?[\d,.]+( \(-?[\d,.]+\))?( to -?[\d,.]+)?)?")


def _numeric(frame: pd.DataFrame) -> set[Any]:
    """Columns that hold nothing but figures."""
    found = set()
    for place, name in enumerate(frame.columns):
        values = [shown(row[place]) for row in _rows(frame)]
        if any(values) and all(_FIGURE.fullmatch(value) for value in values):
            found.add(name)
    return found


def table_html(frame: pd.DataFrame) -> str:
    """A table for a page or a notebook's cell, all text escaped; published columns are set apart."""
    numeric = _numeric(frame)
    marks = []
    for name in frame.columns:
        own = "text-align:right;white-space:nowrap" if name in numeric else "text-align:left"
        own += ";background:#f6f1e4;color:#5b4a1c" if str(name).startswith(PAPER) else ""
        marks.append(f' style="{own}"')
    heads = [mark.replace(";white-space:nowrap", "") for mark in marks]

    def line(tag: str, values: Iterable[Any]) -> str:
        cells = zip(values, marks if tag == "td" else heads, strict=True)
        return "".join(f"<{tag}{mark}>{_cell(v)}</{tag}>" for v, mark in cells)

    head = line("th", map(str, frame.columns))
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in _rows(frame))
    height = ";max-height:42em" if len(frame) > LONG else ""
    return (
        f'<div style="overflow:auto;max-width:100%{height}"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(value: Any) -> str:
    text = escape(shown(value), CELL_LIMIT)
    return f'<a href="{escape(value.href, None)}">{text}</a>' if isinstance(value, Link) else text


def _words(section: Section) -> list[str]:
    """A section's paragraphs and table as HTML."""
    parts = [f"<p>{escape(line, None)}</p>" for line in section.text.splitlines() if line.strip()]
    if section.table is not None:
        parts.append(table_html(section.table) if len(section.table) else "<p>(nothing to show)</p>")
    return parts


def _says(section: Section) -> bool:
    """Whether there is anything to show; a section whose table is empty is left out of a page."""
    return bool(section.figures) or section.table is None or len(section.table) > 0


def to_html(title: str, sections: Sequence[Section]) -> str:
    """One page with everything in it: no other file, no network, all text escaped."""
    from . import __version__

    parts = [f"<h1>{escape(title)}</h1>"]
    drawn = False
    for section in filter(_says, sections):
        parts.append(f"<h2>{escape(section.title)}</h2>")
        parts += _words(section)
        for number, figure in enumerate(section.figures):
            parts.append(
                figure.to_html(
                    include_plotlyjs=not drawn,
                    full_html=False,
                    config={"displaylogo": False},
                    div_id=f"{section.name}-{number}",  # else a random one: the same page twice is the same
                )
            )
            drawn = True
    parts.append(f"<footer>Written by jitmem-lab {escape(__version__)}.</footer>")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )
