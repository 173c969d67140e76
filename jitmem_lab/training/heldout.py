"""Held-out evaluations: ordinary runs over one fixed bank, so that dashboards show them like any other."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

from ..benchmarks.base import Benchmark
from ..errors import InfrastructureError, UserError
from ..evaluation import make_benchmark, make_memory
from ..execution import Executor
from ..models import load_model
from ..stream import run_stream
from .bank import TrainingBank
from .config import FROM_TRAIN, TrainConfig
from .curator import live_model

TRIES = 3
"""Tries of held-out episodes that infrastructure errors ended."""
LOST = 0.1
"""Share of them that may stay unplayed; with more, rates of two steps are of other tasks."""


class Heldout:
    """Plays the held-out tasks, all against the training bank as it is.

    Args:
        config: The training.
        path: Its run directory.
        bench: Its benchmark.
        bank: Its bank.
        executor: The frozen executor.
        stack: Closes what is opened here.

    Raises:
        UserError: The held-out split is missing or empty.
    """

    def __init__(
        self,
        config: TrainConfig,
        path: Path,
        bench: Benchmark,
        bank: TrainingBank,
        executor: Executor,
        stack: contextlib.ExitStack,
    ) -> None:
        self.config = config
        self.path = path
        self.bank = bank
        self.executor = executor
        self.bench, self.tasks = bench, bank.tasks.heldout
        if config.heldout not in (None, FROM_TRAIN):
            other = make_benchmark(config.evaluation(split=config.heldout), load_model)
            self.bench = stack.enter_context(contextlib.closing(other))
            self.tasks = self.bench.tasks(limit=config.heldout_games, order=config.seed)
            if not self.tasks:
                raise UserError(f"held-out split {config.heldout} has no tasks")

    def play(self, step: int, model: Any, tokenizer: Any) -> dict[str, Any]:
        """Play them with the curator as it stands: `won`, `games`, `success_rate`, `errors`, `run`.

        Raises:
            InfrastructureError: More than `LOST` of them could not be played.
        """
        begun = time.perf_counter()
        training = model.training
        live = live_model(self.config, model, tokenizer, trained_in=self.path.name, step=step)
        try:
            for _ in range(TRIES):
                run = run_stream(
                    self.bench,
                    make_memory(self.config.evaluation(), lambda spec: live, self.bench),
                    self.executor,
                    out=self.path / "heldout" / f"step-{step:04d}",
                    tasks=self.tasks,
                    warm_start=self.bank.trajectories,
                    batch_size=len(self.tasks),
                    concurrency=self.config.concurrency,
                    seed=self.config.seed,
                    progress=False,
                )
                counts = run.summary()["outcomes"]
                if not counts["error"]:
                    break
        finally:
            live.close()
            model.train(training)
        games = counts["success"] + counts["failure"]
        if counts["error"] > LOST * len(self.tasks):
            causes = [episode.error for episode in run.latest() if episode.outcome == "error"]
            raise InfrastructureError(
                f"{counts['error']} of {len(self.tasks)} held-out episodes could not be played, {TRIES} "
                f"times: {causes[0]}"
            )
        return {
            "won": counts["success"],
            "games": games,
            "errors": len(self.tasks) - games,
            "success_rate": counts["success"] / games if games else None,
            "seconds": round(time.perf_counter() - begun, 1),
            "run": f"heldout/{run.path.name}",
        }
