"""Whether a config can be run at all, told before any model is loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

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
from ..grids import Cell
from ..models import check_spec


class _Unloaded:
    """Stands for a model while parameters are checked; it is never asked."""

    context = 10**9
    takes_tools = True

    def __init__(self, name: str) -> None:
        self.name = name

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    def identity(self) -> dict[str, Any]:
        return {"name": self.name}

    def close(self) -> None:
        pass


def check_cells(cells: Sequence[Cell]) -> dict[str, int]:
    """Number of episodes of each cell by name, once all parameters have proved possible.

    Everything that an evaluation is made of is made once, around models that aren't loaded.

    Raises:
        UserError: Parameters that don't go together, an unknown option, model or split, or missing data.
    """
    benches: dict[tuple[str, ...], Any] = {}
    totals = {}
    embedders: dict[str, Embedder] = {}

    def embedder(spec: str) -> Embedder:
        if spec not in embedders:
            embedders[spec] = stack.enter_context(contextlib.closing(load_embedder(spec)))
        return embedders[spec]

    with contextlib.ExitStack() as stack:
        for cell in cells:
            config = cell.config
            for spec in model_names(config):
                check_spec(spec)
            key = benchmark_key(config)
            if key not in benches:
                benches[key] = stack.enter_context(contextlib.closing(make_benchmark(config, _Unloaded)))
            make_executor(config, _Unloaded(config.model))  # type: ignore[arg-type]
            memory = make_memory(config, _Unloaded, benches[key], embedder)
            if memory.needs_judge:
                make_judge(config, _Unloaded(config.judge_model or config.model))  # type: ignore[arg-type]
            totals[cell.name] = len(stream_tasks(config, benches[key]))
    return totals


def model_names(config: EvalConfig) -> set[str]:
    """The models that a config names."""
    named = (config.model, config.curator_model, config.judge_model, config.user_model)
    return {spec for spec in named if spec is not None}
