"""WebShop's files in a folder: which sets of products they hold (no heavy imports)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

REAL_SPLITS = ("small_train", "small_dev", "small_test", "full_train", "full_dev", "full_test")
"""Splits that need data: WebShop's 1,000 products, and its whole catalogue."""
GENERATED_SPLITS = ("generated_train", "generated_dev", "generated_test")
"""Splits of our own catalogue."""
PACKED = ("products_1k.jsonl",)
"""Names of our own layout: products after WebShop's loading step, a JSON line each."""
_ENDINGS = ("", ".xz", ".gz")


class SetFiles(NamedTuple):
    """The files of one set of products."""

    name: str
    """small or full."""
    products: Path
    """The products."""
    attributes: Path | None
    """`items_ins_v2*.json`: attributes, and the sentences of synthetic goals."""
    instructions: Path | None
    """`items_human_ins.json`; not used for the small set, whose published goals are synthetic."""

    def state(self) -> list[list[str | int]]:
        """Name, size and time of each file: changes when a file does."""
        paths = [path for path in self[1:] if isinstance(path, Path)]
        return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths]


def set_of(split: str) -> str:
    """The set that a split belongs to: generated, small or full."""
    return split.partition("_")[0]


def find_sets(folder: Path) -> dict[str, SetFiles]:
    """The sets whose products lie in `folder`, by name; each file may end in .xz or .gz."""
    found = {}
    small = _first(folder, *PACKED, "items_shuffle_1000.json")
    if small:
        found["small"] = SetFiles("small", small, _first(folder, "items_ins_v2_1000.json"), None)
    full = _first(folder, "items_shuffle.json")
    if full:
        attributes, instructions = _first(folder, "items_ins_v2.json"), _first(folder, "items_human_ins.json")
        found["full"] = SetFiles("full", full, attributes, instructions)
    return found


def is_packed(folder: Path) -> bool:
    """Whether a folder is in our own layout rather than WebShop's."""
    return _first(folder, *PACKED) is not None


def _first(folder: Path, *names: str) -> Path | None:
    paths = (folder / f"{name}{ending}" for name in names for ending in _ENDINGS)
    return next((path for path in paths if path.is_file()), None)
