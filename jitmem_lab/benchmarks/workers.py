"""Environment workers: processes that host many live environments, answered one call at a time.

A worker is a fresh interpreter started with `python -P -c …`, never a fork and never a re-run of the
caller's `__main__`, so it is as safe in a notebook cell as in a script without a main guard. It talks
over a socket pair in JSON; when its parent is gone, kill -9 included, the socket closes and it exits.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from pathlib import Path
from typing import IO, Any

from ..errors import InfrastructureError, UserError

_HEADER = struct.Struct(">Q")
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


def cpu_count() -> int:
    """CPUs that this process may use."""
    try:
        return max(1, len(os.sched_getaffinity(0)))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def send(sock: socket.socket, value: Any) -> None:
    """Write one JSON message; lone surrogates and NULs travel as escapes."""
    body = json.dumps(value).encode("ascii")
    sock.sendall(_HEADER.pack(len(body)) + body)


def receive(sock: socket.socket, deadline: float | None = None) -> Any:
    """Read one JSON message; `TimeoutError` past `deadline` (monotonic), `EOFError` at the other's end."""
    (size,) = _HEADER.unpack(_read(sock, _HEADER.size, deadline))
    return json.loads(_read(sock, size, deadline))


def _read(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        if deadline is not None:
            sock.settimeout(max(1e-3, deadline - time.monotonic()))
        chunk = sock.recv(min(size - len(parts), 1 << 20))
        if not chunk:
            raise EOFError
        parts += chunk
    return bytes(parts)


class _Worker:
    """One process with its socket; calls are serialised by its lock."""

    def __init__(self, target: str, options: dict[str, Any], python: str) -> None:
        self.lock = threading.Lock()
        self.live = 0
        self.opened = 0
        self.fresh = True
        self.cause = ""
        # an unlinked file: what the process says on stderr, kept for the message if it dies
        self.stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.sock, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parents[2])
        code = (
            f"import sys; sys.path.append({root!r})\n"
            f"from jitmem_lab.benchmarks.worker_main import main\n"
            f"main({theirs.fileno()}, {target!r}, {options!r})"
        )
        env = dict(os.environ, PYTHONHASHSEED="0", **dict.fromkeys(_THREAD_VARIABLES, "1"))
        with theirs:
            self.process = subprocess.Popen(
                [python, "-P", "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.stderr,
                pass_fds=(theirs.fileno(),),
                env=env,
                start_new_session=True,  # a Ctrl-C at the terminal is the parent's business
            )

    @property
    def alive(self) -> bool:
        return not self.cause and self.process.poll() is None

    def call(self, request: dict[str, Any], timeout: float, start_timeout: float) -> Any:
        with self.lock:
            if not self.alive:
                raise InfrastructureError(self.describe())
            limit = timeout + (start_timeout if self.fresh else 0.0)
            deadline = time.monotonic() + limit
            try:
                self.sock.settimeout(limit)
                send(self.sock, request)
                answer = receive(self.sock, deadline)
            except TimeoutError:
                self.kill(f"no answer within {limit:g} s, so it was killed")
                raise InfrastructureError(self.describe()) from None
            except (EOFError, OSError):
                self.kill("")
                raise InfrastructureError(self.describe()) from None
            except BaseException:
                # interrupted half way: the stream can no longer be trusted
                self.kill("the call was interrupted, so it was killed")
                raise
            self.fresh = False
        if "ok" in answer:
            return answer["ok"]
        if answer["kind"] == "user":
            raise UserError(answer["error"])
        raise InfrastructureError(f"the environment failed: {answer['error']}")

    def describe(self) -> str:
        return f"an environment worker ended: {self.cause or 'unknown cause'}"

    def kill(self, cause: str) -> None:
        """End the process now and remember why."""
        if not self.cause:
            if not cause:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.process.wait(1.0)
                code = self.process.poll()
                how = "closed its connection" if code is None else f"exit status {code}"
                how = f"killed by signal {-code}" if code is not None and code < 0 else how
                cause = f"{how}{self._last_words()}"
            self.cause = cause
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.sock.close()
        self.stderr.close()

    def _last_words(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            self.stderr.seek(0)
            lines = self.stderr.read().decode(errors="replace").strip().splitlines()
            return f" ({lines[-1][:300]})" if lines else ""
        return ""

    def stop(self) -> None:
        """Let the process end by closing its socket; kill it if it does not within two seconds."""
        self.cause = self.cause or "the pool was closed"
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2.0)
        self.kill(self.cause)


def class_target(found: type) -> str:
    """The target by which a worker finds a class; `UserError` for one that is defined in a notebook."""
    module = sys.modules.get(found.__module__)
    if getattr(module, "__package__", None):
        return f"{found.__module__}:{found.__qualname__}"
    file = getattr(module, "__file__", None)
    if file is None:
        raise UserError(f"put {found.__name__} into a file: worker processes cannot read it from a notebook")
    return f"{file}:{found.__qualname__}"


class RemoteEnv:
    """A live environment in some worker."""

    def __init__(self, pool: WorkerPool, worker: _Worker, env_id: int) -> None:
        self._pool = pool
        self._worker = worker
        self._env_id = env_id
        self._closed = False

    @property
    def alive(self) -> bool:
        """Whether its worker still runs."""
        return not self._closed and self._worker.alive

    @property
    def pid(self) -> int:
        """Process id of its worker."""
        return self._worker.process.pid

    def call(self, method: str, *args: Any, timeout: float | None = None) -> Any:
        """The answer of one method; `InfrastructureError` when the worker dies or hangs."""
        if self._closed:
            raise InfrastructureError("this environment is closed; make another one")
        request = {"op": "call", "env": self._env_id, "method": method, "args": args}
        return self._pool.request(self._worker, request, timeout)

    def close(self) -> None:
        """Give the place back; calling it twice, or after the worker died, is fine."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(InfrastructureError):
            self._pool.request(self._worker, {"op": "close", "env": self._env_id}, None)
        self._pool.release(self._worker)


class WorkerPool:
    """A few worker processes, started when needed, that hold many environments between them.

    Args:
        target: `module:factory` or `file.py:factory`; it is called in the worker with `options` and
            returns a host whose `open(spec)` makes an environment, and whose other methods `call` reaches.
        options: JSON keyword arguments of the factory.
        workers: Most processes at a time; None takes the number of CPUs.
        timeout: Seconds for one call; past it the worker is killed.
        start_timeout: Extra seconds for a worker's first call, which waits for its imports.
        max_opens: Environments after which a worker is replaced by a fresh one.
        python: Path of another interpreter to run the workers; None takes this one.
    """

    def __init__(
        self,
        target: str,
        options: dict[str, Any] | None = None,
        workers: int | None = None,
        timeout: float = 60.0,
        start_timeout: float = 120.0,
        max_opens: int = 1000,
        python: str | None = None,
    ) -> None:
        if workers is not None and workers < 1:
            raise UserError(f"workers must be at least 1, not {workers}")
        if python is not None and shutil.which(python) is None:
            raise UserError(f"there is no interpreter {python!r} to run the workers with")
        self.limit = workers or cpu_count()
        self.timeout = timeout
        self.start_timeout = start_timeout
        self._target = target
        self._options = options or {}
        self._max_opens = max_opens
        self._python = python or sys.executable
        self._workers: list[_Worker] = []
        self._lock = threading.Lock()
        self._counter = 0
        self._finalizer = weakref.finalize(self, _stop_all, self._workers, os.getpid())

    def open(self, spec: Any) -> RemoteEnv:
        """A live environment for `spec` in the worker with the fewest."""
        with self._lock:
            worker = self._pick()
            worker.live += 1
            worker.opened += 1
            self._counter += 1
            env_id = self._counter
        try:
            self.request(worker, {"op": "open", "env": env_id, "spec": spec}, None)
        except BaseException:
            self.release(worker)
            raise
        return RemoteEnv(self, worker, env_id)

    def call(self, method: str, *args: Any, timeout: float | None = None) -> Any:
        """The answer of one of the host's own methods, from any worker."""
        with self._lock:
            worker = self._pick()
            worker.live += 1
        try:
            return self.request(worker, {"op": "host", "method": method, "args": args}, timeout)
        finally:
            self.release(worker)

    def pids(self) -> list[int]:
        """Process ids of the workers that run."""
        with self._lock:
            return [worker.process.pid for worker in self._workers if worker.alive]

    def close(self) -> None:
        """End every worker; the pool starts new ones if it is used again."""
        with self._lock:
            _stop_all(self._workers, os.getpid())

    def request(self, worker: _Worker, request: dict[str, Any], timeout: float | None) -> Any:
        """Send one request to one worker."""
        return worker.call(request, timeout or self.timeout, self.start_timeout)

    def release(self, worker: _Worker) -> None:
        """Count one environment less, and end a worker that has had its share."""
        with self._lock:
            worker.live -= 1
            retire = worker.live == 0 and worker.opened >= self._max_opens and worker in self._workers
            if retire:
                self._workers.remove(worker)
        if retire:
            worker.stop()

    def _pick(self) -> _Worker:
        self._workers[:] = [worker for worker in self._workers if worker.alive]
        usable = [worker for worker in self._workers if worker.opened < self._max_opens]
        best = min(usable, key=lambda worker: worker.live, default=None)
        if best is None or (best.live and len(usable) < self.limit):
            best = _Worker(self._target, self._options, self._python)
            self._workers.append(best)
        return best


def _stop_all(workers: list[_Worker], owner: int) -> None:
    if os.getpid() != owner:  # a forked child must not end its parent's workers
        return
    while workers:
        workers.pop().stop()
