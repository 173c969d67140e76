"""An executed notebook as one HTML page that asks nothing of any other machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

WIDGET = "application/vnd.jupyter.widget-view+json"
"""How a notebook holds a widget."""
NO_SCRIPTS = """{% extends 'lab/index.html.j2' %}
{% block html_head_js %}{% endblock %}
{% block jupyter_widgets %}{% endblock %}
{% block html_head_js_mathjax %}{% endblock %}
{% block html_head_js_mermaidjs %}{% endblock %}
"""
"""The page's template without what it would load from other machines (nothing of ours needs it)."""


def to_html(notebook: Path) -> Path:
    """The executed notebook as one HTML page beside it, which needs no network."""
    from nbconvert import HTMLExporter

    from .quick import nbformat

    node = nbformat.read(notebook, as_version=4)
    _draw_figures(node)
    _say_widgets(node)
    body, _ = HTMLExporter(raw_template=NO_SCRIPTS).from_notebook_node(node)
    page = notebook.with_suffix(".html")
    page.write_text(body, encoding="utf-8", errors="backslashreplace")
    return page


def _draw_figures(node: Any) -> None:
    """Give plotly figures, which a notebook holds as data only, HTML with what draws them."""
    from plotly.io import to_html as figure_html

    drawn = False
    for output in (output for cell in node.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        figure = data.get("application/vnd.plotly.v1+json")
        if figure and "text/html" not in data:
            figure = {name: figure[name] for name in ("data", "layout") if name in figure}
            data["text/html"] = figure_html(
                figure, include_plotlyjs=not drawn, full_html=False, validate=False
            )
            drawn = True


def _say_widgets(node: Any) -> None:
    """Put a sentence where a widget stood: what draws it would be loaded from another machine."""
    for output in (output for cell in node.cells for output in cell.get("outputs", [])):
        data = output.get("data", {})
        if data.pop(WIDGET, None) is not None and "text/html" not in data:
            data["text/html"] = "<p><em>(controls, which work in a running notebook only)</em></p>"
