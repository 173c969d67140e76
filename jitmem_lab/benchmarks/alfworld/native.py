"""Copies of the planner's native library without temporary files.

TextWorld loads one private copy of a 35 MB library for each environment, through the temporary folder.
Only its first megabyte is ever mapped (the rest is debugging information), so here a copy is that part
in anonymous memory, and a closed environment's copy serves the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import types
from pathlib import Path
from typing import Any

_PT_LOAD = 1


def mapped_size(path: Path) -> int:
    """Bytes of a 64-bit little-endian ELF file that its loader maps; the whole size for anything else."""
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            return size
        (offset,) = struct.unpack_from("<Q", head, 32)
        entry, count = struct.unpack_from("<HH", head, 54)
        file.seek(offset)
        table = file.read(entry * count)
    end = 0
    for index in range(count):
        kind, _, start, _, _, length = struct.unpack_from("<IIQQQQ", table, index * entry)
        if kind == _PT_LOAD:
            end = max(end, start + length)
    return min(end, size) or size


class Libraries:
    """Loaded copies of the planner's library, one for each live environment."""

    def __init__(self) -> None:
        import fast_downward.interface as interface

        self._interface: Any = interface
        self._path = Path(interface.DOWNWARD_LIB_PATH)
        self._stock = interface.load_lib
        self._free: list[Any] = []
        self._image: bytes | None = None

    def take(self) -> Any:
        """A copy that no other environment uses."""
        return self._free.pop() if self._free else self._load()

    def give(self, library: Any) -> None:
        """Hand a copy back."""
        self._free.append(library)

    def _load(self) -> Any:
        if not hasattr(os, "memfd_create"):
            return self._stock()
        if self._image is None:
            with self._path.open("rb") as file:
                self._image = file.read(mapped_size(self._path))
        # The descriptor stays open: the loader knows a library by its path, so the number must stay taken.
        fd = os.memfd_create("libdownward")
        os.write(fd, self._image)
        os.ftruncate(fd, self._path.stat().st_size)
        return self._load_from(f"/proc/self/fd/{fd}")

    def _load_from(self, path: str) -> Any:
        """Upstream's own loader (it declares every signature), led to `path` instead of a temporary copy."""
        module = self._interface
        saved = module.shutil, module.tempfile, module.cdll
        module.shutil = types.SimpleNamespace(copyfile=lambda source, target: None)
        module.tempfile = types.SimpleNamespace(TemporaryDirectory=lambda: contextlib.nullcontext(""))
        module.cdll = types.SimpleNamespace(LoadLibrary=lambda name: ctypes.CDLL(path))
        try:
            return self._stock()
        finally:
            module.shutil, module.tempfile, module.cdll = saved
