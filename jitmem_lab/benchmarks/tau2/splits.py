"""The splits of τ²-bench: a domain, alone or in talk with a user, and a part of its tasks."""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_SPLIT = "telecom_solo_small"


class Split(NamedTuple):
    """What a split's name stands for."""

    domain: str
    """airline, retail, telecom or mock."""
    solo: bool
    """Whether the agent works from a ticket, with the user's tools as its own and no user."""
    part: str
    """τ²'s name of the part: base (all that are usually reported), train, test, small, full."""


def _table() -> dict[str, Split]:
    parts = {
        "airline": ("base", "train", "test"),
        "retail": ("base", "train", "test"),
        "telecom": ("base", "train", "test", "small", "full"),
        "mock": ("base",),
    }
    table = {}
    for domain, names in parts.items():
        for solo in (False, True) if domain in ("telecom", "mock") else (False,):
            for part in names:
                name = domain + ("_solo" if solo else "") + ("" if part == "base" else f"_{part}")
                table[name] = Split(domain, solo, part)
    return table


SPLITS = _table()
"""All splits by name."""


def train_split(name: str) -> str:
    """The split of the same domain and mode that demonstrations come from; mock has only itself."""
    split = SPLITS[name]
    train = split._replace(part="base" if split.domain == "mock" else "train")
    return next(other for other, what in SPLITS.items() if what == train)
