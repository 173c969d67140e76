"""Whoever plays a sweep's cells, the table is the same, and a worker that dies costs what was under way."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.analysis import results_table
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.grids import Grid
from jitmem_lab.runs import Run
from jitmem_lab.sweep import Sweep, read_sweep, run_sweep
from jitmem_lab.sweeping.cells import Job
from jitmem_lab.sweeping.engines import TRIES, Here, Processes, _Worker, make_engine

from .panels import follow
from .stub_server import Say, StubServer, stub_server, thinking
from .training import WORLD

pytestmark = pytest.mark.unit
AXES = {"memory": ["none", "raw", "jitmem"], "order": [0, 1]}


class Pace:
    """A server's brain that can be made slow."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.asked = 0

    def __call__(self, body: dict[str, Any]) -> Say:
        self.asked += 1
        judged = "messages" not in body
        return Say("yes" if judged else follow(body), seconds=self.seconds)


@pytest.fixture(scope="module")
def pace() -> Pace:
    return Pace()


@pytest.fixture(scope="module")
def server(pace: Pace) -> Iterator[StubServer]:
    with stub_server(thinking(pace)) as made:
        yield made


def grid(server: StubServer, **axes: list[Any]) -> Grid:
    fixed = {"benchmark": WORLD, "split": "valid_seen", "model": f"openai:{server.url}#m", "act": "write"}
    return Grid(fixed | {"games": 8, "batch_size": 4, "gate": "environment"}, axes or AXES)


def tables(sweep: Sweep) -> dict[str, Any]:
    assert not sweep.failed(), [place.error for place in sweep.failed()]
    return {name: results_table(run.latest()) for name, run in sweep.runs().items()}


