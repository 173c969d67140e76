"""The inspector: for a task of a run, its traces, the payload, and what the executor then did."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

import panel as pn
import param

from ..errors import UserError
from ..render import clean_text, escape
from ..runs import Run
from .columns import STYLE, episode_html, note, page
from .reading import EpisodeIndex, Listed, find_runs

MARKS = {"success": "✓", "failure": "✗", "error": "!"}
"""What stands before a task in the list."""

_THEME = """
:root { color-scheme: %s;
  --design-background-color: light-dark(#ffffff, #16191d);
  --design-background-text-color: light-dark(#1d2126, #e4e7eb);
  --design-surface-color: light-dark(#f3f4f6, #21262c);
  --design-surface-text-color: light-dark(#1d2126, #e4e7eb); }
html, body { background: light-dark(#ffffff, #16191d); }
"""

# The arrow that Panel draws is black in every theme; the browser's own follows it.
_LIST = "select.bk-input { appearance: auto !important; background-image: none !important; }"


class Inspector(pn.viewable.Viewer):
    """Shows one episode of a run at a time: traces, payload and episode side by side.

    Args:
        runs: A run, a run directory, a folder of runs, or several of these.
        params: `run`, `position` and `full`.

    Raises:
        UserError: `run` names no run that is there.
    """

    run: Any = param.Selector(default=None, objects=[], allow_None=True, doc="The run's name.")
    position = param.Integer(default=None, allow_None=True, bounds=(0, None), doc="Place in the stream.")
    full = param.Boolean(default=False, label="show long texts whole", doc="Whether nothing is cut.")

    def __init__(self, runs: str | Path | Run | Sequence[str | Path | Run] = "runs", **params: Any) -> None:
        super().__init__()
        self._where = [runs] if isinstance(runs, str | Path | Run) else list(runs)
        self._listed: dict[str, Listed] = {}
        self._index: EpisodeIndex | None = None
        self._filling = False
        self._run = pn.widgets.Select.from_param(
            self.param.run,
            label="Run",
            description=None,
            stylesheets=[_LIST],
            min_width=260,
            sizing_mode="stretch_width",
        )
        self._task = pn.widgets.Select(
            label="Task", stylesheets=[_LIST], min_width=300, sizing_mode="stretch_width"
        )
        self._previous = pn.widgets.Button(label="‹ Previous", align="end", width=100)
        self._next = pn.widgets.Button(label="Next ›", align="end", width=100)
        self._reload = pn.widgets.Button(label="Reload", align="end", width=80)
        self._whole = pn.widgets.Checkbox.from_param(self.param.full, align="end", width=160)
        self._head = pn.pane.HTML("", stylesheets=[STYLE], sizing_mode="stretch_width")
        self._body = pn.pane.HTML("", stylesheets=[STYLE], sizing_mode="stretch_width")
        self._task.param.watch(self._picked, "value")
        self._previous.on_click(lambda _: self.move(-1))
        self._next.on_click(lambda _: self.move(1))
        self._reload.on_click(lambda _: self.reload())
        self._find()
        if params.get("run") is not None and params["run"] not in self._listed:
            raise UserError(self._unknown(params["run"]))
        self.param.update(**({"run": next(iter(self._listed), None)} | params))
        self._show()

    def __panel__(self) -> pn.viewable.Viewable:
        choice = pn.Row(
            self._run,
            self._task,
            self._previous,
            self._next,
            self._whole,
            self._reload,
            sizing_mode="stretch_width",
        )
        return pn.Column(self._head, choice, self._body, sizing_mode="stretch_width", margin=10)

    def move(self, by: int) -> None:
        """Go to the next task (1) or the previous one (-1); stays where there is none."""
        places = [row.position for row in self._index.rows] if self._index is not None else []
        here = -1 if self.position is None else self.position
        beyond = (
            [place for place in places if place > here] if by > 0 else [p for p in places if p < here][::-1]
        )
        if beyond:
            self.position = beyond[0]

    def reload(self) -> None:
        """Look for new runs and new episodes."""
        self._find()
        if self.run is None and self._listed:
            self.run = next(iter(self._listed))
        else:
            self._show()

    def follow(self, location: Any) -> None:
        """Take run and position from a URL, and keep them in it from now on.

        Args:
            location: A `panel.io.location.Location`.
        """
        asked = {name: values[-1] for name, values in parse_qs(location.search.lstrip("?")).items()}
        problem = ""
        chosen: dict[str, Any] = {}
        if (run := asked.get("run")) is not None:
            # Without a place asked for, that run's own first: the one shown so far belongs to another run.
            chosen = {"run": run if run in self._listed else None, "position": None}
            problem = "" if run in self._listed else self._unknown(run)
        if (place := asked.get("position")) is not None:
            if place.isascii() and place.isdigit() and len(place) < 10:
                chosen["position"] = int(place)
            else:
                problem = f"position={clean_text(place, 40)} is no place in the stream; choose a task above"
        self.param.update(**chosen)
        if problem:
            self._body.object = note(problem)
        self.param.watch(lambda *_: self._tell(location), ["run", "position"])
        if not problem:
            pn.state.onload(lambda: self._tell(location))  # before that, the browser's own URL wins

    def _tell(self, location: Any) -> None:
        kept = {n: v[-1] for n, v in parse_qs(location.search.lstrip("?")).items()}
        mine = {"run": self.run, "position": self.position}
        kept = {name: value for name, value in kept.items() if name not in mine}
        location.search = "?" + urlencode(kept | {n: v for n, v in mine.items() if v is not None})

    def _unknown(self, run: str) -> str:
        where = ", ".join(str(place.path if isinstance(place, Run) else place) for place in self._where)
        return f"there is no run {clean_text(run, 200)!r} in {where}; choose one of those listed"

    def _find(self) -> None:
        """Look which runs there are; the one chosen stays, though it may be gone."""
        found = find_runs(self._where)
        if self.run is not None and self.run not in found:
            found[self.run] = self._listed[self.run]
        self._listed = found
        self._offer_runs()

    def _offer_runs(self) -> None:
        # A browser chooses the first option by itself where the value is none of the options.
        nothing = {"choose a run": None} if self.run is None else {}
        runs = {f"{run.name} · {run.about}": run.name for run in self._listed.values()}
        if list(self.param.run.objects) != [*nothing.values(), *runs.values()]:
            self.param.run.objects = nothing | runs

    @param.depends("run", watch=True)
    def _change_run(self) -> None:
        self._index = None
        self._offer_runs()

    @param.depends("run", "position", "full", watch=True)
    def _show(self) -> None:
        """Show what is chosen, or the sentence that says why it cannot be shown."""
        try:
            self._open()
            assert self._index is not None
            if self.position is None and self._index.rows:
                self.position = self._index.rows[0].position  # comes back here
                return
            self._body.object = self._episode(self._index)
        except UserError as error:
            self._body.object = note(str(error))
        self._fill()

    def _open(self) -> None:
        if self.run is None:
            self._index = None
            raise UserError(self._nothing())
        if self._index is None:
            self._index = EpisodeIndex(Run(self._listed[self.run].path))
        self._index.refresh()

    def _nothing(self) -> str:
        where = ", ".join(str(place.path if isinstance(place, Run) else place) for place in self._where)
        if self._listed:
            return "choose a run above"
        return f"there is no run in {where} yet; make some with `jitmem demo`, then press Reload"

    def _episode(self, index: EpisodeIndex) -> str:
        if not index.rows:
            state = index.run.status().get("state", "new")
            broken = f", {index.unreadable:,} lines could not be read" if index.unreadable else ""
            raise UserError(
                f"this run has no finished episode yet (it is {state}{broken}); press Reload later"
            )
        if self.position is None:
            raise UserError("choose a task above")
        return episode_html(index.load(self.position), self.full)

    def _fill(self) -> None:
        """The head, and the list of tasks with the chosen one."""
        rows = self._index.rows if self._index is not None else []
        options: dict[str, int | None] = {
            f"{row.position} {MARKS.get(row.outcome, '?')} {clean_text(row.description, 110)}": row.position
            for row in rows
        }
        here = self.position if self.position in options.values() else None
        if here is None:
            options = {"choose a task": None, **options}
        self._filling = True
        try:
            self._task.param.update(options=options, value=here)
        finally:
            self._filling = False
        places = [row.position for row in rows]
        self._previous.disabled = not any(here is not None and place < here for place in places)
        self._next.disabled = not any(here is None or place > here for place in places)
        self._head.object = page(f"<h2>JitMem Lab · inspect {self._summary()}</h2>")

    def _summary(self) -> str:
        index = self._index
        if index is None or not index.rows:
            return ""
        wins, losses, errors = (index.count(outcome) for outcome in ("success", "failure", "error"))
        facts = [f"{wins:,} of {wins + losses:,} tasks won"]
        facts += [f"{errors:,} ended as errors and are owed"] if errors else []
        facts += [f"{index.unreadable:,} lines could not be read"] if index.unreadable else []
        return f'<span class="facts">{escape(" · ".join(facts))}</span>'

    def _picked(self, event: Any) -> None:
        if not self._filling and event.new is not None:
            self.position = event.new


def inspect_page(runs: Sequence[str | Path | Run]) -> Inspector:
    """A fresh inspector for one visitor, with its selection in the URL and a light or dark page."""
    theme = pn.state.session_args.get("theme", [b""])[0].decode("ascii", "replace")
    scheme = {"dark": "dark", "light": "light", "default": "light"}.get(theme, "light dark")
    pn.config.raw_css = [*pn.config.raw_css, _THEME % scheme]
    inspector = Inspector(runs)
    if pn.state.location is not None:
        inspector.follow(pn.state.location)
    return inspector
