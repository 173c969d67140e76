"""The protocol of a memory system: it differs from the others in `recall` and `remember` only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..records import Episode, Recall, Task
from ..session import Session


class Memory(Protocol):
    """A memory system, bound to the run's store."""

    name: str
    """Name it is chosen by."""

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers; recorded in the run's config."""
        ...

    def snapshot(self) -> int:
        """A token for the present state; recalling with it later gives what it gives now."""
        ...

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """What memory gives for `task`, seen from `snapshot`."""
        ...

    def remember(self, episodes: Sequence[Episode]) -> None:
        """Take in a finished batch, in task order and durably; an episode already taken in changes nothing."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...