@pytest.fixture(scope="module")
def alone(server: StubServer, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process makes of it."""
    return tables(run_sweep(grid(server), out=tmp_path_factory.mktemp("alone") / "s", progress=False))


def once_each(out: Path) -> None:
    for folder in out.glob("*/config.json"):
        counts = Counter(e.key for e in Run(folder.parent).iter_episodes() if e.outcome != "error")
        assert set(counts.values()) == {1}, folder


def children() -> list[int]:
    """Processes that play cells for this one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        if b"jitmem_lab.sweeping.worker" in words and parent == os.getpid():
            found.append(int(entry.name))
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_two_processes_give_the_same_and_leave_nothing(
    server: StubServer, alone: dict[str, Any], tmp_path: Path
) -> None:
    sweep = run_sweep(grid(server), out=tmp_path / "s", engine=Processes(2), progress=False)
    assert tables(sweep) == alone
    assert children() == []
    status = read_sweep(tmp_path / "s")
    assert (status["state"], status["done"]) == ("completed", 48)
    assert all(cell["seconds"] > 0 for cell in status["cells"])


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_process_killed_in_the_middle_of_a_cell_is_replaced(
    server: StubServer, pace: Pace, alone: dict[str, Any], tmp_path: Path
) -> None:
    killed: list[int] = []

    def kill() -> None:
        limit = time.monotonic() + 60
        while time.monotonic() < limit and not killed:
            under_way = [file for file in (tmp_path / "s").glob("*/episodes.jsonl") if file.stat().st_size]
            if under_way and (there := children()):
                killed.append(there[0])
                os.kill(there[0], signal.SIGKILL)
            time.sleep(0.02)

    pace.seconds = 0.02
    try:
        killer = threading.Thread(target=kill)
        killer.start()
        sweep = run_sweep(grid(server), out=tmp_path / "s", engine=Processes(2), progress=False)
    finally:
        pace.seconds = 0.0
        killer.join()
    assert killed
    assert tables(sweep) == alone
    once_each(tmp_path / "s")


def test_a_cell_that_kills_its_process_each_time_is_told_and_stops_no_other(
    server: StubServer, tmp_path: Path
) -> None:
    world = tmp_path / "deadly.py"
    world.write_text(
        "import os\nfrom tests.unit.panels import Panels\n\n\n"
        "class Deadly(Panels):\n"
        "    def make_env(self, task, session=None):\n"
        "        os.write(2, b'no more room\\n')\n"
        "        os._exit(9)\n"
    )
    rows = {"deadly": {"benchmark": f"{world}:Deadly"}, "fine": {"benchmark": WORLD}}
    fixed = {name: value for name, value in grid(server).fixed.items() if name != "benchmark"}
    sweep = run_sweep(Grid(fixed | {"memory": "none"}, {}, rows), out=tmp_path / "s", engine=Processes(2))
    assert [place.state for place in sweep.places] == ["failed", "completed"]
    assert sweep.places[0].error == f"its process died {TRIES} times; exit 9: no more room"


SWEPT = """
import sys
from tests.unit.test_sweep_engines import StubServer, grid
from jitmem_lab.sweep import run_sweep
from jitmem_lab.sweeping.cells import Job
from jitmem_lab.sweeping.engines import make_engine

server = StubServer.__new__(StubServer)
server.url = sys.argv[2]
run_sweep(grid(server), out=sys.argv[1], engine=make_engine(sys.argv[3], 2))
"""


def swept(out: Path, url: str, engine: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", SWEPT, str(out), url, engine]
    return subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True)


SLOW = pytest.mark.skipif(
    not os.environ.get("JITMEM_SLOW"), reason="minutes of Ray's own start; JITMEM_SLOW=1"
)


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=SLOW)])
def test_a_killed_sweep_takes_its_workers_along_and_goes_on(
    server: StubServer, pace: Pace, alone: dict[str, Any], tmp_path: Path, engine: str
) -> None:
    if engine == "ray":
        pytest.importorskip("ray", reason="needs the extra ray")
    out = tmp_path / "s"
    pace.seconds = 0.05
    try:
        with swept(out, server.url, engine) as process:
            limit = time.monotonic() + 120
            while not any(file.stat().st_size for file in out.glob("*/episodes.jsonl")):
                assert time.monotonic() < limit
                assert process.poll() is None
                time.sleep(0.05)
            assert read_sweep(out)["state"] == "running"
            process.kill()
        assert read_sweep(out)["state"] == "killed"
        before = {file: file.read_bytes() for file in out.glob("*/episodes.jsonl")}
        limit = time.monotonic() + 60
        while True:  # those that were under way are let go of
            asked = pace.asked
            time.sleep(1)
            if asked == pace.asked:
                break
            assert time.monotonic() < limit
    finally:
        pace.seconds = 0.0
    sweep = run_sweep(grid(server), out=out, engine=make_engine(engine, 2), progress=False)
    assert tables(sweep) == alone
    once_each(out)
    for path, content in before.items():
        assert path.read_bytes().startswith(content[: content.rfind(b"\n") + 1])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Head:
    """A Ray cluster of this machine, as `ray start` makes it."""

    def __init__(self) -> None:
        self.port = free_port()

    def start(self) -> None:
        """Start it, or start it again at the same address."""
        command = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", "--num-cpus=2"]
        command += [f"--port={self.port}", "--include-dashboard=false"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        limit = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                break
            assert self._process.poll() is None
            assert time.monotonic() < limit
            time.sleep(0.2)

    def stop(self) -> None:
        """End it and all of its processes."""
        self._process.terminate()
        self._process.wait(60)


def test_a_cluster_is_joined_its_killed_worker_replaced_and_its_head_may_go(
    server: StubServer, pace: Pace, alone: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    head = Head()
    out = tmp_path / "s"
    errors: list[BaseException] = []

    def sweep() -> Sweep:
        engine = make_engine("ray", address=f"127.0.0.1:{head.port}")
        return run_sweep(grid(server), out=out, engine=engine, progress=False)

    def first() -> None:
        try:
            sweep()
        except BaseException as error:
            errors.append(error)

    pace.seconds = 0.3
    try:
        head.start()
        begun = threading.Thread(target=first)
        begun.start()
        limit = time.monotonic() + 120
        while not any(file.stat().st_size for file in out.glob("*/episodes.jsonl")):
            assert time.monotonic() < limit
            assert begun.is_alive()
            time.sleep(0.05)
        worker = subprocess.run(["pgrep", "-f", "^ray::jitmem cell"], capture_output=True, text=True)
        os.kill(int(worker.stdout.split()[0]), signal.SIGKILL)
        time.sleep(3)
        assert begun.is_alive()
        head.stop()
        begun.join(120)
        assert not begun.is_alive()
        assert isinstance(errors[0], InfrastructureError)
        assert read_sweep(out)["state"] == "failed"
        pace.seconds = 0.0
        head.start()
        assert tables(sweep()) == alone
        once_each(out)
    finally:
        pace.seconds = 0.0
        head.stop()


def test_a_cluster_that_is_not_there_is_one_sentence(server: StubServer, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="needs the extra ray")
    engine = make_engine("ray", address="127.0.0.1:1")
    with pytest.raises(InfrastructureError, match=r"the Ray cluster at 127.0.0.1:1 cannot be reached"):
        run_sweep(grid(server, memory=["none"]), out=tmp_path / "s", engine=engine, progress=False)
    assert read_sweep(tmp_path / "s")["state"] == "failed"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"name": "slurm"}, "no engine 'slurm'"),
        ({"workers": 0}, "workers must be 1 or more"),
        ({"address": "auto"}, "for the engine ray"),
        ({"gpus": 1.0}, "for the engine ray"),
        ({"name": "ray", "cpus": 0.0}, "more than 0 CPUs"),
        ({"name": "ray", "gpus": -1.0}, "0 GPUs or more"),
        ({"name": "ray", "gpus": float("inf")}, "0 GPUs or more"),
        ({"name": "ray", "cpus": float("nan")}, "more than 0 CPUs"),
    ],
)
def test_wrong_engines_are_one_sentence(arguments: dict[str, Any], says: str) -> None:
    if arguments.get("name") == "ray":
        pytest.importorskip("ray", reason="needs the extra ray")
    with pytest.raises(UserError, match=says):
        make_engine(**arguments)


