"""oracle: the benchmark's own solution as payload, the ceiling of what a payload can do for an executor.

Stores: Nothing.
Written: Never.
Found: By the task's id, in the benchmark: its walkthrough or gold actions.
Shown: As a solved example, a numbered list of actions, before every step.
Costs: No model call.
Source: A control of ours, not a memory and in no paper; its figures belong beside no system's.
Chosen here: The form is that of a solved example, as `raw` shows a trace's actions.
"""

from __future__ import annotations

from typing import Any, Literal

from ..benchmarks.base import Benchmark
from ..errors import UserError
from ..execution import plan_payload
from ..records import Recall, Task
from ..session import Session
from .none import NoMemory


class OracleMemory(NoMemory):
    """A control, not a memory: it looks the solution up. Never mix its figures with a system's.

    Args:
        benchmark: Where the solutions come from.
        of: Whose solution is given: the task's `own`, or that of `another` task, under this task's sentence:
            the control for whether it is the content of a payload that helps.
    """

    name = "oracle"

    def __init__(self, benchmark: Benchmark, *, of: Literal["own", "another"] = "own") -> None:
        if of not in ("own", "another"):
            raise UserError(f"of must be own or another, not {of!r}")
        self._benchmark = benchmark
        self._of = of

    def settings(self) -> dict[str, Any]:
        """The name, and whose solution it is."""
        return {"name": self.name, "of": self._of}

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """A solution as a solved example of `task`."""
        solved = task if self._of == "own" else self._another(task)
        payload = plan_payload(task, self._benchmark.oracle(solved))
        said = "the benchmark's own solution" + ("" if solved is task else f" of {solved.task_id}")
        return Recall(payload=payload, notes={"control": said})

    def _another(self, task: Task) -> Task:
        """The next task of the split that is worded otherwise."""
        tasks = self._benchmark.tasks()
        at = next((n for n, known in enumerate(tasks) if known.task_id == task.task_id), 0)
        others = [*tasks[at + 1 :], *tasks[:at]]
        return next((known for known in others if known.description != task.description), task)
