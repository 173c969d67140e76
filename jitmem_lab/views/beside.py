"""Runs, tasks and payloads beside each other, as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlencode

from ..compare_tables import cost_table, percent
from ..comparison import Comparison
from ..errors import UserError
from ..records import Episode, RetrievedTrace
from ..render import escape, short_repr
from ..statistics import Metric, TaskKey, wilson
from .columns import payload_text
from .comparing import Side, compared, differences, draws_for
from .diffing import STYLE as DIFF_STYLE
from .diffing import Kind, diff_html
from .style import SHORT, TEXT_LIMIT, badge, block, code, empty, facts, fold

STYLE = (
    DIFF_STYLE
    + """
.jm .cards { display: grid; gap: 12px; margin: 8px 0;
  grid-template-columns: repeat(var(--n), minmax(0, 1fr)); }
@media (max-width: 800px) { .jm .cards { grid-template-columns: minmax(0, 1fr); } }
.jm .card { border: 1px solid var(--line); border-radius: 6px; padding: 8px 10px; min-width: 0; }
.jm .card h3 { margin-bottom: 4px; } .jm a { color: inherit; }
.jm section { margin: 14px 0; } .jm .note + .note { margin-top: 6px; } .jm .scroll { overflow-x: auto; }
.jm .grid th, .jm .grid td { padding: 3px 14px 3px 0; border-bottom: 1px solid var(--line); }
.jm .grid th { vertical-align: bottom; } .jm .grid td.n, .jm .grid th.n { text-align: right; }
.jm ol.acts { margin: 4px 0; padding-left: 2.4em; font-size: 13px; } .jm ol.acts li { margin: 2px 0; }
.jm ul { margin: 4px 0; padding-left: 1.4em; }
"""
)


def link(run: str, position: int | None, inspector: str | None) -> str:
    """A link to the inspector, where there is one."""
    if inspector is None:
        return ""
    asked: dict[str, Any] = {"run": run} | ({} if position is None else {"position": position})
    return f'<a href="{html.escape(f"{inspector}?{urlencode(asked)}")}">open in the inspector</a>'


def section(title: str, body: str, name: str = "") -> str:
    """A part with a heading; HTML already."""
    own = f' class="{name}"' if name else ""
    return f"<section{own}><h2>{title}</h2>{body}</section>"


def cards(parts: Sequence[str]) -> str:
    """Parts beside each other, where there is room."""
    return f'<div class="cards" style="--n:{len(parts)}">{"".join(parts)}</div>'


def grid(head: Sequence[str], rows: Iterable[Sequence[Any]], text: int = 1) -> str:
    """A table of texts, of which the first `text` columns are words and the others figures."""
    marks = ["" if i < text else ' class="n"' for i in range(len(head))]
    top = "".join(
        f'<th scope="col"{mark}>{escape(name, SHORT)}</th>' for name, mark in zip(head, marks, strict=True)
    )
    lines = (
        "<tr>"
        + "".join(f"<td{mark}>{escape(cell, SHORT)}</td>" for cell, mark in zip(row, marks, strict=True))
        + "</tr>"
        for row in rows
    )
    table = f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div class="scroll"><table class="grid">{table}</table></div>'


def overview_html(sides: Sequence[Side], comparison: Comparison, inspector: str | None = None) -> str:
    """How the runs went, the others against the first, and what must be told with that."""
    links = [f"{escape(side.name, 200)}: {link(side.name, None, inspector)}" for side in sides]
    inside = f"<div>{facts(*links)}</div>" if inspector is not None else ""
    parts = [section("How they went", _went(sides) + inside)]
    if len(sides) > 1:
        parts.append(section(f"Against {escape(sides[0].name, 200)}", _pairs(sides, comparison)))
    told = [
        f"<li>{escape(caution)} {facts(escape('; '.join(who)))}</li>"
        for caution, who in comparison.cautions().items()
    ]
    parts += [section("To be told with these figures", f"<ul>{''.join(told)}</ul>")] if told else []
    parts.append("<h2>Success over the stream</h2>" if any(side.rows for side in sides) else "")
    return "".join(parts)


def work_out(sides: Sequence[Side]) -> None:
    """Have the figures that take long at hand: what runs are kept with holds them from then on."""
    if len(sides) > 1:
        _pairs(sides, compared(sides))
    for side in sides:
        side.curve  # noqa: B018


def _went(sides: Sequence[Side]) -> str:
    rows = []
    for side in sides:
        played = [row for row in side.rows if row.outcome != "error"]
        steps = [row.trajectory.steps for row in played if row.trajectory is not None]
        won = sum(row.outcome == "success" for row in played)
        low, high = wilson(won, len(played))
        rows.append(
            (
                side.name,
                side.facts(),
                f"{len(played):,}",
                f"{won:,}",
                f"{percent(won / len(played))} %" if played else "–",
                f"{percent(low)} – {percent(high)} %" if played else "–",
                f"{sum(steps) / len(steps):.1f}" if steps else "–",
                f"{len(side.rows) - len(played):,}",
                f"{side.unreadable:,}",
            )
        )
    head = ("run", "what", "played", "won", "success", "95 % Wilson", "steps", "errors", "broken lines")
    return grid(head, rows, text=2)


def _pairs(sides: Sequence[Side], comparison: Comparison) -> str:
    draws = draws_for(sides)
    first, base = sides[0], comparison.groups[0]
    rows = []
    for side, group in zip(sides[1:], comparison.groups[1:], strict=True):
        metrics: tuple[Metric, ...] = ("success", "reward") if base.graded or group.graded else ("success",)
        for metric in metrics:
            gap = side.against(first, metric, draws)
            if not gap.number:
                rows.append((side.name, "no task in common", *["–"] * 7))
                break
            rows.append(
                (
                    side.name,
                    "success, points" if metric == "success" else "score, points",
                    f"{gap.number:,}",
                    percent(gap.difference),
                    "{} to {}".format(*map(percent, gap.interval)) if gap.interval else "–",
                    f"{gap.test.only_b:,}" if gap.test else "–",
                    f"{gap.test.only_a:,}" if gap.test else "–",
                    f"{gap.test.p:.3g}" if gap.test else "–",
                    f"{gap.errors:,}",
                )
            )
    head = (
        "run",
        "what",
        "tasks in common",
        "difference",
        "95 % bootstrap",
        "only it won",
        f"won by {sides[0].name} only",
    )
    table = grid((*head, "McNemar's p", "left out: errors"), rows, text=2)
    how = f"Paired on the same tasks; intervals by bootstrap over tasks, {draws:,} draws."
    return table + f'<div class="facts">{how}</div>'


def differences_html(sides: Sequence[Side]) -> str:
    """What differs between the runs: settings that decide results first, then provenance."""
    rows = differences(sides)
    head = ("field", *(side.name for side in sides))
    come = [row for row in rows if row["field"].startswith("provenance.")]
    here = [row for row in rows if row not in come]
    made = [row for row in here if all(row[side.name] is not None for side in sides)]
    some = [row for row in here if row not in made]

    def table(part: Sequence[dict[str, Any]]) -> str:
        cells = ([row["field"], *(_word(row[side.name]) for side in sides)] for row in part)
        return grid(head, cells, text=len(head))

    parts = [table(made)] if made else []
    if some:
        parts.append(fold(f"{len(some):,} settings that not all of them have", table(some), len(some) < 12))
    if not here:
        parts.append(empty("their settings are the same"))
    if come:
        title = f"{len(come):,} differences in where they come from (versions, machine)"
        parts.append(fold(title, table(come)))
    return section("What differs between them", "".join(parts))


def _word(value: Any) -> str:
    return "–" if value is None else value if isinstance(value, str) else short_repr(value, text=200)


def tokens_html(sides: Sequence[Side]) -> str:
    """Tokens by role, a finished episode; reads all of the runs."""
    frame = cost_table(compared(sides, costs=True))
    cells: dict[tuple[str, str], dict[str, str]] = {}
    for row in frame.to_dict("records"):
        read, written = row["prompt_tokens"] or 0, row["completion_tokens"] or 0
        own = cells.setdefault((str(row["role"]), _when(row["stage"], row["phase"])), {})
        before = f"{own[row['memory']]}; " if row["memory"] in own else ""  # two models in one role
        own[row["memory"]] = f"{before}{read:,.0f} + {written:,.0f}"
    if not cells:
        return section("Tokens by role", empty("no model was asked"))
    rows = ([role, when, *(own.get(s.name, "–") for s in sides)] for (role, when), own in cells.items())
    table = grid(("role", "when", *(side.name for side in sides)), rows, text=2)
    how = "Tokens read + written, a finished episode. A choice among options writes those of all options."
    return section("Tokens by role", f'{table}<div class="facts">{how}</div>', "tokens")


def _when(stage: str, phase: str) -> str:
    told = {"lost": f"{phase}, attempts that failed", "warm": "warm start", "write": "memory's write"}
    return told.get(stage, phase or "–")


def task_html(
    sides: Sequence[Side],
    key: TaskKey,
    kind: Kind = "side",
    full: bool = False,
    inspector: str | None = None,
) -> str:
    """One task in several runs: how it ended, the payloads as diffs with the first run's, the actions."""
    found = [_episode(side, key) for side in sides]
    one = next((e for e in found if isinstance(e, Episode)), None)
    title = escape(one.task.description, 1000) if one is not None else escape(key[2])
    heads = [_card(side, e, inspector) for side, e in zip(sides, found, strict=True)]
    parts = [f"<h1>{title}</h1>", cards(heads)]
    both = [(s, e) for s, e in zip(sides, found, strict=True) if isinstance(e, Episode)]
    limit = None if full else TEXT_LIMIT
    for side, episode in both[1:]:
        first, base = both[0]
        titles = (_titled(first.name, base), _titled(side.name, episode))
        body = diff_html(payload_text(base), payload_text(episode), kind, titles, limit)
        parts.append(section("Payloads", body, "payloads"))
    if both:
        columns = [
            f'<div class="card"><h3>{escape(s.name, 200)}</h3>{actions(e, limit)}</div>' for s, e in both
        ]
        parts.append(section("What the executor then did", cards(columns)))
    return "".join(parts)


