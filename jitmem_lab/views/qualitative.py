"""Figures of single tasks: one trace and what it became for two tasks, one task with memory and without.

Each is one HTML file that needs nothing but itself, no script and no network, and a picture of it.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from ..browser import take_pictures
from ..errors import UserError
from ..files import write_atomic
from ..records import Episode
from ..render import clean_text, escape
from ..runs import Run
from . import beside, style
from .comparing import Side, read_side, task_names, two_tasks, wins
from .diffing import diff_html
from .reading import find_runs
from .uptake import LABEL, hue, marked, uptake

WIDTH, TALLEST = 1500, 12_000
"""Pixels of a picture: its width, and what it is cut at."""
TEXT, SEEN = 6_000, 220
"""Characters of a trace or payload, and of an observation, that a figure shows."""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0; padding: 18px 22px 26px; background: light-dark(#ffffff, #16191d);
  color: light-dark(#1d2126, #e4e7eb); }
.jm .figure { display: grid; gap: 12px; align-items: start;
  grid-template-columns: repeat(var(--n), minmax(0, 1fr)); margin-top: 10px; }
@media (max-width: 900px) { .jm .figure { grid-template-columns: minmax(0, 1fr); } }
.jm .card h2 { margin-bottom: 6px; } .jm footer { margin-top: 14px; }
"""


class Figure(NamedTuple):
    """A figure, shown in a notebook's cell and written by `export`."""

    name: str
    """Name of its files."""
    title: str
    """What it shows, in a sentence."""
    body: str
    """Its HTML."""

    def to_html(self) -> str:
        """A page that needs nothing but itself."""
        looks = style.STYLE + beside.STYLE + _STYLE
        return (
            '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(self.title, 200)}</title><style>{looks}</style></head><body>\n"
            f"{style.page(self.body)}\n</body></html>\n"
        )

    def _repr_html_(self) -> str:
        """The page in a frame of its own: nothing of it reaches the notebook."""
        page = html.escape(self.to_html(), quote=True)
        return (
            f'<iframe sandbox srcdoc="{page}" title="{escape(self.title, 200)}" '
            'style="width:100%;height:640px;border:1px solid rgba(128,128,128,.4)"></iframe>'
        )


def open_sides(runs: Sequence[str | Path | Run]) -> list[Side]:
    """The runs in some folders, in the order given, those of one folder oldest first.

    Raises:
        UserError: There is none, or one cannot be read.
    """
    sides: dict[Path, Side] = {}
    for place in runs:
        for listed in reversed(find_runs([place]).values()):
            sides.setdefault(listed.path.resolve(), read_side(listed.name, listed.path))
    found = [side for side in sides.values() if side.rows]
    if not found:
        where = ", ".join(str(place.path if isinstance(place, Run) else place) for place in runs)
        raise UserError(f"there is no run with a finished episode in {where}; give run directories")
    return found


def telling_tasks(sides: Sequence[Side], most: int = 3) -> list[str]:
    """Tasks that show most: won by some runs and lost by others, else the first that all have played."""
    names = task_names(sides)
    place = {key: n for n, key in enumerate(row for side in sides for row in side.by_task)}

    def rank(name: str) -> tuple[bool, int, int]:
        won = wins(sides, names[name])
        return not (0.0 in won and 1.0 in won), won.count(None), place[names[name]]

    return sorted(names, key=rank)[:most]


def named_tasks(sides: Sequence[Side], asked: Sequence[str | int]) -> list[str]:
    """Names of tasks that were asked for by id, or by position in the first run.

    Raises:
        UserError: No run has such a task.
    """
    names = task_names(sides)
    by_key = {key: name for name, key in names.items()}
    places = {row.position: by_key[key] for key, row in sides[0].by_task.items()}
    found = []
    for one in asked:
        name = places.get(one) if isinstance(one, int) else one
        if name not in names:
            raise UserError(f"no run here has played task {clean_text(one, 200)!r}; give an id or a position")
        found.append(name)
    return found


