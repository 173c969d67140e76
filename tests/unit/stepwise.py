"""What the tests of a memory that is asked step by step share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.records import Episode, Recall, Step, Task
from jitmem_lab.session import Session

from . import writing
from .writing import TASKS, WordEmbedder, episode

NOW = Observation("A panel.", ("press red",))


def learned(*texts: str, situation: str = "At a panel.") -> str:
    return json.dumps({"memories": [{"situation": situation, "memory": text} for text in texts]})


def kind(prompt: str) -> str:
    """Which of the three calls a prompt makes."""
    for words, name in (
        ("Write a query, or NO.", "query"),
        ("Write the guidance, or NONE.", "rebuild"),
        ("Write the JSON object.", "learn"),
        ("What to look up before going on", "query"),
    ):
        if words in prompt:
            return name
    return "rebuild"


class Script:
    """Answers each kind of call by a text, or by a function of its prompt."""

    def __init__(self, **answers: Any) -> None:
        self.answers = {
            "query": "<query>how to press</query>",
            "rebuild": "Press gently.",
            "learn": lambda text: learned(f"Advice {len(text)} {sum(map(ord, text))}."),
        } | answers
        self.prompts: list[tuple[str, str]] = []

    def __call__(self, text: str) -> str:
        name = kind(text)
        self.prompts.append((name, text))
        given = self.answers[name]
        return str(given(text) if callable(given) else given)

    def of(self, name: str) -> list[str]:
        return [text for called, text in self.prompts if called == name]


def opened(script: Any = None, folder: Path | None = None, **options: Any) -> Any:
    options = {"embedder": WordEmbedder(), "gate": "environment"} | options
    return writing.opened("memharness", script or Script(), folder, **options)


def asking(memory: Any, task: Task = TASKS[20], snapshot: int | None = None) -> Any:
    at = memory.snapshot() if snapshot is None else snapshot
    return memory.companion(task, at, memory.recall(task, at, Session()))


def shown(number: int, *items: int, won: bool = True) -> Episode:
    """An episode that was shown some memories, some of them twice."""
    steps = [{"step": n, "query": "q", "shown": list(items)} for n in range(2)]
    return episode(number, won=won).model_copy(update={"recall": Recall(notes={"steps": steps})})


def walked(n: int) -> list[Step]:
    return [Step(observation=f"Look {i}.", admissible=(), action=f"act {i}") for i in range(n)]
