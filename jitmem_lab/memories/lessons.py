"""Reading lessons (title, description, content) out of whatever a model writes."""

from __future__ import annotations

import re
from collections.abc import Callable

MOST_ITEMS = 3
"""Items of one record (published)."""

_LONGEST = {"title": 200, "description": 500, "content": 2000}
"""Characters of each field; a title is a few words, a description one sentence, the content one to three."""
_HEAD = re.compile(r"[#*>\-\s]*memory\s+items?\s*(?:\d|[:*.]|$)[\s:.*\-\d]*", re.I)
_FIELD = re.compile(r"(\W*)(?:\d+\W+)?(title|description|content)\b[*_\s]*([:：]?)[*_\s]*", re.I)


def item_text(item: dict[str, str]) -> str:
    """An item as the executor reads it."""
    return "\n".join(f"{name.capitalize()}: {item[name]}" for name in _LONGEST if item.get(name))


def memory_items(
    answer: str, copied: Callable[[str], bool] = lambda content: False
) -> tuple[list[dict[str, str]], list[str]]:
    """The items in a model's answer, at most three, and why others were left out.

    `copied` says of a content whether it only repeats the prompt.

    Read are Markdown headings (`# Memory Item 1`, `## Title …`) and plain lines (`Title: …`), in bold or in
    a list too; a field goes on to the next blank line or field.
    """
    kept: list[dict[str, str]] = []
    refused = []
    for number, item in enumerate(_blocks(answer), 1):
        said = f"item {number} ({item['title'] or 'untitled'})"
        if not item["content"]:
            refused.append(f"{said}: no content")
        elif copied(item["content"]):
            refused.append(f"{said}: copied from the prompt")
        elif any(_same(item, one) for one in kept):
            refused.append(f"{said}: repeats an item before it")
        elif len(kept) == MOST_ITEMS:
            refused.append(f"{said}: more than {MOST_ITEMS}")
        else:
            kept.append(item)
    return kept, refused


def _blocks(answer: str) -> list[dict[str, str]]:
    """What stands between one title or heading and the next, field by field, cut to its longest."""
    blocks: list[dict[str, list[str]]] = []
    field = ""
    for line in map(str.strip, answer.splitlines()):
        if line.startswith("```") or not line:
            if blocks and field and blocks[-1][field]:
                field = ""
            continue
        if head := _HEAD.match(line):
            blocks.append({})
            field, line = "", line[head.end() :]
            if line and not _field(line):  # the heading holds the title
                blocks[-1]["title"] = [line]
        if begun := _field(line):
            field, rest = begun
            if not blocks or (field in blocks[-1] and list(blocks[-1]) != ["title"]):
                blocks.append({})
            blocks[-1][field] = [rest] if rest else []
        elif field:
            blocks[-1][field].append(line)
    return [
        {name: " ".join(block.get(name, []))[:most] for name, most in _LONGEST.items()}
        for block in blocks
        if any(block.values())
    ]


def _field(line: str) -> tuple[str, str] | None:
    """The field that a line begins, and the rest of it; None for a line that goes on."""
    found = _FIELD.match(line)
    if found is None:
        return None
    rest = line[found.end() :].rstrip("* ")
    marked = found[3] or "#" in found[1] or "*" in found[1] or not rest
    return (found[2].lower(), rest) if marked else None


def _same(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two items have the same title or the same content, but for case and white space."""
    return any(
        one[name] and one[name].casefold().split() == other[name].casefold().split()
        for name in ("title", "content")
    )
