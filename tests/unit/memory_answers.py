"""What the contract suite builds each memory system with: a model that answers every system's prompts usably.

A system whose prompts are not in `ANSWERS` fails the suite with a sentence that says so.
"""

from __future__ import annotations

import re
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from jitmem_lab.bank_store import decode
from jitmem_lab.execution import Executor
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory, parameters
from jitmem_lab.prompts import load_prompt
from jitmem_lab.records import Episode, Step, Verdict
from jitmem_lab.runs import Run
from jitmem_lab.stream import run_stream

from .doubles import ButtonBenchmark, RuleModel
from .writing import WordEmbedder, episode

FORGETFUL = ("none", "oracle")
"""Systems that remember nothing."""
OWN_TASK = ("reflexion",)
"""Systems whose method it is to recall the task's own earlier attempts, and nothing else."""
BEGINS = (
    "What the agent saw and did:",
    "What you saw and did:",
    "Record:",
    "What memory gave:",
    "Records of",
    " attempt\nTask:",
)


def marks(text: str) -> str:
    """The marks (`mark7`) of the record in a prompt, else one made of its words."""
    record = next((text.partition(words)[2] for words in BEGINS if words in text), text)
    found = list(dict.fromkeys(re.findall(r"mark\d+\b", record)))
    return " ".join(found) or f"lesson{zlib.crc32(record.encode('utf-8', 'replace')) % 10_000}"


def lesson(text: str) -> str:
    """A sentence with the record's marks, and words that no other record's sentence has."""
    seen = marks(text)
    rare = " ".join(f"{seen.replace(' ', '')}{letter}" for letter in "abcdefgh")
    return f"Mind {seen}: {rare}."


def skill(text: str) -> str:
    name = marks(text)
    body = f"---\nname: {name}\ndescription: press the right button\n---\n# Workflow\n{lesson(text)}"
    return f'It went on.\ninsert(skill_name="{name}", content="""{body}""")'


ANSWERS: dict[str, Callable[[str], str]] = {
    "curator": lesson,
    "reasoningbank_success": lambda text: f"# Memory Item 1\n## Title: Press\n## Content: {lesson(text)}",
    "reasoningbank_failure": lambda text: f"# Memory Item 1\n## Title: Wait\n## Content: {lesson(text)}",
    "awm_induce": lambda text: f"Workflow: {marks(text)}\n1. look at {{PANEL}}\n2. {lesson(text)}",
    "reflexion_plan": lambda text: f"Plan: {lesson(text)}",
    "skillos_text": skill,
    "memp_script": lesson,
    "memp_reflect": lambda text: f"It was wrong.\nProcedure:\n{lesson(text)}",
    "expel_contrast": lambda text: f"AGREE 1\nADD: {lesson(text)}",
    "expel_successes": lambda text: f"AGREE 2\nREMOVE 1\nADD: {lesson(text)}",
    "memharness_query": lambda text: "<query>which button is right</query>",
    "memharness_rebuild": lesson,
    "memharness_learn": lambda text: (
        f'{{"memories": [{{"situation": "a panel", "memory": "{lesson(text)}"}}]}}'
    ),
}
"""Answers by prompt; a prompt is recognised by its own words, the section for the system."""


def answer(text: str) -> str:
    """The answer to a prompt of any memory system."""
    for name, say in ANSWERS.items():
        own = load_prompt(name).text.partition("[[user]]")[0].removeprefix("[[system]]").strip()
        if own in text:
            return say(text)
    raise AssertionError(f"memory_answers.py has no answer to the prompt that begins {text[:150]!r}")


def build(name: str, **options: Any) -> Any:
    """A memory system with a scripted model; options that it doesn't take are left out."""
    model = RuleModel("writer", rule=lambda text, sampling: answer(text))
    model.context = 32_768
    taken = parameters(name)
    options = {key: value for key, value in options.items() if key in taken}
    given = {"model": model, "curator": model, "embedder": WordEmbedder(), "benchmark": ButtonBenchmark(40)}
    return load_memory(name, **given, **options)


def lived(number: int, won: bool = True, trial: int = 0) -> Episode:
    """A judged episode of task `number` whose record holds a mark of its own."""
    made = episode(number, won=won, trial=trial)
    steps = tuple(
        Step(observation=f"A panel, mark{number}.", admissible=("press red",), action=f"press {colour}")
        for colour in ("red", "green")
    )
    verdict = Verdict(success=won, source="judge", rationale="It clicked.")
    trajectory = made.trajectory.model_copy(update={"steps": steps})  # type: ignore[union-attr]
    return made.model_copy(update={"trajectory": trajectory, "verdict": verdict})


def streamed(memory: Any, folder: Path, concurrency: int = 2) -> Run:
    """A run over the button world, each task twice, in batches of 5."""
    bench = ButtonBenchmark(8)
    judge = RuleModel("judge", rule=lambda text, _: '{"success": true, "rationale": "It clicked."}')
    return run_stream(
        bench,
        memory,
        Executor(RuleModel("actor"), temperature=1.0),
        out=folder,
        tasks=bench.tasks() * 2,
        judge=Judge(judge) if memory.needs_judge else None,
        batch_size=5,
        concurrency=concurrency,
        progress=False,
    )


def content(folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of a store by table, without times: when a trace was added, how long its steps took."""
    file = folder / "bank.sqlite"
    if not file.exists():
        return {}
    with closing(sqlite3.connect(file)) as db:
        db.create_function("unzipped", 1, lambda body: decode(body).hash)
        tables = [row[0] for row in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        found = {}
        for table in sorted(set(tables) - {"about"}):
            columns = [row[1] for row in db.execute(f"PRAGMA table_info({table})") if row[1] != "added"]
            shown = ", ".join(columns).replace("trajectory", "unzipped(trajectory)")
            found[table] = db.execute(f"SELECT {shown} FROM {table} ORDER BY rowid").fetchall()
        return found
