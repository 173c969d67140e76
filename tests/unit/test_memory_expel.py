"""ExpeL: operations on a list of rules, what is set side by side, and the successes shown as examples."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.evaluation import EvalConfig, make_memory
from jitmem_lab.memories import load_memory
from jitmem_lab.memories.rules import Rule, changes, operate
from jitmem_lab.prompts import load_prompt
from jitmem_lab.records import Step
from jitmem_lab.session import Session

from . import writing
from .doubles import ButtonBenchmark, RuleModel, demonstration
from .writing import MALFORMED, TASKS, WordEmbedder, episode, notes

pytestmark = pytest.mark.unit


def ruled(*texts: str, importance: int = 2) -> list[Rule]:
    return [Rule(number, text, importance, (f"t{number}",)) for number, text in enumerate(texts, 1)]


def answer(*lines: str) -> str:
    return "\n".join(lines)


# The operations


def test_each_operation_counts_as_published() -> None:
    before = ruled("Look first.", "Press once.", "Stop then.", "Wait.")
    said = answer("ADD: Read labels.", "EDIT 2: Press gently.", "AGREE 3: Stop then.", "REMOVE 4: Wait.")
    after = operate(before, said, 20, ["new"])
    assert [(rule.text, rule.importance) for rule in after.rules] == [
        ("Press gently.", 3),
        ("Stop then.", 3),
        ("Look first.", 2),
        ("Read labels.", 2),
        ("Wait.", 1),
    ]
    assert after.refused == []
    assert after.done == said.splitlines()


def test_a_rule_at_zero_goes_and_numbers_mean_the_list_as_shown() -> None:
    before = [*ruled("One.", importance=1), *ruled("x", "Two.", "Three.")[1:]]
    after = operate(before, answer("REMOVE 1", "EDIT 3: Third.", "AGREE 1"), 20, ["new"])
    assert [(rule.item, rule.text, rule.importance) for rule in after.rules] == [
        (3, "Third.", 3),
        (2, "Two.", 2),
    ]
    assert after.refused == ["no such rule: AGREE 1"]
    assert changes(before, after.rules) == [
        ("delete", "rule", None, 1),
        ("update", "rule", {"text": "Third.", "importance": 3, "task_ids": ["new", "t3"]}, 3),
    ]


@pytest.mark.parametrize(
    ("line", "text", "importance"),
    [
        ("ADD 4: Read.", "Read.", 2),
        ("**ADD**: Read.", "Read.", 2),
        ("- ADD 2: Read.", "Read.", 2),
        ("1. ADD: Read.", "Read.", 2),
        ("  ADD :   Read\t it. ", "Read it.", 2),
        ("ADD: 3 looks are enough.", "3 looks are enough.", 2),
        ("EDIT rule 1: Look twice!", "Look twice!", 3),
        ("EDIT #1: Look twice?", "Look twice?", 3),
        ("AGREE 1", "Look first.", 3),
        ("AGREE: Look first.", "Look first.", 3),
        ("AGREE 7: look FIRST", "Look first.", 3),
        ("EDIT 9: Look first.", "Look first.", 3),
        ("REMOVE 1: Look first.", "Look first.", 1),
        ("REMOVE 1.", "Look first.", 1),
    ],
)
def test_a_line_is_read_however_it_is_dressed(line: str, text: str, importance: int) -> None:
    after = operate(ruled("Look first."), line, 20, ["new"])
    assert (text, importance) in [(rule.text, rule.importance) for rule in after.rules]
    assert after.refused == []


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("ADD: Look first.", "the rule is there already"),
        ("ADD: LOOK FIRST", "the rule is there already"),
        ("ADD: Stop.\nEDIT 1: Stop.", "the rule is there already"),
        ("ADD:", "no text"),
        ("ADD: and then the", "no finished sentence"),
        ("ADD: AGREE 1: Look first.", "an operation inside a rule"),
        (f"ADD: {'x' * 600}.", "longer than 600 characters"),
        ("ADD one more rule about looking", "malformed"),
        ("EDIT 1:", "no text"),
        ("EDIT 1: and then", "no finished sentence"),
        ("EDIT 2: Another.", "no such rule"),
        ("EDIT 0: Another.", "no such rule"),
        ("EDIT: Another.", "no such rule"),
        ("AGREE 2", "no such rule"),
        ("REMOVE 9999999: x", "malformed"),
        ("REMOVE", "no such rule"),
        ("REMOVE -1", "no such rule"),
    ],
)
def test_what_cannot_be_done_is_refused_and_the_rest_is_done(line: str, why: str) -> None:
    before = ruled("Look first.")
    after = operate(before, answer(line, "ADD: Read."), 20, ["new"])
    assert after.rules[0] == before[0]
    assert after.rules[-1].text == "Read."
    assert len(after.refused) == 1
    assert after.refused[0].startswith(f"{why}: ")


def test_limits_of_an_answer_and_of_the_list() -> None:
    many = answer(*(f"ADD: Rule {word}." for word in ("a", "b", "c", "d", "e", "f")))
    after = operate([], many, 20, ["new"])
    assert [rule.text for rule in after.rules] == ["Rule a.", "Rule b.", "Rule c.", "Rule d."]
    assert [why.split(":")[0] for why in after.refused] == ["more than 4 operations"] * 2
    after = operate(
        ruled("One.", "Two.", importance=1), answer("ADD: x.", "REMOVE 1", "ADD: y.", "ADD: z."), 2, ["n"]
    )
    assert [rule.text for rule in after.rules] == ["y.", "Two."]
    assert after.refused == ["the list is full (2 rules): ADD: x.", "the list is full (2 rules): ADD: z."]
    after = operate(ruled("One."), answer("AGREE 1", "AGREE 1", "EDIT 1: Uno."), 20, ["n"])
    assert [(rule.text, rule.importance) for rule in after.rules] == [("One.", 3)]
    assert [why.split(":")[0] for why in after.refused] == ["second operation on a rule"] * 2
    flood = operate([], "\n".join(["ADD: no end"] * 5000), 20, ["n"])
    assert (flood.rules, len(flood.refused)) == ([], 20)


@pytest.mark.parametrize("text", MALFORMED[2:])
def test_an_answer_without_operations_changes_nothing(text: str) -> None:
    before = ruled("Look first.")
    after = operate(before, text, 20, ["new"])
    assert (after.rules, after.done) == (before, [])
    assert len(after.refused) == 1


def test_who_worded_a_rule_is_known() -> None:
    after = operate(
        ruled("Look first.", "Press."), answer("EDIT 1: Look.", "AGREE 2", "ADD: Read."), 20, ["b", "a"]
    )
    assert {rule.text: rule.task_ids for rule in after.rules} == {
        "Look.": ("a", "b", "t1"),
        "Press.": ("t2",),
        "Read.": ("a", "b"),
    }


# What is set side by side


class Script:
    """A writer that adds one numbered rule a call."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def __call__(self, text: str) -> str:
        self.prompts.append(text)
        return f"ADD: Rule number {len(self.prompts)}."


