"""What is taken out of a model's raw text: think blocks, the action, a JSON object."""

from __future__ import annotations

import json
import re
from typing import Any

_THINK = re.compile(r"<(/?)think>", re.I)
_ACTION = re.compile(r"<action>((?:(?!<action>).)*?)</action>", re.S | re.I)


def strip_thinking(text: str) -> str:
    """The text without its think blocks; an unclosed one takes the rest with it.

    A closing tag alone ends a block that began with the text (its opening tag was in the prompt) or, behind
    another block, the rest of a nested one.
    """
    while (rest := _without_blocks(text)) != text:
        text = rest
    return text.strip()


def _without_blocks(text: str) -> str:
    kept = []
    position, thinking = 0, False
    for tag in _THINK.finditer(text):
        if not tag[1]:
            if not thinking:
                kept.append(text[position : tag.start()])
            thinking = True
        else:
            thinking = False
        position = tag.end()
    return "".join(kept) if thinking else "".join([*kept, text[position:]])


def parse_action(raw: str, verbatim: bool = False) -> str:
    """The command in the last action block outside think blocks; empty when there is none.

    White space inside is folded unless `verbatim`, which a message or a tool call needs.
    """
    found = _ACTION.findall(strip_thinking(raw))
    if not found:
        return ""
    return str(found[-1]).strip() if verbatim else " ".join(found[-1].split())


def match_admissible(action: str, admissible: tuple[str, ...]) -> str | None:
    """The admissible action that `action` names, whatever its case and spacing; None for no such one."""
    if action in admissible:
        return action
    wanted = " ".join(action.lower().split())
    for option in admissible:
        if " ".join(option.lower().split()) == wanted:
            return option
    return None


def parse_json_object(raw: str) -> dict[str, Any] | None:
    """The first JSON object in the text outside think blocks; None when there is none.

    An object inside a torn one does not count: its meaning hangs on what was lost.
    """
    text = strip_thinking(raw)
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except RecursionError:
            return None
        except ValueError as error:
            start = text.find("{", max(start + 1, getattr(error, "pos", 0)))
            continue
        return value if isinstance(value, dict) else None
    return None
