"""Every shipped notebook: its form, and top to bottom at smoke size through our own runner."""

from __future__ import annotations

import ast
import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import pytest

from jitmem_lab.evaluation import EvalConfig, evaluate
from jitmem_lab.models import load_model
from jitmem_lab.notebooks import read_parameters, read_status, run_notebook
from jitmem_lab.runs import Run, list_runs

pytestmark = pytest.mark.notebooks

FOLDER = Path(__file__).parents[2] / "notebooks"
SHIPPED = sorted(FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_form(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert len(notebook.cells) <= 25
    assert notebook.cells[0].source.startswith("# ")
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert all(not cell.outputs and cell.execution_count is None for cell in code)
    tagged = [cell for cell in code if "parameters" in cell.metadata.get("tags", [])]
    assert len(tagged) == 1
    lines = tagged[0].source.splitlines()
    for line in lines:
        assert ":" in line.split("=")[0], f"{line} has no type"
        assert "  # " in line, f"{line} has no comment"
    assert read_parameters(path)
    for cell in code:
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.FunctionDef):
                assert (node.end_lineno or 0) - node.lineno < 10


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    parameters = {"games": 2, "out": str(folder / "runs"), "cache": str(folder / "answers.sqlite")}
    output = run_notebook("00_quickstart", parameters, output=folder / "00_quickstart.ipynb", progress=False)
    return output, folder


@pytest.mark.model
def test_quickstart_plays_all_memories_on_the_same_games(quickstart):
    output, folder = quickstart
    assert read_status(output)["state"] == "completed"
    runs = {name: Run(folder / "runs" / name) for name in ("none", "raw", "jitmem")}
    for run in runs.values():
        summary = run.summary()
        assert summary["outcomes"]["error"] == 0
        assert summary["owed"] == 0
        assert summary["calls"]["executor"] > 0
    tasks = {tuple(e.task.task_id for e in run.latest()) for run in runs.values()}
    assert len(tasks) == 1
    assert all(not e.recall.payload for e in runs["none"].latest())
    for episode in runs["jitmem"].latest():
        assert episode.recall.payload
        assert episode.recall.traces
        assert any(call.role == "curator" for call in episode.calls)
        assert all(
            episode.recall.payload in c.messages[-1].content for c in episode.calls if c.role == "executor"
        )
    text = output.read_text()
    assert len(text) < 3_000_000
    assert "Steps to do it" in text


@pytest.mark.model
def test_the_same_again_asks_no_model(quickstart):
    _, folder = quickstart
    parameters = {
        "games": 2,
        "memory": "jitmem",
        "split": "generated_seen",
        "out": str(folder / "again"),
        "cache": str(folder / "answers.sqlite"),
    }
    run_notebook("20_evaluate", parameters, output=folder / "20_evaluate.ipynb", progress=False)
    run = Run(folder / "again")
    assert not any(run.summary()["calls"].values()), "an unchanged config with the cache must ask no model"
    assert run.summary()["cached_calls"]["executor"] > 0
    first = Run(folder / "runs" / "jitmem")
    assert [e.trajectory.steps[-1].action for e in run.latest()] == [
        e.trajectory.steps[-1].action for e in first.latest()
    ]


def test_explore(tmp_path):
    """Five games and four payloads, so with the model that takes milliseconds; task 1 can be won."""
    folder, out = tmp_path, tmp_path / "explored"
    small = {"split": "generated_seen", "games": 2, "warm_start": 20}
    config = EvalConfig.make(preset="pocket", memory="jitmem", **small)
    evaluate(config, out=folder / "jitmem", progress=False)
    parameters = {"run": str(folder / "jitmem"), "task": 1, "out": str(out)}
    output = run_notebook("10_explore_payloads", parameters, output=folder / "10.ipynb", progress=False)
    notebook = nbformat.read(output, as_version=4)
    nbformat.validate(notebook)
    assert len(str(notebook.metadata)) < 100_000, "what is shown is in the outputs, not in widgets"
    assert len(output.read_text()) < 2_000_000
    pages = [
        o.data["text/html"]
        for c in notebook.cells
        for o in c.get("outputs", [])
        if "text/html" in o.get("data", {})
    ]
    shown = "".join(pages)
    assert "the walkthrough" in shown
    assert "success after" in shown, "the walkthrough as payload wins this game"
    assert any('class="diff side"' in page for page in pages)
    whole = [f'class="column {name}-column"' for name in ("traces", "payload", "episode")]
    assert any(all(column in page for column in whole) for page in pages)
    assert "made by hand in the explorer" in shown
    saved = [Run(row["path"]) for row in list_runs(out)]
    names = sorted(run.settings["memory"]["name"] for run in saved)
    assert names == ["jitmem-by-hand", "jitmem-by-hand", "none-by-hand"]
    task = Run(folder / "jitmem").latest()[1].task
    assert all(run.latest()[0].task.task_id == task.task_id for run in saved)


BENCHMARKS, MEMORIES = ("alfworld", "webshop", "tau2"), ("none", "raw", "jitmem")
IN_KERNELS = (("alfworld", "none"), ("webshop", "jitmem"), ("tau2", "raw"))
"""Each benchmark and each memory once; what a kernel takes to start is most of a small evaluation."""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Three benchmarks with three memories each: one parameter changes the benchmark, one the memory.

    Three of the nine as notebooks, the others by the two calls that the notebook makes, with one model.
    """
    folder = tmp_path_factory.mktemp("sweep")
    for package in ("textworld", "spacy", "tau2"):
        pytest.importorskip(package)
    more = {"warm_start": 4, "max_steps": 2, "curator_max_tokens": 24}

    def notebook(cell):
        benchmark, memory = cell
        name = f"{benchmark}-{memory}"
        parameters = {"benchmark": benchmark, "memory": memory, "games": 2, "out": str(folder / name)}
        output = run_notebook(
            "20_evaluate", parameters | {"more": more}, output=folder / f"{name}.ipynb", progress=False
        )
        return output, Run(folder / name)

    with ThreadPoolExecutor(2) as pool:  # two kernels at a time
        made = dict(zip(IN_KERNELS, pool.map(notebook, IN_KERNELS), strict=True))
    model = load_model("smol", concurrency=2)
    try:
        for benchmark, memory in itertools.product(BENCHMARKS, MEMORIES):
            if (benchmark, memory) not in made:
                config = EvalConfig.make(benchmark=benchmark, memory=memory, games=2, **more)
                out = folder / f"{benchmark}-{memory}"
                run = evaluate(config, out=out, models={config.model: model}, progress=False)
                made[benchmark, memory] = None, run
    finally:
        model.close()
    return made


@pytest.mark.model
def test_any_memory_on_any_benchmark_by_one_parameter(sweep):
    assert len(sweep) == 9
    for (benchmark, memory), (output, run) in sweep.items():
        assert output is None or read_status(output)["state"] == "completed"
        summary = run.summary()
        assert summary["benchmark"] == benchmark
        assert summary["memory"] == memory
        assert summary["owed"] == 0
        for episode in run.latest():
            assert episode.outcome in ("success", "failure")
            assert 1 <= len(episode.trajectory.steps) <= 2
            assert bool(episode.recall.traces) is (memory != "none")
            assert bool(episode.recall.payload) is (memory != "none")
            if memory == "jitmem":
                assert any(call.role == "curator" for call in episode.calls)
    tasks = {
        b: {tuple(e.task.task_id for e in r.latest()) for (k, _), (_, r) in sweep.items() if k == b}
        for b in BENCHMARKS
    }
    assert all(len(orders) == 1 for orders in tasks.values()), "the same tasks for each memory"


@pytest.mark.model
def test_the_notebook_tells_what_must_be_told(sweep):
    output, run = sweep["tau2", "raw"]
    text = output.read_text()
    for caution in run.card().cautions:
        assert caution[:40] in text
    assert any("solved demonstrations" in caution for caution in run.card().cautions)
