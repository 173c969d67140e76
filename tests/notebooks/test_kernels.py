"""Kernels by name on loopback: real kernels, a real gateway, a real sshd, and what happens when they die."""

from __future__ import annotations

import getpass
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nbformat
import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.kernels.gateway import add_gateway
from jitmem_lab.kernels.provisioner import add_local
from jitmem_lab.kernels.ssh import add_ssh
from jitmem_lab.notebooks import read_status, run_notebook

from .test_runner import gone, make, texts, wait_for

pytestmark = pytest.mark.notebooks

TOKEN = "sesame-4711"
SHOW = """import os
from jitmem_lab.provenance import provenance
print(k, provenance()["kernel"], os.environ.get("FLAVOUR"), os.getcwd())"""
SLOW = "import os, time\nopen({pid!r}, 'w').write(str(os.getpid()))\ntime.sleep(300)"
ENDS_WITHIN = 25.0  # seconds from a death to the run's end; a gateway looks after its kernels every 3


@pytest.fixture(scope="module")
def jupyter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A Jupyter folder of our own with a kernel `gpu` on this machine."""
    folder = tmp_path_factory.mktemp("jupyter")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_DATA_DIR", str(folder / "data"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "run"))
        patch.delenv("GPU_TOKEN", raising=False)
        (folder / "work").mkdir()
        # jsonschema does without it, and every process that reads a notebook starts seconds sooner
        (folder / "rfc3987_syntax.py").write_text("raise ImportError\n")
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        add_local("gpu", env={"FLAVOUR": "sour"}, cwd=str(folder / "work"))
        yield folder


class Gate(NamedTuple):
    """A running gateway."""

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def kernels(self) -> list[dict[str, Any]]:
        """Kernels that it runs."""
        request = urllib.request.Request(f"{self.url}/api/kernels")
        request.add_header("Authorization", f"token {TOKEN}")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def start_gateway(folder: Path, *options: str) -> Gate:
    port, log = free_port(), folder / "gateway.log"
    command = [sys.executable, "-m", "kernel_gateway", "--KernelGatewayApp.ip=127.0.0.1"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, f"--KernelGatewayApp.port={port}", "--KernelGatewayApp.port_retries=0",
             "--JupyterWebsocketPersonality.list_kernels=True", *options],
            stdout=out, stderr=out, cwd=folder, env={**os.environ, "KG_AUTH_TOKEN": TOKEN},
            start_new_session=True,
        )  # fmt: skip
    wait_for(lambda: listens(port) or process.poll() is not None, 60)
    assert process.poll() is None, log.read_text()
    return Gate(f"http://127.0.0.1:{port}", process, log)


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process and its group, if it has not ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(10)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
    process.wait(10)


@pytest.fixture(scope="module")
def gate(jupyter: Path) -> Iterator[Gate]:
    """A gateway with a token, and the kernel `far` that leads there."""
    pytest.importorskip("kernel_gateway", reason="jupyter-kernel-gateway is not installed (extra: dev)")
    gate = start_gateway(jupyter)
    add_gateway("far", gate.url, "GPU_TOKEN")
    yield gate
    stop(gate.process)


@pytest.fixture
def token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPU_TOKEN", TOKEN)


def jitmem(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "jitmem_lab.cli", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def start(folder: Path, kernel: str, *names: str) -> list[tuple[subprocess.Popen[str], int]]:
    """`jitmem run` of notebooks that sleep, one for each name, and the pids of their kernels."""
    processes = []
    for name in names:
        book = make(folder, SLOW.format(pid=str(folder / f"{name}.pid")), name=f"{name}-book")
        processes.append(jitmem("run", str(book), "-k", kernel, "-o", str(folder / f"{name}.ipynb")))
    try:
        pids = [folder / f"{name}.pid" for name in names]
        wait_for(lambda: all(pid.exists() and pid.read_text() for pid in pids), 90)
    except BaseException:
        for process in processes:
            process.kill()
            print(process.communicate())
        raise
    return [(process, int(pid.read_text())) for process, pid in zip(processes, pids, strict=True)]


def ends_killed(process: subprocess.Popen[str], output: Path) -> str:
    """What a run says whose kernel was killed; its exit and status are checked."""
    began = time.monotonic()
    try:
        stdout, stderr = process.communicate(timeout=2 * ENDS_WITHIN)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (3, ""), stderr
    assert time.monotonic() - began < ENDS_WITHIN
    assert read_status(output)["state"] == "killed"
    assert not output.exists()
    return stderr


class Running:
    """A run in a thread of this process, of a notebook that sleeps."""

    def __init__(self, folder: Path, kernel: str) -> None:
        self.output, pid = folder / "out.ipynb", folder / "pid"
        book = make(folder, SLOW.format(pid=str(pid)))
        self.errors: list[Exception] = []
        self.thread = threading.Thread(target=self._run, args=(book, kernel))
        self.thread.start()
        self.pid = int(wait_for(lambda: pid.exists() and pid.read_text(), 60))

    def _run(self, book: Path, kernel: str) -> None:
        try:
            run_notebook(book, output=self.output, kernel=kernel, progress=False)
        except Exception as error:
            self.errors.append(error)

    def dies(self) -> str:
        """What it says once its kernel has died."""
        self.thread.join(ENDS_WITHIN)
        assert not self.thread.is_alive()
        assert read_status(self.output)["state"] == "killed"
        (error,) = self.errors
        assert isinstance(error, InfrastructureError)
        return str(error)


def papermill(folder: Path, kernel: str, **parameters: Any) -> list[str]:
    """What a notebook shows under papermill itself, which knows nothing but the kernel's name."""
    book = make(folder, SHOW)
    notebook = nbformat.read(book, 4)
    notebook.metadata.kernelspec = {"name": "python3", "language": "python", "display_name": "Python 3"}
    nbformat.write(notebook, book)
    from papermill import execute_notebook

    execute_notebook(book, folder / "plain.ipynb", parameters, kernel_name=kernel, progress_bar=False)
    return texts(folder / "plain.ipynb")