@pytest.mark.parametrize("prompt", ["expel_contrast", "expel_successes"])
def test_prompts_begin_with_what_stays_the_same_longest(prompt: str) -> None:
    """So that a server's prefix cache can reuse the list of rules from one call to the next."""
    text = load_prompt(prompt).text
    assert text.index("{rules}") < text.index("{full}") < text.index("{records}")


def opened(script: Any = None, folder: Path | None = None, **options: Any) -> Any:
    options = {"embedder": WordEmbedder(), "gate": "environment"} | options
    return writing.opened("expel", script or Script(), folder, **options)


def rules(memory: Any, at: int | None = None) -> list[tuple[str, int]]:
    return [(item.data["text"], item.data["importance"]) for item in memory.store.items("rule", at)]


def note(memory: Any, number: int) -> Any:
    return notes(memory)[f"key{number}.0"]


def test_a_failure_is_set_beside_the_most_similar_success() -> None:
    script = Script()
    memory = opened(script)
    for number in (0, 1, 2):
        memory.remember(episode(number), Session())
    assert script.prompts == [], "three successes are no set, and nothing failed"
    session = Session()
    memory.remember(episode(6, won=False), session)
    assert [call.role for call in session.calls if call.role != "embedder"] == ["distiller"]
    (prompt,) = script.prompts
    failed, succeeded = prompt.index("Failed attempt"), prompt.index("Successful attempt")
    assert TASKS[6].description in prompt[failed:succeeded]
    assert TASKS[1].description in prompt[succeeded:], "the other task of the same panel"
    assert rules(memory) == [("Rule number 1.", 2)]
    (item,) = memory.store.items("rule")
    assert item.data["task_ids"] == ["b1", "b6"]
    assert note(memory, 6) == {
        "trace": 4,
        "edits": [{"contrast": 2, "done": ["ADD: Rule number 1."], "refused": []}],
    }


