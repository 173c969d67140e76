"""A small training for tests: the world of panels, a tiny curator, an executor behind a real server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jitmem_lab.training import TrainConfig

WORLD = f"{Path(__file__).parent / 'panels.py'}:Panels"


def small_config(server: str, curator: Path, **more: Any) -> TrainConfig:
    """Two tasks of four payloads a step, no held-out games."""
    fixed: dict[str, Any] = {
        "preset": "smol",
        "benchmark": WORLD,
        "split": "train",
        "executor": f"openai:{server}#m",
        "curator": f"hf:{curator}",
        "play": {"act": "write", "k": 1},
        "tasks": 16,
        "bank_size": 12,
        "steps": 3,
        "prompts": 2,
        "group": 4,
        "micro_batch": 8,
        "learning_rate": 1e-2,
        "lora": 0,
        "beta": 0.0,
        "max_prompt": 200,
        "max_completion": 4,
        "heldout": None,
        "heldout_games": 4,
        "heldout_every": 0,
        "save_every": 1,
        "concurrency": 4,
    }
    return TrainConfig.make(**(fixed | more))
