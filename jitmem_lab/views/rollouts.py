"""A training's files as its page reads them: grown on, never whole in memory."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ..errors import UserError
from ..training.lines import finite, read_line
from ..training.runs import TrainRun, list_trainings
from .following import Follower
from .reading import BUFFER


class Place(NamedTuple):
    """Where a payload stands in its file."""

    offset: int
    """Byte at which its line begins."""
    prompt: int
    """Index of its prompt."""
    reward: float | None
    """Its reward."""


class Rollouts(Follower):
    """Where each group's payloads stand in `rollouts.jsonl`."""

    name: ClassVar[str] = "rollouts.jsonl"

    def forget(self) -> None:
        """Let go of all."""
        self.groups: dict[tuple[int, int], list[Place]] = {}

    def take(self, line: bytes) -> None:
        """Take in a payload's line."""
        read = read_line(self.name, line)
        reward = read["reward"]
        place = Place(self._end, int(read["prompt"]), None if reward is None else float(reward))
        self.groups.setdefault((int(read["step"]), int(read["group"])), []).append(place)

    def steps(self) -> list[int]:
        """Steps of which there are payloads."""
        return sorted({step for step, _ in self.groups})

    def of_step(self, step: int) -> dict[int, list[Place]]:
        """The groups of a step."""
        return {group: places for (at, group), places in sorted(self.groups.items()) if at == step}

    def read(self, places: list[Place]) -> list[dict[str, Any]]:
        """The payloads themselves.

        Raises:
            UserError: The file is gone or is no longer the same.
        """
        try:
            with (self.folder / self.name).open("rb", buffering=BUFFER) as file:
                found = []
                for place in places:
                    file.seek(place.offset)
                    found.append(read_line(self.name, file.readline()))
                return found
        except (OSError, ValueError, TypeError):
            raise UserError(f"{self.folder / self.name} has changed; press Reload") from None


class Metrics(Follower):
    """The lines of `metrics.jsonl`."""

    name: ClassVar[str] = "metrics.jsonl"

    def forget(self) -> None:
        """Let go of all."""
        self.steps: list[dict[str, Any]] = []
        self.heldout: list[dict[str, Any]] = []

    def take(self, line: bytes) -> None:
        """Take in the line of a step or of a held-out evaluation."""
        read = read_line(self.name, line)
        {"step": self.steps, "heldout": self.heldout}[read["kind"]].append(read)


class Prompts(Follower):
    """Where each prompt stands in `prompts.jsonl`."""

    name: ClassVar[str] = "prompts.jsonl"

    def forget(self) -> None:
        """Let go of all."""
        self.offsets: list[int] = []

    def take(self, line: bytes) -> None:
        """Take in a prompt's line."""
        self.offsets.append(self._end)

    def read(self, index: int) -> dict[str, Any] | None:
        """One prompt with its traces; None where it cannot be read."""
        if not 0 <= index < len(self.offsets):
            return None
        with contextlib.suppress(OSError, ValueError), (self.folder / self.name).open("rb") as file:
            file.seek(self.offsets[index])
            return read_line(self.name, file.readline())
        return None


def find_trainings(where: list[Any]) -> dict[str, TrainRun]:
    """The trainings in or below some folders, newest first, by their folder below the one given."""
    found: dict[str, TrainRun] = {}
    for place in where:
        root = Path(getattr(place, "path", place))
        for run in list_trainings(root):
            inside = run.path.relative_to(root).as_posix()
            found.setdefault(root.resolve().name if inside == "." else inside, run)
    return found


def number(value: Any, digits: int = 2) -> str:
    """A number for a table; a dash for none."""
    known = finite(value)
    return "–" if known is None else f"{known:,.{digits}f}"
