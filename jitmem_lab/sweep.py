"""A sweep: each cell of a grid as one run directory below a folder, resumable, with one status, one table.

Each cell is what `evaluate` (or the notebook 20_evaluate) runs. A cell that is complete is left as it is, one
that was cut off goes on, one that fails is told of at the end and stops no other.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .errors import UserError
from .evaluation import MODELS, EvalConfig, without_secrets
from .files import make_folder, parse_json, write_json
from .grids import Cell, Grid
from .runs import Run, RunLock, diff_settings, shown
from .sweeping.bar import Bar, NoBar
from .sweeping.cells import Ended, Job
from .sweeping.check import check_cells
from .sweeping.engines import Engine, Here

STATUS = "sweep.json"
"""Name of a sweep's status file."""
_POLL = 0.5


class Operation(NamedTuple):
    """How cells are played; it changes no result."""

    concurrency: int
    """Episodes at once, within one cell."""
    cache: Path | None
    """SQLite file of model answers, shared by all cells."""
    timeout: float
    """Seconds after which a model call counts as failed."""
    notebooks: bool
    """Whether each cell is kept as a notebook."""


@dataclass
class Place:
    """A cell in its folder, and how it stands."""

    cell: Cell
    """What is run."""
    folder: Path
    """Its run directory."""
    total: int
    """Episodes that it has."""
    state: str = "owed"
    """owed, running, completed, incomplete (episodes ended in errors) or failed."""
    error: str | None = None
    """Why it failed."""
    seconds: float = 0.0
    """Spent on it in this attempt."""

    def done(self) -> int:
        """Episodes with a result, as its run last said."""
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            return int(parse_json((self.folder / "status.json").read_text(encoding="utf-8")).get("done", 0))
        return 0

    def row(self) -> dict[str, Any]:
        """Its line in the status file."""
        return {
            "name": self.cell.name,
            "folder": str(self.folder),
            "state": self.state,
            "done": self.done(),
            "total": self.total,
            "seconds": round(self.seconds, 1),
            "error": self.error,
            "parameters": _open(self.cell.parameters),
        }


@dataclass
class Sweep:
    """A sweep that has ended."""

    out: Path
    """Its folder."""
    places: list[Place] = field(default_factory=list)
    """Its cells, in the grid's order."""

    def runs(self) -> dict[str, Run]:
        """The runs that exist, by the cell's name."""
        found = {}
        for place in self.places:
            with contextlib.suppress(UserError):
                found[place.cell.name] = Run(place.folder)
        return found

    def failed(self) -> list[Place]:
        """Cells without a complete run."""
        return [place for place in self.places if place.state != "completed"]

    def text(self) -> str:
        """The table of all runs, then the cells that failed and why."""
        from .analysis import summary_text

        runs = self.runs()
        lines = [summary_text(list(runs.values()), list(runs))]
        if self.failed():
            lines += ["", f"{len(self.failed())} of {len(self.places)} cells are not complete:"]
            lines += [f"  {p.cell.name}: {p.error or p.state}" for p in self.failed()]
        return "\n".join(lines)


def run_sweep(
    grid: Grid | Sequence[Cell],
    *,
    out: str | Path,
    concurrency: int = 2,
    cache: str | Path | None = None,
    timeout: float = 120.0,
    notebooks: bool = False,
    engine: Engine | None = None,
    progress: bool = True,
) -> Sweep:
    """Run what a grid asks for, or what is missing of it.

    Args:
        grid: The cells, or a grid of them.
        out: Folder of the run directories, one a cell, and of the status file.
        concurrency: Episodes at once, within one cell.
        cache: SQLite file of model answers, shared by all cells; None for none.
        timeout: Seconds after which a model call counts as failed.
        notebooks: Run each cell as notebook 20_evaluate, kept in `out/notebooks`; each then loads its model.
        engine: Who plays the cells (`sweeping.engines.make_engine`); None plays one after another here.
        progress: Whether to draw a bar and say how each cell ended, on standard error.

    Returns:
        How each cell ended. An error of one cell is told there, not raised.

    Raises:
        UserError: Wrong parameters, missing data, or a folder of something else; nothing was run.
        InfrastructureError: The engine cannot be reached.
        KeyboardInterrupt: The user stopped it; what had finished is kept.
    """
    cells = grid.cells() if isinstance(grid, Grid) else list(grid)
    if concurrency < 1 or not timeout > 0:
        raise UserError("concurrency must be 1 or more, and timeout more than 0")
    totals = check_cells(cells)
    root = make_folder(out)
    with RunLock(root):
        places = _places(root, cells, totals)
        operation = Operation(concurrency, None if cache is None else Path(cache), timeout, notebooks)
        _Runner(root, places, engine or Here(), operation, progress).run()
    return Sweep(root, places)


def check_folder(cells: Sequence[Cell], out: str | Path) -> None:
    """Whether a sweep's folder is free for these cells; nothing is written.

    Raises:
        UserError: A cell's folder holds a run of other settings.
    """
    _places(Path(out), cells, {cell.name: 0 for cell in cells})


def _open(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters without passwords in models' addresses."""
    return {
        name: without_secrets(value) if name in MODELS and isinstance(value, str) else value
        for name, value in parameters.items()
    }


def read_sweep(out: str | Path) -> dict[str, Any]:
    """The status of the sweep in a folder; `state` is running only while its process lives, else killed.

    Raises:
        UserError: There is no sweep, or its status cannot be read.
    """
    file = Path(out) / STATUS
    try:
        status: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))
        running = status["state"] == "running"
        int(status["done"]), int(status["total"]), list(status["cells"])
    except OSError:
        raise UserError(f"there is no sweep in {out}; `jitmem sweep -o {out} …` begins one") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{file} is not the status of a sweep; remove it and run the sweep again") from None
    if running and not RunLock(Path(out)).held():
        status["state"] = "killed"
    return status


