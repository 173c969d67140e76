"""The papermill runner on small notebooks, each through a real kernel."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.notebooks import NotebookError, read_status, run_notebook, status_path

pytestmark = pytest.mark.notebooks
FIXTURE = Path(__file__).parent / "fixtures" / "parameters.ipynb"


def make(folder: Path, *cells: str, parameters: str | None = "k = 3  # traces", name: str = "book") -> Path:
    """A notebook of these code cells after a heading and a parameters cell."""
    notebook = new_notebook(cells=[new_markdown_cell("# Heading")])
    if parameters is not None:
        notebook.cells.append(new_code_cell(parameters, metadata={"tags": ["parameters"]}))
    notebook.cells += [new_code_cell(cell) for cell in cells]
    path = folder / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


def run(path: Path, parameters: dict[str, Any] | None = None, **options: Any) -> Path:
    options = {"output": path.with_name("out.ipynb"), "progress": False} | options
    return run_notebook(path, parameters, **options)


def texts(path: Path) -> list[str]:
    """All plain texts that the notebook shows."""
    outputs = [o for c in nbformat.read(path, as_version=4).cells for o in c.get("outputs", [])]
    return [o.get("text") or o.get("data", {}).get("text/plain", "") for o in outputs]


def wait_for(condition: Any, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def gone(pid: int) -> bool:
    """Whether no process of this pid runs (a zombie does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def start(path: Path) -> subprocess.Popen[str]:
    """`jitmem run` in a process of its own."""
    command = [sys.executable, "-m", "jitmem_lab.cli", "run", str(path)]
    return subprocess.Popen(
        [*command, "-o", str(path.with_name("out.ipynb")), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def kernel_pid(folder: Path) -> int:
    """Pid that `SLOW` writes once its cell runs."""
    return int(wait_for(lambda: (folder / "pid").exists() and (folder / "pid").read_text()))


def test_values_reach_the_notebook_with_their_types_and_the_output_is_whole_and_valid(tmp_path: Path) -> None:
    values = {"k": 7, "rate": 2, "name": "0012", "models": ("a", "b"), "nothing": float("nan"), "flag": False}
    out = run(FIXTURE, values, output=tmp_path / "out {x}.ipynb")
    shown = json.loads(texts(out)[-1])
    assert shown == {
        "k": "7",
        "rate": "2.0",
        "name": "'0012'",
        "models": "['a', 'b']",
        "nothing": "nan",
        "flag": "False",
        "python": sys.executable,
    }
    nbformat.validate(nbformat.read(out, as_version=4))
    json.loads(out.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not strict JSON"))
    status = read_status(out)
    assert (status["state"], status["cell"], status["error"]) == ("completed", status["cells"], None)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out {x}.ipynb", "out {x}.ipynb.status.json"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"sede": 1}, "did you mean 'seed'"),
        ({"k": "abc"}, "takes an integer (default 3), not 'abc'"),
        ({"k": True}, "takes an integer"),
        ({"k": None}, "takes an integer"),
        ({"models": b"raw"}, "bytes"),
    ],
)
def test_wrong_values_start_nothing(tmp_path: Path, values: dict[str, Any], says: str) -> None:
    path = make(tmp_path, "open('ran', 'w')", parameters="k = 3\nseed = 0\nmodels = []")
    with pytest.raises(UserError) as error:
        run(path, values)
    assert says in str(error.value)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_notebook_without_parameters_cell_or_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no cell tagged 'parameters'"):
        run(make(tmp_path, "1", parameters=None))
    with pytest.raises(UserError, match="no notebook"):
        run(tmp_path / "absent.ipynb")
    torn = tmp_path / "torn.ipynb"
    torn.write_text('{"cells": [')
    with pytest.raises(UserError, match="not a readable notebook"):
        run(torn)


def test_an_unknown_kernel_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no kernel 'gpu'; installed kernels: .*python3"):
        run(make(tmp_path, "1"), kernel="gpu")
    assert not status_path(tmp_path / "out.ipynb").exists()


def test_a_failing_cell_leaves_the_old_output_and_a_failed_notebook(tmp_path: Path) -> None:
    path = make(tmp_path, "1/0", "print('never')")
    out = tmp_path / "out.ipynb"
    out.write_text("old")
    with pytest.raises(NotebookError, match=r"ZeroDivisionError.*cell 3 of 4.*failed\.ipynb"):
        run(path)
    assert out.read_text() == "old"
    failed = nbformat.read(tmp_path / "out.failed.ipynb", as_version=4)
    nbformat.validate(failed)
    marks = [c.metadata.get("papermill", {}).get("status") for c in failed.cells]
    marks = [mark for mark in marks if mark]
    assert marks == ["completed", "completed", "failed", "pending"]
    assert read_status(out)["state"] == "failed"
    path = make(tmp_path, "1")
    run(path)
    assert not (tmp_path / "out.failed.ipynb").exists()


def test_our_own_errors_keep_their_kind(tmp_path: Path) -> None:
    cell = "from jitmem_lab.errors import UserError\nraise UserError('there is no split x; use valid_seen')"
    with pytest.raises(UserError, match="there is no split x; use valid_seen"):
        run(make(tmp_path, cell))


def test_a_killed_kernel_is_killed_not_completed_and_its_children_end(tmp_path: Path) -> None:
    cells = (
        "import subprocess, os\nchild = subprocess.Popen(['sleep', '300'])\nprint(child.pid)\n"
        f"open({str(tmp_path / 'child')!r}, 'w').write(str(child.pid))",
        "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
        "print('never')",
    )
    with pytest.raises(InfrastructureError, match="kernel died"):
        run(make(tmp_path, *cells))
    status = read_status(tmp_path / "out.ipynb")
    assert (status["state"], status["cell"], status["cells"]) == ("killed", 4, 5)
    assert not (tmp_path / "out.ipynb").exists()
    failed = nbformat.read(tmp_path / "out.failed.ipynb", as_version=4)
    assert [c.metadata.papermill["status"] for c in failed.cells][-2:] == ["failed", "pending"]
    assert gone(int((tmp_path / "child").read_text()))


SLOW = "import os, time\nopen('{folder}/pid', 'w').write(str(os.getpid()))\ntime.sleep(300)"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_the_kernel_and_says_so(tmp_path: Path, number: int) -> None:
    process = start(make(tmp_path, SLOW.format(folder=tmp_path), "print('never')"))
    try:
        pid = kernel_pid(tmp_path)
        time.sleep(0.3)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=40)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (130, "")
    assert stderr.strip().startswith("interrupted (")
    assert "cell 3 of 4" in stderr
    assert stderr.strip().count("\n") == 0
    assert gone(pid)
    assert read_status(tmp_path / "out.ipynb")["state"] == "interrupted"
    assert (tmp_path / "out.failed.ipynb").exists()
    assert not (tmp_path / "out.running.ipynb").exists()


def test_a_kernel_killed_from_outside_gives_exit_3(tmp_path: Path) -> None:
    process = start(make(tmp_path, SLOW.format(folder=tmp_path)))
    try:
        os.kill(kernel_pid(tmp_path), signal.SIGKILL)
        stdout, stderr = process.communicate(timeout=40)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (3, "")
    assert stderr.startswith("error: its kernel died (")
    assert stderr.count("\n") == 1
    assert read_status(tmp_path / "out.ipynb")["state"] == "killed"


def test_a_cell_that_ignores_the_interrupt_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jitmem_lab.notebooks.kernel.INTERRUPT_SECONDS", 1.0)
    stubborn = f"""import os, time
open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
while True:
    try:
        time.sleep(300)
    except KeyboardInterrupt:
        pass"""

    def press() -> None:
        kernel_pid(tmp_path)
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt, match="interrupted"):
        run(make(tmp_path, stubborn))
    thread.join()
    assert time.monotonic() - began < 30
    assert gone(int((tmp_path / "pid").read_text()))
    assert read_status(tmp_path / "out.ipynb")["state"] == "interrupted"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_notebook_can_run_a_notebook_and_threads_can_too(tmp_path: Path) -> None:
    inner = make(tmp_path, "print(k + 1)", name="inner")
    outer = make(
        tmp_path,
        "from jitmem_lab.notebooks import run_notebook\n"
        f"out = {str(tmp_path / 'in.ipynb')!r}\n"
        f"print(run_notebook({str(inner)!r}, {{'k': 4}}, output=out, progress=False))",
    )
    found: list[Path] = []
    thread = threading.Thread(target=lambda: found.append(run(outer)))
    thread.start()
    thread.join(90)
    assert texts(found[0]) == [f"{tmp_path / 'in.ipynb'}\n"]
    assert texts(tmp_path / "in.ipynb") == ["5\n"]


