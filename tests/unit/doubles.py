"""Stand-ins for the loop's tests: a tiny world, and models that answer by a fixed rule."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.errors import InfrastructureError
from jitmem_lab.models.base import Choice, Reply
from jitmem_lab.records import Message, Sampling, Step, Task, Tool, Trajectory, Usage

COLOURS = ("red", "green", "blue", "black")


class RuleModel:
    """Writes or chooses by a hash of the whole prompt: deterministic, and different for every prompt."""

    context = 4096
    takes_tools = True

    def __init__(
        self, name: str = "rule", latency: float = 0.0, rule: Callable[[str, Sampling], str] | None = None
    ) -> None:
        self.name = name
        self.latency = latency
        self.rule = rule
        self.prompts: list[str] = []
        self.lock = threading.Lock()

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        text = "\n".join(message.content for message in messages)
        with self.lock:
            self.prompts.append(text)
        time.sleep(self.latency)
        if self.rule is not None:
            answer = self.rule(text, sampling)
        else:
            digest = hashlib.sha256(f"{text}{sampling.seed}{sample}".encode("utf-8", "replace")).digest()
            answer = f"<action>press {COLOURS[digest[0] % len(COLOURS)]}</action>"
        return Reply(answer, Usage(calls=1, prompt_tokens=len(text) // 4, completion_tokens=5))

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        text = "\n".join(message.content for message in messages)
        with self.lock:
            self.prompts.append(text)
        time.sleep(self.latency)
        scores = tuple(
            -hashlib.sha256(f"{text}|{option}".encode("utf-8", "replace")).digest()[0] / 100
            for option in options
        )
        usage = Usage(calls=1, prompt_tokens=len(text) // 4)
        return Choice(scores.index(max(scores)), scores, usage)

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    def close(self) -> None:
        pass


class Counting(RuleModel):
    """Keeps its own account of what it was asked."""

    context = 32_768

    def __init__(self, name: str, rule: Any = None) -> None:
        super().__init__(name, rule=rule)
        self.spent = Usage()

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        reply = super().chat(messages, sampling, sample)
        with self.lock:
            self.spent += reply.usage
        return reply

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        choice = super().choose(messages, options)
        with self.lock:
            self.spent += choice.usage
        return choice


class ButtonEnv:
    """Won by pressing the right colour within the limit; can be told to break."""

    def __init__(self, task: Task, bench: ButtonBenchmark) -> None:
        self.task = task
        self.bench = bench
        self.text = f"A panel with buttons. Your task is to: {task.description}"

    def reset(self) -> Observation:
        self.bench.opened += 1
        if self.bench.broken(self.task):
            raise InfrastructureError("the environment died")
        return Observation(self.text, tuple(f"press {colour}" for colour in COLOURS))

    def step(self, action: str) -> Observation:
        won = action == f"press {self.task.meta['colour']}"
        text = "It clicks." if action in {f"press {c}" for c in COLOURS} else "Nothing happens."
        return Observation(
            f"{text} \ud83d", tuple(f"press {colour}" for colour in COLOURS), float(won), won, won
        )

    def close(self) -> None:
        self.bench.closed += 1


class ButtonBenchmark:
    """`n` tasks of the button world; environments of `broken` tasks die."""

    name, version, split, max_steps = "buttons", "1", "all", 3
    noop, splits, tells_at_reset = "look", ("all",), False

    def __init__(self, n: int = 12, broken: Callable[[Task], bool] = lambda task: False) -> None:
        self.n = n
        self.broken = broken
        self.opened = 0
        self.closed = 0

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        return [
            Task(
                benchmark=self.name,
                split=self.split,
                task_id=f"b{i}",
                description=f"press the right button of panel {i % 5} in room {i}.",
                task_type=f"type{i % 2}",
                meta={"colour": COLOURS[i % len(COLOURS)]},
            )
            for i in range(limit or self.n)
        ]

    def make_env(self, task: Task, session: Any = None) -> ButtonEnv:
        return ButtonEnv(task, self)

    def oracle(self, task: Task) -> list[str]:
        return [f"press {task.meta['colour']}"]

    def demonstrations(self, limit: int, seed: int = 0) -> list[Trajectory]:
        return [demonstration(task) for task in self.tasks()[:limit]]

    def provenance(self) -> dict[str, Any]:
        return {"version": self.version}

    def close(self) -> None:
        pass


def demonstration(task: Task) -> Trajectory:
    """A solved trajectory."""
    action = f"press {task.meta['colour']}"
    step = Step(observation="A panel.", admissible=(action,), raw=action, action=action, reward=1.0)
    return Trajectory(
        task=task,
        steps=(step,),
        final_observation="It clicks.",
        outcome="success",
        reward=1.0,
        source="oracle",
    )