def _places(root: Path, cells: Sequence[Cell], totals: Mapping[str, int]) -> list[Place]:
    """Where each cell's run is or will be: in the folder that holds it, whatever its name."""
    there: dict[Path, dict[str, Any]] = {}
    for file in sorted(root.glob("*/config.json")):
        with contextlib.suppress(UserError):
            there[file.parent] = _whole(Run(file.parent).config.get("request") or {})
    places = []
    for cell in cells:
        asked = json.loads(json.dumps(cell.config.request()))
        holding = [folder for folder, request in there.items() if request == asked]
        folder = root / cell.name
        if holding:
            folder = folder if folder in holding else holding[0]
        elif folder in there:
            unlike = shown(diff_settings(there[folder], asked))
            raise UserError(
                f"{folder} holds a run of other settings ({unlike}); choose another folder for the sweep"
            )
        places.append(Place(cell, folder, totals[cell.name]))
    return places


def _whole(request: dict[str, Any]) -> dict[str, Any]:
    """A recorded request with the parameters that came after it at their defaults."""
    with contextlib.suppress(UserError):
        return dict(json.loads(json.dumps(EvalConfig.make(**request).request())))
    return request


class _Runner:
    """One attempt at a sweep."""

    def __init__(
        self, root: Path, places: list[Place], engine: Engine, operation: Operation, show: bool
    ) -> None:
        self.root = root
        self.places = places
        self.engine = engine
        self.operation = operation
        self.by_name = {place.cell.name: place for place in places}
        self.begun = time.time()
        self.before = sum(place.done() for place in places)
        total = sum(place.total for place in places)
        self.bar: Bar | NoBar = Bar(total, self.before) if show else NoBar()
        self.lock = threading.Lock()

    def run(self) -> None:
        for place in self.places:
            if self._complete(place):
                place.state = "completed"
        jobs = [self._job(place) for place in self.places if place.state != "completed"]
        state = "failed"
        try:
            with self._watched(), contextlib.closing(self.engine.run(jobs, self._started)) as played:
                for ended in played:
                    self._ended(ended)
            state = "completed" if all(place.state == "completed" for place in self.places) else "failed"
        except KeyboardInterrupt:
            state = "interrupted"
            raise
        finally:
            for place in self.places:
                place.state = "owed" if place.state == "running" else place.state
            self.write(state)
            self.bar.close()

    def _complete(self, place: Place) -> bool:
        """Whether nothing of a cell is owed, its notebook included where notebooks are kept."""
        if self.operation.notebooks and not self._notebook(place).is_file():
            return False
        with contextlib.suppress(UserError):
            return Run(place.folder).status().get("state") == "completed"
        return False

    def _notebook(self, place: Place) -> Path:
        return self.root / "notebooks" / f"{place.folder.name}.ipynb"

    def _job(self, place: Place) -> Job:
        operation = self.operation
        return Job(
            name=place.cell.name,
            folder=str(place.folder),
            request=json.loads(json.dumps(place.cell.config.request())),
            concurrency=operation.concurrency,
            timeout=operation.timeout,
            cache=None if operation.cache is None else str(operation.cache),
            notebook=str(self._notebook(place)) if operation.notebooks else None,
            asked=json.loads(json.dumps(place.cell.parameters)),
        )

    def _started(self, name: str) -> None:
        self.by_name[name].state = "running"
        self.bar.name(", ".join(place.cell.name for place in self.places if place.state == "running"))
        self.write("running")

    def _ended(self, ended: Ended) -> None:
        place = self.by_name[ended.name]
        place.state, place.error, place.seconds = ended.state, ended.error, ended.seconds
        self._move()
        self.write("running")
        of = f"{place.done()} of {place.total} episodes, {place.seconds:.0f} s"
        said = f"{place.state} ({place.error})" if place.error else place.state
        number = self.places.index(place) + 1
        self.bar.say(f"[{number}/{len(self.places)}] {place.cell.name}: {said}, {of}")

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Meanwhile, move the bar and write the status as the running cell's own status tells."""
        stop = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(stop,), name="sweep progress", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()

    def _watch(self, stop: threading.Event) -> None:
        seen = self.before
        while not stop.wait(_POLL):
            done = self._move()
            if done != seen:
                seen = done
                with contextlib.suppress(OSError):  # a full disk: told when a cell ends
                    self.write("running")

    def _move(self) -> int:
        """Move the bar to the episodes that are done, and tell how many these are."""
        with self.lock:
            done = sum(place.done() for place in self.places)
            self.bar.set(done)
        return done

    def write(self, state: str) -> None:
        """Write the status file."""
        with self.lock:
            done = sum(place.done() for place in self.places)
            total = sum(place.total for place in self.places)
            fresh, spent = done - self.before, time.time() - self.begun
            status = {
                "state": state,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "started": self.begun,
                "updated": time.time(),
                "done": done,
                "total": total,
                "eta_seconds": round(spent / fresh * (total - done), 1) if fresh > 0 else None,
                "notebooks": self.operation.notebooks,
                "cells": [place.row() for place in self.places],
            }
            write_json(self.root / STATUS, status)
