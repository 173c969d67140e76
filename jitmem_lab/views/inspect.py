"""The inspector: for a task of a run, its traces, the payload, and what the executor then did."""

from __future__ import annotations

from collections import Counter
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
from . import filters
from .aside import aside
from .columns import STYLE, episode_html, note, page
from .keys import Browser, keys_html
from .reading import EpisodeIndex, Listed, Row, find_again, no_run, no_runs
from .task_table import TaskTable
from .theme import LIST_STYLE, page_theme

SLICE = 0.3
"""Seconds of reading after which a served page shows what it has so far."""
_SELECTION = ("run", "filter", "position", "full", "step")

_CHOSEN = """
.jm .step.chosen { background: var(--soft); box-shadow: -3px 0 0 currentColor; }
.jm .step[data-step] > h3 { cursor: pointer; } .jm .step[data-step] > h3:hover { text-decoration: underline; }
"""


class Inspector(pn.viewable.Viewer):
    """Shows one episode of a run at a time: traces, payload and episode side by side.

    A notebook needs `panel.extension("tabulator")` before. Keys count there while the view has the focus.

    Args:
        runs: A run, a run directory, a folder of runs, or several of these.
        location: A `panel.io.location.Location` to `follow` from the beginning.
        params: `run`, `filter`, `position`, `full` and `step`.

    Raises:
        UserError: `run` names no run that is there.
    """

    run: Any = param.Selector(default=None, objects=[], allow_None=True, doc="The run's name.")
    filter = param.String(default="", doc="Which tasks are listed, such as `outcome:failure mug`.")
    position = param.Integer(default=None, allow_None=True, bounds=(0, None), doc="Place in the stream.")
    full = param.Boolean(default=False, label="show long texts whole", doc="Whether nothing is cut.")
    step = param.Integer(default=None, allow_None=True, bounds=(0, None), doc="The step that is looked at.")

    def __init__(
        self,
        runs: str | Path | Run | Sequence[str | Path | Run] = "runs",
        location: Any = None,
        **params: Any,
    ) -> None:
        super().__init__()
        self._where = [runs] if isinstance(runs, str | Path | Run) else list(runs)
        self._listed: dict[str, Listed] = {}
        self._index: EpisodeIndex | None = None
        self._parts: tuple[filters.Part, ...] = ()
        self._problem = ""
        self._filling = False
        self._budget = float("inf")
        self._location: Any = None
        self._live = self._reading = False
        self._controls()
        self._find()
        if params.get("run") is not None and params["run"] not in self._listed:
            raise UserError(no_run(self._where, params["run"]))
        self.param.update(**({"run": next(iter(self._listed), None)} | params))
        self.param.watch(self._changed, list(_SELECTION))
        if location is None:
            self._show(given=True)
        else:
            self.follow(location)

    def _controls(self) -> None:
        def select(label: str, width: int) -> pn.widgets.Select:
            return pn.widgets.Select(
                label=label, options={f"any {label.lower()}": ""}, stylesheets=[LIST_STYLE], width=width
            )

        self._run = pn.widgets.Select.from_param(
            self.param.run,
            label="Run",
            description=None,
            stylesheets=[LIST_STYLE],
            min_width=240,
            sizing_mode="stretch_width",
        )
        self._line = pn.widgets.TextInput.from_param(
            self.param.filter,
            label="Filter",
            description=None,
            placeholder=filters.EXAMPLE,
            min_width=240,
            sizing_mode="stretch_width",
            css_classes=["jm-filter"],
        )
        self._short = {
            "memory": select("Memory", 150),
            "outcome": select("Outcome", 120),
            "type": select("Type", 200),
        }
        for name, widget in self._short.items():
            widget.param.watch(lambda event, name=name: self._narrow(name, event.new), "value")
        self._previous = pn.widgets.Button(label="‹ Previous", width=95, margin=(2, 5))
        self._next = pn.widgets.Button(label="Next ›", width=95, margin=(2, 5))
        self._reload = pn.widgets.Button(label="Reload", width=75, margin=(2, 5))
        self._help = pn.widgets.Button(label="Keys ?", width=75, margin=(2, 5))
        self._whole = pn.widgets.Checkbox.from_param(self.param.full, width=160, align="center")
        self._previous.on_click(lambda _: self.move(-1))
        self._next.on_click(lambda _: self.move(1))
        self._reload.on_click(lambda _: self.reload())
        self._help.on_click(lambda _: self._do("keys"))
        self._head, self._note, self._count, self._keys = (
            pn.pane.HTML("", stylesheets=[STYLE], sizing_mode="stretch_width", margin=(0, 5))
            for _ in range(4)
        )
        self._body = pn.pane.HTML("", stylesheets=[STYLE, _CHOSEN], sizing_mode="stretch_width")
        self._note.visible = self._keys.visible = False
        self._table = TaskTable()
        self.browser = Browser(self._told)  # its `search` is what the address bar holds

    def __panel__(self) -> pn.viewable.Viewable:
        narrow = pn.Row(self._run, *self._short.values(), self._line, sizing_mode="stretch_width")
        go = pn.Row(
            self._previous,
            self._next,
            pn.Row(self._count, align="center", sizing_mode="stretch_width"),
            self._whole,
            self._reload,
            self._help,
            sizing_mode="stretch_width",
            align="center",
        )
        return pn.Column(
            self._head,
            narrow,
            self._note,
            self._keys,
            self._table.pane,
            go,
            self._body,
            self.browser,
            sizing_mode="stretch_width",
            margin=10,
            css_classes=["jm-view"],
        )

    def move(self, by: int, outcome: str | None = None) -> None:
        """Go to the next task of the list (1) or the previous one (-1); stays where there is none.

        Args:
            by: 1 or -1.
            outcome: Pass over tasks that ended otherwise.
        """
        order = self._table.order
        here = self._table.rank(self.position)
        if here is None and not self._table.sorted:  # not in the list: from where it would be
            after = [
                i for i, place in enumerate(order) if place > (-1 if self.position is None else self.position)
            ]
            here = (after[0] if after else len(order)) - (1 if by > 0 else 0)
        here = -1 if here is None else here
        beyond = order[here + 1 :] if by > 0 else order[:here][::-1] if here > 0 else []
        for place in beyond:
            row = self._index.row(place) if self._index is not None else None
            if row is not None and outcome in (None, row.outcome):
                self.param.update(position=place, step=None)
                return

    def _step(self, by: int) -> None:
        row = self._index.row(self.position) if self._index is not None else None
        if row is not None and row.steps:
            here = (-1 if by > 0 else row.steps) if self.step is None else self.step
            self.step = min(max(here + by, 0), row.steps - 1)

    def reload(self) -> None:
        """Look for new runs and new episodes."""
        self._find()
        if self.run is None and self._listed:
            self.run = next(iter(self._listed))
        else:
            self._show()

    def follow(self, location: Any) -> None:
        """Take the selection from a URL, and keep it there from now on.

        Args:
            location: A `panel.io.location.Location`.
        """
        self._budget = SLICE
        self._location = location
        self.browser.everywhere = True
        self._ask(location.search)
        pn.state.onload(self._loaded)

    def _ask(self, search: str) -> None:
        """Take the selection from a query."""
        asked = {name: values[-1] for name, values in parse_qs(search.lstrip("?")).items()}
        problem = ""
        # Without a place asked for, that run's own first: the one shown so far belongs to another run.
        chosen: dict[str, Any] = {"full": asked.get("full") == "1", "step": None}
        chosen["filter"] = asked.get("filter", "")[: 2 * filters.LONGEST]
        if (run := asked.get("run")) is not None:
            chosen |= {"run": run if run in self._listed else None, "position": None}
            problem = "" if run in self._listed else no_run(self._where, run)
        for name in ("position", "step"):
            if (place := asked.get(name)) is not None:
                if place.isascii() and place.isdigit() and len(place) < 10:
                    chosen[name] = int(place)
                else:
                    problem = f"{name}={clean_text(place, 40)} is no place in the stream; choose a task above"
        with self._quietly():
            before = self.run
            self.param.update(**chosen)
            self._index = self._index if self.run == before else None
        self._show(given=True)
        if problem:
            self._body.object = note(problem)

    def _tell(self) -> None:
        if self._location is None or self._filling:
            return
        kept = {
            n: v[-1] for n, v in parse_qs(self._location.search.lstrip("?")).items() if n not in _SELECTION
        }
        mine = {"run": self.run, "filter": self.filter or None, "position": self.position}
        mine |= {"full": 1 if self.full else None, "step": self.step}
        told = kept | {name: value for name, value in mine.items() if value is not None}
        self.browser.search = "?" + urlencode(told, errors="replace")

    def _told(self, message: dict[str, Any]) -> None:
        """Do what the browser asks for."""
        if isinstance(message.get("do"), str):
            self._do(message["do"])
        elif type(place := message.get("open")) is int and self._index is not None and self._index.row(place):
            self.param.update(position=place, step=None)
        elif type(step := message.get("step")) is int and step >= 0:
            self.step = step
        elif isinstance(search := message.get("search"), str):
            with self._quietly():
                self.browser.search = search  # where the browser is already
            self._ask(search)

    def _do(self, what: str) -> None:
        if what == "whole":
            self.full = not self.full
        elif what == "reload":
            self.reload()
        elif what in ("step on", "step back"):
            self._step(1 if what == "step on" else -1)
        elif what == "built":
            self._table.turn()
        elif what == "keys":
            self._keys.object = keys_html()
            self._keys.visible = not self._keys.visible
        elif what in ("next", "previous", "next failure", "previous failure"):
            self.move(1 if what.startswith("next") else -1, "failure" if "failure" in what else None)

    def _find(self) -> None:
        """Look which runs there are; the one chosen stays, though it may be gone."""
        self._listed = find_again(self._where, self._listed, [self.run])
        self._offer_runs()

    def _offer_runs(self) -> None:
        """The runs that fit the filter, and the one that is chosen."""
        try:
            fitting = filters.choose_runs(self._parts, self._listed.values())
        except UserError as error:
            self._problem = self._problem or str(error)
            fitting = list(self._listed.values())
        fitting = [run for run in self._listed.values() if run in fitting or run.name == self.run]
        # A browser chooses the first option by itself where the value is none of the options.
        nothing = {"choose a run": None} if self.run is None else {}
        runs = {f"{run.name} · {run.about}": run.name for run in fitting}
        if list(self.param.run.objects) != [*nothing.values(), *runs.values()]:
            self.param.run.objects = nothing | runs

    def _narrow(self, name: str, value: str) -> None:
        if not self._filling:
            try:
                self.filter = filters.with_value(self.filter, name, value)
            except UserError:
                self.filter = filters.with_value("", name, value)

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """Change widgets and parameters without being told of it."""
        before, self._filling = self._filling, True
        try:
            yield
        finally:
            self._filling = before

    def _changed(self, *events: Any) -> None:
        if self._filling:
            return
        changed = {event.name for event in events}
        if "run" in changed:
            self._index = None
        self._show(given=not changed & {"run", "filter"})

    def _show(self, given: bool = False) -> None:
        """Show what is chosen, or the sentence that says why it cannot be shown.

        Args:
            given: Whether the position was asked for, and is kept though it may not be in the list.
        """
        rows: list[Row] = []
        self._problem = ""
        try:
            self._parts = filters.parse(self.filter)
        except UserError as error:
            self._parts, self._problem = (), str(error)
        try:
            if not given:
                self._fit_run()
            self._open()
            assert self._index is not None
            rows = self._choose(self._index)
            self._settle(rows, given)
            body = self._episode(self._index)
        except UserError as error:
            body = note(str(error))
        with self._quietly():
            self._offer_runs()
            self._fill(rows)
        if body != self._body.object:
            self._body.object = body
            self.browser.param.update(step=self.step, shown=self.browser.shown + 1)
        self._tell()
        self._go_on()

    def _fit_run(self) -> None:
        """Another run, if a filter on runs was asked for that this one doesn't fit."""
        if not any(part.name == "memory" for part in self._parts):
            return
        try:
            fitting = [run.name for run in filters.choose_runs(self._parts, self._listed.values())]
        except UserError:
            return  # said where runs are offered
        if fitting and self.run not in fitting:
            with self._quietly():
                self.run, self._index = fitting[0], None

    def _open(self) -> None:
        if self.run is None:
            self._index = None
            raise UserError(self._nothing())
        if self._index is None:
            self._index = EpisodeIndex(Run(self._listed[self.run].path))
        try:
            self._index.refresh(self._budget)
        except UserError:
            self._index = None
            raise

    def _nothing(self) -> str:
        if self._listed:
            return "choose a run above"
        return no_runs(self._where)

    def _choose(self, index: EpisodeIndex) -> list[Row]:
        rows = index.rows
        try:
            return filters.choose(self._parts, rows)
        except UserError as error:
            self._problem = self._problem or str(error)
            return rows

    def _settle(self, rows: list[Row], given: bool) -> None:
        """Choose a task where none was asked for, or the one shown so far is not among those listed."""
        lost = self.position is not None and not given and all(row.position != self.position for row in rows)
        if rows and (self.position is None or lost):
            # The first with traces and a payload shows most of what there is to see.
            best = max(rows, key=lambda row: (row.payload and row.traces > 0, row.payload, -row.position))
            with self._quietly():
                self.param.update(position=best.position, step=None)

    def _episode(self, index: EpisodeIndex) -> str:
        if not index.whole and index.row(self.position) is None:
            raise UserError(_progress(index))
        if not index.rows:
            state = index.run.status().get("state", "new")
            broken = f", {index.unreadable:,} lines could not be read" if index.unreadable else ""
            raise UserError(
                f"this run has no finished episode yet (it is {state}{broken}); press Reload later"
            )
        if self.position is None:
            raise UserError("no task fits the filter; change it above")
        return episode_html(index.load(self.position), self.full, index.run, self.step)

    def _loaded(self) -> None:
        self._live = True
        self._go_on()

    def _go_on(self) -> None:
        """Have the rest of a large file read, as soon as the browser has what there is."""
        left = self._index is not None and not self._index.whole
        if left and self._live and not self._reading:
            self._reading = aside(self._read_slice, self._read_on)

    def _read_slice(self) -> None:
        """Read a slice more of the file; what cannot be is told by whoever looks next."""
        if (index := self._index) is not None:
            index.read(self._budget)

    def _read_on(self) -> None:
        """Take what was read; what is shown changes once all is, or the task that was asked for."""
        self._reading = False
        index = self._index
        if index is None:
            return
        waiting = index.row(self.position) is None
        try:
            index.refresh(0)
        except UserError:
            self._show(given=True)  # which says so
            return
        if index.whole or (waiting and index.row(self.position) is not None):
            self._show(given=True)
        else:
            self._tell_progress(index, waiting)
        self._go_on()

    def _tell_progress(self, index: EpisodeIndex, waiting: bool) -> None:
        self._head.object = self._heading()
        if waiting:
            self._body.object = note(_progress(index))

    def _fill(self, rows: list[Row]) -> None:
        """The head, the widgets, and the list of tasks with the chosen one."""
        index = self._index
        self._table.fill(rows, self.position)
        kinds = Counter(row.task_type for row in index.rows) if index is not None else Counter()
        options = {
            "memory": {run.memory: run.memory for run in self._listed.values() if run.memory},
            "outcome": {name: name for name in filters.OUTCOMES},
            "type": {f"{clean_text(k, 60)} ({n:,})": k for k, n in sorted(kinds.items())[:60] if k},
        }
        for name, widget in self._short.items():
            asked = filters.value_of(self.filter, name)
            offered = {f"any {name}": ""} | options[name]
            if asked and asked not in offered.values():
                offered[clean_text(asked, 60)] = asked
            widget.param.update(options=offered, value=asked or "")
            widget.visible = len(options[name]) > 1 or bool(asked)
        rank = self._table.rank(self.position)
        count = len(rows)
        self._previous.disabled = rank == 0 or not count
        self._next.disabled = not count or rank == count - 1
        place = "" if rank is None else f"task {rank + 1:,} of {count:,}"
        if index is not None and self._parts and count != len(index.rows):
            place += f"{' that fit' if place else f'{count:,} tasks fit'}, {len(index.rows):,} in all"
        self._count.object = page(f'<span class="facts" role="status">{place}</span>')
        self._note.object = note(self._problem) if self._problem else ""
        self._note.visible = bool(self._problem)
        self._head.object = self._heading()

    def _heading(self) -> str:
        said = "" if self._index is None else " · ".join(self._index.facts())
        return page(f'<h2>JitMem Lab · inspect <span class="facts">{escape(said)}</span></h2>')


def _progress(index: EpisodeIndex) -> str:
    return f"reading the run: {100 * index.share:.0f} % so far"


def inspect_page(runs: Sequence[str | Path | Run]) -> Inspector:
    """A fresh inspector for one visitor, with its selection in the URL and a light or dark page."""
    pn.extension("tabulator")
    page_theme()
    return Inspector(runs, pn.state.location)
