"""Goals on the synthetic catalogue, of three grades of difficulty.

1: one or two attributes that its page states, at most one option, a loose price limit or none.
2: two or three attributes, at most two options, a limit one or two steps of ten dollars above the price.
3: three to five attributes, perhaps one that its page does not state, one to three options, the nearest
   limit; no other product of the kind meets it.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from .generated_words import kinds, pick, shuffled, words

SEED = "goals 1"
"""Seed of all goals."""
SIZES = {"train": 300, "dev": 60, "test": 120}
"""Goals of each split; half of those of dev and test are on products that train has no goal on."""
NO_LIMIT = 1_000_000.0
"""Price limit of a goal that names none, as in WebShop."""
GRADES = (1, 2, 3)
"""Grades of difficulty."""
_DRAWS = 12

Product = dict[str, Any]
Goal = dict[str, Any]


def make_goals(products: Sequence[Product]) -> dict[str, list[Goal]]:
    """The goals of each split, without what their product says; equal at every call.

    Goals of one split are on different products. No two goals anywhere share product and options.
    """
    rng = random.Random(SEED)
    rest = _in_turns(shuffled(rng, products))
    made: dict[str, list[Goal]] = {}
    for split, many in (("test", SIZES["test"] // 2), ("dev", SIZES["dev"] // 2), ("train", SIZES["train"])):
        made[split] = _goals_on(rest, products, many, [])
        rest = _without(rest, made[split])
    taken = [(goal["asin"], goal["goal_options"]) for goal in made["train"]]
    asins = {asin for asin, options in taken if options}
    shared = shuffled(rng, [product for product in products if product["asin"] in asins])
    for split in ("test", "dev"):
        again = _goals_on(shared, products, SIZES[split] - len(made[split]), taken)
        shared = _without(shared, again)
        made[split] += again
    return {split: shuffled(rng, made[split]) for split in SIZES}


def _without(products: Sequence[Product], goals: Sequence[Goal]) -> list[Product]:
    """The products that none of `goals` is on."""
    used = {goal["asin"] for goal in goals}
    return [product for product in products if product["asin"] not in used]


def _in_turns(products: Sequence[Product]) -> list[Product]:
    """One product of each kind, then a second of each, and so on."""
    shelves = [[p for p in products if p["query"] == kind.query] for kind in kinds()]
    return [product for row in zip(*shelves, strict=True) for product in row]


def _goals_on(
    candidates: Sequence[Product],
    products: Sequence[Product],
    many: int,
    taken: Sequence[tuple[str, dict[str, str]]],
) -> list[Goal]:
    """`many` goals on the first candidates that allow one, the grades as even as they come."""
    made: list[Goal] = []
    counts = dict.fromkeys(GRADES, 0)
    for product in candidates:
        for grade in sorted(GRADES, key=lambda g: (counts[g], -g)):
            goal = _goal(product, grade, products, taken) if len(made) < many else None
            if goal:
                counts[grade] += 1
                made.append(goal)
                break
    if len(made) < many:
        raise AssertionError(f"only {len(made)} of {many} goals fit {len(candidates)} products")
    return made


def stated(product: Product) -> list[str]:
    """The attributes that a product's own pages state in words."""
    text = "\n".join([product["Title"], product["Description"], *product["BulletPoints"]]).lower()
    return [attribute for attribute in product["Attributes"] if attribute in text]


def answers(goal: Goal, query: str, products: Sequence[Product]) -> list[str]:
    """Products of the kind `query` that have all that `goal` names, whatever price of theirs is taken."""
    return [
        product["asin"]
        for product in products
        if product["query"] == query
        and set(goal["attributes"]) <= set(product["Attributes"])
        and all(value in product["options"].get(name, ()) for name, value in goal["goal_options"].items())
        and product["pricing"][-1] <= goal["price_upper"]
    ]


