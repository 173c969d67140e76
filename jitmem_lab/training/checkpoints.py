"""Checkpoints that a training can go on from: whole ones, for a kill or a damaged disk leaves others."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import parse_json

_PARTS = (
    ("model*", "adapter_model*", "pytorch_model*", "global_step*"),
    ("optimizer*", "global_step*"),
    ("rng_state*",),
)
"""Of each, one has to be there: weights, the optimiser's state, the random numbers'; last what FSDP and
DeepSpeed name otherwise."""


def last_checkpoint(folder: Path, remove: bool = True) -> Path | None:
    """The newest whole checkpoint; others are passed over, and those that a kill tore are removed."""
    numbered = (one for one in folder.glob("checkpoint-*") if one.name.rpartition("-")[2].isdecimal())
    for newest in sorted(numbered, key=lambda one: int(one.name.rpartition("-")[2]), reverse=True):
        try:  # written last
            state = parse_json((newest / "trainer_state.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            if remove:
                shutil.rmtree(newest, ignore_errors=True)
            continue
        if isinstance(state, dict) and _whole(newest):
            return newest
    return None


def _whole(folder: Path) -> bool:
    """Whether everything is there that a training goes on with, weights readable to their end."""
    for names in _PARTS:
        found = [file for name in names for file in folder.glob(name)]
        if not found or any(file.is_file() and not file.stat().st_size for file in found):
            return False
    return all(map(readable, folder.glob("*.safetensors")))


def readable(weights: Path) -> bool:
    """Whether a file of weights is whole: its header says how long it has to be."""
    from safetensors import safe_open

    with contextlib.suppress(Exception), safe_open(weights, "np"):
        return True
    return False


def refuse_infinite(model: Any, step: int) -> None:
    """`UserError` if a weight is not finite."""
    import torch

    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight.detach()).all()):
            raise UserError(
                f"the training diverged: after step {step} {name} is not finite; lower learning_rate "
                "(or beta) and start a new training"
            )
