"""Search by Lucene's formula, against a plain reading of it."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest

pytest.importorskip("Stemmer")

from jitmem_lab.benchmarks.webshop.search import Index, build, byte_length, length_byte
from jitmem_lab.benchmarks.webshop.words import words

pytestmark = pytest.mark.unit

VOCABULARY = [
    *("red", "blue", "green", "sofa", "table", "lamp", "chair"),
    *("soft", "wooden", "large", "small", "kitchen", "garden", "cover"),
]


def corpus(size: int, seed: int = 0) -> tuple[list[str], list[str]]:
    rng = random.Random(seed)
    texts = [" ".join(rng.choices(VOCABULARY, k=rng.choice((3, 20, 70)))) for _ in range(size)]
    return texts, [f"P{rng.randrange(10**6):06}" for _ in texts]


def plainly(texts: list[str], names: list[str], query: str, hits: int) -> list[int]:
    """BM25 as Lucene writes it, one document and one word at a time, in 32-bit numbers where it has them."""
    f = np.float32
    bags = [Counter(words(text)) for text in texts]
    sizes = [sum(bag.values()) for bag in bags]
    average = f(sum(sizes) / len(texts))
    scores = []
    for bag, size in zip(bags, sizes, strict=True):
        kept = f(byte_length(length_byte(size)))
        norm = f(1) / (f(0.9) * ((f(1) - f(0.4)) + f(0.4) * kept / average))
        total = 0.0
        for word, times in Counter(words(query)).items():
            holding = sum(word in each for each in bags)
            if word in bag:
                weight = f(times) * f(math.log(1 + (len(texts) - holding + 0.5) / (holding + 0.5)))
                total += float(weight - weight / (f(1) + f(bag[word]) * norm))
        scores.append(f(total))
    ranked = sorted((i for i in range(len(texts)) if scores[i] > 0), key=lambda i: (-scores[i], names[i]))
    return ranked[:hits]


@pytest.mark.parametrize("size", [1, 7, 120])
@pytest.mark.parametrize("hits", [3, 50])
def test_ranking_equals_a_plain_reading_of_the_formula(size, hits):
    texts, names = corpus(size)
    index = build(texts, names)
    rng = random.Random(1)
    for _ in range(15):
        query = " ".join(rng.choices([*VOCABULARY, "unknown", "the"], k=rng.randint(1, 6)))
        assert index.search(query, hits) == plainly(texts, names, query, hits), query


def test_equal_scores_stand_in_the_order_of_their_names():
    assert build(["red sofa"] * 4, ["d", "b", "a", "c"]).search("sofa", 3) == [2, 1, 3]


@pytest.mark.parametrize("query", ["", "!!!", "the of and", "unseen"])
def test_a_query_without_known_words_has_no_hits(query):
    assert build(["red sofa", "blue lamp"], ["a", "b"]).search(query) == []


def test_no_documents_and_empty_ones():
    assert build([], []).search("sofa") == []
    assert build(["", "sofa"], ["a", "b"]).search("sofa") == [1]


def test_a_length_is_kept_in_a_byte_as_lucene_keeps_it():
    assert [byte_length(length_byte(length)) for length in (0, 1, 23, 24, 39, 40, 41, 42, 43)] == [
        0, 1, 23, 24, 39, 40, 40, 42, 42,
    ]  # fmt: skip
    kept = [byte_length(length_byte(length)) for length in range(5000)]
    assert kept == sorted(kept)
    assert all(0.87 < kept[length] / length <= 1 for length in range(1, 5000))


def test_a_saved_index_answers_the_same(tmp_path):
    texts, names = corpus(60)
    index = build(texts, names)
    index.save(tmp_path)
    again = Index.load(tmp_path)
    for query in VOCABULARY:
        assert again.search(query) == index.search(query)
