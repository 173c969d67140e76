"""A process of a sweep: reads cells on stdin, one JSON line each, and answers how they ended on stdout."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading

from .cells import Job, Kept, play


def main() -> None:
    """Play until stdin ends; a sweep that is gone ends its processes in the middle of a cell."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed by others is no answer
    jobs: queue.SimpleQueue[str] = queue.SimpleQueue()

    def listen() -> None:
        for line in sys.stdin:
            jobs.put(line)
        os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    kept = Kept()
    while True:
        job = Job(**json.loads(jobs.get()))
        state, error = play(job, kept)
        out.write(json.dumps({"state": state, "error": error}) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
