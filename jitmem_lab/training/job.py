"""A training as a job of its own: started, found again, stopped; never tied to a notebook's life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import InfrastructureError, UserError
from ..runs import RunLock
from .config import TrainConfig
from .runs import TrainRun
from .step_bar import StepBar

START_SECONDS = 60.0
"""How long a job may take until it holds its run directory's lock."""


def launch(config: TrainConfig, out: str | Path | None = None, *, launcher: Sequence[str] = ()) -> TrainJob:
    """Start a training in a process of its own, or go on with one, and come back at once.

    Args:
        config: What to train.
        out: The run directory; None takes `config.folder()`.
        launcher: What goes before the module for several GPUs, e.g. `["accelerate", "launch",
            "--config_file", "eight.yaml"]`; None of it starts this interpreter.

    Raises:
        UserError: The folder holds another training.
        InfrastructureError: The process died at once; its last words are in the message.
    """
    from .main import prepare

    path = prepare(config, out)
    job = TrainJob(path)
    if job.running or job.status()["state"] == "completed":
        return job
    module = ["-m", "jitmem_lab.training.main", str(path)]
    command = [*launcher, *module] if launcher else [sys.executable, *module]
    begun = time.time()
    with (path / "log.txt").open("ab") as log:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        except OSError as error:
            raise UserError(f"the launcher {command[0]!r} cannot be started: {error.strerror}") from None
    limit = time.monotonic() + START_SECONDS
    while time.monotonic() < limit:
        status = job.status()
        if job.running and "pid" in status and (status.get("started") or 0) >= begun:
            break
        if process.poll() is not None:
            if process.returncode == 0 and job.status()["state"] != "new":
                break
            raise InfrastructureError(f"the training ended at once: {job.log_tail(1) or 'it said nothing'}")
        time.sleep(0.1)
    return job


def attach(path: str | Path) -> TrainJob:
    """The job of a run directory, whoever started it; `UserError` where there is none."""
    return TrainJob(path)


class TrainJob:
    """A training's process, known by its run directory alone."""

    def __init__(self, path: str | Path) -> None:
        self.run = TrainRun(path)
        self.path = self.run.path

    def __repr__(self) -> str:
        return f"TrainJob({str(self.path)!r}, {self.status()['state']})"

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return RunLock(self.path).held()

    def status(self) -> dict[str, Any]:
        """How it stands, see `TrainRun.status`."""
        return self.run.status()

    def log_tail(self, lines: int = 20) -> str:
        """The last lines that the process printed."""
        try:
            with (self.path / "log.txt").open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 50_000))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return ""
        return "\n".join(text.strip().splitlines()[-lines:])

    def stop(self, wait: float = 600.0) -> dict[str, Any]:
        """Ask it to stop at the end of its step, with a checkpoint, and wait for that.

        Args:
            wait: Most seconds to wait; 0 only asks.

        Returns:
            Its status.

        Raises:
            UserError: Its process is on another machine, another user's, or another program.
            InfrastructureError: It has not stopped in time (it still will, at the end of its step).
        """
        status = self.status()
        if not self.running:
            return status
        if status.get("host") not in (None, os.uname().nodename):
            raise UserError(f"the training runs on {status['host']}; stop it there")
        if status.get("stoppable") is False:
            raise UserError(f"{self.path} is trained inside another program, which alone can stop it")
        pid = status.get("pid")
        try:
            if type(pid) is not int or pid < 2:
                raise ProcessLookupError
            os.kill(pid, signal.SIGTERM)
        except (ProcessLookupError, OverflowError):
            raise UserError(f"{self.path} does not say yet which process it is; try again") from None
        except PermissionError:
            raise UserError(
                f"the training in {self.path} belongs to another user, who alone can stop it"
            ) from None
        limit = time.monotonic() + wait
        while wait and self.running:
            if time.monotonic() > limit:
                raise InfrastructureError(
                    f"{self.path} has not stopped within {wait:.0f} s; it will at the end of its step"
                )
            time.sleep(0.1)
        return self.status()

    def wait(self, seconds: float = float("inf")) -> dict[str, Any]:
        """Wait until it ends, at most so many seconds; its status then."""
        limit = time.monotonic() + seconds
        while self.running and time.monotonic() < limit:
            time.sleep(0.2)
        return self.status()

    def watch(self) -> TrainRun:
        """Follow it with a bar until it ends; ending this (or the kernel) does not end the training.

        Returns:
            The training, completed or stopped.

        Raises:
            InfrastructureError: It failed or its process died; the cause is in the message.
            KeyboardInterrupt: The user ended the watching.
        """
        bar = StepBar(int(self.run.request.get("steps") or 0))
        try:
            while True:
                running, status = self.running, self.status()
                bar.show(int(status.get("step") or 0), status)
                if not running:
                    break
                time.sleep(0.5)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(
                f"no longer watched; the training goes on, and `jitmem train stop {self.path}` ends it"
            ) from None
        finally:
            bar.close()
        if status.get("state") not in ("completed", "stopped"):
            cause = status.get("error") or self.log_tail(1) or "it said nothing"
            raise InfrastructureError(
                f"the training is {status.get('state')}: {cause}; resume() goes on with it"
            )
        return self.run

    def resume(self) -> TrainJob:
        """Go on with it from its last checkpoint."""
        return launch(self.run.config, self.path)
