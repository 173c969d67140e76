"""Reading the runs of a comparison aside, so that a server answers others meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from ..errors import UserError
from .aside import aside
from .beside import work_out
from .comparing import Reading, Side

SLICE = 0.2
"""Seconds of reading after which a served page shows how far it is."""


class Gathering:
    """Reads several runs, a slice of time at a time.

    Args:
        paths: Their directories by name, first the one that the others are compared with.
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self.sides: list[Side] = []
        """Those that were read to their end."""
        self.problems: list[str] = []
        """Why others cannot be."""
        self._count = len(paths)
        self._owed = list(paths.items())
        self._reading: Reading | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is left to be read."""
        return not self._owed

    @property
    def share(self) -> float:
        """Share of what was to be read that was."""
        reading = self._reading
        now = 0.0 if reading is None else reading.share
        return 1.0 if self.whole else (self._count - len(self._owed) + now) / self._count

    def go_on(self, seconds: float | None = None) -> None:
        """Read on; `problems` tells of what cannot be.

        Args:
            seconds: After which it stops for now; None reads all.
        """
        limit = None if seconds is None else time.monotonic() + seconds
        while self._owed:
            left = None if limit is None else limit - time.monotonic()
            name, path = self._owed[0]
            try:
                self._reading = self._reading or Reading(name, path)
                if left is not None and left <= 0 and self._reading.side is None:
                    return
                side = self._reading.go_on(left)
                if side is None:
                    return
                self.sides.append(side)
            except UserError as error:
                self.problems.append(f"{name}: {error}")
            self._reading = None
            del self._owed[0]

    def go_on_aside(self, then: Callable[[], None]) -> bool:
        """Read a slice as `aside` does; at the end work out what takes long of what is shown."""
        return aside(self._slice, then)

    def _slice(self) -> None:
        self.go_on(SLICE)
        if self.whole:
            work_out(self.sides)
