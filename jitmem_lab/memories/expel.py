"""expel: rules that a model adds, edits, backs and votes away, shown with the most similar successes.

Stores: a numbered list of at most 20 rules, each with its importance and the tasks that its wording came
    from; and every attempt as a whole trajectory in the bank of the same file, for contrast and as
    examples.
Written: after every episode by one model call where a failure and a success can be set side by side (a
    failure with the most similar success; a failure before any success waits for one), and after every
    eighth success by one more over those eight. The answer is a list of operations: ADD a rule (importance
    2), EDIT one (+1), AGREE (+1), REMOVE (-1; a rule at 0 goes).
Found: all rules, the most important first; successes by cosine between task sentences, 4 k of them fetched,
    of which the first k different tasks that are short enough are taken.
Shown: the rules as a numbered list, then k = 2 successes as solved examples.
Costs: None, one or two calls of the writer after an episode, none before it; the task is embedded before each
    episode, and once for an attempt.
Source: arXiv 2308.10144; github.com/LeapLabTHU/ExpeL (20 rules, sets of 8, 2 examples, all-mpnet-base-v2,
    at most 4 operations an answer, temperature 0, no reranker by default; a success is what the environment
    says). The JitMem authors have no port
    of it. The variant `small` is for models of a few hundred million parameters: they add rules only.
Chosen here: a success is what the judge says (`gate="environment"` is as published). The published method
    gathers all attempts first, up to 4 a task, and contrasts those of one task; a stream has one attempt a
    task, so a failure is contrasted once, with the attempt whose task is most alike (the same task's, where
    there is one). Sets are the next 8 successes in order, not random ones. Operations are applied in the
    order given, and their numbers mean the list as it was shown; one that is malformed, names no rule of the
    list, repeats a rule, is the fifth, the second for a rule, or an ADD to a full list is refused and noted
    (the published code lets the list run over and then takes 3 off for a REMOVE, and finds a rule by its text
    alone). As published, a rule that is no finished sentence counts as cut off, and an EDIT to the words of a
    rule that is there is an AGREE. An example longer than `max_shot_tokens` is taken only if there are too
    few others, and loses its middle. For the task that a rule's wording came from, it isn't shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, ClassVar

from ..embedding import Embedder
from ..errors import UserError
from ..models.base import ChatModel
from ..parsing import strip_thinking
from ..prompts import load_prompt
from ..records import Recall, RetrievedTrace, Task, Trajectory
from ..session import Session
from ..traces import cut_middle, fit, trace_text
from .continuing import SMALL, ContinuingMemory
from .finding import How
from .items import Change, Item
from .rules import Rule, changes, operate, ranked
from .written import Attempted, Written

FETCHED = 4
"""Successes looked at for each that is shown (published)."""
FAILED, SUCCEEDED = "Failed attempt", "Successful attempt"
_FULL = "The list is full: remove rules before you add one.\n"


class Expel(ContinuingMemory):
    """ExpeL: a list of rules under votes, and similar successes as examples.

    Args:
        k: Successes shown.
        retrieval, embedder: How similar attempts are found.
        max_rules: Longest list.
        set_size: Successes that are looked at together.
        max_shot_tokens: Tokens of one success as it is shown, by the count of `model`.
        options: As for `WrittenMemory`, and `form`.

    Raises:
        UserError: A limit below 1, or dense retrieval without an embedder.
    """

    name = "expel"
    VARIANTS: ClassVar[dict[str, dict[str, Any]]] = {"small": SMALL}
    ASKED = ("expel_contrast", "expel_successes")

    def __init__(
        self,
        *,
        model: ChatModel,
        k: int = 2,
        retrieval: How = "dense",
        embedder: Embedder | None = None,
        temperature: float = 0.0,
        max_rules: int = 20,
        set_size: int = 8,
        max_shot_tokens: int = 1000,
        **options: Any,
    ) -> None:
        super().__init__(
            model=model, k=k, retrieval=retrieval, embedder=embedder, temperature=temperature, **options
        )
        if min(max_rules, set_size, max_shot_tokens) < 1:
            raise UserError("max_rules, set_size and max_shot_tokens must be 1 or more")
        self.max_rules = max_rules
        self.set_size = set_size
        self.max_shot_tokens = max_shot_tokens

    def parameters(self) -> dict[str, Any]:
        """The limits."""
        return {
            "max_rules": self.max_rules,
            "set_size": self.set_size,
            "max_shot_tokens": self.max_shot_tokens,
        }

    def found_by(self, data: dict[str, Any]) -> str:
        """An attempt's task; rules are not searched."""
        return str(data.get("query", ""))

    def digest(self, attempted: Attempted, items: list[Item], session: Session) -> Written:
        """The attempt itself, and what one or two answers do to the rules."""
        task, success = attempted.trajectory.task, attempted.success
        trials = [item for item in items if item.kind == "trial"]
        before = rules = ranked(items)
        edits: list[dict[str, Any]] = []
        closed: list[Item] = []
        waiting = True
        others = [one for one in trials if one.data["success"] != success]
        if success:
            others = [one for one in others if one.data["open"]]
        if others:
            other = self.find(task.retrieval_key, others, session, 1)[0][0]
            both = [(FAILED, attempted.trajectory), (SUCCEEDED, self._kept(other))]
            if success:
                both = [(FAILED, self._kept(other)), (SUCCEEDED, attempted.trajectory)]
                closed.append(other)
            rules, edit = self._edited("expel_contrast", rules, both, attempted.key, session)
            edits.append({"contrast": other.id} | edit)
            waiting = success
        group = [one for one in trials if one.data["success"] and one.data["open"]]
        if success and len(group) + 1 >= self.set_size:
            every = [(SUCCEEDED, self._kept(one)) for one in group] + [(SUCCEEDED, attempted.trajectory)]
            rules, edit = self._edited("expel_successes", rules, every, attempted.key, session)
            edits.append({"successes": [one.id for one in group]} | edit)
            closed += group
            waiting = False
        trial = {"task_id": task.task_id, "query": task.retrieval_key, "success": success, "open": waiting}
        made = [Change("insert", "trial", trial | {"trace": None})]
        made += [Change("update", "trial", one.data | {"open": False}, one.id) for one in closed]
        return Written(made + changes(before, rules), {"edits": edits} if edits else {}, keep=True)

    def is_copied(self, text: str, prompt: str) -> bool:
        """Whether a text repeats the prompt, word for word or nearly: small models do."""
        lines = load_prompt(self._named(prompt)).text.splitlines()
        examples = [line.partition(": ")[2] for line in lines if line.startswith(("ADD: ", "EDIT "))]
        return super().is_copied(text, prompt) or bool(difflib.get_close_matches(text, examples, 1, 0.8))

    def _kept(self, trial: Item) -> Trajectory:
        return self.bank.get(trial.data["trace"]).trajectory

    def _edited(
        self,
        prompt: str,
        rules: list[Rule],
        records: Sequence[tuple[str, Trajectory]],
        key: str,
        session: Session,
    ) -> tuple[list[Rule], dict[str, Any]]:
        """The rules after one answer, and what was done and refused."""
        template, count = load_prompt(self._named(prompt)), self.model.count_tokens
        listed = "\n".join(f"{number}. {rule.text}" for number, rule in enumerate(rules, 1)) or "(none yet)"
        fields = {"rules": listed, "full": _FULL if len(rules) >= self.max_rules else ""}
        heads = [
            f"{head}\nTask: {cut_middle(one.task.description, 2000).text}\nWhat happened:\n"
            for head, one in records
        ]
        frame = template.messages(**fields, records="\n\n".join(heads))
        spare = self.model.context - self.sampling.max_tokens - 64
        spare -= sum(count(message.content) + 4 for message in frame)
        texts = fit([trace_text(one, self.trace_format) for _, one in records], spare, count)
        blocks = [head + text.text for head, text in zip(heads, texts, strict=True)]
        sampling = self.sampling
        if sampling.temperature > 0:
            sampling = sampling.model_copy(update={"seed": session.seed(f"{prompt}:{key}")})
        messages = template.messages(**fields, records="\n\n".join(blocks))
        answer = strip_thinking(session.chat("distiller", self.model, messages, sampling))
        if self.form == "continue":  # the prompt began the first operation
            answer = f"{template.text.splitlines()[-1]} {answer}"
        tasks = [one.task.task_id for _, one in records]
        edited = operate(rules, answer, self.max_rules, tasks, lambda text: self.is_copied(text, prompt))
        return edited.rules, {"done": edited.done, "refused": edited.refused}

    def show(self, task: Task, items: list[Item], session: Session) -> Recall:
        """All rules, and the successes most like the task."""
        rules = ranked(items)
        traces = self._shots(task, [one for one in items if one.data.get("success")], session)
        listed = [f"{number}. {rule.text}" for number, rule in enumerate(rules, 1)]
        head = ["Rules learned on earlier tasks, the most important first:"]
        parts = ["\n".join(head + listed)] if rules else []
        parts += [f"Task: {trace.description}\nSteps to do it:\n{trace.text}" for trace in traces]
        notes = {"rules": [rule.item for rule in rules]}
        return Recall(payload="\n\n".join(parts), traces=traces, notes=notes)

    def _shots(self, task: Task, successes: list[Item], session: Session) -> tuple[RetrievedTrace, ...]:
        near: dict[str, tuple[Item, float]] = {}
        for item, score in self.find(task.retrieval_key, successes, session, FETCHED * self.k):
            near.setdefault(item.data["task_id"], (item, score))
        whole: list[RetrievedTrace] = []
        cut: list[RetrievedTrace] = []
        for item, score in near.values():
            kept = self._kept(item)
            text = trace_text(kept, self.trace_format)
            short = fit([text], self.max_shot_tokens, self.model.count_tokens)[0]
            shot = RetrievedTrace(
                trace_id=item.data["trace"],
                rank=0,
                score=score,
                task_id=item.data["task_id"],
                description=kept.task.description,
                text=short.text,
                cut_chars=short.cut_chars,
            )
            (cut if short.cut_chars else whole).append(shot)
        shown = enumerate((whole + cut)[: self.k], 1)
        return tuple(shot.model_copy(update={"rank": rank}) for rank, shot in shown)
