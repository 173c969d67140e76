"""Games translated for the planner's library, kept from run to run: that is most of what opening one takes.

One small file a game, in the user's cache. A file that cannot be read or holds something else, or a folder
that cannot be written, costs the time of translating and nothing else.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import pickle
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeGuard

from ...files import write_atomic

Translate = Callable[[str, str], Any]


def kept(translate: Translate, folder: Path | None, games: int = 16) -> Translate:
    """`translate` of a domain and a problem, each asked for once; what comes of it may only be read.

    Args:
        translate: What is remembered.
        folder: Where it is kept, of one version of the packages only; None keeps nothing on disk.
        games: How many are kept in memory.
    """

    @functools.lru_cache(maxsize=games)
    def translated(domain: str, problem: str) -> Any:
        if folder is None:
            return translate(domain, problem)
        digest = hashlib.sha256(f"{len(domain)} {domain}{problem}".encode()).hexdigest()
        path = folder / f"{digest[:32]}.pickle.z"
        with contextlib.suppress(Exception):  # none there, or damaged in whatever way
            there = pickle.loads(zlib.decompress(path.read_bytes()))
            if _is_translation(there):
                return there
        found = translate(domain, problem)
        with contextlib.suppress(Exception):  # no room, no right, or nothing that can be pickled
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, zlib.compress(pickle.dumps(found, protocol=5), 1))
        return found

    return translated


def _is_translation(value: Any) -> TypeGuard[tuple[Any, str]]:
    """Whether a value is what `fast_downward.pddl2sas` gives: the task, and its text for the planner."""
    return isinstance(value, tuple) and len(value) == 2 and value[0] is not None and isinstance(value[1], str)
