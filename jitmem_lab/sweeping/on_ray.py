"""Cells of a sweep as tasks of a Ray cluster, started here or joined."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from ..errors import InfrastructureError, UserError
from ..runs import RunLock
from .cells import Ended, Job, Models, play
from .engines import TRIES, Started

_MODELS = Models()
_POLL = 0.5
_PATIENCE = 10.0


def _cell(job: dict[str, Any], place: str) -> tuple[str, str | None, float]:
    """A task: one cell, with what models this process of the cluster has kept."""
    os.chdir(place)
    begun = time.perf_counter()
    one = Job(**job)
    _MODELS.keep([one])
    state, error = play(one, _MODELS)
    return state, error, time.perf_counter() - begun


class RayEngine:
    """Each cell a task with resources of its own; the machines share the sweep's folder and the package.

    Args:
        workers: Cells at a time in a cluster that is started here.
        address: A cluster to join; empty starts one here.
        cpus: CPUs of a cell.
        gpus: GPUs of a cell.

    Raises:
        UserError: Ray is not installed, or numbers out of range.
    """

    def __init__(self, workers: int, address: str = "", cpus: float = 1.0, gpus: float = 0.0) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers of each start
        try:
            import ray
        except ImportError:
            raise UserError("the engine ray needs the extra: pip install 'jitmem-lab[ray]'") from None
        if not (cpus > 0 and gpus >= 0):
            raise UserError("a cell needs more than 0 CPUs and 0 GPUs or more")
        self._ray: Any = ray
        self._workers, self._address, self._cpus, self._gpus = workers, address, cpus, gpus

    def run(self, jobs: Sequence[Job], started: Started) -> Generator[Ended]:
        """See `Engine.run`."""
        ray = self._ray
        if not jobs:
            return
        self._begin()
        try:
            task = ray.remote(_cell).options(
                num_cpus=self._cpus, num_gpus=self._gpus, max_retries=TRIES - 1, name="jitmem cell"
            )
            place = str(Path.cwd())
            owed = {}
            for job in jobs:
                owed[task.remote(_absolute(job)._asdict(), place)] = job
            waiting = list(jobs)
            while owed:
                done, _ = ray.wait(list(owed), timeout=_POLL)
                begun = [job for job in waiting if RunLock(Path(job.folder)).held()]
                for job in begun:
                    waiting.remove(job)
                    started(job.name)
                for reference in done:
                    yield self._ended(owed.pop(reference), reference)
        finally:
            with contextlib.suppress(Exception):
                ray.shutdown()

    def _begin(self) -> None:
        ray = self._ray
        options: dict[str, Any] = {
            "include_dashboard": False,
            "num_cpus": max(1, round(self._workers * self._cpus)),
        }
        if self._gpus:
            options["num_gpus"] = max(1, round(self._workers * self._gpus))
        if self._address:
            options = {"address": self._address}
        before = signal.getsignal(signal.SIGTERM)
        try:
            if self._address:
                _reach(self._address)
            ray.init(log_to_driver=False, configure_logging=False, **options)
        except Exception as error:
            where = f"the Ray cluster at {self._address}" if self._address else "a Ray cluster here"
            words = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InfrastructureError(f"{where} cannot be reached: {words}") from error
        finally:  # a signal is the sweep's business
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, before)

    def _ended(self, job: Job, reference: Any) -> Ended:
        try:
            return Ended(job.name, *self._ray.get(reference))
        except Exception as error:  # its worker died too often, or its machine is gone
            words = (str(error).strip().splitlines() or [type(error).__name__])[0]
            return Ended(job.name, "failed", f"{type(error).__name__}: {words}", 0.0)


def _reach(address: str) -> None:
    """`OSError` at once where nothing answers, on which Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _absolute(job: Job) -> Job:
    """A job whose paths hold from any folder."""

    def whole(path: str | None) -> str | None:
        return None if path is None else str(Path(path).absolute())

    return job._replace(folder=str(whole(job.folder)), cache=whole(job.cache), notebook=whole(job.notebook))
