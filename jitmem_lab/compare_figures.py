"""Figures of a comparison: learning curves with their bands."""

from __future__ import annotations

from typing import Any

from .compare_tables import short_model
from .comparison import Comparison
from .published import BENCHMARKS
from .render import escape
from .statistics import learning_curve

COLOURS = (
    *("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#17becf", "#7f7f7f"),
    "#bcbd22",
)
"""One a system; from the eleventh on they come again, dashed."""


def curve_figures(comparison: Comparison) -> list[Any]:
    """A plotly figure a model, benchmark and split: success so far over the stream, one line a system.

    Lines are means over orders, bands reach from the lowest to the highest order (of a single one: its 95 %
    Wilson interval). Errors are left out.
    """
    import plotly.graph_objects as go

    figures = []
    for model, benchmark, split in dict.fromkeys(group.place for group in comparison.groups):
        figure = go.Figure()
        groups = [g for g in comparison.groups if g.place == (model, benchmark, split)]
        for number, group in enumerate(groups):
            curve = learning_curve(group.streams)
            if not curve.played:
                continue
            colour = COLOURS[number % len(COLOURS)]
            dash = "solid" if number < len(COLOURS) else "dash"
            figure.add_scatter(
                x=curve.played + curve.played[::-1],
                y=[100 * v for v in curve.high] + [100 * v for v in curve.low[::-1]],
                fill="toself",
                fillcolor=colour,
                opacity=0.1,
                line_width=0,
                hoverinfo="skip",
                showlegend=False,
                legendgroup=str(number),
            )
            figure.add_scatter(
                x=curve.played,
                y=[100 * v for v in curve.mean],
                name=escape(group.label, 80),
                mode="lines+markers" if len(curve.played) < 30 else "lines",
                line={"color": colour, "dash": dash},
                legendgroup=str(number),
            )
        name = f"{BENCHMARKS.get(benchmark, benchmark)} {split}, executor {short_model(model)}"
        figures.append(_laid_out(figure, name))
    return figures


def _laid_out(figure: Any, title: str) -> Any:
    longest = max((len(trace.x) for trace in figure.data if trace.name), default=0)
    figure.update_layout(
        xaxis={"title": "games played", "tickformat": "d", "dtick": max(1, longest // 10)},
        yaxis={"title": "success rate so far (%)", "range": [0, 100]},
        title={"text": escape(title, 120), "font": {"size": 14}},
        margin={"l": 60, "r": 20, "t": 40, "b": 50},
        height=400,
        template="plotly_white",
        legend={"groupclick": "togglegroup"},
    )
    return figure
