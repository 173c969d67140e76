"""Training the curator by GRPO from the reward of the same task's episode; see `train` and `launch`."""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "TrainConfig": "config",
    "TrainJob": "job",
    "TrainRun": "runs",
    "attach": "job",
    "evaluate_trained": "evaluating",
    "gain_frame": "evaluating",
    "launch": "job",
    "list_trainings": "runs",
    "play_bank": "bank",
    "pooled_results": "results",
    "train": "main",
    "training_figure": "figures",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
