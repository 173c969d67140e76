"""Panel views of runs: the same objects in a notebook cell and in the served dashboards."""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "BankView": "bank",
    "Comparer": "compare",
    "Inspector": "inspect",
    "JudgeView": "judge",
    "LiveView": "live",
    "TrainView": "train",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
