"""The live page: how a run in progress stands, read from its directory without touching it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import numpy as np
import panel as pn

from ..errors import UserError
from ..render import escape
from ..runs import Run
from ..statistics import wilson
from .choosing import RunView, html_pane, serve_view
from .facts import Fact, Facts, Tokens, Writes, added
from .judge import rate
from .paging import Column, table_html
from .plots import drawn_last, line_figure, line_pane
from .style import SHORT, page

SAID = {
    "new": "it has not begun",
    "running": "it is running",
    "completed": "nothing is owed",
    "incomplete": "episodes that ended in errors are owed; the same command plays them again",
    "interrupted": "it was stopped by hand; the same command goes on where it stopped",
    "failed": "it broke off; the same command goes on where it stopped",
    "killed": "its process died without a word; the same command goes on where it stopped",
}
"""What each state means."""
_TOKENS = (Column("role"), *(Column(n, True) for n in ("calls", "from cache", "tokens read", "written")))
_LAST = (Column("position", True), Column("outcome"), Column("ended"), Column("s", True), Column("task"))
_CELLS = (Column("cell"), Column("state"), Column("done", True), Column("of", True), Column("s", True))


class LiveView(RunView):
    """Shows how far a run is, what it costs and how it fares; follows it while the page is open."""

    title: ClassVar[str] = "live"
    plotted: ClassVar[bool] = False
    lasting: ClassVar[bool] = True

    def parts(self) -> list[Any]:
        """The page below the choice of the run."""
        self._said: list[str] = []
        self._curved: tuple[Any, ...] = ()
        self._standing, self._rest, self._sweep = html_pane(), html_pane(), html_pane()
        self._curve = line_pane()
        self._below = pn.Row(self._sweep, sizing_mode="stretch_width", margin=(0, 10))
        return [self._standing, drawn_last(self._curve), self._rest]

    def __panel__(self) -> Any:
        return pn.Column(super().__panel__(), self._below, sizing_mode="stretch_width", margin=0)

    def forget(self) -> None:
        """Let go of the run shown so far."""
        self._curved = ()

    def tick(self) -> None:
        """Read on; times move on by themselves, so the standing is told anew each time."""
        super().tick()
        if self._opened is not None and self._facts is not None and self._main.visible:
            self._tell_standing(self._opened, self._facts)
        self._tell_sweep()

    def draw(self, run: Run, facts: Facts, writes: Writes) -> None:
        """Show what was read."""
        self._tell_standing(run, facts)
        episodes = facts.episodes()
        scored = [fact.outcome == "success" for fact in episodes if fact.outcome != "error"]
        drawn = (str(run.path), len(scored), sum(scored))
        self._curve.visible = bool(scored)
        if scored and drawn != self._curved:
            self._curved = drawn
            self._curve.object = curve(scored)
        self._rest.object = page(self._rest_html(facts, writes))
        self._tell_sweep()

    def facts_said(self) -> list[str]:
        """What the page's head says."""
        return self._said

    def _say(self, sentence: str) -> None:
        super()._say(sentence)
        self._tell_sweep()

    def _tell_standing(self, run: Run, facts: Facts) -> None:
        status, counts = run.status(), facts.counts()
        state = str(status.get("state"))
        done = counts["success"] + counts["failure"]
        total = _number((run.settings.get("tasks") or {}).get("count")) or done
        self._said = [f"{done:,} of {total:,} done", state]
        self._standing.object = page(standing_html(status, counts, total, facts.unreadable))
        self._heading()

    def _rest_html(self, facts: Facts, writes: Writes) -> str:
        tokens = added(facts.tokens, writes.tokens)
        rows = [(escape(role, 40), *_counts(tokens[role])) for role in sorted(tokens)]
        parts = []
        if rows:
            whole = Tokens(*map(sum, zip(*tokens.values(), strict=True)))
            rows.append(("all", *_counts(whole)))
            parts += ["<h3>Tokens by role, of every attempt and write</h3>", table_html(_TOKENS, rows)]
        if facts.last:
            newest = [self._last_row(fact) for fact in reversed(facts.last)]
            parts += ["<h3>Last episodes, newest first</h3>", table_html(_LAST, newest)]
        return "".join(parts) or '<p class="empty">No episode has ended yet.</p>'

    def _last_row(self, fact: Fact) -> list[str]:
        kind = fact.outcome if fact.outcome in ("success", "failure") else "error"
        told = f'<span class="{kind}">{escape(fact.outcome, 40)}</span>'
        task = self.place(fact.position, fact.description)
        if fact.error:
            task += f'<br><span class="error">{escape(fact.error, SHORT)}</span>'
        return [self.place(fact.position), told, _clock(fact.ended), f"{fact.seconds:,.1f}", task]

    def _tell_sweep(self) -> None:
        folder = self._sweep_folder()
        self._sweep.object = "" if folder is None else page(self._sweep_html(folder))

    def _sweep_folder(self) -> Path | None:
        """The folder with a sweep that the chosen run belongs to; without a run, the first there is."""
        roots = [place.path if isinstance(place, Run) else Path(place) for place in self._where]
        near = [self._opened.path.parent] if self._opened is not None else []
        for folder in [*near, *roots]:
            if (folder / "sweep.json").is_file():
                return folder
        return None

    def _sweep_html(self, folder: Path) -> str:
        from ..sweep import read_sweep

        try:
            sweep = read_sweep(folder)
            cells = [dict(cell) for cell in sweep["cells"]]
        except (UserError, KeyError, TypeError, ValueError) as error:
            return f'<h3>Sweep</h3><p class="empty">{escape(error, 400)}</p>'
        state = str(sweep.get("state"))
        facts = [
            f"{_number(sweep.get('done')):,} of {_number(sweep.get('total')):,} episodes",
            f"about {span(sweep.get('eta_seconds'))} left" if state == "running" else "",
            f"last told {_ago(sweep.get('updated'))}",
        ]
        if state != "running":  # a cell that was playing then stands as the sweep does
            cells = [cell | {"state": state} if cell.get("state") == "running" else cell for cell in cells]
        rows = [self._cell(folder, cell) for cell in cells]
        told = " · ".join(fact for fact in facts if fact)
        return f"<h3>Sweep {badge(state)} {escape(folder.name, 80)}, {told}</h3>{table_html(_CELLS, rows)}"

    def _cell(self, folder: Path, cell: dict[str, Any]) -> list[str]:
        name, state = str(cell.get("name")), str(cell.get("state"))
        there = {listed.path.resolve(): listed.name for listed in self._listed.values()}
        own = there.get((folder / Path(str(cell.get("folder"))).name).resolve())
        shown = escape(name, 120)
        if own is not None and own == self.run:
            shown = f"<b>{shown}</b>"
        elif own is not None and self._served:
            theme = {"theme": self._theme} if self._theme else {}
            shown = f'<a href="live?{escape(urlencode({"run": own} | theme, errors="replace"))}">{shown}</a>'
        told = badge(state)
        if cell.get("error"):
            told += f' <span class="error">{escape(cell["error"], SHORT)}</span>'
        done, total = _number(cell.get("done")), _number(cell.get("total"))
        spent = _float(cell.get("seconds"))  # 0: an earlier go of the sweep had played it
        return [shown, told, f"{done:,}", f"{total:,}", f"{spent:,.0f}" if spent else "–"]


