"""What the pocket writer is fitted on: what write-time memories ask after an episode, and what they ask for.

A lesson is a system's own prompt of the variant `small`, filled in as the system does, and an answer as its
published idea wants it, in words of ALFWorld's actions wherever it names steps.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import NamedTuple

from ..memories.expel import FAILED, SUCCEEDED
from ..prompts import load_prompt
from ..traces import fit
from .attempts import Attempt, attempt
from .experts import Expert, Experts
from .lessons import Lesson, Rename, numbered
from .vocabulary import pieces

SHARES = {
    "memp_events": 22,
    "memp_critical": 14,
    "reasoningbank_success": 14,
    "reasoningbank_failure": 12,
    "skillos_text": 16,
    "awm_induce": 10,
    "expel_contrast": 8,
    "expel_successes": 4,
}
"""Of 100 lessons, how many are of each prompt."""
RENAMED = 0.5
"""Share of lessons in which kinds of things and places bear each other's names, so that the writer reads."""
SET = 8
"""Successes that ExpeL looks at together."""
MOST_PLACES = 8
"""Places that a lesson from a failure names."""
_RECORDS = 640
"""Pieces of all records in a prompt of ExpeL, so that it fits the context with the answer."""
_VERBS = ("heat", "cool", "clean", "use")


class Aim(NamedTuple):
    """What a game is about."""

    verb: str
    """`heat`, `cool`, `clean`, `use` (look under a lamp), `two` or `put`."""
    thing: str
    """Kind of thing."""
    target: str
    """Kind of place it is wanted in; of lamp for `use`."""
    tool: str
    """What heats, cools or cleans, with its number."""

    @property
    def name(self) -> str:
        """What is done, e.g. `heat mug and put it in shelf`."""
        return self.named(self.thing, self.target)

    def named(self, thing: str, target: str) -> str:
        """The same of another thing and place."""
        if self.verb == "use":
            return f"look at {thing} under the {target}"
        if self.verb in ("two", "put"):
            return f"put {'two ' if self.verb == 'two' else ''}{thing} in {target}"
        return f"{self.verb} {thing} and put it in {target}"

    @property
    def occasion(self) -> str:
        """When it is to be done."""
        if self.verb == "use":
            return f"When {self.thing} is to be examined with the {self.target}."
        how = {"heat": "hot ", "cool": "cool ", "clean": "clean ", "two": "two "}.get(self.verb, "")
        return f"When {how}{self.thing} {'are' if self.verb == 'two' else 'is'} wanted in {self.target}."


def aim_of(episode: Expert) -> Aim:
    """What a game is about, read off its walkthrough."""
    acts = [action.split() for action in episode.actions]
    taken = [words[1] for words in acts if words[0] == "take"]
    put = [words[-2] for words in acts if words[0] == "move"]
    verb, words = next(((words[0], words) for words in acts if words[0] in _VERBS), ("", ["", "", ""]))
    if not verb:
        verb = "two" if len(taken) > 1 else "put"
    target = words[1] if verb == "use" else (put or [""])[-1]
    tool = " ".join(words[-2:]) if verb in ("heat", "cool", "clean") else ""
    return Aim(verb, (taken or [""])[0], target, tool)


def short_lesson(experts: Experts, rng: random.Random) -> Lesson:
    """A lesson about one attempt, without the prompt's example and all names shuffled: it teaches to copy."""
    names = [name for name in SHARES if not name.startswith("expel")]
    lesson = writer_lesson(experts, rng, rng.choice(names), renamed=1.0)
    return lesson._replace(context="Task:" + lesson.context.rpartition("\n\nTask:")[2])


def writer_lesson(
    experts: Experts, rng: random.Random, name: str | None = None, renamed: float | None = None
) -> Lesson:
    """A prompt and its answer.

    Args:
        experts: What to tell of.
        rng: Source of every choice.
        name: One of `SHARES`; None draws it.
        renamed: Chance of shuffled names; None takes `RENAMED`.
    """
    name = name or rng.choices(list(SHARES), list(SHARES.values()))[0]
    chance = RENAMED if renamed is None else renamed
    rename: Callable[[str], str] = Rename(experts, rng) if rng.random() < chance else str
    fields, answer = _MAKERS[name](experts, rng)
    told = {field: rename(text) for field, text in fields.items()}
    (message,) = load_prompt(f"{name}_continue").messages(**told)
    return Lesson(message.content, rename(answer))


Made = tuple[dict[str, str], str]
"""The fields of a prompt and the answer to it."""


def _drawn(experts: Experts, rng: random.Random, success: bool = True) -> Attempt:
    return attempt(experts, rng.choice(experts.episodes), rng, success)


def _told(one: Attempt) -> dict[str, str]:
    return {"task": one.episode.goal, "trace": numbered(one.actions)}


def _events(experts: Experts, rng: random.Random) -> Made:
    one = _drawn(experts, rng, rng.random() < 0.6)
    return _told(one), numbered([step.event for step in one.steps]).removeprefix("1.")