def test_ray_that_is_missing_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitmem_lab.sweeping.on_ray.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"needs the extra: pip install 'jitmem-lab\[ray\]'"):
        make_engine("ray")


def test_workers_that_cannot_start_are_one_sentence(
    server: StubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(InfrastructureError, match=r"cannot be started .*fewer workers"):
        run_sweep(grid(server), out=tmp_path / "s", engine=Processes(2), progress=False)
    assert read_sweep(tmp_path / "s")["state"] == "failed"


def test_a_worker_that_is_closed_starts_no_process() -> None:
    worker = _Worker(1)
    worker.close()
    assert worker.play(Job("a", "nowhere", {})).state == "failed"
    assert worker._process is None


def test_a_password_is_neither_in_the_status_nor_in_a_folders_name(
    server: StubServer, tmp_path: Path
) -> None:
    secret = f"openai:{server.url.replace('//', '//bob:Xsecret@')}#m"
    fixed = {name: value for name, value in grid(server).fixed.items() if name != "model"}
    cells = Grid(fixed | {"memory": "none"}, {"model": [secret]}).cells()
    assert "Xsecret" not in cells[0].name
    run_sweep(cells, out=tmp_path / "s", progress=False)
    for file in (tmp_path / "s").rglob("*"):
        assert not file.is_file() or b"Xsecret" not in file.read_bytes(), file


def test_one_worker_is_this_process() -> None:
    assert isinstance(make_engine(), Here)
    assert isinstance(make_engine(workers=3), Processes)
