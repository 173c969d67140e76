"""Small file operations that a kill at any moment cannot tear."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .errors import UserError


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write text or bytes to `path` so that a reader sees the old or the new content, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8") if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            Path(name).unlink()
        raise


def make_folder(path: str | Path) -> Path:
    """The folder, made if it is missing, with those above it.

    Raises:
        UserError: It cannot be made.
    """
    try:
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"the folder {str(path)!r} cannot be made ({reason}); choose another") from None
    return folder


def parse_json(text: str | bytes) -> Any:
    """The value in some JSON; `ValueError` if it is none, or is nested too deep to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object in a file; None where there is no file, or no such object in it."""
    try:
        found = parse_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_json(path: Path, value: Any) -> None:
    """Write a readable JSON file atomically."""
    write_atomic(path, json.dumps(value, indent=1, ensure_ascii=True, default=str) + "\n")


def append_line(path: Path, line: str) -> None:
    """Append one line durably; a kill leaves at most a torn last line."""
    append_lines(path, [line])


def append_lines(path: Path, lines: Sequence[str]) -> None:
    """Append lines durably, all in one write; a kill leaves the first ones and at most one torn line."""
    data = "".join(line + "\n" for line in lines).encode("ascii")
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(handle, view) :]
        os.fdatasync(handle)
    finally:
        os.close(handle)


def drop_torn_line(path: Path) -> bool:
    """Cut a last line that has no line end, as a kill leaves it; True if there was one."""
    if not path.exists():
        return False
    with path.open("rb+") as file:
        size = file.seek(0, os.SEEK_END)
        position, keep = size, 0
        while position > 0:
            start = max(0, position - (1 << 16))
            file.seek(start)
            found = file.read(position - start).rfind(b"\n")
            if found >= 0:
                keep = start + found + 1
                break
            position = start
        if keep == size:
            return False
        file.truncate(keep)
        return True


def read_lines(path: Path) -> Iterator[str]:
    """The whole lines of a file; a torn last line is left out, and so is one that is no text."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for raw in file:
            if raw.endswith(b"\n"):
                with contextlib.suppress(UnicodeDecodeError):
                    yield raw[:-1].decode("utf-8", "surrogatepass")
