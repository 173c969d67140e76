"""Short names of runs: apart from each other, within their room, and as much as fits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitmem_lab.views.naming import LONGEST, short_names

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["none", "jitmem"], ["none", "jitmem"]),
        (
            ["alfworld-generated_seen-jitmem-1a2b3c4d", "alfworld-generated_seen-none-9f8e7d6c"],
            ["jitmem-1a2b3c4d", "none-9f8e7d6c"],
        ),
        (
            ["a-long-folder/jitmem-of-the-first-order", "a-long-folder/none-of-the-first-order"],
            ["jitmem", "none"],
        ),
        (["some/nested/sweep-of-jitmem-k-3", "some/nested/sweep-of-jitmem-k-5"], ["k-3", "k-5"]),
        (["b" * 40, "b" * 39 + "c"], ["bbbbbbbbb…bbbbbbbbbb", "bbbbbbbbb…bbbbbbbbbc"]),
        (["b" * 30 + "c" + "b" * 30, "b" * 61], ["1 bbbbbbbb…bbbbbbbb", "2 bbbbbbbb…bbbbbbbb"]),
        (["x" * 30], ["xxxxxxxxx…xxxxxxxxxx"]),
    ],
)
def test_a_name_keeps_what_tells_it_from_the_others(names: list[str], short: list[str]) -> None:
    assert list(short_names(names).values()) == short


@given(st.lists(st.text("ab-/_1.", max_size=40), min_size=1, max_size=6, unique=True))
def test_any_names_stay_apart_within_their_room(names: list[str]) -> None:
    found = short_names(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
    assert all(len(text) <= LONGEST for text in found.values())
