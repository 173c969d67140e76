"""Whether a config can be run at all, told before any model is loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

from ..benchmarks.base import Benchmark
from ..embedding import Embedder, load_embedder
from ..evaluation import (
    EvalConfig,
    benchmark_key,
    make_benchmark,
    make_executor,
    make_judge,
    make_memory,
    stream_tasks,
)
from ..execution import Executor
from ..grids import Cell
from ..judging import Judge
from ..models import check_spec
from ..records import Task

_ENOUGH = 10**9
"""A context in tokens that is never too short."""


class _Unloaded:
    """Stands for a model while parameters are checked; it is never asked."""

    takes_tools = True

    def __init__(self, name: str, context: int = _ENOUGH) -> None:
        self.name = name
        self.context = context

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    def close(self) -> None:
        pass


class Checked(NamedTuple):
    """What an evaluation is made of, around models that aren't loaded."""

    benchmark: Benchmark
    """Shared by all configs that are played on it."""
    executor: Executor
    """The executor."""
    memory: Any
    """The memory system, not open."""
    judge: Judge | None
    """The judge, where the memory asks one."""
    tasks: list[Task]
    """The stream."""


class Checker:
    """Makes evaluations' parts; a context manager, which closes what it made.

    Args:
        context: Context in tokens of a model by its name.
    """

    def __init__(self, context: Callable[[str], int] = lambda _: _ENOUGH) -> None:
        self._context = context
        self._benches: dict[tuple[str, ...], Benchmark] = {}
        self._embedders: dict[str, Embedder] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check(self, config: EvalConfig) -> Checked:
        """The parts of a config.

        Raises:
            UserError: Parameters that don't go together, an unknown option, model or split, or missing data.
        """
        for spec in model_names(config):
            check_spec(spec)
        key = benchmark_key(config)
        if key not in self._benches:
            made = make_benchmark(config, self._model)
            self._benches[key] = self._stack.enter_context(contextlib.closing(made))
        bench = self._benches[key]
        executor = make_executor(config, self._model(config.model))
        memory = make_memory(config, self._model, bench, self._embedder)
        judge = (
            make_judge(config, self._model(config.judge_model or config.model))
            if memory.needs_judge
            else None
        )
        return Checked(bench, executor, memory, judge, stream_tasks(config, bench))

    def _model(self, spec: str) -> Any:
        return _Unloaded(spec, self._context(spec))

    def _embedder(self, spec: str) -> Embedder:
        if spec not in self._embedders:
            self._embedders[spec] = self._stack.enter_context(contextlib.closing(load_embedder(spec)))
        return self._embedders[spec]


def check_cells(cells: Sequence[Cell]) -> dict[str, int]:
    """Number of episodes of each cell by name, once all parameters have proved possible.

    Everything that an evaluation is made of is made once, around models that aren't loaded.

    Raises:
        UserError: Parameters that don't go together, an unknown option, model or split, or missing data.
    """
    with Checker() as checker:
        return {cell.name: len(checker.check(cell.config).tasks) for cell in cells}


def model_names(config: EvalConfig) -> set[str]:
    """The models that a config names."""
    named = (config.model, config.curator_model, config.judge_model, config.user_model)
    return {spec for spec in named if spec is not None}