def test_a_failure_waits_for_a_success_and_is_contrasted_once() -> None:
    script = Script()
    memory = opened(script)
    memory.remember(episode(0, won=False), Session())
    memory.remember(episode(7, won=False), Session())
    assert script.prompts == []
    memory.remember(episode(2), Session())
    assert TASKS[7].description in script.prompts[0]
    memory.remember(episode(12), Session())
    assert TASKS[0].description in script.prompts[1]
    memory.remember(episode(17), Session())
    assert len(script.prompts) == 2, "no failure waits any more"
    memory.remember(episode(7, won=False, trial=1), Session())
    assert len(script.prompts) == 3, "a new failure finds old successes"


def test_the_same_task_is_the_most_similar() -> None:
    script = Script()
    memory = opened(script)
    for number in range(6):
        memory.remember(episode(number), Session())
    memory.remember(episode(3, won=False, trial=1), Session())
    assert script.prompts[0].count(TASKS[3].description) == 2


def test_eight_successes_are_looked_at_together_once() -> None:
    script = Script()
    memory = opened(script)
    for number in range(7):
        memory.remember(episode(number), Session())
    assert script.prompts == []
    memory.remember(episode(7), Session())
    (prompt,) = script.prompts
    assert prompt.count("Successful attempt") == 8
    assert all(task.description in prompt for task in TASKS[:8])
    assert "(none yet)" in prompt
    assert memory.store.items("rule")[0].data["task_ids"] == sorted(f"b{n}" for n in range(8))
    for number in range(8, 15):
        memory.remember(episode(number), Session())
    assert len(script.prompts) == 1
    memory.remember(episode(15), Session())
    assert "1. Rule number 1." in script.prompts[1]
    assert TASKS[7].description not in script.prompts[1]


def test_a_contrast_and_a_set_after_one_episode_work_on_one_list() -> None:
    lines = iter(["ADD: Look.", "EDIT 1: Look twice."])
    memory = opened(lambda text: next(lines), set_size=1)
    memory.remember(episode(0, won=False), Session())
    change = memory.remember(episode(1), Session())
    assert "1. Look." in memory.model.prompts[1]
    assert [next(iter(edit)) for edit in change["note"]["edits"]] == ["contrast", "successes"]
    assert rules(memory) == [("Look twice.", 3)]
    assert [past.op for past in memory.store.history() if past.kind == "rule"] == ["insert"]


def test_a_full_list_says_so_and_rules_are_voted_away() -> None:
    prompts: list[str] = []

    def votes(text: str) -> str:
        prompts.append(text)
        return "REMOVE 1" if len(prompts) > 2 else f"ADD: Rule {len(prompts)}."

    memory = opened(votes, max_rules=2, set_size=1)
    for number in range(6):
        memory.remember(episode(number), Session())
    assert ["The list is full" in prompt for prompt in prompts] == [False, False, True, True, True, False]
    assert rules(memory, 4) == [("Rule 1.", 1), ("Rule 2.", 1)]
    assert rules(memory) == []
    assert [past.op for past in memory.store.history(2)] == ["insert", "update", "delete"]
    memory.store.undo(6)
    assert rules(memory) == [("Rule 2.", 1)]


def test_long_attempts_are_cut_to_the_writers_context() -> None:
    script = Script()
    memory = opened(script, set_size=4)
    memory.model.context = 4096
    memory.remember(episode(0, won=False, steps=1000), Session())
    for number in range(1, 5):
        memory.remember(episode(number, steps=1000), Session())
    assert len(script.prompts) == 2
    for prompt in script.prompts:
        assert memory.model.count_tokens(prompt) + memory.sampling.max_tokens <= 4096
        assert "characters cut" in prompt