def test_a_killed_runner_reads_killed_and_its_kernel_ends(tmp_path: Path) -> None:
    process = start(make(tmp_path, SLOW.format(folder=tmp_path)))
    try:
        pid = kernel_pid(tmp_path)
        assert read_status(tmp_path / "out.ipynb")["state"] == "running"
        with pytest.raises(UserError, match="is writing"):
            run(make(tmp_path, "1", name="other"))
    finally:
        process.kill()
        process.communicate(timeout=20)
    assert json.loads(status_path(tmp_path / "out.ipynb").read_text())["state"] == "running"
    assert read_status(tmp_path / "out.ipynb")["state"] == "killed"
    wait_for(lambda: gone(pid))
    run(make(tmp_path, "1", name="other"))
    assert read_status(tmp_path / "out.ipynb")["state"] == "completed"


def test_the_time_limit_holds_for_the_whole_run(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(InfrastructureError, match="longer than 3 s"):
        run(make(tmp_path, "import time; time.sleep(1)", "time.sleep(60)"), timeout=3)
    assert time.monotonic() - began < 30
    assert read_status(tmp_path / "out.ipynb")["state"] == "failed"


def test_long_progress_floods_and_huge_prints_stay_small_and_valid(tmp_path: Path) -> None:
    cells = (
        "import sys\nfrom tqdm import tqdm\n"
        "for i in tqdm(range(10_000), mininterval=0, miniters=1):\n    pass\nprint('last word')",
        "from tqdm.auto import tqdm as auto\nfor i in auto(range(10_000), miniters=50):\n    pass",
        "for i in range(2500):\n    print(i, flush=True); print(i, file=sys.stderr)",
        "from IPython.display import display\nfor i in range(2000):\n    display(i)",
        "print('x' * 5_000_000)",
        "'y' * 5_000_000",
        "from jitmem_lab.records import Recall\nRecall(payload='z' * 5_000_000)",
    )
    out = run(make(tmp_path, *cells))
    notebook = nbformat.read(out, as_version=4)
    nbformat.validate(notebook)
    assert out.stat().st_size < 200_000
    sizes = [len(json.dumps(cell)) for cell in notebook.cells]
    assert max(sizes) < 70_000
    bar = "".join(o.text for o in notebook.cells[2].outputs)
    assert "10000/10000" in bar
    assert "last word" in bar
    displays = notebook.cells[5].outputs
    assert [displays[0].data["text/plain"], displays[-1].data["text/plain"]] == ["0", "1999"]
    assert "4,98" in texts(out)[-3]
    widgets = notebook.metadata.get("widgets", {})
    state = widgets.get("application/vnd.jupyter.widget-state+json", {"state": {}})
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            view = output.get("data", {}).get("application/vnd.jupyter.widget-view+json")
            assert view is None or view["model_id"] in state["state"]


def test_surrogates_controls_and_separators_do_not_break_a_cell(tmp_path: Path) -> None:
    cells = (
        r"print('bad \ud83d end \u2028 \x00')",
        r"'bad \ud83d'",
        r"from jitmem_lab.records import Recall; Recall(payload='bad \ud83d \x00')",
        r"from jitmem_lab.frames import frame; frame({'a': ['bad \ud83d']})",
    )
    out = run(make(tmp_path, *cells))
    shown = texts(out)
    assert len(shown) == 4
    assert all("\\ud83d" in text for text in shown)
    cells_run = nbformat.read(out, as_version=4).cells
    assert not any(o.output_type == "error" for cell in cells_run for o in cell.get("outputs", []))


def test_default_outputs_get_names_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = make(tmp_path, "print(__import__('os').getcwd())")
    first, second = (run_notebook(path, {}, progress=False) for _ in range(2))
    assert first != second
    assert first.parent == Path("runs/notebooks")
    assert texts(first) == [f"{tmp_path}\n"]


def test_another_python3_in_the_users_jupyter_folder_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "kernels" / "python3"
    fake.mkdir(parents=True)
    spec = {"argv": ["/bin/false", "{connection_file}"], "display_name": "wrong", "language": "python"}
    (fake / "kernel.json").write_text(json.dumps(spec))
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    path = make(tmp_path, "import sys; print(sys.executable)")
    assert texts(run(path)) == [f"{sys.executable}\n"]
    with pytest.raises(InfrastructureError, match="kernel"):
        run(path, kernel="python3")
    assert read_status(tmp_path / "out.ipynb")["state"] in {"failed", "killed"}


def test_nothing_of_ours_is_left_running() -> None:
    """Runs last: every kernel of this file has ended."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children if not gone(int(pid))]
    assert not any(b"ipykernel" in command for command in commands)


def test_a_password_never_reaches_a_notebook(tmp_path):
    model = "openai:http://me:secret@127.0.0.1:9/v1#m"
    with pytest.raises(UserError, match="password"):
        run_notebook("20_evaluate", {"model": model}, output=tmp_path / "o.ipynb", progress=False)
    assert not list(tmp_path.iterdir())
