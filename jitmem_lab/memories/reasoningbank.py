"""reasoningbank: lessons drawn from successes and failures, those of the most similar earlier task shown.

Stores: Per episode one record of at most three items (title, description, content), with the task that it
    came from and whether that was a success.
Written: After every episode, by one model call; a success and a failure have a prompt each, and the judge's
    words go into it.
Found: By the task alone, by cosine of sentence embeddings; the task at hand is embedded behind a line of
    instruction. The best record is taken (k = 1, at most 10).
Shown: All items of the records found, best record first, as they were written.
Source: ArXiv 2509.25140; github.com/google-research/reasoning-bank (WebArena and SWE-bench). Extraction at
    temperature 1.0 as in the paper and its SWE-bench code (0.7 in its WebArena code). The variant `port` is
    that of the JitMem authors' harness: BM25 over words split at white space, k = 3, temperature 0.7, 1,024
    tokens.
Chosen here: 1,024 tokens (none published); the record holds what the agent saw and did, not its thoughts; an
    item beyond the third, one that repeats another, and one without content are left out and noted; an
    episode without a usable item gives no record; a lesson's source (success or failure) is not told to the
    executor, as published. The published embedder (3,072 numbers) is not in any package: any embedder serves.
    Not built: several attempts compared at once (test-time scaling). Not followed: the released drivers take
    a reward of 0 for a success.
"""

from __future__ import annotations

import re
from typing import Any, ClassVar

from ..embedding import Embedder
from ..errors import UserError
from ..models.base import ChatModel
from ..records import Recall, RetrievedTrace, Task
from ..session import Session
from ..traces import cut_middle
from .finding import How
from .items import Change, Item
from .written import Attempted, Written, WrittenMemory

MOST_ITEMS = 3
"""Items of one record (published)."""
MOST_RECORDS = 10
"""Largest `k` (published)."""
INSTRUCTION = "Find the earlier tasks whose lessons help with this one."
"""What stands before the task at hand when it is embedded."""

_LONGEST = {"title": 200, "description": 500, "content": 2000}
"""Characters of each field; a title is a few words, a description one sentence, the content one to three."""
_HEAD = re.compile(r"[#*>\-\s]*memory\s+items?\s*(?:\d|[:*.]|$)[\s:.*\-\d]*", re.I)
_FIELD = re.compile(r"(\W*)(?:\d+\W+)?(title|description|content)\b[*_\s]*([:：]?)[*_\s]*", re.I)


class ReasoningBank(WrittenMemory):
    """ReasoningBank: items of title, description and content, from success and failure.

    Args:
        k: Records shown.
        retrieval, embedder: How records are found.
        instruction: What stands before the task at hand when it is embedded; empty for nothing.
        options: As for `WrittenMemory`.

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
        }
    }

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

    def prompts(self) -> tuple[str, ...]:
        """One for successes, one for failures."""
        return ("reasoningbank_success", "reasoningbank_failure")

    def parameters(self) -> dict[str, Any]:
        """The instruction, where it is used."""
        return {"instruction": self.instruction} if self.finder.how == "dense" else {}

    def found_by(self, data: dict[str, Any]) -> str:
        """The task that the record came from."""
        return str(data["query"])

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """One record, or none where the answer holds no item."""
        prompt = "reasoningbank_success" if attempted.success else "reasoningbank_failure"
        judgement = cut_middle(attempted.rationale.strip(), 2000).text or "(nothing)"
        answer = self.ask(prompt, session, attempted, judgement=judgement)
        kept, refused = memory_items(answer)
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
        hits = self.finder.find(query, [self.found_by(item.data) for item in items], self.k, session)
        traces = tuple(
            RetrievedTrace(
                trace_id=items[hit.place].id,
                rank=rank,
                score=hit.score,
                task_id=items[hit.place].data["task_id"],
                description=items[hit.place].data["query"],
                text="\n\n".join(item_text(one) for one in items[hit.place].data["items"]),
            )
            for rank, hit in enumerate(hits, 1)
        )
        return Recall(payload="\n\n".join(trace.text for trace in traces), traces=traces)


def item_text(item: dict[str, str]) -> str:
    """An item as the executor reads it."""
    return "\n".join(f"{name.capitalize()}: {item[name]}" for name in _LONGEST if item.get(name))


def memory_items(answer: str) -> tuple[list[dict[str, str]], list[str]]:
    """The items in a model's answer, at most three, and why others were left out.

    Read are Markdown headings (`# Memory Item 1`, `## Title …`) and plain lines (`Title: …`), in bold or in
    a list too; a field goes on to the next blank line or field.
    """
    kept: list[dict[str, str]] = []
    refused = []
    for number, item in enumerate(_blocks(answer), 1):
        said = f"item {number} ({item['title'] or 'untitled'})"
        if not item["content"]:
            refused.append(f"{said}: no content")
        elif any(_same(item, one) for one in kept):
            refused.append(f"{said}: repeats an item before it")
        elif len(kept) == MOST_ITEMS:
            refused.append(f"{said}: more than {MOST_ITEMS}")
        else:
            kept.append(item)
    return kept, refused


def _blocks(answer: str) -> list[dict[str, str]]:
    """What stands between one title or heading and the next, field by field, cut to its longest."""
    blocks: list[dict[str, list[str]]] = []
    field = ""
    for line in map(str.strip, answer.splitlines()):
        if line.startswith("```") or not line:
            if blocks and field and blocks[-1][field]:
                field = ""
            continue
        if head := _HEAD.match(line):
            blocks.append({})
            field, line = "", line[head.end() :]
            if line and not _field(line):  # the heading holds the title
                blocks[-1]["title"] = [line]
        if begun := _field(line):
            field, rest = begun
            if not blocks or (field in blocks[-1] and list(blocks[-1]) != ["title"]):
                blocks.append({})
            blocks[-1][field] = [rest] if rest else []
        elif field:
            blocks[-1][field].append(line)
    return [
        {name: " ".join(block.get(name, []))[:most] for name, most in _LONGEST.items()}
        for block in blocks
        if any(block.values())
    ]


def _field(line: str) -> tuple[str, str] | None:
    """The field that a line begins, and the rest of it; None for a line that goes on."""
    found = _FIELD.match(line)
    if found is None:
        return None
    rest = line[found.end() :].rstrip("* ")
    marked = found[3] or "#" in found[1] or "*" in found[1] or not rest
    return (found[2].lower(), rest) if marked else None


def _same(one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two items have the same title or the same content, but for case and white space."""
    return any(
        one[name] and one[name].casefold().split() == other[name].casefold().split()
        for name in ("title", "content")
    )
