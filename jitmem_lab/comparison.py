"""Run directories side by side: which of them are the same system, and in how many orders it was run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from .accounting import Account, account
from .analysis import model_name
from .errors import UserError
from .memories import NAMES, UNTAUGHT
from .presets import values_of
from .records import Episode, to_json
from .render import short_repr
from .runs import Run, config_files, flatten

_PLACE = ("benchmark", "split", "model", "memory")
_REPLICATE = ("order", "seed")
_PROTOCOL = ("benchmark", "executor", "batch_size")


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
            replicate: [episode.model_copy(update={"calls": ()}) for episode in _latest(run)]
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

    @cached_property
    def request(self) -> dict[str, Any]:
        """What was asked for, without what tells its runs apart."""
        asked = _request(next(iter(self.runs.values())))
        return {name: value for name, value in asked.items() if name not in _REPLICATE}

    @cached_property
    def protocol(self) -> dict[str, Any]:
        """How it was played, whatever the memory: settings of benchmark and executor, and batch size."""
        settings = next(iter(self.runs.values())).settings
        return {name: settings.get(name) for name in _PROTOCOL}

    def differs_in(self, other: Group) -> list[str]:
        """Names of what was played otherwise than by another group, such as `history`; best is none."""
        names = [name.removeprefix("executor.") for name in _unlike(self.protocol, other.protocol)]
        shown = (self.demonstrations, other.demonstrations)
        names += ["warm_start"] if None not in shown and shown[0] != shown[1] else []
        return names + (["trials"] if self.trials != other.trials else [])

    @property
    def demonstrations(self) -> int | None:
        """Demonstrations in memory before the stream; None for a memory that takes none."""
        settings = next(iter(self.runs.values())).settings
        count = (settings.get("warm_start") or {}).get("count")
        return None if self.memory in UNTAUGHT or not isinstance(count, int) else count

    @property
    def trials(self) -> int:
        """How often the stream went through the tasks."""
        asked = (next(iter(self.runs.values())).config.get("request") or {}).get("trials")
        return asked if isinstance(asked, int) else 1

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

        Of several the one with most tasks in common, then the one whose protocol differs in least, then the
        one that was asked for with most values alike; None for the baseline itself.
        """
        near = [g for g in self.groups if g.place == group.place]
        fits = [g for g in near if g.label == name] or [g for g in near if g.memory == name]
        if group in fits:
            return None
        if len(fits) < 2:
            return next(iter(fits), None)
        ids = {e.task.task_id for e in group.episodes}

        def nearness(other: Group) -> tuple[int, int, int]:
            common = len(ids & {e.task.task_id for e in other.episodes})
            unlike = sum(1 for _ in _unlike(group.request, other.request))
            return common, -len(group.differs_in(other)), -unlike

        return max(fits, key=nearness)


def _runs(folders: Sequence[str | Path], notes: list[str]) -> Iterable[Run]:
    seen: set[Path] = set()
    for folder in folders:
        for file in _configs(folder):
            if (place := file.resolve()) in seen:  # one folder may lie in another that is given too
                continue
            seen.add(place)
            try:
                run = Run(file.parent)
                next(run.iter_episodes(), None)  # records of a newer version are told by the first
                if not isinstance(run.config.get("request") or {}, dict):
                    raise UserError(f"{file} cannot be read (its request is no table)")
            except (UserError, OSError, RecursionError, OverflowError) as error:
                where = "" if str(file.parent) in str(error) else f"{file.parent} cannot be read: "
                notes.append(f"left out: {where}{error}")
            else:
                yield run


def _configs(folder: str | Path) -> list[Path]:
    """The configs of runs in a folder.

    Raises:
        UserError: There is no such folder.
    """
    try:
        if Path(folder).exists():
            return sorted(config_files(Path(folder)))
        why = ""
    except (OSError, TypeError, ValueError) as error:  # a name too long, a number, a NUL
        why = f" ({getattr(error, 'strerror', None) or error})"
    raise UserError(f"there is no folder {folder!s:.200}{why}; give run directories or a folder of them")


