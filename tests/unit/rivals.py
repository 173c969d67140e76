"""Runs that rival each other on the same tasks, with texts that try to run something."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

from jitmem_lab.curation import Curator
from jitmem_lab.execution import Executor
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory
from jitmem_lab.records import Sampling, Task
from jitmem_lab.runs import Run
from jitmem_lab.stream import run_stream

from .doubles import ButtonBenchmark, RuleModel, demonstration

HOSTILE = (
    "<img src=x onerror=document.title='pwned'> </script><script>document.title='pwned'</script> "
    "$$\\frac{1}{0}$$ \\(x^2\\) [x](javascript:alert(1)) \x1b[31mred\x1b[0m bidi \u202e nul \x00 "
    "lone \ud83d 把土豆"
)


class HostileBenchmark(ButtonBenchmark):
    """Tasks whose sentences try to run something."""

    def tasks(self, limit: int | None = None, order: int | None = None) -> list[Task]:
        return [
            task.model_copy(update={"description": f"{task.description} {HOSTILE}"})
            for task in super().tasks(limit, order)
        ]


def answer(text: str, sampling) -> str:
    """What every role of the stand-in model says; a curator's payload names the room."""
    if '"success"' in text:
        return json.dumps({"success": len(text) % 2 == 0, "rationale": f"because {HOSTILE}"})
    if "Record" in text:
        room = re.findall(r"room [0-9]+", text)[0]
        return f"Advice for {room}:\npress what is red\nnever twice in {room} {HOSTILE}\nthen look"
    return f"<action>press {('red', 'green', 'blue')[len(text) % 3]}</action>"


def make_rival(folder: Path, memory: str, n: int = 6, rule: Callable[[str, Sampling], str] = answer) -> Run:
    """One run, in a folder named after its memory; every role says what the rule says."""
    model = RuleModel(rule=rule)
    bench = HostileBenchmark(n)
    options = {"curator": Curator(model), "gate": "judge"} if memory == "jitmem" else {}
    return run_stream(
        bench,
        load_memory(memory, **options),
        Executor(model, temperature=1.0),
        out=folder / memory,
        batch_size=2,
        judge=Judge(model) if memory == "jitmem" else None,
        warm_start=[demonstration(task) for task in bench.tasks()[:4]] if memory == "jitmem" else (),
        progress=False,
    )


def make_rivals(folder: Path, n: int = 6) -> Path:
    """Runs `none` and `jitmem` in a folder."""
    for memory in ("none", "jitmem"):
        make_rival(folder, memory, n)
    return folder
