"""The ranking against rank-bm25, against itself at other sizes, and on text of all kinds (about 15 s)."""

from __future__ import annotations

import json
import random
import unicodedata

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_bm25 import BM25Okapi

from jitmem_lab import retrieval
from jitmem_lab.bench.retrieval import render, run
from jitmem_lab.bench.texts import CORPORA, texts
from jitmem_lab.errors import UserError
from jitmem_lab.retrieval import TOKENIZERS, BM25Index, load_index, save_index, words

pytestmark = pytest.mark.unit


def build(documents, **settings):
    index = BM25Index(**settings)
    index.extend(documents)
    return index


def assert_like_reference(index, reference, query, k=3):
    """Same top-k as rank-bm25, whatever the order among ties."""
    hits = index.rank(query, k)
    scores = reference.get_scores(TOKENIZERS[index.tokenizer](query))
    best = np.sort(scores)[::-1][:k]
    assert len({hit.id for hit in hits}) == len(hits) == len(best)
    np.testing.assert_allclose([hit.score for hit in hits], best, rtol=0, atol=1e-9)
    np.testing.assert_allclose([scores[hit.id - 1] for hit in hits], best, rtol=0, atol=1e-9)
    # Among exactly equal scores the newer comes first.
    assert hits == sorted(hits, key=lambda hit: (-hit.score, -hit.id))


@pytest.mark.parametrize("tokenizer", list(TOKENIZERS))
@pytest.mark.parametrize("corpus", list(CORPORA))
def test_first_thirty_sizes_equal_rank_bm25(corpus, tokenizer):
    documents = list(texts(corpus, 30))
    queries = [*texts(corpus, 3, seed=1), documents[0], documents[0] + " " + documents[0]]
    index = BM25Index(tokenizer)
    for n, document in enumerate(documents, 1):
        index.extend([document])
        reference = BM25Okapi([TOKENIZERS[tokenizer](text) for text in documents[:n]])
        for query in queries:
            assert_like_reference(index, reference, query)


