"""What a comparison of runs reads: their episodes without the texts, and figures from the library's own."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from ..accounting import Account, account
from ..analysis import model_name
from ..compare_tables import short_model
from ..comparison import Comparison, Group, Replicate
from ..errors import UserError
from ..records import SCHEMA_VERSION, Episode, Outcome
from ..render import clean_text
from ..runs import Run, diff
from ..statistics import TaskKey, task_key, value

if TYPE_CHECKING:
    import pandas as pd

WHICH = {
    "all tasks": "all",
    "outcomes differ": "differ",
    "won by the first only": "first",
    "won, but not by the first": "other",
}
"""Which tasks are listed."""
_ONE = Replicate(None, None)


class LightTask(NamedTuple):
    """What runs are matched by, and the sentence."""

    benchmark: str
    """Name of the benchmark."""
    split: str
    """Its split."""
    task_id: str
    """The task's id."""
    description: str
    """Its sentence."""


class Played(NamedTuple):
    """What is kept of a trajectory."""

    reward: float | None
    """The environment's own metric."""
    steps: int
    """Number of steps."""


class Light(NamedTuple):
    """One episode without its texts; it has what the library's statistics look at under the same names."""

    position: int
    """Place in the stream."""
    task: LightTask
    """The task."""
    trial: int
    """0 for the first attempt at this task in the stream."""
    outcome: Outcome
    """success, failure or error."""
    trajectory: Played | None
    """What the executor did; None when it never began."""
    payload: int
    """Characters of the payload."""
    traces: tuple[tuple[int, str], ...]
    """Id and task sentence of each retrieved trace."""
    start: int
    """Byte of the file where its line begins."""
    length: int
    """Bytes of the line."""

    @property
    def episode(self) -> Episode:
        """This as what the library's statistics take."""
        return cast(Episode, self)


def _light(line: bytes, start: int = 0) -> tuple[str, Light]:
    """Key and light form of a line of `episodes.jsonl`; prompts and steps are parsed only if they must be.

    A quote within a text has a backslash before it, so what is looked for is structure; a cut between two
    places that don't belong together leaves brackets that don't match, or loses a field.
    """
    calls = line.find(b'"calls": [{') + 10
    after = line.find(b'], "error": ', calls)
    begin = line.find(b'"steps": [{', after) + 10
    end = line.rfind(b'], "task": {', begin)
    place = (start, len(line))
    if 10 <= calls < after < begin < end:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            raw = json.loads(line[:calls] + line[after:begin] + line[end:])
            return _shortened(raw, line.count(b'"admissible": [', begin, end), place)
    raw = json.loads(line)
    return _shortened(raw, len((raw.get("trajectory") or {}).get("steps") or ()), place)


def _shortened(raw: dict[str, Any], steps: int, place: tuple[int, int]) -> tuple[str, Light]:
    if int(raw.get("schema_version", 1)) > SCHEMA_VERSION:
        raise UserError(
            f"this run has episodes of schema {raw['schema_version']}, newer than {SCHEMA_VERSION} which "
            "this version reads; upgrade jitmem-lab to open it"
        )
    task, position, outcome = raw["task"], raw["position"], raw["outcome"]
    if type(position) is not int or position < 0 or outcome not in get_args(Outcome):
        raise ValueError(position)
    trajectory, recall = raw["trajectory"], raw.get("recall") or {}
    reward = None if trajectory is None or trajectory["reward"] is None else float(trajectory["reward"])
    reward = reward if reward is not None and math.isfinite(reward) else None
    intern = sys.intern
    key = (intern(str(task["benchmark"])), intern(str(task["split"])), str(task["task_id"]))
    return str(raw["key"]), Light(
        position,
        LightTask(*key, str(task["description"])),
        int(raw.get("trial", 0)),
        outcome,
        None if trajectory is None else Played(reward, steps),
        len(recall.get("payload", "")),
        tuple((int(t["trace_id"]), intern(str(t["description"]))) for t in recall.get("traces", ())),
        *place,
    )


