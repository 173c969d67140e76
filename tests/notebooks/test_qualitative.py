"""40_qualitative through a real kernel, on small runs made with doubles."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.notebooks import read_status, run_notebook

from ..unit.rivals import make_rivals

pytestmark = pytest.mark.notebooks


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rivals(tmp_path_factory.mktemp("runs"))


def shown(notebook: Path) -> str:
    cells = nbformat.read(notebook, as_version=4).cells
    return "".join(str(output) for cell in cells for output in cell.get("outputs", []))


def test_figures_are_shown_and_written(runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures"
    parameters = {"runs": [str(runs)], "most": 2, "out": str(out)}
    output = run_notebook("40_qualitative", parameters, output=tmp_path / "40.ipynb", progress=False)
    assert read_status(output)["state"] == "completed"
    pages = sorted(out.glob("*.html"))
    assert len([page for page in pages if page.name.startswith("task-")]) == 2
    assert len([page for page in pages if page.name.startswith("trace-")]) == 1
    text = shown(output)
    assert text.count("iframe sandbox") == 3
    assert len(output.read_text()) < 1_000_000
    pictures = {picture.stem for picture in out.glob("*.png")}
    assert pictures == {page.stem for page in pages} or "no pictures: " in text


def test_what_is_asked_for_is_taken(runs: Path, tmp_path: Path) -> None:
    parameters = {
        "runs": [str(runs / "none"), str(runs / "jitmem")],
        "tasks": [3, "b5"],
        "trace": 1,
        "trace_run": "jitmem",
        "images": False,
        "out": str(tmp_path / "figures"),
    }
    run_notebook("40_qualitative", parameters, output=tmp_path / "40.ipynb", progress=False)
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert names == {"task-b3.html", "task-b5.html", "trace-1-jitmem.html"}
    with pytest.raises(UserError, match="no run here has played task"):
        run_notebook(
            "40_qualitative", parameters | {"tasks": ["b99"]}, output=tmp_path / "41.ipynb", progress=False
        )
