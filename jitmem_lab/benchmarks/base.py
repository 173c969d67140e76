"""The protocol of a benchmark: tasks, and environments to act in."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ..records import Task, Tool, Trajectory
from ..session import Session


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
    open: bool = False
    """Whether other actions than the admissible ones may be accepted too: a search, a message."""
    accepted: bool = True
    """Whether the environment took the last action; one that it did not take changed nothing."""
    speaker: str = ""
    """Whose words the text is: user, tool; empty for the environment."""
    parts: dict[str, Any] = {}  # noqa: RUF012  (never written to)
    """What the reward is made of, once done."""
    task: str = ""
    """By the reset only: the task sentence, where the task itself does not say it (τ²: the user does)."""
    rules: str = ""
    """By the reset only: standing instructions, shown to the agent at each step (τ²: the policy)."""
    tools: tuple[Tool, ...] = ()
    """By the reset only: tools that the agent may call, in the form that `tool_calls` writes and reads."""


def told(task: Task, first: Observation) -> Task:
    """`task` with the sentence that its reset gave; what hides before the episode is no description."""
    return task.model_copy(update={"description": first.task}) if first.task else task


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
    split: str
    """The split that was loaded."""
    max_steps: int
    """The benchmark's usual limit of turns."""
    noop: str
    """The action of an agent that does nothing: the floor that any success rate stands on."""
    tells_at_reset: bool
    """Whether a task's sentence is only known once its environment was reset (τ²: the user says it)."""
    splits: tuple[str, ...]
    """Splits that it knows, whether or not their data are here."""

    @property
    def version(self) -> str:
        """Versions of the environment and its data that can change a result."""
        ...

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        """Tasks of the split; `order` is the seed of a permutation, None keeps the data's order."""
        ...

    def make_env(self, task: Task, session: Session | None = None) -> Env:
        """An environment for `task`, in a worker process.

        `session` records what a simulated user asks of its model; None for one that needs none.
        """
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