class Side:
    """One of the runs compared. Nothing of it changes once it is read.

    Args:
        name: What the run is called.
        path: Its directory.

    Raises:
        UserError: The directory is gone, broken, or of a newer version.
    """

    def __init__(self, name: str, path: Path) -> None:
        self.name, self.run = name, Run(path)
        self.unreadable = 0
        found: dict[str, Light] = {}
        self.file = path / "episodes.jsonl"
        self.size = self.file.stat().st_size if self.file.exists() else 0
        if self.size:
            with self.file.open("rb", buffering=1 << 20) as lines:
                start = 0
                for line in lines:
                    if line.endswith(b"\n"):
                        self._take(line, start, found)
                    start += len(line)
        self._places = {row.position: row for row in sorted(found.values(), key=lambda row: row.position)}
        self.rows = list(self._places.values())
        self.by_task = {task_key(row.episode): row for row in self.rows}

    def _take(self, line: bytes, start: int, found: dict[str, Light]) -> None:
        try:
            key, light = _light(line, start)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            self.unreadable += 1
            return
        before = found.get(key)
        if before is None or before.outcome == "error":
            found[key] = light

    @cached_property
    def by_trace(self) -> dict[int, list[Light]]:
        """The episodes that retrieved each trace, in stream order."""
        found: dict[int, list[Light]] = {}
        for row in self.rows:
            for trace in dict.fromkeys(number for number, _ in row.traces):
                found.setdefault(trace, []).append(row)
        return found

    @cached_property
    def account(self) -> Account:
        """What the run cost; reads all of it."""
        return account(self.run)

    def load(self, position: int) -> Episode:
        """The whole episode at a place in the stream.

        Raises:
            UserError: There is none, or it cannot be read.
        """
        row = self._places.get(position)
        if row is None:
            raise UserError(f"{self.name} has no finished episode at position {position}; choose another")
        try:
            with self.file.open("rb") as file:
                file.seek(row.start)
                episode: Episode = Episode.from_line(file.read(row.length).decode("utf-8", "surrogatepass"))
            if (episode.position, task_key(episode)) != (position, task_key(row.episode)):
                raise ValueError("the file was replaced")
        except OSError as error:
            raise UserError(f"{self.file} can no longer be read ({error.strerror}); reload") from None
        except ValueError as error:
            why = str(error).splitlines()[0]
            raise UserError(f"the episode at position {position} cannot be read ({why}); reload") from None
        return episode

    def facts(self) -> str:
        """Memory, executor, and what was played, in a few words."""
        settings = self.run.settings
        memory, place = settings.get("memory") or {}, settings.get("benchmark") or {}
        names = (memory.get("name"), place.get("name"), place.get("split"), self.model)
        return clean_text(" · ".join(str(name) for name in names if name), 200)

    @property
    def model(self) -> str:
        """The executor's model."""
        return short_model(str(model_name(self.run) or ""))


_LOCK = threading.Lock()
_READ: dict[tuple[Any, ...], Side] = {}
_KEPT = 12


def read_side(name: str, path: Path) -> Side:
    """A run's side, read again only if its files have changed.

    Raises:
        UserError: It cannot be read.
    """
    stamps = []
    for file in ("config.json", "episodes.jsonl", "writes.jsonl"):
        try:
            stat = (path / file).stat()
            stamps.append((stat.st_ino, stat.st_size, stat.st_mtime_ns))
        except OSError:
            stamps.append((0, 0, 0))
    key = (name, str(path), *stamps)
    with _LOCK:
        side = _READ.pop(key, None) or Side(name, path)
        for old in [old for old in _READ if old[:2] == key[:2]] + list(_READ)[: -_KEPT + 1]:
            _READ.pop(old, None)
        _READ[key] = side
        return side


def compared(sides: Sequence[Side], costs: bool = False) -> Comparison:
    """The runs as systems of one order each, for the library's tables and figures.

    Args:
        sides: The runs; each stands for itself, whatever its order, seed and executor.
        costs: Whether their accounts are wanted, for which all is read.
    """
    models = " and ".join(dict.fromkeys(side.model for side in sides))
    groups = []
    for side in sides:
        place, memory = side.run.settings.get("benchmark") or {}, side.run.settings.get("memory") or {}
        names = (str(memory.get("name")), str(place.get("name")), str(place.get("split")))
        group = Group(side.name, *names, models, {_ONE: side.run})
        group.streams = {_ONE: [row.episode for row in side.rows]}
        if costs:
            group.accounts = {_ONE: side.account}
        groups.append(group)
    return Comparison(groups)


