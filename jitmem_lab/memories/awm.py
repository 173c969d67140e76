"""awm: routines with variables drawn from successes, all of them in the prompt.

Stores: Workflows: a name, at least two steps with {VARIABLES}, and in how many successes each was seen.
Written: After each success of at least two steps, by one model call that sees that record alone.
Found: Not at all: every workflow of the benchmark is shown.
Shown: As a list in order of their first writing, so that the prompt's beginning stays the same from task to
    task. What exceeds the budget is left out and noted: kept are the workflows seen in most successes (the
    most general ones), among equals the newest.
Costs: One call of the writer after a success, none before an episode; all workflows stand in the prompt at
    every step.
Source: arXiv 2409.07429; github.com/zorazrw/agent-workflow-memory. Temperature 1.0, 2,048 tokens, routines of
    two steps or more; online after each task that its judge calls a success, offline from the train split
    (here: a warm start). One template is represented once. The variant `small` is ours: a model of a few
    hundred million parameters continues a text.
Chosen here: The benchmarks tell no task templates as WebArena does, so a template is known by its workflow:
    two are the same if they have the same name, or the same steps but for variables, numbers, quoted words
    and articles. Of the same ones the one with more variables stays, the newer among equals; both are
    counted. There, all successes are induced from anew each time; here only the new one, and what it gives
    is merged. A workflow keeps at most 30 steps of 300 characters. The budget (none published) is a quarter
    of the writer's context unless given.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar, NamedTuple

from ..errors import UserError
from ..models.base import ChatModel
from ..records import Recall, Task
from ..session import Session
from .continuing import SMALL, ContinuingMemory
from .items import Change, Item
from .written import Attempted, Written

FEWEST_STEPS = 2
"""Steps of a success that is induced from, and of a workflow (published)."""

_MOST, _MOST_STEPS, _LONGEST = 20, 30, 300
_HEAD = re.compile(r"[#*>\-\s]*(?:\d+[.)]\s*)?workflow\s*+\d*+[*_\s]*+(?:[:.\-–]|$)[*_\s]*(.*)", re.I)
_STEP = re.compile(r"(?:\d+[.):]|[-*•]|step\s+\d+\s*[:.)])\s*(.+)", re.I)
_VARIABLE = re.compile(r"\{[^{}]+\}")
_PARTICULAR = re.compile(
    r"\{[^{}]*\}|\"[^\"]*\"|(?<!\w)'[^']*'(?!\w)|\d+|\b(?:a|an|the|some|its|your)\b|[^\w\s\[\]()]"
)


class Workflow(NamedTuple):
    """One workflow of an answer."""

    title: str
    """What it achieves."""
    steps: tuple[str, ...]
    """Its steps."""


class WorkflowMemory(ContinuingMemory):
    """Agent Workflow Memory, online.

    Args:
        budget: Tokens that all workflows shown may take; None takes a quarter of the writer's context.
        options: As for `WrittenMemory`, and `form`; without what concerns searching.

    Raises:
        UserError: A budget below 1.
    """

    name = "awm"
    WITHOUT: ClassVar[tuple[str, ...]] = ("k", "retrieval", "embedder", "tokenizer", "idf")
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {"small": SMALL}
    ASKED = ("awm_induce",)

    def __init__(
        self,
        *,
        model: ChatModel,
        budget: int | None = None,
        temperature: float = 1.0,
        max_tokens: int = 2048,
        **options: Any,
    ) -> None:
        super().__init__(model=model, temperature=temperature, max_tokens=max_tokens, **options)
        if budget is not None and budget < 1:
            raise UserError(f"budget must be 1 or more, not {budget}")
        self.budget = model.context // 4 if budget is None else budget

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers; nothing is searched for."""
        settings = super().settings() | {"budget": self.budget}
        del settings["k"], settings["retrieval"]
        return settings

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """New workflows, and those that take the place of one of the same template."""
        if not attempted.success:
            return Written([], {"why": "a failure is not induced from"})
        steps = [step for step in attempted.trajectory.steps if step.valid and step.action]
        if len(steps) < FEWEST_STEPS:
            return Written([], {"why": f"fewer than {FEWEST_STEPS} steps"})
        answer = self.ask("awm_induce", session, attempted)
        found, refused = workflows(answer)
        for workflow in [one for one in found if all(self.is_copied(s, "awm_induce") for s in one.steps)]:
            found.remove(workflow)
            refused.append(f"{workflow.title}: copied from the prompt")
        if not found:
            note: dict[str, Any] = {"refused": refused} if refused else {}
            return Written([], note | {"why": "no workflow in the answer", "answer": answer[:1000]})
        task = attempted.trajectory.task
        source = {"task_id": task.task_id, "task": task.description}
        changes: list[Change] = []
        for workflow in found:
            change = _merged(workflow, items, source)
            if change.item is not None and change.item in {other.item for other in changes}:
                refused.append(f"{workflow.title}: item {change.item} met another of its template")
            else:
                changes.append(change)
        return Written(changes, {"refused": refused} if refused else {})

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """All workflows that the budget holds."""
        left = self.budget
        shown: set[int] = set()
        for item in sorted(items, key=lambda item: (item.data["seen"], item.changed, item.id), reverse=True):
            size = self.model.count_tokens(workflow_text(item.data)) + 2
            if size <= left:
                shown.add(item.id)
                left -= size
        cut = [item.id for item in items if item.id not in shown]
        notes: dict[str, Any] = {"workflows": len(shown)} | ({"left_out": cut} if cut else {})
        payload = "\n\n".join(workflow_text(item.data) for item in items if item.id in shown)
        return Recall(payload=payload, notes=notes)


