"""The explorer in a notebook: tries as plain HTML, and controls of one line each over them."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InfrastructureError, UserError
from ..prompts import names
from ..records import Episode, Usage
from ..render import clean_text, escape
from . import style
from .columns import episode_html
from .diffing import STYLE as DIFF_STYLE
from .diffing import diff_html

if TYPE_CHECKING:
    from ..explore import Attempt, Explorer

OFFERED = 300
"""Tasks that the list offers; `Explorer.pick` takes any."""
EARLIER = 3
"""Tries that the last one is compared with."""
_STYLE = """
.jm { margin: 4px 0; } .jm section { margin: 10px 0; } .jm .column { max-height: 36em; }
.jm tbody tr, .jm tbody tr:hover { background: none; }
.jm pre, .jm code { word-break: normal; } .jm code { padding: 0 !important; background: none !important; }
.jm table.tries td, .jm table.tries th { padding: 2px 14px 2px 0; }
.jm details > table.diff { width: calc(100% - 14px); }
.jm .shows2 { grid-template-columns: minmax(0,1fr) minmax(0,1fr); }
.jm .shows1 { grid-template-columns: minmax(0,1fr); }
"""


def cell_html(body: str) -> str:
    """HTML for a notebook's output: what it looks like holds for it alone, and without it all can be read."""
    looks = f".jm-cell {{{style.STYLE}{DIFF_STYLE}{_STYLE}}}"  # nested, so that nothing else is touched
    return f'<div class="jm-cell"><style>{looks}</style>{style.page(body)}</div>'


class Cell:
    """HTML in a notebook's output.

    Args:
        body: HTML already.
        plain: What a terminal shows instead.
    """

    def __init__(self, body: str, plain: str = "") -> None:
        self.body = body
        self.plain = plain

    def __repr__(self) -> str:
        return self.plain or "(HTML, shown in a notebook)"

    def _repr_html_(self) -> str:
        return cell_html(self.body)


def try_html(attempt: Attempt, full: bool = False) -> str:
    """One try: its traces, its payload, and what the executor did, as far as it has come.

    Args:
        attempt: The try; one without a number has its traces only.
        full: Whether long texts are shown whole.
    """
    task, played = attempt.task, attempt.trajectory
    episode = attempt.episode() if played else _unplayed(attempt)
    run = attempt.searched
    if run is not None and not run.path.exists():  # the explorer was closed
        run = None
    _, _, columns = episode_html(episode, full, run).partition('<div class="columns">')
    left_out = () if played else ("episode",) if attempt.number else ("payload", "episode")
    for name in left_out:  # no text ends a column, since all are escaped
        columns = re.sub(f'<section class="column {name}-column".*?</section>', "", columns, flags=re.S)
    told = style.facts(
        "" if attempt.score is None else f"score {attempt.score:g}",
        f"{escape(task.benchmark, 80)} {escape(task.split, 80)}",
        escape(task.task_type, 80),
        style.code(task.task_id, 160),
    )
    number = f"try {attempt.number}: " if attempt.number else ""
    ended = style.badge(played.outcome) if played else ""
    return (
        f'<div class="facts">{escape(f"{number}{attempt.about}")}</div>'
        f"<h1>{escape(task.description, 1000)}</h1>{ended} {told}"
        f'<div class="columns shows{3 - len(left_out)}">{columns.removesuffix("</div>")}'
    )


def _unplayed(attempt: Attempt) -> Episode:
    """What there is of an episode before it was played."""
    calls = tuple(attempt.calls)
    return Episode.model_construct(
        key="", position=0, batch=0, task=attempt.task, recall=attempt.recall, calls=calls, outcome="error"
    )


def tries_html(attempts: Sequence[Attempt]) -> str:
    """Tries in a table, and the payload of the last one as diffs with those before it."""
    if not attempts:
        return style.empty("there is no try yet: curate one")
    *earlier, last = attempts
    parts = [_table(attempts)]
    for other in reversed(earlier):
        title = f"payload: try {other.number} → try {last.number}"
        mine, theirs = last.recall.payload, other.recall.payload
        if mine == theirs:
            parts.append(style.empty(f"{title}: the same" if mine else f"{title}: none in either"))
            continue
        titles = (_titled(other), _titled(last))
        body = diff_html(theirs, mine, "side", titles)
        parts.append(style.fold(escape(title), body, opened=other is earlier[-1]))
    return f"<section><h2>Tries</h2>{''.join(parts)}</section>"


def compare_tries(attempts: Sequence[Attempt]) -> Cell:
    """The last try beside the three before it, for a notebook's cell."""
    shown = attempts[-1 - EARLIER :]
    lines = (f"try {a.number}: {a.about}: {a.result}" for a in shown)
    return Cell(tries_html(shown), "\n".join(lines))


def _titled(attempt: Attempt) -> str:
    size = f"{len(attempt.recall.payload):,} characters"
    return f"try {attempt.number} {style.facts(escape(attempt.about), size)}"


