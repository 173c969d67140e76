"""Memory systems by name."""

from __future__ import annotations

import difflib
import inspect
from typing import Any

from ..errors import UserError
from .base import Gate, Memory

NAMES = ("none", "raw", "jitmem", "oracle")
"""Memory systems that can be chosen."""


def load_memory(name: str, *, curator: Any = None, benchmark: Any = None, **options: Any) -> Memory:
    """A memory system by name.

    Args:
        name: One of `NAMES`.
        curator: For `jitmem`: a `Curator`, or a chat model to make one of at its defaults.
        benchmark: For the control `oracle`: where the solutions come from.
        options: The system's own parameters, e.g. `k=3`.

    Raises:
        UserError: Unknown name or parameter.
    """
    from ..curation import Curator
    from .jitmem import JitMemory
    from .none import NoMemory
    from .oracle import OracleMemory
    from .raw import RawMemory

    if name not in NAMES:
        near = difflib.get_close_matches(str(name), NAMES, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"there is no memory {name!r}; {hint}there are {', '.join(NAMES)}")
    if name in ("none", "oracle"):
        allowed: set[str] = set()
    else:
        allowed = set(inspect.signature(RawMemory.__init__).parameters) - {"self"}
        if name == "jitmem":
            allowed = (allowed | {"on_empty"}) - {"max_trace_tokens"}
    for option in options:
        if option not in allowed:
            near = difflib.get_close_matches(option, allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"it takes {', '.join(sorted(allowed)) or 'none'}"
            raise UserError(f"memory {name} has no parameter {option!r}; {hint}")
    if name == "none":
        return NoMemory()
    if name == "oracle":
        if benchmark is None:
            raise UserError("memory oracle needs the benchmark: pass benchmark=load_benchmark(...)")
        return OracleMemory(benchmark)
    if name == "raw":
        return RawMemory(**options)
    if curator is None or isinstance(curator, str):
        raise UserError("memory jitmem needs a curator: pass curator=load_model(...)")
    return JitMemory(curator=curator if isinstance(curator, Curator) else Curator(curator), **options)


__all__ = ["NAMES", "Gate", "Memory", "load_memory"]
