"""Small runs of several systems, benchmarks and orders, made with doubles, for what compares runs."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.curation import Curator
from jitmem_lab.embedding import Embedded
from jitmem_lab.errors import InfrastructureError
from jitmem_lab.execution import Executor
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory
from jitmem_lab.models.base import Reply
from jitmem_lab.records import Message, Sampling, Task
from jitmem_lab.runs import Run
from jitmem_lab.stream import run_stream

from .doubles import COLOURS, ButtonBenchmark, ButtonEnv, RuleModel
from .writing import WordEmbedder


class Model(RuleModel):
    """A rule model with room, which judges by a rule too."""

    context = 32_768
    takes_tools = False

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Any = ()
    ) -> Reply:
        reply = super().chat(messages, sampling, sample)
        text = messages[-1].content
        if "Did the agent finish" in text:
            said = "maybe" if "room 7" in text else str(len(text) % 3 > 0).lower()
            return reply._replace(text=f'{{"success": {said}}}')
        if "memory items" in text.rpartition("\n")[2]:
            return reply._replace(text="# Memory Item 1\n## Title: Labels\n## Content: Mind their edge.")
        return reply


class Embedder(WordEmbedder):
    """Counts words, under the name of the model in the process; `fails` of its first writes fail."""

    name = "wordllama"

    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.fails = fails

    def embed(self, texts: Sequence[str]) -> Embedded:
        if self.fails and not texts[0].startswith("Instruct: "):
            self.fails -= 1
            raise InfrastructureError("status 503")
        return super().embed(texts)


class GradedEnv(ButtonEnv):
    """Half the reward for the colour beside the right one."""

    def step(self, action: str) -> Observation:
        seen = super().step(action)
        beside = COLOURS[COLOURS.index(self.task.meta["colour"]) - 1]
        return seen._replace(reward=0.5) if action == f"press {beside}" else seen


class World(ButtonBenchmark):
    """The button world under any name, in any order, with partial credit or not."""

    max_steps = 2

    def __init__(self, name: str, split: str, n: int, broken: set[str], graded: bool) -> None:
        super().__init__(n, broken=lambda task: task.task_id in broken)
        self.name, self.split, self.graded = name, split, graded

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        found = super().tasks(self.n)
        random.Random(order).shuffle(found)
        return found[:limit]

    def make_env(self, task: Task, session: Any = None) -> ButtonEnv:
        return GradedEnv(task, self) if self.graded else super().make_env(task, session)


PLACES = {
    ("alfworld", "valid_seen"): (("none", "raw", "jitmem"), (0, 1, 2)),
    ("webshop", "small_test"): (("none", "reasoningbank", "jitmem"), (0, 1)),
    ("tau2", "airline"): (("none", "jitmem"), (0, 1)),
    ("tau2", "retail"): (("none", "jitmem"), (0, 1)),
}
"""Systems and orders of each benchmark and split."""


def make_run(
    out: Path,
    benchmark: str,
    split: str,
    memory: str,
    order: int,
    broken: set[str] | None = None,
    fails: int = 0,
    executor: dict[str, Any] | None = None,
    **more: Any,
) -> Run:
    """One run of a dozen episodes; `fails` of its writes fail, `more` goes into what was asked for."""
    model = Model("rule")
    n = {"airline": 8, "retail": 12}.get(split, 10)
    world = World(benchmark, split, n, broken or set(), benchmark == "webshop")
    given: dict[str, Any] = {"gate": "judge"} if memory in ("raw", "jitmem", "reasoningbank") else {}
    given |= {"curator": Curator(model)} if memory == "jitmem" else {}
    given |= {"model": model, "embedder": Embedder(fails)} if memory == "reasoningbank" else {}
    return run_stream(
        world,
        load_memory(memory, **given),
        Executor(model, **{"temperature": 0.0 if memory == "none" else 1.0} | (executor or {})),
        out=out,
        tasks=world.tasks(order=order),
        judge=Judge(model),
        batch_size=4,
        seed=order,
        progress=False,
        request={"benchmark": benchmark, "split": split, "memory": memory, "order": order, "seed": 0, **more},
    )


def make_runs(folder: Path) -> dict[tuple[str, str, str, int], Run]:
    """All runs of `PLACES`. One task of ALFWorld breaks in one order of one system, and one write of WebShop
    fails, which the run makes up for when it is run again."""
    found = {}
    for (benchmark, split), (memories, orders) in PLACES.items():
        for memory in memories:
            for order in orders:
                broken = {"b3"} if (benchmark, memory, order) == ("alfworld", "raw", 1) else set()
                place = (folder / f"{benchmark}-{split}-{memory}-{order}", benchmark, split, memory, order)
                if (memory, order) == ("reasoningbank", 0):
                    assert make_run(*place, fails=1).status()["state"] == "incomplete"
                found[benchmark, split, memory, order] = make_run(*place, broken)
    return found
