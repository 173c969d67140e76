"""What a comparison of runs reads: their episodes without the texts, and figures from the library's own."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from ..accounting import Account, account
from ..analysis import model_name
from ..compare_tables import short_model
from ..comparison import Comparison, Group, Replicate
from ..errors import UserError
from ..records import Episode
from ..render import clean_text
from ..runs import Run, diff
from ..statistics import (
    Curve,
    Interval,
    McNemar,
    Metric,
    TaskKey,
    difference_interval,
    learning_curve,
    mcnemar_by_replicate,
    paired,
    task_key,
    value,
)
from .lights import Light, Lights
from .reading import Listed

if TYPE_CHECKING:
    import pandas as pd

WHICH = {
    "all tasks": "all",
    "outcomes differ": "differ",
    "won by the one compared with only": "first",
    "won, but not by the one compared with": "other",
}
"""Which tasks are listed."""
_ONE = Replicate(None, None)


class Gap(NamedTuple):
    """A run against another one on the tasks that both have a result for."""

    number: int
    """How many these are."""
    errors: int
    """Tasks left out because one of the two ended in an error or was not scored."""
    difference: float | None
    """Mean of the run's values less the other's."""
    interval: Interval | None
    """Its 95 % interval."""
    test: McNemar | None
    """McNemar's exact test, of successes only; `only_a` counts the other run's."""


class Side:
    """One of the runs compared. Nothing of it changes once it is made.

    Args:
        name: What the run is called.
        run: The run.
        lights: What was read of it; read to its end here, if that is still to be done.

    Raises:
        UserError: The directory is gone, broken, or of a newer version.
    """

    def __init__(self, name: str, run: Run, lights: Lights | None = None) -> None:
        self.name, self.run = name, run
        self.file = run.path / Lights.name
        self._lights = Lights.of(run) if lights is None else lights  # so that the next reading goes on there
        self._lights.refresh()
        self.unreadable = self._lights.unreadable
        self.size = self.file.stat().st_size if self.file.exists() else 0
        rows = list(self._lights.found.values())  # another visitor's thread may be reading on
        found = sorted(rows, key=lambda row: row.position)
        self._places = {row.position: row for row in found}
        self.rows = list(self._places.values())
        self.by_task = {task_key(row.episode): row for row in self.rows}
        self._gaps: WeakKeyDictionary[Side, dict[tuple[Metric, int], Gap]] = WeakKeyDictionary()

    @cached_property
    def curve(self) -> Curve:
        """Its learning curve."""
        return learning_curve({_ONE: [row.episode for row in self.rows]})

    def against(self, other: Side, metric: Metric, draws: int) -> Gap:
        """How it did against another run, worked out once.

        Args:
            other: The run that it is compared with.
            metric: What an episode counts.
            draws: Resamples of the bootstrap.
        """
        known = self._gaps.setdefault(other, {})
        if (metric, draws) not in known:
            a, b = ({_ONE: [row.episode for row in side.rows]} for side in (other, self))
            pairs = paired(a, b, metric)
            known[metric, draws] = Gap(
                pairs.number,
                pairs.errors,
                pairs.difference,
                difference_interval(pairs, draws=draws) if pairs.number else None,
                mcnemar_by_replicate(pairs).get(_ONE) if metric == "success" else None,
            )
        return known[metric, draws]

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
_FILES = ("config.json", "episodes.jsonl", "writes.jsonl")


class Reading:
    """Reads a run for a comparison, a slice of time at a time; made anew only if its files have changed.

    Args:
        name: What the run is called.
        path: Its directory.

    Raises:
        UserError: The directory is gone, broken, or of a newer version.
    """

    def __init__(self, name: str, path: Path) -> None:
        self._name = name
        self._key = (name, str(path), *(_stamp(path / file) for file in _FILES))
        with _LOCK:
            self.side: Side | None = _READ.get(self._key)
        """The run, once it has been read to its end."""
        self._run = Run(path) if self.side is None else self.side.run
        self._lights = Lights.of(self._run)

    @property
    def share(self) -> float:
        """Share of the run that was read."""
        if self.side is not None:
            return 1.0
        return self._lights.share if self._lights.version else 0.0

    def go_on(self, seconds: float | None = None) -> Side | None:
        """Read on; the run once that is done.

        Args:
            seconds: After which it stops for now; None reads all.

        Raises:
            UserError: It cannot be read.
        """
        if self.side is None:
            self._lights.refresh(seconds)
            if self._lights.whole:
                self.side = Side(self._name, self._run, self._lights)
        if self.side is not None:
            with _LOCK:
                for old in [old for old in _READ if old[:2] == self._key[:2]] + list(_READ)[: -_KEPT + 1]:
                    _READ.pop(old, None)
                _READ[self._key] = self.side
        return self.side


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        stat = file.stat()
    except OSError:
        return (0, 0, 0)
    return (stat.st_ino, stat.st_size, stat.st_mtime_ns)


def read_side(name: str, path: Path) -> Side:
    """A run's side, read again only if its files have changed.

    Raises:
        UserError: It cannot be read.
    """
    side = Reading(name, path).go_on()
    assert side is not None
    return side


def first_two(listed: Mapping[str, Listed]) -> list[str]:
    """Names to begin with: the newest run, and before it the newest of another memory on its benchmark."""
    names = list(listed)
    if len(names) < 2:
        return names
    newest = listed[names[0]]
    alike = [run for run in listed.values() if run.benchmark == newest.benchmark and run != newest]
    other = [run for run in alike if run.memory != newest.memory]
    return [(other or alike or [listed[names[1]]])[0].name, newest.name]


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
