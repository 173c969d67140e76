"""WebShop's default data: a synthetic catalogue and goals that were frozen once.

Products are made in code at load; the goals stand in `generated_goals.json` beside this file, with the
content hash of the catalogue that they were made for. `python -m jitmem_lab.benchmarks.webshop.generated`
writes the file anew.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
import random
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...records import content_hash
from .generated_goals import SEED, SIZES, make_goals
from .generated_products import make_products

FORMAT = 1
"""Version of the file of goals."""
SPLITS = tuple(SIZES)
"""Splits of the goals: train, dev, test."""

_FILE = "generated_goals.json"


def products() -> list[dict[str, Any]]:
    """The catalogue, in the schema that WebShop's own load step leaves; new objects at each call."""
    return make_products()


@functools.cache
def catalogue_hash() -> str:
    """Content hash of the catalogue that this code makes."""
    return content_hash(products())


@functools.cache
def _frozen() -> dict[str, Any]:
    """The frozen file.

    Raises:
        UserError: It was made for another catalogue than this code makes.
    """
    text = (importlib.resources.files(__package__) / _FILE).read_text(encoding="utf-8")
    frozen: dict[str, Any] = json.loads(text)
    if frozen["format"] != FORMAT or frozen["catalogue"] != catalogue_hash():
        raise UserError(
            "the frozen WebShop goals belong to another catalogue than this code makes; write them anew "
            "with python -m jitmem_lab.benchmarks.webshop.generated"
        )
    return frozen


def prices() -> dict[str, float]:
    """What each product costs when bought: its one price, or a frozen one between its two."""
    drawn = _frozen()["prices"]
    return {p["asin"]: drawn.get(p["asin"], p["pricing"][0]) for p in products()}


def goals(split: str) -> list[dict[str, Any]]:
    """The goals of a split in their order, in WebShop's schema, with `difficulty` from 1 to 3.

    Half of the goals of dev and test are on products that no goal of train is on.

    Raises:
        UserError: There is no such split, or the frozen goals do not fit the catalogue.
    """
    if split not in SPLITS:
        raise UserError(f"there is no split {split!r} of the generated goals; there are {', '.join(SPLITS)}")
    by_asin = {product["asin"]: product for product in products()}
    found = []
    for goal in _frozen()["goals"][split]:
        product = by_asin[goal["asin"]]
        said = {name: product[name] for name in ("category", "query", "name", "product_category")}
        found.append({"asin": goal["asin"], **said, **json.loads(json.dumps(goal))})
    return found


def frozen_text() -> str:
    """What the frozen file should hold: one line a goal, the same bytes at every call."""
    catalogue = make_products()
    rng = random.Random(f"{SEED} prices")
    ranged = sorted((p["asin"], p["pricing"]) for p in catalogue if len(p["pricing"]) > 1)
    drawn = {asin: round(low + (high - low) * rng.random(), 2) for asin, (low, high) in ranged}
    head = {"format": FORMAT, "seed": SEED, "catalogue": content_hash(catalogue), "prices": drawn}
    lines = [json.dumps(head)[:-1] + ', "goals": {']
    splits = []
    for split, made in make_goals(catalogue).items():
        splits.append(f'"{split}": [\n' + ",\n".join(json.dumps(goal) for goal in made) + "\n]")
    return "\n".join([*lines, ",\n".join(splits), "}}", ""])


def freeze() -> Path:
    """Write the goals anew into the package's folder; gives the file."""
    path = Path(__file__).with_name(_FILE)
    path.write_text(frozen_text(), encoding="utf-8", newline="\n")
    _frozen.cache_clear()
    return path


if __name__ == "__main__":
    print(freeze())
