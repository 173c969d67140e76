"""A set of products with its search and its prices: what an engine shops in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ... import data
from ...errors import UserError
from . import search, store
from .files import GENERATED_SPLITS, SetFiles, find_sets
from .products import Product, from_loaded
from .reading import read_products

PRICE_SEED = 0
"""Seed of the prices within a product's range, and of the goals' limits."""


class Catalogue:
    """Products that can be searched.

    Args:
        products: All of them, in the data's order.
        index: Their index; None builds it now.
        asins: Their ids; None asks the products.
        prices: What a product costs; None takes its price, drawn with `PRICE_SEED` where it is a range.
    """

    def __init__(
        self,
        products: Sequence[Product],
        index: search.Index | None = None,
        asins: Sequence[str] | None = None,
        prices: Callable[[Product], float] | None = None,
    ) -> None:
        self.products = products
        self.asins = [product.asin for product in products] if asins is None else asins
        self._rows = {asin: row for row, asin in enumerate(self.asins)}
        self._index = index or search.build((product.text() for product in products), self.asins)
        self._prices = prices or (lambda product: product.price(PRICE_SEED))

    def __contains__(self, asin: object) -> bool:
        return asin in self._rows

    def product(self, asin: str) -> Product | None:
        """The product of an id; None for an id that is not here."""
        row = self._rows.get(asin)
        return None if row is None else self.products[row]

    def search(self, query: str) -> list[str]:
        """Ids of the best 50 products for a query, best first."""
        return [self.asins[row] for row in self._index.search(query)]

    def price(self, product: Product) -> float:
        """What a product costs when it is bought."""
        return self._prices(product)


class Place(NamedTuple):
    """Where a set of products lies."""

    name: str
    """generated, small or full."""
    path: str = ""
    """The folder: of the small set's files, or the full set's prepared one; empty for the generated set."""


def locate(name: str) -> Place:
    """Where a set lies; the full one is prepared on disk the first time, which takes minutes.

    Raises:
        UserError: Its files are not here, or can't be read.
    """
    if name == "generated":
        return Place(name)
    files = set_files(name)
    return Place(name, str(store.prepare(files) if name == "full" else files.products.parent))


def set_files(name: str) -> SetFiles:
    """The files of the small or the full set; `UserError` where they aren't."""
    source = data.find("webshop")
    found = find_sets(source.path) if source.path else {}
    if name not in found:
        where = f" in {source.path}" if source.path else ""
        raise UserError(
            f"WebShop's {name} products were not found{where}: {data.advice('webshop')}; without data use "
            f"{', '.join(GENERATED_SPLITS)}"
        )
    return found[name]


@functools.lru_cache(maxsize=4)
def products_at(place: Place) -> Sequence[Product]:
    """All products of a set; those of the full one are read from disk when they are asked for."""
    if place.name == "generated":
        from . import generated

        return tuple(map(from_loaded, generated.products()))
    if place.name == "small":
        return read_all(find_sets(Path(place.path))["small"])
    return store.open_shelf(Path(place.path))[0]


@functools.lru_cache(maxsize=4)
def hash_at(place: Place) -> str:
    """Hash of all that the products of a set say, 16 hex digits."""
    kept = store.kept_hash(Path(place.path)) if place.name == "full" else ""
    return kept or store.content_hash(products_at(place))


@functools.lru_cache(maxsize=4)
def catalogue_at(place: Place) -> Catalogue:
    """The catalogue of a set."""
    if place.name == "generated":
        from . import generated

        prices = generated.prices()
        return Catalogue(products_at(place), prices=lambda product: prices[product.asin])
    if place.name == "small":
        return Catalogue(products_at(place))
    shelf, asins, index = store.open_shelf(Path(place.path))
    return Catalogue(shelf, index, asins)


def read_all(files: SetFiles) -> tuple[Product, ...]:
    """All products of a set's files; `UserError` if there is none."""
    found: Iterable[Product] = read_products(files)
    products = tuple(found)
    if not products:
        raise UserError(f"{files.products} holds no product: download it again")
    return products
