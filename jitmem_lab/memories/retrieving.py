"""How `raw` and `jitmem` find traces: by words, by meaning, or in one of the ways that are controls."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from ..bank import MemoryBank, TraceTask
from ..embedding import DenseIndex, Embedder
from ..errors import UserError
from ..records import Task
from ..retrieval import BM25Index, Hit
from ..session import Session
from .finding import NO_EMBEDDER, VectorCache

Retrieval = Literal["bm25", "dense", "own_type", "other_type", "shuffled", "random", "empty"]
"""What is compared with the task: its words (`bm25`) or its meaning (`dense`, cosine of embeddings).

The others are controls. `own_type`, `other_type`: BM25, but only among traces of the task's own type, or of
the others. `shuffled`: what BM25 finds for another task of the bank, so text of the same kind that bears on
something else. `random`: any traces. `empty`: none.
"""
CONTROLS = {
    "own_type": "only among traces of the task's own type, which no agent is told",
    "other_type": "only among traces of other types of task",
    "shuffled": "the traces found for another task",
    "random": "any traces",
    "empty": "no traces",
}
"""Ways of finding that are controls, and what each gives."""
TYPED = ("own_type", "other_type")
"""Controls that compare words all the same."""
NO_OTHER = "the bank holds no other task"
"""Why a control that needs another task gives nothing."""


class Retrieved(NamedTuple):
    """What was found for a task."""

    hits: list[Hit]
    """The traces, best first."""
    excluded: int
    """How many traces of the asking task would have been among them."""
    query: str
    """The text that was compared."""
    notes: dict[str, Any]
    """Which control was on."""


class Retriever:
    """Finds traces of a bank as of any snapshot. Safe for threads.

    Args:
        how: What is compared.
        embedder: For `dense`.
        tokenizer, idf: Of BM25, see `bank.MemoryBank`.

    Raises:
        UserError: Unknown `how`, tokenizer or idf, or `dense` without an embedder.
    """

    def __init__(
        self,
        how: Retrieval = "bm25",
        embedder: Embedder | None = None,
        tokenizer: str = "words",
        idf: str = "okapi",
    ) -> None:
        if how not in get_args(Retrieval):
            raise UserError(f"retrieval must be one of {', '.join(get_args(Retrieval))}, not {how!r}")
        if how == "dense" and embedder is None:
            raise UserError(NO_EMBEDDER)
        BM25Index(tokenizer, idf)
        self.how = how
        self.embedder = embedder if how == "dense" else None
        self.index: dict[str, Any] = {"tokenizer": tokenizer, "idf": idf}
        self._lock = threading.Lock()
        self._bank: MemoryBank | None = None
        self._vectors: VectorCache | None = None
        self._known: list[TraceTask] = []
        self._traces: dict[str, list[int]] = {}
        self._dense = DenseIndex()

    def settings(self) -> dict[str, Any]:
        """Everything that changes what is found."""
        settings: dict[str, Any] = {"retrieval": self.how, "index": self.index}
        if self.embedder is not None:
            settings["embedder"] = self.embedder.identity()
        if self.how == "shuffled":  # it once meant what `random` means; such a run must not go on as this one
            settings["query_of"] = "another task of the bank"
        return settings

    def open(self, bank: MemoryBank) -> None:
        """Search `bank`; vectors are kept in its file."""
        self._bank, self._known, self._traces, self._dense = bank, [], {}, DenseIndex()
        self._vectors = VectorCache(bank.path) if self.how == "dense" else None

    def close(self) -> None:
        """Close what was opened, but for the bank; calling it twice is fine."""
        if self._vectors is not None:
            self._vectors.close()
        self._bank = self._vectors = None

    def learn(self, texts: Sequence[str], session: Session) -> None:
        """Embed texts when they are written, so that a search embeds its query only.

        Raises:
            InfrastructureError: The embedder failed.
        """
        if self._vectors is not None and self.embedder is not None and texts:
            self._vectors.of(texts, self.embedder, session)

    def another(self, snapshot: int, session: Session, use: str, *but: Task) -> TraceTask | None:
        """A trace of some other task of the snapshot, drawn by the session's seed; None if there is none.

        Every task that has another id and another text than those in `but` is drawn equally often.
        """
        ids, texts = {task.task_id for task in but}, {task.retrieval_key for task in but}
        others = {
            one.task_id: one
            for one in self._tasks(snapshot)
            if one.task_id not in ids and one.text not in texts
        }
        return random.Random(session.seed(use)).choice(list(others.values())) if others else None

    def find(
        self,
        task: Task,
        k: int,
        snapshot: int,
        session: Session,
        own: str | None = None,
        other: str | None = None,
    ) -> Retrieved:
        """The `k` traces for `task` among the first `snapshot`; equal scores: the newer first.

        Args:
            task: What is compared.
            k: Number of traces.
            snapshot: Traces that the bank had.
            session: Records the embedding of the query, and seeds what is drawn.
            own: Id of the asking task, whose traces are left out and counted; None leaves them in.
            other: Id of another task whose traces are left out.

        Raises:
            InfrastructureError: The embedder failed.
        """
        query = task.retrieval_key
        notes: dict[str, Any] = {"retrieval": self.how} if self.how in CONTROLS else {}
        if self.how == "empty":
            return Retrieved([], 0, query, notes)
        if self.how == "shuffled":
            drawn = self.another(snapshot, session, "shuffled", task)
            if drawn is None:
                return Retrieved([], 0, query, notes | {"why": NO_OTHER})
            query, notes = drawn.text, notes | {"query_of": drawn.task_id}
            other = drawn.task_id if own is not None else None
        if self.how == "bm25" and other is None:
            found = self._open().search(query, k, snapshot=snapshot, exclude_task=own)
            return Retrieved(list(found.hits), found.excluded, query, notes)
        tasks = self._tasks(snapshot)
        hidden, mine = self._of(other, snapshot), self._of(own, snapshot)
        ranked = self._ranked(task, query, k + len(hidden) + len(mine), tasks, session)
        ranked = [hit for hit in ranked if hit.id not in hidden]
        excluded = sum(hit.id in mine for hit in ranked[:k])
        return Retrieved([hit for hit in ranked if hit.id not in mine][:k], excluded, query, notes)

    def _ranked(
        self, task: Task, query: str, wanted: int, tasks: Sequence[TraceTask], session: Session
    ) -> list[Hit]:
        size = len(tasks)
        if self.how == "dense":
            return self._by_meaning(query, wanted, size, session)
        if self.how == "random":
            order = list(range(1, size + 1))
            random.Random(session.seed("retrieval")).shuffle(order)
            return [Hit(number, 0.0) for number in order[:wanted]]
        if self.how in TYPED:
            same, looked = self.how == "own_type", wanted
            found: list[Hit] = []
            while len(found) < wanted and looked < 4 * size:
                looked *= 4
                ranked = self._open().search(query, looked, snapshot=size).hits
                found = [hit for hit in ranked if (tasks[hit.id - 1].task_type == task.task_type) is same]
            return found[:wanted]
        return list(self._open().search(query, wanted, snapshot=size).hits)

    def _by_meaning(self, query: str, wanted: int, size: int, session: Session) -> list[Hit]:
        if not size:
            return []
        assert self._vectors is not None
        assert self.embedder is not None
        with self._lock:
            if len(self._dense) < size:
                texts = [one.text for one in self._known[len(self._dense) : size]]
                self._dense.extend(self._vectors.of(texts, self.embedder, session))
            index = self._dense
        # The query is embedded even if a trace has its text: what a call costs must not hang on the order.
        return index.rank(session.embed(self.embedder, [query]), wanted, size)

    def _tasks(self, size: int) -> list[TraceTask]:
        """The tasks of the first `size` traces."""
        with self._lock:
            if len(self._known) < size:
                fresh = self._open().tasks(len(self._known), size)
                self._known += fresh
                for one in fresh:
                    self._traces.setdefault(one.task_id, []).append(one.id)
            return self._known[:size]

    def _of(self, task_id: str | None, size: int) -> set[int]:
        """The traces of one task among the first `size`."""
        if task_id is None:
            return set()
        return {number for number in self._traces.get(task_id, []) if number <= size}

    def _open(self) -> MemoryBank:
        if self._bank is None:
            raise UserError("this memory is not open: call open(folder) first, or run it in a stream")
        return self._bank