def _episode(side: Side, key: TaskKey) -> Episode | str:
    row = side.by_task.get(key)
    if row is None:
        return "this run has not played this task"
    try:
        return side.load(row.position)
    except UserError as error:
        return str(error)


def _titled(name: str, episode: Episode) -> str:
    return f"{escape(name, 200)} {facts(f'{len(payload_text(episode)):,} characters')}"


def _card(side: Side, episode: Episode | str, inspector: str | None) -> str:
    name = escape(side.name, 200)
    if isinstance(episode, str):
        return f'<div class="card"><h3>{name}</h3>{empty(episode)}</div>'
    traces = "".join(f"<li>{trace_line(trace)}</li>" for trace in episode.recall.traces)
    count = len(episode.recall.traces)
    listed = fold(f"{count:,} retrieved", f"<ul>{traces}</ul>") if traces else empty("no traces")
    return (
        f'<div class="card" data-run="{name}" data-position="{episode.position}"><h3>{name}</h3>'
        f"{ending(episode)}<div>{link(side.name, episode.position, inspector)}</div>{listed}</div>"
    )


def ending(episode: Episode) -> str:
    """Outcome, reward and length of an episode."""
    played = episode.trajectory
    reward = "" if played is None or played.reward is None else f"reward {played.reward:g}"
    steps = "" if played is None else f"{len(played.steps):,} steps"
    return f"{badge(episode.outcome)} {facts(reward, steps, f'position {episode.position}')}"


