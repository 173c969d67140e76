"""What write-time memories share: after each episode a model turns it into items; a recall shows some.

A system on this base says what it writes (`digest`) and what it shows (`show`); gate, store, history, warm
start, retrieval and accounting are here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, get_args

from ..bank import MemoryBank
from ..embedding import Embedder
from ..errors import UserError
from ..execution import without_thinking
from ..models.base import ChatModel, Reply
from ..parsing import strip_thinking
from ..prompts import load_prompt
from ..records import Episode, Message, Recall, RetrievedTrace, Sampling, Task, Tool, Trajectory, to_json
from ..session import Session
from ..traces import TraceFormat, fit, trace_text
from .base import Companion, Gate, asks_judge, decide
from .finding import Finder, How
from .items import Change, Item, ItemStore


class Attempted(NamedTuple):
    """A finished episode as a writer sees it."""

    key: str
    """Key of the write: the episode's, or one made of a demonstration's hash."""
    trajectory: Trajectory
    """What was done."""
    success: bool
    """What the gate says of it."""
    recall: Recall
    """What memory had given for it."""
    rationale: str = ""
    """The judge's words."""


class Written(NamedTuple):
    """What one episode adds."""

    changes: list[Change]
    """To be applied in order, all or none."""
    note: dict[str, Any] = {}  # noqa: RUF012  (never written to)
    """What is worth keeping with the write: what the model said that could not be used, and why."""
    keep: bool = False
    """Whether the trajectory itself goes into the bank too; items with `"trace": None` get its number."""


