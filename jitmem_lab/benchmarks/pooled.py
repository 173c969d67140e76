"""What benchmarks share that play in worker processes: tasks in order, environments, demonstrations.

A benchmark of one's own is one file: a host that runs in the worker, and a subclass of `PooledBenchmark`.
"""

from __future__ import annotations

import importlib.metadata
import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any, Self

from ..errors import UserError
from ..records import Task, Trajectory
from ..session import Session
from .base import Env, Observation
from .workers import RemoteEnv, WorkerPool, class_target

GENERATED_NOTE = "made by this package: figures are not comparable with published ones"
"""What a benchmark says of its generated splits in `provenance()["notes"]`."""


class PooledBenchmark:
    """The shared half of a benchmark; see `jitmem_lab.benchmarks.base.Benchmark` for the methods.

    A subclass sets the class attributes and gives `load`, `oracle` and `version`.

    Args:
        split: One of `splits`.
        pool: The worker processes. Their host's `open(spec)` gives an object with `reset()` and
            `step(action)`, both answering with the fields of an `Observation` as a dict or in order,
            and `close()` if it has something to close. None makes the class itself the host: it has such
            an `open`, and lies in a file that a worker can read.
    """

    name = ""
    max_steps = 30
    noop = "look"
    tells_at_reset = False
    splits: tuple[str, ...] = ()

    def __init__(self, split: str, pool: WorkerPool | None = None) -> None:
        self.split = split
        self.pool = pool or WorkerPool(class_target(type(self)), {"split": split})
        self._loaded: dict[str, dict[str, Task]] = {}
        self.split_tasks(split, limit=0)

    def load(self, split: str) -> Sequence[Task]:
        """All tasks of a split, in the data's order; `UserError` where it can't be had."""
        raise NotImplementedError

    def task(self, split: str, task_id: str, description: str, **more: Any) -> Task:
        """A task of this benchmark, for `load`; `more` are other fields of a `Task`."""
        return Task(benchmark=self.name, split=split, task_id=task_id, description=description, **more)

    def spec(self, task: Task) -> Any:
        """What the host's `open` is given to make the environment of `task` (JSON only)."""
        return task.model_dump()

    def oracle(self, task: Task) -> list[str]:
        """Actions that solve `task`, known without any model."""
        raise NotImplementedError

    @property
    def version(self) -> str:
        """Versions of the environment and its data that can change a result."""
        raise NotImplementedError

    @property
    def train_split(self) -> str:
        """The split that demonstrations come from: `train`, unless a subclass says another."""
        return "train" if "train" in self.splits else self.split

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        """Tasks of the split; `order` is the seed of a permutation, taken before `limit`."""
        return self.split_tasks(self.split, limit, order)

    def split_tasks(self, split: str, limit: int | None = None, order: int | None = None) -> list[Task]:
        """Tasks of any split of this benchmark."""
        if limit is not None and limit < 0:
            raise UserError(f"limit must be 0 or more, not {limit}")
        found = list(self._by_id(split).values())
        if order is not None:
            random.Random(order).shuffle(found)
        return found[:limit]

    def make_env(self, task: Task, session: Session | None = None) -> Env:
        """An environment for `task`; its worker is taken at the first reset."""
        self.check_task(task)
        return PooledEnv(self.pool, lambda: self.spec(task))

    def check_task(self, task: Task) -> None:
        """`UserError` unless `task` is one of this benchmark's."""
        if task.benchmark != self.name:
            raise UserError(f"task {task.task_id!r} belongs to benchmark {task.benchmark!r}, not {self.name}")
        if task.task_id not in self._by_id(task.split):
            raise UserError(f"split {task.split!r} has no task {task.task_id!r} in the data found here")

    def _by_id(self, split: str) -> dict[str, Task]:
        if split not in self.splits:
            raise UserError(f"{self.name} has no split {split!r}; it has {', '.join(self.splits)}")
        if split not in self._loaded:
            self._loaded[split] = {task.task_id: task for task in self.load(split)}
        return self._loaded[split]

    def demonstrations(self, limit: int, seed: int = 0) -> list[Trajectory]:
        """Oracle-played trajectories of `limit` train tasks drawn with `seed`; cached by content."""
        from .demos import demonstrations

        if limit < 0:
            raise UserError(f"limit must be 0 or more, not {limit}")
        drawn = (task for task in self.split_tasks(self.train_split, order=seed) if self.demonstrable(task))
        return demonstrations(self, list(itertools.islice(drawn, limit)), self.pool.limit)

    def demonstrable(self, task: Task) -> bool:
        """Whether the oracle solves `task`: those that it doesn't are no demonstrations."""
        return True

    def provenance(self) -> dict[str, Any]:
        """Versions, data origin and settings, recorded with each run."""
        return {
            "benchmark": self.name,
            "version": self.version,
            "split": self.split,
            "games": len(self.split_tasks(self.split)),
            "max_steps": self.max_steps,
        }

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class PooledEnv:
    """One episode's environment in a worker process.

    Args:
        pool: The workers.
        spec: Gives what the host's `open` wants; asked at each reset that needs a new worker.
    """

    def __init__(self, pool: WorkerPool, spec: Callable[[], Any]) -> None:
        self._pool = pool
        self._spec = spec
        self._remote: RemoteEnv | None = None

    def reset(self) -> Observation:
        """Start over, in a new worker if the old one died."""
        if self._remote is None or not self._remote.alive:
            self.close()
            self._remote = self._pool.open(self._spec())
        return observation(self.call("reset"))

    def step(self, action: str) -> Observation:
        """Act; an action that the environment does not take is answered by its own text."""
        return observation(self.call("step", action))

    def call(self, method: str, *args: Any) -> Any:
        """The answer of one of the environment's methods in the worker."""
        if self._remote is None:
            raise UserError("reset() the environment before its first step")
        return self._remote.call(method, *args)

    @property
    def pid(self) -> int | None:
        """Process id of the worker that holds the episode; None before the first reset."""
        return self._remote.pid if self._remote else None

    def close(self) -> None:
        """Give the worker's place back; calling it twice is fine."""
        if self._remote is not None:
            self._remote.close()
            self._remote = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_KINDS: dict[str, tuple[type, ...]] = {
    "text": (str,),
    "admissible": (list, tuple),
    "reward": (float, int),
    "done": (bool,),
    "success": (bool,),
    "parts": (dict,),
}


def observation(answer: Any) -> Observation:
    """What a worker answered, as an observation.

    Raises:
        UserError: The environment's `reset` or `step` gives something else.
    """
    try:
        seen = Observation(**answer) if isinstance(answer, dict) else Observation(*answer)
    except TypeError as error:
        raise UserError(f"reset() and step() give the fields of an Observation: {error}") from None
    for field, kinds in _KINDS.items():
        if not isinstance(getattr(seen, field), kinds):
            raise UserError(
                f"reset() and step() give a {field} of another type than {kinds[0].__name__}: "
                f"{getattr(seen, field)!r:.80}"
            )
    return seen._replace(
        admissible=tuple(seen.admissible), reward=float(seen.reward), tools=tuple(seen.tools)
    )


def package_version(package: str) -> str:
    """The installed version of a package, or `missing`."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
