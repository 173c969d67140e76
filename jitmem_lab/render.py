"""HTML and short text of records: escaped, cut to a readable size, never a danger to the page."""

from __future__ import annotations

import html
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
    """Mixin."""