class WrittenMemory:
    """Base of the write-time systems.

    Args:
        model: The model that writes (the system's own curator; the executor's in the paper's rows).
        k: Records shown.
        retrieval: How they are found.
        embedder: For `retrieval="dense"`.
        gate: Who says whether an episode was a success. Published are a model's verdict (`judge`) and, with
            MemP, Reflexion, ExpeL and MemHarness, the environment's word; each system's page says which it
            takes.
        exclude_own: Nothing written after an episode of the very task is shown for it.
        trace_format: How a trajectory is written into the writer's prompt.
        max_tokens, temperature, thinking: Sampling of the writer; its answers are never allowed more than
            half of its context.
        tokenizer, idf: Of BM25.
    """

    name: ClassVar[str] = ""

    def __init__(
        self,
        *,
        model: ChatModel,
        k: int = 1,
        retrieval: How = "bm25",
        embedder: Embedder | None = None,
        gate: Gate = "judge",
        exclude_own: bool = True,
        trace_format: TraceFormat = "full",
        max_tokens: int = 1024,
        temperature: float = 0.7,
        thinking: bool | None = None,
        tokenizer: str = "words",
        idf: str = "okapi",
    ) -> None:
        if k < 1:
            raise UserError(f"k must be 1 or more, not {k}")
        if max_tokens < 1 or not 0 <= temperature < math.inf:
            raise UserError(
                f"max_tokens must be 1 or more, and temperature 0 or more, not {max_tokens} and {temperature}"
            )
        if trace_format not in get_args(TraceFormat):
            formats = ", ".join(get_args(TraceFormat))
            raise UserError(f"trace_format must be one of {formats}, not {trace_format!r}")
        self.model = model
        self.k = k
        self.gate = gate
        self.exclude_own = exclude_own
        self.trace_format = trace_format
        longest = min(max_tokens, model.context // 2)
        self.sampling = Sampling(temperature=temperature, max_tokens=longest, thinking=thinking)
        self.finder = Finder(retrieval, embedder, tokenizer, idf)
        decide(gate, None)
        self._store: ItemStore | None = None
        self._bank: MemoryBank | None = None

    @property
    def needs_judge(self) -> bool:
        """Whether a model's verdict decides or labels."""
        return asks_judge(self.gate)

    @property
    def store(self) -> ItemStore:
        """The open store of items."""
        if self._store is None:
            raise UserError("open the memory before it is asked")
        return self._store

    @property
    def bank(self) -> MemoryBank:
        """The bank in the same file: whole trajectories, for systems that keep some."""
        if self._bank is None:
            raise UserError("open the memory before it is asked")
        return self._bank

    def prompts(self) -> tuple[str, ...]:
        """Names of the prompts that it uses; their hashes are recorded."""
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        """The system's own parameters beyond the shared ones."""
        return {}

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """What one episode adds to `items`, the state before it."""
        raise NotImplementedError

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """What is given for `task` from `items`, the state of the snapshot."""
        raise NotImplementedError

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers."""
        return {
            "name": self.name,
            "k": self.k,
            "gate": self.gate,
            "exclude_own": self.exclude_own,
            "retrieval": self.finder.settings(),
            "trace_format": self.trace_format,
            "model": self.model.identity(),
            "context": self.model.context,
            "sampling": self.sampling.model_dump(),
            "prompts": {name: load_prompt(name).hash for name in self.prompts()},
        } | self.parameters()

    def open(self, folder: Path | None) -> None:
        """Open or create the store in `bank.sqlite` of the run directory."""
        path = None if folder is None else folder / "bank.sqlite"
        self._bank = MemoryBank(":memory:" if path is None else path)
        self._store = ItemStore(":memory:" if path is None else path)
        self.finder.open(path)

    def close(self) -> None:
        """Close the store; calling it twice is fine."""
        for part in (self._store, self._bank, self.finder):
            if part is not None:
                part.close()
        self._store = self._bank = None

    def snapshot(self) -> int:
        """Number of writes so far."""
        return self.store.version()

    def warm(self, trajectories: Sequence[Trajectory], session: Session) -> None:
        """Write what demonstrations teach, one after the other, each as a success."""
        for trajectory in trajectories:
            key = f"warm:{trajectory.hash}"
            if not self.store.written(key):
                self._write(Attempted(key, trajectory, True, Recall()), session)

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """What memory gives for `task`, seen from `snapshot`."""
        items = self.store.items(at=snapshot)
        own = [item for item in items if self.exclude_own and self.is_own(item, task)]
        shown = self.show(task, [item for item in items if item not in own], session)
        return shown.model_copy(
            update={
                "query": shown.query or task.retrieval_key,
                "bank_size": len(items),
                "self_excluded": len(own),
            }
        )

    def is_own(self, item: Item, task: Task) -> bool:
        """Whether an item tells of an earlier episode of this very task."""
        return task.task_id in writers(item)

    def companion(self, task: Task, snapshot: int, recall: Recall) -> Companion | None:
        """Nothing is given step by step."""
        return None

    def remember(self, episode: Episode, session: Session) -> dict[str, Any]:
        """Write what the episode teaches, durably and whole or not at all; twice changes nothing."""
        trajectory = episode.trajectory
        if trajectory is None or episode.outcome == "error":
            return {"stored": False, "why": "no finished trajectory"}
        success = decide(self.gate, episode)
        if success is None:
            return {"stored": False, "why": "no usable verdict"}
        if self.store.written(episode.key):
            return {"stored": True}
        attempted = Attempted(episode.key, trajectory, success, episode.recall, episode.verdict.rationale)
        return {"stored": True} | self._write(attempted, session)

    def _write(self, attempted: Attempted, session: Session) -> dict[str, Any]:
        added = self.digest(attempted, self.store.items(), session)
        texts = [text for change in added.changes if (text := self.found_by(change.data or {}))]
        self.finder.learn(texts, session)
        note, changes = dict(added.note), added.changes
        if added.keep:
            labels = {"success": attempted.success, "gate": self.gate, "reward": attempted.trajectory.reward}
            kept = without_thinking(attempted.trajectory)
            note["trace"] = self.bank.append([(attempted.key, kept, labels)])[0]
            changes = [_numbered(change, note["trace"]) for change in changes]
        items = self.store.apply(attempted.key, changes, note)
        return {
            "items": [
                {"op": change.op, "kind": change.kind, "item": item}
                for change, item in zip(changes, items, strict=True)
            ],
            **({"note": note} if note else {}),
        }

    def found_by(self, data: dict[str, Any]) -> str:
        """The text by which an item is found; empty for items that aren't searched for."""
        return ""

    def find(
        self, query: str, items: Sequence[Item], session: Session, k: int | None = None
    ) -> list[tuple[Item, float]]:
        """The items most like a text (`k` of them, None: the memory's own), best first, with their scores."""
        texts = [self.found_by(item.data) for item in items]
        hits = self.finder.find(query, texts, self.k if k is None else k, session)
        return [(items[hit.place], hit.score) for hit in hits]

    def trace(self, trajectory: Trajectory, fixed: Sequence[Message]) -> str:
        """A trajectory for the writer's prompt, its middle cut where it and `fixed` exceed the context."""
        frame = sum(self.model.count_tokens(message.content) for message in fixed)
        budget = self.model.context - self.sampling.max_tokens - frame - 64
        return fit([trace_text(trajectory, self.trace_format)], budget, self.model.count_tokens)[0].text

    def ask(self, prompt: str, session: Session, attempted: Attempted, **fields: str) -> str:
        """The writer's answer to a prompt about an episode, think blocks removed; see `answer`."""
        return strip_thinking(self.answer(prompt, session, attempted, (), **fields).text)

    def answer(
        self, prompt: str, session: Session, attempted: Attempted, tools: Sequence[Tool], **fields: str
    ) -> Reply:
        """The writer's whole reply to a prompt about an episode, with the tools that it calls.

        The prompt may use `{task}`, `{result}`, `{trace}` and the fields given.

        Raises:
            InfrastructureError: The model's server failed.
            UserError: Tools are offered to a model that takes none.
        """
        template = load_prompt(prompt)
        result = "success" if attempted.success else "failure"
        known = {"task": attempted.trajectory.task.description, "result": result} | fields
        offered = Message(role="system", content=to_json(tools) if tools else "")
        text = self.trace(attempted.trajectory, [*template.messages(**known, trace=""), offered])
        sampling = self.sampling
        if sampling.temperature > 0:
            sampling = sampling.model_copy(update={"seed": session.seed(f"{prompt}:{attempted.key}")})
        messages = template.messages(**known, trace=text)
        return session.reply("distiller", self.model, messages, sampling, tools=tools)


def writers(item: Item) -> list[str]:
    """Ids of the tasks whose episodes wrote an item: `task_ids` in its data, or `task_id` where it is one."""
    one = [item.data["task_id"]] if "task_id" in item.data else []
    return [*item.data.get("task_ids", []), *one]


def as_traces(
    hits: Sequence[tuple[Item, float]], description: str, text: Callable[[dict[str, Any]], str]
) -> tuple[RetrievedTrace, ...]:
    """Items that were found, as the record of a recall shows them.

    Args:
        hits: Items with their scores, best first.
        description: The field of an item that says what it is of.
        text: Gives what of an item's fields is shown.
    """
    return tuple(
        RetrievedTrace(
            trace_id=item.id,
            rank=rank,
            score=score,
            task_id=writers(item)[0],
            description=item.data[description],
            text=text(item.data),
        )
        for rank, (item, score) in enumerate(hits, 1)
    )


def _numbered(change: Change, trace: int) -> Change:
    """The change with the number of the trajectory that was kept, where its item wants to know it."""
    data = change.data
    wanted = data is not None and "trace" in data and data["trace"] is None
    return change._replace(data={**(data or {}), "trace": trace}) if wanted else change
