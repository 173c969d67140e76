"""Success over the stream, a line a run with its interval, for a light page and a dark one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..compare_figures import COLOURS, same_as
from ..render import escape
from .comparing import Side
from .plots import thin

LINES = {"gridcolor": "rgba(128,128,128,.25)", "zerolinecolor": "rgba(128,128,128,.4)"}


def curves(sides: Sequence[Side]) -> Any:
    """A plotly figure of the share of successes so far with 95 % bands, thinned to what can be seen."""
    import plotly.graph_objects as go

    figure = go.Figure()
    longest = 0
    lines = [(side.name, side.curve) for side in sides]
    for number, ((label, curve), same) in enumerate(zip(lines, same_as(lines), strict=True)):
        at = thin(len(curve.played))
        if not at:
            continue
        longest = max(longest, len(curve.played))
        x, own = [curve.played[i] for i in at], {"legendgroup": str(number)}
        edge = [100 * curve.high[i] for i in at] + [100 * curve.low[i] for i in reversed(at)]
        band = {"fill": "toself", "opacity": 0.13, "line_width": 0, "hoverinfo": "skip", "showlegend": False}
        band["mode"] = "lines"
        colour = COLOURS[number % len(COLOURS)]
        figure.add_scatter(x=x + x[::-1], y=edge, fillcolor=colour, **band, **own)
        figure.add_scatter(
            x=x,
            y=[100 * curve.mean[i] for i in at],
            name=escape(f"{label} (dots: the same as {same})" if same else label, 120),
            mode="lines+markers" if len(at) < 30 else "lines",
            line={"color": colour, "dash": "dot" if same else "solid"},
            marker={"size": 3 if same else 6},
            **own,
        )
    figure.update_layout(
        xaxis={"title": "tasks played", "tickformat": ",d", **LINES} | ({"dtick": 1} if longest < 12 else {}),
        yaxis={"title": "success so far (%)", "range": [0, 100], **LINES},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 60, "r": 20, "t": 10, "b": 45},
        height=330,
        legend={"groupclick": "togglegroup"},
        showlegend=True,
    )
    return figure
