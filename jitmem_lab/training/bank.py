"""The training bank: fixed, ground-truth successes only, and never a task's own."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..benchmarks.base import Benchmark
from ..errors import UserError
from ..evaluation import evaluate, make_memory
from ..memories.raw import RawMemory
from ..records import Recall, Task, Trajectory, content_hash
from ..runs import Run, list_runs
from ..session import Session
from .config import FROM_TRAIN, TrainConfig
from .presets import is_test_split


class Rate(NamedTuple):
    """How often the frozen executor solved a task: without memory, or with payloads in a rebuilt bank."""

    won: int
    """Successes."""
    tries: int
    """Finished tries."""

    @property
    def share(self) -> float:
        """Success rate, 0 to 1."""
        return self.won / self.tries if self.tries else 0.0


class Tasks(NamedTuple):
    """The tasks of a training."""

    trained: list[Task]
    """Tasks that payloads are written for."""
    heldout: list[Task]
    """Tasks of the same split that checkpoints are chosen on; none is trained on, and none is in the bank."""


def play_bank(
    config: TrainConfig,
    out: str | Path,
    *,
    games: int | None = None,
    tries: int = 1,
    curator: str | None = None,
    **operation: Any,
) -> Run:
    """Play the train split with the frozen executor and no memory, `tries` times each: a training bank.

    With a curator it is played again with its payloads: the staged refresh of the paper (table 5), which
    rebuilds the bank with the trained curator before training goes on.

    Args:
        config: Whose split, executor and way of playing are taken.
        out: The run directory; `TrainConfig.bank` names it afterwards.
        games: Tasks from the start of the training's order; None takes all.
        tries: Tries a task, from which rates of success are known (of use where the executor samples).
        curator: A trained curator's name, `TrainRun.curator`; None plays without memory.
        operation: As for `evaluate`: cache, progress, models; concurrency and timeout go before the config's.

    Raises:
        UserError: `out` holds another run, or there are no data.
    """
    fixed: dict[str, Any] = {"memory": "none", "order": config.seed, "seed": config.seed}
    fixed |= {"games": games, "trials": tries}
    operation = {"concurrency": config.concurrency, "timeout": config.timeout} | operation
    if curator is not None:
        fixed |= {"memory": "jitmem", "curator_model": curator}
        if config.bank is None and config.bank_size is not None:
            fixed["warm_start"] = config.bank_size
    evaluation = config.evaluation(**fixed)
    if tries > 1 and games is not None and evaluation.batch_size > games:
        evaluation = config.evaluation(**fixed, batch_size=games)
    return evaluate(evaluation, out=out, **operation)


def bank_runs(path: str | Path) -> list[Run]:
    """The runs at or below `path`, of train splits.

    Raises:
        UserError: There is none, or one is of a test split.
    """
    place = Path(path)
    found = (
        [Run(place)]
        if (place / "config.json").exists()
        else [Run(row["path"]) for row in list_runs(place) if row.get("state") != "broken"]
    )
    if not found:
        raise UserError(f"there is no run at {place}; play a training bank with: jitmem bank -o {place}")
    for run in found:
        split = str(run.settings.get("benchmark", {}).get("split"))
        if is_test_split(split):
            raise UserError(f"{run.path} is of test split {split}: no training bank may be made of it")
    return sorted(found, key=lambda run: str(run.path))


def successes(runs: Sequence[Run]) -> tuple[list[Trajectory], dict[str, Rate]]:
    """One trajectory a task that the environment calls a success (the first), and every task's rate."""
    first: dict[str, Trajectory] = {}
    rates: dict[str, Rate] = {}
    for run in runs:
        for episode in run.latest():
            if episode.outcome == "error" or episode.trajectory is None:
                continue
            task_id = episode.task.task_id
            won, tries = rates.get(task_id, Rate(0, 0))
            rates[task_id] = Rate(won + (episode.outcome == "success"), tries + 1)
            if episode.outcome == "success":
                first.setdefault(task_id, episode.trajectory)
    return list(first.values()), rates


