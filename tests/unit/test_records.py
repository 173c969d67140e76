"""Records come back as they went in, whatever the text, and a newer schema is refused."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from jitmem_lab.errors import UserError
from jitmem_lab.records import (
    SCHEMA_VERSION,
    Call,
    Episode,
    Message,
    Recall,
    RetrievedTrace,
    Sampling,
    Step,
    Task,
    Trajectory,
    Usage,
    Verdict,
    content_hash,
    to_json,
)

pytestmark = pytest.mark.unit

TEXT = st.text(st.characters(exclude_categories=()), max_size=12)
"""Any text: NULs, line separators and lone surrogates included."""
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | NUMBER | TEXT,
    lambda x: st.lists(x) | st.dictionaries(TEXT, x),
    max_leaves=5,
)
TASKS = st.builds(
    Task,
    benchmark=TEXT,
    split=TEXT,
    task_id=TEXT,
    description=TEXT,
    key=TEXT,
    meta=st.dictionaries(TEXT, JSON, max_size=2),
)
STEPS = st.builds(
    Step,
    observation=TEXT,
    admissible=st.lists(TEXT, max_size=3).map(tuple),
    raw=TEXT,
    action=TEXT,
    valid=st.booleans(),
    reward=st.none() | NUMBER,
)
TRAJECTORIES = st.builds(
    Trajectory,
    task=TASKS,
    steps=st.lists(STEPS, max_size=3).map(tuple),
    final_observation=TEXT,
    reward=st.none() | NUMBER,
)
CALLS = st.builds(
    Call,
    role=st.sampled_from(["executor", "curator", "judge", "distiller", "user"]),
    model=TEXT,
    messages=st.lists(st.builds(Message, role=st.just("user"), content=TEXT), max_size=2).map(tuple),
    options=st.none() | st.lists(TEXT, max_size=2).map(tuple),
    scores=st.none() | st.lists(st.floats(allow_nan=False), max_size=2).map(tuple),
    sampling=st.none() | st.builds(Sampling, temperature=NUMBER, stop=st.lists(TEXT, max_size=2).map(tuple)),
    text=TEXT,
)
EPISODES = st.builds(
    Episode,
    key=TEXT,
    position=st.integers(0, 9),
    batch=st.integers(0, 9),
    task=TASKS,
    recall=st.builds(Recall, payload=TEXT, query=TEXT, notes=st.dictionaries(TEXT, JSON, max_size=2)),
    trajectory=st.none() | TRAJECTORIES,
    verdict=st.builds(Verdict, success=st.none() | st.booleans(), source=st.just("judge"), rationale=TEXT),
    outcome=st.sampled_from(["success", "failure", "error"]),
    error=st.none() | TEXT,
    calls=st.lists(CALLS, max_size=2).map(tuple),
)


def task(**changes: Any) -> Task:
    return Task(**{"benchmark": "b", "split": "s", "task_id": "t", "description": "d"} | changes)


def episode(**changes: Any) -> Episode:
    return Episode(**{"key": "k", "position": 0, "batch": 0, "task": task(), "outcome": "failure"} | changes)


@settings(max_examples=60, deadline=None)
@given(EPISODES)
def test_any_episode_comes_back_equal_from_one_ascii_line(value: Episode) -> None:
    line = value.to_line()
    assert line.isascii()
    assert "\n" not in line
    assert "\r" not in line
    again = Episode.from_line(line)
    assert again == value
    assert again.to_line() == line


@pytest.mark.parametrize(
    "text", ["bad \ud83d", "\udc00\ud83d", "a\x00b", "a\u2028b\u2029c\x85d", "\r\n", "\ufeff", "e\u0301"]
)
def test_odd_text_is_stored_exactly_everywhere(text: str) -> None:
    step = Step(observation=text, admissible=(text,), raw=text, action=text)
    value = episode(
        task=task(description=text, meta={text: [text]}),
        trajectory=Trajectory(task=task(description=text), steps=(step,), final_observation=text),
        recall=Recall(payload=text, notes={text: {text: text}}),
        calls=(Call(role="judge", model="m", messages=(Message(role="user", content=text),), text=text),),
    )
    again = Episode.from_line(value.to_line())
    assert again == value
    assert again.trajectory.steps[0].observation == text
    assert len(value.to_line().splitlines()) == 1


def test_fields_of_another_writer_survive_at_every_level() -> None:
    trace = RetrievedTrace(trace_id=1, rank=1, score=0.5, task_id="t", description="d")
    value = episode(
        trajectory=Trajectory(task=task(), steps=(Step(observation="o", admissible=()),)),
        recall=Recall(traces=(trace,)),
        calls=(Call(role="judge", model="m", messages=()),),
    )
    data = json.loads(value.to_line())
    spots = [data, data["task"], data["trajectory"], data["trajectory"]["steps"][0], data["recall"]]
    spots += [data["recall"]["traces"][0], data["calls"][0], data["calls"][0]["usage"], data["verdict"]]
    for number, spot in enumerate(spots):
        spot["from_the_future"] = {"nested": [number, None, "\ud83d"]}
    again = Episode.from_line(json.dumps(data))
    assert json.loads(again.to_line()) == data
    assert again.model_copy(update={"outcome": "success"}).to_line().count("from_the_future") == len(spots)


def test_a_newer_schema_is_refused_and_an_older_record_is_read() -> None:
    data = json.loads(episode().to_line())
    with pytest.raises(UserError, match="upgrade jitmem-lab"):
        Episode.from_line(json.dumps(data | {"schema_version": SCHEMA_VERSION + 1, "task": "changed"}))
    for name in ("schema_version", "recall", "verdict", "calls", "seeds", "trial", "snapshot"):
        del data[name]
    assert Episode.from_line(json.dumps(data)) == episode()


@pytest.mark.parametrize("line", ["", "{", "[]", "null", '"x"', "{}", '{"key": 1}', '{"key": "k"'])
def test_a_torn_or_foreign_line_is_a_value_error(line: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Episode.from_line(line)


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), -math.inf, np.float32("nan"), np.float64("inf"), "NaN", "-Infinity", None],
)
def test_rewards_that_are_no_numbers_are_unscored_and_stay_so(value: Any) -> None:
    done = Trajectory(task=task(), reward=value, steps=(Step(observation="", admissible=(), reward=value),))
    again = Trajectory.from_line(done.to_line())
    assert done.reward is again.reward is None
    assert again.steps[0].reward is None
    assert '"NaN"' not in done.to_line()


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), 0.5, "0.5"])
def test_rewards_that_are_numbers_are_kept(value: Any) -> None:
    assert Trajectory.from_line(Trajectory(task=task(), reward=value).to_line()).reward == 0.5


def test_other_numbers_that_are_not_finite_never_stop_a_run_and_stay_strict_json() -> None:
    value = episode(
        calls=(
            Call(role="executor", model="m", messages=(), options=("a", "b"), scores=(-math.inf, math.nan)),
        ),
        recall=Recall(notes={"x": [math.nan, {"y": math.inf}]}),
    )
    line = value.to_line()

    def refuse(name: str) -> Any:
        raise AssertionError(f"{name} is no JSON")

    json.loads(line, parse_constant=refuse)
    scores = Episode.from_line(line).calls[0].scores
    assert scores[0] == -math.inf
    assert math.isnan(scores[1])
    assert Episode.from_line(line).to_line() == line


def test_equal_values_have_equal_bytes_and_hashes() -> None:
    assert to_json({"b": 1, "a": (1, 2)}) == to_json({"a": [1, 2], "b": 1}) == '{"a": [1, 2], "b": 1}'
    assert content_hash({"a": 1}) == content_hash({"a": 1}) != content_hash({"a": "1"})
    assert len(content_hash("x", 12)) == 12
    assert task(meta={"a": 1, "b": 2}).hash == task(meta={"b": 2, "a": 1}).hash
    assert task().hash != task(description="e").hash


def test_a_trajectory_is_known_by_what_was_played_not_by_how_long_it_took() -> None:
    step = Step(observation="o", admissible=("a",), action="a", seconds=0.1)
    first = Trajectory(task=task(), steps=(step,))
    slower = Trajectory(task=task(), steps=(step.model_copy(update={"seconds": 9.0}),))
    other = Trajectory(task=task(), steps=(step.model_copy(update={"action": "b"}),))
    assert first.hash == slower.hash != other.hash


def test_usage_adds_up() -> None:
    parts = [
        Usage(calls=1, prompt_tokens=n, completion_tokens=2 * n, seconds=0.5, cached_calls=n)
        for n in range(4)
    ]
    assert Usage.total(parts) == Usage(
        calls=4, prompt_tokens=6, completion_tokens=12, seconds=2.0, cached_calls=6
    )
    assert Usage.total([]) == Usage()
    calls = [
        Call(role=role, model="m", messages=(), usage=part)
        for role, part in zip(("judge", "executor") * 2, parts, strict=True)
    ]
    by_role = episode(calls=tuple(calls)).usage()
    assert {role: used.prompt_tokens for role, used in by_role.items()} == {"judge": 2, "executor": 4}


def test_records_cannot_be_changed_and_check_what_they_are_given() -> None:
    with pytest.raises(ValidationError):
        task().description = "other"  # type: ignore[misc]
    with pytest.raises(ValidationError):
        episode(outcome="won")
