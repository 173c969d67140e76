"""Words as Lucene's English analysis finds them; the expected tokens follow UAX #29 and Lucene's filters."""

from __future__ import annotations

import time

import pytest

pytest.importorskip("Stemmer")

from jitmem_lab.benchmarks.webshop.words import STOP_WORDS, stem, tokens, words

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("non-slip, 4.5oz (pack of 2)", ["non", "slip", "4.5oz", "pack", "of", "2"]),
        ("1,000.50 a.b.c 3.x", ["1,000.50", "a.b.c", "3", "x"]),
        ("material:solid wood", ["material:solid", "wood"]),
        ("men's o'clock 6'2\"", ["men's", "o'clock", "6'2"]),
        ("snake_case __ _x_", ["snake_case", "_x_"]),
        ("red/blue & 5x7", ["red", "blue", "5x7"]),
        ("caf\u00e9 cafe\u0301", ["caf\u00e9", "cafe\u0301"]),
        ("土豆 カップ ソファー", ["土", "豆", "カップ", "ソファー"]),
        ("ひら 정장", ["ひ", "ら", "정장"]),
        ("เสื้อ shirt", ["เสื้อ", "shirt"]),
        ("★★ gift ❤\ufe0f", ["★", "★", "gift", "❤\ufe0f"]),
        ("½ x² №5", ["x", "5"]),
        ("", []),
        ("!!! --- ...", []),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected


def test_a_token_longer_than_lucene_takes_is_cut():
    assert [len(token) for token in tokens("x" * 600)] == [255, 255, 90]


def test_stop_words_and_possessives_go_and_case_is_folded():
    assert words("The Women's dresses FOR a Lady’s wedding") == ["women", "dress", "ladi", "wed"]
    assert not words(" ".join(STOP_WORDS))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("sofas", "sofa"),
        ("us", "us"),  # two letters stay
        ("possibly", "possibl"),
        ("technology", "technolog"),
        ("technologies", "technolog"),
        ("biology", "biologi"),  # nothing measured before the ending
        ("relational", "relat"),
        ("42", "42"),
    ],
)
def test_stems_are_lucenes(word, expected):
    assert stem(word) == expected


@pytest.mark.parametrize("part", ["_", "[", "a_", "1.", "'", "é", "1_!", "\u0301", "a ", "🙂"])
def test_long_odd_texts_take_no_time(part):
    started = time.process_time()
    words(part * (50_000 // len(part)))
    assert time.process_time() - started < 2
