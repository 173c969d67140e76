"""Episodes without their texts, as the comparison of runs keeps them."""

from __future__ import annotations

import contextlib
import math
import sys
from typing import Any, ClassVar, NamedTuple, cast, get_args

from pydantic_core import from_json

from ..errors import UserError
from ..files import parse_json
from ..records import SCHEMA_VERSION, Episode, Outcome
from .following import Follower


class LightTask(NamedTuple):
    """What runs are matched by, and the sentence."""

    benchmark: str
    """Name of the benchmark."""
    split: str
    """Its split."""
    task_id: str
    """The task's id."""
    description: str
    """Its sentence."""


class Played(NamedTuple):
    """What is kept of a trajectory."""

    reward: float | None
    """The environment's own metric."""
    steps: int
    """Number of steps."""


class Light(NamedTuple):
    """One episode without its texts; it has what the library's statistics look at under the same names."""

    position: int
    """Place in the stream."""
    task: LightTask
    """The task."""
    trial: int
    """0 for the first attempt at this task in the stream."""
    outcome: Outcome
    """success, failure or error."""
    trajectory: Played | None
    """What the executor did; None when it never began."""
    payload: int
    """Characters of the payload."""
    traces: tuple[tuple[int, str], ...]
    """Id and task sentence of each retrieved trace."""
    start: int
    """Byte of the file where its line begins."""
    length: int
    """Bytes of the line."""

    @property
    def episode(self) -> Episode:
        """This as what the library's statistics take."""
        return cast(Episode, self)


def light_of(line: bytes, start: int = 0) -> tuple[str, Light]:
    """Key and light form of a line of `episodes.jsonl`; prompts and steps are parsed only if they must be.

    A quote within a text has a backslash before it, so what is looked for is structure; a cut between two
    places that don't belong together leaves brackets that don't match, or loses a field.
    """
    calls = line.find(b'"calls": [{') + 10
    after = line.find(b'], "error": ', calls)
    begin = line.find(b'"steps": [{', after) + 10
    end = line.rfind(b'], "task": {', begin)
    place = (start, len(line))
    if 10 <= calls < after < begin < end:
        with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
            raw = _parsed(line[:calls] + line[after:begin] + line[end:])
            return _shortened(raw, line.count(b'"admissible": [', begin, end), place)
    raw = _parsed(line)
    return _shortened(raw, len((raw.get("trajectory") or {}).get("steps") or ()), place)


def _parsed(line: bytes) -> Any:
    """JSON, fast; what only the slow parser takes, such as half a surrogate pair, goes to that one."""
    try:
        return from_json(line)
    except ValueError:
        return parse_json(line)


def _shortened(raw: dict[str, Any], steps: int, place: tuple[int, int]) -> tuple[str, Light]:
    if int(raw.get("schema_version", 1)) > SCHEMA_VERSION:
        raise UserError(
            f"this run has episodes of schema {raw['schema_version']}, newer than {SCHEMA_VERSION} which "
            "this version reads; upgrade jitmem-lab to open it"
        )
    task, position, outcome = raw["task"], raw["position"], raw["outcome"]
    if type(position) is not int or position < 0 or outcome not in get_args(Outcome):
        raise ValueError(position)
    trajectory, recall = raw["trajectory"], raw.get("recall") or {}
    reward = None if trajectory is None or trajectory["reward"] is None else float(trajectory["reward"])
    reward = reward if reward is not None and math.isfinite(reward) else None
    intern = sys.intern
    key = (intern(str(task["benchmark"])), intern(str(task["split"])), str(task["task_id"]))
    return str(raw["key"]), Light(
        position,
        LightTask(*key, str(task["description"])),
        int(raw.get("trial", 0)),
        outcome,
        None if trajectory is None else Played(reward, steps),
        len(recall.get("payload", "")),
        tuple((int(t["trace_id"]), intern(str(t["description"]))) for t in recall.get("traces", ())),
        *place,
    )


class Lights(Follower):
    """The episodes of an `episodes.jsonl` without their texts, by key; grows with the file."""

    name: ClassVar[str] = "episodes.jsonl"

    def forget(self) -> None:
        """Let go of all episodes."""
        self.found: dict[str, Light] = {}

    def take(self, line: bytes) -> None:
        """Take in an episode's line."""
        key, light = light_of(line, self._end)
        before = self.found.get(key)
        if before is None or before.outcome == "error":
            self.found[key] = light
