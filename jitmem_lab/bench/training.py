"""What a training step costs beyond TRL's own: the same steps by `trl.GRPOTrainer` bare, and by ours."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..evaluation import make_benchmark, make_curator
from ..models import load_model
from ..training.config import TrainConfig
from ..training.playing import Job, Played


class _Instant:
    """Gives a reward at once: 0 or 1 by the payload's digest, so that both ways learn from the same."""

    def __init__(self, trajectory: Any) -> None:
        self._trajectory = trajectory

    def play(self, jobs: Sequence[Job]) -> list[Played]:
        """A reward for each, and the same episode."""
        return [Played(_reward(job.payload), self._trajectory) for job in jobs]


def _reward(text: str) -> float:
    return float(hashlib.sha256(text.encode()).digest()[0] % 2)


def run(
    *, preset: str = "pocket", steps: int = 5, rounds: int = 4, progress: Any = None, **parameters: Any
) -> dict[str, Any]:
    """Seconds of a step both ways, interleaved, with an episode of no length.

    Payloads keep what follows their stop text in both, so that both learn from as many tokens.

    Args:
        preset: The training's preset.
        steps: Steps a training; the first and the last of each are not counted.
        rounds: Trainings each way, in turn.
        progress: Told of each training.
        parameters: Further parameters of `TrainConfig`.

    Returns:
        Medians of a step in seconds, and by how much the second is longer.

    Raises:
        UserError: Too few steps.
    """
    if steps < 3:
        raise UserError("the first and the last step of each training are not counted: take three or more")
    from ..training.bank import TrainingBank
    from ..training.prompting import make_prompts

    fixed = {"steps": steps, "heldout": None, "save_every": steps, "heldout_every": 0}
    config = TrainConfig.make(preset=preset, **(parameters | fixed))
    seconds: dict[str, list[float]] = {"bare": [], "ours": []}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        bench = stack.enter_context(contextlib.closing(make_benchmark(config.evaluation(), load_model)))
        bank = stack.enter_context(contextlib.closing(TrainingBank(config, bench)))
        model = load_model(config.curator)
        stack.callback(model.close)
        curator = make_curator(config.evaluation(), model)
        prompts = make_prompts(bank.tasks.trained, bank, curator)
        for number in range(rounds):
            for way in ("bare", "ours") if number % 2 == 0 else ("ours", "bare"):
                out = folder / f"{way}-{number}"
                out.mkdir()
                player = _Instant(bank.trajectories[0])
                took = _steps(way, config, out, prompts, curator, player)
                seconds[way] += took[1:]
                if progress is not None:
                    progress(f"{way}: {statistics.median(took[1:]):.3f} s a step")
    bare, ours = (statistics.median(seconds[way]) for way in ("bare", "ours"))
    return {
        "preset": preset,
        "payloads_a_step": config.batch,
        "steps_each": len(seconds["bare"]),
        "bare_seconds": round(bare, 4),
        "ours_seconds": round(ours, 4),
        "more": round(ours / bare - 1, 4),
    }


def _steps(
    way: str, config: TrainConfig, out: Path, prompts: list[Any], curator: Any, player: _Instant
) -> list[float]:
    """Seconds of each step of a training but the last, from its begin to the next one's."""
    from transformers import TrainerCallback
    from trl import GRPOTrainer

    from ..training.curator import load_curator
    from ..training.prompting import step_rows
    from ..training.reward import EpisodeReward
    from ..training.trainer import make_trainer
    from ..training.watching import Watch

    begun: list[float] = []

    class Clock(TrainerCallback):
        def on_step_begin(self, *_: Any, **__: Any) -> None:
            begun.append(time.perf_counter())

    model, tokenizer = load_curator(config)
    rows = step_rows(config, prompts, tokenizer)

    def bare(*, completions: Sequence[Any], index: Sequence[int], **_: Any) -> list[float | None]:
        return [
            _reward(curator.payload(prompts[at].messages, text))
            for at, text in zip(index, completions, strict=True)
        ]

    trainer: Any
    if way == "bare":
        trainer = make_trainer(config, model, tokenizer, rows, bare, out, [Clock()], kind=GRPOTrainer)
    else:
        watch = Watch(config, out, prompts, None, Path.mkdir, False, threading.Event())
        reward = EpisodeReward(
            player,  # type: ignore[arg-type]
            curator,
            prompts,
            config.group,
            config.scale_rewards,
            watch.record,
        )
        trainer = make_trainer(config, model, tokenizer, rows, reward, out, [watch, Clock()])
    trainer.train()
    return [after - before for before, after in itertools.pairwise(begun)]
