"""What every memory system must hold, whatever its method: empty, growing, killed, asked by many at once."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jitmem_lab.analysis import results_table
from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.embedding import Embedded
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.memories import NAMES, load_memory, parameters
from jitmem_lab.memories.awm import workflows
from jitmem_lab.memories.lessons import memory_items
from jitmem_lab.memories.procedures import corrected, critical
from jitmem_lab.memories.rules import operate
from jitmem_lab.memories.text_calls import calls_in
from jitmem_lab.prompts import Prompt
from jitmem_lab.records import Recall, Task, Verdict, to_json
from jitmem_lab.runs import Run
from jitmem_lab.session import Session

from .doubles import RuleModel
from .memory_answers import FORGETFUL, OWN_TASK, answer, build, content, lived, streamed
from .memory_crashes import watched
from .writing import TASKS, WordEmbedder

pytestmark = pytest.mark.unit

REMEMBERING = [name for name in NAMES if name not in FORGETFUL]
FRESH = TASKS[39]
"""A task that no episode was about."""
CRASHES = 2
"""Kills a system: one inside a transaction, one outside."""


class Given(NamedTuple):
    """All that a memory gives for a task, and what was asked of models for it."""

    recall: Recall
    advice: str
    asked: str


def given(memory: Any, task: Task = FRESH, at: int | None = None, key: str = "e") -> Given:
    """What a memory gives before and, where it goes along, at the first step."""
    session = Session(0, key)
    snapshot = memory.snapshot() if at is None else at
    recall = memory.recall(task, snapshot, session)
    companion = memory.companion(task, snapshot, recall)
    advice = ""
    if companion is not None:
        advice = companion.advise((), Observation("A panel with buttons.", ("press red",)), session)
        recall = recall.model_copy(update={"notes": recall.notes | companion.notes()})
    return Given(recall, advice, to_json([call.model_dump() for call in session.calls]))


def payload(found: Given) -> str:
    return found.recall.payload + found.advice


def asked_task(name: str, number: int = 1) -> Task:
    """A task for which a system that has seen failures of task `number` must have something to say."""
    return TASKS[number] if name in OWN_TASK else FRESH


def live(memory: Any, first: int, last: int) -> None:
    """Remember episodes; the even ones succeeded."""
    for number in range(first, last):
        memory.remember(lived(number, won=number % 2 == 0), Session(0, f"k{number}"))


@pytest.fixture
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """The system that a test is parametrised by, open in `tmp_path`."""
    made = build(request.getfixturevalue("name"))
    made.open(tmp_path)
    yield made
    made.close()


# Growing


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_memory_gives_nothing_and_asks_no_writer(name: str, memory: Any) -> None:
    assert memory.snapshot() == 0
    found = given(memory)
    assert found.recall.traces == ()
    assert found.recall.bank_size == found.recall.self_excluded == 0
    assert found.asked == "[]"
    assert bool(payload(found)) is (name == "oracle")


@pytest.mark.parametrize("name", REMEMBERING)
def test_what_is_written_first_is_given_to_the_next(name: str, memory: Any) -> None:
    live(memory, 0, 2)
    assert memory.snapshot() > 0
    assert "mark" in payload(given(memory, asked_task(name)))


@pytest.mark.parametrize("name", NAMES)
def test_a_snapshot_gives_forever_what_it_gave_first(name: str, memory: Any, tmp_path: Path) -> None:
    """After 1, 3 and 30 episodes, byte for byte, and once more after the store was opened anew."""
    asked, seen, tokens = asked_task(name), {}, []
    for first, last in ((0, 1), (1, 3), (3, 30)):
        live(memory, first, last)
        tokens.append(memory.snapshot())
        seen[tokens[-1]] = given(memory, asked)
    assert tokens == sorted(tokens)
    assert len(set(tokens)) == (1 if name in FORGETFUL else 3)
    assert bool(payload(seen[tokens[-1]])) is (name != "none")
    for reopened in (False, True):
        if reopened:
            memory.close()
            memory.open(tmp_path)
        for token, found in seen.items():
            assert given(memory, asked, token) == found
            assert given(memory, asked, token).recall.to_line() == found.recall.to_line()


@pytest.mark.parametrize("name", NAMES)
def test_a_task_recalls_nothing_that_its_own_earlier_run_wrote(name: str, memory: Any) -> None:
    live(memory, 0, 8)
    shown = set()
    for number in range(8):
        found = given(memory, TASKS[number])
        shown |= (every := set(re.findall(r"mark\d+\b", f"{payload(found)} {found.asked}")))
        if name in OWN_TASK:
            assert every <= {f"mark{number}"}
        else:
            assert f"mark{number}" not in every
    assert bool(shown) is (name not in FORGETFUL)


# What is not written


@pytest.mark.parametrize("name", NAMES)
def test_errors_and_unjudged_episodes_write_nothing(name: str, tmp_path: Path) -> None:
    memory = build(name, gate="judge")
    memory.open(tmp_path)
    live(memory, 0, 2)
    before, session = (memory.snapshot(), content(tmp_path)), Session()
    error = lived(5).model_copy(update={"outcome": "error", "error": "timeout"})
    for broken in (
        error,
        error.model_copy(update={"trajectory": None}),
        lived(6).model_copy(update={"verdict": Verdict(success=None, source="judge")}),
        lived(7, won=False).model_copy(update={"verdict": Verdict(success=None, source="none")}),
    ):
        change = memory.remember(broken, session)
        assert not change.get("stored")
        assert json.loads(to_json(change)) == change
    assert (memory.snapshot(), content(tmp_path), session.calls) == (*before, [])
    memory.close()


@pytest.mark.parametrize("name", NAMES)
def test_remembering_twice_is_remembering_once(name: str, memory: Any, tmp_path: Path) -> None:
    live(memory, 0, 6)
    before, session = (memory.snapshot(), content(tmp_path)), Session()
    for number in (0, 1, 4, 5):
        memory.remember(lived(number, won=number % 2 == 0), session)
    assert (memory.snapshot(), content(tmp_path), session.calls) == (*before, [])


# In a stream


class Undisturbed(NamedTuple):
    """What a run should come to, and where in its writes it can be killed."""

    table: str
    recalls: list[Recall]
    store: dict[str, list[tuple[Any, ...]]]
    events: list[str]


def outcome(run: Run) -> tuple[str, list[Recall], dict[str, list[tuple[Any, ...]]]]:
    assert {line["key"] for line in run.writes()} == {episode.key for episode in run.latest()}
    return results_table(run.latest()), [episode.recall for episode in run.latest()], content(run.path)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Undisturbed]:
    found = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name) / "run"
        with pytest.MonkeyPatch.context() as patch:
            events = watched(name, folder, patch.setattr)
        found[name] = Undisturbed(*outcome(Run(folder)), events)
    return found


@pytest.fixture(scope="module")
def killed(
    undisturbed: dict[str, Undisturbed], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[Path]]:
    """Runs that were killed inside a write: at random, once inside a transaction and once outside."""
    jobs, folders = [], {}
    for name, expected in undisturbed.items():
        inside = [n for n, event in enumerate(expected.events) if event in ("INSERT", "COMMIT")]
        outside = [n for n, event in enumerate(expected.events) if event in ("BEGIN", "call", "end")]
        rng = random.Random(f"kill {name}")
        places = [rng.choice(places) for places in (inside, outside) if places]
        folders[name] = [tmp_path_factory.mktemp(name) / "run" for _ in places]
        jobs += [(name, str(folder), place) for folder, place in zip(folders[name], places, strict=True)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.memory_crashes"],
        input=json.dumps(jobs),
        cwd=Path(__file__).parents[2],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == [9] * len(jobs), done.stderr
    return folders


@pytest.mark.parametrize("name", NAMES)
def test_a_run_killed_in_the_middle_of_a_write_ends_as_if_it_had_not_been(
    name: str, undisturbed: dict[str, Undisturbed], killed: dict[str, list[Path]]
) -> None:
    assert len(killed[name]) == (1 if name in FORGETFUL else CRASHES)
    for folder in killed[name]:
        assert len(Run(folder).latest()) in range(5, 17)
        assert outcome(streamed(build(name), folder)) == undisturbed[name][:3]


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_and_answers_give_the_same_store(
    name: str, undisturbed: dict[str, Undisturbed], tmp_path: Path
) -> None:
    run = streamed(build(name), tmp_path / "run", concurrency=7)
    assert outcome(run) == undisturbed[name][:3]
    assert bool(undisturbed[name].store) is (name not in FORGETFUL)
    before = content(run.path)
    assert outcome(streamed(build(name), run.path)) == undisturbed[name][:3]
    assert content(run.path) == before


# Of use to all


@pytest.mark.parametrize("name", NAMES)
def test_settings_are_json_and_hold_the_hash_of_every_prompt(
    name: str, memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: dict[str, str] = {}
    messages = Prompt.messages

    def noting(self: Prompt, **fields: str) -> Any:
        used[self.name] = self.hash
        return messages(self, **fields)

    monkeypatch.setattr(Prompt, "messages", noting)
    settings = memory.settings()
    assert settings["name"] == name
    assert settings.get("form", "none") == ("ask" if "form" in parameters(name) else "none")
    assert to_json(json.loads(to_json(settings))) == to_json(settings)
    live(memory, 0, 20)
    given(memory, asked_task(name))
    assert bool(used) is (name not in (*FORGETFUL, "raw"))
    assert [prompt for prompt, digest in used.items() if digest not in to_json(settings)] == []
    assert memory.settings() == settings


@pytest.mark.parametrize("name", NAMES)
def test_eight_threads_are_told_what_one_is(name: str, memory: Any, tmp_path: Path) -> None:
    live(memory, 0, 12)
    asked = [(task, at) for task in TASKS[:12] for at in (memory.snapshot(), memory.snapshot() // 2)]
    expected = [given(memory, task, at, task.task_id) for task, at in asked]
    memory.close()
    memory.open(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: given(memory, *one, one[0].task_id), asked))
    assert found == expected


@pytest.mark.parametrize("name", NAMES)
def test_it_can_be_closed_twice_and_opened_again(name: str, memory: Any, tmp_path: Path) -> None:
    live(memory, 0, 4)
    before = given(memory, asked_task(name))
    memory.close()
    memory.close()
    if name in REMEMBERING:
        with pytest.raises(UserError, match="open"):
            memory.snapshot()
    memory.open(tmp_path)
    assert given(memory, asked_task(name)) == before


def test_a_prompt_without_an_answer_says_where_to_add_it() -> None:
    memory = build("raw")
    writer = build("jitmem").curator.model
    assert memory.needs_judge
    with pytest.raises(AssertionError, match=r"memory_answers\.py has no answer to the prompt"):
        writer.rule("You are asked something new.", None)


READERS: dict[str, Callable[[str], Any]] = {
    "workflows": workflows,
    "lessons": memory_items,
    "rules": lambda answer: operate([], answer, 20, ["t"]),
    "calls": lambda answer: calls_in(answer, ("insert", "update", "delete")),
    "procedure": corrected,
    "events": lambda answer: critical(answer, ()),
}
"""What reads the answers of a writer, by what it looks for."""
BEGUN = ("", "ADD", "REMOVE rule", "Workflow", "Procedure", "insert", "Memory item", "Title", "- ", "Step 1")
REPEATED = (" ", "\n", " *", "#\n", "\t", "> ", "[", "1. ", "procedure\n", "**")


@pytest.mark.parametrize("reader", READERS)
def test_a_writer_that_repeats_itself_holds_nothing_up(reader: str) -> None:
    begun = time.perf_counter()
    for head in BEGUN:
        for part in REPEATED:
            READERS[reader](f"A line.\n{head}{part * (50_000 // len(part))}x")
    assert time.perf_counter() - begun < 20


class Turning(WordEmbedder):
    """An embedder that is told to change."""

    width, lost = 512, 0

    def embed(self, texts: Sequence[str]) -> Embedded:
        given = super().embed(texts)
        return given._replace(vectors=given.vectors[self.lost :, : self.width])


@pytest.mark.parametrize("name", [n for n in REMEMBERING if "embedder" in parameters(n)])
def test_an_embedder_that_changes_is_no_answer_and_spoils_nothing(name: str, tmp_path: Path) -> None:
    embedder = Turning()
    model = RuleModel("writer", rule=lambda text, sampling: answer(text))
    model.context = 32_768
    options = {"retrieval": "dense", "embedder": embedder, "gate": "environment", "exclude_own": False}

    def opened() -> Any:
        made = load_memory(name, model=model, curator=model, **options)
        made.open(tmp_path)
        return made

    memory = opened()
    for number in range(3):
        memory.remember(lived(number), Session(0, f"k{number}"))
    before = given(memory)
    for change in ({"width": 100}, {"lost": 1}):
        for attribute, value in change.items():
            setattr(embedder, attribute, value)
        for _ in range(2):  # as it is open, and opened anew
            with pytest.raises(InfrastructureError, match="gave"):
                given(memory)
            with pytest.raises(InfrastructureError, match="gave"):
                memory.remember(lived(7), Session(0, "k7"))
            memory.close()
            memory = opened()
        embedder.width, embedder.lost = 512, 0
        assert given(memory).recall == before.recall
        assert memory.snapshot() == 3
    memory.remember(lived(7), Session(0, "k7"))
    assert memory.snapshot() == 4
    memory.close()
