"""Postings of a growing collection, and the exact top-k search over them.

Postings live in one arena: each term owns a slot of it, holding document numbers (from 0, ascending)
and term frequencies side by side. A term that outgrows its slot moves to the arena's free end with
room to spare; when the end is full, the arena is packed anew. So an insert costs microseconds and
a posting 5 to 6 bytes.

`top_k` is MaxScore (Turtle and Flood 1995) worked in windows of documents, newest first. Terms whose
bounds together cannot lift a document over the k-th score are not walked, only looked up.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UserError

Ints = NDArray[np.integer[Any]]
Floats = NDArray[np.float64]

MAX_DOCUMENTS = 2**31 - 1
WINDOW = 2048
"""Documents per window: the accumulator stays in the first-level cache."""
LEVELS = 4
"""Frequencies 1, 2, 3, and 4 or more are bounded apart."""
_FEW = 32
"""Up to so many new documents are put in one by one; more are merged in bulk."""
_COMPILED: dict[str, Callable[..., Any]] = {}
_COMPILE_LOCK = threading.Lock()


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` compiled by numba, from numba's disk cache where a cache folder can be written."""
    name = function.__name__
    with _COMPILE_LOCK:
        if name not in _COMPILED:
            import numba

            try:
                _COMPILED[name] = numba.njit(cache=True, nogil=True)(function)
            except RuntimeError:  # numba found no folder it may write to
                _COMPILED[name] = numba.njit(nogil=True)(function)
        return _COMPILED[name]


def top_k(
    ids: Ints,
    counts: Ints,
    lengths: Ints,
    start: Ints,
    end: Ints,
    weight: Floats,
    order: Ints,
    prefix: Floats,
    base: float,
    scale: float,
    k: int,
    acc: Floats,
    out_id: Ints,
    out_score: Floats,
) -> int:
    """Fill the k best documents by (score, newest first) and return how many matched at all, at most k.

    A document's score is the sum over terms, in the order given, of
    `weight * f / (f + base + scale * length)`. Partial sums that decide what is skipped are compared
    with a margin of 1e-12; the scores themselves always come from the same sum in the same order, so
    equal documents have equal bits.

    Args:
        ids: Arena of document numbers.
        counts: Arena of term frequencies.
        lengths: Tokens of each document.
        start: First posting of each query term.
        end: One past its last posting.
        weight: Weight of each query term, >= 0.
        order: The query terms, those first that are the least worth walking.
        prefix: The most that the first of `order`, the first two, the first three … can add to a score.
        base: k1 (1 - b).
        scale: k1 b / average length.
        k: Number of documents wanted, >= 1.
        acc: Zeros, one for each document of a window.
        out_id: Receives document numbers.
        out_score: Receives scores.
    """
    terms = len(start)
    slack = 1.0 + 1e-12
    window = len(acc)
    ptr = end - 1
    top = end - 1
    first, filled, theta = 0, 0, -1.0
    while True:
        if filled == k:
            while first < terms and prefix[first] * slack <= theta:
                first += 1
        newest = -1
        for i in range(first, terms):
            t = order[i]
            if ptr[t] >= start[t] and ids[ptr[t]] > newest:
                newest = ids[ptr[t]]
        if newest < 0:
            return filled
        low = newest - window + 1
        for i in range(first, terms):
            t = order[i]
            p = ptr[t]
            top[t] = p
            w = weight[t]
            while p >= start[t] and ids[p] >= low:
                d = ids[p]
                f = counts[p]
                acc[d - low] += w * f / (f + base + scale * lengths[d])
                p -= 1
            ptr[t] = p
        rest = prefix[first - 1] if first > 0 else 0.0
        for j in range(window - 1, -1, -1):
            partial = acc[j]
            if partial == 0.0:
                continue
            acc[j] = 0.0
            d = low + j
            if filled == k:
                if (partial + rest) * slack <= theta:
                    continue
                dead = False
                for i in range(first - 1, -1, -1):
                    if (partial + prefix[i]) * slack <= theta:
                        dead = True
                        break
                    t = order[i]
                    # Candidates come newest first, so this pointer only ever moves down: gallop.
                    p = ptr[t]
                    step = 1
                    while p - step >= start[t] and ids[p - step] > d:
                        p -= step
                        step *= 2
                    below = max(p - step, start[t] - 1)
                    while p > below and ids[p] > d:
                        middle = (p + below + 1) // 2
                        if ids[middle] > d:
                            p = middle - 1
                        else:
                            below = middle
                            if ids[middle] == d:
                                p = middle
                                break
                    ptr[t] = p
                    top[t] = p
                    if p >= start[t] and ids[p] == d:
                        f = counts[p]
                        partial += weight[t] * f / (f + base + scale * lengths[d])
                if dead or partial * slack <= theta:
                    continue
            score = 0.0
            for t in range(terms):
                left = max(ptr[t], start[t])
                right = top[t] + 1
                while left < right:
                    middle = (left + right) // 2
                    if ids[middle] < d:
                        left = middle + 1
                    else:
                        right = middle
                if left <= top[t] and ids[left] == d:
                    f = counts[left]
                    score += weight[t] * f / (f + base + scale * lengths[d])
            if filled == k and score <= theta:
                continue
            slot = filled if filled < k else k - 1
            while slot > 0 and out_score[slot - 1] < score:
                out_score[slot] = out_score[slot - 1]
                out_id[slot] = out_id[slot - 1]
                slot -= 1
            out_score[slot] = score
            out_id[slot] = d
            filled = min(filled + 1, k)
            if filled == k:
                theta = out_score[k - 1]


