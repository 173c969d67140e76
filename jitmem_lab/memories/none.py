"""none: no memory, the baseline of every table.

Stores: Nothing.
Written: Never.
Found: Nothing is looked for.
Shown: Nothing: the executor has its prompt and its window of turns.
Costs: No model call.
Source: The baseline of the JitMem paper's tables.
Chosen here: Nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..records import Episode, Recall, Task, Trajectory
from ..session import Session
from .base import Companion


class NoMemory:
    """Recalls nothing and remembers nothing."""

    name = "none"
    needs_judge = False

    def settings(self) -> dict[str, Any]:
        """Only the name."""
        return {"name": self.name}

    def open(self, folder: Path | None) -> None:
        """There is no store."""

    def warm(self, trajectories: Sequence[Trajectory], session: Session) -> None:
        """Demonstrations are ignored."""

    def snapshot(self) -> int:
        """Always the same state."""
        return 0

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """Nothing."""
        return Recall()

    def companion(self, task: Task, snapshot: int, recall: Recall) -> Companion | None:
        """Nothing is given step by step."""
        return None

    def remember(self, episode: Episode, session: Session) -> dict[str, Any]:
        """Nothing."""
        return {}

    def close(self) -> None:
        """There is nothing to close."""
