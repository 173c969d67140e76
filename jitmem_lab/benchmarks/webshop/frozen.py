"""Goals of the real products: made once, kept in the user's cache with their seed, then always read there."""

from __future__ import annotations

import contextlib
import functools
import json
from pathlib import Path
from typing import Any

from ...data import cache_dir
from ...files import write_atomic
from ...records import content_hash, to_json
from .catalogue import PRICE_SEED, Place, hash_at, products_at
from .goals import SHUFFLE_SEED, Goal, human_goals, shuffled, synthetic_goals

FORMAT = 1
"""Version of the file, and of how goals are made."""


def goals_file(place: Place) -> Path:
    """Where the goals of a set are kept."""
    return cache_dir() / "webshop" / f"goals-{place.name}-{hash_at(place)}.jsonl"


@functools.lru_cache(maxsize=4)
def goals_at(place: Place) -> tuple[Goal, ...]:
    """The goals of the small or the full set in the original's order; human ones where they are known.

    A file that is torn, or that was made for other products or with another seed, is made anew.
    """
    path = goals_file(place)
    kept = _read(path, place)
    if kept is None:
        kept = make_goals(place)
        with contextlib.suppress(OSError):  # without a cache the same seed makes the same goals
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [to_json(goal.record()) for goal in kept]
            write_atomic(path, "\n".join([to_json(_header(place, rows)), *rows, ""]))
    return kept


def make_goals(place: Place) -> tuple[Goal, ...]:
    """The goals made anew: human ones if the products have any (full set), else synthetic ones."""
    products = products_at(place)
    human = shuffled(human_goals(products, PRICE_SEED)) if place.name == "full" else []
    return tuple(human or shuffled(synthetic_goals(products, PRICE_SEED)))


def goals_hash(goals: tuple[Goal, ...]) -> str:
    """Hash of goals in their order, 16 hex digits."""
    return content_hash([goal.record() for goal in goals])


def _header(place: Place, rows: list[str]) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "price_seed": PRICE_SEED,
        "shuffle_seed": SHUFFLE_SEED,
        "products": hash_at(place),
        "count": len(rows),
        "hash": content_hash(rows),
    }


def _read(path: Path, place: Place) -> tuple[Goal, ...] | None:
    """The goals in a file; None unless it is whole and ours."""
    try:
        head, *rows = path.read_text(encoding="utf-8").splitlines()
        if json.loads(head) != _header(place, rows):
            return None
        return tuple(Goal.of(json.loads(row)) for row in rows)
    except (OSError, ValueError):
        return None
