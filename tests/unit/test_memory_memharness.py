"""MemHarness: what is kept of an episode, counted and pruned; settings; what every system keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.analysis import results_table
from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, make_memory
from jitmem_lab.execution import Executor
from jitmem_lab.memories import load_memory
from jitmem_lab.memories.items import ItemStore
from jitmem_lab.session import Session

from . import writing
from .doubles import ButtonBenchmark, RuleModel, demonstration
from .stepwise import Script, asking, learned, opened, shown
from .writing import MALFORMED, TASKS, WordEmbedder, episode, notes, stored

pytestmark = pytest.mark.unit

# What is kept


def test_two_memories_from_success_and_failure_alike() -> None:
    script = Script(
        learn=lambda text: (
            learned("One thing to do.", "Another matter entirely.") if "failure" in text else "{}"
        )
    )
    memory = opened(script)
    session = Session()
    memory.remember(episode(0, won=True), session)
    change = memory.remember(episode(1, won=False), session)
    assert {call.role for call in session.calls} == {"distiller", "embedder"}
    assert [one["item"] for one in change["items"]] == [1, 2]
    assert stored(memory)[0] == {
        "task_id": "b1",
        "success": False,
        "uses": 0,
        "successes": 0,
        "situation": "At a panel.",
        "text": "One thing to do.",
    }
    won, lost = script.of("learn")
    assert "Result: success" in won
    assert "Result: failure" in lost
    assert "A panel, look 1." in lost
    assert notes(memory)["key0.0"] == {"refused": ["no list of memories in the answer: {}"]}


@pytest.mark.parametrize(
    ("answer", "texts", "refused"),
    [
        (learned("a b", "c d", "e f"), ["a b", "c d"], ["more than 2 memories: e f"]),
        (learned("a b", "a  b"), ["a b"], ["near-duplicate (1.00): a b"]),
        (learned(), [], []),
        ("```json\n" + learned("a b") + "\n```", ["a b"], []),
        ("<think>" + learned("no") + "</think>" + learned("a b"), ["a b"], []),
        ('{"memories": [{"memory": "a b"}]}', ["a b"], []),
        (
            '{"memories": [{"memory": ["a"]}, {"memory": " "}, 7, null, {"situation": "x"}]}',
            [],
            ["no memory: "] * 5,
        ),
        ('{"memories": "a b"}', [], ["no list of memories in the answer: "]),
        ('{"memories": {"memory": "a b"}}', [], ["no list of memories in the answer: "]),
        ('{"memories": [{"situation": "torn", "mem', [], ["no list of memories in the answer: "]),
        (json.dumps({"memories": [{"memory": "x" * 50_000, "situation": {"a": 1}}]}), ["x" * 1200], []),
        (json.dumps({"memories": [{"memory": "\x00 \ud83d {task}"}]}), ["\x00 \ud83d {task}"], []),
        (json.dumps({"memories": [3] * 9000}), [], ["no memory: 3"] * 20),
        *[(answer, [], ["no list of memories in the answer: "]) for answer in MALFORMED],
    ],
)
def test_what_is_kept_and_what_is_refused(answer: str, texts: list[str], refused: list[str]) -> None:
    memory = opened(Script(learn=answer))
    change = memory.remember(episode(0), Session())
    assert change["stored"] is True
    assert [data["text"] for data in stored(memory)] == texts
    why = change.get("note", {}).get("refused", [])
    assert len(why) == len(refused)
    assert all(said.startswith(begun) for said, begun in zip(why, refused, strict=True))


def test_a_near_duplicate_is_not_inserted() -> None:
    texts = ["press the red button of the panel", "press the red button of the door", "sing a song"]
    answers = iter(texts * 2)
    memory = opened(Script(learn=lambda _: learned(next(answers))), duplicate=0.8)
    notes = [memory.remember(episode(number), Session()).get("note") for number in range(3)]
    assert [data["text"] for data in stored(memory)] == [texts[0], texts[2]]
    assert notes[1]["refused"][0].startswith("near-duplicate (0.8")
    answers = iter(texts * 2)
    every = opened(Script(learn=lambda _: learned(next(answers))), duplicate=None)
    for number in range(6):
        every.remember(episode(number), Session())
    assert len(stored(every)) == 6
    answers = iter(texts * 2)
    words = opened(Script(learn=lambda _: learned(next(answers))), retrieval="bm25", embedder=None)
    for number in range(6):
        words.remember(episode(number), Session())
    assert len(stored(words)) == 3, "with BM25 equal texts are duplicates"


def test_successful_trajectories_instead() -> None:
    script = Script()
    memory = opened(script, stores="trajectories")
    memory.remember(episode(0, won=True, steps=500), Session())
    memory.remember(episode(1, won=False), Session())
    (data,) = stored(memory)
    assert script.prompts == [], "no model is asked"
    assert data["situation"] == TASKS[0].description
    assert len(data["text"]) <= 1200
    assert data["text"].startswith("[Step 1]\nSaw: A panel, look 0.")
    assert "characters cut" in data["text"]
    change = memory.remember(episode(2, won=True, steps=500), Session())
    assert change["note"]["refused"][0].startswith("near-duplicate (1.00)")


def test_uses_and_successes_of_what_was_shown_are_counted_once_an_episode() -> None:
    memory = opened()
    memory.remember(episode(0), Session())
    memory.remember(episode(1), Session())
    change = memory.remember(shown(2, 1, won=True), Session())
    memory.remember(shown(3, 1, 2, won=False), Session())
    assert [(data["uses"], data["successes"]) for data in stored(memory)[:2]] == [(2, 1), (1, 0)]
    assert change["items"][0] == {"op": "update", "kind": "memory", "item": 1}
    memory.remember(shown(4, 99), Session())
    assert [(data["uses"], data["successes"]) for data in stored(memory)[:2]] == [(2, 1), (1, 0)]


@pytest.mark.parametrize(
    ("results", "options", "left"),
    [
        ("LL", {}, True),
        ("LLL", {}, False),
        ("LLW", {}, True),
        ("WLLL", {}, False),
        ("WLL", {}, True),
        ("LLL", {"prune_below": None}, True),
        ("LLL", {"prune_below": 0.2}, True),
        ("WLLL", {"prune_below": 0.3}, True),
        ("L", {"prune_after": 1}, False),
        ("LLL", {"prune_after": 4}, True),
    ],
)
def test_a_memory_of_low_utility_is_pruned(results: str, options: dict[str, Any], left: bool) -> None:
    memory = opened(**options)
    memory.remember(episode(0), Session())
    for number, result in enumerate(results, 1):
        memory.remember(shown(number, 1, won=result == "W"), Session())
    assert (1 in [item.id for item in memory.store.items()]) is left
    if not left:
        gone = memory.store.history(1)[-1]
        assert (gone.op, gone.key) == ("delete", f"key{len(results)}.0")
        memory.store.undo(len(results) + 1)
        assert 1 in [item.id for item in memory.store.items()]


def test_what_a_pruned_memory_said_may_be_learned_again() -> None:
    memory = opened(Script(learn=learned("Press red.")), prune_after=1)
    memory.remember(episode(0), Session())
    memory.remember(shown(1, 1, won=False), Session())
    assert [(item.id, item.data["text"]) for item in memory.store.items()] == [(2, "Press red.")]


# Settings


def test_published_values_are_the_defaults() -> None:
    settings = load_memory("memharness", model=RuleModel(), embedder=WordEmbedder()).settings()
    assert (settings["k"], settings["duplicate"], settings["history"], settings["every"]) == (3, 0.85, 2, 1)
    assert (settings["prune_below"], settings["prune_after"]) == (0.35, 3)
    assert (settings["stores"], settings["retrieval"]["how"]) == ("memories", "dense")
    assert (settings["sampling"]["temperature"], settings["step_tokens"]) == (0.7, 512)
    assert set(settings["prompts"]) == {"memharness_query", "memharness_rebuild", "memharness_learn"}
    run = load_memory("memharness", model=RuleModel(), embedder=WordEmbedder(), variant="alfworld").settings()
    assert (run["duplicate"], run["prune_below"]) == (None, 0.3)


def test_a_run_can_ask_for_it() -> None:
    options = {"retrieval": "bm25", "every": 2}
    config = EvalConfig.make(memory="memharness", variant="small", benchmark="alfworld", options=options)
    settings = make_memory(config, lambda spec: RuleModel(spec), ButtonBenchmark()).settings()
    assert (settings["form"], settings["every"], settings["step_tokens"]) == ("continue", 2, 60)
    assert settings["model"] == {"name": config.model}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"stores": "dreams"}, "memories, trajectories"),
        ({"form": "sing"}, "ask, continue"),
        ({"every": 0}, "every, prune_after and step_tokens must be 1 or more"),
        ({"prune_after": 0}, "must be 1 or more"),
        ({"step_tokens": 0}, "must be 1 or more"),
        ({"history": -1}, "history 0 or more"),
        ({"embedder": None}, "needs an embedder"),
        ({"variant": "smal"}, "did you mean small"),
    ],
)
def test_wrong_input_is_one_sentence(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load_memory("memharness", **{"model": RuleModel(), "embedder": WordEmbedder()} | options)
    assert "\n" not in str(caught.value)


# What every system keeps


@pytest.mark.parametrize("stores", ["memories", "trajectories"])
def test_it_keeps_its_promises(tmp_path: Path, stores: str) -> None:
    options = {"embedder": WordEmbedder(), "stores": stores}
    if stores == "memories":
        writing.keeps_its_promises("memharness", Script(), tmp_path, **options)
    memory = opened(stores=stores, duplicate=None)
    memory.warm([demonstration(task) for task in TASKS[:3]], Session())
    state = memory.store.items()
    memory.warm([demonstration(task) for task in TASKS[:3]], Session())
    assert memory.store.items() == state
    assert len(state) == 3


def stepped(folder: Path, concurrency: int, **options: Any) -> Any:
    options = {"embedder": WordEmbedder(), "gate": "environment"} | options
    return writing.streamed(folder, "memharness", Script(), concurrency, n=23, **options)


def test_concurrency_changes_nothing_and_a_run_keeps_what_was_shown(tmp_path: Path) -> None:
    runs = [stepped(tmp_path / f"c{c}", c) for c in (1, 8)]
    tables = [results_table(run.latest()) for run in runs]
    assert tables[0] == tables[1]
    assert tables[0].count("success") > 3, "the world must let some episodes win, or this shows nothing"
    assert writing.dump(runs[0].path) == writing.dump(runs[1].path)
    episodes = runs[1].latest()
    for one in episodes:
        assert one.trajectory is not None
        steps = one.recall.notes["steps"]
        told = {step["step"] for step in steps if step["shown"]}
        assert {n for n, step in enumerate(one.trajectory.steps) if step.payload == "Press gently."} == told
        assert bool(told) is (one.batch > 0)
        acted = [call for call in one.calls if call.phase == "act"]
        assert sum(call.role == "curator" for call in acted) == 2 * len(told)
        prompts = ["\n".join(m.content for m in call.messages) for call in acted if call.role == "executor"]
        assert all("Press gently." in prompt for prompt in prompts) is bool(told)
    store = ItemStore(runs[1].path / "bank.sqlite", read_only=True)
    assert max(item.data["uses"] for item in store.items()) > 1
    store.close()
    again = stepped(tmp_path / "c8", 8)
    assert results_table(again.latest()) == tables[0]


def test_each_step_keeps_its_own_payload_which_stands_for_the_episodes() -> None:
    memory = opened()
    memory.remember(episode(0), Session())
    bench = ButtonBenchmark()
    companion = asking(memory)
    task = bench.tasks()[1]
    actor = RuleModel("actor", rule=lambda text, sampling: "<action>wait</action>")
    played = Executor(actor).play(
        bench.make_env(task), task, "not this", Session(), max_steps=3, companion=companion
    )
    assert [step.payload for step in played.steps] == ["Press gently."] * 3
    assert not any("not this" in prompt for prompt in actor.prompts)
    assert len(companion.notes()["steps"]) == 3
