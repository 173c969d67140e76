"""What the pocket models are fitted on: texts in the very form in which executor and curator are asked."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import NamedTuple

from ..curation import HEADINGS
from ..prompts import load_prompt
from .experts import Expert, Experts, Leg


class Lesson(NamedTuple):
    """A text in two parts."""

    context: str
    """What is given."""
    target: str
    """How it goes on."""
    doubtful: tuple[int, ...] = ()
    """Steps of it, from 1, whose first word could be another if something else had been there."""
    guessed: tuple[int, ...] = ()
    """Steps of it, from 1, that nothing in the context tells."""


def numbered(actions: Sequence[str]) -> str:
    """Actions as a numbered list."""
    return "\n".join(f"{number}. {action}" for number, action in enumerate(actions, 1))


def block(goal: str, actions: Sequence[str]) -> str:
    """A solved example, as a trace or payload is shown."""
    return f"Task: {goal}\n{HEADINGS['steps']}\n{numbered(actions)}"


def executor_lesson(experts: Experts, rng: random.Random) -> Lesson:
    """An episode as the executor would play it, with or without a payload before it.

    In some of them (15 in 100) there is no payload. In the others it is the walkthrough; or it names several
    places to look in, one of them right; or wrong places only. The episode then looks where the payload says,
    as far as the room has such places, takes what it finds, and looks elsewhere when all were wrong. Numbers
    of things and of places to bring them to may differ too.

    Leaving a place where nothing was found is a doubtful step: the executor chooses among what is possible,
    so where the thing is missing, taking it is no choice. Going to a place that the payload does not name is
    a guess.

    Every thing and place has the name of another, drawn anew for each lesson: what is learned is to read a
    payload and to play, not where things lie or what heats them. That is for the memory to say.
    """
    episode = rng.choice(experts.episodes)
    kind = rng.choices(("none", "exact", "listed", "wrong"), (15, 10, 47, 28))[0]
    room = set(experts.places[episode.scene])
    renumber = _Renumber(rng, 0.0 if kind == "exact" else 0.4)
    payload: list[str] = []
    story: list[str] = []
    doubtful: list[int] = []
    guessed: list[int] = []
    for leg in episode.legs:
        if not leg.searches or not leg.place:
            story += _done(leg)
            payload += [renumber(action, place=True) for action in _done(leg)]
            continue
        listed = [leg.place]
        if kind in ("listed", "wrong"):
            others = wrong_places(experts, episode, leg, rng.randint(1, 5), rng)
            at = rng.randint(0, len(others))
            listed = others if kind == "wrong" and others else [*others[:at], leg.place, *others[at:]]
        visited = [place for place in listed if place in room]
        visited = visited[: visited.index(leg.place)] if leg.place in visited else visited
        if kind in ("none", "wrong"):
            more = wrong_places(experts, episode, leg, rng.choice((0, 0, 0, 1, 1, 2)), rng)
            visited += [place for place in more if place in room and place not in visited]
        named = [] if kind == "none" else listed
        for place in visited:
            guessed += [] if place in named else [len(story) + 1]
            story += experts.walk(place)
            doubtful.append(len(story) + 1)
        guessed += [] if leg.place in named else [len(story) + 1]
        story += _done(leg)
        payload += [renumber(action) for action in look(experts, leg, listed)]
    advice = "" if kind == "none" else block(episode.goal, payload) + "\n\n"
    prompt = load_prompt("executor_choose")
    (message,) = prompt.messages(task=episode.goal, advice=advice, steps="1.")
    rename = Rename(experts, rng)
    return Lesson(
        rename(message.content), rename(numbered(story).removeprefix("1.")), tuple(doubtful), tuple(guessed)
    )


def copy_lesson(experts: Experts, rng: random.Random, rename: bool = False) -> Lesson:
    """A list of places to go to under some goal, to be carried out as it stands.

    Args:
        experts: Where kinds of places come from.
        rng: Source of every choice.
        rename: Whether things and places bear others' names, as in `executor_lesson`.
    """
    goal = rng.choice(experts.episodes).goal
    steps: list[str] = []
    places = [f"{kind} {number}" for kind in experts.kinds for number in range(1, 5)]
    for place in rng.sample(places, min(len(places), rng.randint(3, 9))):
        steps += [f"go to {place}", *([f"open {place}"] if rng.random() < 0.2 else [])]
    advice = block(goal, steps) + "\n\n"
    (message,) = load_prompt("executor_choose").messages(task=goal, advice=advice, steps="1.")
    told = Rename(experts, rng) if rename else str
    return Lesson(told(message.content), told(numbered(steps).removeprefix("1.")))


def curator_lesson(experts: Experts, rng: random.Random) -> Lesson:
    """Three traces that BM25 finds for a train game, never its own, and a plan for that game.

    The plan is the game's walkthrough; in half of them it names, besides the right place to look in, one to
    three others where traces or other episodes found such a thing.
    """
    index = rng.randrange(len(experts.episodes))
    episode = experts.episodes[index]
    traces = experts.similar(index, 10 ** rng.uniform(-1.6, -0.3), 3, rng)
    several = rng.random() < 0.5
    plan: list[str] = []
    for leg in episode.legs:
        if not leg.searches or not leg.place:
            plan += _done(leg)
            continue
        listed = [leg.place]
        if several:
            seen = [
                one.place for trace in traces for one in trace.legs if one.searches and one.found == leg.found
            ]
            seen += rng.choices(experts.finds[leg.found], k=3)
            others = [place for place in dict.fromkeys(seen) if place and place != leg.place]
            others = others[: rng.randint(1, 3)]
            at = rng.randint(0, len(others))
            listed = [*others[:at], leg.place, *others[at:]]
        plan += look(experts, leg, listed)
    shown = "\n\n".join(block(trace.goal, trace.actions) for trace in traces) or "(none)"
    (message,) = load_prompt("curator_plan").messages(task=episode.goal, traces=shown)
    return Lesson(message.content, numbered(plan).removeprefix("1."))


def look(experts: Experts, leg: Leg, listed: Sequence[str]) -> list[str]:
    """Looking into places in turn, and at the last of them what `leg` does where it finds something."""
    actions = [action for place in listed[:-1] for action in experts.walk(place)]
    last = listed[-1]
    if last == leg.place:
        return actions + _done(leg)
    acts = [act for act in leg.acts if not act.startswith("open ")]
    return [
        *actions,
        *experts.walk(last),
        *(act.replace(f"from {leg.place}", f"from {last}") for act in acts),
    ]


def wrong_places(experts: Experts, episode: Expert, leg: Leg, count: int, rng: random.Random) -> list[str]:
    """At most `count` places besides the right one: half where such things lie; few aren't in the room."""
    near = experts.places[episode.scene]
    drawn = []
    for _ in range(count):
        likely = experts.finds[leg.found]
        inside = [place for place in likely if place in near]
        some = likely if rng.random() < 0.15 else inside or near
        drawn.append(rng.choice(some if rng.random() < 0.5 else near))
    return [place for place in dict.fromkeys(drawn) if place != leg.place]


