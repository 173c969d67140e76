"""A numbered list of rules that a model edits by operations: ADD, EDIT, AGREE, REMOVE."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from .items import Change, Item

MOST_OPERATIONS = 4
"""Operations of one answer (published by ExpeL, in its prompt)."""
LONGEST_RULE = 600
"""Characters of a rule, which is one sentence."""
_OPERATION = re.compile(
    r"[^A-Za-z]*+(ADD|EDIT|AGREE|REMOVE)\b[\s*]*+(?:[Rr]ule|RULE)?[\s#]*+(\d{1,6})?[\s*]*+"
    r"(?:[:.)-]+[\s*]*(.*))?$"
)
_BEGUN = re.compile(r"[^A-Za-z]*+(?:ADD|EDIT|AGREE|REMOVE)\b")
_NAMED = re.compile(r"\b(?:ADD|EDIT|AGREE|REMOVE)\b")


class Rule(NamedTuple):
    """One rule of the list."""

    item: int | None
    """Its item in the store; None before its first write."""
    text: str
    """One sentence."""
    importance: int
    """2 when added, 1 more with each edit or agreement, 1 less with each vote against it; at 0 it goes."""
    task_ids: tuple[str, ...]
    """Tasks whose attempts the wording came from."""


class Edited(NamedTuple):
    """A list after the operations of one answer."""

    rules: list[Rule]
    """The rules that are left, the most important first."""
    done: list[str]
    """What was done."""
    refused: list[str]
    """What could not be done, and why."""


def ranked(items: Sequence[Item]) -> list[Rule]:
    """The rules among items, the most important first, the older first among equals."""
    rules = [
        Rule(item.id, item.data["text"], item.data["importance"], tuple(item.data["task_ids"]))
        for item in items
        if item.kind == "rule"
    ]
    return sorted(rules, key=lambda rule: -rule.importance)


def changes(before: Sequence[Rule], after: Sequence[Rule]) -> list[Change]:
    """What makes the one list out of the other in a store."""
    known = {rule.item: rule for rule in before}
    left = {rule.item for rule in after}
    made = [Change("delete", "rule", item=item) for item in known if item not in left]
    for rule in after:
        data = {"text": rule.text, "importance": rule.importance, "task_ids": list(rule.task_ids)}
        if rule.item is None:
            made.append(Change("insert", "rule", data))
        elif rule != known[rule.item]:
            made.append(Change("update", "rule", data, rule.item))
    return made


def operate(
    rules: Sequence[Rule],
    answer: str,
    most: int,
    task_ids: Sequence[str],
    copied: Callable[[str], bool] = lambda text: False,
) -> Edited:
    """Apply the operations in a model's answer, one a line, in the order given.

    Numbers mean the list as it was shown, whatever goes in between. Other lines are passed over.

    Args:
        rules: The list as it was shown.
        answer: The model's words, think blocks removed.
        most: Longest list.
        task_ids: Tasks whose attempts the model was shown.
        copied: Whether a text only repeats the prompt.
    """
    editing = _Editing(list(rules), most, tuple(task_ids), copied)
    done: list[str] = []
    refused: list[str] = []
    for line in answer.splitlines():
        said = _OPERATION.match(line)
        if said is None and not _BEGUN.match(line):
            continue
        why = "malformed"
        if said is not None and len(done) == MOST_OPERATIONS:
            why = f"more than {MOST_OPERATIONS} operations"
        elif said is not None:
            number = None if said[2] is None else int(said[2])
            why = editing.apply(said[1], number, " ".join((said[3] or "").split()))
        short = " ".join(line.split())[:200]
        if why:
            refused.append(f"{why}: {short}")
        else:
            done.append(short)
    if not done and not refused:
        refused.append(f"no operation in the answer: {' '.join(answer.split())[:200]}")
    left = [rule for rule in editing.slots if rule is not None]
    return Edited(sorted(left, key=lambda rule: -rule.importance), done, refused[:20])


class _Editing:
    """One answer's work on a list; a slot whose rule went is None, so that numbers stay."""

    def __init__(
        self, slots: list[Rule], most: int, task_ids: tuple[str, ...], copied: Callable[[str], bool]
    ) -> None:
        self.slots: list[Rule | None] = list(slots)
        self.shown = len(slots)
        self.most = most
        self.task_ids = task_ids
        self.copied = copied
        self.touched: set[int] = set()

    def apply(self, operation: str, number: int | None, text: str) -> str:
        """Do one operation; why it can't be done, or nothing."""
        same = next((at for at, rule in enumerate(self.slots) if rule and _equal(rule.text, text)), None)
        if operation == "ADD":
            return self._add(text, same)
        at = number - 1 if number is not None else -1
        if same is not None and same < self.shown:  # the words say which rule is meant, or already stand
            at, operation = same, "AGREE" if operation == "EDIT" else operation
        rule = self.slots[at] if 0 <= at < self.shown else None
        if rule is None:
            return "no such rule"
        if at in self.touched:
            return "second operation on a rule"
        if operation == "EDIT":
            if why := "the rule is there already" if same is not None else self._unusable(text):
                return why
            tasks = tuple(sorted({*rule.task_ids, *self.task_ids}))
            rule = rule._replace(text=text, task_ids=tasks)
        self.touched.add(at)
        importance = rule.importance + (-1 if operation == "REMOVE" else 1)
        self.slots[at] = rule._replace(importance=importance) if importance > 0 else None
        return ""

    def _add(self, text: str, same: int | None) -> str:
        if same is not None:
            return "the rule is there already"
        if why := self._unusable(text):
            return why
        if sum(rule is not None for rule in self.slots) >= self.most:
            return f"the list is full ({self.most} rules)"
        self.slots.append(Rule(None, text, 2, tuple(sorted(set(self.task_ids)))))
        return ""

    def _unusable(self, text: str) -> str:
        """Why a text is no rule; an unfinished sentence or an operation inside comes of a torn answer."""
        if not text:
            return "no text"
        if len(text) > LONGEST_RULE:
            return f"longer than {LONGEST_RULE} characters"
        if _NAMED.search(text):
            return "an operation inside a rule"
        if text[-1] not in ".!?":
            return "no finished sentence"
        return "copied from the prompt" if self.copied(text) else ""


def _equal(a: str, b: str) -> bool:
    return a.casefold().strip(" .") == b.casefold().strip(" .")
