"""Presets of training: the paper's settings, the authors' code's, and two sizes for a machine without a GPU.

Sources: the JitMem paper (table 7) for `paper`; the authors' development repository for `authors-code`.
"""

from __future__ import annotations

import re
from typing import Any

TRAINED_SPLITS = ("train", "generated_train")
"""Splits that are trained on."""
_TEST = re.compile(r"(^|_)(test|seen|unseen)(_|$)", re.IGNORECASE)


def is_test_split(split: str) -> bool:
    """Whether figures are reported on a split, so that nothing may be chosen on it."""
    return bool(_TEST.search(split.strip()))


PAPER: dict[str, Any] = {
    "executor": "openai:http://127.0.0.1:8000/v1#Qwen/Qwen3-8B",
    "curator": "hf:Qwen/Qwen3-8B",
    "tasks": None,
    "play": {"thinking": False, "top_p": 0.95, "top_k": 20},
    "bank_size": None,
    "layout": "one",
    "steps": 100,
    "prompts": 32,
    "group": 8,
    "updates": 1,
    "micro_batch": 4,
    "learning_rate": 1e-6,
    "warmup": 5,
    "beta": 1e-3,
    "max_prompt": 32_768,
    "max_completion": 8_192,
    "lora": 0,
    "dtype": "bfloat16",
    "vllm": "colocate",
    "heldout_games": 140,
    "heldout_every": 0,
    "save_every": 10,
    "concurrency": 64,
}
"""As published: group advantage without division, clip 0.2, KL 1e-3 in the loss, one update over 32 x 8
payloads of temperature 1, executor at 1.0, 0.95, 20 without thinking. Not published: weight decay, how
checkpoints are chosen."""

AUTHORS_CODE: dict[str, Any] = PAPER | {
    "layout": "stores",
    "updates": 8,
    "heldout_every": 5,
    "save_every": 5,
}
"""As the authors' repository runs it: a store of 10 trajectories of other tasks for each task, and a
mini-batch of 32 payloads, so 8 updates a step. (It saves every 10 steps and chooses checkpoints on a part of
the test split; here they are chosen on tasks of the train split, and saved as often.)"""

SMOL: dict[str, Any] = {
    "executor": "smol",
    "curator": "smol",
    "tasks": 400,
    "bank_size": 300,
    "layout": "one",
    "steps": 60,
    "prompts": 4,
    "group": 8,
    "updates": 1,
    "micro_batch": 4,
    "learning_rate": 1e-4,
    "warmup": 2,
    "beta": 1e-3,
    "max_prompt": 600,
    "max_completion": 96,
    "lora": 16,
    "dtype": "float32",
    "heldout_games": 30,
    "heldout_every": 20,
    "save_every": 5,
    "concurrency": 4,
}
"""The embedded instruct model as curator (LoRA) and as frozen executor: an overnight run on a laptop."""

POCKET: dict[str, Any] = {
    "executor": "pocket",
    "curator": "pocket:curator",
    "tasks": 1_000,
    "bank_size": 300,
    "layout": "one",
    "steps": 24,
    "prompts": 16,
    "group": 8,
    "updates": 1,
    "micro_batch": 64,
    "learning_rate": 5e-4,
    "warmup": 3,
    "beta": 0.0,
    "max_prompt": 400,
    "max_completion": 110,
    "lora": 0,
    "dtype": "float32",
    "heldout_games": 60,
    "heldout_every": 12,
    "save_every": 4,
    "concurrency": 4,
}
"""Two transformers of under a million parameters each, for two cores; what it learns stands in README."""

BY_BENCHMARK: dict[str, dict[str, dict[str, Any]]] = {
    name: {"webshop": {"max_completion": 4_096}} for name in ("paper", "authors-code")
}
"""What a preset sets otherwise on one benchmark: payloads are at most half as long in WebShop (table 7)."""
PRESETS: dict[str, dict[str, Any]] = {
    "paper": PAPER,
    "authors-code": AUTHORS_CODE,
    "smol": SMOL,
    "pocket": POCKET,
}
"""Presets by name."""