def telling_trace(sides: Sequence[Side]) -> tuple[Side, int] | None:
    """The trace that most different tasks retrieved, first where one was won and another lost."""
    best: tuple[tuple[bool, int], Side, int] | None = None
    for side in sides:
        if not any(row.payload for row in side.rows):
            continue
        for trace, rows in side.by_trace.items():
            two = two_tasks(rows)
            if two is not None:
                rank = (two[0].outcome != two[1].outcome, len({row.task.description for row in rows}))
                if best is None or rank > best[0]:
                    best = (rank, side, trace)
    return best and best[1:]


def chosen_trace(sides: Sequence[Side], trace: int | None = None, run: str = "") -> tuple[Side, int] | None:
    """The trace that is shown, and whose it is; None where there is none to show.

    Args:
        sides: The runs.
        trace: Its id; None takes the most telling one.
        run: Name of the run that it is of; empty takes one with payloads that retrieved it.

    Raises:
        UserError: No run has that name, or none retrieved that trace.
    """
    own = [side for side in sides if not run or side.name == run]
    if not own:
        known = ", ".join(side.name for side in sides)
        raise UserError(f"there is no run {clean_text(run, 200)!r}; choose one of {known}")
    if trace is None:
        return telling_trace(own)
    for side in own:
        if any(row.payload for row in side.by_trace.get(trace, [])):
            return side, trace
    raise UserError(f"no run here has a payload with trace {trace}; `trace_frame` lists those there are")


def trace_figure(side: Side, trace: int, positions: Sequence[int] = ()) -> Figure:
    """One trace, and the payloads that it became for two tasks (the paper's figure 3).

    Args:
        side: The run.
        trace: The trace's id in its bank.
        positions: Of the two tasks; empty takes two different ones, won and lost if there are such.

    Raises:
        UserError: Fewer than two tasks retrieved it.
    """
    rows = side.by_trace.get(trace, [])
    two = tuple(positions) or tuple(row.position for row in two_tasks(rows) or ())
    if len(two) != 2 or not set(two) <= {row.position for row in rows}:
        places = ", ".join(str(row.position) for row in rows[:20]) or "none"
        raise UserError(
            f"trace {trace} of {side.name} was not retrieved for two tasks like that; it was at {places}"
        )
    a, b = (side.load(position) for position in two)
    shown = next(one for one in a.recall.traces if one.trace_id == trace)
    titles = (_for(a), _for(b))
    body = diff_html(a.recall.payload, b.recall.payload, "side", titles, TEXT)
    columns = [
        _card(f"Trace {trace}", f"<h3>{escape(shown.description, 400)}</h3>{style.block(shown.text, TEXT)}"),
        *(_card(name, f"{_for(e)}{_did(e)}") for name, e in (("Then, for one", a), ("for the other", b))),
    ]
    title = f"One trace, two tasks: trace {trace} of {side.name}"
    parts = [f"<h1>{escape(title, 300)}</h1>", beside.section("The payloads that it became", body)]
    return Figure(
        f"trace-{trace}-{_slug(side.name)}", title, "".join([*parts, _grid(columns), _foot([side])])
    )


def task_figure(sides: Sequence[Side], task: str) -> Figure:
    """One task: traces, payload, and what the executor then did, run by run (the paper's figure 4).

    Args:
        sides: The runs; those without a payload, such as of no memory, stand beside the first that has one.
        task: The task's name, as `task_names` gives it.

    Raises:
        UserError: None of the runs has played it.
    """
    key = task_names(sides).get(task)
    played = [(side, side.load(side.by_task[key].position)) for side in sides if key in side.by_task]
    if key is None or not played:
        raise UserError(f"no run here has played task {clean_text(task, 200)!r}; choose another")
    played.sort(key=lambda pair: not pair[1].recall.payload)
    (side, first), *others = played
    title = f"One task, {len(played)} runs: {clean_text(first.task.description, 160)}"
    bare = [pair for pair in others if not pair[1].recall.payload and not pair[1].recall.traces]
    rows = [[*_columns(side, first), *(_acts(*pair) for pair in bare)]]
    rows += [_columns(*pair) for pair in others if pair not in bare]
    told = f'<div class="facts">{escape(LABEL)}</div>' if first.recall.traces and first.recall.payload else ""
    head = f"<h1>{escape(first.task.description, 1000)}</h1>{told}"
    body = "".join([head, *map(_grid, rows), _foot([side for side, _ in played])])
    return Figure(f"task-{_slug(task)}", title, body)


