"""reflexion: after a failure the agent writes itself a plan, and reads it when it tries the same task again.

Stores: One plan in words per failed attempt, with its task.
Written: After each failure, by one model call that is shown the record and the task's last k plans. A
    success writes nothing.
Found: By the task's id, never by likeness. So a task recalls its own earlier attempts, which is the method;
    the parameter exclude_own has no meaning here. In a single pass over distinct tasks it recalls nothing: it
    works in a stream in which tasks stand several times (`trials` of a run).
Shown: The task's last k = 3 plans, oldest first.
Costs: One call of the writer after a failure, none before an episode.
Source: arXiv 2303.11366; github.com/noahshinn/reflexion (alfworld_runs). Temperature 0, 256 tokens, the last
    3 plans both shown and reflected on, the environment's own word as signal; there 10 trials over 134 games.
    The variant `small` is ours: a model of a few hundred million parameters continues a numbered list.
Chosen here: No worked examples in the prompt (there two); a plan has 4,000 characters at most; a task that
    was solved is played again if the stream holds it again (there it is skipped). Demonstrations teach it
    nothing.
    Published apart from memory, and so not here: an attempt ends when an action is repeated.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from ..models.base import ChatModel
from ..records import Recall, Task, Trajectory
from ..session import Session
from .base import Gate
from .continuing import SMALL, ContinuingMemory
from .items import Change, Item
from .written import Attempted, Written

SINGLE_PASS = "recalls nothing in a single pass over distinct tasks"
"""What must be told of a run with one trial."""
NOTES = ("recalls a task's own earlier attempts (that is the method)", SINGLE_PASS)
"""What must be told with every figure of it."""

_LONGEST = 4000
_BEGIN = re.compile(r"\W*(?:new\s+)?plan\b[*_\s]*:[*_\s]*", re.I)


class Reflexion(ContinuingMemory):
    """Reflexion: plans from failures, for the same task only.

    Args:
        k: Last plans of the task that are shown.
        options: As for `WrittenMemory`, and `form`; without what concerns searching, and `exclude_own`.
    """

    name = "reflexion"
    WITHOUT: ClassVar[tuple[str, ...]] = ("exclude_own", "retrieval", "embedder", "tokenizer", "idf")
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {"small": SMALL}
    ASKED = ("reflexion_plan",)

    def __init__(
        self,
        *,
        model: ChatModel,
        k: int = 3,
        gate: Gate = "environment",
        temperature: float = 0.0,
        max_tokens: int = 256,
        **options: Any,
    ) -> None:
        super().__init__(
            model=model, k=k, gate=gate, temperature=temperature, max_tokens=max_tokens, **options
        )
        self.exclude_own = False

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers; nothing is searched for."""
        settings = super().settings() | {"notes": list(NOTES)}
        del settings["exclude_own"], settings["retrieval"]
        return settings

    def warm(self, trajectories: Sequence[Trajectory], session: Session) -> None:
        """Demonstrations are no failures: nothing is written."""

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """A plan, if the attempt failed."""
        if attempted.success:
            return Written([], {"why": "a success is not reflected on"})
        task = attempted.trajectory.task
        earlier = own_plans(task, items)
        shown = plans_text(earlier[-self.k :]) or "(none)"
        answer = self.ask("reflexion_plan", session, attempted, plans=shown)
        plan = _BEGIN.sub("", answer, count=1) if _BEGIN.match(answer) else answer
        if not plan.strip():
            return Written([], {"why": "no plan in the answer", "answer": answer[:1000]})
        note = {"cut_chars": len(plan) - _LONGEST} if len(plan) > _LONGEST else {}
        data = {
            "task_id": task.task_id,
            "task": task.description,
            "failure": len(earlier) + 1,
            "plan": plan[:_LONGEST].strip(),
        }
        return Written([Change("insert", "plan", data)], note)

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """The task's own last plans."""
        plans = own_plans(task, items)[-self.k :]
        notes = {"recalls": NOTES[0], "plans": [item.id for item in plans]}
        return Recall(query=task.task_id, payload=plans_text(plans), notes=notes)


def own_plans(task: Task, items: Sequence[Item]) -> list[Item]:
    """The plans made after failures of this very task, oldest first."""
    return [item for item in items if item.data["task_id"] == task.task_id]


def plans_text(plans: Sequence[Item]) -> str:
    """Plans as agent and reflection read them."""
    return "\n\n".join(f"Plan after failure {item.data['failure']}:\n{item.data['plan']}" for item in plans)
