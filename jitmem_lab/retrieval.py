"""BM25 over a growing bank: tokenizers, idf variants, exact ranking at any earlier size, explanations.

The ranking with `idf="okapi"` is that of rank-bm25 0.2.2's `BM25Okapi` at its defaults (k1 1.5, b 0.75,
epsilon 0.25): idf(t) = ln(N - n + 0.5) - ln(n + 0.5), and a term whose idf is below zero gets epsilon
times the average idf of the vocabulary instead. On one or two documents that average is itself zero or
negative, so scores are too; nothing here filters by sign. `idf="lucene"` is ln(1 + (N - n + 0.5) /
(n + 0.5)), which is never negative and puts the matching trace first from the first one on.

Equal scores: the newer trace comes first.
"""

from __future__ import annotations

import json
import math
import os
import re
import unicodedata
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .bm25 import WINDOW, Postings, compiled, counts_before, top_k
from .errors import UserError

K1, B, EPSILON = 1.5, 0.75, 0.25
"""rank-bm25 0.2.2's defaults for `BM25Okapi`."""
IDFS = ("okapi", "lucene")

_DENSE_DOCUMENTS = 2048
"""Up to this size a plain scan in numpy is as fast as the compiled search, and needs no compiler."""
_DENSE_K = 128
_MANY_TERMS = 2048
_KEPT_STATES = 16

