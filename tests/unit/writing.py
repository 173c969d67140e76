"""What the tests of write-time memories share: episodes to write, stores to compare, what each must keep."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitmem_lab.analysis import results_table
from jitmem_lab.embedding import Embedded, Vectors, unit
from jitmem_lab.errors import InfrastructureError
from jitmem_lab.execution import Executor
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory
from jitmem_lab.records import Episode, Step, Task, Trajectory, Usage, Verdict
from jitmem_lab.runs import Run
from jitmem_lab.session import Session
from jitmem_lab.stream import run_stream

from .doubles import ButtonBenchmark, RuleModel

TASKS = ButtonBenchmark(40).tasks()

MALFORMED = (
    "",
    "   \n\n",
    "<think>I never stop thinking. Title: a Content: b",
    "<think>Title: no</think>",
    "I could not find anything worth remembering here.",
    '{"items": [{"title": "torn", "conte',
    "\x00\ud800 \u2028 ## \ud83d",
    "#" * 50_000,
    "1" * 50_000,
    "{" * 20_000 + "*" * 30_000,
)
"""Answers in which there is nothing usable, for any system that reads a form."""


class WordEmbedder:
    """A text's vector counts its words, hashed: enough to tell which task is which."""

    name = "words"

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> Embedded:
        self.texts += texts
        vectors: Vectors = np.zeros((len(texts), 512), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, zlib.crc32(word.encode("utf-8", "replace")) % 512] += 1
        return Embedded(unit(vectors), Usage(calls=1, prompt_tokens=len(texts)))

    def identity(self) -> dict[str, Any]:
        return {"embedder": self.name}

    def close(self) -> None:
        pass


def episode(
    number: int = 0,
    *,
    won: bool = True,
    trial: int = 0,
    steps: int = 2,
    rationale: str = "It clicked.",
    task: Task | None = None,
) -> Episode:
    """A finished episode of the button world, judged as it ended."""
    task = task or TASKS[number]
    taken = tuple(
        Step(observation=f"A panel, look {n}.", admissible=("press red",), raw="", action="press red")
        for n in range(steps)
    )
    result = "success" if won else "failure"
    return Episode(
        key=f"key{number}.{trial}",
        position=number,
        batch=0,
        task=task,
        trial=trial,
        trajectory=Trajectory(task=task, steps=taken, outcome=result, reward=float(won)),
        verdict=Verdict(success=won, source="judge", rationale=rationale),
        outcome=result,
    )


def opened(name: str, answer: Callable[[str], str], folder: Path | None = None, **options: Any) -> Any:
    """An open memory whose model answers each prompt by `answer`."""
    model = RuleModel("writer", rule=lambda text, sampling: answer(text))
    model.context = 32_768
    memory = load_memory(name, model=model, **options)
    memory.open(folder)
    return memory


def dump(folder: Path) -> list[str]:
    """The tables of items as SQL, in order."""
    db = sqlite3.connect(folder / "bank.sqlite")
    try:
        return [line for line in db.iterdump() if '"item_' in line or " item_" in line]
    finally:
        db.close()


def stored(memory: Any) -> list[dict[str, Any]]:
    """The fields of all items."""
    return [item.data for item in memory.store.items()]


def notes(memory: Any) -> dict[str, Any]:
    """What was kept with each write, by episode key."""
    return {key: note for _, key, note in memory.store.writes()}


def keeps_its_promises(
    name: str, answer: Callable[[str], str], tmp_path: Path, won: bool = True, **options: Any
) -> None:
    """Write once, whole or not at all; errors write nothing; the same store for the same seed."""
    folders = [tmp_path / f"store{n}" for n in range(2)]
    for folder in folders:
        folder.mkdir()
        memory = opened(name, answer, folder, **options)
        for number in range(5):
            first = memory.remember(episode(number, won=won), Session(0, f"k{number}"))
            assert first["stored"] is True
        state, size = stored(memory), memory.snapshot()
        assert state
        session = Session(0, "again")
        memory.remember(episode(2, won=won), session)
        assert (stored(memory), memory.snapshot(), session.calls) == (state, size, [])
        error = episode(9, won=won).model_copy(update={"outcome": "error"})
        assert memory.remember(error, session)["stored"] is False
        untold = episode(9, won=won).model_copy(update={"verdict": Verdict(success=None, source="judge")})
        if memory.gate == "judge":
            assert memory.remember(untold, session)["stored"] is False
        assert (stored(memory), memory.snapshot(), session.calls) == (state, size, [])

        def down(text: str, sampling: Any) -> str:
            raise InfrastructureError("timeout")

        rule, memory.model.rule = memory.model.rule, down
        with pytest.raises(InfrastructureError):
            memory.remember(episode(6, won=won), Session(0, "k6"))
        assert (stored(memory), memory.snapshot()) == (state, size)
        memory.model.rule = rule
        memory.close()
        memory.close()
        memory.open(folder)
        assert stored(memory) == state
        memory.remember(episode(6, won=won), Session(0, "k6"))
        assert memory.snapshot() == size + 1
        memory.close()
    assert dump(folders[0]) == dump(folders[1])
    assert not any("time" in line.lower() for line in dump(folders[0]) if line.startswith("CREATE"))


def sees_one_snapshot(name: str, answer: Callable[[str], str], won: bool = True, **options: Any) -> None:
    """A recall from an earlier snapshot gives what it gave then, after 1, 3 and 30 episodes."""
    memory = opened(name, answer, **options)
    asked = episode(0).task
    seen = {0: memory.recall(asked, 0, Session())}
    assert seen[0].payload == ""
    for number in range(30):
        task = asked if name == "reflexion" else None
        written = episode(number, won=won, trial=1, task=task)
        memory.remember(written, Session(0, f"k{number}"))
        if number + 1 in (1, 3, 30):
            token = memory.snapshot()
            assert token == number + 1
            seen[token] = memory.recall(asked, token, Session())
    assert seen[30].payload
    for token, recall in seen.items():
        assert memory.recall(asked, token, Session()) == recall
        assert recall.bank_size == len(memory.store.items(at=token))


def streamed(
    folder: Path,
    name: str,
    answer: Callable[[str], str],
    concurrency: int,
    trials: int = 1,
    n: int = 23,
    **options: Any,
) -> Run:
    """A run over the button world with a model that acts by a hash of its prompt and writes by `answer`."""
    writer = RuleModel("writer", rule=lambda text, sampling: answer(text))
    bench = ButtonBenchmark(n)
    judge = RuleModel("judge", rule=lambda text, _: '{"success": true, "rationale": "seen"}')
    memory = load_memory(name, model=writer, **options)
    return run_stream(
        bench,
        memory,
        Executor(RuleModel("actor"), temperature=1.0),
        out=folder,
        tasks=bench.tasks() * trials,
        judge=Judge(judge) if memory.needs_judge else None,
        batch_size=5,
        concurrency=concurrency,
        progress=False,
    )


def does_not_hang_on_concurrency(
    name: str, answer: Callable[[str], str], tmp_path: Path, trials: int = 1, **options: Any
) -> Run:
    """One episode at a time or eight: the same results and the same store. Gives the second run."""
    runs = [streamed(tmp_path / f"c{c}", name, answer, c, trials, **options) for c in (1, 8)]
    tables = [results_table(run.latest()) for run in runs]
    assert tables[0] == tables[1]
    assert dump(runs[0].path) == dump(runs[1].path)
    assert any(e.recall.payload for e in runs[1].latest())
    again = streamed(tmp_path / "c8", name, answer, 8, trials, **options)
    assert results_table(again.latest()) == tables[0]
    return runs[1]
