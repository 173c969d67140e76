"""Plotly panes whose words and lines are readable on a light page and on a dark one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import panel as pn
import param

POINTS = 400
"""Points of one line that are drawn."""
LINE, FILL = "#3b82c4", "rgba(59,130,196,.2)"

# The labels' colours stand in the drawing itself; only the page knows which theme is on.
_STYLE = """
[class*="tick"] text, .infolayer text { fill: light-dark(#1d2126, #e4e7eb) !important; }
"""


def load_plotly() -> None:
    """Import now what the first figure would: Panel asks plotly for its widgets, which takes seconds."""
    from plotly.graph_objects import FigureWidget  # noqa: F401


def line_pane() -> pn.pane.Plotly:
    """An empty pane for a figure."""
    return pn.pane.Plotly(
        None,
        config={"displayModeBar": False, "responsive": True},
        stylesheets=[_STYLE],
        height=300,
        sizing_mode="stretch_width",
        max_width=1100,
    )


class Loader(pn.custom.JSComponent):
    """Has the browser load a script once what stands on the page has been painted.

    Args:
        loaded: Called when the script is there.
    """

    source = param.String(default="", doc="The script's address.")
    made = param.String(default="", doc="What the script leaves in the window; it is not loaded twice.")

    _esm: ClassVar[str] = """
export function render({model}) {
  const told = () => model.send_msg({loaded: true})
  const load = () => {
    if (window[model.made]) return told()
    const script = document.createElement("script")
    script.src = model.source
    script.onload = told
    document.head.append(script)
  }
  // What begins here holds the page up: first all else is to be seen.
  const idle = window.requestIdleCallback || ((then) => setTimeout(then, 200))
  setTimeout(() => idle(load, {timeout: 2000}), 300)
  return document.createElement("div")
}
"""

    def __init__(self, loaded: Callable[[], None], **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._told = loaded

    def _handle_msg(self, data: Any) -> None:
        self._told()


def drawn_last(pane: pn.pane.Plotly) -> pn.viewable.Viewable:
    """A served page's place for a figure, which is put there after all else that was shown with it.

    What draws figures is a program of 4.8 MB, which browsers take longer to begin than all the rest. It is
    asked for once there is a figure. Where nothing is served the pane stands there from the beginning.
    """
    if pn.state.curdoc is None:
        return pane
    from panel.models.plotly import PlotlyPlot

    place = pn.Column(sizing_mode="stretch_width", margin=0)

    def put() -> None:
        pn.extension("plotly")  # it is there by now
        place[:] = [pane]

    def ask(*_: Any) -> None:
        if not len(place):
            place.append(Loader(put, source=PlotlyPlot.__javascript__[0], made="Plotly"))

    pane.param.watch(ask, "object")
    return place


def thin(count: int) -> list[int]:
    """Places of at most `POINTS` of so many points, the first and the last among them."""
    if count <= POINTS:
        return list(range(count))
    step = (count - 1) / (POINTS - 1)
    return sorted({round(i * step) for i in range(POINTS)})


def line_figure(
    x: Sequence[float],
    y: Sequence[float],
    *,
    across: str,
    up: str,
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
    shares: bool = False,
) -> Any:
    """One line, with a band where there is one.

    Args:
        x: Places, ascending.
        y: Values.
        across: Name of the horizontal axis.
        up: Name of the vertical one.
        low: Lower edge of the band.
        high: Upper edge.
        shares: Whether the values are shares, shown in percent from 0 to 100.
    """
    import plotly.graph_objects as go

    at, scale = thin(len(x)), 100 if shares else 1
    figure, places = go.Figure(), [x[i] for i in at]
    if low is not None and high is not None:
        edge = [scale * high[i] for i in at] + [scale * low[i] for i in reversed(at)]
        band = {"fill": "toself", "fillcolor": FILL, "line_width": 0, "hoverinfo": "skip", "mode": "lines"}
        figure.add_scatter(x=places + places[::-1], y=edge, showlegend=False, **band)
    marks = "lines+markers" if len(at) < 30 else "lines"
    figure.add_scatter(x=places, y=[scale * y[i] for i in at], mode=marks, line_color=LINE, showlegend=False)
    steps = {"dtick": 1} if x and x[-1] - x[0] < 12 else {}  # no tick between two episodes
    grid = {"gridcolor": "rgba(128,128,128,.25)", "zerolinecolor": "rgba(128,128,128,.4)"}
    figure.update_layout(
        xaxis={"title": across, "tickformat": ",d", **steps, **grid},
        yaxis={"title": up, "rangemode": "tozero", "tickformat": ",", **grid}
        | ({"range": [0, 100]} if shares else {}),
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 60, "r": 20, "t": 10, "b": 45},
        height=300,
        hovermode="x",
    )
    return figure
