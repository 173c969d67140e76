"""Staged refresh: the bank rebuilt with the trained curator, then more training (the paper's table 5)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import UserError
from .bank import play_bank
from .config import TrainConfig
from .main import train
from .runs import TrainRun

STEPS = 50
"""Steps after the refresh, as in the paper."""


def refreshed(training: TrainRun, bank: str | Path, steps: int = STEPS) -> TrainConfig:
    """The config of the second stage: the same, from the chosen checkpoint, over a rebuilt bank.

    Raises:
        UserError: There is no chosen checkpoint yet.
    """
    again = training.request | {"curator": training.curator, "bank": str(bank), "bank_size": None}
    again["steps"] = steps
    every, save = int(again["heldout_every"]), int(again["save_every"])
    again |= {"heldout_every": min(every, steps // save * save), "save_every": min(save, steps)}
    return TrainConfig.make(**again)


def refresh(
    training: TrainRun | str | Path,
    out: str | Path,
    *,
    games: int | None = None,
    steps: int = STEPS,
    progress: bool = True,
    **operation: Any,
) -> TrainRun:
    """Rebuild the bank with the trained curator, and go on training over it.

    Args:
        training: The first stage, with a chosen checkpoint.
        out: Where the second stage goes: `bank` and `run` in it. The same call goes on after an interruption.
        games: Train tasks played for the bank; None takes all.
        steps: Steps of the second stage (paper: 50 after 100).
        progress: Whether to draw bars.
        operation: As for `evaluate`.

    Raises:
        UserError: There is no chosen checkpoint, or `out` holds something else.
    """
    first = training if isinstance(training, TrainRun) else TrainRun(training)
    folder = Path(out)
    if folder.resolve() == first.path.resolve():
        raise UserError("the second stage needs a folder of its own")
    bank = play_bank(
        first.config, folder / "bank", games=games, curator=first.curator, progress=progress, **operation
    )
    return train(refreshed(first, bank.path, steps), folder / "run", progress=progress)
