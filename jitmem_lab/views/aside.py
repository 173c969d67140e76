"""Reading that must not keep a server's other visitors waiting, in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import panel as pn

_THREAD = ThreadPoolExecutor(1, thread_name_prefix="reading")


def aside(work: Callable[[], object], then: Callable[[], None]) -> bool:
    """Do work in the thread, after what others wait for, then something in the session that asked for it.

    Args:
        work: Takes no longer than others can wait; what it raises is nobody's.
        then: Done in the session's turn.

    Returns:
        False, and nothing is done, where no session asks.
    """
    document = pn.state.curdoc
    if document is None:
        return False

    def both() -> None:
        try:
            work()
        finally:
            document.add_next_tick_callback(then)

    _THREAD.submit(both)
    return True