def split_tasks(config: TrainConfig, bench: Benchmark, rates: dict[str, Rate]) -> Tasks:
    """The tasks that are trained on and, from the end of the same order, those that are held out.

    Raises:
        UserError: None is left to train on.
    """
    if bench.tells_at_reset:
        raise UserError(f"{bench.name} tells its tasks at the reset only; the curator can't be trained on it")
    order = bench.tasks(order=config.seed)
    kept = config.heldout_games if config.heldout == FROM_TRAIN else 0
    if kept >= len(order):
        raise UserError(
            f"split {config.split} has {len(order)} tasks, {kept} of which would be held out; lower "
            "heldout_games"
        )
    heldout, rest = order[len(order) - kept :], order[: len(order) - kept]
    if config.rate_low > 0 or config.rate_high < 1:
        never = Rate(0, 0)
        rest = [
            task
            for task in rest
            if config.rate_low <= rates.get(task.task_id, never).share <= config.rate_high
            and (task.task_id in rates or config.rate_low == 0)
        ]
    trained = rest[: config.tasks]
    if len(trained) < config.prompts:
        raise UserError(
            f"{len(trained)} tasks of split {config.split} are left to train on, fewer than the "
            f"{config.prompts} of a step: widen rate_low to rate_high, play more of the bank, hold fewer "
            "out, or lower prompts"
        )
    return Tasks(trained, heldout)


class TrainingBank:
    """The bank of one training, in memory.

    Args:
        config: The training.
        bench: Its benchmark, loaded with the train split.

    Raises:
        UserError: `config.bank` is no train run, or too small.
    """

    def __init__(self, config: TrainConfig, bench: Benchmark) -> None:
        self.config = config
        self._evaluation = config.evaluation(memory="raw", max_trace_tokens=config.max_prompt)
        self._bench = bench
        self.rates: dict[str, Rate] = {}
        if config.bank is not None:
            runs = bank_runs(config.bank)
            _same_benchmark(runs, bench, config.split)
            trajectories, self.rates = successes(runs)
        self.tasks = split_tasks(config, bench, self.rates)
        away = {task.task_id for task in self.tasks.heldout}
        if config.bank is None:
            wanted = config.bank_size or len(bench.tasks())
            trajectories = bench.demonstrations(min(wanted + len(away), len(bench.tasks())), config.seed)
        inside = [t for t in trajectories if t.task.task_id not in away]
        self.trajectories = inside[: config.bank_size]
        if not self.trajectories:
            raise UserError(
                f"the training bank is empty: {config.bank or 'the demonstrations'} hold no success outside "
                "the held-out tasks; play more tries, or take demonstrations (bank=None)"
            )
        self._memory = self._opened(self.trajectories)

    def _opened(self, trajectories: Sequence[Trajectory]) -> RawMemory:
        memory: RawMemory = make_memory(self._evaluation, _no_model, self._bench)
        memory.open(None)
        memory.bank.append([(f"bank:{t.hash}", t, {"success": True}) for t in trajectories])
        return memory

    def recall(self, task: Task) -> Recall:
        """The traces for a task, which are never its own; no payload."""
        session = Session(self.config.seed, f"train:{task.hash}")
        if self.config.layout == "one":
            return self._memory.retrieve(task, len(self._memory.bank), session)
        with self._store(task) as memory:
            return memory.retrieve(task, len(memory.bank), session)

    @contextlib.contextmanager
    def _store(self, task: Task) -> Iterator[RawMemory]:
        """A task's own store: drawn from other tasks, the same each time; a share of them is empty."""
        draw = random.Random(content_hash([self.config.seed, task.task_id], 16))
        others = [t for t in self.trajectories if t.task.task_id != task.task_id]
        size = 0 if draw.random() < self.config.empty_share else min(self.config.store_size, len(others))
        memory = self._opened(draw.sample(others, size))
        try:
            yield memory
        finally:
            memory.close()

    def facts(self) -> dict[str, Any]:
        """What is recorded of the bank."""
        return {
            "traces": len(self.trajectories),
            "hash": content_hash([t.hash for t in self.trajectories]),
            "source": "runs" if self.config.bank else "demonstrations",
            "layout": self.config.layout,
            "tasks_with_rate": len(self.rates),
        }

    def close(self) -> None:
        """Close the bank."""
        self._memory.close()


def _no_model(spec: str) -> Any:
    raise AssertionError(f"retrieval asked for model {spec}")


def _same_benchmark(runs: Sequence[Run], bench: Benchmark, split: str) -> None:
    for run in runs:
        there = run.settings.get("benchmark", {})
        if there.get("name") != bench.name:
            raise UserError(f"{run.path} is a run of {there.get('name')}, the training one of {bench.name}")
        if there.get("split") != split:
            raise UserError(f"{run.path} is a run of split {there.get('split')}, the training one of {split}")
        if there.get("version") not in (None, bench.version):
            raise UserError(
                f"{run.path} was played with {there.get('version')}, but this is {bench.version}: their "
                "actions may differ; play the bank again"
            )