_ASCII_WORD = re.compile(r"\w+")
# One token a character where words are not set apart by spaces: Han, kana, and their iteration marks.
_SINGLE = re.compile(
    "[\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)


class Hit(NamedTuple):
    """One retrieved trace."""

    id: int
    """Its id in the bank."""
    score: float
    """BM25 score; can be negative with the Okapi idf on tiny banks."""


class SearchResult(NamedTuple):
    """What a search found."""

    hits: tuple[Hit, ...]
    """The best traces, best first."""
    excluded: int
    """How many traces of the asking task would have been among the top k."""


class Contribution(NamedTuple):
    """What one query term adds to the score of one hit; a list of these makes a pandas frame."""

    rank: int
    """Rank of the hit, 1 is the best."""
    id: int
    """The hit's id in the bank."""
    score: float
    """The hit's score: the sum of its contributions."""
    term: str
    """The query term."""
    query_count: int
    """How often the query says it."""
    idf: float
    """Its inverse document frequency in this snapshot, floor applied."""
    documents: int
    """In how many documents of the snapshot it occurs."""
    tf: int
    """How often it occurs in the hit."""
    length: int
    """Tokens of the hit."""
    contribution: float
    """What it adds to the score."""


def words(text: str) -> list[str]:
    """Unicode words of `text` after NFKC and lower-casing; single characters kept, Han and kana split.

    `cabinet 1` and `cabinet 2` differ, NFC and NFD spellings don't; combining marks stay in their word.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    text = unicodedata.normalize("NFKC", text).lower()
    out: list[str] = []
    word: list[str] = []
    for char in text:
        if _SINGLE.match(char):
            out += ["".join(word), char] if word else [char]
            word = []
        elif char.isalnum() or char == "_" or (word and unicodedata.category(char)[0] == "M"):
            word.append(char)
        elif word:
            out.append("".join(word))
            word = []
    if word:
        out.append("".join(word))
    return out


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "words": words,
    "whitespace": str.split,
    "lower-whitespace": lambda text: text.lower().split(),
}
"""`words`, `whitespace` (the paper's authors': case kept), `lower-whitespace`."""


class _State(NamedTuple):
    """What a search needs to know of the collection as it was at one size."""

    documents: int
    average_length: float
    average_idf: float


class _Query(NamedTuple):
    """A query's known terms against one state, in the order in which it first says them."""

    terms: list[str]
    numbers: list[int]
    repeats: list[int]
    held: NDArray[np.int64]
    idf: list[float]


class BM25Index:
    """Ranks documents, numbered from 1 as they are added. Not safe for threads; the bank locks it.

    Args:
        tokenizer: A name in `TOKENIZERS`.
        idf: `okapi` or `lucene`.

    Raises:
        UserError: For an unknown tokenizer or idf.
    """

    def __init__(self, tokenizer: str = "words", idf: str = "okapi") -> None:
        if tokenizer not in TOKENIZERS:
            raise UserError(f"unknown tokenizer {tokenizer!r}; choose one of {', '.join(TOKENIZERS)}")
        if idf not in IDFS:
            raise UserError(f"unknown idf {idf!r}; choose one of {', '.join(IDFS)}")
        self.tokenizer, self.idf = tokenizer, idf
        self.postings = Postings()
        self._tokens = TOKENIZERS[tokenizer]
        self._states: OrderedDict[int, _State] = OrderedDict()

    def __len__(self) -> int:
        return self.postings.documents

    def extend(self, texts: Iterable[str]) -> None:
        """Add documents. After an exception midway, build the index anew."""
        tokens = self._tokens
        self.postings.extend(tokens(text) for text in texts)

    def rank(self, query: str, k: int, size: int | None = None) -> list[Hit]:
        """The best `k` of the first `size` documents (all by default), exactly as if there were no others.

        Documents that share no word with the query come last, with score 0 (or above negative scores).
        """
        state = self._state(len(self) if size is None else size)
        k = min(k, state.documents)
        if k <= 0:
            return []
        parsed = self._parse(query, state)
        weight = np.array([r * idf * (K1 + 1) for r, idf in zip(parsed.repeats, parsed.idf, strict=True)])
        keep = np.flatnonzero((weight != 0) & (parsed.held > 0))
        numbers = np.array(parsed.numbers, np.int64)[keep]
        weight, held = weight[keep], parsed.held[keep]
        start = self.postings.start[numbers]
        small = state.documents <= _DENSE_DOCUMENTS or k > _DENSE_K
        if small or (len(weight) and weight.min() < 0):
            return self._scan(start, start + held, weight, state, k)
        return self._search(numbers, start, start + held, weight, state, k)

    def explain(self, query: str, k: int, size: int | None = None) -> list[Contribution]:
        """What each distinct query term adds to each of the best `k` documents, terms not held included."""
        state = self._state(len(self) if size is None else size)
        parsed = self._parse(query, state)
        postings, rows = self.postings, []
        base, scale = self._norm(state)
        for rank, hit in enumerate(self.rank(query, k, size), 1):
            length = int(postings.lengths[hit.id - 1])
            for i, term in enumerate(parsed.terms):
                tf = 0
                if parsed.held[i]:
                    begin = int(postings.start[parsed.numbers[i]])
                    ids = postings.ids[begin : begin + int(parsed.held[i])]
                    at = int(np.searchsorted(ids, hit.id - 1))
                    tf = int(postings.counts[begin + at]) if at < len(ids) and ids[at] == hit.id - 1 else 0
                part = parsed.repeats[i] * parsed.idf[i] * (K1 + 1) * tf / (tf + base + scale * length)
                rows.append(
                    Contribution(
                        rank=rank,
                        id=hit.id,
                        score=hit.score,
                        term=term,
                        query_count=parsed.repeats[i],
                        idf=parsed.idf[i],
                        documents=int(parsed.held[i]),
                        tf=tf,
                        length=length,
                        contribution=part,
                    )
                )
        return rows

    def _norm(self, state: _State) -> tuple[float, float]:
        return K1 * (1 - B), K1 * B / (state.average_length or 1.0)

    def _idf(self, documents: int, held: int, floor: float) -> float:
        if self.idf == "lucene":
            return math.log(1 + (documents - held + 0.5) / (held + 0.5)) if held else 0.0
        value = math.log(documents - held + 0.5) - math.log(held + 0.5)
        if not held:
            return 0.0
        return floor if value < 0 else value

    def _state(self, size: int) -> _State:
        if size not in self._states:
            total, average = self.postings.tokens, 0.0
            if size < len(self):
                total = int(self.postings.lengths[:size].sum(dtype=np.int64))
            if self.idf == "okapi":
                held, terms = self._spectrum(size)
                idf = np.log(size - held + 0.5) - np.log(held + 0.5)
                average = math.fsum((terms * idf).tolist()) / max(1, int(terms.sum()))
            self._states[size] = _State(size, total / size if size else 0.0, average)
            if len(self._states) > _KEPT_STATES:
                self._states.popitem(last=False)
        return self._states[size]

    def _spectrum(self, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Numbers of documents, ascending, and how many terms the first `size` hold in exactly so many."""
        postings, n = self.postings, self.postings.terms
        if size == len(self):
            pairs = sorted(pair for pair in postings.spectrum.items() if pair[1])
            both = np.array(pairs, np.int64).reshape(-1, 2)
            return both[:, 0].copy(), both[:, 1].copy()
        before = compiled(counts_before) if n > _MANY_TERMS else counts_before
        every = before(postings.ids, postings.start[:n], postings.length[:n], size)
        held, terms = np.unique(every[every > 0], return_counts=True)
        return held, terms

    def _parse(self, query: str, state: _State) -> _Query:
        postings = self.postings
        counted = Counter(self._tokens(query))
        terms = list(counted)
        numbers = [postings.vocabulary.get(term, -1) for term in terms]
        held = np.zeros(len(terms), np.int64)
        for i, number in enumerate(numbers):
            if number >= 0:
                begin, length = int(postings.start[number]), int(postings.length[number])
                ids = postings.ids[begin : begin + length]
                held[i] = length if state.documents == len(self) else np.searchsorted(ids, state.documents)
        floor = EPSILON * state.average_idf
        idf = [self._idf(state.documents, int(n), floor) for n in held]
        return _Query(terms, numbers, list(counted.values()), held, idf)

    def _scan(
        self, start: NDArray[Any], end: NDArray[Any], weight: NDArray[Any], state: _State, k: int
    ) -> list[Hit]:
        """Score every document; needed where weights are negative, enough where there are few documents."""
        postings = self.postings
        base, scale = self._norm(state)
        scores = np.zeros(state.documents)
        for left, right, w in zip(start, end, weight, strict=True):
            ids, f = postings.ids[left:right], postings.counts[left:right].astype(np.float64)
            scores[ids] += w * f / (f + base + scale * postings.lengths[ids])
        backwards = scores[::-1]
        best = np.arange(state.documents)
        if k * 4 < state.documents:
            worst = np.partition(backwards, -k)[-k]
            best = np.flatnonzero(backwards >= worst)
        best = best[np.argsort(-backwards[best], kind="stable")[:k]]
        return [Hit(state.documents - int(d), float(backwards[d])) for d in best]

    def _search(
        self,
        numbers: NDArray[Any],
        start: NDArray[Any],
        end: NDArray[Any],
        weight: NDArray[Any],
        state: _State,
        k: int,
    ) -> list[Hit]:
        postings = self.postings
        ids, scores, filled = np.empty(k, np.int64), np.empty(k), 0
        if len(weight):
            base, scale = self._norm(state)
            bound = weight * postings.most(numbers, base, scale)
            # What a long list can add is cheap to look up and dear to walk, so it's set aside first.
            order = np.argsort(bound / (end - start), kind="stable")
            filled = compiled(top_k)(
                postings.ids,
                postings.counts,
                postings.lengths,
                start,
                end,
                weight,
                order,
                np.cumsum(bound[order]),
                base,
                scale,
                k,
                np.zeros(WINDOW),
                ids,
                scores,
            )
        hits = [Hit(int(d) + 1, float(s)) for d, s in zip(ids[:filled], scores[:filled], strict=True)]
        found = {hit.id for hit in hits}
        newest = state.documents
        while len(hits) < k:
            if newest not in found:
                hits.append(Hit(newest, 0.0))
            newest -= 1
        return hits


_FORMAT = 1


def save_index(index: BM25Index, path: Path, stamp: dict[str, Any]) -> None:
    """Write `index` to `path` at once or not at all; `stamp` says what collection it belongs to.

    Raises:
        OSError: When the folder can't be written.
    """
    about = {"format": _FORMAT, "tokenizer": index.tokenizer, "unicode": unicodedata.unidata_version, **stamp}
    terms = "\n".join(index.postings.vocabulary).encode("utf-8", "surrogatepass")
    arrays = {
        "about": np.frombuffer(json.dumps(about).encode(), np.uint8),
        "terms": np.frombuffer(terms, np.uint8),
        **index.postings.packed(),
    }
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with beside.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def load_index(path: Path, tokenizer: str, idf: str) -> tuple[BM25Index, dict[str, Any]]:
    """The index in `path` and its stamp. Nothing in the file is executed.

    Raises:
        Exception: Whatever is wrong with a torn, foreign or outdated file; the caller builds anew.
    """
    index = BM25Index(tokenizer, idf)
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
        about = json.loads(arrays["about"].tobytes())
        current = {"format": _FORMAT, "tokenizer": tokenizer, "unicode": unicodedata.unidata_version}
        if any(about.get(name) != value for name, value in current.items()):
            raise ValueError("the index was made with other settings")
        text = arrays["terms"].tobytes().decode("utf-8", "surrogatepass")
        index.postings = Postings.unpack(text.split("\n") if text else [], arrays)
    return index, about
