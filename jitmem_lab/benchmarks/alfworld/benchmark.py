"""ALFWorld as a benchmark: real games where there are data, generated households everywhere."""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import threading
from typing import Any

from ... import data
from ...errors import UserError
from ...records import Task
from ..pooled import GENERATED_NOTE, PooledBenchmark, package_version
from ..workers import WorkerPool
from .catalogue import GENERATED_GAMES, LEAD, MAX_STEPS, REAL_SPLITS, SPLITS
from .games import Entry, Game, Store, real_store

PACKAGES = ("alfworld", "textworld", "fast-downward-textworld", "TatSu")
_TARGET = "jitmem_lab.benchmarks.alfworld.mechanics:Host"


class Alfworld(PooledBenchmark):
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
    splits = tuple(SPLITS)

    def __init__(
        self,
        split: str = "generated_test",
        workers: int | None = None,
        memo: bool = True,
        timeout: float = 60.0,
    ) -> None:
        missing = [name for name in ("alfworld", "textworld") if importlib.util.find_spec(name) is None]
        if missing:
            raise UserError(f"ALFWorld needs {' and '.join(missing)}: pip install 'jitmem-lab[alfworld]'")
        self.memo = memo
        self._lock = threading.RLock()
        self._stores: dict[str, Store] = {}
        self._sample: list[str] | None = None
        packages = "-".join(package_version(name) for name in ("textworld", "fast-downward-textworld"))
        kept = data.cache_dir() / "alfworld-games" / packages
        options = {"memo": memo, "kept": str(kept)}
        super().__init__(split, WorkerPool(_TARGET, options, workers=workers, timeout=timeout))

    def load(self, split: str) -> list[Task]:
        """All tasks of a split, in the order of their ids."""
        return [_task(split, entry) for entry in self._store(split).entries]

    def spec(self, task: Task) -> dict[str, str]:
        """The texts that a worker makes the game from."""
        game = self.game(task)
        return {"domain": game.domain, "grammar": game.grammar, "problem": game.problem}

    def game(self, task: Task) -> Game:
        """The whole game of `task`."""
        self.check_task(task)
        return self._store(task.split).game(task.task_id)

    def oracle(self, task: Task) -> list[str]:
        """The planner's walkthrough of `task`."""
        return list(self.game(task).walkthrough)

    @property
    def train_split(self) -> str:
        """The split that demonstrations come from: the train split of the same source."""
        return "train" if self.split in REAL_SPLITS else "generated_train"

    @property
    def version(self) -> str:
        """Package versions and a hash of the rules (domain, grammar): equal over the splits of a source."""
        textworld = package_version("textworld")
        return f"{package_version('alfworld')} textworld-{textworld} rules-{self.rules_hash}"

    @functools.cached_property
    def rules_hash(self) -> str:
        """Hash of the PDDL domain and the text grammar, 8 hex digits."""
        store = self._store(self.split)
        game = store.game(store.entries[0].game_id)
        text = game.domain + "\0" + game.grammar.replace(LEAD + game.goal, "")
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    def provenance(self) -> dict[str, Any]:
        """Versions, content hash of the games wherever they lie, settings, the first actions seen."""
        return super().provenance() | {
            "content_hash": self._store(self.split).content_hash,
            "packages": {name: package_version(name) for name in PACKAGES},
            "memo": self.memo,
            "admissible_sample": self.admissible_sample(),
            "notes": [GENERATED_NOTE] if self.split in GENERATED_GAMES else [],
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

    def _store(self, split: str) -> Store:
        with self._lock:
            if split not in self._stores:
                self._stores[split] = self._load(split)
            return self._stores[split]

    def _load(self, split: str) -> Store:
        if split in GENERATED_GAMES:
            from .households import generated_store

            return generated_store(split)
        source = data.find(self.name)
        if split not in data.alfworld_splits(source):
            where = f" in {source.path}" if source.path else ""
            raise UserError(
                f"ALFWorld's split {split!r} was not found{where}: {data.advice(self.name)}; "
                f"without data use {', '.join(GENERATED_GAMES)}"
            )
        return real_store(source, split)


def _task(split: str, entry: Entry) -> Task:
    return Task(
        benchmark=Alfworld.name,
        split=split,
        task_id=entry.game_id,
        description=entry.goal,
        task_type=entry.task_type,
        meta={"scene": entry.scene, "sha": entry.sha},
    )
