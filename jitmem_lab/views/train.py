"""The training page: how a curator's training goes, and what each payload of a group was worth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import panel as pn
import param

from ..errors import UserError
from ..render import escape
from ..runs import Run
from ..training.figures import panels
from ..training.lines import finite
from ..training.runs import TrainRun
from .choosing import MORE_STYLE, RunView, html_pane, serve_view
from .live import badge, rate
from .live import span as told_span
from .paging import Column, table_html
from .plots import drawn_last, line_pane
from .reading import Listed, places
from .rollouts import Metrics, Prompts, Rollouts, find_trainings, number
from .style import SHORT, STYLE, TEXT_LIMIT, page
from .theme import LIST_STYLE

SAID = {
    "new": "it has not begun",
    "running": "it is running",
    "stopping": "it ends after this step, with a checkpoint",
    "stopped": "it was stopped by hand; jitmem train resume goes on from its last checkpoint",
    "completed": "all steps are done",
    "interrupted": "it was stopped by hand; jitmem train resume goes on from its last checkpoint",
    "failed": "it broke off; jitmem train resume goes on from its last checkpoint",
    "killed": "its process died without a word; jitmem train resume goes on from its last checkpoint",
}
"""What each state means."""
_HELDOUT = (
    Column("step", True),
    Column("success, with 95 % interval (Wilson)"),
    Column("errors", True),
    Column("s", True),
    Column("payloads"),
)
_CARDS = """
.jm .cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(300px, 1fr)); gap: 10px; }
.jm .card { border: 1px solid var(--line); border-radius: 6px; padding: 8px 10px; min-width: 0; }
.jm .card.up { box-shadow: inset 3px 0 var(--good); } .jm .card.down { box-shadow: inset 3px 0 var(--bad); }
"""


class TrainView(RunView):
    """Shows a training, follows it while the page is open, and opens any group of payloads."""

    step: Any = param.Selector(default=None, objects=[], allow_None=True, label="Step", doc="The step shown.")
    group: Any = param.Selector(default=0, objects=[0], label="Task", doc="The group shown, by number.")

    title: ClassVar[str] = "train"
    in_url: ClassVar[tuple[str, ...]] = ("run", "step", "group")
    lasting: ClassVar[bool] = True
    plotted: ClassVar[bool] = False

    def parts(self) -> list[Any]:
        """The page below the choice of the training."""
        self._said: list[str] = []
        self._trainings: dict[str, TrainRun] = {}
        self._followed: tuple[Metrics, Rollouts, Prompts] | None = None
        self._asked_for: dict[str, str] = {}
        self._standing, self._tables, self._cards = html_pane(), html_pane(), html_pane()
        self._cards.stylesheets = [*self._cards.stylesheets, _CARDS]
        self._figure = line_pane()
        self._figure.height, self._figure.max_width = 580, 1500
        self._curved = -1
        self._step = pn.widgets.Select.from_param(
            self.param.step, description=None, stylesheets=[LIST_STYLE], width=110
        )
        self._group = pn.widgets.Select.from_param(
            self.param.group, description=None, stylesheets=[LIST_STYLE], min_width=420
        )
        self._last = pn.widgets.Button(label="Newest", align="end", width=80)
        self._last.on_click(lambda _: self._choose_step(None))
        choice = pn.Row(self._step, self._last, self._group)
        return [self._standing, drawn_last(self._figure), self._tables, choice, self._cards]

    def facts_said(self) -> list[str]:
        """What the page's head says."""
        return self._said

    def tick(self) -> None:
        """Read on."""
        if self._followed is None:
            return
        try:
            before = self._versions()
            self._read_on()
            if self._versions() != before:
                self._show()
            else:
                self._tell_standing()
        except UserError as error:
            self._say(str(error))

    def _find(self) -> None:
        self._trainings = find_trainings(self._where)
        self._listed = {
            name: Listed(name, run.path, str(run.request.get("preset", "")))
            for name, run in self._trainings.items()
        } | ({self.run: self._listed[self.run]} if self.run in self._listed else {})
        self._offer()

    def _nothing(self) -> str:
        if self._listed:
            return "choose a training above"
        how = "start one with: jitmem train -p preset pocket -o runs/pocket"
        return f"there is no training in {places(self._where)} yet; {how}"

    def _open(self) -> None:
        """Read the chosen training from its start."""
        self._followed, self._curved = None, -1
        self._newest = True
        try:
            if self.run is None:
                raise UserError(self._nothing())
            run = TrainRun(self._listed[self.run].path)
            self._trainings[self.run] = run
            self._followed = (Metrics.of(run), Rollouts.of(run), Prompts.of(run))  # type: ignore[arg-type]
            self._read_on()
            self._show()
        except UserError as error:
            self._say(str(error))

    def redraw(self) -> None:
        """Show the same training again, after something else was chosen."""
        if self._followed is not None:
            self._show()

    def _read_on(self) -> None:
        for follower in self._followed or ():
            follower.refresh(self._budget)

    def _versions(self) -> tuple[int, ...]:
        return tuple(follower.version for follower in self._followed or ())

    def _asked(self, name: str, text: str) -> Any:
        if name in ("step", "group"):
            if not (text.isascii() and text.isdigit() and len(text) < 10):
                raise ValueError(text)
            self._asked_for[name] = text
            return int(text) if name == "group" else None
        return super()._asked(name, text)

    def _from(self, location: Any) -> tuple[dict[str, Any], str]:
        chosen, problem = super()._from(location)
        chosen.pop("step", None)
        chosen.pop("group", None)
        return chosen, problem

    def _chosen(self, name: str) -> bool:
        """The newest step needs no place in the URL: tomorrow it will be another."""
        return not self._newest

    def _show(self) -> None:
        metrics, rollouts, _ = self._followed  # type: ignore[misc]
        self._main.visible = True
        self._note.object = ""
        self._tell_standing()
        if metrics.version != self._curved:
            self._curved = metrics.version
            self._figure.visible = bool(metrics.steps or metrics.heldout)
            if self._figure.visible:
                self._figure.object = panels(metrics.steps, metrics.heldout)
        self._tables.object = page(self._heldout_html(metrics))
        self._offer_steps(rollouts)
        self._show_group()

    def _tell_standing(self) -> None:
        assert self._followed is not None
        run, metrics = self._trainings[self.run], self._followed[0]
        status = run.status()
        state = str(status.get("state"))
        steps = int(finite(run.request.get("steps")) or 0)
        step = metrics.steps[-1]["step"] if metrics.steps else 0
        self._said = [f"step {step:,} of {steps:,}", state]
        facts = [f"step <b>{step:,}</b> of {steps:,}"]
        if status.get("phase"):
            facts.append(escape(status["phase"], 80))
        if state == "running" and finite(status.get("eta_seconds")) is not None:
            facts.append(f"about <b>{told_span(status['eta_seconds'])}</b> left")
        chosen = run.chosen()
        if chosen:
            where = " of a TEST split" if chosen.get("on_test") else ""
            facts.append(
                f"chosen: step <b>{escape(chosen.get('step'), 20)}</b>, held-out success "
                f"{number(chosen.get('success_rate'))}{where}"
            )
        part = 100 * min(step / steps, 1) if steps else 0
        parts = [
            f"<p>{badge(state)} {SAID.get(state, '')}</p>",
            f'<div class="bar" role="img" aria-label="step {step} of {steps}">'
            f'<i class="won" style="width:{part:.2f}%"></i></div><p>{" · ".join(facts)}</p>',
            f'<p class="facts">{escape(self._about(run), 600)}</p>',
        ]
        if status.get("error"):
            parts.append(f"<pre>{escape(status['error'], 2000)}</pre>")
        parts += [f'<p class="error">{escape(words, 600)}</p>' for words in run.cautions()]
        unreadable = sum(follower.unreadable for follower in self._followed)
        if unreadable:
            parts.append(f'<p class="error">{unreadable:,} lines could not be read</p>')
        self._standing.object = page("".join(parts))
        self._heading()

    @staticmethod
    def _about(run: TrainRun) -> str:
        asked = run.request
        return (
            f"curator {asked.get('curator')}, executor {asked.get('executor')}, {asked.get('benchmark')} "
            f"{asked.get('split')}, {asked.get('prompts')} tasks × {asked.get('group')} payloads a step, "
            f"learning rate {asked.get('learning_rate')}{_warming(asked.get('warmup'))}, "
            f"KL {asked.get('beta')}, seed {asked.get('seed')}"
        )

    def _heldout_html(self, metrics: Metrics) -> str:
        if not metrics.heldout:
            return ""
        rows = [
            [
                f"{line['step']:,}",
                rate(int(line.get("won") or 0), int(line.get("games") or 0)),
                f"{line.get('errors') or 0:,}",
                number(line.get("seconds"), 0),
                self._heldout_link(str(line.get("run"))),
            ]
            for line in metrics.heldout
        ]
        return f"<h3>Held-out tasks</h3>{table_html(_HELDOUT, rows)}<h3>A group of payloads</h3>"

    def _heldout_link(self, folder: str) -> str:
        if not self._served:
            return escape(folder, 80)
        name = f"{self.run}/{folder}" if self.run in self._below() else folder
        theme = {"theme": self._theme} if self._theme else {}
        query = escape(urlencode({"run": name} | theme, errors="replace"), None)
        return f'<a href="inspect?{query}">each payload beside its traces</a>'

    def _below(self) -> set[str]:
        """Names of trainings that lie below a folder given, and so are part of their runs' names."""
        roots = [place.path if isinstance(place, Run) else Path(place) for place in self._where]
        return {name for name, one in self._listed.items() if all(one.path != root for root in roots)}

    def _offer_steps(self, rollouts: Rollouts) -> None:
        steps = rollouts.steps()
        asked = self._asked_for.pop("step", None)
        chosen: int | None
        if asked is not None and int(asked) in steps:
            self._newest, chosen = False, int(asked)
        elif self._newest or self.step not in steps:
            chosen = steps[-1] if steps else None
        else:
            chosen = self.step
        self.param.step.objects = steps
        self._changing = True
        self.step = chosen
        self._changing = False
        self._offer_groups(rollouts)

    def _offer_groups(self, rollouts: Rollouts) -> None:
        groups = rollouts.of_step(self.step) if self.step is not None else {}
        prompts = self._followed[2] if self._followed else None
        names = {}
        for group, found in groups.items():
            known = [one.reward for one in found if one.reward is not None]
            mean = f"{sum(known) / len(known):.2f}" if known else "–"
            prompt = prompts.read(found[0].prompt) if prompts else None
            task = escape((prompt or {}).get("task", {}).get("description", ""), 90)
            names[f"{group}: mean reward {mean} · {task}"] = group
        asked = self._asked_for.pop("group", None)
        chosen = int(asked) if asked is not None and int(asked) in groups else self.group
        self._changing = True
        self.param.group.objects = names or {"": 0}
        self.group = chosen if chosen in groups else next(iter(groups), 0)
        self._changing = False

    _changing = False
    _newest = True

    @param.depends("step", watch=True)
    def _step_chosen(self) -> None:
        if not self._changing and self._followed is not None:
            self._choose_step(self.step)

    @param.depends("group", watch=True)
    def _group_chosen(self) -> None:
        if not self._changing and self._followed is not None:
            self._show_group()

    def _choose_step(self, step: int | None) -> None:
        self._newest = step is None
        if self._followed is not None:
            if step is not None:
                self._offer_groups(self._followed[1])
            else:
                self._offer_steps(self._followed[1])
            self._show_group()

    def _show_group(self) -> None:
        assert self._followed is not None
        _, rollouts, prompts = self._followed
        found = rollouts.of_step(self.step).get(self.group, []) if self.step is not None else []
        if not found:
            self._cards.object = page('<p class="empty">No payload has been played yet.</p>')
            return
        lines = rollouts.read(found)
        self._cards.object = page(group_html(lines, prompts.read(found[0].prompt)))