def _done(leg: Leg) -> list[str]:
    return [f"go to {leg.place}", *leg.acts] if leg.place else list(leg.acts)


class Rename:
    """Each kind of thing called by the name of another, and each kind of place."""

    def __init__(self, experts: Experts, rng: random.Random) -> None:
        self._names: dict[str, str] = {}
        for kinds in (experts.things, experts.kinds):
            self._names |= zip(kinds, rng.sample(kinds, len(kinds)), strict=True)

    def __call__(self, text: str) -> str:
        """`text` with every name replaced."""
        return re.sub(r"[a-z]+", lambda match: self._names.get(match[0], match[0]), text)


class _Renumber:
    """Other instance numbers for what a payload names, the same throughout it."""

    def __init__(self, rng: random.Random, chance: float) -> None:
        self._rng, self._chance = rng, chance
        self._given: dict[str, str] = {}

    def __call__(self, action: str, place: bool = False) -> str:
        """`action` with the thing in it renumbered, and with `place` every place too."""
        if place:
            return re.sub(r"([a-z]+) (\d+)", lambda match: self._other(match[0]), action)
        return re.sub(r"(?<=take )([a-z]+) (\d+)", lambda match: self._other(match[0]), action)

    def _other(self, name: str) -> str:
        if name not in self._given:
            kind = name.split()[0]
            other = f"{kind} {self._rng.randint(1, 4)}"
            self._given[name] = other if self._rng.random() < self._chance else name
        return self._given[name]
