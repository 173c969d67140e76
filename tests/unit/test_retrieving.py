"""How `raw` and `jitmem` find traces: dense retrieval, and the controls."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitmem_lab import evaluation
from jitmem_lab.bank import MemoryBank, TraceTask
from jitmem_lab.embedding import Embedded
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.explore import Explorer
from jitmem_lab.memories import load_memory
from jitmem_lab.memories.finding import VectorCache
from jitmem_lab.records import Recall, Task
from jitmem_lab.session import Session

from .doubles import ButtonBenchmark, RuleModel, demonstration
from .writing import WordEmbedder, episode

pytestmark = pytest.mark.unit

TASKS = ButtonBenchmark(30).tasks()
"""Of 5 panels and 2 types: task n is about panel n % 5 in room n, and of type n % 2."""


def opened(
    retrieval: str = "dense", tasks: Sequence[Task] = TASKS, folder: Path | None = None, **options: Any
) -> Any:
    """A `raw` memory with a bank of solved tasks."""
    options = {"embedder": WordEmbedder(), "gate": "environment"} | options
    name = "jitmem" if "curator" in options else "raw"
    memory = load_memory(name, retrieval=retrieval, **options)
    memory.open(folder)
    memory.warm([demonstration(task) for task in tasks], Session(0, "warm"))
    return memory


def recalled(memory: Any, task: Task = TASKS[7], at: int | None = None, key: str = "e") -> Recall:
    return memory.recall(task, memory.snapshot() if at is None else at, Session(0, key))


def ids(recall: Recall) -> list[str]:
    return [trace.task_id for trace in recall.traces]


# By meaning


def test_dense_retrieval_takes_the_nearest_and_of_equals_the_newest() -> None:
    texts = ["a b c d", "a b c d", "a b x y", "a q r s", "k l m n"]
    tasks = [TASKS[n].model_copy(update={"description": text}) for n, text in enumerate(texts)]
    memory = opened(tasks=tasks, k=4)
    asked = TASKS[20].model_copy(update={"description": "d c b a"})
    found = recalled(memory, asked)
    assert ids(found) == ["b1", "b0", "b2", "b3"]
    assert [trace.score for trace in found.traces] == [1.0, 1.0, 0.5, 0.25]
    assert ids(recalled(memory, asked, at=1)) == ["b0"], "a snapshot knows nothing of later traces"
    assert found.notes == {}


def test_every_snapshot_gives_what_a_bank_of_that_size_would() -> None:
    memory = opened(k=3)
    for size in (0, 1, 2, 7, 29):
        alone = opened(tasks=TASKS[:size], k=3)
        for task in TASKS[::7]:
            assert recalled(memory, task, at=size) == recalled(alone, task)


def test_a_task_finds_no_trace_of_its_own_however_often_it_is_stored() -> None:
    own = [
        demonstration(TASKS[7]).model_copy(update={"final_observation": str(number)}) for number in range(9)
    ]
    memory = opened(k=3)
    memory.warm(own, Session())
    found = recalled(memory)
    assert "b7" not in ids(found)
    assert len(found.traces) == 3
    assert found.self_excluded == 3, "so many would have been shown"
    leaky = opened(k=3, exclude_own=False)
    leaky.warm(own, Session())
    assert ids(recalled(leaky)) == ["b7"] * 3


def test_nothing_is_embedded_twice_and_every_call_is_recorded(tmp_path: Path) -> None:
    embedder, session = WordEmbedder(), Session(0, "w")
    memory = opened(folder=tmp_path, embedder=embedder, tasks=TASKS[:3])
    memory.remember(episode(4), session)
    memory.remember(episode(4), session)
    memory.remember(episode(5, won=False), session)
    assert [call.role for call in session.calls] == ["embedder"]
    assert session.calls[0].messages[0].content == TASKS[4].description
    memory.close()
    memory.open(tmp_path)
    asking = Session(0, "r")
    memory.recall(TASKS[8], 4, asking)
    memory.recall(TASKS[4], 4, asking)
    assert [call.messages[0].content for call in asking.calls] == [
        TASKS[8].description,
        TASKS[4].description,
    ], "the query alone, whether or not a trace has its text"
    written = [TASKS[n].description for n in (0, 1, 2, 4)]
    assert sorted(embedder.texts) == sorted([*written, TASKS[8].description, TASKS[4].description])
    memory.close()
    db = sqlite3.connect(tmp_path / "bank.sqlite")
    assert db.execute("SELECT count(*) FROM item_vectors").fetchone() == (4,)
    db.close()


def test_traces_that_came_without_vectors_are_embedded_when_first_searched() -> None:
    embedder = WordEmbedder()
    memory = opened(tasks=[], embedder=embedder, k=1)
    memory.bank.append([("k", demonstration(TASKS[3]), {"success": True})])
    for _ in range(2):
        assert ids(recalled(memory, TASKS[8])) == ["b3"]
    assert embedder.texts.count(TASKS[3].description) == 1


def test_an_embedder_that_fails_stores_nothing() -> None:
    class Failing(WordEmbedder):
        down = False

        def embed(self, texts: Sequence[str]) -> Embedded:
            if self.down:
                raise InfrastructureError("timeout")
            return super().embed(texts)

    embedder = Failing()
    memory = opened(tasks=TASKS[:2], embedder=embedder)
    embedder.down = True
    session = Session()
    for failing in (
        lambda: memory.remember(episode(3), session),
        lambda: memory.recall(TASKS[3], 2, session),
        lambda: memory.warm([demonstration(TASKS[9])], session),
    ):
        with pytest.raises(InfrastructureError, match="timeout"):
            failing()
    assert memory.snapshot() == 2
    assert [call.finish for call in session.calls] == ["error"] * 3
    embedder.down = False
    assert memory.remember(episode(3), session)["id"] == 3


def test_eight_threads_search_a_bank_whose_index_is_not_built_yet() -> None:
    alone = opened(k=3)
    expected = [recalled(alone, task) for task in TASKS]
    memory = opened(k=3)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda task: recalled(memory, task), TASKS))
    assert found == expected


def test_vectors_are_kept_all_or_none(tmp_path: Path) -> None:
    cache = VectorCache(tmp_path / "v.sqlite")
    row = np.ones(3, np.float32)
    with pytest.raises(AttributeError):
        cache.put({"a": row, "b": None})
    assert cache.get(["a", "b"]) == {}
    cache.put({"a": row})
    cache.put({"a": 2 * row, "b": row})
    cache.close()
    again = VectorCache(tmp_path / "v.sqlite").get(["a", "b", "c"])
    assert {text: list(vector) for text, vector in again.items()} == {"a": [1, 1, 1], "b": [1, 1, 1]}


# The controls


@pytest.mark.parametrize("retrieval", ["own_type", "other_type"])
def test_only_traces_of_one_type(retrieval: str) -> None:
    memory, plain = opened(retrieval, k=4), opened("bm25", k=30)
    for task in (TASKS[7], TASKS[12]):
        found = recalled(memory, task)
        same = retrieval == "own_type"
        every = [
            t
            for t in recalled(plain, task).traces
            if (int(t.task_id[1:]) - int(task.task_id[1:])) % 2 != same
        ]
        assert [(t.task_id, t.score) for t in found.traces] == [(t.task_id, t.score) for t in every[:4]]
        assert found.notes == {"retrieval": retrieval}
        assert found.self_excluded == same
    assert ids(recalled(memory, TASKS[0], at=2)) == ([] if same else ["b1"])


def test_shuffled_gives_what_was_found_for_another_task() -> None:
    memory, plain = opened("shuffled", k=2), opened("bm25", k=30)
    drawn = set()
    for number in range(60):
        found = recalled(memory, key=f"e{number}")
        assert found == recalled(memory, key=f"e{number}"), "fixed by seed and episode"
        other = next(task for task in TASKS if task.task_id == found.notes["query_of"])
        assert found.query == other.description
        theirs = [t for t in recalled(plain, other).traces if t.task_id != "b7"]
        assert ids(found) == [t.task_id for t in theirs[:2]]
        assert found.notes["retrieval"] == "shuffled"
        drawn.add(other.task_id)
    assert len(drawn) > 20
    assert "b7" not in drawn


def test_another_task_is_one_with_another_sentence_and_each_is_drawn_equally_often() -> None:
    twin = TASKS[7].model_copy(update={"task_id": "twin"})
    often = [demonstration(TASKS[1]).model_copy(update={"final_observation": str(n)}) for n in range(50)]
    memory = opened("shuffled", tasks=[TASKS[7], twin, TASKS[1], TASKS[2]])
    memory.warm(often, Session())
    drawn = [recalled(memory, key=f"e{n}").notes["query_of"] for n in range(80)]
    assert set(drawn) == {"b1", "b2"}
    assert 20 < drawn.count("b2") < 60
    alone = opened("shuffled", tasks=[TASKS[7], twin])
    found = recalled(alone)
    assert (found.traces, found.payload) == ((), "")
    assert found.notes == {"retrieval": "shuffled", "why": "the bank holds no other task"}


def test_shuffled_may_draw_on_own_traces_only_where_they_are_allowed() -> None:
    tasks = [TASKS[7], TASKS[2]]  # of the same panel
    assert recalled(opened("shuffled", tasks=tasks)).traces == ()
    leaky = recalled(opened("shuffled", tasks=tasks, exclude_own=False, k=2))
    assert sorted(ids(leaky)) == ["b2", "b7"]


# A payload for another task


def curator() -> RuleModel:
    return RuleModel(rule=lambda text, _: text.split("New task: ")[1].splitlines()[0])


@pytest.mark.parametrize("retrieval", ["bm25", "dense", "own_type"])
def test_the_curator_writes_for_another_task_out_of_its_traces(retrieval: str) -> None:
    model = curator()
    memory = opened(retrieval, curator=model, payload_of="another", k=3)
    everyone = opened(retrieval, k=30)
    drawn = set()
    for number in range(30):
        found = recalled(memory, key=f"e{number}")
        other = next(task for task in TASKS if task.task_id == found.notes["payload_of"])
        assert found.payload == found.query == other.description
        theirs = [name for name in ids(recalled(everyone, other)) if name != "b7"]
        assert ids(found) == theirs[:3], "as it would find them, but for the asking task's"
        assert "b7" not in ids(found)
        assert found == recalled(memory, key=f"e{number}")
        drawn.add(other.task_id)
    assert len(drawn) > 15
    assert not any(TASKS[7].description in prompt for prompt in model.prompts)


def test_raw_traces_of_another_task() -> None:
    memory = opened("bm25", payload_of="another", k=1)
    found = recalled(memory)
    assert found.payload.startswith("Task: press the right button")
    assert found.notes["payload_of"] not in ("b7", *ids(found))
    assert memory.settings()["payload_of"] == "another"


def test_without_another_task_there_is_no_payload_and_no_call() -> None:
    model = curator()
    memory = opened("bm25", tasks=[TASKS[7]], curator=model, payload_of="another", on_empty="call")
    for size in (0, 1):
        found = recalled(memory, at=size)
        assert (found.payload, found.traces, model.prompts) == ("", (), [])
        assert found.notes == {"payload_of": None, "why": "the bank holds no other task"}


# Settings


def test_settings_tell_the_ways_apart() -> None:
    def settings(**options: Any) -> dict[str, Any]:
        return load_memory("raw", embedder=WordEmbedder(), **options).settings()

    assert settings()["retrieval"] == "bm25"
    assert "embedder" not in settings()
    assert settings(retrieval="dense")["embedder"] == {"embedder": "words"}
    assert settings(retrieval="dense")["index"] == {"tokenizer": "words", "idf": "okapi"}
    assert settings(retrieval="shuffled")["query_of"] == "another task of the bank"
    assert "payload_of" not in settings()


# The bank and the explorer


def test_a_bank_lists_its_tasks_without_their_trajectories() -> None:
    bank = MemoryBank()
    odd = TASKS[1].model_copy(update={"key": "the \ud800 key", "task_id": "o\udfff"})
    bank.append([(f"k{n}", demonstration(t), {}) for n, t in enumerate([TASKS[0], odd, TASKS[2]])])
    assert bank.tasks() == [
        TraceTask(1, "b0", "type0", TASKS[0].description),
        TraceTask(2, "o\udfff", "type1", "the \ud800 key"),
        TraceTask(3, "b2", "type0", TASKS[2].description),
    ]
    assert bank.tasks(1, 2) == bank.tasks()[1:2]
    assert bank.tasks(3) == []


@pytest.mark.parametrize("retrieval", ["bm25", "dense", "random", "own_type"])
def test_the_explorer_explains_bm25_only(retrieval: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "load_benchmark", lambda name, split=None: ButtonBenchmark(12))
    monkeypatch.setattr(evaluation, "load_embedder", lambda spec: WordEmbedder())
    lab = Explorer(model=RuleModel(), retrieval=retrieval, warm_start=12)
    assert len(lab.traces().traces) == 3
    if retrieval == "bm25":
        explained = lab.explain()
        assert set(explained["id"]) == {trace.trace_id for trace in lab.traces().traces}
        scores = {trace.trace_id: trace.score for trace in lab.traces().traces}
        assert explained.groupby("id")["contribution"].sum().to_dict() == pytest.approx(scores)
    else:
        with pytest.raises(UserError, match=f"BM25 score.*retrieval='{retrieval}'"):
            lab.explain()
    lab.close()


def test_the_explorer_makes_payloads_for_the_task_that_is_picked() -> None:
    with pytest.raises(UserError, match="leave out payload_of"):
        Explorer(model=RuleModel(), payload_of="another")
