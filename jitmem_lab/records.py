"""The records of a run: frozen, versioned, one whole `Episode` a JSON line.

Nothing is distilled on the way in: a `Trajectory` keeps every observation unabridged and an
`Episode` keeps the exact prompt of every model call. Unknown fields of a newer writer survive a
round trip, and any text is stored exactly, lone surrogates and NULs included.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from .errors import UserError
from .files import parse_json
from .render import RichRepr

SCHEMA_VERSION = 1
"""Version of the records on disk; a reader refuses a newer one."""

Outcome = Literal["success", "failure", "error"]
Role = Literal["executor", "curator", "judge", "distiller", "user", "embedder"]
Phase = Literal["recall", "act", "judge", "write", ""]
"""When in an episode's life a model is asked: before it, in it, of it, after it; empty where unknown."""
Tool = dict[str, Any]
"""A tool as servers take it: `{"type": "function", "function": {"name", "description", "parameters"}}`."""


def to_json(value: Any) -> str:
    """One line of ASCII JSON with sorted keys, so that equal values give equal bytes.

    JSON has no numbers that aren't finite: they become the strings NaN, Infinity and -Infinity, which a
    record's number fields read back.
    """
    try:
        return json.dumps(value, sort_keys=True, ensure_ascii=True, allow_nan=False, default=str)
    except ValueError:
        return json.dumps(_finite(value), sort_keys=True, ensure_ascii=True, allow_nan=False, default=str)


def _finite(value: Any) -> Any:
    """`value` with the names of numbers that aren't finite in their place."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


def content_hash(value: Any, length: int = 16) -> str:
    """Hex digest (`length` characters of SHA-256) of a JSON-able value."""
    return hashlib.sha256(to_json(value).encode()).hexdigest()[:length]


def _finite_or_none(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


class Record(RichRepr, BaseModel):
    """Base of all records: frozen, and keeping the fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="allow", protected_namespaces=())

    def to_line(self) -> str:
        """This record as one line of JSON."""
        return to_json(self.model_dump(mode="python"))

    @classmethod
    def from_line(cls, line: str) -> Any:
        """The record in a line of JSON; `ValueError` if it is torn or not such a record."""
        return cls.model_validate(parse_json(line))


class Usage(Record):
    """What one or more model calls cost."""

    calls: int = 0
    """Calls that reached a model (answers from a cache count 0)."""
    cached_calls: int = 0
    """Calls answered from the cache or a replay."""
    prompt_tokens: int = 0
    """Tokens read, those of cached calls included."""
    completion_tokens: int = 0
    """Tokens written; for a choice among options, the tokens of the options that were scored."""
    seconds: float = 0.0
    """Wall time inside the model."""

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})

    @classmethod
    def total(cls, usages: Iterable[Usage]) -> Usage:
        """The sum of several usages."""
        return sum(usages, cls())


class ToolCall(Record):
    """A call of one of the environment's tools."""

    name: str
    """The tool's name."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """Arguments by name (JSON only)."""
    id: str = ""
    """What the tool's answer refers to; empty where nothing does."""


class Message(Record):
    """One chat message; a final message of role `assistant` is a beginning to be continued."""

    role: Literal["system", "user", "assistant", "tool"]
    """Who speaks."""
    content: str
    """What is said."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools called in this message (assistant only)."""
    tool_call_id: str = ""
    """The call that this message answers (tool only)."""


class Sampling(Record):
    """How an answer is drawn; everything here changes the answer and enters cache keys."""

    temperature: float = 0.0
    """0 takes the likeliest token."""
    top_p: float = 1.0
    """Nucleus mass."""
    top_k: int = 0
    """Number of tokens kept; 0 keeps all."""
    max_tokens: int = 512
    """Longest answer in tokens."""
    stop: tuple[str, ...] = ()
    """Texts that end the answer; they are not part of it."""
    seed: int | None = None
    """Seed of this one call."""
    thinking: bool | None = None
    """Whether a reasoning model may think first; None leaves the server's default."""


class Call(Record):
    """One model call, with its exact prompt."""

    role: Role
    """For whom the call was made."""
    phase: Phase = ""
    """When it was made."""
    model: str
    """The model's name."""
    messages: tuple[Message, ...]
    """The exact prompt."""
    options: tuple[str, ...] | None = None
    """The options of a choice; None for a written answer."""
    sampling: Sampling | None = None
    """Sampling of a written answer."""
    sample: int = 0
    """Index of this sample among several asked with the same prompt."""
    tools: tuple[str, ...] = ()
    """Names of the tools that were offered; their schemas belong to the benchmark's version."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that the answer calls."""
    text: str = ""
    """The raw answer, or the chosen option."""
    scores: tuple[float, ...] | None = None
    """Mean log-probability of each option."""
    finish: str = "stop"
    """Why the answer ended: stop, length, tool_calls, choice, error."""
    usage: Usage = Usage()
    """What it cost."""
    error: str | None = None
    """The infrastructure error that ended it, if any."""


class Task(Record):
    """One task of a benchmark."""

    benchmark: str
    """Name of the benchmark."""
    split: str
    """Split it belongs to."""
    task_id: str
    """Stable id, unique within the benchmark."""
    description: str
    """The task sentence, as the agent is told it."""
    task_type: str = ""
    """The benchmark's own type of task."""
    key: str = ""
    """Text that retrieval compares; empty means the description."""
    meta: dict[str, Any] = Field(default_factory=dict)
    """What the benchmark needs to build the environment (JSON only)."""

    @property
    def retrieval_key(self) -> str:
        """The text that retrieval compares."""
        return self.key or self.description

    @property
    def hash(self) -> str:
        """Content hash by which resume recognises the task."""
        return content_hash(self.model_dump())


