"""Bounded tries: exponential backoff with full jitter, and what a server asks for in `Retry-After`."""

from __future__ import annotations

import email.utils
import math
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TypeVar

from ..errors import InfrastructureError

T = TypeVar("T")

STOP: ContextVar[threading.Event | None] = ContextVar("STOP", default=None)
"""Set by a caller that may be interrupted: a wait between tries ends when the event is set."""


class Again(Exception):
    """A failure that may pass.

    Args:
        cause: What went wrong, in words without secrets.
        after: Seconds the server asks to wait; None if it doesn't say.
    """

    def __init__(self, cause: str, after: float | None = None) -> None:
        super().__init__(cause)
        self.after = after


def retrying(
    attempt: Callable[[], T],
    *,
    server: str,
    retries: int = 5,
    max_wait: float = 300.0,
    backoff: float = 0.5,
    stop: threading.Event | None = None,
) -> T:
    """What `attempt` returns, tried again while it raises `Again`.

    The n-th wait is drawn evenly from 0 to `backoff * 2**n` seconds (20 at most), or is what the server asks
    for and up to a tenth more, so that clients refused together don't come back together.

    Args:
        attempt: Makes one try.
        server: Whom the error names.
        retries: Most further tries.
        max_wait: Most seconds waited in all; a server that asks for longer is given up on at once.
        backoff: Scale of the waits in seconds.
        stop: Ends a wait at once when set.

    Raises:
        InfrastructureError: Tries or waiting time are spent, or `stop` was set.
    """
    waited = 0.0
    stops = [event for event in (stop, STOP.get()) if event is not None]
    for count in range(retries + 1):
        if any(event.is_set() for event in stops):
            raise InfrastructureError(f"{server} was closed, or its caller interrupted, while a call waited")
        try:
            return attempt()
        except Again as failure:
            spent = (
                f"{server} gave no usable answer in {count + 1} {'try' if count == 0 else 'tries'}: {failure}"
            )
            if count == retries:
                raise InfrastructureError(spent) from failure.__cause__
            if failure.after is None:
                pause = random.uniform(0, min(20.0, backoff * 2**count))
            else:
                pause = failure.after + random.uniform(0, 0.1 * min(failure.after, 10.0) + 0.05)
            if waited + pause > max_wait:
                raise InfrastructureError(
                    f"{spent} (the next wait of {pause:.0f} s would pass the limit of {max_wait:.0f} s)"
                ) from failure.__cause__
            waited += pause
        _pause(pause, stops)
    raise AssertionError("unreachable")


def _pause(seconds: float, stops: Sequence[threading.Event]) -> None:
    """Wait, but no longer than until one of `stops` is set."""
    if not stops:
        time.sleep(seconds)
    elif len(stops) == 1:
        stops[0].wait(seconds)
    else:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not any(event.is_set() for event in stops):
            stops[-1].wait(min(left, 0.2))


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a response asks to wait, given as seconds, milliseconds or an HTTP date; None if it doesn't."""
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        if value is None:
            continue
        try:
            seconds = float(value) * scale
        except ValueError:
            seconds = _until(value)
        if math.isfinite(seconds):
            return max(0.0, seconds)
    return None


def _until(date: str) -> float:
    try:
        moment = email.utils.parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return math.nan
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime.now(UTC)).total_seconds()
