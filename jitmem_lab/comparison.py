"""Run directories side by side: which of them are the same system, and in how many orders it was run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .accounting import Account, account
from .analysis import model_name
from .errors import UserError
from .memories import NAMES
from .presets import values_of
from .records import Episode, to_json
from .render import short_repr
from .runs import Run, flatten

_PLACE = ("benchmark", "split", "model", "memory")
_REPLICATE = ("order", "seed")


class Replicate(NamedTuple):
    """What tells the runs of one system apart."""

    order: Any
    """Seed of the order of tasks, None for the data's own."""
    seed: Any
    """Root of the run's random choices."""

    def __str__(self) -> str:
        order = "the data's order" if self.order is None else f"order {self.order}"
        return order if self.seed in (0, None) else f"{order}, seed {self.seed}"


@dataclass(eq=False)
class Group:
    """One system on one split: runs that differ in order or seed only."""

    label: str
    """The memory's name, with what else tells it from the other groups."""
    memory: str
    """The memory's name."""
    benchmark: str
    """Name of the benchmark."""
    split: str
    """Its split."""
    model: str
    """The executor's model."""
    runs: dict[Replicate, Run] = field(default_factory=dict)
    """Its runs."""

    @cached_property
    def streams(self) -> dict[Replicate, list[Episode]]:
        """The episodes that count, without their prompts, by order."""
        return {
            replicate: [episode.model_copy(update={"calls": ()}) for episode in run.latest()]
            for replicate, run in self.runs.items()
        }

    @cached_property
    def accounts(self) -> dict[Replicate, Account]:
        """What the runs cost, by order."""
        return {replicate: account(run) for replicate, run in self.runs.items()}

    @property
    def episodes(self) -> list[Episode]:
        """All episodes."""
        return [episode for stream in self.streams.values() for episode in stream]

    @property
    def place(self) -> tuple[str, str, str]:
        """Model, benchmark and split: what two groups must share to be compared."""
        return (self.model, self.benchmark, self.split)

    @property
    def graded(self) -> bool:
        """Whether the benchmark gave partial credit."""
        rewards = (e.trajectory.reward for e in self.episodes if e.trajectory is not None)
        return any(reward not in (None, 0.0, 1.0) for reward in rewards)


@dataclass
class Comparison:
    """Groups of runs, and what was left out."""

    groups: list[Group]
    """Systems in the order of `memories.NAMES`."""
    notes: list[str] = field(default_factory=list)
    """What could not be read or stood twice."""

    @classmethod
    def read(cls, where: str | Path | Sequence[str | Path]) -> Comparison:
        """The runs in folders, each a run directory or a folder of such, at any depth.

        Raises:
            UserError: No readable run there.
        """
        notes: list[str] = []
        runs = list(_runs([where] if isinstance(where, str | Path) else where, notes))
        if not runs:
            why = f" ({notes[0]})" if notes else ""
            raise UserError(f"there is no run in {where}{why}; give run directories or a folder of them")
        return cls(_grouped(runs, notes), notes)

    @classmethod
    def of(cls, runs: Mapping[str, Iterable[Run]]) -> Comparison:
        """Runs under labels of one's own, in the order given."""
        notes: list[str] = []
        groups = []
        for label, own in runs.items():
            for group in _grouped(list(own), notes):
                group.label = label
                groups.append(group)
        return cls(groups, notes)

    def cautions(self) -> dict[str, list[str]]:
        """What must be told with the figures, and of which systems."""
        said: dict[str, list[str]] = defaultdict(list)
        for group in self.groups:
            for run in group.runs.values():
                for caution in run.card().cautions:
                    where = f"{group.label} on {group.benchmark} {group.split}"
                    if where not in said[caution]:
                        said[caution].append(where)
        return dict(said)

    def baseline(self, group: Group, name: str) -> Group | None:
        """The group that `group` is compared with: of that label, or else memory, in the same place.

        Of several the one with most tasks in common; None for the baseline itself.
        """
        near = [g for g in self.groups if g.place == group.place]
        fits = [g for g in near if g.label == name] or [g for g in near if g.memory == name]
        if group in fits:
            return None
        ids = {e.task.task_id for e in group.episodes}
        return max(fits, key=lambda g: len(ids & {e.task.task_id for e in g.episodes}), default=None)


