"""Payloads played by the frozen executor, several at a time; what a payload is worth is what comes of it."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import NamedTuple

from ..benchmarks.base import Benchmark, told
from ..errors import InfrastructureError
from ..execution import Executor
from ..records import Task, Trajectory
from ..session import Session

TRIES = 2
"""Tries of an episode that an infrastructure error ended."""
IN_A_ROW = 16
"""Episodes ended by errors one after another, after which the executor or the environments are given up."""


class Job(NamedTuple):
    """A payload to be played."""

    task: Task
    """The task."""
    payload: str
    """What the executor is given."""
    key: str
    """What the episode's seeds follow from."""


class Played(NamedTuple):
    """What came of a payload."""

    reward: float | None
    """The benchmark's own metric; None after an infrastructure error, or where it gave none."""
    trajectory: Trajectory | None
    """The episode; None after an infrastructure error."""
    error: str = ""
    """The infrastructure error."""
    seconds: float = 0.0
    """Wall time of the episode."""
    tokens: int = 0
    """Tokens that the executor read and wrote."""
    shared: bool = False
    """Whether the episode is that of an equal payload, which a deterministic executor would repeat."""


class Player:
    """Plays payloads.

    Args:
        bench: Makes the environments, in worker processes.
        executor: The frozen executor.
        concurrency: Episodes at once.
        seed: Root of every random choice.
    """

    def __init__(
        self,
        bench: Benchmark,
        executor: Executor,
        concurrency: int,
        seed: int = 0,
    ) -> None:
        self.bench = bench
        self.executor = executor
        self.concurrency = concurrency
        self.seed = seed
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._failed = 0
        self._cause = ""
        self.deterministic = executor.act == "choose" or executor.sampling.temperature == 0

    def play(self, jobs: Sequence[Job]) -> list[Played]:
        """What comes of each job, in order.

        A deterministic executor plays equal payloads of a task once.

        Args:
            jobs: Payloads to play.

        Raises:
            InfrastructureError: No episode could be played, or `IN_A_ROW` of them in a row could not; it
                names the cause.
        """
        first: dict[tuple[str, str], int] = {}
        same = [
            first.setdefault((job.task.task_id, job.payload), index) if self.deterministic else index
            for index, job in enumerate(jobs)
        ]
        owed = sorted(set(same))
        found: dict[int, Played] = {}
        self._failed, self._stop = 0, threading.Event()
        pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="episode")
        try:
            futures = {pool.submit(self._try, jobs[index]): index for index in owed}
            for future in as_completed(futures):
                found[futures[future]] = future.result()
        finally:  # interrupted, or given up: what is under way ends with its next call
            self._stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
        if found and all(played.error for played in found.values()):
            cause = next(iter(found.values())).error
            raise InfrastructureError(f"none of {len(found)} episodes could be played: {cause}")
        return [
            found[source]._replace(
                shared=source != index, seconds=0.0 if source != index else found[source].seconds
            )
            for index, source in enumerate(same)
        ]

    def _try(self, job: Job) -> Played:
        played = Played(None, None)
        for _ in range(TRIES):
            if self._failed >= IN_A_ROW:
                raise InfrastructureError(self._cause)
            played = self._once(job)
            if not played.error or self._stop.is_set():
                break
        with self._lock:
            self._failed = self._failed + 1 if played.error else 0
            if self._failed == IN_A_ROW:
                self._cause = f"{IN_A_ROW} episodes in a row could not be played: {played.error}"
                raise InfrastructureError(self._cause)
        return played

    def _once(self, job: Job) -> Played:
        session = Session(self.seed, job.key, self._stop)
        session.phase = "act"
        begun = time.perf_counter()
        try:
            with contextlib.closing(self.bench.make_env(job.task, session)) as env:
                seen = env.reset()
                trajectory = self.executor.play(
                    env,
                    told(job.task, seen),
                    job.payload,
                    session,
                    max_steps=self.bench.max_steps,
                    environment=f"{self.bench.name} {self.bench.version}",
                    first=seen,
                )
        except InfrastructureError as error:
            return Played(None, None, str(error), time.perf_counter() - begun)
        usages = [call.usage for call in session.calls]
        tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in usages)
        return Played(trajectory.reward, trajectory, "", time.perf_counter() - begun, tokens)
