"""Shopping sessions inside a worker process."""

from __future__ import annotations

from typing import Any

from ...errors import UserError
from .catalogue import Catalogue, Place, catalogue_at
from .engine import Answer, Shopping, can_click
from .goals import Goal
from .oracle import solve
from .pages import SEARCH
from .queries import suggested


class Host:
    """Makes sessions in this process; each set of products is loaded once."""

    def open(self, spec: dict[str, Any]) -> Visit:
        """A session from `spec`: `place` (name and path of the set) and `goal`."""
        return Visit(*_opened(spec))

    def solve(self, spec: dict[str, Any]) -> dict[str, Any]:
        """The oracle's solution of a goal: `actions`, `reward`, `reachable`."""
        return solve(*_opened(spec))._asdict()


class Visit:
    """One live session. Every answer is the fields of an `Observation`."""

    def __init__(self, catalogue: Catalogue, goal: Goal) -> None:
        self._shopping = Shopping(catalogue, goal)
        self._searches = [f"search[{text}]" for text in suggested(goal.instruction_text)]

    def reset(self) -> dict[str, Any]:
        """Start over."""
        return self._shown(self._shopping.reset())

    def step(self, action: str) -> dict[str, Any]:
        """Act; what is no action changes nothing."""
        if not isinstance(action, str):
            raise UserError(f"an action must be a string, not {type(action).__name__}")
        return self._shown(self._shopping.step(action))

    def close(self) -> None:
        """Nothing is held."""

    def _shown(self, answer: Answer) -> dict[str, Any]:
        page = answer.page
        clicks = [f"click[{text}]" for text in page.clickables if text != SEARCH.lower() and can_click(text)]
        return {
            "text": page.text,
            "admissible": (self._searches if page.has_search_bar else []) + clicks,
            "reward": answer.reward,
            "done": answer.done,
            "success": answer.reward == 1,
            "open": True,
            "accepted": answer.accepted,
            "parts": answer.parts,
        }


def _opened(spec: dict[str, Any]) -> tuple[Catalogue, Goal]:
    return catalogue_at(Place(*spec["place"])), Goal.of(spec["goal"])
