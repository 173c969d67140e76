"""Product search: BM25 with Lucene's formula, number for number.

k1 0.9 and b 0.4 as Anserini has them; a document's length is kept in one byte (Lucene's SmallFloat), scores
are 32-bit, and equal scores stand in the order of their names (Anserini's tie-break).
"""

from __future__ import annotations

import functools
import json
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .words import words

K1 = 0.9
B = 0.4
HITS = 50
"""Most hits of a search."""
SETTINGS = {"ranking": "BM25 (Lucene)", "k1": K1, "b": B, "stemmer": "porter", "hits": HITS}
"""What a run records about its search."""
_ARRAYS = ("starts", "documents", "counts", "norms", "order")
_FREE = 24
"""Lengths below this are exact in Lucene's byte."""


def length_byte(length: int) -> int:
    """The byte that Lucene keeps of a document's length: a float with three bits of mantissa."""
    if length < _FREE:
        return length
    over = length - _FREE
    if over < 8:
        return _FREE + over
    shift = over.bit_length() - 4
    return _FREE + (((over >> shift) & 7) | ((shift + 1) << 3))


def byte_length(byte: int) -> int:
    """The length that a byte of `length_byte` stands for."""
    if byte < _FREE:
        return byte
    over, shift = byte - _FREE, ((byte - _FREE) >> 3) - 1
    return _FREE + (over if shift < 0 else (8 | over & 7) << shift)


class Index(NamedTuple):
    """Postings of a catalogue, a document a product; made by `build`."""

    vocabulary: dict[str, int]
    """Number of each word."""
    starts: NDArray[np.int64]
    """Where the postings of each word begin; one more entry than words."""
    documents: NDArray[np.int32]
    """Document numbers, ascending within a word."""
    counts: NDArray[np.uint16]
    """How often the word stands in that document."""
    norms: NDArray[np.float32]
    """1 / (k1 (1 - b + b length / average length)) of each document."""
    order: NDArray[np.int32]
    """Rank of each document's name among all names: decides between equal scores."""

    def search(self, query: str, hits: int = HITS) -> list[int]:
        """Numbers of the best `hits` documents that hold a word of `query`, best first."""
        total = len(self.norms)
        scores = np.zeros(total)
        one = np.float32(1)
        for word, times in Counter(words(query)).items():
            number = self.vocabulary.get(word)
            if number is None:
                continue
            first, last = self.starts[number], self.starts[number + 1]
            frequency = int(last - first)
            idf = np.float32(np.log(1 + (total - frequency + 0.5) / (frequency + 0.5)))
            weight = np.float32(times) * idf
            documents = self.documents[first:last]
            scores[documents] += weight - weight / (one + self.counts[first:last] * self.norms[documents])
        return self._best(scores.astype(np.float32), hits)

    def _best(self, scores: NDArray[np.float32], hits: int) -> list[int]:
        floor = np.float32(0)
        if len(scores) > hits:
            floor = np.partition(scores, len(scores) - hits)[len(scores) - hits]
        found = np.flatnonzero((scores >= floor) & (scores > 0))
        ranked: list[int] = found[np.lexsort((self.order[found], -scores[found]))][:hits].tolist()
        return ranked

    def save(self, folder: Path) -> None:
        """Write the index into an existing folder."""
        for name in _ARRAYS:
            np.save(folder / f"{name}.npy", getattr(self, name))
        (folder / "vocabulary.json").write_text(json.dumps(list(self.vocabulary)), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Index:
        """The index that `save` wrote; its arrays stay on disk until they are used."""
        listed = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        arrays: dict[str, Any] = {name: np.load(folder / f"{name}.npy", mmap_mode="r") for name in _ARRAYS}
        return cls(vocabulary={word: number for number, word in enumerate(listed)}, **arrays)


def build(texts: Iterable[str], names: Sequence[str]) -> Index:
    """The index of `texts`, read once; `names` hold one name a text and are read after them."""
    vocabulary: dict[str, int] = {}
    terms, counts = array("i"), array("H")
    distinct, lengths = array("i"), array("i")
    for text in texts:
        found = Counter(words(text))
        terms.extend(vocabulary.setdefault(word, len(vocabulary)) for word in found)
        counts.extend(min(times, 65535) for times in found.values())
        distinct.append(len(found))
        lengths.append(sum(found.values()))
    of_term = np.frombuffer(terms, np.int32) if terms else np.zeros(0, np.int32)
    of_count = np.frombuffer(counts, np.uint16) if counts else np.zeros(0, np.uint16)
    sizes = np.array(distinct, np.int32)
    by_term = np.argsort(of_term, kind="stable")
    documents = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[by_term]
    starts = np.concatenate([[0], np.cumsum(np.bincount(of_term, minlength=len(vocabulary)))])
    order = np.empty(len(names), np.int32)
    order[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names), dtype=np.int32)
    return Index(
        vocabulary=vocabulary,
        starts=starts.astype(np.int64),
        documents=documents,
        counts=of_count[by_term],
        norms=_norms(np.array(lengths, np.int64)),
        order=order,
    )


def _norms(lengths: NDArray[np.int64]) -> NDArray[np.float32]:
    filled = int(np.count_nonzero(lengths))
    average = np.float32(lengths.sum() / filled) if filled else np.float32(1)
    kept = np.array([_kept(int(length)) for length in lengths], np.float32)
    k1, b, one = np.float32(K1), np.float32(B), np.float32(1)
    norms: NDArray[np.float32] = one / (k1 * ((one - b) + b * kept / average))
    return norms


@functools.cache
def _kept(length: int) -> int:
    return byte_length(length_byte(length))