def test_small_models_continue_a_text_instead() -> None:
    said = iter(
        [
            " Look before you press.\nand more",
            " If it's not known where a thing is, ask for its place before you search.",
            " no end",
        ]
    )
    memory = opened(lambda text: next(said), variant="small", set_size=1)
    session = Session()
    memory.remember(episode(0), session)
    (prompt,) = memory.model.prompts
    assert prompt.endswith("2. press red\n\nWhat to do on other tasks:\nADD:")
    assert rules(memory) == [("Look before you press.", 2)]
    assert [call.sampling.stop for call in session.calls if call.sampling] == [("\n\n",)]
    for number in (1, 2):
        memory.remember(episode(number), Session())
    assert len(rules(memory)) == 1
    assert note(memory, 1)["edits"][0]["refused"] == [
        "copied from the prompt: "
        "ADD: If it's not known where a thing is, ask for its place before you search."
    ]
    assert note(memory, 2)["edits"][0]["refused"] == ["no finished sentence: ADD: no end"]


# What is shown


def test_rules_by_importance_then_the_most_similar_successes() -> None:
    lines = iter(["ADD: First.", "ADD: Second.", "AGREE 2", "AGREE 2"])
    memory = opened(lambda text: next(lines), trace_format="actions")
    for number in (0, 1, 2):
        memory.remember(episode(number), Session())
    for number in (8, 9):
        memory.remember(episode(number, won=False), Session())
    memory.remember(episode(13, won=False), Session())
    recall = memory.recall(TASKS[6], memory.snapshot(), Session())
    lines_shown = recall.payload.split("\n\n")
    assert (
        lines_shown[0] == "Rules learned on earlier tasks, the most important first:\n1. Second.\n2. First."
    )
    assert lines_shown[1] == f"Task: {TASKS[1].description}\nSteps to do it:\n1. press red\n2. press red"
    assert recall.traces[0].task_id == "b1"
    assert [trace.rank for trace in recall.traces] == [1, 2]
    assert recall.traces[0].trace_id == 2
    assert recall.notes["rules"] == [item.id for item in reversed(memory.store.items("rule"))]
    assert not {trace.task_id for trace in recall.traces} & {"b8", "b9", "b13"}, "failures are no examples"


def test_nothing_is_shown_of_the_own_task() -> None:
    memory = opened(set_size=1)
    for number in (0, 1, 2):
        memory.remember(episode(number), Session())
    recall = memory.recall(TASKS[1], memory.snapshot(), Session())
    assert "Rule number 2." not in recall.payload
    assert "Rule number 3." in recall.payload
    assert {trace.task_id for trace in recall.traces} == {"b0", "b2"}
    assert recall.self_excluded == 2
    memory.exclude_own = False
    recall = memory.recall(TASKS[1], memory.snapshot(), Session())
    assert "Rule number 2." in recall.payload
    assert recall.traces[0].task_id == "b1"


def test_a_task_is_shown_once_and_long_examples_come_last_and_lose_their_middle() -> None:
    memory = opened(max_shot_tokens=60)
    memory.remember(episode(1, steps=200), Session())
    memory.remember(episode(6, steps=1), Session())
    memory.remember(episode(6, steps=1, trial=1), Session())
    memory.remember(episode(3, steps=1), Session())
    recall = memory.recall(TASKS[11], memory.snapshot(), Session())
    assert [(t.task_id, t.cut_chars) for t in recall.traces] == [("b6", 0), ("b3", 0)]
    few = opened(max_shot_tokens=60)
    few.remember(episode(1, steps=200), Session())
    (trace,) = few.recall(TASKS[11], 1, Session()).traces
    assert trace.cut_chars > 0
    assert "characters cut" in trace.text
    assert few.model.count_tokens(trace.text) <= 60


def test_bm25_needs_no_embedder() -> None:
    memory = opened(retrieval="bm25", embedder=None)
    for number in range(4):
        memory.remember(episode(number), Session())
    recall = memory.recall(TASKS[8], memory.snapshot(), Session())
    assert recall.traces[0].task_id == "b3"


# Settings


def test_published_values_are_the_defaults() -> None:
    settings = load_memory("expel", model=RuleModel(), embedder=WordEmbedder()).settings()
    assert (settings["k"], settings["max_rules"], settings["set_size"]) == (2, 20, 8)
    assert settings["retrieval"]["how"] == "dense"
    assert settings["sampling"]["temperature"] == 0.0
    assert set(settings["prompts"]) == {"expel_contrast", "expel_successes"}


