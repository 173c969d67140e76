"""What the checks share: tasks to try, ways to play them, and failing with a sentence."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...errors import UserError
from ...records import Task
from ..base import Benchmark, Env, Observation

TASKS = 3
"""Tasks that a check plays."""

PATIENCE = 30.0
"""Seconds that one answer may take, a worker's start left out."""


def require(condition: Any, sentence: str) -> None:
    """Fail with a sentence unless a condition holds."""
    if not condition:
        raise AssertionError(sentence)


def some_tasks(bench: Benchmark, count: int = TASKS) -> list[Task]:
    """A few tasks from all over the split, so that several types are among them."""
    tasks = bench.tasks()
    return [tasks[index * len(tasks) // count] for index in range(count)]


def load_again(bench: Benchmark, split: str) -> Benchmark:
    """Another instance of a benchmark's class, with its other settings at their defaults."""
    made: Benchmark = type(bench)(split=split)  # type: ignore[call-arg]
    return made


@contextlib.contextmanager
def loaded_again(bench: Benchmark) -> Iterator[Benchmark]:
    """The same split once more, closed in the end."""
    with contextlib.closing(load_again(bench, bench.split)) as made:
        yield made


def refusal_of(call: Callable[[], Any]) -> UserError | None:
    """The `UserError` that a call raises, if it does."""
    try:
        call()
    except UserError as error:
        return error
    return None


def is_json(value: Any) -> bool:
    """Whether a value can be written as JSON."""
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True


def steps(env: Env, actions: Sequence[str]) -> Iterator[Observation]:
    """What is shown after each action, until the episode is done."""
    for action in actions:
        seen = env.step(action)
        yield seen
        if seen.done:
            return


def shown(env: Env, actions: Sequence[str]) -> list[Observation]:
    """What is shown from a reset on, over actions, until the episode is done."""
    return [env.reset(), *steps(env, actions)]
