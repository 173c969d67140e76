"""The bank's page: what memory took in and kept out, what is retrieved, what is there twice, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import panel as pn
import param

from ..errors import UserError
from ..render import escape
from ..runs import Run
from ..statistics import wilson
from .bank_facts import ORDERS, Alike, Kept, Use, kept_out, near_duplicates, reasons, trace_growth, uses
from .bank_items import ItemsPart, has_items, item_growth, item_texts
from .choosing import LIST_STYLE, TABS_STYLE, RunView, html_pane, serve_view
from .explaining import explained_html
from .facts import Fact, Facts, Writes
from .judge import rate
from .paging import Column, Pager, table_html
from .plots import drawn_last, line_figure, line_pane
from .style import page
from .terms import open_bank

TABS = {
    "growth": "Growth",
    "retrieved": "Retrieved",
    "kept-out": "Kept out",
    "duplicates": "Near-duplicates",
    "explain": "Explain a query",
    "items": "Items",
}
"""The parts of the page, by their name in a URL."""
_USES = (
    Column("id", True),
    Column("task it tells of"),
    Column("retrieved", True),
    Column("as the best", True),
    Column("success after, with 95 % interval"),
    Column("for the tasks at"),
)
_REASONS = (Column("what became of it"), Column("episodes", True), Column("won", True), Column("lost", True))
_KEPT = (Column("position", True), Column("outcome"), Column("verdict"), Column("why"), Column("task"))
_ALIKE = (Column("copies", True), Column("least overlap", True), Column("ids"), Column("what they say"))
KINDS = {
    "kept out by the gate": "gate",
    "no usable verdict": "unusable",
    "write failed, owed": "failed",
    "not yet written": "waiting",
    "taken in": "taken",
}
"""What the list of episodes can show."""
_SHOWN = 12


class BankView(RunView):
    """Shows how a run's bank grew and how it is used; each part is worked out when it is looked at."""

    tab: Any = param.Selector(default="growth", objects=list(TABS), doc="The part that is shown.")
    order: Any = param.Selector(
        default="most often retrieved", objects=list(ORDERS), label="Order", doc="Of the traces retrieved."
    )
    kept: Any = param.Selector(default="gate", objects=KINDS, label="Episodes", doc="Which are listed.")
    overlap: Any = param.Selector(
        default="0.8",
        objects=["0.6", "0.7", "0.8", "0.9", "1.0"],
        label="Words in common, at least",
        doc="Share of words that two near-duplicates have in common.",
    )
    query = param.String(default="", label="Query", doc="What is searched for.")
    k = param.Integer(default=3, bounds=(1, 50), label="Traces", doc="How many are explained.")
    size = param.Integer(
        default=None, allow_None=True, bounds=(0, None), label="Bank as of trace", doc="None: as it is now."
    )

    title: ClassVar[str] = "bank"
    plotted: ClassVar[bool] = False
    in_url: ClassVar[tuple[str, ...]] = ("run", "tab", "order", "kept", "overlap", "query", "k", "size")

    def parts(self) -> list[Any]:
        """The page below the choice of the run."""
        self._said: list[str] = []
        self._made: dict[str, tuple[Any, ...]] = {}
        self._growth, self._curve = html_pane(), line_pane()
        self._uses_head, self._reasons = html_pane(), html_pane()
        self._alike_head, self._explained = html_pane(), html_pane()
        self._uses = Pager(_USES, self._use, "Nothing has been retrieved yet.", html_pane())
        self._kept = Pager(_KEPT, self._fate, "There are none.", html_pane())
        self._alike = Pager(_ALIKE, _alike, "There are none.", html_pane())
        self._items = ItemsPart(self.place)
        widgets = {
            name: pn.widgets.Select.from_param(
                self.param[name], description=None, stylesheets=[LIST_STYLE], width=260
            )
            for name in ("order", "kept", "overlap")
        }
        asking = pn.Row(
            pn.widgets.TextInput.from_param(
                self.param.query,
                description=None,
                placeholder="a task in your own words, then Enter",
                width=520,
            ),
            pn.widgets.IntInput.from_param(self.param.k, description=None, width=100),
            pn.widgets.IntInput.from_param(self.param.size, description=None, width=140, placeholder="now"),
        )
        contents: dict[str, list[Any]] = {
            "growth": [self._growth, drawn_last(self._curve)],
            "retrieved": [self._uses_head, widgets["order"], self._uses],
            "kept-out": [self._reasons, widgets["kept"], self._kept],
            "duplicates": [widgets["overlap"], self._alike_head, self._alike],
            "explain": [asking, self._explained],
            "items": [self._items],
        }
        self._tabs = pn.Tabs(
            *(
                (TABS[name], pn.Column(*parts, sizing_mode="stretch_width"))
                for name, parts in contents.items()
            ),
            dynamic=True,
            stylesheets=[TABS_STYLE],
            sizing_mode="stretch_width",
        )
        self._tabs.param.watch(self._turned, "active")
        return [self._tabs]

    def forget(self) -> None:
        """Let go of what was worked out of the run shown so far."""
        self._made = {}

    def draw(self, run: Run, facts: Facts, writes: Writes) -> None:
        """Show the part that is looked at."""
        self._tabs.active = list(TABS).index(self.tab)
        if not (run.path / "bank.sqlite").is_file():
            raise UserError(_why_none(run))
        taken = sum(bool(change.get("stored")) for change in list(writes.changes.values()))
        self._said = [f"{taken:,} of {len(facts):,} episodes taken in"]
        work: dict[str, Callable[[], None]] = {
            "growth": lambda: self._draw_growth(run, facts, writes),
            "retrieved": lambda: self._draw_uses(facts),
            "kept-out": lambda: self._draw_kept(facts, writes),
            "duplicates": lambda: self._draw_alike(run),
            "explain": lambda: self._draw_explained(run),
            "items": lambda: self._items.draw(run),
        }
        made = (self._stand(), self.order, self.kept, self.overlap, self.query, self.k, self.size)
        if self._made.get(self.tab) != made:
            work[self.tab]()
            self._made[self.tab] = made

    def facts_said(self) -> list[str]:
        """What the page's head says."""
        return self._said

    def _turned(self, event: Any) -> None:
        self.tab = list(TABS)[event.new]

    @param.depends("order", "kept", watch=True)
    def _reordered(self) -> None:
        self._uses.page = self._kept.page = 0

    @param.depends("tab", "order", "kept", "overlap", "query", "k", "size", watch=True)
    def _choose(self) -> None:
        self.redraw()

    def _draw_growth(self, run: Run, facts: Facts, writes: Writes) -> None:
        kept = kept_out(facts.episodes(writes), writes)
        taken = sum(one.kind == "taken" for one in kept)
        waiting = sum(one.kind in ("waiting", "failed") for one in kept)
        told = f"{taken:,} of {len(kept) - waiting:,} episodes that memory was given were let in"
        if waiting:
            told += f"; {waiting:,} are still to be written"
        if has_items(run):
            places, sizes = item_growth(run)
            up, across = "items", "writes of memory, the warm start's included"
            told += f". It holds {sizes[-1]:,} items now."
        else:
            bank = open_bank(run)
            size = len(bank)
            warm = max(0, size - taken)
            places, sizes = trace_growth(kept, warm)
            up, across = "traces in the bank", "episodes of the stream"
            told += f". The bank holds {size:,} traces now"
            told += f", {warm:,} of them from before the stream." if warm else "."
        self._growth.object = page(f"<p>{told}</p>")
        self._curve.object = line_figure(places, sizes, across=across, up=up)

    def _draw_uses(self, facts: Facts) -> None:
        episodes = facts.episodes()
        rows = sorted(uses(facts, episodes), key=ORDERS[self.order])
        scored = [fact for fact in episodes if fact.outcome != "error"]
        told = [
            f"{len(rows):,} different ones were retrieved. Success of the episodes that saw each; "
            "a trace is not shown to have helped because it was there. For comparison:"
        ]
        for name, group in (
            ("all episodes", scored),
            ("with something retrieved", [fact for fact in scored if fact.traces]),
            ("with nothing retrieved", [fact for fact in scored if not fact.traces]),
        ):
            told.append(f"{name} {rate(_won(group), len(group))}")
        self._uses_head.object = page(f"<p>{'<br>'.join(told)}</p>")
        self._uses.fill(rows)

    def _use(self, use: Use) -> list[str]:
        if use.scored:
            low, high = wilson(use.won, use.scored)
            bar = f'<span class="share" style="width:{60 * use.share:.0f}px"></span>'
            share = f"{bar} {100 * use.share:.0f} % ({100 * low:.0f} to {100 * high:.0f} %) of {use.scored:,}"
        else:
            share = "–"
        places = ", ".join(self.place(position) for position in use.positions[:_SHOWN])
        more = len(use.positions) - _SHOWN
        places += f", {more:,} more" if more > 0 else ""
        sentence = escape(use.sentence, 300)
        return [str(use.trace), sentence, f"{use.times:,}", f"{use.first:,}", share, places]

    def _draw_kept(self, facts: Facts, writes: Writes) -> None:
        kept = kept_out(facts.episodes(writes), writes)
        rows = [
            (_coloured(row.why, row.kind), f"{row.won + row.lost:,}", f"{row.won:,}", f"{row.lost:,}")
            for row in reasons(kept)
        ]
        self._reasons.object = page(
            "<p>What memory did with each episode that ended with a result; won and lost are the "
            f"environment's word.</p>{table_html(_REASONS, rows)}"
        )
        self._kept.fill([one for one in kept if one.kind == self.kept])

    def _fate(self, one: Kept) -> list[str]:
        fact = one.fact
        return [
            self.place(fact.position),
            _coloured(fact.outcome, fact.outcome),
            _verdict(fact),
            escape(one.why, 300),
            self.place(fact.position, fact.description),
        ]

    def _draw_alike(self, run: Run) -> None:
        if has_items(run):
            texts, what = item_texts(run), "items, by all their texts"
        else:
            texts = [(task.id, task.text) for task in open_bank(run).tasks()]
            what = "traces, by the text that retrieval compares (the task's sentence)"
        found = near_duplicates(texts, float(self.overlap))
        copies = sum(len(group.ids) for group in found.groups) - len(found.groups)
        told = (
            f"{found.texts:,} {what}: {len(found.groups):,} groups, {copies:,} more than one of each. "
            "Found by comparing words: first those with the same words in the same order, whatever their "
            f"case and punctuation; then any two of which {100 * float(self.overlap):.0f} % of all their "
            "different words are "
            f"common to both. {found.compared:,} pairs that share a rare word were compared"
        )
        told += (
            "." if found.whole else ", then the search stopped: there may be more. Ask for more in common."
        )
        self._alike_head.object = page(f"<p>{told}</p>")
        self._alike.fill(found.groups)

    def _draw_explained(self, run: Run) -> None:
        self._explained.object = page(explained_html(run, self.query, self.k, self.size))


