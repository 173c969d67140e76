"""A procedure: its workflow as text and out of a model's answer, how it fares, and when it is shown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..benchmarks.base import Observation
from ..records import Step
from ..session import Session

LONGEST = 8_000
"""Characters that a workflow may have."""
_USES, _SHARE = 3, 0.5
_PROCEDURE = re.compile(r"^[^\w\n]*+procedure[^\w\n]*?:[*_]*", re.I | re.M)


def workflow_text(data: dict[str, Any]) -> str:
    """A procedure's workflow for a prompt: a numbered list of actions, or a paragraph."""
    workflow = data["workflow"]
    if isinstance(workflow, str):
        return f"How to do it: {workflow}"
    return "\n".join(["Steps to do it:", *(f"{n}. {action}" for n, action in enumerate(workflow, 1))])


def counted(data: dict[str, Any], success: bool) -> dict[str, Any]:
    """The procedure after one more use."""
    return data | {"hits": data["hits"] + 1, "successes": data["successes"] + success}


def fails(data: dict[str, Any]) -> bool:
    """Whether it was used often enough, and with success in less than half, to be deleted."""
    return bool(data["hits"] >= _USES and data["successes"] / data["hits"] < _SHARE)


def critical(answer: str, steps: Sequence[Step]) -> list[str]:
    """The actions of the steps whose numbers (from 1) an answer names, in the trajectory's order.

    If there are lists in brackets, the last one counts; steps that did nothing are left out.
    """
    listed = re.findall(r"\[([\d\s,]*)\]", answer)
    numbers = {int(number) for number in re.findall(r"\d{1,6}", listed[-1] if listed else answer)}
    picked = [step for number, step in enumerate(steps, 1) if number in numbers]
    return [step.action for step in picked if step.valid and step.action]


def corrected(answer: str) -> str:
    """The workflow below the last line `Procedure:` of an answer; empty if there is none."""
    begun = list(_PROCEDURE.finditer(answer))
    return answer[begun[-1].end() :].strip() if begun else ""


def unusable(workflow: str | list[str]) -> str:
    """Why a workflow can't be kept; empty if it can."""
    if not workflow:
        return "no workflow was written"
    length = len(workflow_text({"workflow": workflow}))
    return f"a workflow of {length} characters is too long" if length > LONGEST else ""


class Later:
    """A payload that is not shown at the first steps."""

    def __init__(self, payload: str, from_step: int) -> None:
        self._payload = payload
        self._from_step = from_step

    def advise(self, past: Sequence[Step], now: Observation, session: Session) -> str:
        """The payload, once enough steps are taken."""
        return self._payload if len(past) >= self._from_step else ""

    def notes(self) -> dict[str, Any]:
        """From which step on the payload was shown."""
        return {"from_step": self._from_step}
