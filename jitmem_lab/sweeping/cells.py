"""One cell of a sweep, as any process plays it, and what it keeps from cell to cell."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from ..benchmarks.base import Benchmark
from ..evaluation import EvalConfig, benchmark_key, evaluate, make_benchmark
from ..models import load_model
from ..models.base import ChatModel
from ..runs import Run
from .check import model_names

OWED = "some episodes ended in errors and are owed; run the sweep again"
"""What is said of a cell that is incomplete."""


class Job(NamedTuple):
    """What a process needs to know of a cell; JSON holds it."""

    name: str
    """The cell's name."""
    folder: str
    """Its run directory."""
    request: dict[str, Any]
    """Parameters of its `EvalConfig`."""
    concurrency: int = 2
    """Episodes at once."""
    timeout: float = 120.0
    """Seconds after which a model call counts as failed."""
    cache: str | None = None
    """SQLite file of model answers."""
    notebook: str | None = None
    """Where the cell is kept as notebook 20_evaluate; None plays it without one."""
    asked: dict[str, Any] | None = None
    """The parameters that were given, for the notebook."""

    @property
    def config(self) -> EvalConfig:
        """Its whole config."""
        return EvalConfig.make(**self.request)


class Ended(NamedTuple):
    """How a cell ended."""

    name: str
    """The cell's name."""
    state: str
    """completed, incomplete (episodes ended in errors) or failed."""
    error: str | None
    """Why it is not completed."""
    seconds: float
    """Spent on it."""


class Kept:
    """Models by name and benchmarks with their worker processes, each made once."""

    def __init__(self) -> None:
        self._loaded: dict[str, ChatModel] = {}
        self._benches: dict[tuple[str, ...], Benchmark] = {}

    def benchmark(self, job: Job) -> Benchmark:
        """The benchmark that a job is played on."""
        key = benchmark_key(job.config)
        if key not in self._benches:
            self._benches[key] = make_benchmark(job.config, self.models(job).__getitem__)
        return self._benches[key]

    def models(self, job: Job) -> dict[str, ChatModel]:
        """All models that are loaded, those that a job names among them."""
        cache = None if job.cache is None else Path(job.cache)
        for spec in model_names(job.config) - set(self._loaded):
            self._loaded[spec] = load_model(
                spec, cache=cache, concurrency=job.concurrency, timeout=job.timeout
            )
        return self._loaded

    def keep(self, jobs: Iterable[Job]) -> None:
        """Free what none of these jobs needs."""
        needed: set[str] = set()
        played = set()
        for job in jobs:
            needed |= model_names(job.config)
            played.add(benchmark_key(job.config))
        for key in set(self._benches) - played:
            self._benches.pop(key).close()
        for spec in set(self._loaded) - needed:
            self._loaded.pop(spec).close()


def play(job: Job, kept: Kept) -> tuple[str, str | None]:
    """Play a cell, or what is missing of it.

    Returns:
        Its state and why it is not completed. No error is raised: whatever went wrong is told here, and all
        that was kept is then freed, for what broke must not break the next cell.
    """
    try:
        (_play_notebook if job.notebook else _evaluate)(job, kept)
        state = str(Run(job.folder).status().get("state"))
        return state, None if state == "completed" else OWED
    except Exception as error:
        kept.keep(())
        return "failed", f"{type(error).__name__}: {error}"


def _evaluate(job: Job, kept: Kept) -> None:
    evaluate(
        job.config,
        out=job.folder,
        concurrency=job.concurrency,
        cache=job.cache,
        timeout=job.timeout,
        progress=False,
        models=kept.models(job),
        benchmark=kept.benchmark(job),
    )


def _play_notebook(job: Job, kept: Kept) -> None:
    from ..notebooks import find_notebook, read_parameters, run_notebook

    operation = {"out": job.folder, "concurrency": job.concurrency, "timeout": job.timeout}
    operation["cache"] = job.cache or ""
    chosen = job.asked or {}
    known = set(read_parameters(find_notebook("20_evaluate"))) - set(operation)
    values = {name: value for name, value in chosen.items() if name in known}
    values["more"] = {name: value for name, value in chosen.items() if name not in known}
    run_notebook("20_evaluate", values | operation, output=Path(str(job.notebook)), progress=False)
