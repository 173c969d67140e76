"""Benchmarks on the protocol of `jitmem_lab.benchmarks.base`, loaded by name or from one's own file."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UserError, did_you_mean

if TYPE_CHECKING:  # the command line asks here for names, and must stay light
    from .base import Benchmark


class _Known(NamedTuple):
    target: str
    split: str


_KNOWN = {
    "alfworld": _Known("jitmem_lab.benchmarks.alfworld.benchmark:Alfworld", "generated_test"),
    "express": _Known("jitmem_lab.benchmarks.express:TextWorldExpress", "test"),
    "tau2": _Known("jitmem_lab.benchmarks.tau2.benchmark:Tau2", "telecom_solo_small"),
    "webshop": _Known("jitmem_lab.benchmarks.webshop.benchmark:Webshop", "generated_test"),
}


def benchmark_names() -> list[str]:
    """Names that `load_benchmark` knows."""
    return sorted(_KNOWN)


def default_split(name: str) -> str:
    """The split that is played unless another is asked for; one that needs no data.

    Args:
        name: As for `load_benchmark`. One's own benchmark says it as the default of its `split` argument;
            else it is the last of its `splits`.

    Raises:
        UserError: Unknown name, or a benchmark of one's own that has no default.
    """
    if ":" not in name:
        return _known(name).split
    factory = _factory(name)
    split = inspect.signature(factory).parameters.get("split")
    if split is not None and isinstance(split.default, str):
        return split.default
    if not getattr(factory, "splits", ()):
        raise UserError(f"{name} names no splits: give one, or a default to its split argument")
    return str(factory.splits[-1])


def benchmark_parameters(name: str) -> list[str]:
    """Names of the parameters of a benchmark's class; `UserError` for an unknown name."""
    return list(inspect.signature(_factory(name)).parameters)


def load_benchmark(name: str, split: str | None = None, **options: Any) -> Benchmark:
    """The benchmark called `name`, with one of its splits loaded.

    Args:
        name: A name of `benchmark_names()`, or one's own class: `my_module:MyBenchmark`, or
            `path/to/file.py:MyBenchmark`.
        split: The split; None takes `default_split(name)`.
        options: Further settings of that benchmark, e.g. `workers=2`.

    Raises:
        UserError: Unknown name, split or option, data that are missing, or a class that is no benchmark.
    """
    factory = _factory(name)
    parameters = inspect.signature(factory).parameters
    if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        accepted = [key for key in parameters if key != "split"]
        for option in options:
            if option not in accepted:
                raise UserError(_unknown(f"option of {name}", option, accepted))
    made: Benchmark = factory(split=default_split(name) if split is None else split, **options)
    if ":" in name:
        from .loading import check_complete

        check_complete(made, name)
    return made


def _factory(name: str) -> Any:
    from .loading import benchmark_class, load_object

    return benchmark_class(name) if ":" in name else load_object(_known(name).target)


def _known(name: str) -> _Known:
    if name not in _KNOWN:
        raise UserError(
            _unknown("benchmark", name, benchmark_names()) + "; one's own is module:Class or file.py:Class"
        )
    return _KNOWN[name]


def _unknown(what: str, value: str, known: list[str]) -> str:
    return f"unknown {what} {value!r}; {did_you_mean(value, known)} known are {', '.join(known)}"