def _columns(side: Side, episode: Episode) -> list[str]:
    """Traces, payload and actions of an episode; without the first two where there are none."""
    recall = episode.recall
    if not recall.payload and not recall.traces:
        return [_acts(side, episode)]
    taken = uptake([recall.payload] if recall.payload else [], [trace.text for trace in recall.traces])
    traces = [
        f'<h3><span class="rank {hue(place)}">{trace.rank}</span> {escape(trace.description, 400)}</h3>'
        f"<pre>{marked(trace.text, taken.traces[place], TEXT)}</pre>"
        for place, trace in enumerate(recall.traces)
    ]
    payload = style.empty("no payload")
    if recall.payload:
        payload = f'<pre class="payload">{marked(recall.payload, taken.payloads[0], TEXT)}</pre>'
    name = escape(side.name, 200)
    return [
        _card(f"{name}: traces", "".join(traces) or style.empty("no traces")),
        _card(f"{name}: payload", payload),
        _acts(side, episode),
    ]


def _acts(side: Side, episode: Episode) -> str:
    return _card(f"{escape(side.name, 200)}: what the executor did", _did(episode))


def _did(episode: Episode) -> str:
    return f"<div>{beside.ending(episode)}</div>{beside.actions(episode, TEXT, SEEN)}"


def _for(episode: Episode) -> str:
    return f"<div>{escape(episode.task.description, 400)}</div>"


def _card(title: str, body: str) -> str:
    return f'<div class="card"><h2>{title}</h2>{body}</div>'


def _grid(columns: Sequence[str]) -> str:
    return f'<div class="figure" style="--n:{len(columns)}">{"".join(columns)}</div>'


def _foot(sides: Sequence[Side]) -> str:
    """What the runs are, and what must be told with them."""
    lines = []
    for side in sides:
        told = "; ".join(side.run.card().cautions)
        lines.append(f"{side.name}: {side.facts()}" + (f" ({told})" if told else ""))
    return f'<footer class="facts">{"<br>".join(escape(line, 2000) for line in lines)}</footer>'


def _slug(text: str) -> str:
    """A text as part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", clean_text(text, None))[:90].strip("-") or "unnamed"


def export(figures: Sequence[Figure], folder: str | Path, images: bool = True) -> Iterator[str]:
    """Write the figures as HTML, and as PNG where a browser can be found.

    Args:
        figures: What to write.
        folder: Where to; made if missing.
        images: Whether pictures are wanted.

    Yields:
        The path of each file; a sentence where pictures cannot be taken.

    Raises:
        UserError: The folder cannot be made or written to.
    """
    root = Path(folder)
    pages: list[Path] = []
    try:
        root.mkdir(parents=True, exist_ok=True)
        for figure in figures:
            same = sum(path.stem == figure.name for path in pages)
            pages.append(root / f"{figure.name}{f'-{len(pages)}' if same else ''}.html")
            write_atomic(pages[-1], figure.to_html())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UserError(f"{str(folder)!r} cannot be written to ({reason}); choose another folder") from None
    yield from map(str, pages)
    if images and pages:
        with ThreadPoolExecutor(1) as aside:  # a notebook's loop runs in this thread
            yield from aside.submit(take_pictures, pages, WIDTH, TALLEST).result()
