"""Following a file of lines as it grows, a slice of time at a time, once for all who look at it."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self
from weakref import WeakValueDictionary

from ..errors import UserError
from ..runs import Run

_BUFFER = 1 << 20
_TAIL = 4096


class Follower:
    """Takes in the whole lines of a run's file, and those that are added; starts over if it was replaced.

    Args:
        run: The run directory.
    """

    name: ClassVar[str] = ""
    """The file's name."""
    _shared: ClassVar[WeakValueDictionary[tuple[type, Path], Any]] = WeakValueDictionary()
    _sharing: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, run: Run) -> None:
        self.folder = run.path
        self.version = 0
        """Grows with what was read."""
        self._lock = threading.Lock()
        self._begin()

    @classmethod
    def of(cls, run: Run) -> Self:
        """The one that others read already, else a new one."""
        with cls._sharing:
            place = (cls, run.path.resolve())
            found = cls._shared.get(place)
            if found is None:
                found = cls._shared[place] = cls(run)
            own: Self = found
            return own

    def take(self, line: bytes) -> None:
        """Take in a line; `ValueError`, `KeyError` or `TypeError` where it is none of ours."""
        raise NotImplementedError

    def forget(self) -> None:
        """Let go of all lines."""
        raise NotImplementedError

    def _begin(self) -> None:
        self.unreadable = 0
        """Lines that are none of ours."""
        self.whole = False
        """Whether all that is in the file has been read."""
        self._end = self._size = 0
        self._last = b""
        self.forget()

    @property
    def share(self) -> float:
        """Share of the file that was read."""
        return min(1.0, self._end / self._size) if self._size else 1.0

    def refresh(self, seconds: float | None = None) -> None:
        """Read what was written since the last time.

        Args:
            seconds: After which it stops for now, see `whole`; None reads all. 0 does not even wait for
                another one who is reading.

        Raises:
            UserError: The run directory is gone, or its file cannot be read.
        """
        file = self.folder / self.name
        if not self.folder.is_dir():
            raise UserError(f"the run directory {self.folder} is no longer there; choose another run")
        if not self._lock.acquire(blocking=seconds != 0):
            return
        try:
            with file.open("rb", buffering=_BUFFER) as lines:
                self._read(lines, seconds)
        except FileNotFoundError:
            if self._end:
                self.version += 1
                self._begin()
            self.whole = True
        except OSError as error:
            raise UserError(f"{file} cannot be read ({error.strerror}); check its permissions") from None
        finally:
            self._lock.release()

    def _read(self, lines: BinaryIO, seconds: float | None) -> None:
        lines.seek(self._end - len(self._last))
        if lines.read(len(self._last)) != self._last:  # another file by the same name
            self.version += 1
            self._begin()
        lines.seek(self._end)
        self._size = os.fstat(lines.fileno()).st_size
        limit = None if seconds is None else time.monotonic() + seconds
        for line in lines:
            if not line.endswith(b"\n"):  # still being written
                break
            try:
                self.take(line)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
                self.unreadable += 1
            self._end += len(line)
            self._last = line[-_TAIL:]
            self.version += 1
            if limit is not None and time.monotonic() > limit and self._end < self._size:
                self.whole = False
                return
        self.whole = True
