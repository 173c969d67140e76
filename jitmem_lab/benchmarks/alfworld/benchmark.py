"""ALFWorld as a benchmark: real games where there are data, generated households everywhere."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import random
import threading
from typing import Any

from ... import data
from ...errors import UserError
from ...records import Task, Trajectory
from ..base import Observation
from ..workers import RemoteEnv, WorkerPool
from .catalogue import GENERATED_GAMES, LEAD, MAX_STEPS, REAL_SPLITS, SPLITS
from .games import Entry, Game, Store, real_store

PACKAGES = ("alfworld", "textworld", "fast-downward-textworld", "TatSu")
_TARGET = "jitmem_lab.benchmarks.alfworld.mechanics:Host"


class Alfworld:
    """ALFWorld text games; see `jitmem_lab.benchmarks.base.Benchmark` for the methods.

    Args:
        split: One of the real splits (`train`, `valid_train`, `valid_seen`, `valid_unseen`: need data) or
            of the generated ones (`generated_train`, `generated_seen`, `generated_test`: need none).
        workers: Most worker processes; None takes the number of CPUs.
        memo: Whether the workers memoise TextWorld's pure functions (same games, several times faster).
        timeout: Seconds that one call to a game may take before its worker is killed.

    Raises:
        UserError: Unknown split, missing data, or missing packages.
    """

    name = "alfworld"
    max_steps = MAX_STEPS

    def __init__(
        self,
        split: str = "valid_seen",
        workers: int | None = None,
        memo: bool = True,
        timeout: float = 60.0,
    ) -> None:
        missing = [name for name in ("alfworld", "textworld") if importlib.util.find_spec(name) is None]
        if missing:
            raise UserError(f"ALFWorld needs {' and '.join(missing)}: pip install 'jitmem-lab[alfworld]'")
        self.split = split
        self.memo = memo
        self._lock = threading.RLock()
        self._stores: dict[str, Store] = {}
        self._sample: list[str] | None = None
        self.pool = WorkerPool(_TARGET, {"memo": memo}, workers=workers, timeout=timeout)
        self._store(split)

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        """Tasks of the split; `order` is the seed of a permutation, taken before `limit`."""
        return self.split_tasks(self.split, limit, order)

    def split_tasks(self, split: str, limit: int | None = None, order: int | None = None) -> list[Task]:
        """Tasks of any split of this benchmark."""
        if limit is not None and limit < 0:
            raise UserError(f"limit must be 0 or more, not {limit}")
        entries = list(self._store(split).entries)
        if order is not None:
            random.Random(order).shuffle(entries)
        return [_task(split, entry) for entry in entries[:limit]]

    def make_env(self, task: Task) -> AlfworldEnv:
        """An environment for `task`; its worker is taken at the first reset."""
        self._check(task)
        return AlfworldEnv(self, task)

    def game(self, task: Task) -> Game:
        """The whole game of `task`."""
        self._check(task)
        return self._store(task.split).game(task.task_id)

    def oracle(self, task: Task) -> list[str]:
        """The planner's walkthrough of `task`."""
        return list(self.game(task).walkthrough)

    @property
    def train_split(self) -> str:
        """The split that demonstrations come from: the train split of the same source."""
        return "train" if self.split in REAL_SPLITS else "generated_train"

    def demonstrations(self, limit: int, seed: int = 0) -> list[Trajectory]:
        """Oracle-played trajectories of `limit` train tasks drawn with `seed`; cached by content."""
        from .demos import demonstrations

        return demonstrations(self, self.split_tasks(self.train_split, limit, seed))

    @property
    def version(self) -> str:
        """Package versions and a hash of the rules (domain, grammar): equal over the splits of a source."""
        return f"{_version('alfworld')} textworld-{_version('textworld')} rules-{self.rules_hash}"

    @functools.cached_property
    def rules_hash(self) -> str:
        """Hash of the PDDL domain and the text grammar, 8 hex digits."""
        store = self._store(self.split)
        game = store.game(store.entries[0].game_id)
        text = game.domain + "\0" + game.grammar.replace(LEAD + game.goal, "")
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def provenance(self) -> dict[str, Any]:
        """Versions, content hash of the games wherever they lie, settings, the first actions seen."""
        store = self._store(self.split)
        return {
            "benchmark": self.name,
            "version": self.version,
            "split": self.split,
            "games": len(store.entries),
            "content_hash": store.content_hash,
            "packages": {name: _version(name) for name in PACKAGES},
            "memo": self.memo,
            "max_steps": self.max_steps,
            "admissible_sample": self.admissible_sample(),
        }

    def admissible_sample(self) -> list[str]:
        """Admissible actions at the start of the split's first task: shows the grammar's action forms."""
        with self._lock:
            if self._sample is None:
                env = self.make_env(self.tasks(limit=1)[0])
                try:
                    self._sample = list(env.reset().admissible)
                finally:
                    env.close()
            return self._sample

    def close(self) -> None:
        """End the worker processes."""
        self.pool.close()

    def __enter__(self) -> Alfworld:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, task: Task) -> None:
        if task.benchmark != self.name:
            raise UserError(f"task {task.task_id!r} belongs to benchmark {task.benchmark!r}, not {self.name}")
        if task.task_id not in self._store(task.split):
            raise UserError(f"split {task.split!r} has no game {task.task_id!r} in the data found here")

    def _store(self, split: str) -> Store:
        with self._lock:
            if split not in self._stores:
                self._stores[split] = self._load(split)
            return self._stores[split]

    def _load(self, split: str) -> Store:
        if split in GENERATED_GAMES:
            from .households import generated_store

            return generated_store(split)
        if split not in REAL_SPLITS:
            raise UserError(f"ALFWorld has no split {split!r}; it has {', '.join(SPLITS)}")
        source = data.find(self.name)
        if split not in data.alfworld_splits(source):
            where = f" in {source.path}" if source.path else ""
            raise UserError(
                f"ALFWorld's split {split!r} was not found{where}: {data.advice(self.name)}; "
                f"without data use {', '.join(GENERATED_GAMES)}"
            )
        return real_store(source, split)


