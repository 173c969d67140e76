"""The synthetic catalogue: products of invented brands, made from word lists and a seed.

Products are in the schema that WebShop's own load step leaves. All of a kind share their query and draw
from one list of attributes; families of them share brand, name and much else, so that a search rarely
tells the right one from its relatives.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .generated_texts import write_texts
from .generated_words import Kind, kinds, pick, shuffled, words

SEED = "catalogue 1"
"""Seed of all products; another text gives another catalogue."""
FAMILIES = 4
"""Families of each kind."""
MEMBERS = 3
"""Products of each family."""

_LETTERS = "0123456789ABCDEFGHJKLMNPQRSTVWXYZ"
_ENDINGS = (0.99, 0.95, 0.49, 0.0)


class Family(NamedTuple):
    """What products of one brand and kind have in common, before each is varied."""

    brand: str
    line: str
    noun: str
    attributes: list[str]
    options: dict[str, list[str]]
    dollars: int


def make_products() -> list[dict[str, Any]]:
    """The whole catalogue, in its order; equal at every call."""
    made: list[dict[str, Any]] = []
    titles: set[str] = set()
    asins: set[str] = set()
    for kind in kinds():
        for number in range(FAMILIES * MEMBERS):
            family = _family(kind, f"{SEED} {kind.query} family {number // MEMBERS}")
            attempt = 0
            product = _product(kind, family, f"{SEED} {kind.query} {number} {attempt}")
            while product["Title"] in titles or product["asin"] in asins:
                attempt += 1
                product = _product(kind, family, f"{SEED} {kind.query} {number} {attempt}")
            titles.add(product["Title"])
            asins.add(product["asin"])
            made.append(product)
    return shuffled(random.Random(SEED), made)


def _family(kind: Kind, seed: str) -> Family:
    rng = random.Random(seed)
    low, high = kind.price
    draw = rng.random()
    many = 0 if draw < 0.15 else 1 if draw < 0.45 else 2 if draw < 0.72 else 3
    axes = shuffled(rng, range(len(kind.axes)))[:many]
    return Family(
        brand=pick(rng, words()["brands"]),
        line=pick(rng, words()["lines"]),
        noun=kind.nouns[0] if rng.random() < 0.55 else pick(rng, kind.nouns[1:]),
        attributes=_attributes(rng, kind),
        options={name: _values(rng, pool) for index, (name, pool) in enumerate(kind.axes) if index in axes},
        dollars=low + int(rng.random() * rng.random() * (high - low)),
    )


def _product(kind: Kind, family: Family, seed: str) -> dict[str, Any]:
    rng = random.Random(seed)
    ordered = {name for name, pool in kind.axes if pool in words()["ordered"]}
    options = {name: _part(rng, values, name in ordered) for name, values in family.options.items()}
    pricing = _pricing(rng, family.dollars, bool(options))
    attributes = _varied(rng, kind, family.attributes)
    title, description, bullets = write_texts(
        rng, kind, (family.brand, family.line, family.noun), attributes, options
    )
    return {
        "asin": "G0" + "".join(pick(rng, _LETTERS) for _ in range(8)),
        "name": title,
        "category": kind.category,
        "query": kind.query,
        "product_category": kind.path,
        "page": 1 + int(rng.random() * 40),
        "pricing": pricing,
        "average_rating": "",
        "full_description": description,
        "small_description": bullets,
        "customization_options": "",
        "images": [],
        "Title": title,
        "Description": description,
        "BulletPoints": list(bullets),
        "Price": " to ".join(f"${price}" for price in pricing),
        "Rating": "N.A.",
        "Reviews": [],
        "options": options,
        "option_to_image": {},
        "Attributes": sorted(attributes),
        "MainImage": "",
    }


def _agreeing(attributes: Iterable[str], many: int) -> list[str]:
    """The first `many` that don't speak against one before them."""
    chosen: list[str] = []
    for attribute in attributes:
        against = any(attribute in pair and set(pair) & set(chosen) for pair in words()["exclusive"])
        if len(chosen) < many and attribute not in chosen and not against:
            chosen.append(attribute)
    return chosen


def _attributes(rng: random.Random, kind: Kind) -> list[str]:
    """Five to seven attributes, first one of each sort."""
    order = shuffled(rng, kind.attributes)
    sorts = [words()[sort] for sort in ("adjectives", "features", "uses")]
    firsts = [next(a for a in order if a in sort) for sort in sorts]
    return _agreeing([*firsts, *order], 5 + int(rng.random() * 3))


def _varied(rng: random.Random, kind: Kind, family: Sequence[str]) -> list[str]:
    """A family's attributes with one to three of them exchanged."""
    kept = shuffled(rng, family)[: len(family) - 1 - int(rng.random() * 3)]
    others = [a for a in shuffled(rng, kind.attributes) if a not in family]
    return _agreeing([*kept, *others], len(family) - int(rng.random() * 2))


def _values(rng: random.Random, pool: str) -> list[str]:
    """Some values of a list: of sizes a run, of names any, none of which is part of another."""
    values = words()["pools"][pool]
    many = min(len(values), 3 + int(rng.random() * 6))
    if pool in words()["ordered"]:
        start = int(rng.random() * (len(values) - many + 1))
        return list(values[start : start + many])
    chosen: list[str] = []
    for value in shuffled(rng, values):
        parts = set(value.split())
        if len(chosen) < many and not any(parts <= set(c.split()) or set(c.split()) <= parts for c in chosen):
            chosen.append(value)
    return chosen


def _part(rng: random.Random, values: Sequence[str], run: bool) -> list[str]:
    """Two or more of a family's values, in a row if `run`."""
    many = 2 + int(rng.random() * (len(values) - 1))
    if run:
        start = int(rng.random() * (len(values) - many + 1))
        return list(values[start : start + many])
    return shuffled(rng, values)[:many]


def _pricing(rng: random.Random, dollars: int, optional: bool) -> list[float]:
    """One price near a family's, or for some products with options the cheapest and the dearest."""
    first = round(max(4, int(dollars * (0.7 + rng.random() * 0.8))) + pick(rng, _ENDINGS), 2)
    if optional and rng.random() < 0.3:
        return [first, round(first + 1 + int(first * 0.6 * rng.random()) + pick(rng, (0.0, 0.5)), 2)]
    return [first]
