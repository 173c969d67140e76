"""Cells of a sweep as tasks of a Ray cluster, started here or joined.

Ray ends the process that drives it when the cluster's head is gone, so it is driven by a process of its own
(`main`), which is told the cells on stdin and says on stdout how they fare.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from ..errors import InfrastructureError, UserError
from ..runs import RunLock
from .cells import Ended, Job, Kept, play
from .engines import TRIES, Started, begin

_KEPT = Kept()
_POLL = 0.5
_PATIENCE = 10.0
_SETTINGS = {
    "RAY_USAGE_STATS_ENABLED": "0",  # it would tell its makers of each start
    "RAY_gcs_rpc_server_reconnect_timeout_s": "20",  # seconds that a head may be away
}


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
        if find_spec("ray") is None:
            raise UserError("the engine ray needs the extra: pip install 'jitmem-lab[ray]'")
        if not (0 < cpus < math.inf and 0 <= gpus < math.inf):
            raise UserError("a cell needs more than 0 CPUs and 0 GPUs or more")
        self._address = address
        self._plan = {"workers": workers, "address": address, "cpus": cpus, "gpus": gpus}

    @property
    def _where(self) -> str:
        return f"the Ray cluster at {self._address}" if self._address else "a Ray cluster here"

    def run(self, jobs: Sequence[Job], started: Started) -> Generator[Ended]:
        """See `Engine.run`.

        Raises:
            InfrastructureError: The cluster cannot be reached, or its head ended.
        """
        if not jobs:
            return
        with tempfile.TemporaryFile() as said:
            driver = begin("jitmem_lab.sweeping.on_ray", said, **_SETTINGS)
            try:
                assert driver.stdin is not None
                assert driver.stdout is not None
                owed = {job.name for job in jobs}
                told = self._plan | {"jobs": [_absolute(job)._asdict() for job in jobs]}
                with contextlib.suppress(OSError):
                    driver.stdin.write(json.dumps(told) + "\n")
                    driver.stdin.flush()
                while owed:
                    line = driver.stdout.readline()
                    if not line.endswith("\n"):
                        raise InfrastructureError(f"{self._where} ended: {_last(said, driver)}")
                    news = json.loads(line)
                    if "unreachable" in news:
                        raise InfrastructureError(f"{self._where} cannot be reached: {news['unreachable']}")
                    if "started" in news:
                        started(news["started"])
                    else:
                        owed.discard(news["ended"][0])
                        yield Ended(*news["ended"])
            finally:
                _close(driver)


def _last(said: IO[bytes], driver: subprocess.Popen[str]) -> str:
    """How the driver ended, in words."""
    code = driver.wait()
    said.seek(max(0, said.seek(0, os.SEEK_END) - 4000))
    lines = [line for line in said.read().decode("utf-8", "replace").splitlines() if line.strip()]
    gone = any("GCS" in line or "raylet" in line for line in lines)
    return "its head is gone" if gone or not lines else f"exit {code}, {lines[-1].strip()}"


def _close(driver: subprocess.Popen[str]) -> None:
    """Ask the driver to let go of what is under way, then end it."""
    for pipe in (driver.stdin, driver.stdout):
        with contextlib.suppress(OSError):
            if pipe is not None:
                pipe.close()
    try:
        driver.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        driver.kill()
        driver.wait()


def _absolute(job: Job) -> Job:
    """A job whose paths hold from any folder."""

    def whole(path: str | None) -> str | None:
        return None if path is None else str(Path(path).absolute())

    return job._replace(folder=str(whole(job.folder)), cache=whole(job.cache), notebook=whole(job.notebook))


def main() -> None:
    """Drive Ray until all cells have ended, or stdin does."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what is printed by others is no answer
    told = json.loads(sys.stdin.readline() or "null")
    if told is None:
        return
    over = threading.Event()

    def listen() -> None:
        sys.stdin.read()
        over.set()

    def tell(**news: Any) -> None:
        out.write(json.dumps(news) + "\n")
        out.flush()

    threading.Thread(target=listen, daemon=True).start()
    import ray

    try:
        _begin(ray, told)
    except Exception as error:
        tell(unreachable=(str(error).strip().splitlines() or [type(error).__name__])[0])
        return
    with contextlib.suppress(BrokenPipeError):
        _drive(ray, told, over, tell)
    ray.shutdown()


def _begin(ray: Any, told: dict[str, Any]) -> None:
    address = told["address"]
    if address:
        _reach(address)
        options: dict[str, Any] = {"address": address}
    else:
        # "local": Ray would otherwise join a cluster that happens to run here
        options = {"address": "local", "include_dashboard": False}
        options["num_cpus"] = max(1, round(told["workers"] * told["cpus"]))
        if told["gpus"]:
            options["num_gpus"] = max(1, round(told["workers"] * told["gpus"]))
    ray.init(log_to_driver=False, configure_logging=False, **options)


def _reach(address: str) -> None:
    """`OSError` at once where nothing answers, on which Ray itself would wait for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE).close()


def _drive(ray: Any, told: dict[str, Any], over: threading.Event, tell: Any) -> None:
    task = ray.remote(_cell).options(
        num_cpus=told["cpus"], num_gpus=told["gpus"], max_retries=TRIES - 1, name="jitmem cell"
    )
    jobs = [Job(**job) for job in told["jobs"]]
    place = str(Path.cwd())
    owed = {task.remote(job._asdict(), place): job for job in jobs}
    waiting = list(jobs)
    while owed and not over.is_set():
        done, _ = ray.wait(list(owed), timeout=_POLL)
        for job in [job for job in waiting if RunLock(Path(job.folder)).held()]:
            waiting.remove(job)
            tell(started=job.name)
        for reference in done:
            tell(ended=_ended(ray, owed.pop(reference), reference))


def _ended(ray: Any, job: Job, reference: Any) -> Ended:
    try:
        return Ended(job.name, *ray.get(reference))
    except Exception as error:  # its worker died too often, or its machine is gone
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return Ended(job.name, "failed", f"{type(error).__name__}: {words}", 0.0)


def _cell(job: dict[str, Any], place: str) -> tuple[str, str | None, float]:
    """A task: one cell, with what models this process of the cluster has kept."""
    os.chdir(place)
    begun = time.perf_counter()
    one = Job(**job)
    _KEPT.keep([one])
    state, error = play(one, _KEPT)
    return state, error, time.perf_counter() - begun


if __name__ == "__main__":
    from jitmem_lab.sweeping.on_ray import main as imported  # tasks are pickled by this module's own name

    imported()