def badge(state: str) -> str:
    """A state in its colour."""
    kinds = {"completed": "success", "running": "", "new": "", "owed": ""}
    return f'<span class="badge {kinds.get(state, "error")}">{escape(state, 40)}</span>'


def standing_html(status: dict[str, Any], counts: Any, total: int, unreadable: int) -> str:
    """Where a run stands: state, bar, counts, time left.

    Args:
        status: Of `Run.status`.
        counts: Episodes by outcome, as read from the run.
        total: Episodes that the run is to have.
        unreadable: Lines that are no episodes.
    """
    state, won, lost = str(status.get("state")), counts["success"], counts["failure"]
    done, broken = won + lost, counts["error"]
    facts = [
        f"<b>{done:,}</b> done ({won:,} won, {lost:,} lost)",
        f"<b>{broken:,}</b> ended in errors and are owed again" if broken else "0 ended in errors",
        f"<b>{max(0, total - done):,}</b> owed",
    ]
    eta = status.get("eta_seconds")
    if state == "running" and isinstance(eta, int | float):
        since = max(0.0, time.time() - _float(status.get("updated")))
        facts.append(f"about <b>{span(max(0.0, eta - since))}</b> left")
    parts = [f"<p>{badge(state)} {SAID.get(state, '')}, last told {_ago(status.get('updated'))}</p>"]
    if status.get("error"):
        parts.append(f"<pre>{escape(status['error'], 2000)}</pre>")
    kinds = (("won", won), ("lost", lost), ("broken", broken))
    part = 100 / max(total, done + broken, 1)
    bars = "".join(f'<i class="{kind}" style="width:{part * n:.2f}%"></i>' for kind, n in kinds)
    label = f"{done} of {total} done"
    parts.append(f'<div class="bar" role="img" aria-label="{label}">{bars}</div><p>{" · ".join(facts)}</p>')
    parts.append(f"<p>Success so far, with 95 % interval: <b>{rate(won, done)}</b></p>")
    if unreadable:
        parts.append(f'<p class="error">{unreadable:,} lines could not be read</p>')
    return "".join(parts)


def curve(scored: Sequence[bool]) -> Any:
    """Success so far over the stream with its 95 % Wilson band."""
    won = np.cumsum(scored)
    played = list(range(1, len(scored) + 1))
    bands = [wilson(int(count), n) for count, n in zip(won, played, strict=True)]
    return line_figure(
        played,
        (won / np.array(played)).tolist(),
        across="episodes with a result, in stream order",
        up="success so far (%)",
        low=[band.low for band in bands],
        high=[band.high for band in bands],
        shares=True,
    )


def _counts(tokens: Tokens) -> tuple[str, ...]:
    return tuple(f"{count:,}" for count in tokens)


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def _float(value: Any) -> float:
    try:
        return float(value) if isinstance(value, int | float) and math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def span(seconds: Any) -> str:
    """A time in words."""
    if not isinstance(seconds, int | float):
        return "an unknown time"
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _ago(when: Any) -> str:
    then = _float(when)
    return f"{span(max(0.0, time.time() - then))} ago" if then else "never"


def _clock(when: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(when)) if when > 0 else ""
    except (OverflowError, ValueError, OSError):
        return ""  # no time that there is


def live_page(runs: Sequence[str | Path | Run]) -> LiveView:
    """A fresh page for one visitor, which follows the run."""
    return serve_view(LiveView, runs)
