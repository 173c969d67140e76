"""The bank: trajectories in one SQLite file, appended durably, searched by BM25 over their task sentences.

SQLite (WAL) holds the truth; the index is derived from it and follows it by id, so any number of
readers can sit beside a writer. Beside `bank.sqlite` lies `bank.sqlite.index.npz`, a copy of the index
that makes opening a large bank fast; it is checked against the database and can be deleted at any time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .bank_store import FACTS, decode, encode, explained, open_store, transaction
from .errors import InfrastructureError, UserError
from .frames import frame
from .records import Trajectory
from .retrieval import EPSILON, K1, B, BM25Index, Contribution, SearchResult, load_index, save_index

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MemoryBank", "StoredTrace", "TraceTask"]

_AUTOSAVE = 5_000
"""From so many traces on, rebuilding the index takes long enough to be worth a file."""


class StoredTrace(NamedTuple):
    """A trajectory of the bank."""

    id: int
    """Its id: 1 is the oldest."""
    key: str
    """The unique key it was appended under."""
    trajectory: Trajectory
    """The trajectory, as it was appended."""
    labels: dict[str, Any]
    """What was known about it then, e.g. the gate's verdict."""


class TraceTask(NamedTuple):
    """The task of a trace, read without the trajectory."""

    id: int
    """The trace's id."""
    task_id: str
    """The task's id."""
    task_type: str
    """The benchmark's own type of task."""
    text: str
    """The text that retrieval compares."""