def test_four_runs_at_a_time_on_one_kernel_name(jupyter: Path, tmp_path: Path) -> None:
    book = make(tmp_path, SHOW)
    runs = [
        jitmem("run", str(book), "-k", "gpu", "-o", str(tmp_path / f"{n}.ipynb"), "-p", "k", str(n))
        for n in range(4)
    ]
    said = [run.communicate(timeout=120) for run in runs]
    assert [run.returncode for run in runs] == [0] * 4, said
    for n in range(4):
        assert texts(tmp_path / f"{n}.ipynb") == [f"{n} gpu sour {jupyter / 'work'}\n"]
        status = read_status(tmp_path / f"{n}.ipynb")
        assert (status["state"], status["kernel"]) == ("completed", "gpu")


def test_plain_papermill_needs_the_name_alone(jupyter: Path, tmp_path: Path) -> None:
    assert papermill(tmp_path, "gpu", k=9) == [f"9 gpu sour {jupyter / 'work'}\n"]


def test_a_kernel_picks_its_ports_and_keeps_them_when_it_is_started_again(jupyter: Path) -> None:
    from jupyter_client.manager import KernelManager

    manager = KernelManager(kernel_name="gpu")
    manager.start_kernel()
    try:
        ports = manager.ports
        written = json.loads(Path(manager.connection_file).read_text())
        assert sorted(ports) == sorted(
            written[f"{name}_port"] for name in ("shell", "stdin", "iopub", "hb", "control")
        )
        assert all(ports)
        manager.restart_kernel(now=True)
        assert manager.ports == ports
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(60)
        client.stop_channels()
    finally:
        manager.shutdown_kernel(now=True)


def test_a_killed_local_kernel_is_a_killed_run(jupyter: Path, tmp_path: Path) -> None:
    ((process, pid),) = start(tmp_path, "gpu", "out")
    os.kill(pid, signal.SIGKILL)
    assert "its kernel died" in ends_killed(process, tmp_path / "out.ipynb")


