"""Procedures of earlier tasks: builds, updates, use counts, deletion, retrieval, the port."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, make_memory
from jitmem_lab.memories import load_memory
from jitmem_lab.records import Episode, Step, Trajectory
from jitmem_lab.session import Session

from .doubles import ButtonBenchmark, RuleModel, demonstration
from .writing import (
    MALFORMED,
    TASKS,
    WordEmbedder,
    does_not_hang_on_concurrency,
    dump,
    episode,
    keeps_its_promises,
    opened,
    sees_one_snapshot,
    stored,
)

pytestmark = pytest.mark.unit


def memp(answer: Callable[[str], str] | str = "Look, then press.", **options: Any) -> Any:
    told = answer if callable(answer) else lambda text: answer
    return opened("memp", told, embedder=WordEmbedder(), **options)


def play(memory: Any, number: int, won: bool = True, **given: Any) -> dict[str, Any]:
    """One episode: recalled from the present state, then remembered."""
    done = episode(number, won=won, **given)
    recall = memory.recall(done.task, memory.snapshot(), Session())
    return dict(memory.remember(done.model_copy(update={"recall": recall}), Session()))


def with_steps(number: int, actions: Sequence[str], invalid: Sequence[int] = ()) -> Episode:
    done = episode(number)
    steps = tuple(
        Step(observation=f"Seen {n}.", admissible=(), action=action, valid=n not in invalid)
        for n, action in enumerate(actions, 1)
    )
    played = Trajectory(task=done.task, steps=steps, outcome="success", reward=1.0)
    return done.model_copy(update={"trajectory": played})


# Building


def test_a_script_is_what_the_model_writes() -> None:
    memory = memp("<think>So.</think> Look around, then press the button. \n")
    session = Session()
    memory.remember(episode(0), session)
    assert stored(memory) == [
        {
            "query": TASKS[0].description,
            "workflow": "Look around, then press the button.",
            "facts": "type0",
            "hits": 0,
            "successes": 0,
            "build": "script",
            "task_ids": ["b0"],
        }
    ]
    assert TASKS[0].description in memory.model.prompts[0]
    assert "Did: press red" in memory.model.prompts[0]
    assert [call.role for call in session.calls] == ["distiller", "embedder"]


@pytest.mark.parametrize(
    ("answer", "picked"),
    [
        ("[2, 4]", ["take mug", "put mug"]),
        ("[4,2,2]", ["take mug", "put mug"]),
        ("The critical ones are 1 and 4.", ["go to shelf", "put mug"]),
        ("Not [1], rather: [2]", ["take mug"]),
        ("[1, 3, 4, 9, 0]", ["go to shelf", "put mug"]),
        ("```json\n[1]\n```", ["go to shelf"]),
    ],
)
def test_a_round_keeps_the_actions_of_the_critical_events(answer: str, picked: list[str]) -> None:
    events = "Step 1 | before: far | action: go to shelf | after: near"
    memory = memp(lambda text: answer if events in text else events, build="round")
    memory.remember(with_steps(0, ["go to shelf", "take mug", "eat mug", "put mug"], invalid=[3]), Session())
    assert stored(memory)[0]["workflow"] == picked
    assert "[Step 3]" in memory.model.prompts[0]
    assert "[Step 3]" not in memory.model.prompts[1], "the second call sees the events only"
    payload = memory.recall(TASKS[1], 1, Session()).payload
    listed = "\n".join(f"{n}. {action}" for n, action in enumerate(picked, 1))
    assert payload == f"Task: {TASKS[0].description}\nSteps to do it:\n{listed}"


def test_a_round_numbers_the_steps_as_the_writer_saw_them() -> None:
    memory = memp("[2]", build="round", trace_format="actions")
    memory.remember(with_steps(0, ["go to shelf", "eat mug", "", "put mug"], invalid=[2]), Session())
    assert "2. put mug" in memory.model.prompts[0]
    assert stored(memory)[0]["workflow"] == ["put mug"]


@pytest.mark.parametrize("build", ["script", "round"])
@pytest.mark.parametrize("answer", MALFORMED)
def test_an_answer_without_a_workflow_adds_nothing_or_what_it_says(build: str, answer: str) -> None:
    memory = memp(answer, build=build)
    change = memory.remember(episode(0), Session())
    assert memory.snapshot() == 1
    words = answer.strip()
    if build == "script" and words and "<think>" not in words and len(words) <= 8_000:
        assert stored(memory)[0]["workflow"] == words, "any short text is a script"
    else:
        assert stored(memory) == []
        assert change["note"]["not_added"]


def test_a_warm_start_builds_each_demonstration_once() -> None:
    memory = memp()
    for _ in range(2):
        memory.warm([demonstration(task) for task in TASKS[:3]], Session())
    assert len(stored(memory)) == memory.snapshot() == len(memory.model.prompts) == 3


# What an episode adds


@pytest.mark.parametrize(
    ("update", "won", "added"),
    [
        ("vanilla", True, 1),
        ("vanilla", False, 1),
        ("validation", True, 1),
        ("validation", False, 0),
        ("reflect", True, 1),
        ("reflect", False, 0),
    ],
)
def test_what_each_update_appends(update: str, won: bool, added: int) -> None:
    memory = memp(update=update)
    memory.remember(episode(0, won=won), Session())
    assert len(stored(memory)) == added
    assert len(memory.model.prompts) == added, "nothing is asked for what isn't kept"
    assert memory.snapshot() == 1


def test_a_query_that_is_known_adds_nothing() -> None:
    memory = memp()
    memory.remember(episode(0), Session())
    twin = TASKS[1].model_copy(update={"description": TASKS[0].description})
    change = memory.remember(episode(1, task=twin), Session())
    assert change["note"] == {"not_added": "there is a procedure for this query"}
    assert (len(stored(memory)), len(memory.model.prompts)) == (1, 1)


def test_a_full_memory_adds_nothing() -> None:
    memory = memp(capacity=2)
    notes = [memory.remember(episode(number), Session()).get("note") for number in range(3)]
    assert notes == [None, None, {"not_added": "the memory is full (2)"}]
    assert [data["query"] for data in stored(memory)] == [task.description for task in TASKS[:2]]


def test_after_a_failure_the_procedure_that_was_shown_is_rewritten() -> None:
    answers = {
        "Write the procedure": "Press at once.",
        "corrected procedure": "Too soon. The procedure: was bad.\n**Procedure:**\nLook.\nThen press.",
    }
    memory = memp(lambda text: next(a for q, a in answers.items() if q in text), update="reflect", k=1)
    play(memory, 0)
    play(memory, 5, won=False)
    (data,) = stored(memory)
    assert (data["workflow"], data["hits"], data["successes"]) == ("Look.\nThen press.", 1, 0)
    assert data["task_ids"] == ["b0", "b5"]
    prompt = memory.model.prompts[-1]
    assert "How to do it: Press at once." in prompt
    assert TASKS[5].description in prompt
    assert "Result: failure" in prompt
    assert "Did: press red" in prompt
    shown = [memory.recall(TASKS[number], 2, Session()) for number in (0, 5, 10)]
    assert [recall.self_excluded for recall in shown] == [1, 1, 0]
    assert "Then press." in shown[2].payload
    before = memory.store.history(1)[-1].before
    assert before is not None
    assert before["workflow"] == "Press at once."
    memory.store.undo(2)
    assert stored(memory)[0] == before


@pytest.mark.parametrize(
    "answer", [*MALFORMED, "Look, then press.", "Procedure:\n", "Procedure: " + "x" * 9_000]
)
def test_a_correction_that_cannot_be_read_leaves_the_procedure_as_it_is(answer: str) -> None:
    memory = memp("Press.", update="reflect", k=1)
    play(memory, 0)
    memory.model.rule = lambda text, sampling: answer
    change = play(memory, 5, won=False)
    (data,) = stored(memory)
    assert (data["workflow"], data["hits"], data["task_ids"]) == ("Press.", 1, ["b0"])
    assert change["note"]["unchanged"]


def test_nothing_is_rewritten_that_was_not_shown_or_is_gone() -> None:
    memory = memp("Press.", update="reflect", k=1)
    assert play(memory, 0, won=False)["note"] == {"unchanged": "no procedure was shown that is still there"}
    play(memory, 0, trial=1)
    lost = [memory.recall(TASKS[number], 2, Session()) for number in (5, 10, 15, 20)]
    notes = []
    for number, recall in zip((5, 10, 15, 20), lost, strict=True):
        done = episode(number, won=False).model_copy(update={"recall": recall})
        notes.append(memory.remember(done, Session()).get("note"))
    assert stored(memory) == [], "the third failure deletes it"
    assert "still there" in notes[2]["unchanged"]
    assert "still there" in notes[3]["unchanged"]
    assert sum("given" in prompt for prompt in memory.model.prompts) == 2


# Use counts and deletion


def test_uses_are_counted_for_the_best_one_shown_or_for_all() -> None:
    for credit, hits in (("first", [0, 1]), ("all", [1, 1])):
        memory = memp(update="validation", credit=credit, min_score=0.0)
        memory.remember(episode(1), Session())
        memory.remember(episode(5), Session())
        recall = memory.recall(TASKS[10], 2, Session())
        assert [trace.task_id for trace in recall.traces] == ["b5", "b1"]
        memory.remember(episode(10, won=False).model_copy(update={"recall": recall}), Session())
        assert [data["hits"] for data in stored(memory)] == hits
        assert [data["successes"] for data in stored(memory)] == [0, 0]


@pytest.mark.parametrize(
    ("outcomes", "left"),
    [
        ([False, False], 1),
        ([False, False, True], 0),
        ([False, False, False], 0),
        ([True, True, False], 1),
        ([True, False, True, False], 1),
        ([True, False, True, False, False], 0),
    ],
)
def test_what_fails_more_often_than_not_is_deleted_from_the_third_use_on(
    outcomes: list[bool], left: int
) -> None:
    memory = memp(update="validation", k=1)
    memory.remember(episode(0), Session())
    for number, won in enumerate(outcomes, 1):
        recall = memory.recall(TASKS[5], memory.snapshot(), Session())
        same = TASKS[5].model_copy(update={"description": TASKS[0].description, "task_id": f"t{number}"})
        done = episode(5, won=won, trial=number, task=same).model_copy(update={"recall": recall})
        memory.remember(done, Session())
        if number < len(outcomes):
            assert stored(memory)[0]["query"] == TASKS[0].description
    kept = [data for data in stored(memory) if data["task_ids"] == ["b0"]]
    assert len(kept) == left
    if not left:
        past = memory.store.history(1)[-1]
        assert (past.op, past.after) == ("delete", None)
        memory.store.undo(past.write)
        again = stored(memory)[0]
        assert (again["hits"], again["task_ids"]) == (len(outcomes) - 1, ["b0"])


def test_a_success_that_deletes_a_procedure_leaves_its_query_to_the_new_one() -> None:
    memory = memp(update="validation", k=1)
    memory.remember(episode(0), Session())
    for number in range(2):
        play(memory, 5, won=False, trial=number)
    twin = TASKS[5].model_copy(update={"description": TASKS[0].description})
    play(memory, 5, won=True, trial=3, task=twin)
    assert [(item.id, item.data["hits"]) for item in memory.store.items()] == [(2, 0)]


def test_the_counts_outlive_a_recall_that_was_read_back_from_its_line() -> None:
    memory = memp(update="validation", k=1)
    memory.remember(episode(0), Session())
    done = episode(5, won=False).model_copy(update={"recall": memory.recall(TASKS[5], 1, Session())})
    memory.remember(Episode.from_line(done.to_line()), Session())
    assert stored(memory)[0]["hits"] == 1


# What is found and shown


def test_the_most_similar_queries_above_the_threshold() -> None:
    memory = memp(lambda text: "Press.", min_score=0.75)
    for number in range(6):
        memory.remember(episode(number), Session())
    session = Session()
    recall = memory.recall(TASKS[15], 6, session)
    scores = [trace.score for trace in recall.traces]
    assert recall.traces[0].task_id == "b5"
    assert {trace.task_id for trace in recall.traces[:2]} == {"b0", "b5"}, "the same panel"
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 0.75
    assert recall.payload.startswith(f"Task: {TASKS[5].description}\nHow to do it: Press.\n\nTask: ")
    assert [call.role for call in session.calls] == ["embedder"], "only the query is embedded"
    strict = memp(lambda text: "Press.", min_score=0.99)
    strict.remember(episode(0), Session())
    none = strict.recall(TASKS[15], 1, Session())
    assert (none.payload, none.traces, none.notes) == ("", (), {"below_min_score": 1})


def test_at_most_ten_are_shown_by_default() -> None:
    memory = memp(min_score=0.0)
    for number in range(12):
        memory.remember(episode(number), Session())
    assert len(memory.recall(TASKS[20], 12, Session()).traces) == 10


def test_the_port_shows_one_from_the_second_step_on() -> None:
    memory = opened("memp", lambda text: "Press.", variant="port")
    for number in range(3):
        memory.remember(episode(number), Session())
    recall = memory.recall(TASKS[5], 3, Session())
    assert len(recall.traces) == 1
    companion = memory.companion(TASKS[5], 3, recall)
    step = Step(observation="", admissible=(), action="look")
    shown = [companion.advise([step] * taken, Observation("A panel.", ()), Session()) for taken in range(3)]
    assert shown == ["", recall.payload, recall.payload]
    assert memp().companion(TASKS[5], 0, recall) is None
    settings = memory.settings()
    assert settings["retrieval"] == {"how": "bm25", "tokenizer": "whitespace", "idf": "okapi"}
    assert (settings["k"], settings["build"], settings["update"]) == (1, "script", "vanilla")
    assert settings["sampling"]["temperature"] == 0.7


def test_in_a_stream_the_port_holds_back_at_the_first_step(tmp_path: Path) -> None:
    run = does_not_hang_on_concurrency("memp", script, tmp_path, variant="port")
    steps = [step.payload for e in run.latest() if e.recall.payload for step in e.trajectory.steps[:1]]  # type: ignore[union-attr]
    later = [step.payload for e in run.latest() if e.recall.payload for step in e.trajectory.steps[1:]]  # type: ignore[union-attr]
    assert set(steps) == {""}
    assert later
    assert all(later)


# Small models


@pytest.mark.parametrize("build", ["script", "round"])
def test_a_small_model_goes_on_with_a_text(build: str) -> None:
    answers = {
        "How such a task is done:": " Press it.",
        "needed: [": "1]",
        "changed:\n1.": " nothing\n2. it clicked",
        "What was missing:": " a look.\nProcedure: Look first.",
    }
    memory = memp(
        lambda text: next(answer for end, answer in answers.items() if text.endswith(end)),
        variant="small",
        build=build,
        update="reflect",
    )
    play(memory, 0)
    assert stored(memory)[0]["workflow"] == ("Press it." if build == "script" else ["press red"])
    if build == "round":
        assert memory.model.prompts[1].endswith("1. nothing\n2. it clicked\nThe steps that were needed: [")
    play(memory, 5, won=False)
    assert stored(memory)[0]["workflow"] == "Look first."
    assert memory.settings()["sampling"]["stop"] == ("\n\n",)
    assert all(name.endswith("_continue") for name in memory.settings()["prompts"])


def test_a_small_model_that_repeats_the_example_adds_nothing() -> None:
    copied = " First walk to the shelf where the book stands and pick it up."
    memory = memp(copied, variant="small")
    assert memory.remember(episode(0), Session())["note"] == {"not_added": "no workflow was written"}


# Parameters


def test_wrong_parameters() -> None:
    model, embedder = RuleModel(), WordEmbedder()
    with pytest.raises(UserError, match="needs an embedder"):
        load_memory("memp", model=model)
    for options, says in (
        ({"build": "scripts"}, "build must be one of script, round"),
        ({"update": "all"}, "update must be one of vanilla, validation, reflect"),
        ({"credit": "none"}, "credit must be one of first, all"),
        ({"capacity": 0}, "capacity must be 1"),
        ({"from_step": -1}, "from_step"),
        ({"min_score": 1.5}, "min_score"),
        ({"min_score": float("nan")}, "min_score"),
    ):
        with pytest.raises(UserError, match=says):
            load_memory("memp", model=model, embedder=embedder, **options)


def test_the_published_defaults() -> None:
    model = RuleModel()
    model.context = 32_768
    settings = load_memory("memp", model=model, embedder=WordEmbedder()).settings()
    assert (settings["k"], settings["capacity"], settings["min_score"]) == (10, 1000, 0.5)
    assert (settings["gate"], settings["retrieval"]["how"]) == ("environment", "dense")
    assert (settings["sampling"]["temperature"], settings["sampling"]["max_tokens"]) == (0.2, 4096)
    assert list(settings["prompts"]) == ["memp_script"]
    round_ = load_memory("memp", model=model, embedder=WordEmbedder(), build="round", update="reflect")
    assert list(round_.settings()["prompts"]) == ["memp_events", "memp_critical", "memp_reflect"]


def test_the_ports_retrieval_needs_no_embedder() -> None:
    loaded = []

    def load(spec: str) -> WordEmbedder:
        loaded.append(spec)
        return WordEmbedder()

    for variant, how in ((None, "dense"), ("port", "bm25")):
        for preset in ("small", "paper"):
            config = EvalConfig.make(memory="memp", variant=variant, preset=preset)
            settings = make_memory(config, lambda spec: RuleModel(), ButtonBenchmark(), load).settings()
            assert (settings["retrieval"]["how"], settings["gate"]) == (how, "environment")
            if variant == "port":
                assert settings["sampling"]["temperature"] == 0.7
    assert loaded == ["wordllama"] * 2


# What every system keeps


def script(text: str) -> str:
    """Another paragraph for each prompt, or a correction where one is asked for."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:8]
    return f"It was wrong.\nProcedure:\nBetter {digest}." if "went wrong" in text else f"Press {digest}."


@pytest.mark.parametrize("update", ["vanilla", "validation", "reflect"])
def test_promises(tmp_path: Path, update: str) -> None:
    keeps_its_promises("memp", script, tmp_path, embedder=WordEmbedder(), update=update)


def test_snapshots() -> None:
    sees_one_snapshot("memp", script, embedder=WordEmbedder())


@pytest.mark.parametrize("build", ["script", "round"])
def test_concurrency(tmp_path: Path, build: str) -> None:
    run = does_not_hang_on_concurrency(
        "memp",
        script,
        tmp_path,
        trials=2,
        embedder=WordEmbedder(),
        update="reflect",
        build=build,
        min_score=0.0,
    )
    changed = [line for line in dump(run.path) if "'update'" in line or "'delete'" in line]
    assert len(changed) > 5, "the world must use procedures, or this shows nothing"