def test_a_run_can_ask_for_it() -> None:
    config = EvalConfig.make(
        memory="expel", benchmark="alfworld", options={"retrieval": "bm25", "set_size": 4}
    )
    settings = make_memory(config, lambda spec: RuleModel(spec), ButtonBenchmark()).settings()
    assert (settings["set_size"], settings["trace_format"], settings["gate"]) == (4, "actions", "environment")


@pytest.mark.parametrize("option", ["max_rules", "set_size", "max_shot_tokens"])
def test_a_limit_below_one_is_refused(option: str) -> None:
    with pytest.raises(UserError, match=f"{option}.* must be 1 or more"):
        load_memory("expel", model=RuleModel(), embedder=WordEmbedder(), **{option: 0})
    with pytest.raises(UserError, match="needs an embedder"):
        load_memory("expel", model=RuleModel())


# What every system keeps


@pytest.mark.parametrize("text", MALFORMED)
def test_a_malformed_answer_still_keeps_the_attempt(text: str) -> None:
    memory = opened(lambda _: text, set_size=1)
    change = memory.remember(episode(0), Session())
    assert change["stored"] is True
    assert rules(memory) == []
    assert memory.recall(TASKS[1], 1, Session()).traces[0].trace_id == 1
    assert note(memory, 0)["edits"][0]["refused"]


def test_odd_text_is_kept_as_it_is() -> None:
    memory = opened(lambda _: "<think>ADD: No.</think>ADD: Press \x00 {rules} \ud83d now.", set_size=1)
    memory.remember(episode(0), Session())
    assert rules(memory) == [("Press \x00 {rules} \ud83d now.", 2)]
    assert "1. Press \x00 {rules} \ud83d now." in memory.recall(TASKS[1], 1, Session()).payload


def numbered(text: str) -> str:
    """A rule that depends on the prompt alone."""
    return f"ADD: Look at {len(text)} signs.\nREMOVE 1"


@pytest.mark.parametrize("won", [True, False])
def test_it_keeps_its_promises(tmp_path: Path, won: bool) -> None:
    if won:
        writing.keeps_its_promises("expel", numbered, tmp_path, embedder=WordEmbedder(), set_size=1)
    memory = opened(numbered, set_size=1)
    memory.warm([demonstration(task) for task in TASKS[:3]], Session())
    state = memory.store.items()
    memory.warm([demonstration(task) for task in TASKS[:3]], Session())
    assert memory.store.items() == state
    assert all(item.data["success"] for item in state if item.kind == "trial")


def test_recall_sees_its_snapshot() -> None:
    writing.sees_one_snapshot("expel", numbered, embedder=WordEmbedder(), set_size=3)


def test_a_failing_second_call_leaves_nothing_of_the_first(tmp_path: Path) -> None:
    calls = 0

    def torn(text: str) -> str:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise InfrastructureError("timeout")
        return f"ADD: Rule {calls}."

    memory = opened(torn, tmp_path, set_size=1)
    memory.remember(episode(0, won=False), Session())
    before = writing.dump(tmp_path)
    with pytest.raises(InfrastructureError):
        memory.remember(episode(1), Session())
    assert writing.dump(tmp_path) == before
    assert len(memory.bank) == 1
    memory.remember(episode(1), Session())
    assert len(rules(memory)) == 2
    assert len(memory.bank) == 2


def test_concurrency_changes_nothing(tmp_path: Path) -> None:
    run = writing.does_not_hang_on_concurrency(
        "expel", numbered, tmp_path, embedder=WordEmbedder(), gate="environment", set_size=2
    )
    shown = [episode.recall for episode in run.latest() if episode.recall.traces]
    assert any("Rules learned" in recall.payload for recall in shown)
    assert len(run.bank()) == 23, "failures are kept too"


def test_steps_of_a_conversation_are_shown(tmp_path: Path) -> None:
    told = episode(0)
    assert told.trajectory is not None
    step = Step(observation="Hello, it's broken.", admissible=(), action="I am sorry.", speaker="user")
    told = told.model_copy(update={"trajectory": told.trajectory.model_copy(update={"steps": (step,)})})
    memory = opened()
    memory.remember(told, Session())
    assert "Did: I am sorry." in memory.recall(TASKS[1], 1, Session()).payload