def _table(attempts: Sequence[Attempt]) -> str:
    """How the tries were made and how they went."""
    roles = list(dict.fromkeys(role for attempt in attempts for role in attempt.usage()))
    head = ["try", "how it was made", "outcome", "score", "steps", "not admissible"]
    head += [f"{escape(role)} tokens" for role in roles]
    many = len({attempt.task.task_id for attempt in attempts}) > 1
    lines = []
    for attempt in attempts:
        played, used = attempt.trajectory, attempt.usage()
        task = f"<div>{escape(attempt.task.description, 160)}</div>" if many else ""
        score = "–" if attempt.score is None else f"{attempt.score:g}"
        cells = [str(attempt.number), f"{style.code(attempt.about)}{task}"]
        cells.append(style.badge(played.outcome) if played else style.facts("not played"))
        cells += [score, f"{len(played.steps):,}", f"{played.invalid_actions:,}"] if played else ["–"] * 3
        cells += [_tokens(used.get(role)) for role in roles]
        marks = ["", "", "", *[' class="n"'] * (len(cells) - 3)]
        lines.append("".join(f"<td{m}>{cell}</td>" for m, cell in zip(marks, cells, strict=True)))
    top = "".join(f'<th scope="col">{name}</th>' for name in head)
    rows = "".join(f"<tr>{line}</tr>" for line in lines)
    told = '<div class="facts">tokens read + written</div>'
    return f'<table class="tries"><thead><tr>{top}</tr></thead><tbody>{rows}</tbody></table>{told}'


def _tokens(used: Usage | None) -> str:
    return "–" if used is None else f"{used.prompt_tokens:,} + {used.completion_tokens:,}"


