"""Who plays the cells of a sweep: this process, processes on this machine, or a Ray cluster.

Whoever plays it, a cell is a run directory that goes on where it stopped, so a worker that dies costs the
episodes that were under way, and the table is the same.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Sequence
from typing import IO, Any, Protocol

from ..benchmarks.workers import cpu_count
from ..errors import InfrastructureError, UserError
from .cells import Ended, Job, Kept, play

TRIES = 3
"""Tries of a cell whose worker dies."""
NAMES = ("local", "ray")
"""Engines by name."""

Started = Callable[[str], None]


class Engine(Protocol):
    """Plays cells."""

    def run(self, jobs: Sequence[Job], started: Started) -> Generator[Ended]:
        """How each cell ended, as they end; `started` is told each one's name.

        Closing the generator before its end stops what is under way.
        """
        ...


def make_engine(
    name: str = "local", workers: int = 1, address: str = "", cpus: float = 1.0, gpus: float = 0.0
) -> Engine:
    """An engine.

    Args:
        name: One of `NAMES`.
        workers: Cells at a time; with an address Ray's own resources decide.
        address: Address of a Ray cluster to join, such as ray://HOST:10001 or auto; empty starts one here.
        cpus: CPUs that Ray sets aside for a cell.
        gpus: GPUs that Ray sets aside for a cell.

    Raises:
        UserError: An unknown engine, numbers out of range, or Ray's options with another engine.
    """
    if name not in NAMES:
        raise UserError(f"there is no engine {name!r}; there are {', '.join(NAMES)}")
    if workers < 1:
        raise UserError(f"workers must be 1 or more, not {workers}")
    if name == "ray":
        from .on_ray import RayEngine

        return RayEngine(workers, address, cpus, gpus)
    if address or gpus or cpus != 1.0:
        raise UserError("an address, cpus and gpus are for the engine ray; give --engine ray with them")
    return Here() if workers == 1 else Processes(workers)


class Here:
    """One cell after another in this process; a model is loaded once for all cells that need it."""

    def run(self, jobs: Sequence[Job], started: Started) -> Generator[Ended]:
        """See `Engine.run`."""
        kept = Kept()
        try:
            for number, job in enumerate(jobs, 1):
                started(job.name)
                begun = time.perf_counter()
                state, error = play(job, kept)
                kept.keep(jobs[number:])
                yield Ended(job.name, state, error, time.perf_counter() - begun)
        finally:
            kept.keep(())


class Processes:
    """Several cells at a time, each in a process that lives until the sweep ends.

    Args:
        workers: Number of processes.
    """

    def __init__(self, workers: int) -> None:
        self._workers = workers

    def run(self, jobs: Sequence[Job], started: Started) -> Generator[Ended]:
        """See `Engine.run`."""
        owed: queue.SimpleQueue[Job] = queue.SimpleQueue()
        ended: queue.SimpleQueue[Ended | BaseException] = queue.SimpleQueue()
        for job in jobs:
            owed.put(job)
        count = min(self._workers, len(jobs))
        threads = max(1, cpu_count() // max(1, count))
        workers = [_Worker(threads) for _ in range(count)]

        def supervise(worker: _Worker) -> None:
            try:
                with contextlib.suppress(queue.Empty):
                    while not worker.closed:
                        job = owed.get_nowait()
                        started(job.name)
                        ended.put(worker.play(job))
            except BaseException as error:
                ended.put(error)

        try:
            for worker in workers:
                threading.Thread(target=supervise, args=(worker,), name="sweep worker", daemon=True).start()
            for _ in jobs:
                one = ended.get()
                if isinstance(one, BaseException):
                    raise one
                yield one
        finally:
            for worker in workers:
                worker.close()


def begin(module: str, said: IO[bytes], **settings: object) -> subprocess.Popen[str]:
    """A process that runs a module and is talked to in lines, with settings for what the environment lacks.

    Raises:
        InfrastructureError: It cannot be started.
    """
    try:
        return subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            encoding="utf-8",
            env={name: str(value) for name, value in settings.items()} | os.environ,
            start_new_session=True,  # a Ctrl-C at the terminal is the sweep's business
        )
    except OSError as error:
        raise InfrastructureError(
            f"a process for the sweep cannot be started ({error.strerror}); give the same command again with "
            "fewer workers"
        ) from None


class _Worker:
    """A process that plays the cells it is told of, started anew when it dies."""

    def __init__(self, threads: int) -> None:
        self.closed = False
        self._starting = threading.Lock()
        self._threads = threads
        self._process: subprocess.Popen[str] | None = None
        self._said: IO[bytes] | None = None

    def play(self, job: Job) -> Ended:
        begun = time.perf_counter()
        for attempt in itertools.count(1):
            answer = self._ask(job)
            spent = time.perf_counter() - begun
            if answer is not None:
                return Ended(job.name, answer["state"], answer["error"], spent)
            if attempt == TRIES or self.closed:
                return Ended(job.name, "failed", f"its process died {attempt} times; {self._end()}", spent)
        raise AssertionError

    def _ask(self, job: Job) -> dict[str, Any] | None:
        """What the process answers; None if it died."""
        if self._process is None or self._process.poll() is not None:
            self._start()
        process = self._process
        if process is None or self.closed:
            return None
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(job._asdict()) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            answer: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
        except (OSError, ValueError):
            answer = None
        if answer is None:
            process.kill()
            process.wait()
        return answer

    def _start(self) -> None:
        if self._said is not None:
            self._said.close()
        # an unlinked file: what the process says on stderr, kept for the message if it dies
        self._said = tempfile.TemporaryFile()  # noqa: SIM115
        with self._starting:
            if self.closed:  # while this one was about to begin
                return
            self._process = begin("jitmem_lab.sweeping.worker", self._said, OMP_NUM_THREADS=self._threads)

    def _end(self) -> str:
        """How the process ended, in words."""
        code = None if self._process is None else self._process.returncode
        how = f"signal {-code}" if code is not None and code < 0 else f"exit {code}"
        if self._said is None:
            return how
        self._said.seek(max(0, self._said.seek(0, os.SEEK_END) - 2000))
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return f"{how}: {lines[-1]}" if lines else how

    def close(self) -> None:
        """End the process, in the middle of a cell too: what is played is kept."""
        with self._starting:
            self.closed = True
            process = self._process
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        if process is not None:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
