"""What the pages about one run share: choosing it, following it, the selection in the URL, the theme."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import parse_qs, urlencode

import panel as pn
import param

from ..errors import InfrastructureError, UserError
from ..render import clean_text, escape
from ..runs import Run
from .aside import aside
from .facts import Facts, Writes
from .reading import Listed, find_again, no_run, no_runs
from .style import STYLE, note, page
from .theme import LIST_STYLE, page_theme

FIRST = 0.2
"""Seconds that reading may take before a served page shows what it has so far."""
SLICE = 0.6
"""Seconds of reading aside, after which it shows more."""
PERIOD = 700
"""Milliseconds between two looks at the run's files."""

TABS_STYLE = """
.bk-header { flex-wrap: wrap; border-bottom: 1px solid rgba(128,128,128,.32) !important; }
.bk-tab { color: inherit !important; font-size: 14px; }
.bk-tab.bk-active { font-weight: 600; background: rgba(128,128,128,.12) !important; }
"""
MORE_STYLE = """
.jm table { width: auto; } .jm td, .jm th { padding: 3px 14px 3px 0; }
.jm td { overflow-wrap: break-word; max-width: 64em; } .jm th { white-space: nowrap; }
.jm tr:hover td { background: var(--soft); } .jm thead tr:hover td { background: none; }
.jm td.n, .jm th.n { text-align: right; font-variant-numeric: tabular-nums; }
.jm a { color: light-dark(#0b62b0, #7db8f0); } .jm p { margin: 6px 0; max-width: 72em; }
.jm h3 { margin: 12px 0 4px; }
.jm .bar { display: flex; height: 14px; border-radius: 7px; overflow: hidden; background: var(--soft);
  border: 1px solid var(--line); margin: 8px 0; max-width: 60em; }
.jm .bar i { display: block; height: 100%; } .jm i.won { background: var(--good); }
.jm i.lost { background: var(--bad); } .jm i.broken { background: var(--warn); }
.jm .share { display: inline-block; height: 9px; background: light-dark(#3b82c4, #5b9bd5); border-radius: 2px;
  vertical-align: middle; }
.jm .share.minus { background: var(--bad); }
.jm table.confusion td, .jm table.confusion th { border: 1px solid var(--line); padding: 8px 14px;
  text-align: center; vertical-align: middle; opacity: 1; }
.jm table.confusion b { font-size: 20px; display: block; }
"""


def html_pane() -> pn.pane.HTML:
    """An empty pane for HTML in the pages' style."""
    return pn.pane.HTML("", stylesheets=[STYLE + MORE_STYLE], sizing_mode="stretch_width")


Shown = TypeVar("Shown", bound="RunView")


