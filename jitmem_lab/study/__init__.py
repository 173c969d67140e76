"""The study: the paper's tables and figures as one list of runs, at four sizes, and its report."""

from __future__ import annotations

import importlib
from typing import Any

_WHERE = {
    "PARTS": "parts",
    "SIZES": "sizes",
    "Plan": "plan",
    "make_plan": "plan",
    "run_study": "running",
    "write_study": "reporting",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)
