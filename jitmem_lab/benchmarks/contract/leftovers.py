"""What a piece of work leaves behind on this machine: processes, open files, temporary files."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import Self

LINGER = 5.0
"""Seconds in which processes may end that were asked to."""

_PROC = Path("/proc")


class Leftovers:
    """Watches while it is entered: temporary files go to a folder of its own, and children are told apart.

    Processes and open files are counted through `/proc`; elsewhere than on Linux there seem to be none.
    """

    def __enter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="jitmem-check-"))
        self._saved = os.environ.get("TMPDIR"), tempfile.tempdir
        os.environ["TMPDIR"] = str(self._folder)
        tempfile.tempdir = None
        self._before = set(_descendants())
        self._seen: set[int] = set()
        self._files = _open_files()
        return self

    def __exit__(self, *_: object) -> None:
        variable, tempfile.tempdir = self._saved
        if variable is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = variable
        shutil.rmtree(self._folder, ignore_errors=True)

    def count_files(self) -> None:
        """Take the files open now as the measure, and note which processes run."""
        self._files = _open_files()
        self._seen |= set(_descendants()) - self._before

    def more_files(self) -> int:
        """Open files above the measure."""
        self._seen |= set(_descendants()) - self._before
        return max(0, _open_files() - self._files)

    def processes(self) -> list[str]:
        """Processes started since the beginning, children of children too, that outlive `LINGER`."""
        deadline = time.monotonic() + LINGER
        while left := (self._seen | set(_descendants())) - self._before:
            names = {pid: name for pid in left if (name := _command(pid))}
            if not names or time.monotonic() > deadline:
                return [f"{pid} ({name})" for pid, name in sorted(names.items())]
            time.sleep(0.05)
        return []

    def temporary(self) -> list[str]:
        """Names of what lies in the folder for temporary files."""
        return sorted(path.name for path in self._folder.iterdir())


def _open_files() -> int:
    folder = _PROC / "self" / "fd"
    return len(os.listdir(folder)) if folder.is_dir() else 0  # noqa: PTH208  (a listing must open no more)


def _descendants() -> list[int]:
    """Process ids of the children of this process, and theirs."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.glob("[0-9]*/stat"):
        try:
            state = entry.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        children.setdefault(int(state[1]), []).append(int(entry.parent.name))
    found: list[int] = []
    ahead = [os.getpid()]
    while ahead:
        mine = children.get(ahead.pop(), [])
        found += mine
        ahead += mine
    return found


def _command(pid: int) -> str:
    """What a process runs; empty when it is gone, or ended and only waits to be noticed."""
    try:
        state = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        line = (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return ""
    return "" if state in "ZX" else b" ".join(filter(None, line)).decode(errors="replace")[:80] or "?"
