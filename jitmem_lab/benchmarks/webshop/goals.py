"""Goals: what a shopper is asked to buy; made from products, with prices drawn from a seed."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ...errors import UserError
from .products import Product

SHUFFLE_SEED = 233
"""Seed of the order that the published splits are ranges of."""
NO_LIMIT = 1_000_000.0
"""Upper price of a goal that sets none."""
MOST_GOALS = 1_000_000
"""Goals that are held at once; the small set has 6,910, the published human set 12,087."""
SPLITS = {"test": (0, 500), "dev": (500, 1500), "train": (1500, None)}
"""The published splits: ranges of the shuffled goals."""
_LIMITS = [10.0 * step for step in range(1, 100)]


class Goal(NamedTuple):
    """What is asked for, with the hidden target."""

    asin: str
    """The product that fulfils it."""
    query: str
    """Its query."""
    name: str
    """Its title."""
    product_category: str
    """Its path of categories."""
    instruction_text: str
    """The sentence that the shopper reads."""
    attributes: tuple[str, ...]
    """Attributes asked for."""
    price_upper: float
    """Highest price."""
    goal_options: dict[str, str] | list[str]
    """Options asked for: values by name (synthetic goals), or values (human goals)."""
    category: str = ""
    """Its department."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Goal:
        """The goal in a record with these keys; `UserError` for another record."""
        try:
            options = record["goal_options"]
            texts = {name: str(record[name]) for name in ("asin", "query", "name", "product_category")}
            return cls(
                **texts,
                instruction_text=str(record["instruction_text"]),
                attributes=tuple(map(str, record["attributes"])),
                price_upper=float(record["price_upper"]),
                goal_options=dict(options) if isinstance(options, Mapping) else list(options),
                category=str(record.get("category", "")),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise UserError(
                f"this is no WebShop goal ({type(error).__name__}: {error}): {record!r:.200}"
            ) from None

    def record(self) -> dict[str, Any]:
        """What `of` reads, in JSON's types."""
        return {**self._asdict(), "attributes": list(self.attributes)}

    def wanted_options(self) -> list[Any]:
        """The options as the reward compares them: (name, value) pairs, or values."""
        return list(self.goal_options.items() if isinstance(self.goal_options, dict) else self.goal_options)


def synthetic_goals(products: Iterable[Product], seed: int) -> Iterator[Goal]:
    """A goal for each combination of options of each product that has an instruction."""
    for product in products:
        if product.instruction is None or not product.instruction_attributes:
            continue
        limit = price_limit(product.price(seed), random.Random(f"{seed} {product.asin} limit"))
        names = sorted(product.options)
        for values in itertools.product(*(product.options[name] for name in names)):
            options = dict(zip(names, values, strict=True))
            told = ", and ".join(f"{name}: {value}" for name, value in options.items())
            sentence = f"{product.instruction}{' with ' if told else ''}{told}{_price_clause(limit)}"
            yield _goal(product, sentence, product.instruction_attributes, limit, options)


def human_goals(products: Iterable[Product], seed: int) -> Iterator[Goal]:
    """A goal for each human instruction that asks for an attribute."""
    for product in products:
        rng = random.Random(f"{seed} {product.asin} limit")
        for said in product.instructions:
            if said["instruction_attributes"]:
                limit = price_limit(product.price(seed), rng)
                sentence = said["instruction"].strip(".") + _price_clause(limit)
                options = list(said["instruction_options"])
                yield _goal(product, sentence, said["instruction_attributes"], limit, options)


def shuffled(goals: Iterable[Goal]) -> list[Goal]:
    """Goals in the original's order: goal i here is what `reset(session=i)` takes there.

    Raises:
        UserError: There are more than `MOST_GOALS`.
    """
    listed = list(itertools.islice(goals, MOST_GOALS + 1))
    if len(listed) > MOST_GOALS:
        raise UserError(
            f"these products have more than {MOST_GOALS:,} combinations of options, each a goal: put human "
            "goals (items_human_ins.json) beside them, or take fewer products"
        )
    random.Random(SHUFFLE_SEED).shuffle(listed)
    return listed


def price_limit(price: float, rng: random.Random) -> float:
    """An upper price: the larger of two drawn from the next four multiples of ten, below 1,000."""
    higher = [limit for limit in _LIMITS if limit > price][:4]
    return max(rng.sample(higher, 2)) if len(higher) >= 2 else NO_LIMIT


def _price_clause(limit: float) -> str:
    return "" if limit == NO_LIMIT else f", and price lower than {limit:.2f} dollars"


def _goal(
    product: Product,
    sentence: str,
    attributes: Iterable[str],
    limit: float,
    options: dict[str, str] | list[str],
) -> Goal:
    return Goal(
        asin=product.asin,
        query=product.query,
        name=product.name,
        product_category=product.product_category,
        instruction_text=sentence,
        attributes=tuple(attributes),
        price_upper=limit,
        goal_options=options,
        category=product.category,
    )


"""`synthetic_goals` or `human_goals`."""
