"""The pocket writer: made-up attempts, lessons in the systems' own words, and what the shipped one writes."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from jitmem_lab.evaluation import EvalConfig
from jitmem_lab.memories import load_memory
from jitmem_lab.models import load_model
from jitmem_lab.presets import WRITING, preset_values
from jitmem_lab.records import Episode, Recall, Sampling, Step, Task, Trajectory, Verdict
from jitmem_lab.session import Session
from jitmem_lab.training.attempts import LONGEST, Attempt, attempt
from jitmem_lab.training.batches import batches
from jitmem_lab.training.experts import Expert, Experts
from jitmem_lab.training.fitting import FITS, fit
from jitmem_lab.training.lessons import Lesson, block
from jitmem_lab.training.vocabulary import make_tokenizer
from jitmem_lab.training.writing import SHARES, Aim, aim_of, general, words_of, writer_lesson

from .doubles import RuleModel
from .test_pocket import episode as plain
from .writing import WordEmbedder

pytestmark = pytest.mark.unit


def heated(number: int) -> Expert:
    steps = ["go to shelf 1", f"take mug {number} from shelf 1", "go to microwave 1"]
    steps += [f"heat mug {number} with microwave 1", "go to desk 2", f"move mug {number} to desk 2"]
    return Expert(f"heat {number}", "put a hot mug in desk.", f"room {number % 5}", tuple(steps))


@pytest.fixture(scope="module")
def experts() -> Experts:
    return Experts([*map(plain, range(30)), *map(heated, range(1, 8))], names=["toaster"], split="train")


def test_an_attempt_is_the_walkthrough_with_detours(experts: Experts) -> None:
    rng = random.Random(0)
    told = [attempt(experts, one, rng) for one in experts.episodes for _ in range(10)]
    assert 0.2 < sum(not one.in_vain for one in told) / len(told) < 0.7
    for one in told:
        assert len(one.steps) <= LONGEST
        assert not one.missing
        done = [action for action in one.episode.actions if action in one.needed or "open" not in action]
        assert one.needed == done  # a door that a detour opened is not opened again
        opened = [action for action in one.actions if action.startswith("open ")]
        assert len(opened) == len(set(opened))


def test_a_failure_searches_to_its_last_step(experts: Experts) -> None:
    rng = random.Random(1)
    for one in (attempt(experts, rng.choice(experts.episodes), rng, False) for _ in range(200)):
        assert len(one.steps) == LONGEST
        assert one.missing
        assert one.in_vain
        assert len(one.needed) < len(one.episode.actions)
        assert not one.steps[-1].needed


def test_aims_and_variables() -> None:
    aim = aim_of(heated(3))
    assert aim == Aim("heat", "mug", "desk", "microwave 1")
    assert (aim.name, aim.occasion) == ("heat mug and put it in desk", "When hot mug is wanted in desk.")
    assert [general(action, aim) for action in heated(3).actions[1:5]] == [
        "take {THING} from {PLACE}",
        "go to microwave 1",
        "heat {THING} with microwave 1",
        "go to {TARGET}",
    ]
    two = ("go to bed 1", "take cd 1 from bed 1", "take cd 2 from bed 1", "move cd 1 to safe 1")
    assert aim_of(Expert("", "", "", two)).name == "put two cd in safe"
    lamp = Expert("", "", "", ("go to bed 1", "take cd 1 from bed 1", "go to desk 1", "use desklamp 1"))
    assert aim_of(lamp).name == "look at cd under the desklamp"


def test_every_word_of_a_lesson_has_a_token(experts: Experts) -> None:
    texts = [block(one.goal, one.actions) + "\n\nTask:" for one in experts.episodes]
    tokenizer = make_tokenizer([*texts, *words_of(experts)], experts.names)
    rng = random.Random(2)
    for name in list(SHARES) * 30:
        lesson = writer_lesson(experts, rng, name)
        given, asked = (tokenizer(text)["input_ids"] for text in (lesson.context, lesson.target))
        assert tokenizer.unk_token_id not in given + asked
        assert given + asked == tokenizer(lesson.context + lesson.target)["input_ids"]
        assert len(given) + 160 <= 1024
        assert "\n\n" not in lesson.target


def played(actions: list[str], goal: str, number: int, won: bool) -> Trajectory:
    task = Task(benchmark="alfworld", split="x", task_id=f"game {number}", description=goal)
    steps = tuple(Step(observation="Seen.", admissible=(), action=action) for action in actions)
    outcome: Any = "success" if won else "failure"
    return Trajectory(task=task, steps=steps, outcome=outcome, reward=float(won))


def finished(trajectory: Trajectory) -> Episode:
    task, won = trajectory.task, trajectory.outcome == "success"
    return Episode(
        key=task.task_id,
        position=0,
        batch=0,
        task=task,
        trajectory=trajectory,
        outcome=trajectory.outcome,
        recall=Recall(),
        verdict=Verdict(success=won, source="environment"),
    )


def small(memory: str, model: Any) -> Any:
    options: dict[str, Any] = {"gate": "environment", "variant": "small"}
    if memory in ("memp", "reasoningbank", "expel"):
        options["embedder"] = WordEmbedder()
    made = load_memory(memory, model=model, **options)
    made.open(None)
    return made


class Answering:
    """Knows the answers to some lessons, and keeps what it was asked otherwise."""

    def __init__(self, lessons: list[Lesson]) -> None:
        self.known = {lesson.context: lesson.target.strip() for lesson in lessons}
        self.strange: list[str] = []

    def __call__(self, text: str, sampling: Sampling) -> str:
        if text not in self.known:
            self.strange.append(text)
        return self.known.get(text, "")


def written(memory: str, name: str, won: bool, experts: Experts, monkeypatch: pytest.MonkeyPatch) -> Any:
    """What a system keeps after the very attempt of a lesson, answered as the lesson wants it."""
    import jitmem_lab.training.writing as module

    made: list[Attempt] = []

    def recorded(*args: Any) -> Attempt:
        made.append(attempt(*args))
        return made[-1]

    monkeypatch.setattr(module, "attempt", recorded)
    monkeypatch.setattr(module, "RENAMED", 0.0)
    if name == "expel_successes":  # so short that nothing is cut
        monkeypatch.setattr("jitmem_lab.training.attempts.STRAIGHT", 1.0)
    lessons = [writer_lesson(experts, random.Random(3), name)]
    if name == "memp_events":  # the second question is about the same attempt
        monkeypatch.setattr(module, "_drawn", lambda *_: made[0])
        lessons.append(writer_lesson(experts, random.Random(3), "memp_critical"))
    answering = Answering(lessons)
    model = RuleModel(rule=answering)
    store = small(memory, model)
    for number, one in enumerate(made):
        last = number == len(made) - 1
        success = won if last else name == "expel_successes"
        note = store.remember(finished(played(one.actions, one.episode.goal, number, success)), Session())
    assert answering.strange == []
    return store, note


@pytest.mark.parametrize(
    ("memory", "name", "won"),
    [
        ("memp", "memp_events", True),
        ("reasoningbank", "reasoningbank_success", True),
        ("reasoningbank", "reasoningbank_failure", False),
        ("skillos", "skillos_text", True),
        ("awm", "awm_induce", True),
        ("expel", "expel_contrast", True),
        ("expel", "expel_successes", True),
    ],
)
def test_a_lesson_is_what_the_system_asks_and_takes(
    memory: str, name: str, won: bool, experts: Experts, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, note = written(memory, name, won, experts, monkeypatch)
    kinds = {"memp": "procedure", "reasoningbank": "record", "skillos": "skill", "awm": "workflow"}
    wanted = kinds.get(memory, "rule")
    assert [one["op"] for one in note["items"] if one["kind"] == wanted][:1] == ["insert"], note
    assert "refused" not in json.dumps(note) or memory == "expel"
    if memory == "expel":
        assert all(not edit["refused"] for edit in note["note"]["edits"])
    store.close()


def test_the_preset_gives_the_writer_to_the_systems_that_it_was_fitted_for() -> None:
    for memory in WRITING:
        config = EvalConfig.make(preset="pocket", memory=memory)
        assert (config.curator_model, config.variant, config.warm_start) == ("pocket:writer", "small", 100)
        assert EvalConfig.make(preset="small", memory=memory).warm_start == 10
    for memory in ("reflexion", "memharness", "jitmem"):
        assert preset_values("pocket", "alfworld", memory)["curator_model"] == "pocket:curator"
    assert EvalConfig.make(preset="pocket", memory="memp", curator_model="pocket").curator_model == "pocket"


def test_a_tiny_writer_repeats_and_leaves_the_others_as_they_are(experts: Experts, tmp_path: Any) -> None:
    plan = FITS["writer"]._replace(hidden=16, layers=1, inner=16, heads=1, copying=2, steps=3, batch=4)
    first, second = (fit(plan, experts, tmp_path / name, seed=1) for name in "ab")
    assert first["loss"] == second["loss"]
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in "ab"]
    assert weights[0] == weights[1]
    tokenizer = make_tokenizer([block(one.goal, one.actions) + "\n\nTask:" for one in experts.episodes])
    alone = next(batches("curator", 2, experts, tokenizer, 0)).ids
    next(batches("writer", 2, experts, tokenizer, 0))
    assert next(batches("curator", 2, experts, tokenizer, 0)).ids == alone


@pytest.fixture(scope="module")
def writer() -> Any:
    model = load_model("pocket:writer", threads=1)
    yield model
    model.close()


DETOUR = ["go to drawer 1", "open drawer 1", "go to shelf 2", "take mug 1 from shelf 2", "go to sinkbasin 1"]
DETOUR += ["clean mug 1 with sinkbasin 1", "go to coffeemachine 1", "move mug 1 to coffeemachine 1"]


def test_the_shipped_writer_leaves_out_what_was_in_vain(writer: Any) -> None:
    memory = small("memp", writer)
    goal = "put a clean mug in coffeemachine."
    memory.remember(finished(played(DETOUR, goal, 1, True)), Session())
    (item,) = memory.store.items()
    assert item.data["workflow"] == DETOUR[2:]


@pytest.mark.parametrize("memory", WRITING)
def test_the_shipped_writer_writes_for_each_system(memory: str, writer: Any) -> None:
    store = small(memory, writer)
    goal = "put a clean mug in coffeemachine."
    failed = ["go to drawer 1", "open drawer 1", *(f"go to cabinet {number}" for number in range(1, 19))]
    store.remember(finished(played(failed, goal, 1, False)), Session())
    note = store.remember(finished(played(DETOUR, goal, 2, True)), Session())
    kept = [item for item in store.store.items() if item.kind != "trial"]
    assert kept, note
    assert "mug" in json.dumps([item.data for item in kept])
    store.close()
