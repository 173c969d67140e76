"""Step by step: an agent asks its memory, weighs what comes, and writes it anew for the step to come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..benchmarks.base import Observation
from ..curation import Curator
from ..parsing import strip_thinking
from ..prompts import load_prompt
from ..records import Message, Step, Task
from ..session import Session
from ..traces import cut_middle, fit
from .items import Item

if TYPE_CHECKING:
    from .memharness import MemHarness

LONGEST = 1200
"""Characters of a memory, of its situation and of a query (published by MemHarness)."""
_SEEN = 4000
"""Characters of the present observation in a prompt."""
_QUERY = re.compile(r"<query>(.*?)(?:</query>|<query>|\Z)", re.S | re.I)
_REJECTED = re.compile(r"\W*(?:NONE\b.*|[Nn]one\W*)", re.S)


class Asking:
    """One episode's dealings with a memory."""

    def __init__(self, memory: MemHarness, task: Task, items: list[Item]) -> None:
        self.memory = memory
        self.task = task
        self.items = items
        self.steps: list[dict[str, Any]] = []
        self.guidance = ""

    def advise(self, past: Sequence[Step], now: Observation, session: Session) -> str:
        """What memory means for the step to come; empty for nothing."""
        asked = self.steps[-1]["step"] if self.steps else None
        if self.items and (asked is None or len(past) - asked >= self.memory.every):
            self._look(past, now, session)
        return self.guidance

    def notes(self) -> dict[str, Any]:
        """When memory was asked, for what, and what it gave: numbers of items."""
        return {"steps": self.steps}

    def _look(self, past: Sequence[Step], now: Observation, session: Session) -> None:
        """Ask memory once; what was rebuilt stands until it is asked again."""
        texts = self._situation(past, now)
        query = self._query(texts, len(past), session)
        found = self.memory.near(query, self.items, session) if query else []
        self.guidance = self._rebuilt(texts, found, len(past), session) if found else ""
        self.steps.append({"step": len(past), "query": query, "shown": [one.id for one in found]})

    def _query(self, texts: dict[str, str], step: int, session: Session) -> str:
        if self.memory.form == "continue":
            return folded(self._ask("memharness_query_continue", texts, step, session, stop="\n")[0])
        said = _QUERY.search(self._ask("memharness_query", texts, step, session)[0])
        return folded(said[1]) if said else ""

    def _rebuilt(self, texts: dict[str, str], found: list[Item], step: int, session: Session) -> str:
        if self.memory.form == "continue":
            tasks = [f"Task: {one.data['situation']}\nSteps to do it:\n{one.data['text']}" for one in found]
            texts = {"memories": "\n\n".join(tasks)} | texts
            answer, asked = self._ask("memharness_rebuild_continue", texts, step, session, stop="\n\n")
            return Curator.plan_text(asked, answer) if answer else ""
        memories = "\n\n".join(_block(number, one) for number, one in enumerate(found, 1))
        answer, _ = self._ask("memharness_rebuild", texts | {"memories": memories}, step, session)
        return "" if _REJECTED.fullmatch(answer) else answer

    def _situation(self, past: Sequence[Step], now: Observation) -> dict[str, str]:
        recent = past[-self.memory.history :] if self.memory.history else ()
        lines = [
            f"You saw: {cut_middle(one.observation, LONGEST).text}\nYou did: {one.action}" for one in recent
        ]
        done = [f"{number}. {' '.join(one.action.split())}" for number, one in enumerate(past, 1)]
        task = self.task.description
        if self.memory.form == "continue":  # one line, since a blank one ends what is to be continued
            task = " ".join(task.split())
        return {
            "task": task,
            "turns": "\n".join(lines) or "(none)",
            "observation": cut_middle(now.text, _SEEN).text,
            "steps": "\n".join([*done, f"{len(past) + 1}."]),
        }

    def _ask(
        self, prompt: str, texts: dict[str, str], step: int, session: Session, stop: str = ""
    ) -> tuple[str, tuple[Message, ...]]:
        """The model's answer, its think blocks removed, and the prompt.

        Texts too long for its context lose their middle.
        """
        model, sampling, template = self.memory.model, self.memory.step_sampling, load_prompt(prompt)
        texts = {name: text for name, text in texts.items() if f"{{{name}}}" in template.text}
        frame = template.messages(**dict.fromkeys(texts, ""))
        spare = model.context - sampling.max_tokens - 64
        spare -= sum(model.count_tokens(message.content) for message in frame)
        cut = fit(list(texts.values()), spare, model.count_tokens)
        messages = template.messages(**{name: one.text for name, one in zip(texts, cut, strict=True)})
        sampling = sampling.model_copy(update={"stop": (stop,) if stop else ()})
        if sampling.temperature > 0:
            sampling = sampling.model_copy(update={"seed": session.seed(f"{prompt}:{step}")})
        answer = session.chat("curator", model, messages, sampling)
        return strip_thinking(answer), messages


def folded(value: Any) -> str:
    """A model's text on one line, at most as long as a memory; empty for anything else."""
    return " ".join(value.split())[:LONGEST].strip() if isinstance(value, str) else ""


def _block(number: int, memory: Item) -> str:
    ended = "succeeded" if memory.data["success"] else "failed"
    situation = memory.data["situation"] or "(not told)"
    return f"Memory {number}, from an episode that {ended}\nSituation: {situation}\n{memory.data['text']}"
