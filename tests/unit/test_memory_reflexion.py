"""Reflexion: a plan after each failure, for the same task only; it needs a stream that repeats its tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.cards import cautions
from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, make_memory
from jitmem_lab.execution import Executor
from jitmem_lab.memories import load_memory, parameters
from jitmem_lab.memories.reflexion import NOTES
from jitmem_lab.runs import Run
from jitmem_lab.session import Session
from jitmem_lab.stream import run_stream

from . import writing
from .doubles import ButtonBenchmark, RuleModel, demonstration
from .writing import MALFORMED, TASKS, episode, stored

pytestmark = pytest.mark.unit


def opened(answer: str = "Plan: press blue.", folder: Path | None = None, **options: Any) -> Any:
    return writing.opened("reflexion", lambda text: answer, folder, **options)


def failed(memory: Any, times: int, number: int = 0) -> None:
    """Let the task fail so often; the model's plans are numbered."""
    for trial in range(times):
        memory.model.rule = lambda text, sampling, n=trial + 1: f"Plan: try {n}."
        memory.remember(episode(number, won=False, trial=trial), Session(0, f"k{number}.{trial}"))


# What is written


def test_a_failure_leaves_a_plan_and_a_success_nothing() -> None:
    memory = opened("<think>hm</think>**Plan:** First look.\nThen press blue.")
    session = Session()
    change = memory.remember(episode(0, won=False), session)
    assert change["items"] == [{"op": "insert", "kind": "plan", "item": 1}]
    assert [call.role for call in session.calls] == ["distiller"]
    assert stored(memory) == [
        {
            "task_id": "b0",
            "task": TASKS[0].description,
            "failure": 1,
            "plan": "First look.\nThen press blue.",
        }
    ]
    change = memory.remember(episode(0, won=True, trial=1), session)
    assert change["note"] == {"why": "a success is not reflected on"}
    assert len(session.calls) == 1
    assert (memory.snapshot(), len(stored(memory))) == (2, 1)


def test_the_reflection_sees_the_record_and_the_last_three_plans() -> None:
    memory = opened()
    failed(memory, 5)
    failed(memory, 1, number=1)
    first, *_, fifth, other = memory.model.prompts
    assert TASKS[0].description in first
    assert "A panel, look 1." in first
    assert first.count("(none)") == other.count("(none)") == 1
    assert [f"try {n}." in fifth for n in range(1, 6)] == [False, True, True, True, False]
    assert "Plan after failure 4:\ntry 4." in fifth


@pytest.mark.parametrize(
    "answer", ["", "  \n", "<think>only thoughts", "<think>a</think>", "Plan:", "**Plan:**"]
)
def test_no_plan_is_a_write_with_a_note(answer: str) -> None:
    memory = opened(answer)
    change = memory.remember(episode(0, won=False), Session())
    assert change["items"] == []
    assert change["note"]["why"] == "no plan in the answer"
    assert memory.recall(TASKS[0], 1, Session()).payload == ""


@pytest.mark.parametrize("answer", [a for a in MALFORMED if a.strip() and not a.startswith("<think>")])
def test_any_words_are_a_plan_and_a_long_one_is_cut(answer: str) -> None:
    memory = opened(answer)
    change = memory.remember(episode(0, won=False), Session())
    (plan,) = stored(memory)
    assert plan["plan"] == answer[:4000].strip()
    assert ("note" in change) is (len(answer) > 4000)
    assert memory.recall(TASKS[0], 1, Session()).payload == f"Plan after failure 1:\n{plan['plan']}"


def test_a_small_model_continues_a_text() -> None:
    memory = opened(" look\n2. press blue", variant="small")
    failed(memory, 1)
    memory.model.rule = lambda text, sampling: " look\n2. press blue"
    memory.remember(episode(0, won=False, trial=1), Session())
    first, second = memory.model.prompts
    assert first.endswith(
        "Result: failure\n\n" + f"Task: {TASKS[0].description}\nPlan that does it right:\n1."
    )
    assert "Earlier plans that failed: (none)" in first
    assert "Plan after failure 1:\n1. Plan: try 1." in second
    assert stored(memory)[-1]["plan"] == "1. look\n2. press blue"


def test_demonstrations_teach_it_nothing() -> None:
    memory = opened()
    memory.warm([demonstration(task) for task in TASKS], Session())
    assert (memory.snapshot(), memory.model.prompts) == (0, [])


# What is shown


