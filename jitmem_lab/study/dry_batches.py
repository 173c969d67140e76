"""One batch of each kind of run against one server that plays all served models."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..accounting import account
from ..errors import JitmemError, UserError
from ..evaluation import EvalConfig
from ..grids import Cell
from ..models.endpoint import Endpoint
from ..records import content_hash
from ..runs import Run
from ..sweeping.cells import Job, Kept, play
from ..sweeping.check import check_spec
from .dry_servers import SERVED, short

MODELS = ("model", "curator_model", "judge_model", "user_model")
"""Parameters that name a model."""
WARM = 2
"""Demonstrations of a batch at most."""


def kind_of(config: EvalConfig) -> str:
    """What tells kinds of runs apart: all but the order of the tasks and their number."""
    request = config.request()
    return content_hash({name: value for name, value in request.items() if name not in ("order", "games")})


def kinds(cells: Iterable[tuple[Cell, str | None]]) -> list[tuple[Cell, str | None]]:
    """The first run of each kind, with the split that stands in for its own."""
    first: dict[str, tuple[Cell, str | None]] = {}
    for cell, split in cells:
        first.setdefault(kind_of(cell.config), (cell, split))
    return list(first.values())


def redirected(spec: str, server: str) -> str:
    """A served model's name at another server; other models as they are."""
    return f"{SERVED}{server}#{short(spec)}" if spec.startswith(SERVED) else spec


def batch_of(cell: Cell, server: str, turns: int, batch: int | None, split: str | None) -> dict[str, Any]:
    """Parameters of one batch and one task behind it, which sees what memory wrote.

    A curator is asked also where nothing was retrieved, so that its prompt goes out whatever the judge says.
    """
    config = cell.config
    size = min(config.batch_size, batch or config.batch_size)
    chosen = dict(cell.parameters) | {"batch_size": size, "max_steps": turns}
    chosen["games"] = min(size + 1, config.games or size + 1)
    chosen |= {} if split is None else {"split": split}
    for name in MODELS:
        spec = getattr(config, name)
        if spec is not None:
            chosen[name] = redirected(spec, server)
    if config.warm_start:
        chosen["warm_start"] = min(WARM, config.warm_start)
    if config.memory == "jitmem":
        chosen["on_empty"] = "call"
    return chosen


def play_batches(
    cells: Iterable[tuple[Cell, str | None]],
    server: str,
    *,
    turns: int,
    batch: int | None,
    out: Path | None,
    concurrency: int,
    timeout: float,
) -> list[dict[str, Any]]:
    """One row a kind of run: how its batch ended, and which roles were asked how often.

    Raises:
        UserError: The address is none, or the folder holds something else.
    """
    check_server(server)
    if turns < 1 or (batch is not None and batch < 1):
        raise UserError("turns and batch must be 1 or more")
    rows = []
    with _folder(out) as folder:
        kept = Kept()
        try:
            chosen = kinds(cells)
            jobs = []
            for cell, split in chosen:
                request = batch_of(cell, server, turns, batch, split)
                jobs.append(Job(cell.name, str(folder / cell.name), request, concurrency, timeout))
            for number, job in enumerate(jobs, 1):
                state, error = play(job, kept)
                kept.keep(jobs[number:])
                played = job.config.split
                rows.append({"cell": job.name, "split": played} | _told(folder / job.name, state, error))
        finally:
            kept.keep(())
    return rows


def check_server(server: str) -> None:
    """Raise `UserError` unless `server` is an address of an OpenAI-compatible server."""
    check_spec(f"{SERVED}{server}#model")
    if "#" in server:
        raise UserError(f"--server takes an address without a model, not {server!r}")
    Endpoint.parse(f"{server}#model")


@contextlib.contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    if out is not None:
        yield out
        return
    with tempfile.TemporaryDirectory(prefix="jitmem-dry-") as made:
        yield Path(made)


def _told(folder: Path, state: str, error: str | None) -> dict[str, Any]:
    """How a batch ended: its first error, calls by role, and the longest prompt that was sent."""
    row: dict[str, Any] = {"state": state, "episodes": 0, "asked": "", "longest": None, "error": error}
    try:
        run = Run(folder)
        found = account(run)
        episodes = run.latest()
        wrong = [one.error for one in episodes if one.error]
        wrong += [str(line["error"]) for line in run.writes() if line.get("error")]
    except JitmemError:  # it never began
        return row
    asked = {role: used.calls + used.cached_calls for role, used in found.by_role().items()}
    sizes = [call.usage.prompt_tokens for one in episodes for call in one.calls]
    row["episodes"] = found.episodes
    row["asked"] = ", ".join(f"{role} {calls}" for role, calls in asked.items())
    row["longest"] = max(sizes, default=None)
    return row | {"error": wrong[0] if wrong else error}
