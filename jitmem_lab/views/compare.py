"""The comparison: what differs between runs, who won which task, and payloads beside each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import panel as pn
import param

from ..errors import UserError
from ..render import clean_text, escape
from ..runs import Run
from ..statistics import TaskKey
from . import beside, style
from .comparing import (
    WHICH,
    Side,
    compared,
    first_two,
    task_frame,
    task_names,
    trace_frame,
    two_tasks,
)
from .curves import curves
from .diffing import KINDS
from .gathering import SLICE, Gathering
from .keys import COMPARE_KEYS, Browser, keys_html
from .naming import short_names
from .plots import drawn_last, line_pane
from .reading import Listed, find_again, no_run, no_runs
from .row_table import RowTable
from .theme import BUTTONS_STYLE, CHOICE_STYLE, LIST_STYLE, page_theme

MOST = 6
"""Runs that are compared at a time."""
AT_ONCE = 16_000_000
"""Bytes of runs up to which tokens are counted without being asked to."""
OFFERED = 300
"""Tasks that are offered for one trace."""
TABS = {"What differs": "runs", "Tasks": "tasks", "One trace, two tasks": "trace"}
"""The parts of the page."""
_ALWAYS, _OF_TASK = ("runs", "base", "tab"), ("which", "text", "task")
_OF_TRACE, _HOW = ("bank", "trace", "left", "right"), ("diff", "full")
_SELECTION = (*_ALWAYS, *_OF_TASK, *_OF_TRACE, *_HOW)
_STYLE = style.STYLE + beside.STYLE


class Comparer(pn.viewable.Viewer):
    """Two or more runs beside each other, the others compared with one of them.

    Args:
        where: Run directories, folders of runs, or several of these.
        location: A `panel.io.location.Location` to `follow` from the beginning.
        params: `runs` (names), `base`, `tab`, `which`, `text`, `task`, `bank`, `trace`, `left`, `right`,
            `diff`, `full`.

    Raises:
        UserError: A name in `runs` is none of a run that is there.
    """

    runs = param.ListSelector(default=[], objects=[], doc="Names of the runs.")
    base: Any = param.Selector(default=None, objects=[], allow_None=True, doc="The one to compare with.")
    tab: Any = param.Selector(default="runs", objects=TABS, doc="The part of the page that is shown.")
    which: Any = param.Selector(default="all", objects=WHICH, doc="Which tasks are listed.")
    text = param.String(default="", doc="Words that a listed task's sentence holds.")
    task = param.String(default="", doc="The task whose payloads are shown.")
    bank: Any = param.Selector(default=None, objects=[], allow_None=True, doc="Whose traces are shown.")
    trace = param.Integer(default=None, allow_None=True, doc="The trace's id.")
    left: Any = param.Selector(default=None, objects=[], allow_None=True, doc="Position of one task.")
    right: Any = param.Selector(default=None, objects=[], allow_None=True, doc="Position of the other.")
    diff: Any = param.Selector(default="side", objects=KINDS, doc="How two texts are shown.")
    full = param.Boolean(default=False, label="show long texts whole", doc="Whether nothing is cut.")

    def __init__(
        self, where: str | Path | Run | Sequence[Any] = "runs", location: Any = None, **params: Any
    ) -> None:
        super().__init__()
        self._where = [where] if isinstance(where, str | Path | Run) else list(where)
        self._listed: dict[str, Listed] = {}
        self._gathering = Gathering({})
        self._sides: list[Side] = []
        self._problems: list[str] = []
        self._names: dict[str, TaskKey] = {}
        self._filling = False
        self._silent = False
        self._location: Any = None
        self._inspector: str | None = None
        self._made: dict[str, tuple[Any, ...]] = {}
        self._controls()
        self._find()
        unknown = [name for name in params.get("runs", ()) if name not in self._listed]
        if unknown:
            raise UserError(no_run(self._where, unknown[0]))
        with self._quietly():
            self.param.update(**({"runs": first_two(self._listed)} | params))
        self.param.watch(self._changed, list(_SELECTION))
        if location is None:
            self._read()
        else:
            self.follow(location)

    def _controls(self) -> None:
        def pane() -> pn.pane.HTML:
            return pn.pane.HTML("", stylesheets=[_STYLE], sizing_mode="stretch_width")

        def select(name: str, label: str, width: int | None = None) -> pn.widgets.Select:
            made = pn.widgets.Select.from_param(
                self.param[name], label=label, description=None, stylesheets=[LIST_STYLE]
            )
            made.param.update({"width": width} if width else {"sizing_mode": "stretch_width"})
            return made

        def choice(name: str) -> pn.widgets.RadioButtonGroup:
            return pn.widgets.RadioButtonGroup.from_param(
                self.param[name], label="", description=None, align="end", stylesheets=[BUTTONS_STYLE]
            )

        def button(label: str, does: Any) -> pn.widgets.Button:
            made = pn.widgets.Button(label=label, width=110, align="end")
            made.on_click(lambda _: does())
            return made

        self._runs = pn.widgets.MultiChoice.from_param(
            self.param.runs,
            label="Runs",
            description=None,
            max_items=MOST,
            stylesheets=[CHOICE_STYLE],
            sizing_mode="stretch_width",
        )
        self._tabs, self._kind = choice("tab"), choice("diff")
        self._whole = pn.widgets.Checkbox.from_param(self.param.full, align="end", width=160)
        self._which = select("which", "Which tasks", 240)
        self._text = pn.widgets.TextInput.from_param(
            self.param.text,
            label="Words",
            description=None,
            placeholder="words of the task",
            sizing_mode="stretch_width",
            css_classes=["jm-filter"],
        )
        self._base = select("base", "Compared with", 240)
        self._bank = select("bank", "Whose traces", 320)
        self._lefts, self._rights = select("left", "One task"), select("right", "Another")
        self._reload = button("Reload", self.reload)
        self._count = button("Count tokens", self._tokens)
        self._count.align = "start"
        self._help = button("Keys ?", self._turn_keys)
        self._help.width = 75
        moves = (("‹ Previous", -1), ("Next ›", 1))
        self._moves = {
            tab: [button(label, lambda by=by: self.move(by)) for label, by in moves]
            for tab in ("tasks", "trace")
        }
        self._browser = Browser(self._told)
        self._head, self._note, self._keys = pane(), pane(), pane()
        self._keys.visible = False
        self._overview, self._costs, self._differ = pane(), pane(), pane()
        self._curve = line_pane()
        self._curve.height = 360
        self._tasks, self._traces = RowTable(self._pick_task), RowTable(self._pick_trace)
        self._beside, self._figure = pane(), pane()
        rows = {"margin": 0, "sizing_mode": "stretch_width"}
        curve = drawn_last(self._curve)
        about = pn.Column(self._overview, curve, self._costs, self._count, self._differ, **rows)
        tasks = pn.Column(
            pn.Row(self._which, self._text, *self._moves["tasks"], **rows),
            self._tasks.pane,
            self._beside,
            **rows,
        )
        traces = pn.Column(
            pn.Row(self._bank, *self._moves["trace"], **rows),
            self._traces.pane,
            pn.Row(self._lefts, self._rights, **rows),
            self._figure,
            **rows,
        )
        self._parts = {"runs": about, "tasks": tasks, "trace": traces}

    def __panel__(self) -> pn.viewable.Viewable:
        choice = pn.Row(self._runs, self._base, self._reload, self._help, sizing_mode="stretch_width")
        views = pn.Row(self._tabs, self._kind, self._whole, sizing_mode="stretch_width")
        return pn.Column(
            self._head,
            choice,
            views,
            self._note,
            self._keys,
            *self._parts.values(),
            self._browser,
            sizing_mode="stretch_width",
            margin=10,
            css_classes=["jm-view"],
        )

    def move(self, by: int) -> None:
        """Go to the next task or trace of the list (1) or the one before (-1); stays where there is none."""
        if self.tab == "tasks":
            self.task = self._tasks.beside(self.task, by) or self.task
        elif self.tab == "trace" and (other := self._traces.beside(str(self.trace), by)) is not None:
            self.trace = int(other)

    def _told(self, message: dict[str, Any]) -> None:
        """Do what a key asks for."""
        what = message.get("do")
        if what in ("next", "previous"):
            self.move(1 if what == "next" else -1)
        elif what == "whole":
            self.full = not self.full
        elif what == "reload":
            self.reload()
        elif what == "keys":
            self._turn_keys()

    def _turn_keys(self) -> None:
        """Show or hide what the keys do."""
        self._keys.object = keys_html(COMPARE_KEYS)
        self._keys.visible = not self._keys.visible

    def reload(self) -> None:
        """Look for new runs and new episodes."""
        self._find()
        with self._quietly():
            if not self.runs:
                self.runs = first_two(self._listed)
        self._silent = False
        self._read()

    def follow(self, location: Any, inspector: str | None = "inspect") -> None:
        """Take the selection from a URL, and keep it there from now on.

        Args:
            location: A `panel.io.location.Location`.
            inspector: Address of the inspector, for links to it.
        """
        self._inspector = inspector
        self._browser.everywhere = True
        asked = parse_qs(location.search.lstrip("?"))
        problems: list[str] = []
        chosen: dict[str, Any] = {}
        for name in set(asked) & set(_SELECTION):
            values = list(dict.fromkeys(asked[name]))
            try:
                chosen[name] = self._asked(name, values)
            except UserError as error:
                problems.append(str(error))
        if "runs" in asked and "runs" not in chosen:
            chosen["runs"] = [name for name in dict.fromkeys(asked["runs"]) if name in self._listed][:MOST]
        with self._quietly():
            for name in ("left", "right"):
                if chosen.get(name) is not None:
                    self.param[name].objects = {"": chosen[name]}
            for name in ("bank", "base"):
                if chosen.get(name) is not None:
                    self.param[name].objects = [chosen[name]]
            self.param.update(**chosen)
        self._location, self._silent = location, True
        self._read(problems)
        if not problems:  # a URL that is wrong stays to be mended
            pn.state.onload(self._loaded)

    def _loaded(self) -> None:
        """Keep the URL from now on: what is told before the page stands, the browser's own URL undoes."""
        self._silent = False
        self._tell()

    def _asked(self, name: str, values: list[str]) -> Any:
        """A parameter's value from the URL; `UserError` if it cannot be."""
        last = values[-1]
        if name == "runs":
            unknown = [value for value in values if value not in self._listed]
            if unknown:
                raise UserError(no_run(self._where, unknown[0]))
            return values[:MOST]
        if name in ("trace", "left", "right"):
            if not (last.isascii() and last.isdigit() and len(last) < 10):
                raise UserError(f"{name}={clean_text(last, 40)} is no number; choose below")
            return int(last)
        if name == "full":
            return last == "1"
        if name in ("tab", "which", "diff") and last not in self.param[name].objects:
            raise UserError(f"{name}={clean_text(last, 40)} is not to be had; choose below")
        return last[:500]

    def _tell(self) -> None:
        if self._location is None or self._silent:
            return
        kept = {n: v for n, v in parse_qs(self._location.search.lstrip("?")).items() if n not in _SELECTION}
        own = {"runs": (), "tasks": (*_OF_TASK, *_HOW), "trace": (*_OF_TRACE, *_HOW)}
        names = (*_ALWAYS, *own[self.tab])
        told: dict[str, Any] = {}
        for name in names:
            mine = getattr(self, name)
            if mine not in (None, "") and (name == "runs" or mine != self.param[name].default):
                told[name] = int(mine) if isinstance(mine, bool) else mine
        self._location.search = "?" + urlencode(kept | told, doseq=True, errors="replace")

    def _find(self) -> None:
        """Look which runs there are; those chosen stay, though they may be gone."""
        self._listed = find_again(self._where, self._listed, self.runs)
        names = {f"{run.name} · {run.about}": run.name for run in self._listed.values()}
        if self.param.runs.names != names:
            self.param.runs.objects = names

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        before, self._filling = self._filling, True
        try:
            yield
        finally:
            self._filling = before

    def _changed(self, *events: Any) -> None:
        if self._filling:
            return
        changed, self._silent = {event.name for event in events}, False
        with self._quietly():
            if "bank" in changed:
                self.trace = None
            if changed & {"bank", "trace"}:
                self.param.update(left=None, right=None)
        if changed & {"runs", "base"}:
            self._read()
        else:
            self._draw()

    def _read(self, problems: Sequence[str] = ()) -> None:
        """Read the runs chosen; one that cannot be read gets a sentence, and the rest is shown."""
        self._sides, self._problems, self._made = [], list(problems), {}
        with self._quietly():
            first = self.runs[0] if self.runs else None
            self._offer("base", list(self.runs), first)
        names = sorted(self.runs, key=lambda name: name != self.base)
        self._gathering = Gathering({name: self._listed[name].path for name in names})
        self._gathering.go_on(None if self._location is None else SLICE)
        self._take()

    def _take(self) -> None:
        """Show the runs, or how far they are read: the rest is read aside while the browser has the page."""
        gathering = self._gathering

        def back() -> None:
            if gathering is self._gathering:
                self._take()

        if gathering.whole:
            self._sides = gathering.sides
            empty = [side.name for side in self._sides if not side.rows]
            self._problems += gathering.problems
            self._problems += [f"{name} has no finished episode yet; press Reload later" for name in empty]
            self._names = task_names(self._sides)
        else:
            gathering.go_on_aside(back)
        self._draw()

    def _draw(self) -> None:
        """Show the part of the page that is chosen."""
        said = list(self._problems)
        for tab, part in self._parts.items():
            part.visible = tab == self.tab and bool(self._sides)
        self._kind.visible = self._whole.visible = self.tab != "runs" and bool(self._sides)
        if not self._gathering.whole:
            said.append(f"reading the runs: {100 * self._gathering.share:.0f} % so far")
        if not self.runs:
            said.append("choose runs above" if self._listed else no_runs(self._where))
        elif len(self.runs) == 1 and self.tab != "trace":
            said.append("choose a second run above")
        with self._quietly():
            if self._sides:
                {"runs": self._draw_runs, "tasks": self._draw_tasks, "trace": self._draw_trace}[self.tab]()
        notes = "".join(f'<div class="note" role="status">{escape(sentence)}</div>' for sentence in said)
        self._note.object = style.page(notes) if said else ""
        self._note.visible = bool(said)
        names = " · ".join(side.name for side in self._sides)
        self._head.object = style.page(f"<h2>JitMem Lab · compare {style.facts(escape(names, 600))}</h2>")
        self._tell()

    def _draw_runs(self) -> None:
        if not self._new("runs", tuple(side.name for side in self._sides)):
            return
        comparison = compared(self._sides)
        self._overview.object = style.page(beside.overview_html(self._sides, comparison, self._inspector))
        self._curve.object = curves(self._sides)
        self._curve.visible = any(side.rows for side in self._sides)
        self._differ.object = style.page(beside.differences_html(self._sides)) if self._sides[1:] else ""
        self._costs.object = ""
        size = sum(side.size for side in self._sides)
        self._count.visible = size > AT_ONCE
        self._count.name = f"Count tokens by role (reads {size / 1e6:,.0f} MB)"
        self._count.width = 300
        if size <= AT_ONCE:
            self._tokens()

    def _tokens(self) -> None:
        try:
            self._costs.object = style.page(beside.tokens_html(self._sides))
        except UserError as error:
            self._costs.object = style.note(str(error))
        self._count.visible = False

    def _draw_tasks(self) -> None:
        if self._new("tasks", (self.which, self.text)):
            frame = task_frame(self._sides, self._names, self.which, self.text)
            titles = short_names([side.name for side in self._sides])
            widths = {name: max(110, 56 + 8 * len(title)) for name, title in titles.items()}
            self._tasks.fill(frame, widths, titles)
        if self.task not in self._names and not self.task and self._tasks.keys():
            self.task = self._tasks.keys()[0]
        self._tasks.choose(self.task)
        self._allow(self._tasks, self.task)
        fit = self._tasks.keys()
        other = len(fit) if self.task not in fit else None
        if not self._new("task", (self.task, self.diff, self.full, other)):
            return
        key = self._names.get(self.task)
        if key is None:
            asked = f"none of these runs has played {self.task!r}; choose a task above"
            self._beside.object = style.note(asked if self.task else "no task fits; choose others above")
            return
        body = style.page(beside.task_html(self._sides, key, self.diff, self.full, self._inspector))
        words = f"{len(fit):,} of {len(self._names):,} tasks fit; the one below does not"
        self._beside.object = body if self.task in fit else style.note(words) + body

    def _draw_trace(self) -> None:
        names = [side.name for side in self._sides]
        most = max(self._sides, key=lambda side: sum(len(row.traces) for row in side.rows))
        self._offer("bank", names, most.name)
        side = next(side for side in self._sides if side.name == self.bank)
        if self._new("traces", (self.bank,)):
            self._traces.fill(trace_frame(side), {"trace": 80, "tasks": 90, "times": 90, "won after": 110})
        keys = self._traces.keys()
        if self.trace is None and keys:
            self.trace = int(keys[0])
        self._traces.choose(str(self.trace))
        self._allow(self._traces, str(self.trace))
        rows = [] if self.trace is None else side.by_trace.get(self.trace, [])
        shown = [*rows[:OFFERED], *(r for r in rows[OFFERED:] if r.position in (self.left, self.right))]
        offered = {
            f"{row.position} {_MARKS[row.outcome]} {clean_text(row.task.description, 90)}": row.position
            for row in shown
        }
        first = two_tasks(rows) or (rows[0], rows[-1]) if rows else None
        chosen = {"left": first and first[0].position, "right": first and first[1].position}
        for name, other in chosen.items():
            self._offer(name, offered, other)
        if self._new("figure", (self.bank, self.trace, self.left, self.right, self.diff, self.full)):
            self._figure.object = self._pair(side, bool(rows))

    def _allow(self, table: RowTable, key: str) -> None:
        """Previous and Next work where there is something to go to."""
        for button, by in zip(self._moves[self.tab], (-1, 1), strict=True):
            button.disabled = table.beside(key, by) is None

    def _offer(self, name: str, options: Any, first: Any) -> None:
        """Offer options; what is chosen stays if it is one, else it is the first."""
        kept = getattr(self, name)  # a widget whose value is none of its options takes one by itself
        known = list(options.values()) if isinstance(options, dict) else options
        self.param[name].objects = options
        setattr(self, name, kept if kept in known else first)

    def _pair(self, side: Side, used: bool) -> str:
        if self.trace is None:
            return style.note(f"{side.name} retrieved no trace; choose another run above")
        if not used:
            return style.note(f"no task of {side.name} retrieved trace {self.trace}; choose another above")
        try:
            pair = (self.left, self.right)
            body = beside.trace_html(side, self.trace, pair, self.diff, self.full, self._inspector)
        except UserError as error:
            return style.note(str(error))
        alone = self.left == self.right
        return style.page(body) if not alone else style.note("only one task retrieved it") + style.page(body)

    def _new(self, what: str, state: tuple[Any, ...]) -> bool:
        """Whether something is to be drawn that is not what was drawn last."""
        before, self._made[what] = self._made.get(what), state
        return before != state

    def _pick_task(self, key: str) -> None:
        self.task = key

    def _pick_trace(self, key: str) -> None:
        self.trace = int(key)


_MARKS = {"success": "✓", "failure": "✗", "error": "!"}


def compare_page(runs: Sequence[str | Path | Run]) -> Comparer:
    """A fresh comparison for one visitor, with its selection in the URL and a light or dark page."""
    pn.extension("tabulator")
    page_theme()
    return Comparer(runs, pn.state.location)