def test_the_last_three_plans_of_the_same_task_and_no_other() -> None:
    memory = opened()
    failed(memory, 5)
    failed(memory, 1, number=5)
    recall = memory.recall(TASKS[0], memory.snapshot(), Session())
    assert recall.payload == "\n\n".join(f"Plan after failure {n}:\ntry {n}." for n in (3, 4, 5))
    assert recall.notes == {"recalls": NOTES[0], "plans": [3, 4, 5]}
    assert (recall.query, recall.self_excluded) == ("b0", 0)
    alike = TASKS[0].model_copy(update={"task_id": "b0-again"})
    assert memory.recall(alike, memory.snapshot(), Session()).payload == "", "the id counts, not the words"


def test_published_values_are_the_defaults() -> None:
    settings = opened().settings()
    assert (settings["k"], settings["gate"]) == (3, "environment")
    assert (settings["sampling"]["temperature"], settings["sampling"]["max_tokens"]) == (0.0, 256)
    assert not opened().needs_judge
    assert opened(gate="judge").needs_judge


def test_its_own_earlier_attempts_are_the_method() -> None:
    assert not {"exclude_own", "retrieval", "embedder", "tokenizer", "idf"} & set(parameters("reflexion"))
    with pytest.raises(UserError, match="no parameter 'exclude_own'"):
        load_memory("reflexion", model=RuleModel(), exclude_own=False)
    settings = opened().settings()
    assert "exclude_own" not in settings
    assert settings["notes"] == list(NOTES)
    config = EvalConfig.make(memory="reflexion", benchmark="alfworld", exclude_own=True)
    assert make_memory(config, lambda spec: RuleModel(spec), ButtonBenchmark()).name == "reflexion"


# In a stream


def played(folder: Path, trials: int, batch_size: int = 4, n: int = 8) -> Run:
    """A world in which nobody knows the colour at first, and a reflection names it."""

    def plan(text: str, sampling: Any) -> str:
        (task,) = (t for t in TASKS if f"Task: {t.description}\n" in text)
        return f"Plan: press {task.meta['colour']}"

    def act(text: str, sampling: Any) -> str:
        known = [line for line in text.splitlines() if line.startswith("press ") and "panel" not in line]
        return f"<action>{known[-1] if known else 'look'}</action>"

    bench = ButtonBenchmark(n)
    return run_stream(
        bench,
        load_memory("reflexion", model=RuleModel("writer", rule=plan)),
        Executor(RuleModel("actor", rule=act)),
        out=folder,
        tasks=bench.tasks() * trials,
        batch_size=batch_size,
        concurrency=4,
        progress=False,
    )


def test_repeated_tasks_are_where_it_works(tmp_path: Path) -> None:
    run = played(tmp_path / "r", trials=3)
    outcomes = {trial: [e.outcome for e in run.latest() if e.trial == trial] for trial in range(3)}
    assert outcomes == {0: ["failure"] * 8, 1: ["success"] * 8, 2: ["success"] * 8}
    for e in run.latest():
        assert e.recall.payload == (
            f"Plan after failure 1:\npress {e.task.meta['colour']}" if e.trial else ""
        )
    assert len(run.items().query("op == 'insert'")) == 8
    assert NOTES[0] in run.card().cautions
    assert NOTES[1] not in cautions(run.settings, {}, trials=3)


def test_a_single_pass_recalls_nothing_and_the_card_says_so(tmp_path: Path) -> None:
    run = played(tmp_path / "r", trials=1)
    assert {e.recall.payload for e in run.latest()} == {""}
    assert NOTES[1] in run.card().cautions


def test_attempts_within_one_batch_do_not_see_each_other(tmp_path: Path) -> None:
    run = played(tmp_path / "r", trials=2, batch_size=16)
    assert {e.recall.payload for e in run.latest()} == {""}


# What every memory keeps


@pytest.mark.parametrize("gate", ["environment", "judge"])
def test_promises(tmp_path: Path, gate: str) -> None:
    options = {"won": False, "gate": gate}
    writing.keeps_its_promises("reflexion", lambda text: "Plan: press on.", tmp_path, **options)
    writing.sees_one_snapshot("reflexion", lambda text: "Plan: press on.", **options)


def test_a_run_does_not_depend_on_concurrency(tmp_path: Path) -> None:
    writing.does_not_hang_on_concurrency("reflexion", lambda text: "Plan: press on.", tmp_path, trials=2)
