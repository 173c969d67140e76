"""What the views read of run directories: which there are, and one episode at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError
from ..records import Episode
from ..render import clean_text
from ..runs import Run, list_runs


class Listed(NamedTuple):
    """A run that can be chosen."""

    name: str
    """Its folder below the one that was given; what a URL holds."""
    path: Path
    """Its directory."""
    about: str
    """Benchmark, memory and state in a few words."""


def find_runs(where: Iterable[str | Path | Run]) -> dict[str, Listed]:
    """The runs in or below some folders, newest first, by a name of their own.

    A run directory that cannot be read is among them: opening it says why.
    """
    found: dict[str, Listed] = {}
    for place in where:
        root = place.path if isinstance(place, Run) else Path(place)
        for row in list_runs(root):
            path = Path(row["path"])
            inside = path.relative_to(root).as_posix()
            name = clean_text(root.resolve().name if inside == "." else inside, 200)
            if name in found:
                if found[name].path.resolve() == path.resolve():
                    continue
                name = clean_text(path, 400)
            found[name] = Listed(name, path, _about(row))
    return found


def _about(row: dict[str, Any]) -> str:
    if "error" in row:
        return "cannot be read"
    facts = [row["benchmark"], row["split"], row["memory"], f"{row['done']} done", row["state"]]
    return clean_text(" · ".join(str(fact) for fact in facts if fact), 200)


class Row(NamedTuple):
    """One episode in the index."""

    position: int
    """Place in the stream."""
    outcome: str
    """success, failure or error."""
    description: str
    """The task's sentence."""
    offset: int
    """Where its line starts, in bytes."""
    length: int
    """Length of its line in bytes."""


class EpisodeIndex:
    """Where each episode's line is; grows with the file, and holds no episode.

    Args:
        run: The run directory.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.file = run.path / "episodes.jsonl"
        self.unreadable = 0
        self._found: dict[str, Row] = {}
        self._rows: dict[int, Row] = {}
        self._end = 0
        self._inode = 0

    def refresh(self) -> None:
        """Read what was written since the last time; start over if the file was replaced.

        Raises:
            UserError: The run directory is gone.
        """
        if not self.run.path.is_dir():
            raise UserError(f"the run directory {self.run.path} is no longer there; choose another run")
        if not self.file.exists():
            self._forget()
            return
        with self.file.open("rb") as file:
            stat = os.fstat(file.fileno())
            if stat.st_ino != self._inode or stat.st_size < self._end:
                self._forget()
                self._inode = stat.st_ino
            file.seek(self._end)
            for line in file:
                if not line.endswith(b"\n"):  # still being written
                    break
                self._take(line)
                self._end += len(line)
        self._rows = {row.position: row for row in sorted(self._found.values())}

    def _forget(self) -> None:
        self._found, self._rows, self._end, self._inode, self.unreadable = {}, {}, 0, 0, 0

    def _take(self, line: bytes) -> None:
        try:
            raw = json.loads(line)
            key, position, outcome = str(raw["key"]), raw["position"], str(raw["outcome"])
            description = str(raw["task"]["description"])
            if type(position) is not int or position < 0:
                raise ValueError(position)
        except (ValueError, KeyError, TypeError, RecursionError):
            self.unreadable += 1
            return
        before = self._found.get(key)
        if before is None or before.outcome == "error":
            self._found[key] = Row(position, outcome, description, self._end, len(line))

    @property
    def rows(self) -> list[Row]:
        """The episode that counts for each task, in stream order: its result, else its last error."""
        return list(self._rows.values())

    def count(self, outcome: str) -> int:
        """Number of episodes with an outcome."""
        return sum(row.outcome == outcome for row in self._rows.values())

    def load(self, position: int) -> Episode:
        """The whole episode at a place in the stream.

        Raises:
            UserError: There is none, its line is broken, or it was written by a newer version.
        """
        row = self._rows.get(position)
        if row is None:
            raise UserError(f"this run has no finished episode at position {position}; choose another task")
        try:
            with self.file.open("rb") as file:
                file.seek(row.offset)
                episode: Episode = Episode.from_line(file.read(row.length).decode("utf-8", "surrogatepass"))
        except OSError as error:
            raise UserError(f"{self.file} can no longer be read ({error.strerror}); reload") from None
        except ValueError as error:
            cause = str(error).splitlines()[0]
            raise UserError(
                f"the episode at position {position} cannot be read ({cause}); choose another"
            ) from None
        return episode
