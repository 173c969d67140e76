"""skillos: a curator model keeps a small library of skills, which it edits by calls after every task.

Stores: Skills. Each is one Markdown file: a front matter of exactly two fields, name and description, and a
    body (a workflow, when not to use it, what can go wrong). The name is its key.
Written: After each episode, successful or not. The curator is given the task, the most relevant skills, the
    trajectory and the judged outcome, and answers with any number of calls of insert(skill_name, content),
    update(skill_name, new_name?, new_content?) and delete(skill_name). They are applied in order, each to
    what those before it left. One that can't be (an insert of a name that is taken, an update or deletion of
    one that isn't there, content that is no skill) is refused and noted, and the others still count. The
    share of valid calls is kept with the write: the paper's training reward has it as a term.
Found: BM25 over name and description, top 5.
Shown: The skills as they are, at every step.
Costs: One call of the curator after each episode, none before it; the skills stand in the prompt at every
    step.
Source: arXiv 2605.06614 (Google, UIUC, MIT; no official code). SkillOS-base is any prompted model as curator;
    SkillOS is the trained one: pass its checkpoint as `model` (`curator_model` of a run). It was trained with
    the calls new_skill_insert, skill_update and skill_delete, whose names are understood as well. Published:
    top 5, temperature 1.0 and 4,096 new tokens (of training; those of evaluation are not). The port, in the
    repository in which JitMem was developed, takes the top 3 over title and description, and samples at
    temperature 0.7.
Chosen here: Calls as text by default, since a model without tool calls can write them too; `calls="tools"`
    offers them as tools. The curator sees the skills that its task finds when it is asked, not when the task
    began, so that in a batch it doesn't insert again what a neighbour just inserted. A skill's front matter
    takes the name of the call. Content is refused beyond 8,000 characters, so that five skills fit a prompt.
    A skill that an episode of the very task edited counts as its own, whoever inserted it. A small model
    (`form="continue"`, variant `small`) writes no calls: after a success it goes on with one skill, which is
    inserted.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from ..errors import UserError
from ..models.base import ChatModel
from ..parsing import strip_thinking
from ..records import Recall, Task, ToolCall
from ..session import Session
from ..traces import fit
from .continuing import SMALL, ContinuingMemory
from .items import Item
from .skills import NAMES, Refused, apply, changes, markdown, tools
from .text_calls import Said, calls_in
from .written import Attempted, Written, as_traces

Calls = Literal["text", "tools"]
"""How the curator edits: by calls that it writes, or by real tool calls (the model must know them)."""


class SkillMemory(ContinuingMemory):
    """Skills, kept by a curator.

    Args:
        calls: How the curator edits; `tools` needs a model that calls tools.
        options: As for `WrittenMemory`, and `form`.

    Raises:
        UserError: Unknown `calls`, or tools for a model that takes none or that only continues texts.
    """

    name = "skillos"
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {
        "port": {"k": 3, "temperature": 0.7},
        "small": SMALL | {"k": 3},
    }

    def __init__(
        self,
        *,
        model: ChatModel,
        k: int = 5,
        calls: Calls = "text",
        temperature: float = 1.0,
        max_tokens: int = 4096,
        **options: Any,
    ) -> None:
        super().__init__(model=model, k=k, temperature=temperature, max_tokens=max_tokens, **options)
        if calls not in get_args(Calls):
            raise UserError(f"calls must be 'text' or 'tools', not {calls!r}")
        if calls == "tools" and (self.form == "continue" or not model.takes_tools):
            raise UserError(f"{model.name} calls no tools so; use calls='text'")
        self.calls = calls
        if self.form == "continue":
            stop = (*self.sampling.stop, "\nThe skill that")  # as the prompt goes on after a list
            self.sampling = self.sampling.model_copy(update={"stop": stop})

    def prompts(self) -> tuple[str, ...]:
        """The curator's prompt."""
        return (self._named(f"skillos_{self.calls}"),)

    def parameters(self) -> dict[str, Any]:
        """How the curator edits."""
        return {"calls": self.calls}

    def found_by(self, data: dict[str, Any]) -> str:
        """Name and description."""
        return f"{data['name']}\n{data['description']}" if data else ""

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """The most relevant skills, as they are."""
        traces = as_traces(self.find(task.retrieval_key, items, session), "name", markdown)
        return Recall(payload="\n\n".join(trace.text for trace in traces), traces=traces)

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """The edits that the curator calls for, as far as they can be carried out."""
        if self.form == "continue" and not attempted.success:
            return Written(
                [], {"calls": [], "valid": None, "why": "a small model is asked after successes only"}
            )
        task = attempted.trajectory.task
        said = self._said(attempted, items, session)
        shelf = {item.data["name"]: (item.id, item.data) for item in items}
        before = dict(shelf)
        done = []
        for call, text in said:
            record: dict[str, Any] = {"call": text[:200]}
            try:
                verb, skill = apply(shelf, call, task.task_id)
                record = {"call": verb, "skill": skill}
            except Refused as why:
                record["refused"] = str(why)
            done.append(record)
        valid = sum("refused" not in record for record in done)
        note = {"calls": done, "valid": round(valid / len(done), 4) if done else None}
        return Written(changes(before, shelf), note)

    def _said(self, attempted: Attempted, items: list[Item], session: Session) -> list[Said]:
        """The calls of the curator's answer."""
        if self.form == "continue":
            file = f"---\n{self.ask('skillos_text', session, attempted)}"
            name = file.splitlines()[1].partition(":")[2].strip()
            lines = [line.lstrip("0123456789. ") for line in file.rpartition("\n---\n")[2].splitlines()]
            copied = all(self.is_copied(line, "skillos_text") for line in [name, *lines])
            call = ToolCall(name="insert", arguments={"skill_name": name, "content": file})
            return [Said(None if copied else call, "copied from the prompt" if copied else "insert")]
        texts = [
            markdown(item.data)
            for item, _ in self.find(attempted.trajectory.task.retrieval_key, items, session)
        ]
        fitted = fit(texts, self.model.context // 4, self.model.count_tokens)
        skills = "\n\n".join(cut.text for cut in fitted) or "(none yet)"
        offered = tools() if self.calls == "tools" else []
        reply = self.answer(f"skillos_{self.calls}", session, attempted, offered, skills=skills)
        said = [Said(call, call.name) for call in reply.tool_calls]
        return said or calls_in(strip_thinking(reply.text), NAMES)
