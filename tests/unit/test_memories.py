"""The memory systems: what each lets in, what each gives back, and the controls."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, get_args

import pytest

from jitmem_lab.curation import Curator
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.memories import NAMES, load_memory, parameters
from jitmem_lab.memories.retrieving import CONTROLS, Retrieval
from jitmem_lab.records import Episode, Recall, Step, Trajectory, Verdict
from jitmem_lab.session import Session

from .doubles import ButtonBenchmark, RuleModel, demonstration
from .writing import WordEmbedder

pytestmark = pytest.mark.unit

TASKS = ButtonBenchmark(12).tasks()


def opened(name: str = "raw", folder: Path | None = None, **options: Any) -> Any:
    memory = load_memory(name, **{"gate": "environment"} | options)
    memory.open(folder)
    return memory


def episode(
    number: int = 0, *, won: bool = True, verdict: bool | None = True, outcome: str | None = None
) -> Episode:
    task = TASKS[number]
    step = Step(
        observation="A panel.", admissible=("press red",), raw="<think>secret</think>", action="press red"
    )
    result = "success" if won else "failure"
    return Episode(
        key=f"key{number}",
        position=number,
        batch=0,
        task=task,
        trajectory=Trajectory(task=task, steps=(step,), outcome=result, reward=float(won)),
        verdict=Verdict(success=verdict, source="judge"),
        outcome=outcome or result,
    )


# Choosing one


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("jitmen", {}, "did you mean jitmem"),
        ("ram", {}, "did you mean raw"),
        ("xyz", {}, "there are none, raw, jitmem, "),
        (None, {}, "did you mean none"),
        ("none", {"k": 3}, "has no parameter 'k'"),
        ("raw", {"gates": "judge"}, "did you mean gate"),
        ("raw", {"on_empty": "call"}, "has no parameter 'on_empty'"),
        ("raw", {"gate": "jugde"}, "judge, environment, partial, all\\+labels"),
        ("raw", {"retrieval": "semantic"}, "bm25, dense, own_type, other_type, shuffled, random, empty"),
        ("raw", {"retrieval": "dense"}, "needs an embedder"),
        ("jitmem", {"curator": RuleModel(), "payload_of": "other"}, "own, another"),
        ("raw", {"payload_of": "another", "retrieval": "random"}, "two controls"),
        ("raw", {"traces": "cooked"}, "raw, distilled"),
        ("raw", {"traces": "distilled"}, "needs a distiller"),
        ("raw", {"trace_format": "html"}, "full, actions"),
        ("raw", {"k": 0}, "retrieval='empty'"),
        ("raw", {"k": "3"}, "k must be a whole number, not"),
        ("raw", {"k": 2.5}, "k must be a whole number, not"),
        ("raw", {"k": True}, "k must be a whole number, not"),
        ("raw", {"tokenizer": "wrods"}, "unknown tokenizer"),
        ("raw", {"idf": "lucenne"}, "unknown idf"),
        ("jitmem", {}, "needs a curator"),
        ("jitmem", {"curator": "smol"}, "needs a curator"),
        ("oracle", {}, "needs a benchmark"),
        ("oracle", {"k": 3}, "has no parameter 'k'"),
        ("jitmem", {"curator": RuleModel(), "on_empty": "ask"}, "skip or call"),
        ("jitmem", {"curator": RuleModel(), "max_trace_tokens": 9}, "has no parameter 'max_trace_tokens'"),
    ],
)
def test_wrong_input_is_one_sentence(name: Any, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load_memory(name, **options)
    assert "\n" not in str(caught.value)


def _offered(name: str) -> dict[str, Any]:
    given = {"model": RuleModel(), "curator": RuleModel(), "benchmark": ButtonBenchmark()}
    return given | ({"embedder": WordEmbedder()} if "embedder" in parameters(name) else {})


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["three", b"3", [], {}, math.nan, math.inf, object()])
def test_no_option_takes_a_value_of_another_type(name: str, value: Any) -> None:
    texts = ("tokenizer", "idf", "instruction", "distiller")
    for option in set(parameters(name)) - {"model", "curator", "embedder", "benchmark", *texts}:
        with pytest.raises(UserError, match=option) as caught:
            load_memory(name, **_offered(name) | {option: value})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", [n for n in NAMES if "max_tokens" in parameters(n)])
@pytest.mark.parametrize(
    "wrong",
    [
        {"max_tokens": 0},
        {"temperature": -0.1},
        {"trace_format": "html"},
        {"tokenizer": "wrods"},
        {"idf": "lucenne"},
        {"exclude_own": "no"},
        {"k": 1.0},
        {"k": True},
        {"model": "smol"},
        {"embedder": "wordllama"},
    ],
)
def test_what_a_writer_cannot_work_with_is_told_before_a_run(name: str, wrong: dict[str, Any]) -> None:
    if set(wrong) <= set(parameters(name)):
        with pytest.raises(UserError, match=next(iter(wrong))):
            load_memory(name, **_offered(name) | wrong)


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_json_and_tell_systems_apart(name: str) -> None:
    given = {"curator": RuleModel(), "model": RuleModel(), "embedder": WordEmbedder()}
    memory = load_memory(name, **given, benchmark=ButtonBenchmark())
    settings = memory.settings()
    json.dumps(settings)
    assert settings["name"] == name
    assert ("curator" in settings) is (name == "jitmem")
    memory.close()
    memory.close()


def test_a_memory_that_is_not_open_says_so() -> None:
    with pytest.raises(UserError, match="not open"):
        load_memory("raw").snapshot()


def test_none_recalls_and_remembers_nothing() -> None:
    memory = load_memory("none")
    memory.open(None)
    memory.warm([demonstration(TASKS[0])], Session())
    assert memory.remember(episode(), Session()) == {}
    assert memory.recall(TASKS[0], memory.snapshot(), Session()) == Recall()
    assert memory.needs_judge is False


def test_oracle_recalls_the_solution_and_says_that_it_is_a_control() -> None:
    memory = load_memory("oracle", benchmark=ButtonBenchmark())
    memory.open(None)
    memory.warm([demonstration(TASKS[0])], Session())
    recall = memory.recall(TASKS[1], memory.snapshot(), Session())
    assert recall.payload == f"Task: {TASKS[1].description}\nSteps to do it:\n1. press green"
    assert "control" in recall.notes
    assert memory.remember(episode(), Session()) == {}
    assert memory.needs_judge is False


# What is let in


@pytest.mark.parametrize(
    ("gate", "won", "verdict", "stored", "label"),
    [
        ("judge", True, True, True, None),
        ("judge", False, True, True, None),
        ("judge", True, False, False, None),
        ("judge", True, None, False, None),
        ("environment", True, False, True, None),
        ("environment", False, True, False, None),
        ("environment", True, None, True, None),
        ("partial", True, False, True, None),
        ("partial", False, True, False, None),
        ("all+labels", True, False, True, "failure"),
        ("all+labels", False, True, True, "success"),
        ("all+labels", True, None, False, None),
    ],
)
def test_the_gate(gate: str, won: bool, verdict: bool | None, stored: bool, label: str | None) -> None:
    memory = opened(gate=gate)
    assert memory.needs_judge is (gate in ("judge", "all+labels"))
    change = memory.remember(episode(won=won, verdict=verdict), Session())
    assert change["stored"] is stored
    assert len(memory.bank) == stored
    if stored:
        recall = memory.recall(TASKS[1], memory.snapshot(), Session())
        assert ("Result: " in recall.payload) is (label is not None)
        assert label is None or recall.payload.endswith(f"Result: {label}")
    else:
        assert change["why"]


@pytest.mark.parametrize(("gate", "stored"), [("partial", True), ("environment", False)])
@pytest.mark.parametrize("reward", [0.4, None, 0.0, float("nan")])
def test_a_partial_score_is_a_success_for_its_own_gate_only(
    gate: str, stored: bool, reward: float | None
) -> None:
    memory = opened(gate=gate)
    lost = episode(won=False)
    assert lost.trajectory is not None
    part = Trajectory.model_validate(lost.trajectory.model_dump() | {"reward": reward})
    change = memory.remember(lost.model_copy(update={"trajectory": part}), Session())
    assert change["stored"] is (stored and reward == 0.4)


@pytest.mark.parametrize("gate", ["judge", "environment", "partial", "all+labels"])
def test_nothing_of_an_error_is_stored_and_a_write_twice_is_one(gate: str) -> None:
    memory = opened(gate=gate)
    memory.remember(episode(0, outcome="error"), Session())
    memory.remember(episode(1).model_copy(update={"trajectory": None}), Session())
    assert len(memory.bank) == 0
    changes = [memory.remember(episode(2), Session()) for _ in range(3)]
    assert changes == [{"stored": True, "id": 1}] * 3
    assert len(memory.bank) == 1
    assert "secret" not in memory.bank.get(1).trajectory.to_line()


def test_a_warm_start_is_idempotent_whatever_the_times(tmp_path: Path) -> None:
    def played(seconds: float) -> list[Trajectory]:
        done = [demonstration(task) for task in TASKS]
        steps = [tuple(s.model_copy(update={"seconds": seconds}) for s in d.steps) for d in done]
        return [d.model_copy(update={"steps": s}) for d, s in zip(done, steps, strict=True)]

    memory = opened(folder=tmp_path)
    memory.warm(played(0.1), Session())
    memory.remember(episode(3), Session())
    memory.warm(played(0.1), Session())
    memory.warm(played(2.5), Session())
    memory.close()
    memory = opened(folder=tmp_path)
    memory.warm(played(0.7), Session())
    assert memory.snapshot() == len(TASKS) + 1
    assert memory.bank.get(len(TASKS) + 1).key == "key3"
    memory.close()


@pytest.mark.parametrize(
    ("gate", "head"), [("environment", "Steps to do it:"), ("all+labels", "What was done:")]
)
def test_only_what_led_to_success_is_called_the_steps_to_do_it(gate: str, head: str) -> None:
    """With all+labels failures are shown too, and a plan must not be modelled on their steps."""
    writer = RuleModel("curator", rule=lambda text, sampling: "press red")
    curator = Curator(writer, form="plan", temperature=0.0)
    for name, given in (("raw", {}), ("jitmem", {"curator": curator})):
        memory = opened(name, gate=gate, trace_format="actions", **given)
        for number, won in ((0, True), (1, False)):
            memory.remember(episode(number, won=won, verdict=won), Session())
        session = Session()
        recall = memory.recall(TASKS[2], memory.snapshot(), session)
        shown = recall.payload if name == "raw" else session.calls[0].messages[-1].content
        for trace in recall.traces:
            assert f"Task: {trace.description}\n{head}\n{trace.text}" in shown
        assert len(recall.traces) == (2 if gate == "all+labels" else 1)
        assert memory.settings().get("heading", "Steps to do it:") == head
        assert shown.count("Steps to do it:") == (name == "jitmem") + (gate == "environment")
        again = Recall.from_line(recall.to_line())
        assert [trace.holds for trace in again.traces] == [trace.holds for trace in recall.traces]


def test_distilled_lessons_are_written_once_and_shown_instead_of_the_trace() -> None:
    distiller = RuleModel(
        "d", rule=lambda text, s: "<think>secret</think>Title: panels\nContent: press gently"
    )
    memory = opened(traces="distilled", distiller=distiller)
    session = Session()
    memory.remember(episode(0), session)
    assert [call.role for call in session.calls] == ["distiller"]
    assert "A panel." in distiller.prompts[0]
    assert TASKS[0].description in distiller.prompts[0]
    recall = memory.recall(TASKS[1], memory.snapshot(), Session())
    assert recall.traces[0].text == "Title: panels\nContent: press gently"
    assert recall.payload == f"Task: {TASKS[0].description}\nLessons:\n{recall.traces[0].text}"
    assert "A panel." not in recall.payload
    assert memory.bank.get(1).trajectory.steps[0].observation == "A panel.", "the bank keeps the whole trace"
    assert memory.settings()["distiller"]["prompt"] == "distill"
    assert len(distiller.prompts) == 1
    with pytest.raises(UserError, match="warm_start"):
        memory.warm([demonstration(TASKS[0])], Session())


def test_a_distiller_out_of_reach_leaves_nothing_half_written() -> None:
    def down(text: str, sampling: Any) -> str:
        raise InfrastructureError("timeout")

    memory = opened(traces="distilled", distiller=RuleModel("d", rule=down))
    with pytest.raises(InfrastructureError):
        memory.remember(episode(0), Session())
    assert len(memory.bank) == 0


def test_a_trace_too_long_for_the_distiller_is_cut() -> None:
    distiller = RuleModel("d", rule=lambda text, s: "Title: x")
    memory = opened(traces="distilled", distiller=distiller)
    long = episode(0)
    steps = long.trajectory.steps * 5_000
    long = long.model_copy(update={"trajectory": long.trajectory.model_copy(update={"steps": steps})})
    memory.remember(long, Session())
    assert distiller.count_tokens(distiller.prompts[0]) + 512 <= distiller.context
    assert "characters cut" in distiller.prompts[0]


# What is given back


def test_raw_gives_the_best_traces_as_they_are() -> None:
    memory = opened(k=2, trace_format="actions")
    memory.warm([demonstration(task) for task in TASKS], Session())
    recall = memory.recall(TASKS[5], memory.snapshot(), Session())
    assert [t.rank for t in recall.traces] == [1, 2]
    assert recall.traces[0].score >= recall.traces[1].score
    assert [t.task_id for t in recall.traces] == ["b0", "b10"], "the other tasks of the same panel"
    assert recall.self_excluded == 1
    assert (recall.query, recall.bank_size) == (TASKS[5].description, 12)
    blocks = recall.payload.split("\n\n")
    assert [b.splitlines()[0] for b in blocks] == [f"Task: {t.description}" for t in recall.traces]
    assert blocks[1].endswith("1. press blue")


def test_retrieval_compares_the_key_where_a_task_has_one() -> None:
    memory = opened(k=1)
    memory.warm([demonstration(task) for task in TASKS], Session())
    hidden = TASKS[0].model_copy(update={"key": TASKS[7].description, "task_id": "other"})
    assert memory.recall(hidden, memory.snapshot(), Session()).traces[0].task_id == "b7"


def test_an_earlier_snapshot_gives_what_it_gave_then() -> None:
    ways = get_args(Retrieval)
    assert set(CONTROLS) < set(ways)
    for retrieval in ways:
        memory = opened(retrieval=retrieval, embedder=WordEmbedder())
        memory.warm([demonstration(task) for task in TASKS[:5]], Session())
        token = memory.snapshot()
        then = memory.recall(TASKS[6], token, Session())
        memory.warm([demonstration(task) for task in TASKS[5:]], Session())
        assert memory.recall(TASKS[6], token, Session()) == then
        assert then.bank_size == 5


def test_random_traces_are_fixed_by_seed_and_episode() -> None:
    memory = opened(retrieval="random")
    memory.warm([demonstration(task) for task in TASKS], Session())
    found = {}
    for number in range(40):
        recall = memory.recall(TASKS[5], 12, Session(0, f"e{number}"))
        found[number] = tuple(t.task_id for t in recall.traces)
        assert len(set(found[number])) == 3
        assert "b5" not in found[number]
        assert recall == memory.recall(TASKS[5], 12, Session(0, f"e{number}"))
    assert len(set(found.values())) > 20
    assert {task for ids in found.values() for task in ids} == {t.task_id for t in TASKS} - {"b5"}


def test_random_traces_leave_out_the_own_task_however_often_it_is_stored() -> None:
    memory = opened(retrieval="random")
    own = [demonstration(TASKS[0]).model_copy(update={"final_observation": str(n)}) for n in range(100)]
    memory.warm([*own, demonstration(TASKS[1]), demonstration(TASKS[2])], Session())
    recall = memory.recall(TASKS[0], memory.snapshot(), Session())
    assert {t.task_id for t in recall.traces} == {"b1", "b2"}
    assert recall.self_excluded == 3, "so many would have been shown"
    allowed = opened(retrieval="random", exclude_own=False)
    allowed.warm(own, Session())
    recall = allowed.recall(TASKS[0], allowed.snapshot(), Session())
    assert [t.task_id for t in recall.traces] == ["b0"] * 3
    assert recall.self_excluded == 0


@pytest.mark.parametrize("name", ["raw", "jitmem"])
def test_empty_retrieval_hides_a_full_bank(name: str) -> None:
    model = RuleModel(rule=lambda text, s: "Press on.")
    extra = {"curator": model} if name == "jitmem" else {}
    memory = opened(name, retrieval="empty", **extra)
    memory.warm([demonstration(task) for task in TASKS], Session())
    session = Session()
    recall = memory.recall(TASKS[0], memory.snapshot(), session)
    assert recall.traces == ()
    assert recall.notes["retrieval"] == "empty"
    assert recall.bank_size == 12
    if name == "raw":
        assert (recall.payload, session.calls) == ("", [])
    else:
        assert recall.payload == "Press on.", "the control asks the curator, without traces"
        assert "(none)" in model.prompts[0]


@pytest.mark.parametrize(("on_empty", "calls"), [("skip", 0), ("call", 1)])
def test_an_empty_bank(on_empty: str, calls: int) -> None:
    memory = opened("jitmem", curator=RuleModel(rule=lambda text, s: "Press on."), on_empty=on_empty)
    session = Session()
    recall = memory.recall(TASKS[0], memory.snapshot(), session)
    assert len(session.calls) == calls
    assert recall.payload == ("Press on." if calls else "")
    assert ("curator" in recall.notes) is (not calls)
    memory.warm([demonstration(TASKS[0])], Session())
    memory.recall(TASKS[0], memory.snapshot(), session)
    assert len(session.calls) == 2 * calls, "a bank with nothing but the own task is empty for this one"
    memory.recall(TASKS[1], memory.snapshot(), session)
    assert len(session.calls) == 2 * calls + 1


def test_jitmem_takes_a_model_or_a_curator() -> None:
    curator = Curator(RuleModel(), max_tokens=7)
    assert load_memory("jitmem", curator=curator).settings()["curator"]["sampling"]["max_tokens"] == 7
    assert load_memory("jitmem", curator=RuleModel("m")).settings()["curator"]["model"] == {"name": "m"}


@pytest.mark.parametrize(("limit", "whole"), [(None, True), (10**6, True), (3000, False), (0, False)])
def test_raw_traces_are_cut_to_their_limit_and_the_cut_is_recorded(limit: int | None, whole: bool) -> None:
    memory = opened(max_trace_tokens=limit)
    long = [
        demonstration(task).model_copy(update={"final_observation": "word " * 20_000}) for task in TASKS[:3]
    ]
    memory.warm(long, Session())
    recall = memory.recall(TASKS[9], memory.snapshot(), Session())
    assert all((trace.cut_chars == 0) is whole for trace in recall.traces)
    if not whole:
        assert sum(len(t.text) for t in recall.traces) <= 3 * limit + 9
        assert len(recall.payload) < 3 * limit + 1000


def test_the_oracle_gives_the_own_solution_or_another_tasks() -> None:
    bench = ButtonBenchmark(8)
    task = bench.tasks()[2]
    own = load_memory("oracle", benchmark=bench).recall(task, 0, Session())
    other = load_memory("oracle", benchmark=bench, of="another").recall(task, 0, Session())
    assert own.payload.startswith(f"Task: {task.description}\n")
    assert other.payload.startswith(f"Task: {task.description}\n")
    assert own.payload.endswith(bench.oracle(task)[0])
    assert other.payload.endswith(bench.oracle(bench.tasks()[3])[0])
    assert "b3" in other.notes["control"]
    with pytest.raises(UserError, match="own or another"):
        load_memory("oracle", benchmark=bench, of="none")
