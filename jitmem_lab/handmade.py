"""Tries of the explorer as run directories: shown by the dashboards, and never taken for an evaluation."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .bank_store import connect, explained
from .benchmarks.base import Benchmark
from .errors import UserError
from .execution import Executor
from .files import append_line, drop_torn_line, write_json
from .progress import Progress
from .records import content_hash, to_json
from .runs import RUN_SCHEMA, Run
from .stream import locked, prepare

if TYPE_CHECKING:
    from .explore import Attempt

MADE = "by hand, in the explorer"
"""What the settings of such a run say under `made`."""
SUFFIX = "-by-hand"
"""What follows the memory's name: tables and lists never put such a run in one row with an evaluation."""
CAUTION = (
    "made by hand in the explorer, try by try: a person chose its tasks and what made its payloads, so its "
    "figures are no evaluation"
)
"""What the card of such a run says first."""


def request_of(run: Run) -> dict[str, Any] | None:
    """The parameters of a run that was made by `evaluate` or saved by the explorer; None for any other."""
    told = run.config.get("told_with") or {}
    request = run.config.get("request") or told.get("explored")
    return dict(request) if request else None


def named(run: Run, traces: int) -> dict[str, Any]:
    """A run's bank as it was searched, by what tells it from any other."""
    return {"run": run.name, "created": run.config.get("created"), "traces": traces}


def copy_bank(run: Run, folder: Path) -> None:
    """Copy a run's bank as it stands now, whoever writes it meanwhile.

    Raises:
        UserError: The run has no bank of trajectories.
        InfrastructureError: It is locked.
    """
    source = run.path / "bank.sqlite"
    try:
        run.bank().close()
    except UserError as error:
        raise UserError(
            f"{run.path} has no bank of trajectories ({error}); explore a run of memory raw or jitmem"
        ) from None
    with (
        explained(source),
        contextlib.closing(connect(source, read_only=True)) as old,
        contextlib.closing(connect(folder / "bank.sqlite", read_only=False)) as new,
    ):
        old.backup(new)


def describe(folder: Path, settings: dict[str, Any]) -> Run:
    """Make a folder with a bank readable as a run."""
    write_json(folder / "config.json", {"schema_version": RUN_SCHEMA, "settings": settings})
    return Run(folder)


def save(
    attempt: Attempt,
    benchmark: Benchmark,
    executor: Executor,
    request: dict[str, Any],
    source: Run | None,
    out: Path,
) -> Run:
    """Append a try to the run of all tries that were made alike.

    Args:
        attempt: The try.
        benchmark: Where it was played.
        executor: What played it.
        request: Its parameters, by which it can be explored again.
        source: The run whose bank was searched; None for demonstrations.
        out: Folder of such runs.

    Raises:
        UserError: It was not played, or the folder cannot be written to.
    """
    attempt.episode()
    about = benchmark.provenance()
    notes = list(about.pop("notes", None) or [])
    floors = about.pop("floors", None)
    kind = f"{attempt.memory['name']}{SUFFIX}"
    settings: dict[str, Any] = {
        "made": MADE,
        "benchmark": about | {"name": benchmark.name, "split": benchmark.split},
        "memory": attempt.memory | {"name": kind},
        "executor": executor.settings() | {"max_steps": executor.max_steps or benchmark.max_steps},
        "judge": None,
        "batch_size": 1,
        "seed": attempt.seeds.get("run", 0),
        **attempt.bank,
    }
    told: dict[str, Any] = {"notes": [CAUTION, *notes, *_cautions(attempt, source)]}
    told |= {"floors": floors, "explored": request}
    own = (
        f"{attempt.memory['name']}-k{attempt.memory['k']}"
        if "k" in attempt.memory
        else attempt.memory["name"]
    )
    path = out / f"{own}{SUFFIX}-{content_hash(settings, 8)}-{benchmark.name}-{benchmark.split}"
    with locked(path):
        prepare(path, settings, told, None, {})
        bank = path / "bank.sqlite"
        if attempt.searched is not None and not (bank.exists() and bank.stat().st_size):  # 0: cut off
            copy_bank(attempt.searched, path)
        _append(path, attempt)
    return Run(path)


def _cautions(attempt: Attempt, source: Run | None) -> list[str]:
    said = []
    if attempt.memory["name"] == "oracle":
        said.append("a control: the payload is the benchmark's own solution")
    if attempt.memory["name"] == "written":
        said.append("the payload was written by hand")
    if "picked" in attempt.memory:
        said.append("the traces were picked by hand, not retrieved")
    if source is not None and attempt.searched is not None:
        said.append(
            f"the bank is that of run {source.name} with all that it held when it was explored: a task may "
            "see traces of episodes that were played after it"
        )
    return said


def _append(path: Path, attempt: Attempt) -> None:
    """Write the try as the run's next episode."""
    for name in ("episodes.jsonl", "writes.jsonl"):
        drop_torn_line(path / name)
    there = Run(path).latest()
    trial = sum(e.task.hash == attempt.task.hash for e in there)
    episode = attempt.episode(len(there), trial)
    append_line(path / "episodes.jsonl", episode.to_line())
    change = {"stored": False, "why": "explored by hand: memory was left as it was"}
    line = {"key": episode.key, "position": episode.position, "batch": episode.batch}
    append_line(path / "writes.jsonl", to_json(line | {"change": change, "calls": []}))
    outcomes = [e.outcome for e in [*there, episode]]
    counts = {name: outcomes.count(name) for name in ("success", "failure")}
    Progress(path, len(outcomes), counts, show=False).write("completed")
