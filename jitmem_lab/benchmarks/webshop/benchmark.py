"""WebShop as a benchmark: its real products where there are data, a generated catalogue everywhere."""

from __future__ import annotations

import functools
import importlib.util
from typing import Any

from ...errors import UserError
from ...records import Task
from ..pooled import GENERATED_NOTE, PooledBenchmark, package_version
from ..workers import WorkerPool
from .catalogue import PRICE_SEED, Place, hash_at, locate, products_at
from .files import GENERATED_SPLITS, REAL_SPLITS, set_of
from .frozen import goals_at, goals_hash
from .goals import SHUFFLE_SEED, SPLITS, Goal
from .nouns import model_version
from .oracle import Solution
from .search import SETTINGS

ENGINE = 1
"""Version of the pages, the search and the reward."""
PACKAGES = ("spacy", "thefuzz", "rapidfuzz", "PyStemmer")
_MODULES = ("spacy", "thefuzz", "Stemmer")
_TARGET = "jitmem_lab.benchmarks.webshop.host:Host"


class Webshop(PooledBenchmark):
    """Shopping in a simulated web shop; see `jitmem_lab.benchmarks.base.Benchmark` for the methods.

    The reward is the published score from 0 to 1; only a score of 1 is a success.

    Args:
        split: One of the generated splits (`generated_train`, `_dev`, `_test`: need no data), of the small
            set's (`small_…`: 1,000 products, synthetic goals) or of the full one's (`full_…`). Real ones
            are the published ranges of the shuffled goals: test 0-499, dev 500-1499, train the rest.
        workers: Most worker processes; one is quick enough for many episodes at a time.
        timeout: Seconds that one call may take before its worker is killed.

    Raises:
        UserError: Unknown split, missing data, or missing packages.
    """

    name = "webshop"
    max_steps = 30
    noop = "wait"
    splits: tuple[str, ...] = (*REAL_SPLITS, *GENERATED_SPLITS)

    def __init__(self, split: str = "generated_test", workers: int | None = 1, timeout: float = 60.0) -> None:
        missing = [name for name in _MODULES if importlib.util.find_spec(name) is None]
        if missing:
            raise UserError(f"WebShop needs {' and '.join(missing)}: pip install 'jitmem-lab[webshop]'")
        model_version()
        self._places: dict[str, Place] = {}
        super().__init__(split, WorkerPool(_TARGET, workers=workers, timeout=timeout))

    def load(self, split: str) -> list[Task]:
        """All tasks of a split, in the data's order."""
        part = split.partition("_")[2]
        if set_of(split) == "generated":
            from . import generated

            rows = generated.goals(part)
            return [_task(split, f"{split}-{number:03}", row) for number, row in enumerate(rows)]
        first, end = SPLITS[part]
        place = self._place(split)
        chosen = goals_at(place)[first:end]
        if not chosen:
            raise UserError(f"WebShop's {place.name} set has no goals for {split}; use another split")
        return [
            _task(split, f"{place.name}-{number:04}", goal.record())
            for number, goal in enumerate(chosen, first)
        ]

    def spec(self, task: Task) -> dict[str, Any]:
        """Where the products lie, and the goal."""
        return {"place": list(self._place(task.split)), "goal": task.meta["goal"]}

    def goal(self, task: Task) -> Goal:
        """The goal of `task`, its hidden target included."""
        self.check_task(task)
        return Goal.of(task.meta["goal"])

    def oracle(self, task: Task) -> list[str]:
        """The purchase that earns most: the target's, where a search reaches it; see `solution`."""
        return self.solution(task).actions

    def solution(self, task: Task) -> Solution:
        """The oracle's actions, what they earn, and whether the target can be reached.

        On real products some goals can't earn 1: the published matching of options misses the very option
        that was asked for (an option `rectangular` counts as the colour `tan`, for one).
        """
        self.check_task(task)
        return Solution(**self.pool.call("solve", self.spec(task)))

    def demonstrable(self, task: Task) -> bool:
        """Whether its purchase can earn 1."""
        return self.solution(task).reward == 1

    @property
    def train_split(self) -> str:
        """The split that demonstrations come from: the train split of the same products."""
        return f"{set_of(self.split)}_train"

    @property
    def version(self) -> str:
        """Version of the engine, hash of the products, and the model that finds nouns."""
        place = self._place(self.split)
        return f"engine-{ENGINE} {place.name}-{hash_at(place)[:8]} {model_version()}"

    def provenance(self) -> dict[str, Any]:
        """Versions, content hashes of products and goals wherever they lie, seeds, search settings."""
        place = self._place(self.split)
        return super().provenance() | {
            "engine": ENGINE,
            "products": len(products_at(place)),
            "products_hash": hash_at(place),
            "goals_hash": self._goals_hash,
            "price_seed": PRICE_SEED,
            "shuffle_seed": SHUFFLE_SEED,
            "search": dict(SETTINGS),
            "noun_model": model_version(),
            "notes": [GENERATED_NOTE] if set_of(self.split) == "generated" else [],
            "packages": {name: package_version(name) for name in PACKAGES},
        }

    @functools.cached_property
    def _goals_hash(self) -> str:
        return goals_hash(tuple(self.goal(task) for task in self.tasks()))

    def _place(self, split: str) -> Place:
        name = set_of(split)
        if name not in self._places:
            self._places[name] = locate(name)
        return self._places[name]


def _task(split: str, task_id: str, goal: dict[str, Any]) -> Task:
    return Task(
        benchmark=Webshop.name,
        split=split,
        task_id=task_id,
        description=goal["instruction_text"],
        task_type=goal.get("category", ""),
        meta={"goal": goal},
    )
