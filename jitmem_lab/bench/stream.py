"""What the streaming loop itself costs, between a model and an environment that only wait."""

from __future__ import annotations

import random
import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..benchmarks.base import Observation
from ..execution import Executor
from ..memories import load_memory
from ..models.base import Choice, Reply, Tool, refuse_tools
from ..records import Message, Sampling, Task, Trajectory, Usage
from ..session import Session
from ..stream import run_stream


class WaitingModel:
    """Answers after a fixed latency, always with the same admissible action."""

    def __init__(self, latency: float) -> None:
        self.name = "waiting"
        self.context = 32_768
        self.takes_tools = False
        self.latency = latency

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        """A fixed answer, late."""
        refuse_tools(self.name, tools)
        time.sleep(self.latency)
        return Reply("<action>look</action>", Usage(calls=1, prompt_tokens=100, completion_tokens=5))

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        """The first option, late."""
        time.sleep(self.latency)
        return Choice(0, (0.0,) * len(options), Usage(calls=1, prompt_tokens=100))

    def count_tokens(self, text: str) -> int:
        """About four characters a token."""
        return len(text) // 4 + 1

    def identity(self) -> dict[str, Any]:
        """Name and latency."""
        return {"name": self.name, "latency": self.latency}

    def close(self) -> None:
        """Nothing to free."""


class CountedEnv:
    """Ends, won, after a number of steps; its observations are as long as ALFWorld's."""

    def __init__(self, task: Task, steps: int) -> None:
        rng = random.Random(task.task_id)
        places = [f"{rng.choice(('cabinet', 'drawer', 'shelf', 'countertop'))} {n}" for n in range(1, 20)]
        self._text = "You are in the middle of a room. Looking around you, you see a " + ", a ".join(places)
        self._admissible = ("look", *(f"go to {place}" for place in places))
        self._steps = steps
        self._taken = 0

    def reset(self) -> Observation:
        """Start over."""
        self._taken = 0
        return Observation(self._text, self._admissible)

    def step(self, action: str) -> Observation:
        """One step closer to the end."""
        self._taken += 1
        done = self._taken >= self._steps
        return Observation(self._text, self._admissible, float(done), done, done)

    def close(self) -> None:
        """Nothing to give back."""


class CountedBenchmark:
    """As many tasks as asked for."""

    name, version, split, max_steps, noop = "counted", "1", "all", 50, "look"
    splits: tuple[str, ...] = ("all",)
    tells_at_reset = False

    def __init__(self, episodes: int, steps: int) -> None:
        self._episodes = episodes
        self._steps = steps

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        """Tasks with sentences like ALFWorld's."""
        rng = random.Random(0)
        things, places = (
            ("mug", "egg", "plate", "pan", "book"),
            ("shelf", "fridge", "desk", "cabinet", "drawer"),
        )
        return [
            Task(
                benchmark=self.name,
                split=self.split,
                task_id=f"counted-{n}",
                description=f"put a {rng.choice(things)} in {rng.choice(places)} {n % 7}.",
            )
            for n in range(limit or self._episodes)
        ]

    def make_env(self, task: Task, session: Session | None = None) -> CountedEnv:
        """An environment in this process."""
        return CountedEnv(task, self._steps)

    def oracle(self, task: Task) -> list[str]:
        """Looking long enough."""
        return ["look"] * self._steps

    def demonstrations(self, limit: int, seed: int = 0) -> list[Trajectory]:
        """None."""
        return []

    def provenance(self) -> dict[str, Any]:
        """Its size."""
        return {"version": self.version, "episodes": self._episodes, "steps": self._steps}

    def close(self) -> None:
        """Nothing to end."""


def _rss_mb() -> float:
    for line in (
        Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else ()
    ):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _run(
    episodes: int, steps: int, latency: float, concurrency: int, batch: int, memory: str
) -> dict[str, float]:
    bench = CountedBenchmark(episodes, steps)
    model = WaitingModel(latency)
    executor = Executor(model, act="write", temperature=0.0, max_steps=steps)
    options: dict[str, Any] = {"gate": "environment"} if memory == "raw" else {}
    with tempfile.TemporaryDirectory() as folder:
        cpu, clock = time.process_time(), time.perf_counter()
        run_stream(
            bench,
            load_memory(memory, **options),
            executor,
            out=Path(folder) / "run",
            batch_size=batch,
            concurrency=concurrency,
            progress=False,
        )
        return {"wall": time.perf_counter() - clock, "cpu": time.process_time() - cpu}


def run(
    episodes: int = 2000, steps: int = 5, latency: float = 0.2, concurrency: int = 32, memory: str = "raw"
) -> dict[str, Any]:
    """Efficiency at full concurrency, own time a step, and growth of memory.

    Efficiency is the ideal wall time (episodes x steps x latency / concurrency) over the measured one, in
    one batch of whole rounds. Own time a step is the loop's CPU time (retrieval, records, disk, bank
    included) over the steps. Growth is resident memory after all episodes less that after the first tenth.

    Args:
        episodes: Number of episodes in the memory part; a multiple of `concurrency` fewer in the first.
        steps: Turns an episode.
        latency: Seconds that each model call waits.
        concurrency: Episodes at once.
        memory: Memory system in the loop.
    """
    rounds = max(episodes // concurrency // 4, 2)
    timed = rounds * concurrency
    _run(concurrency, steps, 0.0, concurrency, concurrency, memory)
    measured = _run(timed, steps, latency, concurrency, timed, memory)
    ideal = timed * steps * latency / concurrency
    tenth = max(episodes // 10, 1)
    _run(tenth, steps, 0.0, concurrency, 10, memory)
    before = _rss_mb()
    flat = _run(episodes, steps, 0.0, concurrency, 10, memory)
    return {
        "concurrency": concurrency,
        "efficiency": round(ideal / measured["wall"], 4),
        "overhead_ms_per_step": round(1000 * measured["cpu"] / (timed * steps), 3),
        "rss_growth_mb": round(_rss_mb() - before, 2),
        "episodes": episodes,
        "timed_episodes": timed,
        "steps": steps,
        "latency_s": latency,
        "memory": memory,
        "wall_s": round(measured["wall"], 2),
        "ideal_s": round(ideal, 2),
        "unpaced_ms_per_step": round(1000 * flat["wall"] / (episodes * steps), 3),
    }


def render(result: dict[str, Any]) -> str:
    """The result in words."""
    return "\n".join(f"{name:>22}  {value}" for name, value in result.items())