class MemoryBank:
    """Append-only trajectories with exact, incremental BM25. Safe for threads; one process writes at a time.

    Args:
        path: The SQLite file, created if missing; `:memory:` keeps the bank in memory.
        read_only: Open an existing bank without ever writing to it.
        tokenizer: A name in `retrieval.TOKENIZERS`.
        idf: `okapi` (rank-bm25's ranking) or `lucene` (never negative).

    Raises:
        UserError: For a missing folder or file, a file that isn't a bank (left untouched), a bank of a
            newer version, an unknown tokenizer or idf.
        InfrastructureError: When the file stays locked for 30 seconds, or the disk fails.
    """

    def __init__(
        self,
        path: str | Path = ":memory:",
        *,
        read_only: bool = False,
        tokenizer: str = "words",
        idf: str = "okapi",
    ) -> None:
        BM25Index(tokenizer, idf)
        self.path: Path | None = None if str(path) == ":memory:" else Path(path)
        self.read_only = read_only
        self.tokenizer, self.idf = tokenizer, idf
        self._lock = threading.RLock()
        self._index: BM25Index | None = None
        self._saved = 0
        with explained(self.path):
            self._db = open_store(self.path, read_only)
            self._uid = str(self._one("SELECT value FROM about WHERE name = 'uid'"))

    def __enter__(self) -> MemoryBank:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        with self._reading():
            return int(self._one("SELECT coalesce(max(id), 0) FROM traces"))

    def append(self, items: Sequence[tuple[str, Trajectory, Mapping[str, Any]]]) -> list[int]:
        """Store `(key, trajectory, labels)` in one durable transaction and return their ids, in order.

        A key that the bank already holds is ignored and its id returned, so repeating an append after a
        crash neither loses nor doubles anything. All are stored or none. Numbers in labels that aren't
        finite are kept as None.

        Raises:
            UserError: When the bank is read-only, or something isn't JSON.
            InfrastructureError: When the bank stays locked or the disk fails; nothing was stored.
        """
        if self.read_only:
            raise UserError("this bank is open for reading only; open it without read_only to append")
        rows = [encode(*item) for item in items]
        if not rows:
            return []
        with self._reading():
            ids = []
            with transaction(self._db):
                last = self._db.execute("SELECT id, chain FROM traces ORDER BY id DESC LIMIT 1").fetchone()
                size, chain = last or (0, b"")
                for row in rows:
                    known = self._db.execute("SELECT id FROM traces WHERE key = ?", (row.key,)).fetchone()
                    if known:
                        ids.append(int(known[0]))
                        continue
                    size += 1
                    chain = hashlib.sha256(chain + row.key.encode() + row.text.encode()).digest()[:16]
                    values = (size, *row[:5], time.time(), chain)
                    self._db.execute("INSERT INTO traces VALUES (?, ?, ?, ?, ?, ?, ?, ?)", values)
                    self._db.execute("INSERT INTO bodies VALUES (?, ?)", (size, row.body))
                    ids.append(size)
            if self._index is not None:
                self._follow()
            return ids

    def snapshot(self) -> int:
        """Number of traces now; searching with it later ranks as if no more had come."""
        return len(self)

    def get(self, trace_id: int) -> StoredTrace:
        """The trace with this id; `UserError` if there is none."""
        query = "SELECT key, labels, trajectory FROM traces JOIN bodies USING (id) WHERE id = ?"
        found = None
        if 0 < trace_id < 2**63:
            with self._reading():
                found = self._db.execute(query, (int(trace_id),)).fetchone()
        if found is None:
            raise UserError(f"the bank has no trace {trace_id}; its ids are 1 to {len(self)}")
        return StoredTrace(int(trace_id), json.loads(found[0]), decode(found[2]), json.loads(found[1]))

    def tasks(self, after: int = 0, last: int | None = None) -> list[TraceTask]:
        """The tasks of the traces from `after` + 1 to `last` (None: to the newest), in order."""
        query = "SELECT id, task, text, facts FROM traces WHERE id > ? AND id <= ? ORDER BY id"
        with self._reading():
            rows = self._db.execute(query, (after, 2**62 if last is None else last)).fetchall()
        read = json.loads
        return [
            TraceTask(n, read(task), read(facts)["task_type"], read(text)) for n, task, text, facts in rows
        ]

    def search(
        self, query: str, k: int, *, snapshot: int | None = None, exclude_task: str | None = None
    ) -> SearchResult:
        """The `k` traces whose task sentences rank best for `query`.

        Fewer than `k` only if the bank holds fewer. A query without known words gets the newest traces,
        with score 0. Equal scores: the newer trace first.

        Args:
            query: Any text, the empty one included.
            k: Number of traces wanted.
            snapshot: Rank exactly as a bank that holds only its first `snapshot` traces; all by default,
                those included that another process has appended meanwhile.
            exclude_task: Leave out the traces of this task id. They still count as documents.

        Raises:
            UserError: For a negative `k`, or a snapshot that the bank never had.
        """
        with self._reading():
            index, size = self._at(k, snapshot)
            hits = index.rank(query, k, size)
            own: set[int] = set()
            if exclude_task is not None:
                select = "SELECT id FROM traces WHERE task = ? AND id <= ?"
                own = {int(row[0]) for row in self._db.execute(select, (json.dumps(exclude_task), size))}
            excluded = sum(hit.id in own for hit in hits)
            if excluded:
                hits = [hit for hit in index.rank(query, k + len(own), size) if hit.id not in own][:k]
            return SearchResult(tuple(hits), excluded)

    def explain(self, query: str, *, snapshot: int | None = None, k: int = 3) -> list[Contribution]:
        """What each query term adds to the score of each of the top `k`, as rows for a `pandas.DataFrame`."""
        with self._reading():
            index, size = self._at(k, snapshot)
            return index.explain(query, k, size)

    def frame(self) -> pd.DataFrame:
        """One row a trace: id, key, task, number of steps, outcome, reward, `added`, `label_…` columns."""
        with self._reading():
            rows = self._db.execute("SELECT id, key, facts, labels, added FROM traces ORDER BY id").fetchall()
        columns = ["id", "key", *FACTS, "added"]
        data = [
            {"id": number, "key": json.loads(key), **json.loads(facts), "added": added}
            | {f"label_{name}": value for name, value in json.loads(labels).items()}
            for number, key, facts, labels, added in rows
        ]
        found = frame(data, None if data else columns)
        return found[columns + [name for name in found.columns if name not in columns]]

    def refresh(self) -> int:
        """Take in what others have appended; the number of traces now. `search` does it by itself."""
        with self._reading():
            return self._follow()

    def settings(self) -> dict[str, Any]:
        """Everything that changes a ranking."""
        return {
            "tokenizer": self.tokenizer,
            "idf": self.idf,
            "k1": K1,
            "b": B,
            "epsilon": EPSILON,
            "ties": "newer first",
        }

    def save_index(self) -> Path | None:
        """Write the index beside the database, so that the next opening is fast; its path, None in memory.

        Raises:
            UserError: When the bank is read-only.
            InfrastructureError: When the file can't be written.
        """
        if self.read_only:
            raise UserError("this bank is open for reading only; open it without read_only to save its index")
        path = self._index_path
        if path is None:
            return None
        with self._reading():
            size = self._follow()
            chain = self._chain(size)
            assert self._index is not None
            save_index(self._index, path, {"uid": self._uid, "size": size, "chain": chain})
            self._saved = size
        return path

    def close(self) -> None:
        """Close the file, after saving the index of a large bank that has grown; closing twice is fine."""
        with self._lock:
            try:
                size = len(self._index) if self._index is not None else 0
                grown = size >= _AUTOSAVE and size > self._saved * 1.1
                if grown and not self.read_only and self._index_path is not None:
                    with contextlib.suppress(InfrastructureError):
                        self.save_index()
            finally:
                self._index = None
                self._db.close()

    @property
    def _index_path(self) -> Path | None:
        return None if self.path is None else self.path.with_name(self.path.name + ".index.npz")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        with self._lock, explained(self.path):
            yield

    def _one(self, query: str, *values: Any) -> Any:
        row = self._db.execute(query, values).fetchone()
        return row[0] if row else None

    def _at(self, k: int, snapshot: int | None) -> tuple[BM25Index, int]:
        if k < 0:
            raise UserError(f"k is {k}; ask for 0 or more traces")
        if self._index is None or snapshot is None or snapshot > len(self._index):
            self._follow()
        assert self._index is not None
        size = len(self._index) if snapshot is None else snapshot
        if not 0 <= size <= len(self._index):
            raise UserError(f"the bank has {len(self._index)} traces; it never had a snapshot {snapshot}")
        return self._index, size

    def _follow(self) -> int:
        """Bring the index up to the database; the number of traces."""
        if self._index is None:
            self._index = self._load()
        index = self._index
        last = int(self._one("SELECT coalesce(max(id), 0) FROM traces"))
        if last > len(index):
            rows = self._db.execute(
                "SELECT text FROM traces WHERE id > ? AND id <= ? ORDER BY id", (len(index), last)
            )
            try:
                index.extend(json.loads(row[0]) for row in rows)
            except BaseException:  # half-added postings are worse than none: build anew next time
                self._index = None
                raise
        return last

    def _load(self) -> BM25Index:
        """The saved index if it belongs to this very bank, else an empty one."""
        path = self._index_path
        if path is not None and path.exists():
            # Any fault of the file means the same: it's only a copy, so leave it and build anew.
            with contextlib.suppress(Exception):
                index, stamp = load_index(path, self.tokenizer, self.idf)
                size = len(index)
                fits = stamp["uid"] == self._uid and stamp["size"] == size
                if fits and stamp["chain"] == self._chain(size):
                    self._saved = size
                    return index
        return BM25Index(self.tokenizer, self.idf)

    def _chain(self, size: int) -> str | None:
        """Digest of the first `size` traces' keys and texts; None when the bank holds fewer."""
        chain = self._one("SELECT chain FROM traces WHERE id = ?", size)
        return None if chain is None else chain.hex()
