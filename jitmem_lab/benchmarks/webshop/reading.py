"""Reading WebShop's files, however large: one record at a time, torn and foreign files told in a sentence."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from ...errors import UserError
from .files import SetFiles
from .products import Product, admitted, from_loaded, from_raw, with_instructions

_CHUNK = 1 << 22
_LARGEST = 1 << 26
"""No record is longer; what goes on without an end is no JSON."""
_OPENERS: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}


def read_products(files: SetFiles) -> Iterator[Product]:
    """The products of a set, in the data's order.

    Raises:
        UserError: A file cannot be read, is cut short, or holds something else.
    """
    attributes = read_object(files.attributes) if files.attributes else {}
    instructions = read_object(files.instructions) if files.instructions else {}
    return admitted(_made(record, attributes, instructions) for record in read_records(files.products))


def _made(record: Any, attributes: dict[str, Any], instructions: dict[str, Any]) -> Product:
    if isinstance(record, dict) and isinstance(record.get("product"), dict):
        record = record["product"]
    if not isinstance(record, dict):
        raise UserError(f"{record!r:.80} is no product: take the files of WebShop itself")
    asin = str(record.get("asin"))
    said, human = attributes.get(asin), instructions.get(asin, ())
    if "BulletPoints" in record and "Title" in record:
        return with_instructions(from_loaded(record), said, human)
    return from_raw(record, said, human)


def read_object(path: Path) -> dict[str, Any]:
    """A whole file that holds one JSON object."""
    try:
        with _open(path) as file:
            value = json.load(file)
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
        raise _torn(path, error) from None
    if not isinstance(value, dict):
        raise UserError(f"{path} should hold a JSON object, not a {type(value).__name__}: download it again")
    return value


def read_records(path: Path) -> Iterator[Any]:
    """The records of a file that holds a JSON array, or a JSON value a line; 4 MB of it at a time."""
    try:
        with _open(path) as file:
            first = file.read(1)
            if first == "[":
                yield from _array(file)
            else:
                yield from (json.loads(line) for line in _lines(first, file) if line.strip())
    except (OSError, EOFError, lzma.LZMAError, zlib.error, ValueError) as error:
        raise _torn(path, error) from None


def _lines(first: str, file: IO[str]) -> Iterator[str]:
    yield first + file.readline()
    yield from file


def _array(file: IO[str]) -> Iterator[Any]:
    decoder = json.JSONDecoder()
    text, at = "", 0
    while True:
        while at < len(text) and text[at] in " \t\r\n,":
            at += 1
        if text[at : at + 1] == "]":
            return
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            more = file.read(_CHUNK)
            if not more or len(text) - at > _LARGEST:
                raise
            text, at = text[at:] + more, 0
        else:
            yield value


def _open(path: Path) -> IO[str]:
    opened: IO[str] = _OPENERS.get(path.suffix, open)(path, "rt", encoding="utf-8")
    return opened


def _torn(path: Path, error: Exception) -> UserError:
    return UserError(f"{path} cannot be read, it may be cut short ({error!s:.120}): download it again")
