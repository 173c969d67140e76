"""The study's own figure: every row of a part with its interval, to be looked at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..comparison import Comparison
from ..render import escape
from ..statistics import over_orders, rate_interval
from .parts import WRITTEN

WRITE, READ, PLAIN = "#c2571a", "#1f6fb4", "#767c84"
"""Colours of systems that write before the next task is known, of JitMem, and of the others."""
_KINDS = {
    PLAIN: "without a curator",
    WRITE: "written before the task is known",
    READ: "JitMem and its variants",
}


def rates_figure(comparison: Comparison, rows: Sequence[str], draws: int = 10_000, seed: int = 0) -> Any:
    """A plotly figure: a row a system, in the order given, its success rate and 95 % bootstrap interval.

    Small points are single orders. Rows without a run are left out.
    """
    import plotly.graph_objects as go

    groups = {group.label: group for group in comparison.groups}
    shown = [groups[row] for row in rows if row in groups]
    figure = go.Figure()
    for colour, kind in _KINDS.items():
        own = [group for group in shown if _colour(group.memory) == colour]
        if not own:
            continue
        names = [escape(group.label, 60) for group in own]
        means = [100 * (over_orders(group.streams).mean or 0.0) for group in own]
        limits = [rate_interval(group.streams, draws=draws, seed=seed) for group in own]
        ends = [(100 * i[0], 100 * i[1]) if i else (m, m) for i, m in zip(limits, means, strict=True)]
        single = [
            (name, 100 * (over_orders({order: stream}).mean or 0.0))
            for name, group in zip(names, own, strict=True)
            for order, stream in group.streams.items()
            if len(group.streams) > 1
        ]
        figure.add_scatter(
            x=[rate for _, rate in single],
            y=[name for name, _ in single],
            mode="markers",
            marker={"color": colour, "size": 6, "opacity": 0.35},
            hovertemplate="%{y}, one order: %{x:.1f} %<extra></extra>",
            showlegend=False,
        )
        figure.add_scatter(
            x=means,
            y=names,
            name=kind,
            mode="markers",
            marker={"color": colour, "size": 11},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [high - mean for (_, high), mean in zip(ends, means, strict=True)],
                "arrayminus": [mean - low for (low, _), mean in zip(ends, means, strict=True)],
                "thickness": 1.6,
                "width": 5,
            },
            hovertemplate="%{y}: %{x:.1f} %<extra></extra>",
        )
    figure.update_layout(
        xaxis={"title": "success rate (%), 95 % interval", "range": [-1, 101], "dtick": 10},
        yaxis={
            "categoryorder": "array",
            "categoryarray": [escape(group.label, 60) for group in reversed(shown)],
            "automargin": True,
        },
        height=130 + 34 * len(shown),
        margin={"l": 10, "r": 20, "t": 40, "b": 50},
        template="plotly_white",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "x": 0},
    )
    return figure


def _colour(memory: str) -> str:
    return READ if memory == "jitmem" else WRITE if memory in WRITTEN else PLAIN
