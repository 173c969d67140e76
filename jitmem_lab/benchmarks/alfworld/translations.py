"""Games translated for the planner's library, kept from run to run: that is most of what opening one takes.

One small file a game, in the user's cache. A file that cannot be read, or a folder that cannot be written,
costs the time of translating and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pickle
import tempfile
import zlib
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

Translate = Callable[[str, str], Any]


class Translations:
    """Translates games, each once.

    Args:
        translate: Makes what is kept from a domain and a problem.
        folder: Where it is kept, of one version of the packages only; None keeps nothing on disk.
        games: How many are kept in memory.
    """

    def __init__(self, translate: Translate, folder: Path | None, games: int = 16) -> None:
        self._translate = translate
        self._folder = folder
        self._games = games
        self._latest: OrderedDict[tuple[str, str], Any] = OrderedDict()

    def __call__(self, domain: str, problem: str) -> Any:
        """The translation of a game; it is shared, so it may only be read."""
        key = (domain, problem)
        if key in self._latest:
            self._latest.move_to_end(key)
            return self._latest[key]
        digest = hashlib.sha256(f"{len(domain)} {domain}{problem}".encode()).hexdigest()
        path = None if self._folder is None else self._folder / f"{digest[:32]}.pickle.z"
        found = None if path is None else _read(path)
        if found is None:
            found = self._translate(domain, problem)
            if path is not None:
                _write(path, found)
        self._latest[key] = found
        if len(self._latest) > self._games:
            self._latest.popitem(last=False)
        return found


def _read(path: Path) -> Any:
    """What a file keeps; None where there is none, or it is damaged in whatever way."""
    with contextlib.suppress(Exception):
        return pickle.loads(zlib.decompress(path.read_bytes()))
    return None


def _write(path: Path, value: Any) -> None:
    """Keep a value, whole or not at all."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(zlib.compress(pickle.dumps(value, protocol=5), 1))
            Path(name).replace(path)
        except OSError:
            Path(name).unlink()
            raise
