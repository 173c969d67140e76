"""The judge's page: its verdicts beside what the environment says, and every episode on which they differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import panel as pn
import param

from ..errors import UserError
from ..render import escape
from ..runs import Run
from ..statistics import Confusion, wilson
from .choosing import LIST_STYLE, RunView, html_pane, serve_view
from .facts import Fact, Facts, Writes
from .paging import Column, Pager
from .style import page

KINDS = {
    "all disagreements": "",
    "let in wrongly: the judge alone says success": "false_positive",
    "kept out wrongly: the environment alone says success": "false_negative",
    "no usable verdict": "unknown",
}
"""What the list can show."""
_COLUMNS = (Column("position", True), Column("judge"), Column("environment"), Column("task"))


def kind_of(fact: Fact) -> str:
    """The field of `Confusion` that an episode with a result belongs to."""
    if fact.verdict is None:
        return "unknown"
    right = "true" if fact.verdict == (fact.outcome == "success") else "false"
    return f"{right}_{'positive' if fact.verdict else 'negative'}"


def judged_of(episodes: Sequence[Fact]) -> dict[str, list[Fact]]:
    """The episodes with a result that a model was to judge, by `kind_of`."""
    found: dict[str, list[Fact]] = {name: [] for name in Confusion._fields}
    for fact in episodes:
        if fact.outcome != "error" and fact.source != "environment":
            found[kind_of(fact)].append(fact)
    return found


class JudgeView(RunView):
    """Shows how far a run's judge and its environment agree, and where they don't."""

    show: Any = param.Selector(default="", objects=KINDS, label="Episodes", doc="Which episodes are listed.")

    title: ClassVar[str] = "judge"
    in_url: ClassVar[tuple[str, ...]] = ("run", "show")
    plotted: ClassVar[bool] = False

    def parts(self) -> list[Any]:
        """The page below the choice of the run."""
        self._said: list[str] = []
        self._table = html_pane()
        self._list = Pager(_COLUMNS, self._row, "There are none.", html_pane())
        self._show = pn.widgets.Select.from_param(
            self.param.show, description=None, stylesheets=[LIST_STYLE], width=420
        )
        return [self._table, self._show, self._list]

    def draw(self, run: Run, facts: Facts, writes: Writes) -> None:
        """Show what was read."""
        judged = judged_of(facts.episodes(writes))
        if not any(judged.values()):
            raise UserError(_why_none(run, facts))
        counts = Confusion(*(len(judged[name]) for name in Confusion._fields))
        self._said = [f"{counts.judged:,} verdicts", f"{counts.unknown:,} unusable"]
        self._table.object = page(confusion_html(counts))
        wrong = judged["false_positive"] + judged["false_negative"]
        self._list.fill(judged[self.show] if self.show else sorted(wrong, key=lambda fact: fact.position))

    def facts_said(self) -> list[str]:
        """What the page's head says."""
        return self._said

    @param.depends("show", watch=True)
    def _choose(self) -> None:
        self._list.page = 0
        self.redraw()

    def _row(self, fact: Fact) -> list[str]:
        said = {True: "success", False: "failure", None: "unusable"}[fact.verdict]
        task = self.place(fact.position, fact.description)
        return [self.place(fact.position), _outcome(said), _outcome(fact.outcome), task]


def _why_none(run: Run, facts: Facts) -> str:
    if not len(facts):
        return "this run has no finished episode yet; press Reload later"
    if run.settings.get("judge") is None:
        gate = (run.settings.get("memory") or {}).get("gate")
        told = f" (its gate is {gate})" if gate else ""
        how = "choose one whose memory has gate=judge, or make one: jitmem run 20_evaluate -p gate judge"
        return f"no model judged this run{told}; {how}"
    return "no episode of this run has been judged yet; press Reload later"


def _outcome(word: str) -> str:
    kind = word if word in ("success", "failure") else "error"
    return f'<span class="{kind}">{escape(word, 40)}</span>'


def rate(part: int, n: int) -> str:
    """A share with its 95 % interval and what it is of."""
    if not n:
        return "– of none"
    low, high = wilson(part, n)
    return f"{100 * part / n:.1f} % ({100 * low:.1f} to {100 * high:.1f} %) of {n:,}"


def confusion_html(counts: Confusion) -> str:
    """The confusion matrix and the three rates."""
    tp, fp, tn, fn, unknown = counts

    def cell(number: int, words: str, kind: str) -> str:
        return f'<td><b class="{kind}">{number:,}</b>{words}</td>'

    matrix = (
        '<table class="confusion"><thead><tr><th></th><th>environment: success</th>'
        "<th>environment: failure</th></tr></thead><tbody>"
        f"<tr><th>judge: success</th>{cell(tp, 'rightly let in', 'success')}"
        f"{cell(fp, 'let in wrongly', 'failure')}</tr>"
        f"<tr><th>judge: failure</th>{cell(fn, 'kept out wrongly', 'failure')}"
        f"{cell(tn, 'rightly kept out', 'success')}</tr></tbody></table>"
    )
    rates = (
        ("agreement", "verdicts that the environment shares", rate(tp + tn, counts.judged)),
        ("precision", "of what the judge lets in, successes", rate(tp, tp + fp)),
        ("recall", "of the successes, let in", rate(tp, tp + fn)),
        ("unusable", "answers without a verdict; they stand in no rate above", f"{unknown:,}"),
    )
    rows = "".join(f"<tr><td>{name}</td><td>{text}</td><td>{words}</td></tr>" for name, words, text in rates)
    return (
        f"<h3>Verdicts against the environment</h3>{matrix}"
        f"<h3>Rates, with 95 % intervals (Wilson)</h3><table><tbody>{rows}</tbody></table>"
        "<h3>Where they differ</h3>"
    )


def judge_page(runs: Sequence[str | Path | Run]) -> JudgeView:
    """A fresh page for one visitor."""
    return serve_view(JudgeView, runs)