def _critical(experts: Experts, rng: random.Random) -> Made:
    one = _drawn(experts, rng, rng.random() < 0.6)
    picked = [str(number) for number, step in enumerate(one.steps, 1) if step.needed]
    events = numbered([step.event for step in one.steps])
    return {"task": one.episode.goal, "events": events}, f"{', '.join(picked)}]"


def _success(experts: Experts, rng: random.Random) -> Made:
    one = _drawn(experts, rng)
    aim = aim_of(one.episode)
    content = " ".join(f"{action}." for action in one.needed)
    return _told(one), f" {aim.name}\nDescription: {aim.occasion}\nContent: {content}"


def _failure(experts: Experts, rng: random.Random) -> Made:
    one = _drawn(experts, rng, False)
    places = ", ".join(one.in_vain[:MOST_PLACES])
    title = f" look for {one.missing} elsewhere\nDescription: When places were searched in vain."
    content = f"{one.missing} was not at {places}. Look at other places, at each of them once."
    return _told(one), f"{title}\nContent: {content}"


def _skill(experts: Experts, rng: random.Random) -> Made:
    one = _drawn(experts, rng)
    aim = aim_of(one.episode)
    return _told(one), f" {aim.name}\ndescription: {aim.occasion}\n---\n{numbered(one.needed)}"


def _workflow(experts: Experts, rng: random.Random) -> Made:
    one = _drawn(experts, rng)
    aim = aim_of(one.episode)
    steps = [general(action, aim) for action in one.needed]
    return _told(one), f" {aim.named('a thing', 'a place')}\n{numbered(steps)}"


def general(action: str, aim: Aim) -> str:
    """An action with variables: thing, places where it may lie, and target; what heats or cools stays."""

    def variable(match: re.Match[str]) -> str:
        if match[0] == aim.tool or (aim.verb == "use" and match[1] == aim.target):
            return match[0]
        return {aim.thing: "{THING}", aim.target: "{TARGET}"}.get(match[1], "{PLACE}")

    return re.sub(r"([a-z]+) \d+", variable, action)


def _record(head: str, one: Attempt) -> tuple[str, str]:
    return f"{head}\nTask: {one.episode.goal}\nWhat happened:\n", numbered(one.actions)


def _records(parts: list[tuple[str, str]]) -> str:
    texts = fit([text for _, text in parts], _RECORDS, lambda text: len(pieces(text)))
    return "\n\n".join(head + text.text for (head, _), text in zip(parts, texts, strict=True))


def _found(one: Attempt) -> tuple[str, str]:
    """What was found first, and in what kind of place."""
    leg = next((leg for leg in one.episode.legs if leg.searches and leg.place), None)
    return (leg.found, leg.place.split()[0]) if leg else (aim_of(one.episode).thing, "")


def _contrast(experts: Experts, rng: random.Random) -> Made:
    index = rng.randrange(len(experts.episodes))
    near = experts.similar(index, 10 ** rng.uniform(-1.6, -0.3), 1, rng) or [rng.choice(experts.episodes)]
    failed = attempt(experts, experts.episodes[index], rng, False)
    solved = attempt(experts, near[0], rng)
    thing, place = _found(solved)
    vain = [one.split()[0] for one in failed.in_vain]
    other = next((one for one in vain if one != place), "")
    rule = f" Look for {thing} in {place} first{f', not in {other}' if other else ''}."
    return {"records": _records([_record(FAILED, failed), _record(SUCCEEDED, solved)])}, rule


def _successes(experts: Experts, rng: random.Random) -> Made:
    several = [_drawn(experts, rng) for _ in range(SET)]
    thing, place = _found(several[-1])
    rules = [f" Look for {thing} in {place} first."]
    aims = [aim for aim in map(aim_of, (one.episode for one in several)) if aim.tool]
    if aims:
        rules.append(f"ADD: To {aims[-1].verb} a thing, go to {aims[-1].tool} with it.")
    return {"records": _records([_record(SUCCEEDED, one) for one in several])}, "\n".join(rules)


_MAKERS: dict[str, Callable[[Experts, random.Random], Made]] = {
    "memp_events": _events,
    "memp_critical": _critical,
    "reasoningbank_success": _success,
    "reasoningbank_failure": _failure,
    "skillos_text": _skill,
    "awm_induce": _workflow,
    "expel_contrast": _contrast,
    "expel_successes": _successes,
}


def words_of(experts: Experts) -> list[str]:
    """Texts that hold every word and sign that a writer's lessons may have, names of things apart.

    One lesson of each prompt for a few games of every aim; the numbers that begin a list; and each kind's
    name where a line begins with it.
    """
    rng = random.Random(0)
    texts = [lesson.context + lesson.target for name in _MAKERS for lesson in _some(experts, rng, name)]
    return [*texts, *(f"[{number}" for number in range(1, 61)), "[... 1 characters cut ...]"]


def _some(experts: Experts, rng: random.Random, name: str) -> list[Lesson]:
    return [writer_lesson(experts, rng, name) for _ in range(60)]
