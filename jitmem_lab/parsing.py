"""What is taken out of a model's raw text: think blocks, the action, a JSON object."""

from __future__ import annotations

import json
import re
from typing import Any

_THINK = re.compile(r"<think>.*?</think>", re.S | re.I)
_OPEN_THINK = re.compile(r"<think>.*\Z", re.S | re.I)
_ACTION = re.compile(r"<action>(.*?)</action>", re.S | re.I)


def strip_thinking(text: str) -> str:
    """The text without its think blocks; an unclosed one takes the rest with it.

    A closing tag alone (its opening one was in the prompt) ends a block that began with the text.
    """
    text = _THINK.sub("", text)
    head, tag, tail = text.rpartition("</think>")
    text = tail if tag else head or tail
    return _OPEN_THINK.sub("", text).strip()


def parse_action(raw: str) -> str:
    """The command in the last action block outside think blocks; empty when there is none."""
    found = _ACTION.findall(strip_thinking(raw))
    return " ".join(found[-1].split()) if found else ""


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
    """The first JSON object in the text outside think blocks; None when there is none."""
    text = strip_thinking(raw)
    decoder = json.JSONDecoder()
    start = text.find("{")
    while start >= 0:
        try:
            value, _ = decoder.raw_decode(text, start)
        except ValueError:
            start = text.find("{", start + 1)
            continue
        return value if isinstance(value, dict) else None
    return None
