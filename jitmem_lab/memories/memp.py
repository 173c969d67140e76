"""memp: a procedure is distilled from each trajectory; those of the most similar tasks are shown.

Stores: Procedures: query (what the task was found by), workflow, facts (the benchmark's own type of the
    task), how often it was used (hits) and how often with success (successes).
Written: After each episode. `build="script"` (the repository's `direct`): one call writes the critical steps
    as a paragraph. `build="round"`: one call turns every step into an event (state before, action, state
    after), a second one picks the critical events, and their actions are the workflow. `update="vanilla"`
    appends after every episode, "validation" after successes only, "reflect" after successes, and after a
    failure it rewrites the workflow that had been shown. A query that is known already adds nothing. Uses
    are counted after each episode that was shown the procedure; one used at least 3 times, with success in
    less than half of them, is deleted.
Found: By embedding of the query (cosine of at least `min_score`), up to 10, out of at most 1,000.
Shown: Query and workflow of each, best first, from step `from_step` on.
Costs: One call of the writer after an episode that adds (two with `build="round"`), one for a rewriting; the
    task is embedded before each episode, and once for a procedure.
Source: arXiv 2508.06433, code zjunlp/MemP. Its defaults: 10 procedures out of 1,000, embeddings of
    text-embedding-3-small, score threshold 0.5, written at temperature 0.2 with 4,096 new tokens, success by
    the environment. There a use counts for the best of those shown only, and only that one is rewritten
    (`credit="first"`). The port is the WebShop runner of the repository in which JitMem was developed:
    script, vanilla, BM25 over whitespace tokens, top 1, shown from the second step on. Its agent samples at
    temperature 0.7; that is taken for the writer too, whose own isn't public. Its line above what it shows,
    "past relevant guidelines", is left out: the executor's prompt has a heading of its own.
Chosen here: In a round the picked numbers stand for the trajectory's own actions, so that a torn list of
    events costs nothing and no action is made up. The threshold is a cosine; the repository's number bounds
    a squared distance, which for vectors of length 1 is a cosine of 0.75 (min_score=0.75). How much passes
    hangs on the embedder. A full memory appends nothing more (the repository cuts its list of trajectories).
    A procedure that was rewritten after an episode counts as that task's own as well. Retrieval by facts or
    at random, which the repository also has, is left out. The variant `small` builds by rounds, whose lists
    of commands a small model can go on with.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, get_args

from ..embedding import Embedder
from ..errors import UserError
from ..models.base import ChatModel
from ..records import Recall, Task
from ..session import Session
from .base import Companion, Gate
from .continuing import SMALL, ContinuingMemory
from .finding import How
from .items import Change, Item
from .procedures import Later, corrected, counted, critical, fails, unusable, workflow_text
from .written import Attempted, Written, as_traces

_HEAD = "How such a task is done:"
"""The line that a small model goes on with."""
Build = Literal["script", "round"]
"""How a workflow is made of a trajectory: as a paragraph, or by way of events."""
Update = Literal["vanilla", "validation", "reflect"]
"""What an episode adds."""
Credit = Literal["first", "all"]
"""Which of the procedures that were shown a use counts for."""


class ProcedureMemory(ContinuingMemory):
    """Procedures of earlier tasks.

    Args:
        build: How a workflow is made.
        update: What an episode adds.
        credit: Which of the procedures shown a use counts for.
        min_score: Least cosine with the query; of no meaning for `retrieval="bm25"`.
        capacity: Most procedures kept.
        from_step: Step from which on they are shown; 0 is the first.
        options: As for `WrittenMemory`, and `form`.

    Raises:
        UserError: A value that isn't possible, or dense retrieval without an embedder.
    """

    name = "memp"
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {
        "port": {"k": 1, "retrieval": "bm25", "tokenizer": "whitespace", "from_step": 1, "temperature": 0.7},
        "small": SMALL | {"k": 1, "build": "round"},
    }

    def __init__(
        self,
        *,
        model: ChatModel,
        embedder: Embedder | None = None,
        k: int = 10,
        retrieval: How = "dense",
        build: Build = "script",
        update: Update = "vanilla",
        credit: Credit = "first",
        min_score: float = 0.5,
        capacity: int = 1000,
        from_step: int = 0,
        gate: Gate = "environment",
        temperature: float = 0.2,
        max_tokens: int = 4096,
        **options: Any,
    ) -> None:
        options |= {"gate": gate, "temperature": temperature, "max_tokens": max_tokens}
        super().__init__(model=model, embedder=embedder, k=k, retrieval=retrieval, **options)
        for name, value, allowed in (
            ("build", build, get_args(Build)),
            ("update", update, get_args(Update)),
            ("credit", credit, get_args(Credit)),
        ):
            if value not in allowed:
                raise UserError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        if capacity < 1 or from_step < 0 or not -1 <= min_score <= 1:
            raise UserError("capacity must be 1 or more, from_step 0 or more, and min_score from -1 to 1")
        self.build, self.update, self.credit = build, update, credit
        self.min_score, self.capacity, self.from_step = min_score, capacity, from_step

    def prompts(self) -> tuple[str, ...]:
        """The prompts of the chosen build and update."""
        made = ("memp_script",) if self.build == "script" else ("memp_events", "memp_critical")
        return tuple(map(self._named, (*made, "memp_reflect") if self.update == "reflect" else made))

    def parameters(self) -> dict[str, Any]:
        """Build, update, credit, threshold, capacity, and from when on it is shown."""
        names = ("build", "update", "credit", "min_score", "capacity", "from_step")
        return {name: getattr(self, name) for name in names}

    def found_by(self, data: dict[str, Any]) -> str:
        """The query."""
        return str(data.get("query", ""))

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """The workflows of the most similar tasks."""
        hits = self.find(task.retrieval_key, items, session)
        near = [hit for hit in hits if self.finder.how != "dense" or hit[1] >= self.min_score]
        traces = as_traces(near, "query", workflow_text)
        payload = "\n\n".join(f"Task: {trace.description}\n{trace.text}" for trace in traces)
        far = len(hits) - len(near)
        return Recall(payload=payload, traces=traces, notes={"below_min_score": far} if far else {})

    def companion(self, task: Task, snapshot: int, recall: Recall) -> Companion | None:
        """Holds the payload back until `from_step`."""
        return Later(recall.payload, self.from_step) if self.from_step else None

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """Counts uses, deletes what fails too often, then appends or rewrites as `update` says."""
        note: dict[str, Any] = {}
        now = {item.id: item.data for item in items}
        shown = [trace.trace_id for trace in attempted.recall.traces]
        used = [item for item in (shown[:1] if self.credit == "first" else shown) if item in now]
        for item in used:
            now[item] = counted(now[item], attempted.success)
        gone = [item for item in used if fails(now[item])]
        for item in gone:
            del now[item]
        if not attempted.success and self.update == "reflect":
            if shown[:1] and shown[0] in now:
                now[shown[0]] = self._rewritten(now[shown[0]], attempted, session, note)
            else:
                note["unchanged"] = "no procedure was shown that is still there"
        added: list[Change] = []
        if attempted.success or self.update == "vanilla":
            added = self._added(attempted, list(now.values()), session, note)
        changes = [Change("delete", "procedure", item=item) for item in gone]
        changes += [Change("update", "procedure", now[item], item) for item in used if item in now]
        return Written(changes + added, note)

    def _added(
        self, attempted: Attempted, known: list[dict[str, Any]], session: Session, note: dict[str, Any]
    ) -> list[Change]:
        task = attempted.trajectory.task
        if any(data["query"] == task.retrieval_key for data in known):
            note["not_added"] = "there is a procedure for this query"
        elif len(known) >= self.capacity:
            note["not_added"] = f"the memory is full ({self.capacity})"
        else:
            workflow = self._built(attempted, session)
            if not (why := unusable(workflow)):
                entry = {"query": task.retrieval_key, "workflow": workflow, "facts": task.task_type}
                counts = {"hits": 0, "successes": 0, "build": self.build, "task_ids": [task.task_id]}
                return [Change("insert", "procedure", entry | counts)]
            note["not_added"] = why
        return []

    def _built(self, attempted: Attempted, session: Session) -> str | list[str]:
        """A paragraph, or the actions of the events that the model takes for critical."""
        if self.build == "script":
            paragraph = self.ask("memp_script", session, attempted).removeprefix(_HEAD).strip()
            return "" if self.is_copied(paragraph, "memp_script") else paragraph
        steps = attempted.trajectory.steps
        if self.trace_format == "actions":  # numbered without those that did nothing
            steps = tuple(step for step in steps if step.valid and step.action)
        events = self.ask("memp_events", session, attempted)
        return critical(self.ask("memp_critical", session, attempted, events=events), steps)

    def _rewritten(
        self, data: dict[str, Any], attempted: Attempted, session: Session, note: dict[str, Any]
    ) -> dict[str, Any]:
        """The procedure with its workflow corrected after a failure, or as it is if the answer has none."""
        workflow = corrected(self.ask("memp_reflect", session, attempted, workflow=workflow_text(data)))
        if why := unusable(workflow):
            note["unchanged"] = why
            return data
        tasks = dict.fromkeys([*data["task_ids"], attempted.trajectory.task.task_id])
        return data | {"workflow": workflow, "task_ids": list(tasks)}
