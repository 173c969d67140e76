"""How a run stands: a bar with an ETA for the eyes, `status.json` for everything else."""

from __future__ import annotations

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

from .files import write_json
from .records import Call, Episode


def make_bar(total: int, done: int, unit: str, name: str | None = None, seconds: float = 10) -> Any:
    """A bar on standard error, redrawn twice a second, in a log file every so many `seconds`."""
    from tqdm import tqdm

    interval = 0.5 if sys.stderr.isatty() else seconds
    return tqdm(total=total, initial=done, unit=unit, file=sys.stderr, mininterval=interval, desc=name)


class Progress:
    """Counts episodes and tokens, and writes `status.json`, while running at most once a second.

    Args:
        path: The run directory.
        total: Episodes of the whole run.
        done: Counts by outcome of what an earlier attempt finished.
        show: Whether to draw a bar on standard error.
    """

    def __init__(self, path: Path, total: int, done: dict[str, int], show: bool = True) -> None:
        self._file = path / "status.json"
        self._show = show
        self._written = 0.0
        self._begun = time.time()
        self._fresh = 0
        self.total = total
        self.counts = {"success": 0, "failure": 0, "error": 0} | done
        self.tokens: dict[str, dict[str, int]] = {}
        self._bar: Any = None
        if show:
            finished = self.counts["success"] + self.counts["failure"]
            self._bar = make_bar(total, finished, "episode", path.name)

    def call(self, call: Call) -> None:
        """Count one model call."""
        tokens = self.tokens.setdefault(call.role, {"prompt": 0, "completion": 0, "calls": 0})
        tokens["prompt"] += call.usage.prompt_tokens
        tokens["completion"] += call.usage.completion_tokens
        tokens["calls"] += call.usage.calls

    def episode(self, episode: Episode) -> None:
        """Count one finished episode."""
        self.counts[episode.outcome] += 1
        if episode.outcome != "error":
            self._fresh += 1
        for call in episode.calls:
            self.call(call)
        if self._bar is not None:
            self._bar.update(episode.outcome != "error")
            self._bar.set_postfix(
                {
                    "won": self.counts["success"],
                    "lost": self.counts["failure"],
                    "errors": self.counts["error"],
                }
            )
        if time.time() - self._written > 1:
            self.write("running")

    def write(self, state: str, error: str | None = None) -> None:
        """Write `status.json`."""
        finished = self.counts["success"] + self.counts["failure"]
        spent = time.time() - self._begun
        left = self.total - finished
        self._written = time.time()
        write_json(
            self._file,
            {
                "state": state,
                "error": error,
                "pid": os.getpid(),
                "host": socket.gethostname(),
                "started": self._begun,
                "updated": self._written,
                "total": self.total,
                "done": finished,
                "owed": left,
                "outcomes": dict(self.counts),
                "eta_seconds": round(spent / self._fresh * left, 1) if self._fresh and left else None,
                "tokens_this_attempt": self.tokens,
            },
        )

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