def _why_none(run: Run) -> str:
    memory = (run.settings.get("memory") or {}).get("name")
    if memory == "none":
        return "this run has no memory, so there is no bank; choose a run of another memory"
    return "this run has no bank yet; press Reload once it has begun"


def _won(episodes: Sequence[Fact]) -> int:
    return sum(fact.outcome == "success" for fact in episodes)


def _coloured(word: str, kind: str) -> str:
    kinds = {"taken": "success", "success": "success", "failure": "failure", "gate": "failure", "waiting": ""}
    return f'<span class="{kinds.get(kind, "error")}">{escape(word, 300)}</span>'


def _verdict(fact: Fact) -> str:
    said = {True: "success", False: "failure", None: "unusable"}[fact.verdict]
    return f"{said}, by the {escape(fact.source, 40)}" if fact.source != "none" else "none"


def _alike(group: Alike) -> list[str]:
    ids = ", ".join(map(str, group.ids[:_SHOWN]))
    more = len(group.ids) - _SHOWN
    texts = "<br>".join(escape(text, 300) for text in group.texts[:4])
    others = len(group.texts) - 4
    return [
        f"{len(group.ids):,}",
        f"{group.overlap:.2f}",
        ids + (f", {more:,} more" if more > 0 else ""),
        texts + (f"<br>… {others:,} more spellings" if others > 0 else ""),
    ]


def bank_page(runs: Sequence[str | Path | Run]) -> BankView:
    """A fresh page for one visitor."""
    return serve_view(BankView, runs)
