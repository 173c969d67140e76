"""What the lines of a training's files must be like to be shown: numbers where numbers stand, and lists."""

from __future__ import annotations

import math
from typing import Any

from ..files import parse_json

_TEXTS = ("kind", "run")
_LARGEST = 10**9


def read_line(name: str, line: str | bytes) -> dict[str, Any]:
    """A line of a training's file of that name.

    In `metrics.jsonl` what is no finite number reads None.

    Raises:
        ValueError: The line is torn, or has something else in a place where its readers count or look up.
    """
    found = parse_json(line)
    if not isinstance(found, dict):
        raise ValueError("no object")
    check = {"metrics.jsonl": _metrics, "rollouts.jsonl": _rollout, "prompts.jsonl": _prompt}.get(name)
    return found if check is None else check(found)


def whole(value: Any) -> int:
    """A count or a place; `ValueError` if it is none."""
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError(f"{str(value)[:40]} is no count")
    return value


def finite(value: Any) -> float | int | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def _metrics(line: dict[str, Any]) -> dict[str, Any]:
    if line.get("kind") not in ("step", "heldout"):
        raise ValueError("neither a step nor an evaluation")
    step = whole(line.get("step"))
    found = {name: value if name in _TEXTS else finite(value) for name, value in line.items()}
    if line["kind"] == "heldout" and not whole(line.get("won") or 0) <= whole(line.get("games") or 0):
        raise ValueError("more won than played")
    return found | {"step": step}


def _rollout(line: dict[str, Any]) -> dict[str, Any]:
    for name in ("step", "group", "prompt"):
        whole(line.get(name))
    for name in ("reward", "advantage", "tokens"):
        if line.get(name) is not None and finite(line[name]) is None:
            raise ValueError(f"{name} is no number")
    if not isinstance(line.get("actions") or [], list):
        raise ValueError("actions are no list")
    return line


def _prompt(line: dict[str, Any]) -> dict[str, Any]:
    traces = line["recall"].get("traces") if isinstance(line.get("recall"), dict) else None
    if not isinstance(line.get("task"), dict) or not isinstance(traces, list):
        raise ValueError("no prompt")
    if not all(isinstance(trace, dict) for trace in traces):
        raise ValueError("a trace is none")
    return line
