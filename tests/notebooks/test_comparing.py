"""21_compare, 22_ablations and a sweep of kept notebooks, through real kernels, with a server for a model."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest

from jitmem_lab.accounting import read_prices
from jitmem_lab.compare_report import compare_sections
from jitmem_lab.comparison import Comparison
from jitmem_lab.errors import UserError
from jitmem_lab.grids import Grid
from jitmem_lab.notebooks import read_status, run_notebook
from jitmem_lab.report import write_report
from jitmem_lab.sweep import read_sweep, run_sweep

from ..unit.compared import make_runs
from ..unit.stub_server import StubServer, stub_server, thinking

pytestmark = pytest.mark.notebooks
DOORS = f"{Path(__file__).parents[1] / 'benchmarks' / 'own_benchmark.py'}:Doors"
PRICES = '{"rule": {"prompt": 3.0, "completion": 5.0}}'


def brain(body: dict[str, Any]) -> str:
    """Opens a door by a hash of the prompt; judges everything a success."""
    text = str(body["messages"][-1]["content"])
    if "Did the agent finish" in text:
        return '{"success": true}'
    return f"<action>open {hashlib.sha256(text.encode()).digest()[0] % 9}</action>"


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with stub_server(thinking(brain)) as running:
        yield running


def shown(notebook: Path) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    return "".join(str(output) for cell in cells for output in cell.get("outputs", []))


def test_compare_shows_and_writes_what_the_library_gives(tmp_path: Path) -> None:
    make_runs(tmp_path / "runs")
    (tmp_path / "prices.json").write_text(PRICES)
    parameters = {
        "runs": [str(tmp_path / "runs")],
        "prices": str(tmp_path / "prices.json"),
        "draws": 500,
        "out": str(tmp_path / "out"),
    }
    output = run_notebook("21_compare", parameters, output=tmp_path / "21.ipynb", progress=False)
    assert read_status(output)["state"] == "completed"
    comparison = Comparison.read([tmp_path / "runs"])
    prices = read_prices(tmp_path / "prices.json")
    part = compare_sections(comparison, executors=["Qwen3-8B"], prices=prices, draws=500)
    files = write_report(tmp_path / "again", "Memory systems compared", list(part.values()))
    assert len(files) >= 20
    for file in files:
        if file.suffix != ".html":
            assert (tmp_path / "out" / file.name).read_bytes() == file.read_bytes(), file.name
    text = shown(output)
    rates = part["table_1"].table
    assert all(cell in text for cell in rates["ALFWorld valid_seen SR"] if cell != "–")
    assert "paper, Qwen3-8B executor: ALFWorld SR" in text
    assert len(output.read_text()) < 3_000_000


def test_compare_says_that_there_are_no_runs(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no run in"):
        run_notebook("21_compare", {"runs": [str(tmp_path)]}, output=tmp_path / "21.ipynb", progress=False)


def test_ablations_run_what_is_missing_and_show_one_table(tmp_path: Path, server: StubServer) -> None:
    parameters = {
        "rows": ["k=1", "empty"],
        "benchmark": DOORS,
        "split": "test",
        "games": 2,
        "preset": "paper",
        "model": f"openai:{server.url}#m",
        "more": {"max_steps": 2, "batch_size": 1},
        "draws": 500,
        "out": str(tmp_path / "s"),
    }
    output = run_notebook("22_ablations", parameters, output=tmp_path / "22.ipynb", progress=False)
    assert read_sweep(tmp_path / "s")["state"] == "completed"
    folders = {file.parent.name for file in (tmp_path / "s").glob("*/config.json")}
    assert folders == {"jitmem-order0", "k=1-order0", "empty-order0"}
    asked = len(server.requests)
    again = run_notebook("22_ablations", parameters, output=tmp_path / "again.ipynb", progress=False)
    assert len(server.requests) == asked, "what is complete is not run again"
    lines = (tmp_path / "s" / "ablations.csv").read_text().splitlines()
    assert [line.partition(",")[0] for line in lines[1:]] == ["jitmem", "k=1", "empty"]
    for notebook in (output, again):
        assert "SR difference 95 %" in shown(notebook)


def test_a_sweep_may_keep_each_cell_as_a_notebook(tmp_path: Path, server: StubServer) -> None:
    fixed = {
        "benchmark": DOORS,
        "split": "test",
        "games": 2,
        "preset": "paper",
        "model": f"openai:{server.url}#m",
        "order": None,
        "max_steps": 2,
    }
    grid = Grid(fixed, {"memory": ["none", "raw"]})
    done = run_sweep(grid, out=tmp_path / "s", notebooks=True, progress=False)
    assert not done.failed()
    kept = sorted((tmp_path / "s" / "notebooks").glob("*.ipynb"))
    assert [path.stem for path in kept] == ["none", "raw"]
    for path in kept:
        assert read_status(path)["state"] == "completed"
        assert read_status(path)["parameters"]["more"]["max_steps"] == 2
    assert {run.summary()["outcomes"]["error"] for run in done.runs().values()} == {0}
    asked, times = len(server.requests), [path.stat().st_mtime_ns for path in kept]
    assert not run_sweep(grid, out=tmp_path / "s", notebooks=True, progress=False).failed()
    assert len(server.requests) == asked
    assert [path.stat().st_mtime_ns for path in kept] == times
    direct = run_sweep(grid, out=tmp_path / "direct", progress=False)
    for name, run in direct.runs().items():
        assert [e.outcome for e in run.latest()] == [e.outcome for e in done.runs()[name].latest()]