class RunView(pn.viewable.Viewer):
    """Base of the pages about one run: chooses it, reads its episodes, and tells what cannot be shown.

    Args:
        runs: A run, a run directory, a folder of runs, or several of these.
        location: Where the selection is kept, a `panel.io.location.Location`; None keeps it nowhere.
        params: The page's own parameters; `run` names one of the runs.

    Raises:
        UserError: `run` names no run that is there.
    """

    run: Any = param.Selector(default=None, objects=[], allow_None=True, doc="The run's name.")

    title: ClassVar[str] = ""
    """The page's name."""
    in_url: ClassVar[tuple[str, ...]] = ("run",)
    """Parameters that the URL holds."""
    plotted: ClassVar[bool] = True
    """Whether what draws figures is loaded before all else; see `plots.drawn_last`."""
    lasting: ClassVar[bool] = False
    """Whether it looks for more once all has been read."""

    def __init__(
        self,
        runs: str | Path | Run | Sequence[str | Path | Run] = "runs",
        location: Any = None,
        **params: Any,
    ) -> None:
        super().__init__()
        self._where = [runs] if isinstance(runs, str | Path | Run) else list(runs)
        self._listed: dict[str, Listed] = {}
        self._facts: Facts | None = None
        self._writes: Writes | None = None
        self._opened: Run | None = None
        self._drawn: tuple[Any, ...] = ()
        self._served = location is not None
        self._budget = SLICE if self._served else None
        self._looking = False
        self._theme = ""
        self._run = pn.widgets.Select.from_param(
            self.param.run,
            label="Run",
            description=None,
            stylesheets=[LIST_STYLE],
            min_width=260,
            sizing_mode="stretch_width",
        )
        self._reload = pn.widgets.Button(label="Reload", align="end", width=80)
        self._reload.on_click(lambda _: self.reload())
        self._head, self._note = html_pane(), html_pane()
        self._main = pn.Column(*self.parts(), sizing_mode="stretch_width", visible=False)
        self._find()
        if params.get("run") is not None and params["run"] not in self._listed:
            raise UserError(no_run(self._where, params["run"]))
        chosen, problem = ({}, "") if location is None else self._from(location)
        self.param.update(**({"run": next(iter(self._listed), None)} | params | chosen))
        if self.run is None:
            self._open()
        if problem and self.run is None:
            self._say(problem)
        elif problem:
            self._note.object = note(problem)
        if location is not None:
            self.param.watch(lambda *_: self._tell(location), list(self.in_url))
            if not problem:
                pn.state.onload(lambda: self._tell(location))  # before that, the browser's own URL wins

    def parts(self) -> list[Any]:
        """The page below the choice of the run, made once."""
        raise NotImplementedError

    def draw(self, run: Run, facts: Facts, writes: Writes) -> None:
        """Show what was read; called again when there is more.

        Raises:
            UserError: What cannot be shown, and what to do; it stands in place of the parts.
        """
        raise NotImplementedError

    def facts_said(self) -> list[str]:
        """What the page's head says, in a few words each."""
        return []

    def controls(self) -> list[Any]:
        """Widgets beside the choice of the run."""
        return []

    def __panel__(self) -> pn.viewable.Viewable:
        choice = pn.Row(self._run, *self.controls(), self._reload, sizing_mode="stretch_width")
        return pn.Column(
            self._head, choice, self._note, self._main, sizing_mode="stretch_width", margin=(0, 10, 10, 10)
        )

    def reload(self) -> None:
        """Look for new runs and new episodes."""
        self._find()
        if self.run is None and self._listed:
            self.run = next(iter(self._listed))
        else:
            self._open()

    def tick(self) -> None:
        """Read on where reading had stopped; called again and again while a page is open."""
        if self._looking or self._facts is None or (self._whole() and not self.lasting):
            return
        self._looking = aside(self._look, self._looked)
        if not self._looking:
            self._looked(None)

    def _look(self) -> None:
        if self._facts is not None:
            self._refresh(self._budget)

    def _looked(self, seconds: float | None = 0) -> None:
        """Show what was read."""
        self._looking = False
        if self._facts is None:
            return
        try:
            self._refresh(seconds)
            if self._stand() != self._drawn:
                self._draw()
        except (UserError, InfrastructureError) as error:
            self._say(str(error))

    def place(self, position: int, text: str | None = None) -> str:
        """A link to the episode at a place in the stream, plain text where no server would answer it."""
        shown = escape(text if text is not None else str(position), 200)
        if not self._served or self.run is None:
            return shown
        return f'<a href="{escape(self.address("inspect", position=position))}">{shown}</a>'

    def address(self, name: str, **chosen: Any) -> str:
        """The address of another page, with this run and theme."""
        theme = {"theme": self._theme} if self._theme else {}
        query = {"run": self.run} | chosen | theme
        return f"{name}?" + urlencode(query, errors="replace")

    def _from(self, location: Any) -> tuple[dict[str, Any], str]:
        """What a URL asks for, and what of it cannot be."""
        asked = {name: values[-1] for name, values in parse_qs(location.search.lstrip("?")).items()}
        self._theme = asked.get("theme", "")
        chosen: dict[str, Any] = {}
        problem = ""
        for name in set(self.in_url) & set(asked):
            try:
                chosen[name] = self._asked(name, asked[name])
            except ValueError:
                problem = f"{name}={clean_text(asked[name], 60)} cannot be; choose above"
        if "run" in asked and asked["run"] not in self._listed:
            chosen["run"], problem = None, no_run(self._where, asked["run"])
        return chosen, problem

    def _asked(self, name: str, text: str) -> Any:
        """A parameter's value from the URL; `ValueError` if it cannot be."""
        own = self.param[name]
        if isinstance(own, param.Selector):
            options = list(own.objects)
            if name != "run" and text not in map(str, options):
                raise ValueError(text)
            return next((option for option in options if str(option) == text), None)
        if isinstance(own, param.Integer):
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise ValueError(text)
            low, high = own.bounds or (None, None)
            if (low is not None and int(text) < low) or (high is not None and int(text) > high):
                raise ValueError(text)
            return int(text)
        return text[:2000]

    def _tell(self, location: Any) -> None:
        kept = {n: v[-1] for n, v in parse_qs(location.search.lstrip("?")).items()}
        kept = {name: value for name, value in kept.items() if name not in self.in_url}
        mine = {name: getattr(self, name) for name in self.in_url}
        told = {n: v for n, v in mine.items() if v not in (None, "") and (n == "run" or self._chosen(n))}
        location.search = "?" + urlencode(kept | told, errors="replace")

    def _chosen(self, name: str) -> bool:
        return bool(getattr(self, name) != self.param[name].default)

    def _find(self) -> None:
        self._listed = find_again(self._where, self._listed, [self.run])
        self._offer()

    def _offer(self) -> None:
        # A browser chooses the first option by itself where the value is none of the options.
        nothing = {"choose a run": None} if self.run is None else {}
        runs = {f"{run.name} · {run.about}": run.name for run in self._listed.values()}
        if self.param.run.names != nothing | runs:
            self.param.run.objects = nothing | runs

    @param.depends("run", watch=True)
    def _change(self) -> None:
        self._offer()
        self._open()

    def _open(self) -> None:
        """Read the chosen run from its start."""
        self._opened = self._facts = self._writes = None
        self.forget()
        try:
            if self.run is None:
                raise UserError(self._nothing())
            run = Run(self._listed[self.run].path)
            facts, writes = Facts.of(run), Writes.of(run)
            self._opened, self._writes, self._facts = run, writes, facts
            self._refresh(FIRST if self._served else None)
            self._draw()
        except (UserError, InfrastructureError) as error:
            self._say(str(error))

    def _refresh(self, seconds: float | None) -> None:
        facts, writes = self._facts, self._writes
        assert facts is not None
        assert writes is not None
        facts.refresh(seconds)
        writes.refresh(seconds)

    def _stand(self) -> tuple[Any, ...]:
        """What a drawing was made from: another one is needed where it has changed."""
        assert self._facts is not None
        assert self._writes is not None
        return (self._facts.version, self._writes.version, self._whole())

    def _whole(self) -> bool:
        assert self._facts is not None
        assert self._writes is not None
        return self._facts.whole and self._writes.whole

    def forget(self) -> None:
        """Let go of what was computed of the run shown so far."""

    def redraw(self) -> None:
        """Show the same run again, after something else was chosen."""
        try:
            self._draw()
        except (UserError, InfrastructureError) as error:
            self._say(str(error))

    def _draw(self) -> None:
        run, facts, writes = self._opened, self._facts, self._writes
        if run is None or facts is None or writes is None:
            return
        self._drawn = self._stand()
        self.draw(run, facts, writes)
        left = "" if self._whole() else f"Reading the run: {100 * facts.share:.0f} %"
        self._note.object = page(f'<p class="facts" role="status">{left}</p>') if left else ""
        self._main.visible = True
        self._heading()

    def _say(self, sentence: str) -> None:
        self._drawn, self._main.visible = (), False
        self._note.object = note(sentence)
        self._heading()

    def _heading(self) -> None:
        said = " · ".join(self.facts_said()) if self._main.visible else ""
        self._head.object = page(
            f'<h2>JitMem Lab · {self.title} <span class="facts">{escape(said)}</span></h2>'
        )

    def _nothing(self) -> str:
        if self._listed:
            return "choose a run above"
        return no_runs(self._where)


def serve_view(view: type[Shown], runs: Sequence[str | Path | Run]) -> Shown:
    """A fresh view for one visitor: selection in the URL, light or dark, reading on while the session lives.

    Args:
        view: Its class.
        runs: What it shows.
    """
    pn.extension(*(["plotly"] if view.plotted else []))
    page_theme()
    shown = view(runs, location=pn.state.location)
    if pn.state.location is not None:
        looking = pn.state.add_periodic_callback(shown.tick, period=PERIOD)
        pn.state.on_session_destroyed(lambda _: looking.stop())
    return shown
