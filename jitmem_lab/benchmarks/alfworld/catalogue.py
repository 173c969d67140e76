"""Names and numbers of ALFWorld that everything else here shares (no imports, so it loads at once)."""

from __future__ import annotations

TASK_TYPES = (
    "pick_and_place_simple",
    "look_at_obj_in_light",
    "pick_clean_then_place_in_recep",
    "pick_heat_then_place_in_recep",
    "pick_cool_then_place_in_recep",
    "pick_two_obj_and_place",
)
"""The six types of task."""

REAL_SPLITS = ("train", "valid_train", "valid_seen", "valid_unseen")
"""Splits of the official data."""

GENERATED_GAMES = {"generated_train": 120, "generated_seen": 30, "generated_test": 60}
"""Splits of our own households, with their sizes."""

SPLITS = (*REAL_SPLITS, *GENERATED_GAMES)
"""All splits."""

MAX_STEPS = 30
"""Turns an episode may take, as the paper has it."""

LEAD = "Your task is to: "
"""What precedes the task sentence in an environment's first text."""
