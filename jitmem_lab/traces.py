"""Trajectories as text for a model, and what is cut when they are too long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from .records import Trajectory

TraceFormat = Literal["full", "actions"]
"""`full` shows observation and action of each step, `actions` a numbered list of actions."""


def trace_text(trajectory: Trajectory, form: TraceFormat = "full", label: bool | None = None) -> str:
    """A trajectory for a prompt; `label` adds a result line (the all+labels gate)."""
    steps = trajectory.steps
    if form == "actions":
        lines = [
            f"{n}. {step.action}" for n, step in enumerate((s for s in steps if s.valid and s.action), 1)
        ]
    else:
        lines = []
        for number, step in enumerate(steps, 1):
            lines += [
                f"[Step {number}]",
                f"Saw: {step.observation}",
                f"Did: {step.action or '(nothing usable)'}",
            ]
        if trajectory.final_observation:
            lines.append(f"Saw at the end: {trajectory.final_observation}")
    if label is not None:
        lines.append(f"Result: {'success' if label else 'failure'}")
    return "\n".join(lines)


class CutText(NamedTuple):
    """A text after a cut."""

    text: str
    """What is left, with a mark where something was cut."""
    cut_chars: int
    """Characters left out."""


def cut_middle(text: str, limit: int) -> CutText:
    """Head and tail of a text within about `limit` characters: a trace's goal and its end matter most."""
    if len(text) <= limit:
        return CutText(text, 0)
    keep = max(limit - 40, 0)
    head = keep * 2 // 3
    tail = keep - head
    cut = len(text) - head - tail
    end = text[len(text) - tail :] if tail else ""
    return CutText(f"{text[:head]}\n[... {cut} characters cut ...]\n{end}", cut)


def fit(texts: Sequence[str], budget: int, count: Callable[[str], int]) -> list[CutText]:
    """Cut texts so that together they hold at most `budget` tokens by `count`.

    Short texts stay whole; what they leave is shared evenly among the long ones, which lose their middle.
    """
    sizes = [count(text) for text in texts]
    if sum(sizes) <= budget:
        return [CutText(text, 0) for text in texts]
    share, left = max(budget, 0), max(budget, 0)
    for taken, size in enumerate(sorted(sizes)):
        share = left // (len(sizes) - taken)
        if size > share:
            break
        left -= size
    return [
        CutText(t, 0) if n <= share else _cut_to(t, n, share, count)
        for t, n in zip(texts, sizes, strict=True)
    ]


def _cut_to(text: str, size: int, share: int, count: Callable[[str], int]) -> CutText:
    limit = max(int(len(text) * share / max(size, 1)), 0)
    result = cut_middle(text, limit)
    while limit > 0 and count(result.text) > share:
        limit = limit * 9 // 10 if limit > 50 else 0
        result = cut_middle(text, limit)
    return result if count(result.text) <= share else CutText("", len(text))
