"""Run directories made up to measure the views on: as long as asked for, of lines as long as real ones."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path

from ..bank import MemoryBank
from ..records import (
    Call,
    Episode,
    Message,
    Outcome,
    Recall,
    RetrievedTrace,
    Step,
    Task,
    Trajectory,
    Usage,
    Verdict,
)
from ..runs import RUN_SCHEMA
from .texts import texts

STEPS = 15
"""Steps of an episode."""
OPTIONS = 16
"""Admissible actions of a step."""
TRACES = 1000
"""Traces that a bank holds at most."""
_WRITE = (
    b'{"batch": 0, "calls": [], "change": {"stored": %s}, "error": null, "key": "%016x", "verdict": null}\n'
)
_KEY, _PLACE, _SENTENCE = "k" * 16, 987_654_321, "sentence of a task"


def make_run(
    folder: Path,
    episodes: int | None = None,
    size: int | None = None,
    observation: int = 0,
    seed: int = 0,
) -> int:
    """A run of made-up episodes, with a judge's verdicts and a bank that took in those it let in.

    Args:
        folder: Where to make it.
        episodes: How many; None takes as many as `size` holds.
        size: Bytes of `episodes.jsonl`, nearly.
        observation: Characters of the first step's observation.
        seed: Runs of other seeds end otherwise on the same tasks.

    Returns:
        The number of episodes.
    """
    folder.mkdir(parents=True)
    settings = {
        "benchmark": {"name": "made-up", "split": "all"},
        "memory": {"name": "jitmem", "gate": "judge"},
        "judge": {"model": "made-up"},
        "seed": seed,
    }
    config = {"schema_version": RUN_SCHEMA, "settings": settings, "created": 1.0, "provenance": {}}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    moulds = [_episode(seed + number, observation) for number in range(8)]
    done = written = 0
    with (folder / "episodes.jsonl").open("wb") as file, (folder / "writes.jsonl").open("wb") as writes:
        for line in islice(_lines(moulds), episodes):
            if size is not None and written + len(line) > size:
                break
            stored = b"true" if moulds[done % len(moulds)].verdict.success else b"false"
            writes.write(_WRITE % (stored, done))
            done, written = done + 1, written + file.write(line)
    with MemoryBank(folder / "bank.sqlite") as bank:
        told = islice(texts("alfworld", 1 << 40, seed), min(done, TRACES))
        bank.append([(text, _played(moulds[number % len(moulds)]), {}) for number, text in enumerate(told)])
    status = {"state": "completed", "done": done, "owed": 0}
    (folder / "status.json").write_text(json.dumps(status), encoding="utf-8")
    return done


def _played(episode: Episode) -> Trajectory:
    assert episode.trajectory is not None
    return episode.trajectory.model_copy(update={"steps": episode.trajectory.steps[1:]})


def _lines(moulds: Sequence[Episode]) -> Iterator[bytes]:
    lines = [(mould.to_line() + "\n").encode("ascii") for mould in moulds]
    sentences = texts("alfworld", 1 << 40)
    for position, sentence in zip(count(), sentences, strict=False):
        line = lines[position % len(lines)].replace(_KEY.encode(), b"%016x" % position)
        line = line.replace(b"%d" % _PLACE, b"%d" % position)
        yield line.replace(_SENTENCE.encode(), sentence.encode())


def _episode(seed: int, observation: int) -> Episode:
    """An episode of the size of ALFWorld's, with places for what differs."""
    said = list(texts("alfworld", 400, seed))
    won = seed % 3 == 0
    outcome: Outcome = "success" if won else "failure"
    task = Task(
        benchmark="made-up",
        split="all",
        task_id=f"t{_KEY}",
        description=_SENTENCE,
        task_type=f"type {seed % 4}",
    )
    payload = "\n".join(said[:12])
    traces = tuple(
        RetrievedTrace(
            trace_id=i,
            rank=i + 1,
            score=9.0 - i,
            task_id=f"t{i}",
            description=said[i],
            text="\n".join(said[i : i + 20]),
        )
        for i in range(3)
    )
    steps, calls = [], []
    for number in range(STEPS):
        options = tuple(said[20 + number : 20 + number + OPTIONS])
        seen = "x" * observation if observation and not number else " ".join(said[60 + number : 66 + number])
        prompt = f"{_SENTENCE}\n{payload}\n" + "\n".join(said[100 : 110 + number])
        steps.append(Step(observation=seen, admissible=options, raw=options[0], action=options[0]))
        calls.append(
            Call(
                role="executor",
                model="made-up",
                messages=(Message(role="user", content=prompt),),
                options=options,
                text=options[0],
                scores=tuple(-float(i) for i in range(OPTIONS)),
                finish="choice",
                usage=Usage(calls=1, prompt_tokens=len(prompt) // 4, completion_tokens=90, seconds=0.5),
            )
        )
    trajectory = Trajectory(
        task=task, steps=tuple(steps), final_observation=said[0], outcome=outcome, reward=float(won)
    )
    return Episode(
        key=_KEY,
        position=_PLACE,
        batch=0,
        snapshot=0,
        task=task,
        recall=Recall(payload=payload, traces=traces, query=_SENTENCE, bank_size=100),
        trajectory=trajectory,
        verdict=Verdict(success=seed % 4 == 0, source="judge"),
        outcome=outcome,
        calls=tuple(calls),
        seconds=12.0,
    )