class Controls:
    """One-line controls over an explorer; what they do is shown below them as plain HTML.

    The HTML is an output of the cell like any other: it stays in the saved notebook, and nothing of it is
    kept in a widget. While a model works, the line below the buttons says how far it is; what goes wrong is
    told there in one sentence.

    Args:
        lab: The explorer; tries made in other cells are among its tries.
        out: Folder that tries are saved to.

    Raises:
        UserError: ipywidgets is not installed.
    """

    def __init__(self, lab: Explorer, out: str = "runs/explored") -> None:
        try:
            import ipywidgets
        except ImportError:
            raise UserError("the controls need ipywidgets; pip install 'jitmem-lab[lab]'") from None
        self.lab = lab
        self.out = out
        self._handles: list[Any] = []
        self._filling = False
        self._make(ipywidgets)
        self._offer()

    def _make(self, w: Any) -> None:
        described = self.lab.tasks()["description"].head(OFFERED)
        tasks = [(f"{row}: {clean_text(text, 140)}", row) for row, text in enumerate(described)]
        picked = [task.task_id for task in self.lab.known_tasks[:OFFERED]]
        here = picked.index(self.lab.task.task_id) if self.lab.task.task_id in picked else None
        wide = w.Layout(width="98%")
        self.task = w.Dropdown(options=tasks, value=here, description="Task", layout=wide)
        self.k = w.BoundedIntText(value=self.lab.config.k, min=1, max=50, description="Traces k")
        self.traces = w.Text(placeholder="the best k; or ids: 3, 17", description="or which")
        self.model = w.Text(value=self.lab.config.model, description="Model", continuous_update=False)
        prompts = [name for name in names() if "curator" in name]
        self.prompt = w.Combobox(options=prompts, placeholder="as set, or a name", description="Prompt")
        self.k.layout.width = "150px"
        self.asked = [self.task, self.k, self.traces, self.model, self.prompt]
        for widget in self.asked[2:]:
            widget.layout.width = "270px"
        self.tried = w.Dropdown(options=[], description="Try", layout=wide)
        self.said = w.HTML()
        does = {
            "Curate": self.curate,
            "No payload": lambda: self._given(self.lab.payload("", self._model())),
            "Walkthrough": lambda: self._given(self.lab.oracle_payload(self._model())),
            "Play": self.play,
            "Save": self.save,
            "Close": self.close,
        }
        self.buttons = {name: w.Button(description=name, layout=w.Layout(width="auto")) for name in does}
        for name, button in self.buttons.items():
            button.on_click(lambda _, work=does[name]: self._do(work))
        for widget in (self.task, self.k, self.traces):
            widget.observe(self._turned, "value")
        self.traces.continuous_update = False
        self.tried.observe(self._turned, "value")
        self.box = w.VBox(
            [
                self.task,
                w.HBox([self.k, self.traces, self.model, self.prompt], layout=w.Layout(flex_flow="row wrap")),
                self.tried,
                w.HBox(list(self.buttons.values()), layout=w.Layout(flex_flow="row wrap")),
                self.said,
            ]
        )

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display(self.box)
        attempt = self._chosen()
        first, second = self._cells(attempt)
        self._handles = [display(first, display_id=True), display(second, display_id=True)]

    def look(self) -> str:
        """Show the traces for the task that is picked."""
        self._say("Looking for traces …")
        if self.task.value is not None:
            self.lab.pick(self.task.value)
        looked = self.lab.look(self.k.value, self._picked())
        self._update(Cell(try_html(looked)), None)
        found = len(looked.recall.traces)
        return f"{found} trace{'' if found == 1 else 's'}; Curate makes a payload of what is shown"

    def curate(self) -> str:
        """Make a payload with what the controls say."""
        self._say("The curator writes …")
        prompt = self.prompt.value.strip() or None
        return self._given(self.lab.curate(self.k.value, prompt, self._picked(), self._model()))

    def play(self) -> str:
        """Play the task with the payload of the try that is chosen."""
        attempt = self._needed()
        steps = 0

        def on_step(step: Any) -> None:
            nonlocal steps
            steps += 1
            self._say(f"Playing try {attempt.number}, step {steps}: {clean_text(step.action, 80)} …")

        self._say(f"Playing try {attempt.number}: the environment starts …")
        self.lab.play(attempt, on_step)
        self._offer(attempt)
        return f"try {attempt.number}: {attempt.result}"

    def save(self) -> str:
        """Save the try that is chosen as a run."""
        attempt = self._needed()
        run = self.lab.save(attempt, self.out)
        return f"try {attempt.number} is in {run.path}; jitmem serve {self.out} shows it"

    def close(self) -> str:
        """End the environments and free the model; what was tried stays on show."""
        self.lab.close()
        return "closed: environments ended, models freed; make another Explorer to go on"

    def _given(self, attempt: Attempt) -> str:
        self._offer(attempt)
        return f"try {attempt.number}: {attempt.about}; Play plays the task with it"

    def _model(self) -> str | None:
        asked = self.model.value.strip()
        return asked if asked and asked != self.lab.config.model else None

    def _picked(self) -> list[int] | None:
        words = self.traces.value.replace(",", " ").split()
        if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
            raise UserError(
                "traces are told by their ids, such as 3, 17; leave the line empty for the best k"
            )
        return [int(word) for word in words] or None

    def _chosen(self) -> Attempt | None:
        number = self.tried.value
        return None if number is None else self.lab.attempts[number - 1]

    def _needed(self) -> Attempt:
        attempt = self._chosen()
        if attempt is None:
            raise UserError("there is no try yet; press Curate, No payload or Walkthrough first")
        return attempt

    def _offer(self, chosen: Attempt | None = None) -> None:
        """Offer all tries, the newest first, and show the one that is chosen."""
        tries = self.lab.attempts
        chosen = chosen or (tries[-1] if tries else None)
        with self._quietly():
            self.tried.options = [(f"{a.number}: {a.about}: {a.result}", a.number) for a in reversed(tries)]
            self.tried.value = None if chosen is None else chosen.number
        self._show()

    @contextlib.contextmanager
    def _quietly(self) -> Iterator[None]:
        before, self._filling = self._filling, True
        try:
            yield
        finally:
            self._filling = before

    def _cells(self, attempt: Attempt | None) -> tuple[Cell, Cell]:
        if attempt is None:
            return Cell(style.empty("no try yet: pick a task, then press Curate")), Cell("")
        return Cell(try_html(attempt), attempt.about), compare_tries(self.lab.attempts[: attempt.number])

    def _turned(self, change: Any) -> None:
        """Show what was chosen otherwise by the user."""
        if self._filling:
            return
        if change["owner"] is self.tried:
            self._show()
        else:
            self._do(self.look, lock=False)  # a button pressed next must not be found locked

    def _show(self) -> None:
        self._update(*self._cells(self._chosen()))

    def _update(self, *cells: Cell | None) -> None:
        for handle, cell in zip(self._handles, cells, strict=False):
            if handle is not None and cell is not None:
                handle.update(cell)

    def _say(self, sentence: str, kind: str = "") -> None:
        colour = "color:color-mix(in srgb, #e0384a 75%, currentColor)" if kind else ""
        self.said.value = f'<div role="status" style="{colour}">{escape(sentence, 1000)}</div>'

    def _do(self, work: Callable[[], str], lock: bool = True) -> None:
        """Work, with the controls locked and the line below them saying what comes of it."""
        said, kind = "this failed for a reason of its own; the kernel's log tells it", "failure"
        widgets = [*self.asked, self.tried, *self.buttons.values()] if lock else []
        try:
            for widget in widgets:
                widget.disabled = True
            said, kind = work(), ""
        except (UserError, InfrastructureError) as error:
            said = str(error)
        except KeyboardInterrupt:
            said = "stopped; nothing of it was kept"
        finally:
            for widget in widgets:
                widget.disabled = self.lab.closed and widget is not self.tried
            self._say(said, kind)