class AlfworldEnv:
    """One episode's game in a worker process."""

    def __init__(self, benchmark: Alfworld, task: Task) -> None:
        self._benchmark = benchmark
        self._task = task
        self._remote: RemoteEnv | None = None

    def reset(self) -> Observation:
        """Start over, in a new worker if the old one died."""
        if self._remote is None or not self._remote.alive:
            self.close()
            game = self._benchmark.game(self._task)
            spec = {"domain": game.domain, "grammar": game.grammar, "problem": game.problem}
            self._remote = self._benchmark.pool.open(spec)
        return _observation(self._remote.call("reset"))

    def step(self, action: str) -> Observation:
        """Act; an unknown or inadmissible action is answered by the game's own text."""
        if self._remote is None:
            raise UserError("reset() the environment before its first step")
        return _observation(self._remote.call("step", action))

    @property
    def pid(self) -> int | None:
        """Process id of the worker that holds the game; None before the first reset."""
        return self._remote.pid if self._remote else None

    def close(self) -> None:
        """Give the worker's place back; calling it twice is fine."""
        if self._remote is not None:
            self._remote.close()
            self._remote = None

    def __enter__(self) -> AlfworldEnv:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _observation(answer: list[Any]) -> Observation:
    text, admissible, reward, done, success = answer
    return Observation(text, tuple(admissible), reward, done, success)


def _task(split: str, entry: Entry) -> Task:
    return Task(
        benchmark=Alfworld.name,
        split=split,
        task_id=entry.game_id,
        description=entry.goal,
        task_type=entry.task_type,
        meta={"scene": entry.scene, "sha": entry.sha},
    )


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "missing"
