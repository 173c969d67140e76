"""A bar over a whole sweep."""

from __future__ import annotations

import sys

from ..render import clean_text


class Bar:
    """Progress over the whole sweep, with the time that is left, on standard error."""

    def __init__(self, total: int, done: int) -> None:
        from tqdm import tqdm

        interval = 0.5 if sys.stderr.isatty() else 10
        self._bar = tqdm(
            total=total, initial=done, unit="episode", file=sys.stderr, mininterval=interval, desc="sweep"
        )

    def set(self, done: int) -> None:
        """So many episodes are done in all."""
        self._bar.update(done - self._bar.n)

    def name(self, cell: str) -> None:
        """The cell that runs now."""
        self._bar.set_description(cell)

    def say(self, line: str) -> None:
        """A line that stays."""
        self._bar.write(clean_text(line, 1000), file=sys.stderr)

    def close(self) -> None:
        """End the bar."""
        self._bar.close()


class NoBar:
    """Shows nothing."""

    def set(self, done: int) -> None:
        """Nothing."""

    def name(self, cell: str) -> None:
        """Nothing."""

    def say(self, line: str) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""
