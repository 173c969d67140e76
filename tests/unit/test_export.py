"""An executed notebook as a page: figures drawn, controls named, nothing asked of another machine."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest

from jitmem_lab.notebooks.export import WIDGET, to_html

pytestmark = pytest.mark.unit


def test_a_page_asks_nothing_of_other_machines(tmp_path: Path) -> None:
    figure = {"data": [{"type": "scatter", "x": [1], "y": [2]}], "layout": {}, "config": {}}
    outputs = [
        nbformat.v4.new_output(
            "display_data", {WIDGET: {"model_id": "a"}, "text/plain": "Dropdown(description='Task')"}
        ),
        nbformat.v4.new_output("display_data", {"application/vnd.plotly.v1+json": figure}),
        nbformat.v4.new_output("display_data", {"text/html": "<b>kept</b>"}),
    ]
    cells = [
        nbformat.v4.new_markdown_cell("# Costs of $$x^2$$\n\n```mermaid\ngraph TD; A-->B;\n```"),
        nbformat.v4.new_code_cell("1", outputs=outputs),
    ]
    state = {"application/vnd.jupyter.widget-state+json": {"state": {"a": {}}, "version_major": 2}}
    file = tmp_path / "done.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata={"widgets": state}), file)
    page = to_html(file).read_text(encoding="utf-8")
    assert to_html(file) == tmp_path / "done.html"
    own = re.sub(r"<script[^>]*>[^<]*plotly\.js v.*?</script>", "", page, flags=re.S)
    assert len(own) < len(page) - 1_000_000, "what draws figures is in the page"
    assert not re.findall(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//""", own)
    assert not re.findall(r"""(?:import|from|url\(|fetch\()\s*["']?https?://""", own)
    assert "work in a running notebook only" in page
    assert "<b>kept</b>" in page
    assert "Plotly.newPlot" in page
