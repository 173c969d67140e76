"""HTML and short text of records: escaped, cut to a readable size, never a danger to the page."""

from __future__ import annotations

import html
import json
import re
from typing import Any

SURROGATE = re.compile("[\ud800-\udfff]")
_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_=>]")
# Controls, C1, bidirectional and other invisible format characters; joiners stay, emoji need them.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def clean_text(text: Any, limit: int | None = 2000) -> str:
    """`text` as it can be shown: ANSI codes removed, invisible characters as escapes, cut at `limit`.

    Args:
        text: Anything; what is not text is shown by its `str`.
        limit: Longest piece of the original that is shown; None shows all. The cut says how much is missing.
    """
    text = text if isinstance(text, str) else str(text)
    missing = 0 if limit is None else max(0, len(text) - limit)
    shown = _ANSI.sub("", text[:limit].replace("\r\n", "\n"))
    shown = _UNSEEN.sub(_escape_character, shown)
    return f"{shown}… {missing:,} more characters" if missing else shown


def _escape_character(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def escape(text: Any, limit: int | None = 2000) -> str:
    """`clean_text` for HTML: safe as an element's text and inside a quoted attribute."""
    return html.escape(clean_text(text, limit), quote=True)


class RichRepr:
    """Mixin of records: a short `repr`, and HTML for a notebook cell."""

    def __repr_args__(self) -> Any:
        """Fields with short values: what pydantic, rich and IPython's printer show."""
        for name, value in _fields(self):
            yield name, _Short(short_repr(value))

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={value!r}" for name, value in self.__repr_args__())
        return _clip(f"{type(self).__name__}({inner})", REPR_LIMIT)

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """This record as HTML: escaped, cut, readable in light and dark themes."""
        from .render_html import record_html

        return record_html(self)


REPR_LIMIT = 2000
"""Longest `repr` of a record, in characters."""


class _Short(str):
    """A text that is its own `repr`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _fields(record: Any) -> list[tuple[str, Any]]:
    """Names and values of a record, unknown fields of a newer writer included."""
    values = dict(record.__dict__)
    values.update(getattr(record, "__pydantic_extra__", None) or {})
    return [(name if name.isidentifier() else clean_text(name, 80), value) for name, value in values.items()]


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def fields_text(data: dict[str, Any], indent: str = "") -> str:
    """Fields as text, one a line or more: lists item by item, what is inside further in."""
    found = []
    for name, value in data.items():
        if isinstance(value, dict):
            found += [f"{indent}{name}:", fields_text(value, f"{indent}  ")]
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            for number, one in enumerate(value, 1):
                found += [fields_text({f"{name} {number}": one}, indent)]
        elif isinstance(value, list):
            found.append(f"{indent}{name}: {', '.join(map(str, value))}")
        else:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            found.append(f"{indent}{name}: {text}")
    return "\n".join(line for line in found if line)


def short_repr(value: Any, depth: int = 2, text: int = 120, items: int = 3) -> str:
    """A bounded `repr` of plain values and records, printable on any terminal.

    Args:
        value: What to show.
        depth: Levels of records and containers that are opened.
        text: Longest text shown.
        items: Most items of a container shown.
    """
    if isinstance(value, str):
        return repr(clean_text(value, text)).replace("\\\\", "\\")
    if isinstance(value, RichRepr):
        name = type(value).__name__
        if depth < 1:
            return f"{name}(…)"
        inner = (f"{k}={short_repr(v, depth - 1, text, items)}" for k, v in _fields(value))
        return _clip(f"{name}({', '.join(inner)})", 600)
    if isinstance(value, dict | list | tuple | set | frozenset):
        return _short_container(value, depth, text, items)
    return _clip(clean_text(repr(value), 4 * text), 2 * text)


def _short_container(value: Any, depth: int, text: int, items: int) -> str:
    opening, closing = ("{", "}") if isinstance(value, dict | set | frozenset) else ("[", "]")
    if isinstance(value, tuple):
        opening, closing = "(", ",)" if len(value) == 1 else ")"
    if not value:
        return opening + closing.lstrip(",")
    if depth < 1:
        return f"{opening}… {len(value):,} items{closing.lstrip(',')}"
    shown = []
    for item in list(value)[:items]:
        entry = short_repr(item, depth - 1, text, items)
        shown.append(
            f"{entry}: {short_repr(value[item], depth - 1, text, items)}"
            if isinstance(value, dict)
            else entry
        )
    if len(value) > items:
        shown.append(f"… {len(value) - items:,} more")
    return opening + ", ".join(shown) + closing