def _runs(folders: Sequence[str | Path], notes: list[str]) -> Iterable[Run]:
    for folder in map(Path, folders):
        if not folder.exists():
            raise UserError(f"there is no folder {folder}; give run directories or a folder of them")
        for file in sorted(folder.rglob("config.json")):
            try:
                yield Run(file.parent)
            except UserError as error:
                notes.append(f"left out: {error}")


def _request(run: Run) -> dict[str, Any]:
    """What was asked for; for a run that was not made by `evaluate`, its settings."""
    request = run.config.get("request")
    if isinstance(request, dict) and request:
        return {name: value for name, value in request.items() if name not in _PLACE}
    settings = {name: part for name, part in run.settings.items() if name != "tasks"}
    return flatten(settings)


def _grouped(runs: Sequence[Run], notes: list[str]) -> list[Group]:
    found: dict[tuple[str, ...], dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        bench, memory = run.settings.get("benchmark") or {}, run.settings.get("memory") or {}
        names = (bench.get("name"), bench.get("split"), model_name(run), memory.get("name"))
        rest = {name: value for name, value in _request(run).items() if name not in _REPLICATE}
        found[tuple(map(str, names))][to_json(rest)].append(run)
    groups = []
    for (benchmark, split, model, memory), alike in found.items():
        labels = _labels(memory, benchmark, [_request(own[0]) for own in alike.values()])
        for label, own in zip(labels, alike.values(), strict=True):
            groups.append(Group(label, memory, benchmark, split, model, _replicates(own, notes)))
    place = {name: number for number, name in enumerate(NAMES)}
    return sorted(groups, key=lambda g: (g.model, g.benchmark, g.split, place.get(g.memory, 99), g.label))


def _labels(memory: str, benchmark: str, requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The memory's name for each of several requests, with what differs among them.

    What two presets set differently is told by the presets' names.
    """
    names = dict.fromkeys(name for request in requests for name in request if name not in _REPLICATE)
    differ = [name for name in names if len({to_json(request.get(name)) for request in requests}) > 1]
    if "preset" in differ:
        place = {"memory": memory, "benchmark": benchmark}
        chosen = {name for request in requests for name in _chosen(place | dict(request))}
        differ = [name for name in differ if name in chosen]
    labels = []
    for request in requests:
        told = (f"{name}={_word(request.get(name))}" for name in differ)
        labels.append(" ".join([memory, ", ".join(told)]).strip())
    return labels


def _chosen(request: Mapping[str, Any]) -> set[str]:
    """Names of a request whose values don't come from its preset."""
    known = values_of(request)
    return {name for name, value in request.items() if name not in known or known[name] != value}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else short_repr(value)


def _replicates(runs: Sequence[Run], notes: list[str]) -> dict[Replicate, Run]:
    """Runs by order and seed; of two with the same ones the one that got further."""
    found: dict[Replicate, Run] = {}
    ranked = sorted(runs, key=lambda run: (-_done(run), -float(run.config.get("created") or 0)))
    for run in ranked:
        request = run.config.get("request") or run.settings
        replicate = Replicate(request.get("order"), request.get("seed"))
        if replicate in found:
            notes.append(f"left out: {run.path} is {replicate} again, as {found[replicate].path}")
        else:
            found[replicate] = run
    return dict(sorted(found.items(), key=lambda item: (str(item[0].order).zfill(9), str(item[0].seed))))


def _done(run: Run) -> int:
    done = run.status().get("done")
    return done if isinstance(done, int) else 0
