"""The synthetic catalogue: products of invented brands, made from word lists and a seed.

Products are in the schema that WebShop's own load step leaves. All of a kind share their query and draw
from one list of attributes, so that several compete for each goal.
"""

from __future__ import annotations

import random
from typing import Any

from .generated_texts import write_texts
from .generated_words import Kind, kinds, pick, shuffled, words

SEED = "catalogue 1"
"""Seed of all products; another text gives another catalogue."""
PER_KIND = 11
"""Products of each kind."""

_LETTERS = "0123456789ABCDEFGHJKLMNPQRSTVWXYZ"
_ENDINGS = (0.99, 0.95, 0.49, 0.0)


def make_products() -> list[dict[str, Any]]:
    """The whole catalogue, in its order; equal at every call."""
    made: list[dict[str, Any]] = []
    titles: set[str] = set()
    asins: set[str] = set()
    for kind in kinds():
        for number in range(PER_KIND):
            attempt = 0
            product = _product(kind, f"{SEED} {kind.query} {number} {attempt}")
            while product["Title"] in titles or product["asin"] in asins:
                attempt += 1
                product = _product(kind, f"{SEED} {kind.query} {number} {attempt}")
            titles.add(product["Title"])
            asins.add(product["asin"])
            made.append(product)
    return shuffled(random.Random(SEED), made)


def _product(kind: Kind, seed: str) -> dict[str, Any]:
    rng = random.Random(seed)
    options = _options(rng, kind)
    pricing = _pricing(rng, kind, bool(options))
    attributes = _attributes(rng, kind)
    title, description, bullets = write_texts(rng, kind, attributes, options)
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


def _attributes(rng: random.Random, kind: Kind) -> list[str]:
    """Four to seven attributes, of each sort at least one, none against another."""
    sorts = [words()[sort] for sort in ("adjectives", "features", "uses")]
    order = shuffled(rng, kind.attributes)
    firsts = [next(a for a in order if a in sort) for sort in sorts]
    many = 4 + int(rng.random() * 4)
    chosen: list[str] = []
    for attribute in [*firsts, *(a for a in order if a not in firsts)]:
        against = any(attribute in pair and set(pair) & set(chosen) for pair in words()["exclusive"])
        if not against and len(chosen) < many:
            chosen.append(attribute)
    return chosen


def _options(rng: random.Random, kind: Kind) -> dict[str, list[str]]:
    draw = rng.random()
    many = 0 if draw < 0.15 else 1 if draw < 0.45 else 2 if draw < 0.72 else 3
    order = shuffled(rng, range(len(kind.axes)))[:many]
    return {name: _values(rng, pool) for index, (name, pool) in enumerate(kind.axes) if index in order}


def _values(rng: random.Random, pool: str) -> list[str]:
    """Some values of a list: of sizes a run, of names any, none of which is part of another."""
    values = words()["pools"][pool]
    many = min(len(values), 2 + int(rng.random() * 6))
    if pool in words()["ordered"]:
        start = int(rng.random() * (len(values) - many + 1))
        return list(values[start : start + many])
    chosen: list[str] = []
    for value in shuffled(rng, values):
        parts = set(value.split())
        if len(chosen) < many and not any(parts <= set(c.split()) or set(c.split()) <= parts for c in chosen):
            chosen.append(value)
    return chosen


def _pricing(rng: random.Random, kind: Kind, optional: bool) -> list[float]:
    """One price, or for some products with options the cheapest and the dearest."""
    low, high = kind.price
    dollars = low + int(rng.random() * rng.random() * 1.6 * (high - low))
    first = round(min(dollars, high) + pick(rng, _ENDINGS), 2)
    if optional and rng.random() < 0.3:
        return [first, round(first + 1 + int(first * 0.6 * rng.random()) + pick(rng, (0.0, 0.5)), 2)]
    return [first]