def counts_before(ids: Ints, start: Ints, length: Ints, document: int) -> NDArray[np.int64]:
    """How many documents numbered below `document` hold each term."""
    out = np.empty(len(start), np.int64)
    for t in range(len(start)):
        left, right = start[t], start[t] + length[t]
        while left < right:
            middle = (left + right) // 2
            if ids[middle] < document:
                left = middle + 1
            else:
                right = middle
        out[t] = left - start[t]
    return out


def _resized(values: Ints, size: int) -> Ints:
    out = np.zeros((size, *values.shape[1:]), values.dtype)
    out[: len(values)] = values
    return out


def _runs(begin: Ints, length: Ints) -> Ints:
    """`begin[i], begin[i] + 1, … begin[i] + length[i] - 1` for each i, one after another."""
    total = int(length.sum())
    offset = np.cumsum(length) - length
    return np.repeat(begin - offset, length) + np.arange(total, dtype=np.int64)


class Postings:
    """Which documents hold which terms; documents and terms are numbered from 0 as they come.

    `spectrum` says how many terms occur in exactly so many documents: the average idf follows from it
    without a walk over the vocabulary.
    """

    def __init__(self) -> None:
        self.vocabulary: dict[str, int] = {}
        self.spectrum: Counter[int] = Counter()
        self.documents = 0
        self.tokens = 0
        self.lengths: Ints = np.zeros(64, np.int32)
        self.start: Ints = np.zeros(64, np.int64)
        self.length: Ints = np.zeros(64, np.int64)
        self.room: Ints = np.zeros(64, np.int64)
        self.max_count: Ints = np.zeros(64, np.int32)
        self.shortest: Ints = np.zeros((64, LEVELS), np.int32)
        self.ids: Ints = np.zeros(256, np.int32)
        self.counts: Ints = np.zeros(256, np.uint8)
        self.free = 0

    @property
    def terms(self) -> int:
        """Number of distinct terms."""
        return len(self.vocabulary)

    def extend(self, texts: Iterable[list[str]]) -> None:
        """Add documents, each a list of tokens. An exception midway leaves the postings unusable."""
        known = self.vocabulary
        flat, sizes = array("i"), array("i")
        for tokens in texts:
            flat.extend([known.setdefault(token, len(known)) for token in tokens])
            sizes.append(len(tokens))
        if self.documents + len(sizes) > MAX_DOCUMENTS:
            raise UserError("the bank is full at 2,147,483,647 traces; start another one")
        if not sizes:
            return
        lengths = np.frombuffer(sizes, np.int32)
        terms = np.frombuffer(flat, np.int32) if flat else np.zeros(0, np.int32)
        self._make_room(lengths)
        if len(sizes) <= max(_FEW, self.documents // 64):
            offset = 0
            for size in sizes:
                self._add(terms[offset : offset + size], size)
                offset += size
        else:
            self._merge(terms, lengths)
        self.tokens += int(lengths.sum(dtype=np.int64))

    def _make_room(self, lengths: Ints) -> None:
        total = self.documents + len(lengths)
        if total > len(self.lengths):
            self.lengths = _resized(self.lengths, total + total // 8 + 64)
        self.lengths[self.documents : total] = lengths
        if self.terms > len(self.start):
            size = self.terms + self.terms // 4 + 64
            for name in ("start", "length", "room", "max_count", "shortest"):
                setattr(self, name, _resized(getattr(self, name), size))

    def _add(self, tokens: Ints, size: int) -> None:
        terms, counts = np.unique(tokens, return_counts=True)
        if len(terms):
            self._widen(int(counts.max()))
        full = terms[self.length[terms] == self.room[terms]]
        for t in full:
            held = int(self.length[t])
            room = held + held // 4 + 4
            if self.free + room > len(self.ids):
                self._pack()
                break
            old, new = int(self.start[t]), self.free
            self.ids[new : new + held] = self.ids[old : old + held]
            self.counts[new : new + held] = self.counts[old : old + held]
            self.start[t], self.room[t] = new, room
            self.free += room
        at = self.start[terms] + self.length[terms]
        self.ids[at] = self.documents
        self.counts[at] = counts
        self._bound(terms, counts, np.full(len(terms), size))
        before = self.length[terms]
        self.spectrum.subtract(before[before > 0].tolist())
        self.spectrum.update((before + 1).tolist())
        self.length[terms] += 1
        self.documents += 1

    def _bound(self, terms: Ints, counts: Ints, lengths: Ints) -> None:
        """Keep each term's highest count, and its shortest document for a count of 1, 2, 3, and more."""
        level = np.minimum(counts, LEVELS) - 1
        known = self.shortest[terms, level]
        self.shortest[terms, level] = np.where(known > 0, np.minimum(known, lengths), lengths)
        self.max_count[terms] = np.maximum(self.max_count[terms], counts)

    def _bound_all(self, terms: Ints, counts: Ints, lengths: Ints) -> None:
        """`_bound` for postings in which terms repeat, a level at a time."""
        for level in range(1, LEVELS + 1):
            chosen = np.flatnonzero(counts == level if level < LEVELS else counts >= level)
            if len(chosen):
                present, first = np.unique(terms[chosen], return_index=True)
                highest = np.maximum.reduceat(counts[chosen], first)
                self._bound(present, highest, np.minimum.reduceat(lengths[chosen], first))

    def most(self, terms: Ints, base: float, scale: float) -> Floats:
        """An upper bound of f / (f + base + scale * length) over each term's documents.

        More occurrences raise it and more tokens lower it, so the shortest document of each level is enough.
        """
        f = np.broadcast_to(np.arange(1.0, LEVELS + 1), (len(terms), LEVELS)).copy()
        f[:, -1] = np.maximum(self.max_count[terms], LEVELS)
        shortest = self.shortest[terms]
        best: Floats = np.where(shortest > 0, f / (f + base + scale * shortest), 0.0).max(axis=1)
        return best

    def _widen(self, count: int) -> None:
        # One byte a frequency is enough for nearly every bank; a text that says a word 256 times gets four.
        if count > np.iinfo(self.counts.dtype).max:
            self.counts = self.counts.astype(np.uint32)

    def _merge(self, tokens: Ints, lengths: Ints) -> None:
        """Add many documents at once by one sort of their (term, document) pairs."""
        document = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        pairs, counts = np.unique(tokens * np.int64(len(lengths)) + document, return_counts=True)
        del document
        terms, local = np.divmod(pairs, len(lengths))
        del pairs
        if len(counts):
            self._widen(int(counts.max()))
        added = np.bincount(terms, minlength=self.terms)
        self._pack(added)
        at = _runs(self.start[: self.terms] + self.length[: self.terms], added)
        self.ids[at] = local + self.documents
        self.counts[at] = counts
        self._bound_all(terms, counts, lengths[local])
        self.length[: self.terms] += added
        self.documents += len(lengths)
        self._count_spectrum()

    def _count_spectrum(self) -> None:
        held, terms = np.unique(self.length[: self.terms], return_counts=True)
        self.spectrum = Counter(dict(zip(held.tolist(), terms.tolist(), strict=True)))
        self.spectrum.pop(0, None)

    def _pack(self, added: Ints | None = None) -> None:
        """Lay the slots out afresh, with room for `added` postings a term, spare room, and a free end."""
        n = self.terms
        start, length = self.start[:n], self.length[:n]
        need = length if added is None else length + added
        room = need + need // 8 + 2
        fresh = np.cumsum(room) - room
        used = int(room.sum())
        size = used + used // 4 + 1024
        ids, counts = np.empty(size, np.int32), np.empty(size, self.counts.dtype)
        # Term by term for the few long lists, in one gather for the many short ones: no large temporaries.
        long = np.flatnonzero(length > 4096)
        for t in long:
            ids[fresh[t] : fresh[t] + length[t]] = self.ids[start[t] : start[t] + length[t]]
            counts[fresh[t] : fresh[t] + length[t]] = self.counts[start[t] : start[t] + length[t]]
        short = np.flatnonzero(length <= 4096)
        source, target = _runs(start[short], length[short]), _runs(fresh[short], length[short])
        ids[target], counts[target] = self.ids[source], self.counts[source]
        self.ids, self.counts, self.free = ids, counts, used
        self.start[:n], self.room[:n] = fresh, room

    def packed(self) -> dict[str, Ints]:
        """Arrays that `unpack` takes back, without spare room."""
        n = self.terms
        at = _runs(self.start[:n], self.length[:n])
        return {
            "ids": self.ids[at],
            "counts": self.counts[at],
            "lengths": self.lengths[: self.documents],
            "length": self.length[:n],
            "max_count": self.max_count[:n],
            "shortest": self.shortest[:n].ravel(),
        }

    @classmethod
    def unpack(cls, vocabulary: list[str], arrays: dict[str, Ints]) -> Postings:
        """Postings from `packed` arrays and the terms in order; `ValueError` if they don't fit together."""
        self = cls()
        self.vocabulary = {term: number for number, term in enumerate(vocabulary)}
        for name in ("ids", "counts", "lengths", "length", "max_count", "shortest"):
            if arrays[name].ndim != 1 or arrays[name].dtype.kind not in "iu":
                raise ValueError(f"{name} is not an array of whole numbers")
            setattr(self, name, arrays[name])
        self.shortest = self.shortest.reshape(-1, LEVELS)
        self.documents = len(self.lengths)
        self.tokens = int(self.lengths.sum(dtype=np.int64))
        self.room = self.length.copy()
        self.start = np.cumsum(self.length) - self.length
        self.free = len(self.ids)
        per_term = {len(self.length), len(self.max_count), len(self.shortest), self.terms, len(vocabulary)}
        total = int(self.length.sum())
        inside = not total or (self.ids.min() >= 0 and self.ids.max() < self.documents)
        if len(per_term) != 1 or {total, len(self.counts)} != {len(self.ids)} or not inside:
            raise ValueError("the arrays do not belong together")
        if self.terms and self.length.min() < 0:
            raise ValueError("a term has a negative number of documents")
        self._count_spectrum()
        return self
