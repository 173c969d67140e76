"""Generated households: seeded games of our own for the domain that the `alfworld` package ships.

A game is a layout (a room with its receptacles and its habits), a goal, and a placing of objects; all
three follow from seeds, so the package ships only which attempt of each game the planner solved, and how.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import importlib.util
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import UserError
from .catalogue import GENERATED_GAMES, TASK_TYPES
from .furnishing import CONTAINS, GOALS, LAMPS, OPENABLE, PROPERTIES, RECEPTACLES
from .games import Game, Store

TRAIN_LAYOUTS = 5
"""Layouts a room in the train and seen splits."""
TEST_LAYOUTS = 4
"""Layouts a room in the test split; none equals one of train."""

_KEPT = 0.6  # share of things that lie where the layout usually has them
_PRESENT = 0.75  # chance that a room has a kind of object at all


class Layout(NamedTuple):
    """A room: its receptacles, and what is usually where."""

    name: str
    """E.g. `kitchen-03`; test layouts are numbered from 51."""
    room: str
    """Kind of room."""
    receptacles: tuple[str, ...]
    """Receptacle kinds, one entry a receptacle."""
    habits: tuple[tuple[str, int], ...]
    """Objects with the index of the receptacle where each usually lies."""


class Plot(NamedTuple):
    """What one generated game is about, before its objects are placed."""

    task_type: str
    room: str
    thing: str
    target: str
    layout: Layout
    game_id: str


def _pick(rng: random.Random, values: Sequence[Any]) -> Any:
    return values[int(rng.random() * len(values))]


def _places(room: str, thing: str, receptacles: Sequence[str]) -> list[int]:
    allowed = CONTAINS[room][thing].split()
    return [index for index, kind in enumerate(receptacles) if kind in allowed]


def make_layout(room: str, number: int, attempt: int = 0) -> Layout:
    """Layout `number` of a kind of room; another `attempt` gives another room under the same name."""
    rng = random.Random(f"layout {room} {number} {attempt}")
    receptacles: list[str] = []
    for kind, (fewest, most) in RECEPTACLES[room].items():
        receptacles += [kind] * (fewest + int(rng.random() * (most - fewest + 1)))
    habits: list[tuple[str, int]] = []
    for thing in CONTAINS[room]:
        copies = 1 + int(rng.random() * 2.4) if rng.random() < _PRESENT else 0
        places = _places(room, thing, receptacles)
        if thing in LAMPS:
            copies = 1
        habits += [(thing, _pick(rng, places)) for _ in range(copies) if places]
    return Layout(f"{room}-{number:02d}", room, tuple(receptacles), tuple(habits))


@functools.cache
def layouts(test: bool) -> dict[str, list[Layout]]:
    """Layouts by room; no test layout has the same receptacles as a train layout."""
    found: dict[str, list[Layout]] = {}
    for room in RECEPTACLES:
        taken = {layout.receptacles for layout in layouts(False)[room]} if test else set()
        found[room] = []
        for number in range(51, 51 + TEST_LAYOUTS) if test else range(1, 1 + TRAIN_LAYOUTS):
            attempt = 0
            layout = make_layout(room, number)
            while layout.receptacles in taken:
                attempt += 1
                layout = make_layout(room, number, attempt)
            taken.add(layout.receptacles)
            found[room].append(layout)
    return found


def plots(split: str) -> list[Plot]:
    """The games of a generated split, in order: type by type, goals in turn, layouts in turn."""
    rooms = layouts(split == "generated_test")
    each = GENERATED_GAMES[split] // len(TASK_TYPES)
    made: list[Plot] = []
    for task_type in TASK_TYPES:
        goals = _interleaved(GOALS[task_type])
        for index in range(each):
            goal, turn = index % len(goals), index // len(goals)
            if split == "generated_seen":
                # three of five repeat a goal and layout of train, the others meet a goal in another layout
                goal, turn = (index * 3) % len(goals), 0 if index < 3 else TRAIN_LAYOUTS - 1
            elif split == "generated_test":
                goal, turn = (index * 3 + 1) % len(goals) if len(goals) % 3 else index % len(goals), index
            room, thing, target = goals[goal]
            layout = rooms[room][(goal + turn) % len(rooms[room])]
            number = len(made) + 1
            task = f"{task_type}-{thing}-None-{target}-{layout.name}"
            made.append(Plot(task_type, room, thing, target, layout, f"{task}/{split}_{number:03d}"))
    return made


def _interleaved(by_room: dict[str, tuple[str, ...]]) -> list[tuple[str, str, str]]:
    queues = [[(room, *goal.split()) for goal in goals] for room, goals in by_room.items()]
    longest = max(map(len, queues))
    return [queue[place] for place in range(longest) for queue in queues if place < len(queue)]  # type: ignore[misc]


def place(plot: Plot, attempt: int) -> list[tuple[str, int]]:
    """Objects of one game with the index of the receptacle where each lies; the goal is not yet met."""
    rng = random.Random(f"game {plot.game_id} {attempt}")
    receptacles = plot.layout.receptacles
    needed = 2 if plot.task_type == "pick_two_obj_and_place" else 1
    things = list(plot.layout.habits)
    things += [(plot.thing, -1)] * max(0, needed - sum(thing == plot.thing for thing, _ in things))
    placed: list[tuple[str, int]] = []
    for thing, habit in things:
        stay = rng.random() < _KEPT
        places = _places(plot.room, thing, receptacles)
        if thing == plot.thing:
            places = [index for index in places if receptacles[index] != plot.target]
        placed.append((thing, habit if stay and habit in places else _pick(rng, places)))
    return placed


def _goal_library() -> dict[str, dict[str, Any]]:
    """The package's own goals (PDDL and sentences), read without importing the package."""
    path = package_file("gen/goal_library.py")
    spec = importlib.util.spec_from_file_location("_alfworld_goal_library", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    library: dict[str, dict[str, Any]] = module.gdict
    return library


def package_file(name: str) -> Path:
    """A file of the installed `alfworld` package (importing that package writes into the user's home)."""
    spec = importlib.util.find_spec("alfworld")
    if spec is None or spec.origin is None:
        raise UserError("ALFWorld needs alfworld: pip install 'jitmem-lab[alfworld]'")
    return Path(spec.origin).parent / name


def write_problem(plot: Plot, placed: list[tuple[str, int]], goal: str) -> str:
    """The PDDL problem of a game; `goal` is the package's goal text, which also closes the problem."""
    receptacles = plot.layout.receptacles
    boxes = [_name(kind, receptacles[:index].count(kind)) for index, kind in enumerate(receptacles)]
    things: list[str] = []
    counts: dict[str, int] = {}
    for thing, _ in placed:
        things.append(_name(thing, counts.get(thing, 0)))
        counts[thing] = counts.get(thing, 0) + 1
    table = {thing: allowed.split() for thing, allowed in CONTAINS[plot.room].items()}
    kinds = sorted(set(receptacles))
    objects = [
        "agent1 - agent",
        *(f"{thing}Type - otype" for thing in table),
        *(f"{kind}Type - rtype" for kind in kinds),
        *(f"{thing} - object" for thing in things),
        *(f"{box} - receptacle" for box in boxes),
        *(f"{_location(index)} - location" for index in range(len(boxes) + 1)),
    ]
    facts = [f"atLocation agent1 {_location(0)}"]
    for index, (box, kind) in enumerate(zip(boxes, receptacles, strict=True)):
        facts += [f"receptacleType {box} {kind}Type", f"receptacleAtLocation {box} {_location(index + 1)}"]
        if kind in OPENABLE:
            facts.append(f"openable {box}")
    for thing, allowed in table.items():
        if thing not in LAMPS:
            facts += [f"canContain {kind}Type {thing}Type" for kind in kinds if kind in allowed]
    for thing, (kind, index) in zip(things, placed, strict=True):
        facts += [f"objectType {thing} {kind}Type", f"inReceptacle {thing} {boxes[index]}"]
        facts += [f"objectAtLocation {thing} {_location(index + 1)}"]
        facts.append(f"{'toggleable' if kind in LAMPS else 'pickupable'} {thing}")
        facts += [f"{name} {thing}" for name, those in PROPERTIES.items() if kind in those.split()]
    lines = "\n    ".join(objects)
    init = "\n    ".join(f"({fact})" for fact in facts)
    head = "(define (problem household)\n(:domain alfred)\n"
    return f"{head}(:objects\n    {lines}\n)\n(:init\n    {init}\n)\n{goal.strip()}\n"


def _name(kind: str, index: int) -> str:
    # the environment names what precedes _bar_, and adds "basin" itself
    stem, tail = (kind.removesuffix("Basin"), f"_bar_{kind}") if kind.endswith("Basin") else (kind, "")
    return f"{stem}_bar_{index + 1:02d}{tail}"


def _location(index: int) -> str:
    return f"loc_bar_{index:02d}"


def write_game(plot: Plot, attempt: int, walkthrough: list[str]) -> Game:
    """One whole game for the shipped domain and grammar."""
    domain, grammar, library = _shipped()
    entry = library[plot.task_type]
    words = {"obj": plot.thing, "recep": plot.target, "toggle": plot.target, "mrecep": ""}
    goal = entry["pddl"].replace("#", "-").format(**words)
    rng = random.Random(f"sentence {plot.game_id} {attempt}")
    template: str = _pick(rng, entry["templates"])
    sentence = template.format(**{key: word.lower() for key, word in words.items()})
    problem = write_problem(plot, place(plot, attempt), goal)
    text = grammar.replace("UNKNOWN GOAL", sentence)
    scene = plot.layout.name
    return Game(plot.game_id, plot.task_type, f"{sentence}.", scene, domain, text, problem, walkthrough)


@functools.cache
def _shipped() -> tuple[str, str, dict[str, dict[str, Any]]]:
    domain = package_file("data/alfred.pddl").read_text(encoding="utf-8")
    grammar = package_file("data/alfred.twl2").read_text(encoding="utf-8")
    return domain, grammar, _goal_library()


def problem_hash(game: Game) -> str:
    """Hash of what the generator decides of a game, whatever the installed package's rules."""
    return hashlib.sha256(f"{game.goal}\0{game.problem}".encode()).hexdigest()[:12]


@functools.cache
def shipped_plans() -> dict[str, list[tuple[int, str, list[str]]]]:
    """By split, for each game: the attempt taken, its problem's hash, and the planner's actions."""
    text = importlib.resources.files(__package__).joinpath("households.json").read_text(encoding="utf-8")
    return {split: [tuple(row) for row in rows] for split, rows in json.loads(text).items()}


def generated_games(split: str) -> Iterator[Game]:
    """Games of a generated split, with their proven walkthroughs."""
    for plot, (attempt, sha, plan) in zip(plots(split), shipped_plans()[split], strict=True):
        game = write_game(plot, attempt, list(plan))
        if problem_hash(game) != sha:
            raise UserError(
                f"household {plot.game_id!r} came out differently from the one that was proven; "
                "install the alfworld version that jitmem-lab[alfworld] names"
            )
        yield game


def generated_store(split: str) -> Store:
    """The store of a generated split."""
    source = importlib.resources.files(__package__).joinpath("households.json").read_bytes()
    domain, grammar, _ = _shipped()
    key = hashlib.sha256(source + domain.encode() + grammar.encode()).hexdigest()[:16]
    return Store(f"{split}-{key}", generated_games(split))
