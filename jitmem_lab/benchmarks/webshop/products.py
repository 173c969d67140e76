"""Products as WebShop's own loading step leaves them, from its raw files or from files already loaded."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from ...errors import UserError

NO_PRICE = 100.0
"""Price of a product that says none, as the original has it."""
NO_ATTRIBUTES = ("DUMMY_ATTR",)
"""Attributes of a product of which none are known, as the original has it."""
LONGEST_ASIN = 10


class Product(NamedTuple):
    """One product, with all that a page, a search, a goal or a reward needs of it."""

    asin: str
    """Its id."""
    name: str
    """Its title."""
    query: str
    """The words it was found by when the catalogue was made; a narrow kind."""
    category: str
    """One of a few departments."""
    product_category: str
    """Its path of categories, separated by ›."""
    description: str
    """Its text; often empty."""
    bullets: tuple[str, ...]
    """Its features, a line each."""
    attributes: tuple[str, ...]
    """What is known of it; hidden from the shopper unless the engine shows attributes."""
    options: dict[str, list[str]]
    """Values of each option, in lower case."""
    pricing: tuple[float, ...]
    """Its price in dollars, or the lowest and the highest; empty for none."""
    price_text: str
    """The price as shown."""
    rating: str = "N.A."
    """The rating as shown."""
    reviews: tuple[dict[str, Any], ...] = ()
    """Reviews: title, score, body."""
    instruction: str | None = None
    """Sentence that synthetic goals are made from; None where there is none."""
    instruction_attributes: tuple[str, ...] = ()
    """Attributes which that sentence asks for."""
    instructions: tuple[dict[str, Any], ...] = ()
    """Human goals: instruction, instruction_attributes, instruction_options."""

    def text(self) -> str:
        """What the product is indexed by: title, description, first feature and options in lower case."""
        options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in self.options.items())
        first = self.bullets[0] if self.bullets else ""
        return f"{self.name} {self.description} {first} {options}".lower()

    def price(self, seed: int) -> float:
        """What it costs in a catalogue of that seed: within its range where it has one."""
        if not self.pricing:
            return NO_PRICE
        if len(self.pricing) == 1:
            return self.pricing[0]
        return random.Random(f"{seed} {self.asin}").uniform(*self.pricing[:2])


def from_loaded(record: Mapping[str, Any]) -> Product:
    """A product from a record in the form of WebShop's `load_products()`."""
    try:
        return Product(
            asin=_text(record["asin"]),
            name=_text(record["Title"]),
            query=_text(record["query"]),
            category=_text(record["category"]),
            product_category=_text(record["product_category"]),
            description=_text(record["Description"]),
            bullets=tuple(map(_text, record["BulletPoints"])),
            attributes=tuple(map(_text, record["Attributes"])),
            options={_text(name): [_text(v) for v in values] for name, values in record["options"].items()},
            pricing=tuple(float(price) for price in record["pricing"]),
            price_text=_text(record["Price"]),
            rating=str(record.get("Rating", "N.A.")),
            reviews=tuple(record.get("Reviews") or ()),
            instruction=record.get("instruction_text"),
            instruction_attributes=tuple(record.get("instruction_attributes") or ()),
            instructions=tuple(record.get("instructions") or ()),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _foreign(record, error) from None


def from_raw(
    record: Mapping[str, Any],
    attributes: Mapping[str, Any] | None = None,
    instructions: Iterable[Mapping[str, Any]] = (),
) -> Product:
    """A product from a record of WebShop's raw files.

    Args:
        record: Its entry in `items_shuffle*.json`.
        attributes: Its entry in `items_ins_v2*.json`.
        instructions: Its entry in `items_human_ins.json`.
    """
    try:
        bullets = record["small_description"]
        pricing, price_text = _prices(record.get("pricing"))
        return with_instructions(
            Product(
                asin=_text(record["asin"]),
                name=_text(record["name"]),
                query=_text(record["query"]).lower().strip(),
                category=_text(record["category"]),
                product_category=_text(record["product_category"]),
                description=_text(record["full_description"]),
                bullets=tuple(map(_text, bullets if isinstance(bullets, list) else [bullets])),
                attributes=NO_ATTRIBUTES,
                options=_options(record["customization_options"]),
                pricing=pricing,
                price_text=price_text,
            ),
            attributes,
            instructions,
        )
    except (KeyError, TypeError, ValueError, AttributeError, InvalidOperation) as error:
        raise _foreign(record, error) from None


def with_instructions(
    product: Product, attributes: Mapping[str, Any] | None, instructions: Iterable[Mapping[str, Any]] = ()
) -> Product:
    """`product` with what the attribute and instruction files say of it."""
    said = attributes or {}
    return product._replace(
        attributes=tuple(said["attributes"]) if "attributes" in said else product.attributes,
        instruction=said.get("instruction"),
        instruction_attributes=tuple(said.get("instruction_attributes") or ()),
        instructions=tuple(dict(each) for each in instructions) or product.instructions,
    )


def admitted(products: Iterable[Product]) -> Iterator[Product]:
    """The products that the original keeps: with an id that can be one, the first of each id."""
    seen: set[str] = set()
    for product in products:
        if product.asin != "nan" and len(product.asin) <= LONGEST_ASIN and product.asin not in seen:
            seen.add(product.asin)
            yield product


def _prices(text: str | None) -> tuple[tuple[float, ...], str]:
    """The price or the two of a range in a text such as `$7.99$14.99`, and how they are shown."""
    if not text:
        return (NO_PRICE,), f"${NO_PRICE}"
    found = [float(Decimal(re.sub(r"[^\d.]", "", part))) for part in text.split("$")[1:]]
    if not found:
        raise ValueError(f"no price in {text!r}")
    return tuple(found[:2]), " to ".join(f"${price}" for price in found[:2])


def _options(given: Mapping[str, Any] | str | None) -> dict[str, list[str]]:
    if not given or isinstance(given, str):
        return {}
    return {
        name.lower(): [value["value"].strip().replace("/", " | ").lower() for value in values]
        for name, values in given.items()
        if values is not None
    }


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _foreign(record: Any, error: Exception) -> UserError:
    asin = record.get("asin") if isinstance(record, Mapping) else None
    which = f"product {asin!r}" if isinstance(asin, str) else "a product without an asin"
    what = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
    return UserError(
        f"{which[:80]} is not in WebShop's form ({what[:120]}); take the files that WebShop ships"
    )
