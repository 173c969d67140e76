"""`serve-model`: the command line by table, and real processes that start, fail and leave nothing."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models import load_model
from jitmem_lab.models.serving import FLAGS, ModelServer, Serving, command_line, environment, find_program

pytestmark = pytest.mark.unit

PROGRAM = f"{shlex.quote(sys.executable)} {shlex.quote(str(Path(__file__).parent / 'served_program.py'))}"


def running(pid: int) -> bool:
    """Whether a process lives (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
    return found


class Pids:
    """The processes of the program: itself and its engine."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> list[int]:
        return wait_for(
            lambda: self.path.exists() and self.path.read_text() and json.loads(self.path.read_text())
        )

    def gone(self) -> bool:
        return not any(running(pid) for pid in self())


@pytest.fixture
def pids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pids:
    monkeypatch.setenv("PIDS", str(tmp_path / "pids"))
    return Pids(tmp_path / "pids")


def serve(tmp_path: Path, **settings: Any) -> ModelServer:
    serving = Serving("some/model", **{"port": 0, "device": "cpu", **settings})
    return ModelServer(serving, PROGRAM, tmp_path / "log")


def start(tmp_path: Path, *words: str) -> subprocess.Popen[str]:
    """`jitmem serve-model` in a process of its own."""
    command = [sys.executable, "-m", "jitmem_lab.cli", "serve-model", "some/model", "--program", PROGRAM]
    return subprocess.Popen(
        [*command, "--device", "cpu", "--log", str(tmp_path / "log"), *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def test_the_command_on_a_gpu_and_on_a_cpu() -> None:
    gpu = Serving("Qwen/Qwen3-8B", device="cuda", max_model_len=40960, extra=("--seed", "3"))
    line = shlex.join(command_line(gpu, ["vllm"]))
    assert line == (
        "vllm serve Qwen/Qwen3-8B --host 127.0.0.1 --port 8000 --served-model-name Qwen/Qwen3-8B "
        "--max-model-len 40960 --gpu-memory-utilization 0.9 --enable-prefix-caching --generation-config vllm "
        "--logprobs-mode raw_logprobs --no-enable-log-requests --enable-auto-tool-choice "
        "--tool-call-parser hermes --seed 3"
    )
    assert environment(gpu) == {"VLLM_NO_USAGE_STATS": "1"}
    cpu = Serving("Qwen/Qwen3-8B", device="cpu", tool_parser="")
    line = shlex.join(command_line(cpu, ["python", "-m", "vllm.entrypoints.openai.api_server"]))
    assert line.startswith("python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen3-8B --host")
    assert "--enforce-eager" in line
    assert "memory" not in line
    assert "tool" not in line
    assert environment(cpu)["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_every_flag_is_one_of_vllms() -> None:
    """Where vLLM is installed: its own parser takes each of them."""
    pytest.importorskip("vllm", reason="vLLM is not installed (several GB)")
    from vllm.entrypoints.launchers.cli_args import make_arg_parser
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    known = make_arg_parser(FlexibleArgumentParser())._option_string_actions
    assert {flag for flag, _, _ in FLAGS} <= set(known)


def test_a_path_is_served_under_its_last_part(tmp_path: Path) -> None:
    (tmp_path / "pocket").mkdir()
    assert Serving(str(tmp_path / "pocket")).served == "pocket"
    assert Serving(str(tmp_path / "pocket"), name="mine").served == "mine"


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"gpu_memory": 90.0}, "--gpu-memory is a share"),
        ({"host": "0.0.0.0"}, "set VLLM_API_KEY"),
        ({"host": "203.0.113.7", "port": 0}, "set VLLM_API_KEY"),
    ],
)
def test_settings_that_make_no_sense_start_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], says: str
) -> None:
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    with pytest.raises(UserError, match=says):
        serve(tmp_path, **settings)
    assert not (tmp_path / "log").exists()


def test_a_taken_port_and_a_missing_program_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(UserError, match="choose another with --port"):
            serve(tmp_path, port=taken.getsockname()[1])
    with pytest.raises(UserError, match="is no program here"):
        find_program(str(tmp_path / "absent"))
    if importlib.util.find_spec("vllm") is not None:
        return
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(UserError, match="there is no vLLM here: pip install 'vllm=="):
        find_program()


def test_a_build_of_another_name_is_started_by_its_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `vllm-cpu` installs: the package vllm, whose own program looks for a distribution of that name."""
    (tmp_path / "vllm").mkdir()
    (tmp_path / "vllm" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("importlib.metadata.version", _no_such_package)
    assert find_program() == [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]


def _no_such_package(name: str) -> str:
    raise importlib.metadata.PackageNotFoundError(name)


def test_a_server_answers_plays_a_model_and_is_gone_afterwards(tmp_path: Path, pids: Pids) -> None:
    with serve(tmp_path, name="mine") as server:
        server.wait_ready(30)
        assert server.spec == f"openai:http://127.0.0.1:{server.serving.port}/v1#mine"
        model = load_model(server.spec)
        assert model.name == server.spec
        model.close()
        assert all(running(pid) for pid in pids())
    assert pids.gone()


def test_a_server_that_fails_tells_its_last_lines(
    tmp_path: Path, pids: Pids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "die")
    with (
        serve(tmp_path) as server,
        pytest.raises(
            InfrastructureError, match=r"(?s)ended with status 1; .*raise gpu_memory_utilization$"
        ) as error,
    ):
        server.wait_ready(30)
    assert "INFO loading weights" in str(error.value)
    assert pids.gone()


def test_a_server_that_takes_too_long_is_ended(
    tmp_path: Path, pids: Pids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOADS", "60")
    monkeypatch.setattr("jitmem_lab.models.serving.TELL_SECONDS", 2.0)
    told: list[str] = []
    with serve(tmp_path) as server, pytest.raises(InfrastructureError, match="did not answer within 3 s"):
        server.wait_ready(3, told.append)
    assert told == ["2 s: INFO loading weights"]
    assert pids.gone()


def test_a_server_that_will_not_end_is_killed(
    tmp_path: Path, pids: Pids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "stubborn")
    monkeypatch.setattr("jitmem_lab.models.serving.PATIENCE", 2.0)
    with serve(tmp_path) as server:
        server.wait_ready(30)
        asked = time.monotonic()
    assert 2.0 <= time.monotonic() - asked < 10
    assert pids.gone()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_prints_the_spec_and_ends_on_a_signal(tmp_path: Path, pids: Pids, number: int) -> None:
    process = start(tmp_path, "--port", "0", "--json")
    try:
        about = json.loads(process.stdout.readline())
        assert about["model"] == f"openai:{about['url']}#some/model"
        assert "--served-model-name" in about["command"]
        process.send_signal(number)
        _, stderr = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 0
    assert stderr.strip().endswith("ended")
    assert pids.gone()


def test_kill_9_of_the_command_ends_the_server(tmp_path: Path, pids: Pids) -> None:
    process = start(tmp_path, "--port", "0")
    assert process.stdout.readline().startswith("openai:http://127.0.0.1:")
    process.kill()
    process.communicate(timeout=10)
    wait_for(pids.gone)


def test_kill_9_of_the_guard_ends_the_server(tmp_path: Path, pids: Pids) -> None:
    with serve(tmp_path) as server:
        server.wait_ready(30)
        os.kill(server._guard.pid, signal.SIGKILL)
        wait_for(lambda: not running(pids()[0]))
        with pytest.raises(InfrastructureError, match="ended with status -9"):
            server.check_alive()
    os.kill(
        pids()[1], signal.SIGKILL
    )  # the one thing that outlives a killed guard: a child that left its session


def test_a_server_that_dies_later_is_an_infrastructure_error(
    tmp_path: Path, pids: Pids, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODE", "later")
    process = start(tmp_path, "--port", "0")
    stdout, stderr = process.communicate(timeout=40)
    assert stdout.startswith("openai:")
    assert process.returncode == 3
    assert "error: the server ended with status 9; its log is" in stderr
    assert pids.gone()


def test_a_dry_run_starts_nothing(tmp_path: Path, pids: Pids) -> None:
    command = [sys.executable, "-m", "jitmem_lab.cli", "serve-model", "m", "--dry-run", "--device", "cpu"]
    done = subprocess.run(
        [*command, "--", "--seed", "3"], capture_output=True, text=True, timeout=60, check=True
    )
    assert "VLLM_CPU_KVCACHE_SPACE=2 vllm serve m --host 127.0.0.1 --port 8000" in done.stdout
    assert done.stdout.endswith("--seed 3\n")
    assert not pids.path.exists()
