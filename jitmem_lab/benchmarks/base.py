"""The protocol of a benchmark: tasks, and environments to act in."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ..records import Task, Trajectory


class Observation(NamedTuple):
    """What the environment shows after a reset or a step."""

    text: str
    """The observation, unabridged."""
    admissible: tuple[str, ...]
    """Actions that the environment accepts now, in the environment's order."""
    reward: float = 0.0
    """Reward of the last step; the benchmark's metric once done."""
    done: bool = False
    """Whether the episode has ended."""
    success: bool = False
    """Whether the benchmark counts the episode as solved."""


class Env(Protocol):
    """One episode's environment. `InfrastructureError` when it dies or hangs."""

    def reset(self) -> Observation:
        """Start over; the same task gives the same text each time."""
        ...

    def step(self, action: str) -> Observation:
        """Act. An inadmissible action costs a step and is answered by the environment's own text."""
        ...

    def close(self) -> None:
        """Give the environment back; calling it twice is fine."""
        ...


class Benchmark(Protocol):
    """A set of tasks with environments, an oracle, and floors."""

    name: str
    """Name, e.g. `alfworld`."""
    version: str
    """Versions of the environment and its data that can change a result."""
    split: str
    """The split that was loaded."""
    max_steps: int
    """The benchmark's usual limit of turns."""

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        """Tasks of the split; `order` is the seed of a permutation, None keeps the data's order."""
        ...

    def make_env(self, task: Task) -> Env:
        """An environment for `task`, in a worker process."""
        ...

    def oracle(self, task: Task) -> list[str]:
        """Actions that solve `task`, known without any model."""
        ...

    def demonstrations(self, limit: int, seed: int = 0) -> list[Trajectory]:
        """Solved trajectories of the train split, played by the oracle in the real environment."""
        ...

    def provenance(self) -> dict[str, Any]:
        """Versions, data origin and settings, recorded with each run."""
        ...

    def close(self) -> None:
        """End the worker processes."""
        ...