def workflow_text(data: dict[str, Any]) -> str:
    """A workflow as the executor reads it."""
    steps = (f"{number}. {step}" for number, step in enumerate(data["steps"], 1))
    return "\n".join([f"Workflow: {data['title']}", *steps])


def workflows(answer: str) -> tuple[list[Workflow], list[str]]:
    """The workflows in a model's answer, and why others were left out.

    Read are lines `Workflow: name` (or `## Workflow 1: name`, in bold too) with the numbered or bulleted
    lines that follow each.
    """
    found: list[tuple[str, list[str]]] = []
    for line in map(str.strip, answer.splitlines()):
        if head := _HEAD.match(line):
            found.append((head[1].strip("*_ ")[:_LONGEST], []))
        elif found and (step := _STEP.match(line)):
            found[-1][1].append(step[1].strip("*`_ ")[:_LONGEST])
    kept: list[Workflow] = []
    refused = []
    for number, (title, lines) in enumerate(found, 1):
        workflow = Workflow(title or "untitled", tuple(lines[:_MOST_STEPS]))
        said = f"workflow {number} ({workflow.title})"
        if len(lines) < FEWEST_STEPS:
            refused.append(f"{said}: fewer than {FEWEST_STEPS} steps")
        elif len(kept) == _MOST:
            refused.append(f"{said}: more than {_MOST} workflows")
        elif any(same_template(workflow, one) for one in kept):
            refused.append(f"{said}: repeats a workflow before it")
        else:
            kept.append(workflow)
            if len(lines) > _MOST_STEPS:
                refused.append(f"{said}: steps after {_MOST_STEPS}")
    return kept, refused[:20]


def same_template(one: Workflow, other: Workflow) -> bool:
    """Whether two workflows are of one template: of one name, or of the same steps but for particulars."""
    named = _plain(one.title) == _plain(other.title) not in ("", "untitled")
    return named or [*map(_plain, one.steps)] == [*map(_plain, other.steps)]


def _plain(text: str) -> str:
    """A text without what may differ within a template."""
    return " ".join(_PARTICULAR.sub(" ", text.lower()).split())


def _variables(steps: tuple[str, ...]) -> int:
    return sum(len(_VARIABLE.findall(step)) for step in steps)


def _merged(workflow: Workflow, items: list[Item], source: dict[str, str]) -> Change:
    """The change that a workflow makes: a new item, or one of its template that was seen once more."""
    data = {"title": workflow.title, "steps": list(workflow.steps), "seen": 1} | source
    for item in items:
        kept = Workflow(item.data["title"], tuple(item.data["steps"]))
        if same_template(workflow, kept):
            if _variables(workflow.steps) < _variables(kept.steps):
                data = dict(item.data)
            return Change("update", "workflow", data | {"seen": item.data["seen"] + 1}, item.id)
    return Change("insert", "workflow", data)
