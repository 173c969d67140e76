"""Expert episodes of ALFWorld's train split, and what can be read off them: rooms, and where things lie."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from ..errors import UserError
from ..retrieval import BM25Index

"""Splits that the pocket models may be fitted on."""
_LOOKED_UP = 600
"""Most similar episodes that are kept for each, so that a small random bank still has three of them."""


class Leg(NamedTuple):
    """A walk to one place and what is done there."""

    place: str
    """Where, e.g. `cabinet 3`."""
    acts: tuple[str, ...]
    """What is done there, opening it included."""

    @property
    def searches(self) -> bool:
        """Whether something that must first be found is taken or used here."""
        return any(act.startswith(("take ", "use ")) for act in self.acts)

    @property
    def found(self) -> str:
        """What is found here, e.g. `mug`; the lamp where only a lamp is."""
        taken = [act for act in self.acts if act.startswith("take ")] or list(self.acts)
        return next((act.split()[1] for act in taken if act.startswith(("take ", "use "))), "")


class Expert(NamedTuple):
    """One solved train game."""

    task_id: str
    """The game."""
    goal: str
    """Its sentence."""
    scene: str
    """Its room."""
    actions: tuple[str, ...]
    """The planner's walkthrough."""

    @property
    def legs(self) -> list[Leg]:
        """The walkthrough place by place."""
        found: list[tuple[str, list[str]]] = []
        for action in self.actions:
            if action.startswith("go to "):
                found.append((action.removeprefix("go to "), []))
            elif found:
                found[-1][1].append(action)
            else:
                found.append(("", [action]))
        return [Leg(place, tuple(acts)) for place, acts in found]


class Experts:
    """Expert episodes, and what they tell together.

    Args:
        episodes: Solved train games, at least two.
        names: Kinds of thing and place that other games may have besides.
        split: Where they come from.

    Raises:
        UserError: There are fewer.
    """

    def __init__(self, episodes: Sequence[Expert], names: Sequence[str] = (), split: str = "") -> None:
        if len(episodes) < 2:
            raise UserError("fitting needs at least two expert episodes")
        self.episodes = list(episodes)
        self.names, self.split = list(names), split
        self.openable: set[str] = set()
        """Kinds of place that are closed at first."""
        self.places: dict[str, list[str]] = {}
        """Places of each room that some episode goes to."""
        self.finds: dict[str, list[str]] = defaultdict(list)
        """Where each thing was found, once an episode."""
        self.things: list[str] = []
        """Kinds of thing that are taken."""
        self.kinds: list[str] = []
        """Kinds of place."""
        rooms: dict[str, set[str]] = defaultdict(set)
        for episode in self.episodes:
            for leg in episode.legs:
                if leg.place:
                    rooms[episode.scene].add(leg.place)
                if leg.searches and leg.place:
                    self.finds[leg.found].append(leg.place)
            self.openable |= {act.split()[1] for act in episode.actions if act.startswith("open ")}
        self.places = {scene: sorted(found) for scene, found in rooms.items()}
        acts = [action.split() for episode in self.episodes for action in episode.actions]
        self.things = sorted({words[1] for words in acts if words[0] == "take"})
        self.kinds = sorted({place.split()[0] for found in rooms.values() for place in found})
        self._index = BM25Index()
        self._index.extend([episode.goal for episode in self.episodes])
        self._near: dict[int, list[tuple[float, int]]] = {}

    def walk(self, place: str) -> list[str]:
        """Going to a place and opening it, if places of its kind are closed."""
        opened = [f"open {place}"] if place.split()[0] in self.openable else []
        return [f"go to {place}", *opened]

    def similar(self, index: int, share: float, k: int, rng: random.Random) -> list[Expert]:
        """The `k` episodes that BM25 ranks best for episode `index`, in a random bank of that `share`.

        Never the episode itself. Equal scores come in random order, as in banks filled in random order.
        """
        if index not in self._near:
            hits = self._index.rank(self.episodes[index].goal, _LOOKED_UP)
            self._near[index] = [(hit.score, hit.id - 1) for hit in hits if hit.id - 1 != index]
        kept = [(-score, rng.random(), other) for score, other in self._near[index] if rng.random() < share]
        return [self.episodes[other] for _, _, other in sorted(kept)[:k]]
