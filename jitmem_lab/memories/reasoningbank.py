"""reasoningbank: lessons drawn from successes and failures, those of the most similar earlier task shown.

Stores: Per episode one record of at most three items (title, description, content), with the task that it
    came from and whether that was a success.
Written: After every episode, by one model call; a success and a failure have a prompt each, and the judge's
    words go into it.
Found: By the task alone, by cosine of sentence embeddings; the task at hand is embedded behind a line of
    instruction. The best record is taken (k = 1, at most 10).
Shown: All items of the records found, best record first, as they were written.
Costs: One call of the writer after each episode; the task is embedded before it and, once, after it.
Source: arXiv 2509.25140; github.com/google-research/reasoning-bank (WebArena and SWE-bench). Extraction at
    temperature 1.0 as in the paper and its SWE-bench code (0.7 in its WebArena code). The variant `port` is
    that of the JitMem authors' harness: BM25 over words split at white space, k = 3, temperature 0.7, 1,024
    tokens; its line above what it shows, "past relevant memories", is left out, since the executor's prompt
    has a heading of its own. The variant `small` is ours: a model of a few hundred million parameters
    continues a text.
Chosen here: 1,024 tokens (none published); the record holds what the agent saw and did, not its thoughts; an
    item beyond the third, one that repeats another or the prompt, and one without content are left out and
    noted; an episode without a usable item gives no record; a lesson's source (success or failure) is not
    told to the executor, as published. The published embedder (3,072 numbers) is in no package: any serves.
    Not built: several attempts compared at once (test-time scaling). Not followed: the released drivers take
    a reward of 0 for a success.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ..embedding import Embedder
from ..errors import UserError
from ..models.base import ChatModel
from ..records import Recall, Task
from ..session import Session
from ..traces import cut_middle
from .continuing import SMALL, ContinuingMemory
from .finding import How
from .items import Change, Item
from .lessons import item_text, memory_items
from .written import Attempted, Written, as_traces

MOST_RECORDS = 10
"""Largest `k` (published)."""
INSTRUCTION = "Find the earlier tasks whose lessons help with this one."
"""What stands before the task at hand when it is embedded."""


class ReasoningBank(ContinuingMemory):
    """ReasoningBank: items of title, description and content, from success and failure.

    Args:
        k: Records shown.
        retrieval, embedder: How records are found.
        instruction: What stands before the task at hand when it is embedded; empty for nothing.
        options: As for `WrittenMemory`, and `form`.

    Raises:
        UserError: `k` beyond 10, or dense retrieval without an embedder.
    """

    name = "reasoningbank"
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {
        "port": {
            "retrieval": "bm25",
            "tokenizer": "whitespace",
            "k": 3,
            "temperature": 0.7,
            "max_tokens": 1024,
        },
        "small": SMALL,
    }
    ASKED = ("reasoningbank_success", "reasoningbank_failure")

    def __init__(
        self,
        *,
        model: ChatModel,
        k: int = 1,
        retrieval: How = "dense",
        embedder: Embedder | None = None,
        instruction: str = INSTRUCTION,
        temperature: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(
            model=model, k=k, retrieval=retrieval, embedder=embedder, temperature=temperature, **options
        )
        if k > MOST_RECORDS:
            raise UserError(f"k is {k}, but reasoningbank shows {MOST_RECORDS} records at most")
        self.instruction = instruction

    def parameters(self) -> dict[str, Any]:
        """The instruction, where it is used."""
        return {"instruction": self.instruction} if self.finder.how == "dense" else {}

    def found_by(self, data: dict[str, Any]) -> str:
        """The task that the record came from."""
        return str(data["query"])

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """One record, or none where the answer holds no item."""
        prompt = self.ASKED[0] if attempted.success else self.ASKED[1]
        judgement = cut_middle(attempted.rationale.strip(), 2000).text or "(nothing)"
        answer = self.ask(prompt, session, attempted, judgement=judgement)
        kept, refused = memory_items(answer, lambda content: self.is_copied(content, prompt))
        note: dict[str, Any] = {"refused": refused} if refused else {}
        if not kept:
            return Written([], note | {"why": "no item in the answer", "answer": answer[:1000]})
        task = attempted.trajectory.task
        record = {
            "task_id": task.task_id,
            "query": task.retrieval_key,
            "success": attempted.success,
            "items": kept,
        }
        return Written([Change("insert", "record", record)], note)

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """The items of the most similar records."""
        query = task.retrieval_key
        if self.finder.how == "dense" and self.instruction:
            query = f"Instruct: {self.instruction}\nQuery: {query}"
        traces = as_traces(self.find(query, items, session), "query", _record_text)
        return Recall(payload="\n\n".join(trace.text for trace in traces), traces=traces)


def _record_text(record: dict[str, Any]) -> str:
    return "\n\n".join(item_text(one) for one in record["items"])