class Step(Record):
    """One turn of an episode."""

    observation: str
    """What the agent saw before it acted."""
    admissible: tuple[str, ...]
    """What it could have done."""
    raw: str = ""
    """The model's raw text, or the chosen option."""
    action: str = ""
    """The action sent to the environment; empty when none could be parsed."""
    valid: bool = True
    """Whether the environment took the action: it was admissible or, where more than that is, accepted."""
    reward: float | None = 0.0
    """Reward of this step; None when the environment gave no finite number."""
    seconds: float = 0.0
    """Wall time of the step in the environment."""
    speaker: str = ""
    """Whose words the observation is: user, tool; empty for the environment."""
    payload: str = ""
    """What memory gave for this step alone, by systems that recall at each step."""

    _unscored = field_validator("reward")(_finite_or_none)


class Trajectory(Record):
    """A whole attempt at a task, unabridged."""

    task: Task
    """The task attempted."""
    steps: tuple[Step, ...] = ()
    """All turns in order."""
    final_observation: str = ""
    """What the environment said last."""
    outcome: Outcome = "failure"
    """success, failure, or error (an infrastructure failure)."""
    reward: float | None = None
    """The environment's own metric; None when unscored."""
    parts: dict[str, Any] = Field(default_factory=dict)
    """What the metric is made of, by the benchmark's own names."""
    environment: str = ""
    """Version of the environment that produced it, as `name version`."""
    source: str = "executor"
    """Who acted: executor, or oracle for a demonstration."""

    @property
    def invalid_actions(self) -> int:
        """Number of steps whose action was not admissible."""
        return sum(not step.valid for step in self.steps)

    @property
    def hash(self) -> str:
        """Content hash without the steps' wall times: the same play gives the same hash each time."""
        return content_hash(self.model_dump(exclude={"steps": {"__all__": {"seconds"}}}))

    _unscored = field_validator("reward")(_finite_or_none)


class RetrievedTrace(Record):
    """A trace that retrieval returned."""

    trace_id: int
    """Its id in the bank."""
    rank: int
    """1 is the best."""
    score: float
    """BM25 score (can be negative with the Okapi idf on tiny banks), or cosine."""
    task_id: str
    """Task it was collected on."""
    description: str
    """That task's sentence."""
    holds: Literal["steps", "attempt", "lessons"] = "steps"
    """What the text is: steps that led to success, what was done (with its result, so perhaps in vain), or
    lessons drawn from it."""
    text: str = ""
    """The trace as it was shown to the curator or the executor, after any cut."""
    cut_chars: int = 0
    """Characters left out of the text to fit the context."""


class Recall(Record):
    """What memory gave for one task."""

    payload: str = ""
    """The text put in front of the executor at every step; empty for none."""
    traces: tuple[RetrievedTrace, ...] = ()
    """Retrieved traces, best first."""
    query: str = ""
    """The retrieval query."""
    bank_size: int = 0
    """Traces, or items of a memory that writes some, in the snapshot that was searched."""
    self_excluded: int = 0
    """What comes of this very task and was left out: the traces that would have been among the first k, or
    all items of a memory that writes some."""
    notes: dict[str, Any] = Field(default_factory=dict)
    """Further facts worth showing (what was cut, which control was on)."""


class Verdict(Record):
    """Whether the trajectory is taken for a success by the gate."""

    success: bool | None
    """None when the judge's answer was unusable: such a trajectory is not stored."""
    source: Literal["judge", "environment", "none"]
    """Who decided."""
    rationale: str = ""
    """The judge's words."""


class Episode(Record):
    """Everything about one task of a run; one line of `episodes.jsonl`."""

    schema_version: int = SCHEMA_VERSION
    """Version of this record."""
    key: str
    """Content hash of task and trial: what resume matches."""
    position: int
    """Place in the stream, from 0."""
    batch: int
    """Batch number, from 0."""
    snapshot: int | None = None
    """The memory snapshot that was searched."""
    task: Task
    """The task."""
    trial: int = 0
    """0 for the first attempt at this task in the stream."""
    recall: Recall = Recall()
    """What memory gave."""
    trajectory: Trajectory | None = None
    """What the executor did; None when it never began."""
    verdict: Verdict = Verdict(success=None, source="none")
    """The gate's decision."""
    outcome: Outcome
    """success or failure by the environment; error is owed again."""
    error: str | None = None
    """Cause of an error."""
    calls: tuple[Call, ...] = ()
    """Every model call in order, exact prompts included."""
    seeds: dict[str, int] = Field(default_factory=dict)
    """Seeds that this episode used."""
    started: float = 0.0
    """Unix time of its start."""
    seconds: float = 0.0
    """Wall time."""

    @field_validator("schema_version")
    @classmethod
    def _not_newer(cls, value: int) -> int:
        if value > SCHEMA_VERSION:
            raise UserError(
                f"this run was written with record schema {value}, newer than {SCHEMA_VERSION} which "
                "this version reads; upgrade jitmem-lab to open it"
            )
        return value

    @field_serializer("seeds")
    def _plain(self, value: dict[str, int]) -> dict[str, int]:
        return {str(name): int(seed) for name, seed in value.items()}

    def usage(self, by: Literal["role", "phase"] = "role") -> dict[str, Usage]:
        """Usage by role, or by phase."""
        names = sorted({getattr(call, by) for call in self.calls})
        return {name: Usage.total(c.usage for c in self.calls if getattr(c, by) == name) for name in names}
