"""Finding items by a text: BM25, or cosine of embeddings that are kept with the items."""

from __future__ import annotations

import sqlite3
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from ..embedding import DenseIndex, Embedder, Vectors, same_width
from ..errors import InfrastructureError, UserError
from ..records import content_hash
from ..retrieval import BM25Index
from ..session import Session

How = Literal["bm25", "dense"]
"""`bm25` compares words, `dense` the meaning as a sentence embedding has it."""


NO_EMBEDDER = "dense retrieval needs an embedder: pass embedder=load_embedder('wordllama')"
"""What is said where one is missing."""


class Found(NamedTuple):
    """One text that was found."""

    place: int
    """Its place in the texts that were searched, from 0."""
    score: float
    """BM25 score or cosine."""


class Finder:
    """Ranks texts by likeness to a query; later texts come first among equals.

    Args:
        how: What is compared.
        embedder: For `dense`.
        tokenizer, idf: For `bm25`, see `retrieval.BM25Index`.

    Raises:
        UserError: Unknown `how`, or `dense` without an embedder.
    """

    def __init__(
        self,
        how: How = "bm25",
        embedder: Embedder | None = None,
        tokenizer: str = "words",
        idf: str = "okapi",
    ) -> None:
        if how not in get_args(How):
            raise UserError(f"retrieval must be one of {', '.join(get_args(How))}, not {how!r}")
        if how == "dense" and embedder is None:
            raise UserError(NO_EMBEDDER)
        BM25Index(tokenizer, idf)
        self.how = how
        self.embedder = embedder
        self._bm25 = (tokenizer, idf)
        self._lock = threading.Lock()
        self._built: OrderedDict[str, Any] = OrderedDict()
        self._vectors: VectorCache | None = None

    def settings(self) -> dict[str, Any]:
        """Everything that changes a ranking."""
        if self.how == "dense" and self.embedder is not None:
            return {"how": self.how, "embedder": self.embedder.identity()}
        return {"how": self.how, "tokenizer": self._bm25[0], "idf": self._bm25[1]}

    def open(self, path: Path | None) -> None:
        """Keep vectors in the SQLite file at `path` (None: in main memory)."""
        if self.how == "dense":
            self._vectors = VectorCache(path)

    def close(self) -> None:
        """Close the file; calling it twice is fine."""
        if self._vectors is not None:
            self._vectors.close()
            self._vectors = None

    def learn(self, texts: Sequence[str], session: Session) -> None:
        """Embed texts when they are written, so that finding them later embeds the query only."""
        if self.how == "dense" and texts:
            self._embed(texts, session)

    def find(self, query: str, texts: Sequence[str], k: int, session: Session) -> list[Found]:
        """The `k` texts most like `query`, best first.

        Raises:
            InfrastructureError: The embedder failed.
        """
        if not texts or k < 1:
            return []
        index = self._index(texts, session)
        if isinstance(index, DenseIndex):
            # Not kept: what a file holds would hang on which of a batch's threads came first.
            assert self.embedder is not None
            hits = index.rank(session.embed(self.embedder, [query]), k)
        else:
            hits = index.rank(query, k)
        return [Found(hit.id - 1, hit.score) for hit in hits]

    def likeness(self, text: str, others: Sequence[str], session: Session) -> float:
        """The largest cosine of a text with others, 0 for none; with BM25 1 for an equal text, else 0.

        For texts that are kept: their vectors are.
        """
        if self.how != "dense" or not others:
            return float(text in others)
        vectors = self._embed([text, *others], session)
        return float((vectors[1:] @ vectors[0]).max())

    def _index(self, texts: Sequence[str], session: Session) -> DenseIndex | BM25Index:
        """The index of these texts; the last few are kept, since a batch searches one snapshot."""
        digest = content_hash(list(texts), 32)
        with self._lock:
            if digest in self._built:
                self._built.move_to_end(digest)
                found: DenseIndex | BM25Index = self._built[digest]
                return found
        if self.how == "dense":
            dense = DenseIndex()
            dense.extend(self._embed(texts, session))
            made: DenseIndex | BM25Index = dense
        else:
            made = BM25Index(*self._bm25)
            made.extend(texts)
        with self._lock:
            self._built[digest] = made
            while len(self._built) > 4:
                self._built.popitem(last=False)
        return made

    def _embed(self, texts: Sequence[str], session: Session) -> Vectors:
        assert self.embedder is not None
        if self._vectors is None:
            raise UserError("open the memory before it is asked")
        return self._vectors.of(texts, self.embedder, session)


class VectorCache:
    """Vectors by text in a SQLite file: no text is embedded twice."""

    def __init__(self, path: Path | None) -> None:
        self._lock = threading.Lock()
        self._known: dict[str, Any] = {}
        self._db = sqlite3.connect(
            ":memory:" if path is None else path, timeout=60.0, check_same_thread=False, isolation_level=None
        )
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS item_vectors (text TEXT PRIMARY KEY, vector BLOB NOT NULL)"
        )

    def of(self, texts: Sequence[str], embedder: Embedder, session: Session) -> Vectors:
        """The vectors of texts, one row each; those not known are embedded in one call and kept.

        Raises:
            InfrastructureError: The embedder failed, or gave vectors of another width than before.
        """
        kept = self.get(texts)
        owed = sorted({text for text in texts if text not in kept})
        if owed:
            vectors = session.embed(embedder, owed)
            if (width := self.width()) is not None:
                same_width(vectors, width)
            fresh = dict(zip(owed, vectors, strict=True))
            self.put(fresh)
            kept |= fresh
        return np.stack([kept[text] for text in texts])

    def width(self) -> int | None:
        """How many numbers a kept vector has; None where there is none."""
        with self._lock:
            row = self._run("SELECT length(vector) FROM item_vectors LIMIT 1").fetchone()
        return None if row is None else int(row[0]) // 4

    def get(self, texts: Sequence[str]) -> dict[str, Any]:
        """The vectors that are known, by text."""
        with self._lock:
            owed = {_key(text): text for text in texts if text not in self._known}
            keys = list(owed)
            for start in range(0, len(keys), 500):
                some = keys[start : start + 500]
                among = ", ".join("?" * len(some))
                rows = self._run(f"SELECT text, vector FROM item_vectors WHERE text IN ({among})", *some)
                for key, vector in rows.fetchall():
                    self._known[owed[key]] = np.frombuffer(vector, dtype=np.float32)
            return {text: self._known[text] for text in texts if text in self._known}

    def put(self, vectors: dict[str, Any]) -> None:
        """Keep vectors, all in one transaction; those that are known stay."""
        with self._lock:
            self._run("BEGIN IMMEDIATE")
            try:
                for text, vector in vectors.items():
                    row = (_key(text), vector.astype(np.float32).tobytes())
                    self._run("INSERT OR IGNORE INTO item_vectors VALUES (?, ?)", *row)
                self._run("COMMIT")
            except BaseException:
                self._db.rollback()
                raise
            self._known |= vectors

    def _run(self, statement: str, *values: Any) -> Any:
        try:
            return self._db.execute(statement, values)
        except sqlite3.Error as error:
            raise InfrastructureError(f"the store of vectors failed: {error}") from error

    def close(self) -> None:
        """Close the file; calling it twice is fine."""
        with self._lock:
            self._db.close()


def _key(text: str) -> str:
    return content_hash(text, 40)