def _latest(run: Run) -> list[Episode]:
    try:
        return run.latest()
    except UserError as error:
        raise UserError(f"{run.path} cannot be compared: {error}") from None


def _unlike(a: Any, b: Any, name: str = "") -> Iterator[str]:
    """Names of what differs between two nested mappings; of a mapping that only one has, its own name."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in sorted(set(a) | set(b)):
            yield from _unlike(a.get(key), b.get(key), f"{name}.{key}" if name else key)
    elif a != b:
        yield name


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
    systems: dict[tuple[str, str, str], dict[str, list[list[Run]]]] = defaultdict(dict)
    for (benchmark, split, model, memory), alike in found.items():
        systems[benchmark, model, memory][split] = list(alike.values())
    groups = []
    for (benchmark, model, memory), by_split in systems.items():
        labels = _labels(memory, benchmark, [[own[0] for own in alike] for alike in by_split.values()])
        for split, own_runs in by_split.items():
            for own in own_runs:
                label = labels[own[0].path]
                groups.append(Group(label, memory, benchmark, split, model, _replicates(own, notes)))
    place = {name: number for number, name in enumerate(NAMES)}
    return sorted(groups, key=lambda g: (g.model, g.benchmark, g.split, place.get(g.memory, 99), g.label))


def _labels(memory: str, benchmark: str, splits: Sequence[Sequence[Run]]) -> dict[Path, str]:
    """The memory's name for each of several runs, by path, with what differs among them.

    What two presets set differently is told by the presets' names. Runs on different splits share a label,
    and so a row of a table, only if they were asked for alike, but for the number of games.
    """
    requests = {run.path: _request(run) for runs in splits for run in runs}
    places = [[requests[run.path] for run in runs] for runs in splits]
    if all(run.config.get("request") for runs in splits for run in runs):
        anywhere = [{n: v for n, v in request.items() if n != "games"} for request in requests.values()]
        places.append(anywhere)
    differ = list(dict.fromkeys(name for place in places for name in _differ(place)))
    if "preset" in differ:
        place = {"memory": memory, "benchmark": benchmark}
        chosen = {name for request in requests.values() for name in _chosen(place | dict(request))}
        differ = [name for name in differ if name in chosen]
    labels = {}
    for path, request in requests.items():
        told = (f"{name}={_word(request.get(name))}" for name in differ)
        labels[path] = " ".join([memory, ", ".join(told)]).strip()
    return labels


def _differ(requests: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of what is not the same in all requests."""
    names = dict.fromkeys(name for request in requests for name in request if name not in _REPLICATE)
    return [name for name in names if len({to_json(request.get(name)) for request in requests}) > 1]


def _chosen(request: Mapping[str, Any]) -> set[str]:
    """Names of a request whose values don't come from its preset."""
    known = values_of(request)
    return {name for name, value in request.items() if name not in known or known[name] != value}


def _word(value: Any) -> str:
    return value if isinstance(value, str) else short_repr(value)


def _replicates(runs: Sequence[Run], notes: list[str]) -> dict[Replicate, Run]:
    """Runs by order and seed; of two with the same ones the one that got further."""
    found: dict[Replicate, Run] = {}
    for run in sorted(runs, key=lambda run: (-_done(run), -_created(run))):
        request = run.config.get("request") or run.settings
        replicate = Replicate(request.get("order"), request.get("seed"))
        if replicate in found:
            notes.append(f"left out: {run.path} is {replicate} again, as {found[replicate].path}")
        else:
            found[replicate] = run
    return dict(sorted(found.items(), key=lambda item: (str(item[0].order).zfill(9), str(item[0].seed))))


def _created(run: Run) -> float:
    created = run.config.get("created")
    return float(created) if isinstance(created, int | float) else 0.0


def _done(run: Run) -> int:
    done = run.status().get("done")
    return done if isinstance(done, int) else 0
