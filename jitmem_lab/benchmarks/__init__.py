"""Benchmarks on the protocol of `jitmem_lab.benchmarks.base`, loaded by name."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any

from ..errors import UserError
from .base import Benchmark

_KNOWN = {"alfworld": ("jitmem_lab.benchmarks.alfworld.benchmark", "Alfworld")}


def benchmark_names() -> list[str]:
    """Names that `load_benchmark` knows."""
    return sorted(_KNOWN)


def load_benchmark(name: str, split: str | None = None, **options: Any) -> Benchmark:
    """The benchmark called `name`, with one of its splits loaded.

    Args:
        name: A name of `benchmark_names()`.
        split: The split; None takes the benchmark's own default.
        options: Further settings of that benchmark, e.g. `workers=2`.

    Raises:
        UserError: Unknown name, split or option, or data that are missing.
    """
    if name not in _KNOWN:
        raise UserError(_unknown("benchmark", name, benchmark_names()))
    module, attribute = _KNOWN[name]
    factory = getattr(importlib.import_module(module), attribute)
    accepted = [key for key in inspect.signature(factory).parameters if key != "split"]
    for option in options:
        if option not in accepted:
            raise UserError(_unknown(f"option of {name}", option, accepted))
    if split is not None:
        options["split"] = split
    made: Benchmark = factory(**options)
    return made


def _unknown(what: str, value: str, known: list[str]) -> str:
    close = difflib.get_close_matches(str(value), known, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return f"unknown {what} {value!r}; {hint}known are {', '.join(known)}"