@pytest.mark.parametrize("corpus", list(CORPORA))
@pytest.mark.parametrize("n", [1_000, 10_000])
def test_large_sizes_equal_rank_bm25(corpus, n):
    documents = list(texts(corpus, n))
    index = build(documents[: n // 2])
    for document in documents[n // 2 : n // 2 + 40]:
        index.extend([document])
    index.extend(documents[n // 2 + 40 :])
    reference = BM25Okapi([words(text) for text in documents])
    fresh = list(texts(corpus, 2 if corpus == "long" else 8, seed=1))
    for query in [*fresh, "the", documents[3] + " never seen"]:
        assert_like_reference(index, reference, query)
    assert_like_reference(index, reference, documents[7], k=20)


_WORD = st.sampled_from(["a", "b", "c", "d", "mug", "1", "2", "café", "豆", "\ud83d", "\0", ""])
_DOCUMENTS = st.lists(st.lists(_WORD, max_size=8).map(" ".join), min_size=1, max_size=60)


@settings(max_examples=60, deadline=None)
@given(_DOCUMENTS, st.lists(_WORD, max_size=6).map(" ".join), st.integers(1, 70), st.data())
@pytest.mark.parametrize("idf", ["okapi", "lucene"])
def test_any_snapshot_ranks_like_a_bank_of_that_size(idf, documents, query, k, data):
    size = data.draw(st.integers(0, len(documents)))
    one_by_one = BM25Index(idf=idf)
    for document in documents:
        one_by_one.extend([document])
    assert one_by_one.rank(query, k, size) == build(documents[:size], idf=idf).rank(query, k)


@settings(max_examples=80, deadline=None)
@given(_DOCUMENTS, st.lists(_WORD, min_size=1, max_size=6).map(" ".join), st.integers(1, 8))
@pytest.mark.parametrize("idf", ["okapi", "lucene"])
def test_compiled_search_equals_the_plain_scan_to_the_bit(idf, documents, query, k):
    index = build(documents, idf=idf)
    plain = index.rank(query, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "_DENSE_DOCUMENTS", 0)
        patch.setattr(retrieval, "WINDOW", 8)
        assert index.rank(query, k) == plain


@settings(max_examples=60, deadline=None)
@given(_DOCUMENTS, st.integers(0, 60), st.floats(0.01, 10))
def test_no_posting_exceeds_the_bound_of_its_term(documents, at_once, scale):
    index = build(documents[:at_once])
    for document in documents[at_once:]:
        index.extend([document])
    postings = index.postings
    bounds = postings.most(np.arange(postings.terms), 0.375, scale)
    for term, bound in enumerate(bounds):
        begin, held = postings.start[term], postings.length[term]
        f = postings.counts[begin : begin + held].astype(float)
        lengths = postings.lengths[postings.ids[begin : begin + held]]
        assert (f / (f + 0.375 + scale * lengths)).max() <= bound * (1 + 1e-12)


@pytest.mark.parametrize("corpus", list(CORPORA))
def test_compiled_search_equals_the_plain_scan_on_larger_banks(corpus, monkeypatch):
    index = build(texts(corpus, 3_000))
    queries = [*texts(corpus, 30, seed=1)]
    compiled = [index.rank(query, 5, size) for query in queries for size in (3_000, 2_500)]
    monkeypatch.setattr(retrieval, "_DENSE_DOCUMENTS", 10**9)
    assert compiled == [index.rank(query, 5, size) for query in queries for size in (3_000, 2_500)]


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_words_never_fail_and_do_not_depend_on_normal_form(text):
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text))
    assert all(words(text))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Put mug 1 in cabinet 2.", ["put", "mug", "1", "in", "cabinet", "2"]),
        ("把土豆加热", ["把", "土", "豆", "加", "热"]),
        ("use USB接口 now", ["use", "usb", "接", "口", "now"]),
        ("Café Ｃａｆé", ["café", "café"]),
        ("нагрей картошку", ["нагрей", "картошку"]),
        ("हिन्दी", ["हिन्दी"]),
        ("!!!", []),
        ("", []),
        ("bad \ud83d\0mug\u2028cup", ["bad", "mug", "cup"]),
    ],
)
def test_words(text, tokens):
    assert words(text) == tokens


@pytest.mark.parametrize("dense", [0, 10**9])
def test_neighbours_that_differ_in_one_character_are_told_apart(dense, monkeypatch):
    monkeypatch.setattr(retrieval, "_DENSE_DOCUMENTS", dense)
    index = build(
        [f"put mug {m} in cabinet {c}" for m in range(3) for c in range(4)] + ["把土豆加热", "café"]
    )
    assert index.rank("cabinet 1", 1)[0].id in (2, 6, 10)
    assert index.rank("put mug 2 in cabinet 3", 1)[0].id == 12
    assert index.rank("土豆", 1)[0].id == 13
    assert index.rank(unicodedata.normalize("NFD", "CAFÉ"), 1)[0].id == 14


@pytest.mark.parametrize("idf", ["okapi", "lucene"])
@pytest.mark.parametrize("query", ["", "!!!", "zzz unseen", "\ud83d"])
def test_unknown_words_get_the_newest(idf, query):
    index = build(["a b", "b c", "c d"], idf=idf)
    assert index.rank(query, 2) == [(3, 0.0), (2, 0.0)]
    assert len(index.rank(query, 9)) == 3


def test_empty_bank_and_empty_texts():
    index = BM25Index()
    assert index.rank("anything", 3) == []
    index.extend([""])
    assert index.rank("anything", 3) == [(1, 0.0)]
    index.extend(["", "mug"])
    assert len(index.rank("mug", 3)) == 3


def test_tiny_banks_with_lucene_idf_put_the_match_first_and_never_score_below_zero():
    kinds = ["put a mug in sink", "heat some egg and put it in sink", "find two pens and put them in drawer"]
    for n in (1, 2, 3):
        index = build(kinds[:n], idf="lucene")
        for number, text in enumerate(kinds[:n], 1):
            hits = index.rank(text, 3)
            assert hits[0].id == number
            assert all(hit.score > 0 for hit in hits)


def test_tiny_banks_with_okapi_idf_return_the_match_although_its_score_is_negative():
    index = build(["put a mug in sink"])
    hits = index.rank("put a mug in sink", 3)
    assert hits[0].id == 1
    assert hits[0].score < 0


def test_equal_scores_newer_first_in_both_searches(monkeypatch):
    index = build(["mug here", "cup there"] * 50 + ["pan"] * 100)
    assert [hit.id for hit in index.rank("mug", 3)] == [99, 97, 95]
    monkeypatch.setattr(retrieval, "_DENSE_DOCUMENTS", 0)
    assert [hit.id for hit in index.rank("mug", 3)] == [99, 97, 95]
    assert [hit.id for hit in index.rank("mug", 52)][48:] == [3, 1, 200, 199]


def test_a_word_said_more_than_255_times_is_counted_exactly():
    documents = ["a " * 1000 + "b", "a b c", "c d", "d e", "e f", "a " * 70_000]
    index = BM25Index()
    for document in documents[:-1]:
        index.extend([document])
    index.extend(documents[-1:])
    assert_like_reference(index, BM25Okapi([words(d) for d in documents]), "a b")
    assert index.explain("a", 1)[0].tf == 70_000


def test_many_single_inserts_each_followed_by_a_query():
    rng = random.Random(0)
    vocabulary = [f"w{i}" for i in range(500)]
    documents = [" ".join(rng.choices(vocabulary, k=rng.randint(0, 12))) for _ in range(1_500)]
    index = BM25Index()
    for document in documents:
        index.extend([document])
        index.rank(document, 1)
    assert [index.rank(q, 5) for q in documents[:50]] == [build(documents).rank(q, 5) for q in documents[:50]]


@pytest.mark.parametrize("idf", ["okapi", "lucene"])
@pytest.mark.parametrize("size", [None, 17])
def test_explanations_sum_to_the_scores(idf, size):
    index = build(texts("webshop", 40), idf=idf)
    rows = pd.DataFrame(index.explain("i need a blue blue shirt, size large, unseenword", 4, size))
    sums = rows.groupby(["rank", "id", "score"]).contribution.sum().reset_index()
    assert list(sums.id) == [
        h.id for h in index.rank("i need a blue blue shirt, size large, unseenword", 4, size)
    ]
    np.testing.assert_allclose(sums.score, sums.contribution, rtol=0, atol=1e-9)
    assert rows[rows.term == "blue"].query_count.eq(2).all()
    assert rows[rows.term == "unseenword"].contribution.eq(0).all()


def test_saved_index_comes_back_equal_and_grows_on(tmp_path):
    documents = [*texts("webshop", 200), "odd \ud83d token", "把土豆加热", ""]
    for tokenizer in TOKENIZERS:
        index = build(documents, tokenizer=tokenizer)
        save_index(index, tmp_path / "index.npz", {"mark": 1})
        loaded, stamp = load_index(tmp_path / "index.npz", tokenizer, "okapi")
        assert stamp["mark"] == 1
        more = list(texts("webshop", 120, seed=3))
        for grown in (index, loaded):
            for text in more[:20]:
                grown.extend([text])
            grown.extend(more[20:])
        for query in [*more[:20], "odd \ud83d", "豆"]:
            assert loaded.rank(query, 5) == index.rank(query, 5)


def test_unknown_settings_are_refused():
    with pytest.raises(UserError, match="tokenizer 'letters'"):
        BM25Index("letters")
    with pytest.raises(UserError, match="idf 'tf'"):
        BM25Index(idf="tf")


def test_search_works_where_numba_may_not_write_a_cache(monkeypatch):
    import numba

    from jitmem_lab import bm25

    real = numba.njit

    def refusing(*args, **kwargs):
        if kwargs.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **kwargs)

    monkeypatch.setattr(numba, "njit", refusing)
    monkeypatch.setattr(bm25, "_COMPILED", {})
    before = bm25.compiled(bm25.counts_before)
    index = build(["a b", "b c", "c"]).postings
    n = index.terms
    assert list(before(index.ids, index.start[:n], index.length[:n], 2)) == [1, 2, 1]


def test_the_benchmark_reports_every_column(tmp_path):
    result = run(("alfworld",), (300,), folder=tmp_path)
    (row,) = result["rows"]
    assert list(row) == [
        "corpus",
        "n",
        "query_ratio_cpu",
        "insert_ratio",
        "agreement",
        "open_s",
        "rss_ratio",
        "query_ms_p50",
        "reference_query_ms_p50",
    ]
    assert (row["corpus"], row["n"], row["agreement"]) == ("alfworld", 300, 1.0)
    assert all(row[name] > 0 for name in ("query_ratio_cpu", "insert_ratio", "open_s", "query_ms_p50"))
    json.dumps(result)
    assert "alfworld" in render(result)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UserError, match="unknown corpus"):
        run(("news",), (10,))
    with pytest.raises(UserError, match="sizes"):
        run(("alfworld",), (0,))
