"""Run directories: what was run, what came out, and how it stands now.

A run directory holds `config.json` (settings that decide the result, and provenance), `episodes.jsonl`
(one whole episode a line), `writes.jsonl` (one line an episode taken in by memory), `bank.sqlite`
(memory's store) and `status.json`. Reading never changes a file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UserError
from .files import parse_json, read_lines, read_object
from .records import Episode, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from .bank import MemoryBank
    from .cards import Card

RUN_SCHEMA = 1
"""Version of the run directory; a reader refuses a newer one."""


class RunLock:
    """The writer's lock on a run directory; the system frees it when its process dies, however it dies."""

    def __init__(self, path: Path) -> None:
        self.path = path / ".lock"
        self._handle: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise `UserError` if another process writes this run or nobody may."""
        try:
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise UserError(
                f"{self.path.parent} cannot be written to ({error.strerror}); choose another folder"
            ) from None
        for _ in range(20):
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.05)
            else:
                self._handle = handle
                return
        os.close(handle)
        raise UserError(
            f"another process is writing {self.path.parent}; wait for it or choose another folder"
        )

    def __enter__(self) -> RunLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the lock back."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def held(self) -> bool:
        """Whether a living process holds the lock."""
        if self._handle is not None:
            return True
        try:
            handle = os.open(self.path, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(handle)
        return False


def read_status(path: Path, living: tuple[str, ...] = ("running",)) -> dict[str, Any]:
    """What `status.json` of a directory says; `state` is new without one, killed if the writer died.

    Args:
        path: The directory.
        living: States that are such only while a process holds the directory's lock.
    """
    status = read_object(path / "status.json") or {"state": "new"}
    if status.get("state") in living and not RunLock(path).held():
        status["state"] = "killed"
    return status


class Run:
    """A run directory, read. Cheap to make: nothing but the config is read until asked for.

    Raises:
        UserError: The folder is no run directory, is broken, or was written by a newer version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_dir():
            raise UserError(
                f"there is no run directory {self.path}; `jitmem runs list` shows those there are"
            )
        file = self.path / "config.json"
        if not file.exists():
            raise UserError(f"{self.path} is no run directory: it has no config.json")
        try:
            self.config: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))
            schema = int(self.config["schema_version"])
            self.settings: dict[str, Any] = dict(self.config["settings"])
            for part in {"benchmark", "tasks", "memory", "executor"} & set(self.settings):
                self.settings[part] = dict(self.settings[part])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise UserError(f"{file} cannot be read ({error}); restore it or start a new run") from None
        if schema > RUN_SCHEMA:
            raise UserError(
                f"{self.path} was written with run schema {schema}, newer than {RUN_SCHEMA} which this "
                "version reads; upgrade jitmem-lab to open it"
            )

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def status(self) -> dict[str, Any]:
        """How the run stands; `state` is running only while its process lives, killed if it died."""
        return read_status(self.path)

    def iter_episodes(self) -> Iterator[Episode]:
        """Episodes in the order in which they were written, one at a time, superseded errors included."""
        for line in read_lines(self.path / "episodes.jsonl"):
            try:
                yield Episode.from_line(line)
            except ValueError:
                continue

    def latest(self) -> list[Episode]:
        """The episode that counts for each task, in stream order: its result, else its last error.

        A verdict that the judge gave only later, before memory's write, is put in its place.
        """
        found: dict[str, Episode] = {}
        for episode in self.iter_episodes():
            before = found.get(episode.key)
            if before is None or before.outcome == "error":
                found[episode.key] = episode
        for line in self.writes():
            asked_again = line.get("verdict")
            if asked_again is not None and line["key"] in found:
                with contextlib.suppress(ValueError):  # a damaged line
                    verdict = Verdict.model_validate(asked_again)
                    found[line["key"]] = found[line["key"]].model_copy(update={"verdict": verdict})
        return sorted(found.values(), key=lambda episode: episode.position)

    def episode(self, position: int) -> Episode:
        """The episode at a place in the stream."""
        for episode in self.latest():
            if episode.position == position:
                return episode
        raise UserError(f"{self.path} has no finished episode at position {position}")

    def episodes(self) -> pd.DataFrame:
        """One row an episode (see `analysis.episode_frame`)."""
        from .analysis import episode_frame

        return episode_frame(self.latest())

    def writes(self) -> list[dict[str, Any]]:
        """One dict an episode that memory took in (or failed to), with the calls that cost."""
        found = []
        for line in read_lines(self.path / "writes.jsonl"):
            with contextlib.suppress(ValueError):
                value = parse_json(line)
                if isinstance(value, dict) and isinstance(value.get("key"), str):
                    found.append(value)
        return found

    def bank(self) -> MemoryBank:
        """The run's bank, for reading, ranked as in the run."""
        from .bank import MemoryBank

        index = self.settings.get("memory", {}).get("index", {})
        return MemoryBank(self.path / "bank.sqlite", read_only=True, **index)

    def items(self) -> pd.DataFrame:
        """Every change of a write-time memory's items, see `item_frames.history_frame`."""
        from .item_frames import history_frame

        return history_frame(self)

    def memory(self, at: int | None = None) -> pd.DataFrame:
        """The items of a write-time memory after write `at` (None: now), see `item_frames.memory_frame`."""
        from .item_frames import memory_frame

        return memory_frame(self, at)

    def undo_write(self, write: int) -> int:
        """Take back one write of a write-time memory, see `item_frames.undo_write`."""
        from .item_frames import undo_write

        return undo_write(self, write)

    def undone(self) -> list[dict[str, int]]:
        """The writes of memory that were taken back by hand: `write`, `by` which write, after `episodes`."""
        found = []
        for line in read_lines(self.path / "attempts.jsonl"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                part = parse_json(line)["undone"]
                found.append({name: int(part[name]) for name in ("write", "by", "episodes")})
        return found

    def provenances(self) -> list[dict[str, Any]]:
        """Where each attempt came from, as long as it differed from the one before."""
        found = [self.config.get("provenance") or {}]
        for line in read_lines(self.path / "attempts.jsonl"):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                found.append(dict(parse_json(line)["provenance"]))
        return found

    def summary(self) -> dict[str, Any]:
        """Outcome counts, success rate with interval, mean steps, tokens by role."""
        from .analysis import summarise

        return summarise(self)

    def card(self) -> Card:
        """What the run was made with, where each value comes from, and what must be told with its figures."""
        from .cards import card

        return card(self)

    def _repr_html_(self) -> str:
        from .analysis import summary_html

        return summary_html([self])


def open_run(path: str | Path | Run) -> Run:
    """The run in a directory."""
    return path if isinstance(path, Run) else Run(path)


def config_files(root: Path) -> Iterator[Path]:
    """The `config.json` of each run directory at any depth below `root`; models have such a file too."""
    for file in root.rglob("config.json"):
        if not (file.parent / "tokenizer_config.json").exists():
            yield file


def list_runs(folder: str | Path = "runs") -> list[dict[str, Any]]:
    """The run directories at any depth below a folder, newest first; a broken one with its error."""
    rows: list[dict[str, Any]] = []
    root = Path(folder)
    if not root.exists():
        return rows
    for file in config_files(root):
        row: dict[str, Any] = {"path": str(file.parent)}
        try:
            run = Run(file.parent)
        except UserError as error:
            row |= {"state": "broken", "error": str(error), "created": 0.0}
        else:
            status = run.status()
            row |= {
                "state": status.get("state"),
                "benchmark": run.settings.get("benchmark", {}).get("name"),
                "split": run.settings.get("benchmark", {}).get("split"),
                "memory": run.settings.get("memory", {}).get("name"),
                "done": status.get("done", 0),
                "owed": status.get("owed", 0),
                "created": run.config.get("created", 0.0),
            }
        rows.append(row)
    return sorted(rows, key=lambda row: -row["created"] if isinstance(row["created"], int | float) else 0)


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """A nested mapping as one of dotted names to leaves."""
    if isinstance(value, dict) and value:
        flat: dict[str, Any] = {}
        for name, inner in value.items():
            flat |= flatten(inner, f"{prefix}.{name}" if prefix else str(name))
        return flat
    return {prefix: value}


def diff_settings(a: dict[str, Any], b: dict[str, Any]) -> list[dict[str, Any]]:
    """Fields in which two nested mappings differ; a missing one reads None."""
    left, right = flatten(a), flatten(b)
    names = sorted(set(left) | set(right))
    return [
        {"field": name, "a": left.get(name), "b": right.get(name)}
        for name in names
        if left.get(name) != right.get(name)
    ]


def shown(differences: Sequence[dict[str, Any]], most: int = 4) -> str:
    """In what settings differ, the first few by name, for a sentence."""
    told = "; ".join(f"{one['field']}: {one['a']!r} there, {one['b']!r} now" for one in differences[:most])
    return told + (f"; {len(differences) - most} more" if len(differences) > most else "")


def diff(a: str | Path | Run, b: str | Path | Run) -> list[dict[str, Any]]:
    """What differs between two runs: settings that decide results first, then provenance."""
    left, right = open_run(a), open_run(b)
    return diff_settings(left.settings, right.settings) + diff_settings(
        {"provenance": left.provenances()[-1]}, {"provenance": right.provenances()[-1]}
    )
