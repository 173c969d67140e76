"""What the views read of run directories: which there are, and one episode at a time."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from ..errors import UserError
from ..records import Episode, Verdict
from ..render import clean_text
from ..runs import Run, list_runs
from .following import Follower
from .scanning import Row, scan_line

__all__ = ["EpisodeIndex", "Listed", "Row", "find_runs"]

BUFFER = 1 << 20
"""Bytes read at a time."""


class Listed(NamedTuple):
    """A run that can be chosen."""

    name: str
    """Its folder below the one that was given; what a URL holds."""
    path: Path
    """Its directory."""
    about: str
    """Benchmark, memory and state in a few words."""
    benchmark: str = ""
    """Its benchmark's name."""
    memory: str = ""
    """Its memory system's name."""


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
            names = (clean_text(row.get(part) or "", 200) for part in ("benchmark", "memory"))
            found[name] = Listed(name, path, _about(row), *names)
    return found


def find_again(
    where: Iterable[str | Path | Run], before: Mapping[str, Listed], kept: Iterable[str | None]
) -> dict[str, Listed]:
    """The runs that there are now; of those listed before, the kept ones stay, though they may be gone."""
    found = find_runs(where)
    for name in kept:
        if name is not None and name in before:
            found.setdefault(name, before[name])
    return found


def places(where: Iterable[str | Path | Run]) -> str:
    """Where runs are looked for, for a sentence."""
    return ", ".join(str(place.path if isinstance(place, Run) else place) for place in where)


def no_run(where: Iterable[str | Path | Run], name: str) -> str:
    """The sentence for a name that no run has."""
    return f"there is no run {clean_text(name, 200)!r} in {places(where)}; choose one of those listed"


def no_runs(where: Iterable[str | Path | Run]) -> str:
    """The sentence for folders without runs."""
    return f"there is no run in {places(where)} yet; make some with `jitmem demo`, then press Reload"


def _about(row: dict[str, Any]) -> str:
    if "error" in row:
        return "cannot be read"
    facts = [row["benchmark"], row["split"], row["memory"], f"{row['done']} done", row["state"]]
    return clean_text(" · ".join(str(fact) for fact in facts if fact), 200)


class _Scan(Follower):
    """The rows of an `episodes.jsonl`, shared by all that read the file; grows with it."""

    name: ClassVar[str] = "episodes.jsonl"

    def forget(self) -> None:
        """Let go of all rows."""
        self._found: dict[str, Row] = {}
        self._sorted: tuple[int, dict[int, Row]] = (-1, {})

    def take(self, line: bytes) -> None:
        """Take in an episode's line."""
        row = scan_line(line, self._end)
        before = self._found.get(row.key)
        if before is None or before.outcome == "error":
            self._found[row.key] = row

    def rows(self) -> dict[int, Row]:
        """The row that counts at each place of the stream, in its order."""
        version = self.version
        if self._sorted[0] != version:
            found = list(self._found.values())  # a thread may be reading on
            order = sorted(found, key=lambda row: (row.position, row.offset))
            self._sorted = (version, {row.position: row for row in order})
        return self._sorted[1]


class EpisodeIndex:
    """Where each episode's line is; grows with the file, and holds no episode.

    Args:
        run: The run directory.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.file = run.path / "episodes.jsonl"
        self.unreadable = 0
        self.whole = True
        """Whether all of the file was read; if not, `refresh` goes on."""
        self.share = 1.0
        """How much of it was."""
        self._scan = _Scan.of(run)
        self._rows: dict[int, Row] = {}
        self._verdicts = _Verdicts(run.path / "writes.jsonl")

    def refresh(self, seconds: float = math.inf) -> None:
        """Read what was written since the last time; start over if the file was replaced.

        Args:
            seconds: How long that may take; see `whole`.

        Raises:
            UserError: The run directory is gone.
        """
        scan = self._scan
        self.read(seconds)
        self._rows, self.unreadable, self.whole, self.share = (
            scan.rows(),
            scan.unreadable,
            scan.whole,
            scan.share,
        )

    def read(self, seconds: float = math.inf) -> None:
        """The reading alone, in any thread: `refresh` has what came of it.

        Raises:
            UserError: The run directory is gone.
        """
        self._scan.refresh(seconds)

    @property
    def rows(self) -> list[Row]:
        """The episode that counts for each task, in stream order: its result, else its last error."""
        return list(self._rows.values())

    def row(self, position: int | None) -> Row | None:
        """The row at a place in the stream, if there is one."""
        return None if position is None else self._rows.get(position)

    def count(self, outcome: str) -> int:
        """Number of episodes with an outcome."""
        return sum(row.outcome == outcome for row in self._rows.values())

    def facts(self) -> list[str]:
        """How the run stands, in a few words each."""
        if not self._rows:
            return []
        wins, losses, errors = (self.count(outcome) for outcome in ("success", "failure", "error"))
        facts = [f"{wins:,} of {wins + losses:,} tasks won"]
        facts += [f"{errors:,} ended as errors and are owed"] if errors else []
        facts += [f"{self.unreadable:,} lines could not be read"] if self.unreadable else []
        return facts + ([] if self.whole else [f"{100 * self.share:.0f} % of the run read so far"])

    def load(self, position: int) -> Episode:
        """The whole episode at a place in the stream, with the verdict that stands.

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
        if (episode.key, episode.position) != (row.key, row.position):
            raise UserError(f"{self.file} was replaced meanwhile; reload")
        verdict = self._verdicts.of(row.key)
        return episode if verdict is None else episode.model_copy(update={"verdict": verdict})


class _Verdicts:
    """Verdicts that the judge gave only later, before memory's write."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._stamp: tuple[int, ...] = ()
        self._found: dict[str, Verdict] = {}

    def of(self, key: str) -> Verdict | None:
        """The later verdict on an episode, if there is one."""
        with contextlib.suppress(OSError):
            stat = self.file.stat()
            stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if stamp != self._stamp:
                self._found = dict(self._read())
                self._stamp = stamp
        return self._found.get(key)

    def _read(self) -> Iterable[tuple[str, Verdict]]:
        with self.file.open("rb", buffering=BUFFER) as file:
            for line in file:
                if b'"verdict": {' in line and line.endswith(b"\n"):
                    with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                        write = json.loads(line)
                        if write["verdict"] is not None:
                            yield str(write["key"]), Verdict.model_validate(write["verdict"])
