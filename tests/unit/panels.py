"""A world for training: one of four buttons is right, and the task's sentence says which."""

from __future__ import annotations

from typing import Any

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.benchmarks.pooled import PooledBenchmark
from jitmem_lab.records import Task

COLOURS = ("red", "green", "blue", "black")
SIZES = {"train": 40, "valid_train": 8, "valid_seen": 8}


class Panels(PooledBenchmark):
    name = "panels"
    max_steps = 2
    version = "1"
    splits = tuple(SIZES)

    def load(self, split: str) -> list[Task]:
        return [
            self.task(split, f"{split}{n}", f"press the {COLOURS[n % 4]} button of panel {n % 7}")
            for n in range(SIZES[split])
        ]

    @staticmethod
    def open(spec: dict[str, Any]) -> Panel:
        return Panel(spec["description"].split()[2])

    def oracle(self, task: Task) -> list[str]:
        return [f"press {task.description.split()[2]}"]


class Panel:
    def __init__(self, right: str) -> None:
        self.right = right
        self.actions = tuple(f"press {colour}" for colour in COLOURS)

    def reset(self) -> Observation:
        return Observation("A panel.", self.actions)

    def step(self, action: str) -> Observation:
        won = action == f"press {self.right}"
        return Observation("It clicks." if won else "Nothing.", self.actions, float(won), won, won)


def follow(body: dict[str, Any]) -> str:
    """What an executor says that presses the first colour of its advice."""
    advice = body["messages"][-1]["content"].partition("Steps to do it:")[2].partition("\n\n")[0]
    found = [word for word in advice.split() if word in COLOURS]
    return f"<action>press {found[0] if found else 'nothing'}</action>"


def know(body: dict[str, Any]) -> str:
    """What an executor says that does what its task says, whatever it is advised."""
    colour = body["messages"][-1]["content"].partition("task: press the ")[2].split()[0]
    return f"<action>press {colour}</action>"