def test_what_the_kernelspec_names_must_be_there(jupyter: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    (tmp_path / "place").mkdir()
    add_local("moved", str(python), cwd=str(tmp_path / "place"))
    (tmp_path / "place").rmdir()
    with pytest.raises(UserError, match="kernel moved: there is no folder"):
        run_notebook(make(tmp_path, SHOW), output=tmp_path / "out.ipynb", kernel="moved", progress=False)
    assert read_status(tmp_path / "out.ipynb")["state"] == "failed"
    python.unlink()
    process = jitmem("kernels", "check", "moved")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (2, "")
    assert stderr.startswith(f"error: kernel moved: there is no Python {python}")


def test_check_says_what_a_kernel_has_and_leaves_nothing(jupyter: Path, tmp_path: Path) -> None:
    process = jitmem("kernels", "check", "gpu", "--json")
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (0, "")
    found = json.loads(stdout)
    assert (found["kernel"], found["kind"], found["mark"]) == ("gpu", "local", "gpu")
    assert found["executable"] == sys.executable
    assert found["folder"] == str(jupyter / "work")
    assert 0 < found["round_trip_ms"] < 2000
    assert found["packages"]["jitmem-lab"]
    assert "warning" not in found
    assert gone(found["pid"])


def test_a_kernel_that_does_not_start_says_what_to_look_at(jupyter: Path, tmp_path: Path) -> None:
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho no module named ipykernel >&2\nexit 1\n")
    bare.chmod(0o755)
    add_local("bare", str(bare))
    process = jitmem("kernels", "check", "bare")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (3, "")
    wanted = f"does not start (no module named ipykernel); this must succeed: {bare} -m ipykernel --version"
    assert wanted in stderr


@pytest.mark.usefixtures("token")
def test_a_gateway_lets_the_token_in_on_every_way(gate: Gate, tmp_path: Path) -> None:
    out = run_notebook(
        make(tmp_path, SHOW), {"k": 5}, output=tmp_path / "out.ipynb", kernel="far", progress=False
    )
    assert texts(out)[0].startswith("5 far None ")
    assert read_status(out)["kernel"] == "far"
    assert papermill(tmp_path, "far", k=6)[0].startswith("6 far None ")
    assert gate.kernels() == []
    written = [path.read_text() for path in tmp_path.iterdir() if path.is_file()]
    assert not any(TOKEN in text for text in written)


def test_check_of_a_gateway_without_and_with_a_wrong_token(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = jitmem("kernels", "check", "far")
    assert (
        process.communicate(timeout=60)[1] == f"error: set GPU_TOKEN to the token of the gateway {gate.url}\n"
    )
    monkeypatch.setenv("GPU_TOKEN", "wrong-token")
    process = jitmem("kernels", "check", "far")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (2, "")
    assert stderr == (
        f"error: the gateway {gate.url} refuses the token in GPU_TOKEN (status 401); "
        "set GPU_TOKEN to the gateway's token\n"
    )


def test_a_wrong_token_starts_nothing_and_is_shown_nowhere(
    gate: Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPU_TOKEN", "wrong-token")
    with pytest.raises(UserError, match="refuses the token in GPU_TOKEN") as ours:
        run_notebook(make(tmp_path, SHOW), output=tmp_path / "out.ipynb", kernel="far", progress=False)
    assert read_status(tmp_path / "out.ipynb")["state"] == "failed"
    with pytest.raises(UserError, match="refuses the token in GPU_TOKEN") as plain:
        papermill(tmp_path, "far")
    said = [str(ours.value), str(plain.value), *capfd.readouterr()]
    written = [path.read_text() for path in tmp_path.iterdir() if path.is_file()]
    assert not any("wrong-token" in text for text in [*said, *written])
    monkeypatch.setenv("GPU_TOKEN", TOKEN)
    assert gate.kernels() == []


@pytest.mark.usefixtures("token")
def test_whatever_dies_the_run_is_killed_and_the_gateway_is_left_clean(gate: Gate, tmp_path: Path) -> None:
    """The kernel there, the bridge here, and the run itself, each by kill -9, all three at a time."""
    names = ("kernel", "bridge", "runner")
    runs = dict(zip(names, start(tmp_path, "far", *names), strict=True))
    assert len(gate.kernels()) == 3
    bridges = {name: bridge_of(process.pid) for name, (process, _) in runs.items()}
    os.kill(runs["kernel"][1], signal.SIGKILL)
    os.kill(bridges["bridge"], signal.SIGKILL)
    runs["runner"][0].kill()
    runs["runner"][0].communicate(timeout=20)
    assert "the kernel on the gateway" in ends_killed(runs["kernel"][0], tmp_path / "kernel.ipynb")
    assert "its kernel died" in ends_killed(runs["bridge"][0], tmp_path / "bridge.ipynb")
    assert read_status(tmp_path / "runner.ipynb")["state"] == "killed"
    wait_for(lambda: gate.kernels() == [], 20)
    assert all(gone(pid) for _, pid in runs.values())
    wait_for(lambda: all(gone(pid) for pid in bridges.values()), 10)


def bridge_of(pid: int) -> int:
    """The bridge that a run has started."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in children}
    (found,) = [child for child, command in commands.items() if b"jitmem_lab.kernels.bridge" in command]
    return found


@pytest.mark.usefixtures("token")
def test_an_interrupt_reaches_the_gateways_kernel(gate: Gate, tmp_path: Path) -> None:
    ((process, pid),) = start(tmp_path, "far", "out")
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=40)
    assert (process.returncode, stdout) == (130, "")
    assert "interrupted (" in stderr
    assert read_status(tmp_path / "out.ipynb")["state"] == "interrupted"
    errors = [o for c in nbformat.read(tmp_path / "out.failed.ipynb", 4).cells for o in c.get("outputs", [])]
    assert [o.ename for o in errors if o.output_type == "error"] == ["KeyboardInterrupt"]
    assert gone(pid)
    assert gate.kernels() == []


@pytest.mark.usefixtures("token")
def test_jupyterlabs_server_runs_it_from_the_menu(gate: Gate, tmp_path: Path) -> None:
    """What JupyterLab does: list the kernel, start it over HTTP, ask it on the server's websocket."""
    import asyncio

    from tornado.websocket import websocket_connect

    port = free_port()
    command = [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", f"--port={port}"]
    command += [
        "--ServerApp.ip=127.0.0.1",
        "--IdentityProvider.token=door",
        f"--ServerApp.root_dir={tmp_path}",
    ]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, start_new_session=True)

    def api(path: str, body: dict[str, Any] | None = None, method: str | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/api/{path}", data, method=method)
        request.add_header("Authorization", "token door")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    async def ask(kernel: str) -> str:
        header = {"msg_id": "1", "session": "s", "username": "me", "date": "2026-01-01T00:00:00Z"}
        header |= {"msg_type": "execute_request", "version": "5.3"}
        content = {"code": "import os; print(os.environ['JITMEM_KERNEL'])", "silent": False}
        message = {
            "channel": "shell",
            "header": header,
            "parent_header": {},
            "metadata": {},
            "content": content,
        }
        channels = await websocket_connect(f"ws://127.0.0.1:{port}/api/kernels/{kernel}/channels?token=door")
        await channels.write_message(json.dumps(message))
        while True:
            blob = await asyncio.wait_for(channels.read_message(), 30)
            said = json.loads(blob)
            if said["header"]["msg_type"] == "stream":
                channels.close()
                return said["content"]["text"]

    try:
        wait_for(lambda: listens(port), 60)
        assert {"far", "gpu"} <= set(api("kernelspecs")["kernelspecs"])
        kernel = api("kernels", {"name": "far"})["id"]
        assert asyncio.run(ask(kernel)) == "far\n"
        api(f"kernels/{kernel}", method="DELETE")
        assert gate.kernels() == []
    finally:
        stop(server)


@pytest.mark.usefixtures("token")
def test_a_gateway_that_goes_in_the_middle_is_a_killed_run(gate: Gate, tmp_path: Path) -> None:
    """The last one that needs the gateway."""
    run = Running(tmp_path, "far")
    gate.process.kill()
    assert f"the gateway {gate.url} does not answer" in run.dies()
    process = jitmem("kernels", "check", "far")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (3, "")
    assert stderr.startswith(f"error: the gateway {gate.url} does not answer")


class Ssh(NamedTuple):
    """An sshd on loopback."""

    settings: Path
    """The settings that were written for the kernel `away` behind it."""
    daemon: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def sshd(jupyter: Path) -> Iterator[Ssh]:
    """An sshd on loopback, and the kernel `away` behind it."""
    pytest.importorskip("sshpyk", reason="sshpyk is not installed (extra: kernels)")
    program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin:/usr/local/sbin")
    if program is None or shutil.which("ssh") is None:
        pytest.skip("no sshd here: install Debian's packages openssh-server and openssh-client")
    if os.getuid() == 0:  # where sshd keeps what it does before it knows who calls
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    folder, port = jupyter / "ssh", free_port()
    folder.mkdir(mode=0o700)
    for key in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / key], check=True)
    shutil.copy(folder / "user.pub", folder / "authorized")
    (folder / "authorized").chmod(0o600)
    lines = [f"Port {port}", "ListenAddress 127.0.0.1", f"HostKey {folder / 'host'}", "UsePAM no",
             f"AuthorizedKeysFile {folder / 'authorized'}", "StrictModes no", "PidFile none",
             "PermitRootLogin prohibit-password", "PasswordAuthentication no",
             f"SetEnv HOME={folder}"]  # fmt: skip
    (folder / "sshd_config").write_text("\n".join(lines) + "\n")
    client = ["Host gpubox", "  HostName 127.0.0.1", f"  Port {port}", f"  User {getpass.getuser()}",
              f"  IdentityFile {folder / 'user'}", "  IdentitiesOnly yes", "  StrictHostKeyChecking no",
              "  UserKnownHostsFile /dev/null", "  LogLevel ERROR"]  # fmt: skip
    (folder / "config").write_text("\n".join(client) + "\n")
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen(
            [program, "-D", "-e", "-f", folder / "sshd_config"],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    wait_for(lambda: listens(port) or daemon.poll() is not None)
    assert daemon.poll() is None, (folder / "log").read_text()
    settings = add_ssh("away", "gpubox", sys.executable, str(folder / "config")) / "ssh_config"
    yield Ssh(settings, daemon)
    subprocess.run(["ssh", "-F", settings, "-O", "exit", "gpubox"], capture_output=True, check=False)
    stop(daemon)


def test_a_kernel_over_ssh_runs_and_its_death_is_noticed(sshd: Ssh, tmp_path: Path) -> None:
    assert papermill(tmp_path, "away", k=7)[0].startswith("7 ")
    run = Running(tmp_path, "away")
    os.kill(run.pid, signal.SIGKILL)
    assert "its kernel died" in run.dies()


def test_check_over_ssh(sshd: Ssh) -> None:
    process = jitmem("kernels", "check", "away", "--json")
    stdout, stderr = process.communicate(timeout=120)
    assert (process.returncode, stderr) == (0, "")
    found = json.loads(stdout)
    assert (found["kind"], found["target"], found["executable"]) == ("ssh", "ssh gpubox", sys.executable)
    assert gone(found["pid"])


def test_an_interrupt_ends_the_kernel_over_ssh(sshd: Ssh, tmp_path: Path) -> None:
    ((process, pid),) = start(tmp_path, "away", "out")
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr
    assert read_status(tmp_path / "out.ipynb")["state"] == "interrupted"
    wait_for(lambda: gone(pid), 20)


def test_a_host_that_ssh_does_not_reach_says_what_must_succeed(sshd: Ssh) -> None:
    own = sshd.settings.read_text().partition('Include "')[2].partition('"')[0]
    Path(own).write_text(Path(own).read_text() + f"Host nobody\n  HostName 127.0.0.1\n  Port {free_port()}\n")
    add_ssh("lost", "nobody", sys.executable, own)
    process = jitmem("kernels", "check", "lost")
    stdout, stderr = process.communicate(timeout=60)
    assert (process.returncode, stdout) == (3, "")
    assert "this must succeed without a question: ssh -F " in stderr


def test_a_host_that_vanishes_is_a_killed_run(
    sshd: Ssh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last one that needs the host."""
    monkeypatch.setattr("jitmem_lab.kernels.tunnel.LOST_SECONDS", 2.0)
    run = Running(tmp_path, "away")
    try:
        subprocess.run(["ssh", "-F", sshd.settings, "-O", "exit", "gpubox"], capture_output=True, check=True)
        stop(sshd.daemon)
        assert "its kernel died" in run.dies()
    finally:
        os.kill(run.pid, signal.SIGKILL)
