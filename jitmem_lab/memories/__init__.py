"""Memory systems by name."""

from __future__ import annotations

import difflib
import importlib
import inspect
import math
from collections.abc import Iterable
from typing import Any, get_args, get_type_hints

from ..errors import UserError
from .base import Gate, Memory

SYSTEMS = {
    "none": "none:NoMemory",
    "raw": "raw:RawMemory",
    "jitmem": "jitmem:JitMemory",
    "oracle": "oracle:OracleMemory",
    "reasoningbank": "reasoningbank:ReasoningBank",
    "awm": "awm:WorkflowMemory",
    "reflexion": "reflexion:Reflexion",
    "skillos": "skillos:SkillMemory",
    "memp": "memp:ProcedureMemory",
    "expel": "expel:Expel",
    "memharness": "memharness:MemHarness",
}
"""Each system's module here and its class."""
NAMES = tuple(SYSTEMS)
"""Memory systems that can be chosen."""
SHARED = {
    "gate": "gate",
    "exclude_own": "exclude_own",
    "trace_format": "trace_format",
    "temperature": "writer_temperature",
    "max_tokens": "writer_max_tokens",
    "thinking": "curator_thinking",
}
"""Parameters that a run has too, by its name there; systems that write items get others as options."""
UNTAUGHT = ("none", "oracle", "reflexion")
"""Systems that demonstrations teach nothing."""
GIVEN = ("model", "curator", "embedder", "benchmark")
"""Parameters that are objects: passed where a system takes them, missed where it must have them."""


def memory_class(name: str) -> Any:
    """The class of a system.

    Raises:
        UserError: Unknown name.
    """
    if name not in SYSTEMS:
        raise UserError(f"there is no memory {name!r}; {_near(name, NAMES)}")
    module, _, attribute = SYSTEMS[name].partition(":")
    return getattr(importlib.import_module(f".{module}", __name__), attribute)


def parameters(name: str) -> dict[str, inspect.Parameter]:
    """The parameters of a system's own, by name; those inherited from its base are among them."""
    found: dict[str, inspect.Parameter] = {}
    for layer in reversed(memory_class(name).__mro__):
        if "__init__" not in vars(layer) or layer is object:
            continue
        own = inspect.signature(layer.__init__).parameters
        found |= {key: p for key, p in own.items() if key != "self" and p.kind is p.KEYWORD_ONLY}
        found |= {key: p for key, p in own.items() if key in GIVEN}
    for key in getattr(memory_class(name), "WITHOUT", ()):
        found.pop(key, None)
    return found


def systems_with(option: str) -> list[str]:
    """Names of the systems that have a parameter of their own of this name."""
    return [name for name in NAMES if option in parameters(name) and option not in GIVEN]


def variants(name: str) -> dict[str, dict[str, Any]]:
    """The named sets of parameters of a system."""
    found: dict[str, dict[str, Any]] = getattr(memory_class(name), "VARIANTS", {})
    return found


def load_memory(name: str, **options: Any) -> Memory:
    """A memory system by name.

    Args:
        name: One of `NAMES`.
        options: The system's own parameters, e.g. `k=3`, and what it works with: `curator` (a `Curator`, or
            a chat model to make one of), `model` (the chat model that writes), `embedder` (for dense
            retrieval), `benchmark` (where solutions come from). Of these last, what a system doesn't take is
            ignored. `variant` picks a named set of parameters; those given go before it.

    Raises:
        UserError: Unknown name or parameter, a value of another type, or something that the system needs is
            missing.
    """
    made = memory_class(name)
    allowed = parameters(name)
    variant = options.pop("variant", None)
    for option in options:
        if option not in allowed and option not in GIVEN:
            raise UserError(f"memory {name} has no parameter {option!r}; {_near(option, sorted(allowed))}")
    if variant is not None:
        known = variants(name)
        if variant not in known:
            raise UserError(f"memory {name} has no variant {variant!r}; {_near(variant, known)}")
        options = known[variant] | options
    options = {key: value for key, value in options.items() if key in allowed}
    _check_types(name, options)
    for given in GIVEN:
        needed = given in allowed and allowed[given].default is inspect.Parameter.empty
        missing = needed and options.get(given) is None
        if missing or isinstance(options.get(given), str | int | float | bool | dict | list):
            raise UserError(f"memory {name} needs a {given}: {_HINTS[given]}")
    memory: Memory = made(**options)
    return memory


_KINDS = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}


def _check_types(name: str, options: dict[str, Any]) -> None:
    """`UserError` for an option of another type than its parameter is annotated with."""
    hints: dict[str, Any] = {}
    for layer in reversed(memory_class(name).__mro__):
        if "__init__" in vars(layer) and layer is not object:
            hints |= get_type_hints(layer.__init__)
    for option, value in options.items():
        hint = hints[option]
        kinds = {kind for kind in (get_args(hint) or (hint,)) if kind in _KINDS}
        nullable = type(None) in get_args(hint)
        if not kinds or (value is None and nullable):
            continue
        fits = type(value) in kinds or (float in kinds and type(value) is int)
        if not fits or (isinstance(value, float) and not math.isfinite(value)):
            said = " or ".join(_KINDS[kind] for kind in _KINDS if kind in kinds)
            raise UserError(f"{option} must be {said}{' or None' if nullable else ''}, not {value!r}")


_HINTS = {
    "curator": "pass curator=load_model(...)",
    "model": "pass model=load_model(...)",
    "embedder": "pass embedder=load_embedder('wordllama')",
    "benchmark": "pass benchmark=load_benchmark(...)",
}


def _near(value: str, known: Iterable[str]) -> str:
    names = list(known)
    near = difflib.get_close_matches(str(value), names, 1)
    return f"did you mean {near[0]}?" if near else f"there are {', '.join(names) or 'none'}"


__all__ = ["NAMES", "SYSTEMS", "Gate", "Memory", "load_memory", "memory_class", "parameters", "variants"]
