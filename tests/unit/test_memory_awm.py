"""Agent Workflow Memory: routines from successes, one a template, all in the prompt within a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, make_memory
from jitmem_lab.memories import load_memory, parameters
from jitmem_lab.memories.awm import Workflow, same_template, workflows
from jitmem_lab.session import Session

from . import writing
from .doubles import ButtonBenchmark, RuleModel, demonstration
from .writing import MALFORMED, TASKS, episode, notes, stored

pytestmark = pytest.mark.unit

CLEAN = (
    "go to {PLACE}",
    "take {THING} from {PLACE}",
    "clean {THING} with {SINK}",
    "move {THING} to {TARGET}",
)

REPEATED = "repeats a workflow before it"


def written(title: str, *steps: str) -> str:
    return "\n".join([f"Workflow: {title}", *(f"{n}. {step}" for n, step in enumerate(steps, 1))])


def opened(answer: str = written("Clean", *CLEAN), folder: Path | None = None, **options: Any) -> Any:
    return writing.opened("awm", lambda text: answer, folder, **options)


def told(memory: Any, *answers: str) -> None:
    """One success after the other, each answered by the next of `answers`."""
    for number, answer in enumerate(answers, memory.snapshot()):
        memory.model.rule = lambda text, sampling, answer=answer: answer
        memory.remember(episode(number), Session(0, f"k{number}"))


# What is read


@pytest.mark.parametrize(
    "answer",
    [
        written("Press it", "look", "press {COLOUR}"),
        "Sure, here it is:\n\n## Workflow 1: Press it\n- look\n- press {COLOUR}\n\nGood luck!",
        "**Workflow 1:** Press it\nYou do it so.\n\n* look\n\n* press {COLOUR}",
        "```\nWORKFLOW - Press it\n1) look\n2) press {COLOUR}\n```",
        "1. Workflow: Press it\nStep 1: look\nStep 2: `press {COLOUR}`",
        "Workflow: a single step\n1. look\nWorkflow: Press it\n1. look\n2. press {COLOUR}",
    ],
)
def test_workflows_are_read_from_the_forms_that_models_write(answer: str) -> None:
    found, _ = workflows(answer)
    assert found == [Workflow("Press it", ("look", "press {COLOUR}"))]


@pytest.mark.parametrize(
    ("answer", "titles", "refused"),
    [
        (written("a", "x", "y") + "\n" + written("b", "u", "v"), ["a", "b"], []),
        (written("a", "x"), [], ["workflow 1 (a): fewer than 2 steps"]),
        (written("go", "x", "y") + "\n" + written("Go", "u", "v"), ["go"], ["workflow 2 (Go): " + REPEATED]),
        (written("a", "x 1", "y") + "\n" + written("b", "x 2", "Y."), ["a"], ["workflow 2 (b): " + REPEATED]),
        ("Workflow 1\n1. x\n2. y\nWorkflow 2\n1. u\n2. v", ["untitled", "untitled"], []),
        ("1. x\n2. y", [], []),
        ("Workflows: none", [], []),
        *[(answer, [], []) for answer in MALFORMED[2:]],
    ],
)  # fmt: skip
def test_what_is_kept_and_what_is_refused(answer: str, titles: list[str], refused: list[str]) -> None:
    found, why = workflows(answer)
    assert [workflow.title for workflow in found] == titles
    assert why == refused


def test_an_answer_gives_a_few_workflows_however_many_it_holds() -> None:
    letters = ["".join(chr(97 + int(digit)) for digit in str(number)) for number in range(2000)]
    answer = "".join(f"Workflow: {word}\n1. take {word}\n2. put {word}\n" for word in letters)
    kept, refused = workflows(answer)
    assert [one.title for one in kept] == letters[:20]
    assert len(refused) == 20
    assert refused[0] == "workflow 21 (ca): more than 20 workflows"


def test_a_workflow_has_a_longest() -> None:
    (found,), why = workflows(written("t" * 999, *("s" * 999 for _ in range(99))))
    assert (len(found.title), len(found.steps), {len(step) for step in found.steps}) == (300, 30, {300})
    assert why == [f"workflow 1 ({'t' * 300}): steps after 30"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (("Clean a thing", "x", "y"), ("clean the THING!", "u", "v"), True),
        (("a", *CLEAN), ("b", *(s.replace("THING", "O").replace("go", "Go") for s in CLEAN)), True),
        (("a", *CLEAN), ("b", *(s.replace("clean", "heat") for s in CLEAN)), False),
        (("a", *CLEAN), ("b", *CLEAN[:3]), False),
        (("a", "open drawer 1", "look"), ("b", "open drawer 12", "look"), True),
        (("a", "say 'yes'", "look"), ("b", 'say "no"', "look"), True),
        (("a", "go to the user's page", "look at it"), ("b", "go to the shop's page", "look at it"), False),
        (("a", "search[{QUERY}]", "click[buy now]"), ("b", "search[{WORDS}]", "click[buy now]"), True),
        (("a", "search[{QUERY}]", "click[buy now]"), ("b", "search[{QUERY}]", "click[{ITEM}]"), False),
        (("{X}", "u", "v"), ("{Y}", "x", "y"), False),
        (("untitled", "u", "v"), ("untitled", "x", "y"), False),
    ],
)  # fmt: skip
def test_templates(one: tuple[str, ...], other: tuple[str, ...], same: bool) -> None:
    pair = [Workflow(title, tuple(steps)) for title, *steps in (one, other)]
    assert same_template(*pair) is same_template(*pair[::-1]) is same


# What is written


def test_a_success_is_induced_from() -> None:
    memory = opened(
        "<think>hm</think>" + written("Clean", *CLEAN) + "\n" + written("Look", "look", "examine {THING}")
    )
    session = Session()
    change = memory.remember(episode(0), session)
    assert change["items"] == [{"op": "insert", "kind": "workflow", "item": n} for n in (1, 2)]
    (call,) = session.calls
    assert (call.role, call.sampling.temperature, call.sampling.max_tokens) == ("distiller", 1.0, 2048)
    assert TASKS[0].description in memory.model.prompts[0]
    assert "A panel, look 1." in memory.model.prompts[0]
    assert "{THING}" in memory.model.prompts[0], "the prompt shows what a variable looks like"
    first = {"title": "Clean", "steps": list(CLEAN), "seen": 1, "task_id": "b0", "task": TASKS[0].description}
    assert stored(memory)[0] == first


@pytest.mark.parametrize(
    ("made", "why"),
    [
        (episode(0, won=False), "a failure is not induced from"),
        (episode(0, steps=1), "fewer than 2 steps"),
        (episode(0, steps=0), "fewer than 2 steps"),
    ],
)
def test_what_is_not_induced_from_costs_no_call(made: Any, why: str) -> None:
    memory = opened()
    session = Session()
    assert memory.remember(made, session)["note"] == {"why": why}
    assert (session.calls, memory.snapshot(), stored(memory)) == ([], 1, [])


def test_steps_that_had_no_effect_do_not_count() -> None:
    made = episode(0, steps=3)
    steps = [step.model_copy(update={"valid": n == 1}) for n, step in enumerate(made.trajectory.steps)]
    part = made.trajectory.model_copy(update={"steps": tuple(steps)})
    change = opened().remember(made.model_copy(update={"trajectory": part}), Session())
    assert change["note"]["why"] == "fewer than 2 steps"


@pytest.mark.parametrize("answer", MALFORMED)
def test_an_answer_without_a_workflow_is_a_write_with_a_note(answer: str) -> None:
    memory = opened(answer)
    change = memory.remember(episode(0), Session())
    assert change["items"] == []
    assert change["note"]["why"] == "no workflow in the answer"
    assert memory.recall(TASKS[1], 1, Session()).payload == ""


def test_of_one_template_the_more_general_stays_and_the_newer_among_equals() -> None:
    memory = opened()
    special = [CLEAN[0], "take apple 1 from {PLACE}", CLEAN[2].replace("{THING}", "apple 1"), CLEAN[3]]
    told(memory, written("Clean it", *special))
    told(memory, written("Clean it", *CLEAN))
    (item,) = memory.store.items()
    assert (item.data["steps"], item.data["seen"], item.data["task_id"]) == (list(CLEAN), 2, "b1")
    told(memory, written("Clean it", *special))
    (item,) = memory.store.items()
    assert (item.data["steps"], item.data["seen"], item.data["task_id"]) == (list(CLEAN), 3, "b1")
    other = [step.replace("THING", "OBJECT") for step in CLEAN]
    told(memory, written("Wash it", *other))
    (item,) = memory.store.items()
    assert (item.data["title"], item.data["steps"], item.data["seen"]) == ("Wash it", other, 4)
    past = [(p.op, p.before and p.before["seen"], p.after["seen"]) for p in memory.store.history(1)]
    assert past == [("insert", None, 1), ("update", 1, 2), ("update", 2, 3), ("update", 3, 4)]
    memory.store.undo(4)
    assert stored(memory)[0]["title"] == "Clean it"


def test_an_item_is_changed_once_a_write() -> None:
    memory = opened()
    told(memory, written("Clean it", *CLEAN))
    told(memory, written("Clean it", "look", "go") + "\n" + written("Other", *CLEAN))
    assert [item["seen"] for item in stored(memory)] == [2]
    assert notes(memory)["key1.0"]["refused"] == ["Other: item 1 met another of its template"]


def test_demonstrations_are_successes() -> None:
    memory = opened()
    shown = demonstration(TASKS[0])
    memory.warm([shown.model_copy(update={"steps": shown.steps * 2}), shown], Session())
    assert (memory.snapshot(), len(stored(memory)), len(memory.model.prompts)) == (2, 1, 1)


def test_the_prompts_own_example_is_no_workflow() -> None:
    memory = opened(written("what it achieves", "first step", "second step"))
    change = memory.remember(episode(0), Session())
    assert change["note"]["refused"] == ["what it achieves: copied from the prompt"]
    example = written("Lend", "walk to {PLACE}", "pick up {THING}")
    small = opened(example.removeprefix("Workflow: "), variant="small")
    assert small.remember(episode(0), Session())["note"]["refused"] == ["Lend: copied from the prompt"]
    assert opened(example).remember(episode(0), Session())["items"], "elsewhere it is one"


def test_a_small_model_continues_a_text() -> None:
    memory = opened(" Press it\n1. look\n2. press {COLOUR}", variant="small")
    session = Session()
    memory.remember(episode(0), session)
    assert memory.model.prompts[0].endswith("1. press red\n2. press red\n\nWorkflow:")
    assert session.calls[0].sampling.stop == ("\n\n",)
    assert memory.recall(TASKS[1], 1, session).payload == written("Press it", "look", "press {COLOUR}")


# What is shown


def test_all_workflows_are_shown_in_order_of_their_first_writing() -> None:
    memory = opened()
    answers = [written(f"Routine {letter}", f"open {letter}", "look") for letter in "abc"]
    told(memory, *answers, answers[0])
    recall = memory.recall(TASKS[9], memory.snapshot(), Session())
    assert recall.payload == "\n\n".join(answers)
    assert recall.notes == {"workflows": 3}
    assert recall.traces == ()
    earlier = memory.recall(TASKS[9], 2, Session()).payload
    assert recall.payload.startswith(earlier), "the beginning stays the same, for a server's prefix cache"


def test_the_budget_keeps_what_was_seen_most_then_the_newest() -> None:
    answers = [written(f"Routine {letter}", f"open {letter}", "look") for letter in "abcd"]
    one = RuleModel().count_tokens(answers[0]) + 2
    memory = opened(budget=2 * one)
    told(memory, *answers, answers[1])
    recall = memory.recall(TASKS[9], memory.snapshot(), Session())
    assert recall.payload == "\n\n".join([answers[1], answers[3]])
    assert recall.notes == {"workflows": 2, "left_out": [1, 3]}
    nothing = opened(budget=one - 1)
    told(nothing, answers[0])
    recall = nothing.recall(TASKS[9], nothing.snapshot(), Session())
    assert (recall.payload, recall.notes) == ("", {"workflows": 0, "left_out": [1]})


def test_nothing_of_the_tasks_own_run() -> None:
    memory = opened()
    told(memory, written("a", "open a", "look"), written("b", "open b", "look"))
    recall = memory.recall(TASKS[1], 2, Session())
    assert (recall.payload, recall.self_excluded) == (written("a", "open a", "look"), 1)
    leaky = opened(exclude_own=False)
    told(leaky, written("a", "open a", "look"))
    assert leaky.recall(TASKS[0], 1, Session()).payload == written("a", "open a", "look")


def test_settings_and_wrong_input() -> None:
    settings = opened().settings()
    assert settings["budget"] == 32_768 // 4
    assert not {"k", "retrieval"} & set(settings)
    assert not {"k", "retrieval", "embedder", "tokenizer", "idf"} & set(parameters("awm"))
    with pytest.raises(UserError, match="budget must be 1 or more"):
        load_memory("awm", model=RuleModel(), budget=0)
    with pytest.raises(UserError, match="no parameter 'k'"):
        load_memory("awm", model=RuleModel(), k=3)
    config = EvalConfig.make(memory="awm", benchmark="alfworld", options={"budget": 77})
    assert make_memory(config, lambda spec: RuleModel(spec), ButtonBenchmark()).settings()["budget"] == 77


# What every memory keeps


def test_promises(tmp_path: Path) -> None:
    writing.keeps_its_promises("awm", lambda text: written("Clean", *CLEAN), tmp_path)
    writing.sees_one_snapshot("awm", lambda text: written("Clean", *CLEAN))


def test_a_run_does_not_depend_on_concurrency(tmp_path: Path) -> None:
    def answer(text: str) -> str:
        room = text.split("in room ")[1].split(".")[0]
        return written(f"Room {'abcdefghijklmnopqrstuvwxyz'[int(room)]}", "look", "press {COLOUR}", "look")

    run = writing.does_not_hang_on_concurrency("awm", answer, tmp_path)
    assert set(run.items()["op"]) >= {"insert", "none"}
