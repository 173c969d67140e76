"""What the views read of run directories: which there are, and one episode at a time."""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ..errors import UserError
from ..records import Episode, Verdict
from ..render import clean_text
from ..runs import Run, list_runs
from .scanning import Row, scan_line

__all__ = ["EpisodeIndex", "Listed", "Row", "find_runs"]

BUFFER = 1 << 20
"""Bytes read at a time."""
TAIL = 4096
"""Bytes before the end of what was read by which a file is known again."""


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


def _about(row: dict[str, Any]) -> str:
    if "error" in row:
        return "cannot be read"
    facts = [row["benchmark"], row["split"], row["memory"], f"{row['done']} done", row["state"]]
    return clean_text(" · ".join(str(fact) for fact in facts if fact), 200)


class _Scan:
    """What is known of one `episodes.jsonl`; shared by all that read the file, and grows with it."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._found: dict[str, Row] = {}
        self._end = 0
        self._stamp: tuple[int, ...] = ()
        self._tail = b""
        self.unreadable = 0
        self.rows: dict[int, Row] = {}
        self.whole = True
        self.share = 1.0

    def refresh(self, seconds: float) -> None:
        """Read what was written since the last time; start over if the file was replaced."""
        with self._lock:
            try:
                file = self.file.open("rb", buffering=BUFFER)
            except FileNotFoundError:
                self._forget()
                return
            except OSError as error:
                raise UserError(f"{self.file} cannot be read ({error.strerror}); reload") from None
            with file:
                stat = os.fstat(file.fileno())
                stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
                if stamp == self._stamp and self.whole:
                    return
                if not self._goes_on(file):
                    self._forget()
                file.seek(self._end)
                self.whole = self._read(file, time.monotonic() + seconds)
                self._stamp = stamp
                self.share = 1.0 if self.whole else self._end / max(stat.st_size, 1)
            order = sorted(self._found.values(), key=lambda row: (row.position, row.offset))
            self.rows = {row.position: row for row in order}

    def _goes_on(self, file: Any) -> bool:
        """Whether a file begins with what was read; its inode doesn't say, the next file may get the same."""
        file.seek(self._end - len(self._tail))
        return bool(file.read(len(self._tail)) == self._tail)

    def _read(self, file: Any, until: float) -> bool:
        """Take the lines that follow; False if time ran out before their end."""
        last = b""
        whole = True
        for line in file:
            if not line.endswith(b"\n"):  # still being written
                break
            self._take(line)
            self._end += len(line)
            last = line
            if time.monotonic() > until:
                whole = False
                break
        if last:
            self._tail = last[-TAIL:]
        return whole

    def _take(self, line: bytes) -> None:
        try:
            row = scan_line(line, self._end)
        except ValueError:
            self.unreadable += 1
            return
        before = self._found.get(row.key)
        if before is None or before.outcome == "error":
            self._found[row.key] = row


_SCANS: WeakValueDictionary[Path, _Scan] = WeakValueDictionary()
_SCANS_LOCK = threading.Lock()


def _scan(file: Path) -> _Scan:
    """The scan of a file that someone reads already, else a new one."""
    with _SCANS_LOCK:
        path = file.resolve()
        scan = _SCANS.get(path)
        if scan is None:
            scan = _SCANS[path] = _Scan(path)
        return scan


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
        self._scan = _scan(self.file)
        self._rows: dict[int, Row] = {}
        self._verdicts = _Verdicts(run.path / "writes.jsonl")

    def refresh(self, seconds: float = math.inf) -> None:
        """Read what was written since the last time; start over if the file was replaced.

        Args:
            seconds: How long that may take; see `whole`.

        Raises:
            UserError: The run directory is gone.
        """
        if not self.run.path.is_dir():
            raise UserError(f"the run directory {self.run.path} is no longer there; choose another run")
        scan = self._scan
        scan.refresh(seconds)
        self._rows, self.unreadable, self.whole, self.share = (
            scan.rows,
            scan.unreadable,
            scan.whole,
            scan.share,
        )

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
                if b'"verdict"' in line and line.endswith(b"\n"):
                    with contextlib.suppress(ValueError, KeyError, TypeError):
                        write = json.loads(line)
                        if write["verdict"] is not None:
                            yield str(write["key"]), Verdict.model_validate(write["verdict"])
