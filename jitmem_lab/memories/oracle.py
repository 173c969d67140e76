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

from ..benchmarks.base import Benchmark
from ..execution import plan_payload
from ..records import Recall, Task
from ..session import Session
from .none import NoMemory


class OracleMemory(NoMemory):
    """A control, not a memory: it looks the solution up. Never mix its figures with a system's.

    Args:
        benchmark: Where the solutions come from.
    """

    name = "oracle"

    def __init__(self, benchmark: Benchmark) -> None:
        self._benchmark = benchmark

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """The walkthrough of `task` as a solved example."""
        payload = plan_payload(task, self._benchmark.oracle(task))
        return Recall(payload=payload, notes={"control": "the benchmark's own solution"})
