"""A set of products with its search and its prices: what an engine shops in."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ... import data
from ...errors import UserError
from . import search
from .files import GENERATED_SPLITS, SetFiles, find_sets
from .products import Product, from_loaded
from .reading import read_products
from .store import open_shelf, prepare

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
def products_of(name: str) -> tuple[Product, ...]:
    """All products of the generated or the small set, in memory."""
    if name == "generated":
        from . import generated

        return tuple(map(from_loaded, generated.products()))
    return read_all(set_files(name))


def read_all(files: SetFiles) -> tuple[Product, ...]:
    """All products of a set's files; `UserError` if there is none."""
    found = tuple(read_products(files))
    if not found:
        raise UserError(f"{files.products} holds no product: download it again")
    return found


@functools.lru_cache(maxsize=4)
def load_catalogue(name: str) -> Catalogue:
    """The catalogue of a set: generated, small or full; the full one is prepared on disk the first time."""
    if name == "generated":
        from . import generated

        prices = generated.prices()
        return Catalogue(products_of(name), prices=lambda product: prices[product.asin])
    if name == "small":
        return Catalogue(products_of(name))
    return open_catalogue(prepare(set_files(name)))


def open_catalogue(folder: Path) -> Catalogue:
    """The catalogue of a folder that `store.prepare` made."""
    shelf, asins, index = open_shelf(folder)
    return Catalogue(shelf, index, asins)


def content_hash(products: Iterable[Product]) -> str:
    """Hash of all that a set of products says, 16 hex digits."""
    digest = hashlib.sha256()
    for product in products:
        digest.update(json.dumps(product).encode("ascii"))
    return digest.hexdigest()[:16]