def trace_line(trace: RetrievedTrace) -> str:
    """A retrieved trace on one line."""
    told = facts(f"score {trace.score:.3f}", f"trace {trace.trace_id}")
    return f"{code(trace.description)} {told}"


def actions(episode: Episode, limit: int | None, observed: int = 0) -> str:
    """The actions of an episode; with `observed`, so many characters of what was seen before each."""
    if episode.error:
        return block(episode.error, limit)
    if episode.trajectory is None or not episode.trajectory.steps:
        return empty("the executor did nothing")
    lines = []
    for step in episode.trajectory.steps:
        mark = "" if step.valid else ' <span class="failure">not admissible</span>'
        seen = f"<div>{facts(escape(step.observation, observed))}</div>" if observed else ""
        act = code(step.action) if step.action else "<em>no action found</em>"
        lines.append(f"<li>{seen}→ {act}{mark}</li>")
    return f'<ol class="acts" start="0">{"".join(lines)}</ol>'


def trace_html(
    side: Side,
    trace: int,
    positions: tuple[int, int],
    kind: Kind = "side",
    full: bool = False,
    inspector: str | None = None,
) -> str:
    """One trace and the payloads that it led to for two tasks, as a diff.

    Raises:
        UserError: An episode cannot be read.
    """
    pair = [side.load(position) for position in positions]
    limit = None if full else TEXT_LIMIT
    shown = next((t for e in pair for t in e.recall.traces if t.trace_id == trace), None)
    if shown is None:
        raise UserError(f"none of the two tasks retrieved trace {trace}; choose others")
    text = block(shown.text, limit) if shown.text else empty("no text kept")
    title = f"Trace {trace}: {code(shown.description)}"
    heads = [
        f'<div class="card" data-position="{e.position}"><h3>{escape(e.task.description, 400)}</h3>'
        f"{ending(e)}<div>{_rank(e, trace)}</div><div>{link(side.name, e.position, inspector)}</div></div>"
        for e in pair
    ]
    titles = (escape(pair[0].task.description, 160), escape(pair[1].task.description, 160))
    body = diff_html(payload_text(pair[0]), payload_text(pair[1]), kind, titles, limit)
    return (
        section(title, fold("what it says", text, opened=True), "trace")
        + cards(heads)
        + section("The payloads that it led to", body, "payloads")
    )


def _rank(episode: Episode, trace: int) -> str:
    found = next((t for t in episode.recall.traces if t.trace_id == trace), None)
    if found is None:
        return facts("did not retrieve it")
    return facts(f"rank {found.rank} of {len(episode.recall.traces)}", f"score {found.score:.3f}")