def _goal(
    product: Product, grade: int, products: Sequence[Product], taken: Sequence[tuple[str, dict[str, str]]]
) -> Goal | None:
    """A goal of this grade on `product`; None where there is none."""
    rng = random.Random(f"{SEED} {product['asin']} {grade} {len(taken)}")
    for _ in range(_DRAWS):
        goal = _draw(rng, product, grade)
        if goal is None or (product["asin"], goal["goal_options"]) in taken:
            continue
        if grade < 3 or answers(goal, product["query"], products) == [product["asin"]]:
            return goal
    return None


def _draw(rng: random.Random, product: Product, grade: int) -> Goal | None:
    """Some goal of this grade on `product`; None where its options or attributes don't fit the grade."""
    options, known = product["options"], shuffled(rng, stated(product))
    hidden = [a for a in product["Attributes"] if a not in known]
    early = f"{product['Title']} {product['Description']}".lower()
    if grade == 1:
        fits, many = len(options) <= 1, 1 + int(rng.random() * 2)
        known.sort(key=lambda a: a not in early)
    elif grade == 2:
        fits, many = len(options) <= 2, 2 + int(rng.random() * 2)
    else:
        fits, many = len(options) >= 1, min(len(known), 3 + int(rng.random() * 3))
        known.sort(key=lambda a: a in early)
        if len(options) == 1:
            many = max(many, 4)
    if not fits or len(known) < many:
        return None
    attributes = shuffled(rng, known[:many])
    if grade == 3 and hidden and rng.random() < 0.5:
        attributes[-1] = hidden[0]
    chosen = {name: pick(rng, values) for name, values in options.items()}
    limit = _limit(rng, product["pricing"][-1], grade)
    return {
        "asin": product["asin"],
        "instruction_text": _instruction(rng, product["query"], attributes, chosen, limit),
        "attributes": attributes,
        "price_upper": limit,
        "goal_options": chosen,
        "difficulty": grade,
    }


def _limit(rng: random.Random, dearest: float, grade: int) -> float:
    """A multiple of ten dollars above the dearest price of a product."""
    step = 10.0 * (int(dearest) // 10 + 1)
    if grade == 1:
        return NO_LIMIT if rng.random() < 0.15 else step + pick(rng, (20.0, 30.0))
    return step + pick(rng, (10.0, 20.0)) if grade == 2 else step


def _instruction(
    rng: random.Random, query: str, attributes: Sequence[str], options: dict[str, str], limit: float
) -> str:
    """The goal as a sentence; the first two frames are WebShop's grammar, the others say it otherwise."""
    lists = words()
    adjectives = [a for a in attributes if a in lists["adjectives"]]
    features = [a for a in attributes if a in lists["features"]]
    uses = [a for a in attributes if a in lists["uses"]]
    thing = ", ".join(adjectives) + " " + query if adjectives else query
    has = " with " + ", ".join(features) if features else ""
    use = " for " + ", ".join(uses) if uses else ""
    chosen = ", and ".join(f"{name}: {value}" for name, value in options.items())
    price = f"price lower than {limit:.2f} dollars" if limit < NO_LIMIT else ""
    frame = int(rng.random() * 6)
    if frame < 2:
        text = f"Find me {thing}{has}{use}" + (f" with {chosen}" if chosen else "")
        return text + (f", and {price}" if price else "")
    if frame == 2:
        return ", ".join(filter(None, (f"I am looking for {thing}{use}{has}", chosen, price)))
    if frame == 3:
        text = f"I need {thing}{has}{use}."
        return text + (f" Choose {chosen}." if chosen else "") + (f" Keep the {price}." if price else "")
    if frame == 4:
        that = " that are " + ", ".join(adjectives) if adjectives else ""
        text = f"Please buy {query}{use}{has}{that}"
        return text + (f" ({chosen})" if chosen else "") + (f" at a {price}" if price else "")
    text = f"Shopping for {thing}{use}{has}" + (f"; it has to be {chosen}" if chosen else "")
    return text + (f"; {price}" if price else "")