def draws_for(sides: Sequence[Side]) -> int:
    """Resamples of a bootstrap that don't keep a reader waiting: as many as in reports, but for long runs."""
    longest = max((len(side.rows) for side in sides), default=0)
    return max(500, min(10_000, 3_000_000 // max(1, longest)))


def differences(sides: Sequence[Side]) -> list[dict[str, Any]]:
    """What differs between the first run and any other, a row a field with every run's value by name."""
    found: dict[str, dict[str, Any]] = {}
    first = sides[0]
    for side in sides[1:]:
        for row in diff(first.run, side.run):
            own = found.setdefault(row["field"], {"field": row["field"]} | {s.name: row["a"] for s in sides})
            own[side.name] = row["b"]
    return list(found.values())


def task_names(sides: Sequence[Side]) -> dict[str, TaskKey]:
    """The tasks of all runs by a name of their own: the id, and more only where that is not enough."""
    keys = list(dict.fromkeys(key for side in sides for key in side.by_task))
    counts = Counter(key[2] for key in keys)
    return {key[2] if counts[key[2]] == 1 else " · ".join(map(str, key)): key for key in keys}


def told(row: Light | None) -> str:
    """How an episode ended, in two words."""
    if row is None:
        return "–"
    if row.outcome == "error":
        return "! error"
    steps = row.trajectory.steps if row.trajectory is not None else 0
    return f"✓ in {steps}" if row.outcome == "success" else f"✗ after {steps}"


def wins(sides: Sequence[Side], key: TaskKey) -> list[float | None]:
    """1 for each run that won a task, 0 for one that lost it, None without a result."""
    rows = (side.by_task.get(key) for side in sides)
    return [None if row is None else value(row.episode) for row in rows]


def task_frame(
    sides: Sequence[Side], names: Mapping[str, TaskKey], which: str = "all", text: str = ""
) -> pd.DataFrame:
    """A row a task, by name, with how each run ended; those whose outcomes differ come first.

    Args:
        sides: The runs, the first of which the others are compared with.
        names: The tasks.
        which: A value of `WHICH`.
        text: Words that the sentence must hold.
    """
    import pandas as pd

    rows = []
    for name, key in names.items():
        found = [side.by_task.get(key) for side in sides]
        one = next(row for row in found if row is not None)
        won = wins(sides, key)
        rest = won[1:]
        chosen = {
            "all": True,
            "differ": 0.0 in won and 1.0 in won,
            "first": won[0] == 1 and 0.0 in rest and 1.0 not in rest,
            "other": won[0] == 0 and 1.0 in rest,
        }
        if chosen[which] and text.lower() in one.task.description.lower():
            row: dict[str, Any] = {"name": name, "differ": chosen["differ"], "position": one.position}
            row["task"] = clean_text(one.task.description, 160)
            rows.append(row | {side.name: told(ended) for side, ended in zip(sides, found, strict=True)})
    columns = ["name", "differ", "position", "task", *(side.name for side in sides)]
    frame = pd.DataFrame(rows, columns=columns).set_index("name")
    frame = frame.sort_values(["differ", "position"], ascending=[False, True], kind="stable")
    return frame.drop(columns=["differ", "position"])


def trace_frame(side: Side) -> pd.DataFrame:
    """A row a trace that was retrieved, by id: for how many tasks, how often, and what came after."""
    import pandas as pd

    sentence = {trace: description for row in side.rows for trace, description in row.traces}
    rows = []
    for trace, own in side.by_trace.items():
        scored = [row for row in own if row.outcome != "error"]
        won = sum(row.outcome == "success" for row in scored)
        rows.append(
            {
                "id": trace,
                "trace": str(trace),
                "its task": clean_text(sentence[trace], 160),
                "tasks": len({row.task.description for row in own}),
                "times": len(own),
                "won after": f"{won} of {len(scored)}",
            }
        )
    frame = pd.DataFrame(rows, columns=["id", "trace", "its task", "tasks", "times", "won after"])
    return frame.set_index("id").sort_values(["tasks", "times"], ascending=False, kind="stable")


def two_tasks(rows: Sequence[Light]) -> tuple[Light, Light] | None:
    """Two episodes to show beside each other: of different tasks, won and lost if there are such."""
    best = None
    for a in rows:
        for b in rows[:200]:
            if b.position > a.position and a.task.description != b.task.description:
                if {a.outcome, b.outcome} == {"success", "failure"}:
                    return a, b
                best = best or (a, b)
        if best and len(rows) > 200:
            break
    return best
