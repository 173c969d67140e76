"""The embedded model itself: it loads fast, follows a list, and chooses as the plain computation does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models import load_model, smol
from jitmem_lab.records import Message, Sampling

pytestmark = [
    pytest.mark.model,
    # Not `importorskip`: importing torch first would keep the model from choosing how its threads wait.
    pytest.mark.skipif(not (find_spec("torch") and find_spec("transformers")), reason="needs the hf extra"),
]


@pytest.fixture(scope="module")
def model() -> Iterator[Any]:
    try:
        smol.ensure()
    except (InfrastructureError, UserError) as error:
        pytest.skip(str(error))
    loaded = load_model("smol")
    yield loaded
    loaded.close()


def raw(text: str) -> list[Message]:
    return [Message(role="assistant", content=text)]


def test_it_loads_in_a_second_of_work_once_converted(model: Any) -> None:
    began = time.process_time()
    again = load_model("smol")
    assert time.process_time() - began < 3
    assert again.identity() == model.identity()
    assert again.identity()["dtype"] == "float32"
    again.close()


def test_it_writes_english_and_ends_its_turn(model: Any) -> None:
    ask = [Message(role="user", content="What is the capital of France? Answer in one word.")]
    reply = model.chat(ask, Sampling(max_tokens=24))
    assert "Paris" in reply.text
    assert reply.finish == "stop"
    assert "<|im" not in reply.text
    begun = [*ask, Message(role="assistant", content="The capital of France is")]
    assert model.chat(begun, Sampling(max_tokens=3)).text.startswith(" Paris")
    assert model.context == 8192


def test_it_goes_on_with_a_list_it_was_shown(model: Any) -> None:
    plan = ["go to fridge 1", "open fridge 1", "take egg 1 from fridge 1", "go to microwave 1"]
    plan += ["heat egg 1 with microwave 1", "go to countertop 2"]
    head = "Task: put a hot egg in countertop.\nSteps to do it:\n"
    shown = "\n".join(f"{n}. {action}" for n, action in enumerate(plan, 1))
    options = [*plan, "go to cabinet 1", "go to cabinet 12", "look", "inventory"]
    done = ""
    for n, action in enumerate(plan, 1):
        prompt = f"{head}{shown}\n\n{head}{done}{n}."
        choice = model.choose(raw(prompt), options)
        assert options[choice.index] == action
        done += f"{n}. {action}\n"


def test_choices_in_real_games_equal_the_plain_computation(model: Any) -> None:
    pytest.importorskip("alfworld")
    from jitmem_lab.bench.choose import _measure, record_states
    from jitmem_lab.benchmarks import load_benchmark
    from jitmem_lab.execution import Executor

    bench = load_benchmark("alfworld", split="generated_seen")
    try:
        executor = Executor(model, act="choose", history=0, no_repeat=3)
        states = record_states(bench, executor, 6, per_game=3)  # of two games
    finally:
        bench.close()
    assert len(states) == 6
    plain = load_model("smol", fast=False)
    measured = _measure(model, plain, states)
    plain.close()
    assert measured["agreement"] == 1
    assert measured["max_abs_diff"] < 1e-4
    assert measured["median_s"] < measured["plain_median_s"]