def _warming(updates: Any) -> str:
    """What is said of the first updates, whose learning rate is lower."""
    return f" (rising from 0 over the first {updates} updates)" if finite(updates) else ""


def group_html(lines: Sequence[dict[str, Any]], prompt: dict[str, Any] | None) -> str:
    """The payloads of one task, best first, with reward and advantage, beside the traces they came from.

    Args:
        lines: Of `rollouts.jsonl`.
        prompt: Of `prompts.jsonl`; None where it is missing.
    """
    ordered = sorted(lines, key=lambda line: (-(line.get("advantage") or 0.0), str(line.get("payload"))))
    parts = [f"<h3>{escape(lines[0].get('description'), SHORT)}</h3>"]
    traces = ((prompt or {}).get("recall") or {}).get("traces") or ()
    for trace in traces:
        head = f"trace {escape(trace.get('rank'), 20)}, score {number(trace.get('score'))}: "
        head += escape(trace.get("description"), SHORT)
        parts.append(
            f"<details><summary>{head}</summary><pre>{escape(trace.get('text'), TEXT_LIMIT)}</pre></details>"
        )
    parts.append('<div class="cards">' + "".join(_card(line) for line in ordered) + "</div>")
    return "".join(parts)


def group_document(run: TrainRun, step: int, group: int = 0) -> str:
    """A group of a training as HTML with its style, for a notebook's cell.

    Raises:
        UserError: The training has no such group.
    """
    lines = [line for line in run.rollouts(step) if line.get("group") == group]
    if not lines:
        raise UserError(f"{run.path} has no group {group} of step {step}")
    prompt = Prompts.of(run)  # type: ignore[arg-type]
    prompt.refresh()
    shown = group_html(lines, prompt.read(int(lines[0]["prompt"])))
    return f"<style>{STYLE}{MORE_STYLE}{_CARDS}</style>{page(shown)}"


