"""Episodes told with detours, as a small executor plays them: made up around walkthroughs of train games."""

from __future__ import annotations

import random
from typing import NamedTuple

from .experts import Expert, Experts, Leg

LONGEST = 20
"""Steps of an episode, as the preset `pocket` plays it; a failure has all of them."""
STRAIGHT = 0.35
"""Share of successes without any detour, as demonstrations are."""
ERRANDS = 0.2
"""Share of detours on which something is taken and brought to a place where it isn't wanted."""
_STATES = {"go": "there", "take": "taken", "move": "put", "heat": "hot", "use": "on"}


class Done(NamedTuple):
    """One step."""

    action: str
    """What was done."""
    needed: bool
    """Whether the walkthrough has it too; a detour is not needed."""

    @property
    def event(self) -> str:
        """The action and what it changed, in a word; `nothing` on a detour."""
        verb = self.action.split()[0]
        return f"{self.action}: {_STATES.get(verb, verb) if self.needed else 'nothing'}"


class Attempt(NamedTuple):
    """One episode."""

    episode: Expert
    """The game and its walkthrough."""
    steps: tuple[Done, ...]
    """What was done."""
    missing: str
    """What was not found, e.g. `mug`; empty for a success."""

    @property
    def actions(self) -> list[str]:
        """All that was done."""
        return [step.action for step in self.steps]

    @property
    def needed(self) -> list[str]:
        """The actions that were needed."""
        return [step.action for step in self.steps if step.needed]

    @property
    def in_vain(self) -> list[str]:
        """Places that were gone to in vain, each once, in order."""
        gone = [step.action for step in self.steps if not step.needed and step.action.startswith("go to ")]
        return [place.removeprefix("go to ") for place in dict.fromkeys(gone)]


def attempt(experts: Experts, episode: Expert, rng: random.Random, success: bool = True) -> Attempt:
    """An episode of a game: its walkthrough with detours, or one that searches on to the last step.

    Args:
        experts: Rooms and things of the train games.
        episode: The game.
        rng: Source of every choice.
        success: Whether it ends well. A failure does what comes before one of the game's searches, and
            then searches for `missing` until there are `LONGEST` steps.
    """
    telling = _Telling(experts, episode, rng)
    searches = [number for number, leg in enumerate(episode.legs) if leg.searches and leg.place]
    failing = rng.choice(searches) if searches and not success else -1
    spare = 0 if rng.random() < STRAIGHT else rng.randint(0, max(0, LONGEST - len(episode.actions)))
    for number, leg in enumerate(episode.legs):
        if number in searches:
            left = LONGEST if number == failing else rng.randint(0, spare)
            before = len(telling.steps)
            telling.search(leg, before + left if number != failing else left, number == failing)
            spare -= len(telling.steps) - before if number != failing else 0
        if number == failing:
            return Attempt(episode, tuple(telling.steps[:LONGEST]), leg.found)
        telling.go(leg)
    return Attempt(episode, tuple(telling.steps), "")


class _Telling:
    """The steps of one attempt, with the doors that stand open by now."""

    def __init__(self, experts: Experts, episode: Expert, rng: random.Random) -> None:
        self.steps: list[Done] = []
        self._experts, self._rng = experts, rng
        self._near = experts.places[episode.scene]
        self._goal = set(episode.goal.rstrip(".").split())
        self._open: set[str] = set()

    def go(self, leg: Leg) -> None:
        """What the walkthrough does in one place."""
        if leg.place:
            self.steps.append(Done(f"go to {leg.place}", True))
        for act in leg.acts:
            place = act.removeprefix("open ")
            if act == place or place not in self._open:
                self.steps.append(Done(act, True))
                self._open |= {place} - {act}

    def search(self, leg: Leg, until: int, fails: bool) -> None:
        """Detours before `leg` as long as there are fewer than `until` steps, a success no more than that."""
        while len(self.steps) < until:
            detour = self._errand(leg) if self._rng.random() < ERRANDS else self._walk(self._place(leg))
            if not fails and len(self.steps) + len(detour) > until:
                return
            self.steps += [Done(action, False) for action in detour]

    def _place(self, leg: Leg) -> str:
        place = f"{self._rng.choice(self._experts.kinds)} {self._rng.randint(1, 4)}"
        if self._rng.random() < 0.7:
            place = self._rng.choice(self._near)
        return place if place != leg.place else f"{place.split()[0]} {self._rng.randint(5, 9)}"

    def _walk(self, place: str) -> list[str]:
        steps = self._experts.walk(place)
        seen = place in self._open
        self._open |= {place} if len(steps) > 1 else set()
        return steps[:1] if seen else steps

    def _errand(self, leg: Leg) -> list[str]:
        """Something is taken and brought to a place that the goal doesn't name."""
        start, end = self._place(leg), self._place(leg)
        thing = leg.found if self._rng.random() < 0.25 else self._rng.choice(self._experts.things)
        if end.split()[0] in self._goal or start == end:
            return self._walk(start)
        named = f"{thing} {self._rng.randint(1, 3)}"
        return [*self._walk(start), f"take {named} from {start}", *self._walk(end), f"move {named} to {end}"]
