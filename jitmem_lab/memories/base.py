"""The protocol of a memory system: it differs from the others in `recall` and `remember` only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

from ..records import Episode, Recall, Task, Trajectory
from ..session import Session

Gate = Literal["judge", "environment", "partial", "all+labels"]
"""Who lets a trajectory in: the model's verdict, the environment's success, any reward above 0 (as the
authors' code, where a partial WebShop score is enough), or nobody (all, the verdict shown)."""


class Memory(Protocol):
    """A memory system. It holds no state of its own outside its store in the run directory."""

    name: str
    """Name it is chosen by."""

    @property
    def needs_judge(self) -> bool:
        """Whether it uses a model's verdict on each trajectory."""
        ...

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers; recorded in the run's config."""
        ...

    def open(self, folder: Path | None) -> None:
        """Open or create its store in a run directory (None: in main memory); called first."""
        ...

    def warm(self, trajectories: Sequence[Trajectory]) -> None:
        """Take in demonstrations before the stream begins; doing it twice changes nothing."""
        ...

    def snapshot(self) -> int:
        """A token for the present state; recalling with it later gives what it gives now."""
        ...

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """What memory gives for `task`, seen from `snapshot`. Called from many threads at once.

        Raises:
            InfrastructureError: A model's server failed.
        """
        ...

    def remember(self, episode: Episode, session: Session) -> dict[str, Any]:
        """Take in a finished episode, durably and whole or not at all; twice changes nothing.

        Returns what changed, for the record. Called after the batch, in task order.

        Raises:
            InfrastructureError: A model's server failed; nothing was written.
        """
        ...

    def close(self) -> None:
        """Close the store; calling it twice is fine."""
        ...
