"""Why these traces: what each word of the query added to a trace's score, as the run's bank stood then."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InfrastructureError, UserError
from ..records import Recall
from ..runs import Run

if TYPE_CHECKING:
    from ..bank import MemoryBank
    from ..retrieval import Contribution

BY_MEANING = "found by meaning (cosine of embeddings): no word has a part of its own in the score"
AT_RANDOM = "drawn at random: the query's words had no part in it"
ITEMS = "written items, found by {how}: what each word added is not kept for them"
OTHER_SCORES = (
    "the run's bank gives other scores than the record has, so it is not as it was searched; what each word "
    "added cannot be told"
)
TOO_FAR = "they stand too far down the ranking by words for this to be worked out"
NOT_AT_HAND = "what each word added is told where the run's bank is at hand"
_DEPTHS = (0, 64, 1024)
"""How many ranks below the traces shown are looked at: the task's own traces may stand between them."""
_KEPT = 3


class Word(NamedTuple):
    """What one word of the query added to the score of one trace."""

    text: str
    """The word, as it is compared."""
    adds: float
    """Its part of the score."""
    times: int
    """How often the trace's task sentence has it."""


class Words(NamedTuple):
    """How the words of a query made the scores of the traces shown."""

    by_trace: dict[int, tuple[Word, ...]]
    """The words by the trace's number, in the query's order."""
    documents: dict[str, int]
    """In how many traces of the bank, as it stood then, each word occurs."""
    size: int
    """Traces that the bank had then."""
    why: str = ""
    """Why there is nothing to tell; empty where there is, or where nothing was retrieved."""


def words_of(run: Run | None, recall: Recall) -> Words:
    """What each word of a recall's query added to the scores of its traces.

    Only the traces that the bank had when it was searched count. What comes out is compared with the scores
    that were recorded; where they differ, nothing is told.
    """
    if not recall.traces:
        return _none("")
    if run is None:
        return _none(NOT_AT_HAND)
    how = run.settings.get("memory", {}).get("retrieval")
    if isinstance(how, dict):
        return _none(ITEMS.format(how={"dense": "meaning"}.get(str(how.get("how")), "their words")))
    if how in ("dense", "random"):
        return _none(BY_MEANING if how == "dense" else AT_RANDOM)
    try:
        return _explained(open_bank(run), recall)
    except (UserError, InfrastructureError) as error:
        return _none(f"what each word added cannot be told: {error}")


def _none(why: str) -> Words:
    return Words({}, {}, 0, why)


def _explained(bank: MemoryBank, recall: Recall) -> Words:
    wanted = {trace.trace_id: trace.score for trace in recall.traces}
    rows: dict[int, list[Contribution]] = {}
    for further in _DEPTHS:
        deep = len(recall.traces) + recall.self_excluded + further
        found = bank.explain(recall.query, snapshot=recall.bank_size, k=deep)
        rows = {number: [] for number in wanted}
        for row in found:
            if row.id in rows:
                rows[row.id].append(row)
        if all(rows.values()) or deep >= recall.bank_size:
            break
    if any(part and abs(part[0].score - wanted[number]) > 1e-6 for number, part in rows.items()):
        return _none(OTHER_SCORES)
    if not all(rows.values()):
        return _none(TOO_FAR)
    by_trace = {
        number: tuple(Word(row.term, row.contribution, row.tf) for row in part)
        for number, part in rows.items()
    }
    documents = {row.term: row.documents for part in rows.values() for row in part}
    return Words(by_trace, documents, recall.bank_size)


class _Banks:
    """A few banks that were opened last: an index is dear to build, and every visitor may read it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[Any, ...], MemoryBank] = OrderedDict()

    def get(self, run: Run) -> MemoryBank:
        file = run.path / "bank.sqlite"
        key = (*_stamp(file), str(run.settings.get("memory", {}).get("index")))
        with self._lock:
            if key not in self._open:
                self._open[key] = run.bank()
            self._open.move_to_end(key)
            while len(self._open) > _KEPT:  # closed when its last reader lets go of it
                self._open.popitem(last=False)
            return self._open[key]


def _stamp(file: Path) -> Sequence[Any]:
    try:
        found = file.stat()
    except OSError:
        raise UserError(f"there is no bank at {file}") from None
    return str(file.resolve()), found.st_dev, found.st_ino


_BANKS = _Banks()


def open_bank(run: Run) -> MemoryBank:
    """The run's bank, for reading; the same object for all who read the same file.

    Raises:
        UserError: There is none, or it cannot be read.
        InfrastructureError: It is locked.
    """
    return _BANKS.get(run)
