"""JitMem Lab: a notebook-first research workbench for just-in-time memory of LLM agents.

Importing the package is light; what a name needs is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_WHERE = {
    "load_benchmark": "benchmarks",
    "load_model": "models",
    "load_memory": "memories",
    "MemoryBank": "bank",
    "Executor": "execution",
    "Curator": "curation",
    "Judge": "judging",
    "run_stream": "stream",
    "Run": "runs",
    "open_run": "runs",
    "list_runs": "runs",
    "diff": "runs",
    "EvalConfig": "evaluation",
    "evaluate": "evaluation",
    "rerun": "evaluation",
    "Grid": "grids",
    "run_sweep": "sweep",
    "Comparison": "comparison",
    "run_notebook": "notebooks",
    "summary_text": "analysis",
    "curve_figure": "compare_figures",
    "Explorer": "explore",
    "TrainRun": "training",
    "UserError": "errors",
    "InfrastructureError": "errors",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name in ("views", "training"):
        return importlib.import_module(f".{name}", __name__)
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