def _card(line: dict[str, Any]) -> str:
    advantage = float(line.get("advantage") or 0.0)
    side = "up" if advantage > 0 else "down" if advantage < 0 else ""
    outcome = str(line.get("outcome"))
    kind = outcome if outcome in ("success", "failure") else "error"
    actions = [str(action) for action in line.get("actions") or ()]
    shared = ", episode shared with an equal payload" if line.get("shared") else ""
    parts = [
        f'<div class="card {side}"><p><span class="badge {kind}">{escape(outcome, 40)}</span> '
        f"reward <b>{number(line.get('reward'))}</b>, advantage <b>{advantage:+.2f}</b></p>",
        f'<p class="facts">{line.get("tokens") or 0:,} tokens, {len(actions)} turns{shared}</p>',
        f'<pre class="payload">{escape(line.get("payload"), TEXT_LIMIT) or "(empty)"}</pre>',
    ]
    if line.get("error"):
        parts.append(f'<p class="error">{escape(line["error"], SHORT)}</p>')
    if actions:
        listed = "\n".join(f"{n}. {action}" for n, action in enumerate(actions, 1))
        shown = escape(listed, TEXT_LIMIT)
        parts.append(f"<details><summary>what the executor did</summary><pre>{shown}</pre></details>")
    return "".join(parts) + "</div>"


def train_page(runs: Sequence[str | Path | Run]) -> TrainView:
    """A fresh page for one visitor, which follows the training."""
    return serve_view(TrainView, runs)
