"""The whole catalogue on disk: read once, kept in the user's cache, and opened at once after that."""

from __future__ import annotations

import functools
import hashlib
import json
import mmap
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, overload

import numpy as np
from tqdm import tqdm

from ...data import cache_dir
from ...errors import UserError
from ...records import content_hash as hash_of
from . import search
from .files import SetFiles
from .products import Product
from .reading import read_products

FORMAT = 1
"""Version of the folder's layout, and of what `products.py` makes of a record."""
_LINES, _ENDS, _ASINS, _HASH = "products.jsonl", "ends.npy", "asins.json", "hash.txt"


class Shelf(Sequence[Product]):
    """Products in a file, read when they are asked for; the last few thousand stay in memory."""

    def __init__(self, folder: Path) -> None:
        self._ends = np.load(folder / _ENDS, mmap_mode="r")
        with (folder / _LINES).open("rb") as file:
            self._lines = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._read = functools.lru_cache(maxsize=4096)(self._line)

    def __len__(self) -> int:
        return len(self._ends)

    @overload
    def __getitem__(self, row: int) -> Product: ...
    @overload
    def __getitem__(self, row: slice) -> list[Product]: ...
    def __getitem__(self, row: int | slice) -> Product | list[Product]:
        if isinstance(row, slice):
            return [self._read(each) for each in range(*row.indices(len(self)))]
        return self._read(range(len(self))[row])

    def __iter__(self) -> Iterator[Product]:
        return (self._line(row) for row in range(len(self)))

    def _line(self, row: int) -> Product:
        start = int(self._ends[row - 1]) if row else 0
        return _product(json.loads(self._lines[start : int(self._ends[row])]))


def _product(values: list[Any]) -> Product:
    """A product from the list that JSON makes of it."""
    return Product._make(tuple(value) if isinstance(value, list) else value for value in values)


def folder_of(files: SetFiles) -> Path:
    """Where a set is kept; another folder as soon as one of its files changes."""
    return cache_dir() / "webshop" / f"{files.name}-{hash_of([FORMAT, files.state()])}"


def prepare(files: SetFiles) -> Path:
    """The folder of a set, made first if it isn't there: minutes for the whole catalogue, once."""
    folder = folder_of(files)
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    making = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        _write(making, read_products(files))
        try:
            making.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker
                raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    return folder


def _write(folder: Path, products: Iterable[Product]) -> None:
    ends = array("q")
    asins: list[str] = []
    digest = hashlib.sha256()

    def texts() -> Iterator[str]:
        with (folder / _LINES).open("wb") as lines:
            for product in tqdm(products, "WebShop's products, once", unit=" products", delay=5):
                line = product_line(product)
                lines.write(line)
                digest.update(line)
                ends.append(lines.tell())
                asins.append(product.asin)
                yield product.text()

    index = search.build(texts(), asins)
    if not asins:
        raise UserError("the full set's file holds no product: download it again")
    (folder / _HASH).write_text(digest.hexdigest()[:16], encoding="ascii")
    index.save(folder)
    np.save(folder / _ENDS, np.array(ends, np.int64))
    (folder / _ASINS).write_text(json.dumps(asins), encoding="utf-8")


def product_line(product: Product) -> bytes:
    """A product as it is stored and hashed."""
    return json.dumps(product).encode("ascii")


def content_hash(products: Iterable[Product]) -> str:
    """Hash of all that a set of products says, 16 hex digits."""
    digest = hashlib.sha256()
    for product in products:
        digest.update(product_line(product))
    return digest.hexdigest()[:16]


def kept_hash(folder: Path) -> str:
    """`content_hash` of the products in a prepared folder."""
    return (folder / _HASH).read_text(encoding="ascii")


def open_shelf(folder: Path) -> tuple[Shelf, list[str], search.Index]:
    """The products of a prepared folder, their ids in order, and their index."""
    return Shelf(folder), json.loads((folder / _ASINS).read_text(encoding="utf-8")), search.Index.load(folder)
