"""A query typed by hand: which traces the bank would give, and what each word adds to their scores."""

from __future__ import annotations

from itertools import groupby

from ..errors import UserError
from ..render import escape
from ..retrieval import Contribution
from ..runs import Run
from .paging import Column, table_html
from .terms import open_bank

LONGEST = 2000
"""Characters of the longest query."""
_COLUMNS = (
    Column("word"),
    Column("in the query", True),
    Column("traces with it", True),
    Column("idf", True),
    Column("in this trace", True),
    Column("adds", True),
    Column(""),
)


def explained_html(run: Run, query: str, k: int, size: int | None) -> str:
    """The best `k` traces for a query with a table of its words each.

    Args:
        run: Whose bank is searched.
        query: The query.
        k: How many traces.
        size: As if the bank held its first `size` traces only; None takes all.

    Raises:
        UserError: The bank cannot be read.
    """
    bank = open_bank(run)
    now = len(bank)
    if not now:
        return '<p class="empty">The bank holds no traces: this memory searches its items, see there.</p>'
    if not query.strip():
        return '<p class="empty">Type a query, such as the sentence of a task.</p>'
    if len(query) > LONGEST:
        return f'<p class="empty">A query has at most {LONGEST:,} characters.</p>'
    if size is not None and size > now:
        return f'<p class="empty">The bank has {now:,} traces; it never had {size:,}.</p>'
    rows = bank.explain(query, snapshot=size, k=k)
    how = (run.settings.get("memory") or {}).get("retrieval")
    settings = bank.settings()
    told = (
        f"Ranked by BM25 among {now if size is None else size:,} traces (words split by "
        f"{escape(settings['tokenizer'])}, idf {escape(settings['idf'])}); a trace of the task itself, which "
        "a run leaves out, is not left out here."
    )
    if how not in (None, "bm25"):
        told += f" <b>This run did not retrieve so: its retrieval is {escape(how, 80)}.</b>"
    parts = [f'<p class="facts">{told}</p>']
    for number, group in groupby(rows, key=lambda row: row.id):
        parts.append(_hit(list(group), _sentence(run, number)))
    if not rows:
        parts.append('<p class="empty">There is nothing to rank: no traces, or no word in the query.</p>')
    return "".join(parts)


def _sentence(run: Run, number: int) -> str:
    try:
        return open_bank(run).tasks(number - 1, number)[0].text
    except (UserError, IndexError):
        return ""


def _bar(part: float) -> str:
    kind = "share minus" if part < 0 else "share"
    return f'<span class="{kind}" style="width:{80 * abs(part):.0f}px"></span>'


def _hit(rows: list[Contribution], sentence: str) -> str:
    first = rows[0]
    most = max((abs(row.contribution) for row in rows), default=0.0) or 1.0
    cells = [
        (
            f"<code>{escape(row.term, 120)}</code>",
            f"{row.query_count:,}",
            f"{row.documents:,}",
            f"{row.idf:.3f}",
            f"{row.tf:,}",
            f"{row.contribution:.3f}",
            _bar(row.contribution / most),
        )
        for row in rows
    ]
    title = f"{first.rank}. <code>{escape(sentence, 300)}</code>"
    facts = f"score {first.score:.3f} · trace {first.id} · {first.length:,} words"
    return f'<h3>{title} <span class="facts">{facts}</span></h3>{table_html(_COLUMNS, cells)}'
