"""The protocol of a memory system: it differs from the others in `recall` and `remember` only."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from ..benchmarks.base import Observation
from ..errors import UserError
from ..records import Episode, Recall, Step, Task, Trajectory
from ..session import Session

Gate = Literal["judge", "environment", "partial", "all+labels"]
"""Who lets a trajectory in: the model's verdict, the environment's success, any reward above 0 (as the
authors' code, where a partial WebShop score is enough), or nobody (all, the verdict shown)."""


def decide(gate: Gate, episode: Episode | None) -> bool | None:
    """Whether an episode counts as a success for the bank; None where no usable verdict says so.

    With `all+labels` this is the label, and both are let in.

    Raises:
        UserError: Unknown gate.
    """
    if gate not in get_args(Gate):
        raise UserError(f"gate must be one of {', '.join(get_args(Gate))}, not {gate!r}")
    if episode is None or episode.trajectory is None:
        return None
    if gate == "environment":
        return episode.outcome == "success"
    if gate == "partial":
        return (episode.trajectory.reward or 0.0) > 0
    return episode.verdict.success


def asks_judge(gate: Gate) -> bool:
    """Whether a gate needs a model's verdict: it decides, or it labels."""
    return gate in ("judge", "all+labels")


class Companion(Protocol):
    """Memory that goes along with one episode, for systems that recall at each step."""

    def advise(self, past: Sequence[Step], now: Observation, session: Session) -> str:
        """The payload of the step to come; the executor shows it instead of the episode's.

        Raises:
            InfrastructureError: A model's server failed.
        """
        ...

    def notes(self) -> dict[str, Any]:
        """What is worth keeping once the episode is over, e.g. what was shown when.

        Added to the notes of the episode's recall, where `remember` finds it.
        """
        ...


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

    def warm(self, trajectories: Sequence[Trajectory], session: Session) -> None:
        """Take in demonstrations before the stream begins; doing it twice changes nothing.

        Raises:
            InfrastructureError: A model's server failed; what was taken in before stays.
        """
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

    def companion(self, task: Task, snapshot: int, recall: Recall) -> Companion | None:
        """What goes along with the episode step by step; None for systems that recall once."""
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
