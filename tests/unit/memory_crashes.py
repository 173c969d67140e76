"""A program that runs streams and kills itself in the middle of a write.

`python -m tests.unit.memory_crashes` reads `[[system, folder, event], …]` from standard input and prints the
signal that ended each run. Every run is a process of its own, forked from this one.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any, ClassVar

from jitmem_lab.session import Session

from .memory_answers import build, streamed


class Watch:
    """Lists what happens inside `remember`: model calls, changes of the store, the end; or kills itself."""

    events: ClassVar[list[str]] = []
    kill_at: ClassVar[int | None] = None
    writing: ClassVar[bool] = False

    @classmethod
    def happens(cls, event: str) -> None:
        if not cls.writing:
            return
        if len(cls.events) == cls.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        cls.events.append(event)


class WatchedConnection(sqlite3.Connection):
    """Tells of a statement before it is carried out."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        event = statement.split()[0]
        if event in ("BEGIN", "INSERT", "COMMIT"):
            Watch.happens(event)
        return super().execute(statement, *values)


def watched(name: str, folder: Path, patch: Any, kill_at: int | None = None) -> list[str]:
    """Run a stream; the events of all its writes. `patch(object, attribute, value)` sets attributes."""
    Watch.events, Watch.kill_at = [], kill_at
    memory = build(name)
    connect, add, remember = sqlite3.connect, Session._add, memory.remember

    def adding(self: Session, call: Any) -> None:
        Watch.happens("call")
        add(self, call)

    def remembering(episode: Any, session: Session) -> Any:
        Watch.writing = True
        changed = remember(episode, session)
        Watch.happens("end")
        Watch.writing = False
        return changed

    patch(sqlite3, "connect", lambda *a, **k: connect(*a, **k, factory=WatchedConnection))
    patch(Session, "_add", adding)
    patch(memory, "remember", remembering)
    streamed(memory, folder)
    return Watch.events


def main() -> None:
    """Run each job in a process of its own and print how it ended."""
    ended = []
    for name, folder, kill_at in json.load(sys.stdin):
        child = os.fork()
        if child == 0:
            try:
                watched(name, Path(folder), setattr, kill_at)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        ended.append(os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0)
    print(json.dumps(ended))


if __name__ == "__main__":
    main()
