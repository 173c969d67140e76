"""Word lists of the synthetic catalogue, and random choice that is the same everywhere.

Only `Random.random()` of a generator seeded with text is used: its numbers are the same on every machine
and Python.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

_T = TypeVar("_T")


class Kind(NamedTuple):
    """What the products of one query have in common."""

    category: str
    """Department, e.g. `beauty`."""
    query: str
    """What a shopper calls them, in the plural; the query of every goal."""
    path: str
    """Product category, parts joined by ` › `."""
    who: str
    """Whom they are for, as titles begin; may be empty."""
    nouns: tuple[str, ...]
    """Names in titles; the first is closest to the query."""
    price: tuple[int, int]
    """Cheapest and dearest, in dollars."""
    facts: tuple[str, ...]
    """Details that no goal asks for."""
    attributes: tuple[str, ...]
    """Attributes to draw from."""
    axes: tuple[tuple[str, str], ...]
    """Option names with the list that their values come from."""


def pick(rng: random.Random, values: Sequence[_T]) -> _T:
    """Any of `values`."""
    return values[int(rng.random() * len(values))]


def shuffled(rng: random.Random, values: Iterable[_T]) -> list[_T]:
    """`values` in random order."""
    mixed = list(values)
    for last in range(len(mixed) - 1, 0, -1):
        other = int(rng.random() * (last + 1))
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


@functools.cache
def words() -> dict[str, Any]:
    """The word lists."""
    file = importlib.resources.files(__package__) / "shop_words.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def kinds() -> list[Kind]:
    """All kinds of products, category by category."""
    return [
        Kind(
            category=category,
            query=kind["query"],
            path=f"{shelf['path']} › {kind['path']}",
            who=kind["who"],
            nouns=tuple(kind["nouns"]),
            price=tuple(kind["price"]),
            facts=tuple(kind["facts"]),
            attributes=tuple(kind["attributes"]),
            axes=tuple((name, pool) for name, pool in kind["axes"]),
        )
        for category, shelf in words()["categories"].items()
        for kind in shelf["types"]
    ]
