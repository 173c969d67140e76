"""TextWorldExpress as a benchmark: eight families of small text games, generated from a seed.

The games run in Java, one Java process for each worker, which ends when its worker does.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

from ..errors import UserError
from ..records import Task
from .base import Observation
from .pooled import PooledBenchmark, package_version
from .workers import WorkerPool

_FAMILIES = "CookingWorld TWC Coin MapReader Arithmetic Sorting SimonSays PeckingOrder"
SOLVERS = {name.lower(): f"{name}GoldAgent" for name in _FAMILIES.split()}
"""The package's solver of each family of games; the families are the tasks' types."""

FIRST_SEEDS = {"train": 0, "dev": 10_000, "test": 20_000}
"""The package's folds; a game of another fold's seed has other rooms, objects or places."""

SEEDS = 25
"""Games of each family in a split."""


class TextWorldExpress(PooledBenchmark):
    """TextWorldExpress's games; see `jitmem_lab.benchmarks.base.Benchmark` for the methods.

    An observation's reward is the package's score so far, from -1 (lost) to 1 (won), so that an episode that
    is cut off keeps its part.

    Args:
        split: `train`, `dev` or `test`, the package's own folds.
        workers: Most worker processes; None takes the number of CPUs.
        timeout: Seconds that one call to a game may take before its worker is killed.

    Raises:
        UserError: Unknown split, or neither package nor Java.
    """

    name = "express"
    max_steps = 100
    noop = "look around"
    splits = tuple(FIRST_SEEDS)
    train_split = "train"

    def __init__(self, split: str = "test", workers: int | None = None, timeout: float = 60.0) -> None:
        if importlib.util.find_spec("textworld_express") is None:
            raise UserError("TextWorldExpress needs textworld-express: pip install 'jitmem-lab[express]'")
        if shutil.which("java") is None:
            raise UserError("TextWorldExpress needs Java, and there is no java on the PATH: install a JRE")
        super().__init__(split, WorkerPool(f"{__name__}:Host", workers=workers, timeout=timeout))

    def load(self, split: str) -> list[Task]:
        """Tasks of a split: the families take turns."""
        first = FIRST_SEEDS[split]
        return [
            Task(
                benchmark=self.name,
                split=split,
                task_id=f"{family}-{seed}",
                description=sentence,
                task_type=family,
                meta={"seed": seed},
            )
            for family, seed, sentence in self.pool.call("sentences", split, first, first + SEEDS)
        ]

    def spec(self, task: Task) -> list[Any]:
        """Family, fold and seed."""
        return [task.task_type, task.split, task.meta["seed"]]

    def oracle(self, task: Task) -> list[str]:
        """The shortest of a few plans that the package's own solver finds."""
        return list(self.pool.call("plan", *self.spec(task)))

    @property
    def version(self) -> str:
        """Version of the package, which holds games, data and seeds."""
        return package_version("textworld-express")


class Host:
    """A worker's Java process, and the games in it."""

    def __init__(self) -> None:
        from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
        from textworld_express.constants import BASEPATH, JAR_PATH

        # Java takes a free port of its own, reads its data from its folder, and ends when its stdin closes,
        # which it does however this process ends. Without performance data it writes no file.
        port, token, process = launch_gateway(
            classpath=JAR_PATH,
            cwd=BASEPATH,
            javaopts=["-XX:-UsePerfData", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m"],
            die_on_exit=True,
            enable_auth=True,
            redirect_stderr=sys.stderr,
            return_proc=True,
        )
        threading.Thread(target=_end_with, args=(process,), daemon=True).start()
        self.jvm = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token)).jvm

    def open(self, spec: Sequence[Any]) -> Game:
        """A game by family, fold and seed."""
        return Game(self.jvm, *spec)

    def sentences(self, fold: str, first: int, end: int) -> list[tuple[str, int, str]]:
        """Family, seed and task sentence of each game."""
        games = {family: Game(self.jvm, family, fold, first) for family in SOLVERS}
        seeds = range(first, end)
        return [(family, seed, game.sentence(seed)) for seed in seeds for family, game in games.items()]

    def plan(self, family: str, fold: str, seed: int) -> list[str]:
        """The shortest of three plans; each try of the solver's search has a seed, and may find none."""
        solver = getattr(self.jvm.textworldexpress.goldagent, SOLVERS[family])
        game = Game(self.jvm, family, fold, seed)

        def tried(attempt: int) -> list[str] | None:
            game.reset()
            found = solver(game.server.game()).mkGoldPath(self.jvm.scala.util.Random(attempt))
            return game.needed(list(found._2()))

        plans = list(itertools.islice(filter(None, map(tried, range(100))), 3))
        if not plans:
            raise RuntimeError(f"the solver found no plan for {family} {seed}")
        return min(plans, key=len)


class Game:
    """One game, from its reset on."""

    def __init__(self, jvm: Any, family: str, fold: str, seed: int) -> None:
        self.server = jvm.textworldexpress.runtime.PythonInterface()
        self.server.load(family, "")
        self._fold = fold
        self._seed = seed
        self._admissible: list[str] = []

    def reset(self) -> Observation:
        """The game from its start, the same each time."""
        return self._seen(self.server.generateNewGameJSON(self._seed, self._fold, False), True)

    def step(self, action: str) -> Observation:
        """Act; the game answers what it does not understand."""
        if not isinstance(action, str):
            raise UserError(f"an action must be a string, not {type(action).__name__}")
        sent = action.encode("utf-8", "replace").decode()  # no lone surrogate passes through the socket
        return self._seen(self.server.stepJSON(sent), action in self._admissible)

    def sentence(self, seed: int) -> str:
        """The task sentence of the game with this seed, which this game then is."""
        self._seed = seed
        self.reset()
        return " ".join(self.server.getTaskDescription().split())

    def needed(self, plan: Sequence[str]) -> list[str] | None:
        """The actions of a plan that the game takes, up to success; None if it does not come."""
        seen = self.reset()
        kept = []
        for action in plan:
            if action in seen.admissible:
                kept.append(action)
                seen = self.step(action)
            if seen.done:
                break
        return kept if seen.success else None

    def close(self) -> None:
        """Nothing to give back: Java forgets the game when Python does."""

    def _seen(self, answer: str, accepted: bool) -> Observation:
        state = json.loads(answer)
        self._admissible = sorted(set(state["validActions"]))
        won = bool(state["tasksuccess"])
        done = won or bool(state["taskfailure"])
        return Observation(
            text=state["observation"].strip(),
            admissible=tuple(self._admissible),
            reward=float(state["score"]),
            done=done,
            success=won,
            accepted=accepted,
            parts={"score": state["scoreRaw"]} if done else {},
        )


def _end_with(process: subprocess.Popen[bytes]) -> None:
    process.wait()
    print("its Java process ended", file=sys.stderr, flush=True)
    os._exit(1)
