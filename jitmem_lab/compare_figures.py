"""Learning curves with their bands, of runs and of compared systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .compare_tables import short_model
from .comparison import Comparison
from .published import BENCHMARKS
from .render import escape
from .statistics import Curve, learning_curve

if TYPE_CHECKING:
    from .runs import Run

COLOURS = (
    *("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2", "#17becf", "#7f7f7f"),
    "#bcbd22",
)
"""One a system; from the eleventh on they come again, dashed."""
BANDED = 4
"""Curves up to which each has its band; more would cover each other, and the tables have intervals."""


def same_as(curves: Sequence[tuple[str, Curve]]) -> list[str]:
    """For each named curve the name of an earlier one that it lies on and would hide; empty where none is."""
    first: dict[tuple[tuple[float, ...], ...], str] = {}
    found = []
    for name, curve in curves:
        shape = (tuple(curve.played), tuple(curve.mean))
        found.append(first.get(shape, ""))
        first.setdefault(shape, name)
    return found


def curve_figures(comparison: Comparison) -> list[Any]:
    """A plotly figure a model, benchmark and split: success so far over the stream, one line a system.

    Lines are means over orders, bands reach from the lowest to the highest order (of a single one: its 95 %
    Wilson interval) unless there are more than `BANDED` lines. Errors are left out.
    """
    figures = []
    for place in dict.fromkeys(group.place for group in comparison.groups):
        groups = [group for group in comparison.groups if group.place == place]
        model, benchmark, split = place
        title = f"{BENCHMARKS.get(benchmark, benchmark)} {split}, executor {short_model(model)}"
        figures.append(_figure([(group.label, learning_curve(group.streams)) for group in groups], title))
    return figures


def curve_figure(runs: Sequence[Run]) -> Any:
    """A plotly figure of the success rate over the stream, one line a run, with its 95 % Wilson band."""
    names = [str(run.settings.get("memory", {}).get("name")) for run in runs]
    return _figure([(n, learning_curve({0: run.latest()})) for n, run in zip(names, runs, strict=True)])


def _figure(curves: Sequence[tuple[str, Curve]], title: str = "") -> Any:
    """Named curves, few of them with their bands; one without a point is left out."""
    import plotly.graph_objects as go

    figure = go.Figure()
    curves = [(name, curve) for name, curve in curves if curve.played]
    for number, ((name, curve), same) in enumerate(zip(curves, same_as(curves), strict=True)):
        colour = COLOURS[number % len(COLOURS)]
        if len(curves) <= BANDED:
            figure.add_scatter(
                x=curve.played + curve.played[::-1],
                y=[100 * v for v in curve.high] + [100 * v for v in curve.low[::-1]],
                mode="lines",
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
            name=escape(f"{name} (dots: the same as {same})" if same else name, 160),
            mode="lines+markers" if len(curve.played) < 30 else "lines",
            line={"color": colour, "dash": "dot" if same else "solid" if number < len(COLOURS) else "dash"},
            marker={"size": 3 if same else 6},
            legendgroup=str(number),
        )
    longest = max((len(curve.played) for _, curve in curves), default=0)
    figure.update_layout(
        xaxis={"title": "games played", "tickformat": "d", "dtick": max(1, longest // 10)},
        yaxis={"title": "success rate so far (%)", "range": [0, 100]},
        title={"text": escape(title, 120), "font": {"size": 14}} if title else None,
        margin={"l": 60, "r": 20, "t": 40 if title else 20, "b": 50},
        height=400 if title else 360,
        template="plotly_white",
        hovermode="x unified",
        legend={"groupclick": "togglegroup"},
    )
    return figure
