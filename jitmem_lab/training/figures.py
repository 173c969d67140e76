"""How a training goes, drawn: for notebooks and the dashboard alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..statistics import wilson
from .runs import TrainRun

BLUE, RED, GREEN, GREY = "#3b82c4", "#d1495b", "#2a9d6f", "#8a8f98"
_GRID = {"gridcolor": "rgba(128,128,128,.25)", "zerolinecolor": "rgba(128,128,128,.4)"}
_SMOOTH = 5
"""Steps over which the thick line of reward is a mean."""


def _in(colour: str, words: str) -> str:
    return f'<span style="color:{colour};fill:{colour}">{words}</span>'


PANELS = (
    f"reward ({_in(BLUE, f'mean of {_SMOOTH} steps')}), {_in(RED, 'held-out success')}",
    "groups without any difference of reward",
    f"{_in(BLUE, 'payload tokens')}, {_in(RED, 'turns')} (right)",
    "KL to the first policy",
    f"{_in(BLUE, 'clipped share')}, {_in(RED, 'largest ratio before clipping')} (right)",
    f"seconds: {_in(BLUE, 'generate')}, {_in(RED, 'play')}, {_in(GREY, 'update')}",
)
"""Titles of the six panels; their colours are those of the lines."""
DISTINCT = "share of payloads that are unlike the others of their task"
"""Title of the last panel where the clock is left out."""

Rows = Sequence[Mapping[str, Any]]


def training_figure(run: TrainRun, height: int = 560, clock: bool = True) -> Any:
    """Six panels over the steps of a training, see `PANELS`; a plotly figure.

    Without `clock` the last panel has distinct payloads in place of seconds: equal trainings look alike.
    """
    rows = list(run.lines("metrics.jsonl"))
    return panels(
        [row for row in rows if row.get("kind") == "step"],
        [row for row in rows if row.get("kind") == "heldout"],
        height,
        clock,
    )


def panels(steps: Rows, heldout: Rows, height: int = 560, clock: bool = True) -> Any:
    """The same, of lines that were read already."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=2,
        cols=3,
        subplot_titles=PANELS if clock else (*PANELS[:-1], DISTINCT),
        horizontal_spacing=0.07,
        vertical_spacing=0.16,
        specs=[[{}, {}, {"secondary_y": True}], [{}, {"secondary_y": True}, {}]],
    )
    _reward(figure, steps, heldout)
    _line(figure, 1, 2, steps, "zero_variance_share", BLUE)
    _line(figure, 1, 3, steps, "tokens", BLUE, label="tokens")
    _line(figure, 1, 3, steps, "turns", RED, label="turns (right axis)", secondary_y=True)
    _line(figure, 2, 1, steps, "kl", BLUE)
    _line(figure, 2, 2, steps, "clip_share", BLUE, label="clipped share")
    _line(figure, 2, 2, steps, "ratio_max", RED, label="largest ratio (right axis)", secondary_y=True)
    _line(figure, 2, 2, steps, "vllm_ratio", GREEN, label="vLLM's ratio, mean (right axis)", secondary_y=True)
    if not clock:
        _line(figure, 2, 3, steps, "distinct_share", BLUE)
    for part, colour in (("generate", BLUE), ("play", RED), ("update", GREY)) if clock else ():
        _line(figure, 2, 3, steps, f"seconds_{part}", colour, label=part, stackgroup="seconds")
    figure.update_xaxes(tickformat=",d", **_GRID)
    figure.update_yaxes(rangemode="tozero", **_GRID)
    for row, column in ((1, 1), (1, 2)):
        figure.update_yaxes(range=[0, 1.02], tickformat=".0%", row=row, col=column)
    figure.update_layout(
        height=height,
        margin={"l": 50, "r": 20, "t": 40, "b": 40},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        showlegend=False,
        hovermode="x",
    )
    figure.update_annotations(font_size=13)
    if steps and not any(isinstance(row.get("kl"), int | float) for row in steps):
        figure.add_annotation(
            text="not computed: the KL term's weight is 0",
            showarrow=False,
            xref="paper",
            yref="paper",
            x=0.133,
            y=0.21,
            xanchor="center",
        )
    return figure


def _reward(figure: Any, steps: Rows, heldout: Rows) -> None:
    x, y = _points(steps, "reward")
    _scatter(figure, 1, 1, x, y, GREY, opacity=0.55, name="reward")
    smooth = [sum(y[max(0, n - _SMOOTH + 1) : n + 1]) / min(n + 1, _SMOOTH) for n in range(len(y))]
    _scatter(figure, 1, 1, x, smooth, BLUE, name=f"reward, mean of {_SMOOTH} steps")
    scored = [row for row in heldout if row.get("games")]
    if scored:
        rates = [row["won"] / row["games"] for row in scored]
        bands = [wilson(row["won"], row["games"]) for row in scored]
        figure.add_scatter(
            row=1,
            col=1,
            x=[row["step"] for row in scored],
            y=rates,
            mode="lines+markers",
            line_color=RED,
            name="held-out success, 95 % interval (Wilson)",
            error_y={
                "type": "data",
                "symmetric": False,
                "array": [band.high - rate for band, rate in zip(bands, rates, strict=True)],
                "arrayminus": [rate - band.low for band, rate in zip(bands, rates, strict=True)],
            },
        )


def _points(rows: Rows, name: str) -> tuple[list[float], list[float]]:
    known = [row for row in rows if isinstance(row.get(name), int | float)]
    return [row["step"] for row in known], [float(row[name]) for row in known]


def _line(
    figure: Any, row: int, column: int, rows: Rows, name: str, colour: str, label: str = "", **more: Any
) -> None:
    x, y = _points(rows, name)
    if x:
        _scatter(figure, row, column, x, y, colour, **({"name": label} if label else {}), **more)


def _scatter(
    figure: Any, row: int, column: int, x: list[float], y: list[float], colour: str, **more: Any
) -> None:
    place = {"row": row, "col": column, "secondary_y": more.pop("secondary_y", None)}
    mode = "lines+markers" if len(x) < 3 else "lines"
    figure.add_scatter(x=x, y=y, mode=mode, line_color=colour, **more, **place)
