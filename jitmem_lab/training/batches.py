"""Lessons as batches of tokens: what is given and what is to be written, and the weight of each token."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

from .experts import Experts
from .lessons import Lesson, copy_lesson, curator_lesson, executor_lesson
from .writing import short_lesson, writer_lesson

Role = Literal["executor", "curator", "writer"]
"""Whose lessons."""
GIVEN_WEIGHT = 0.2
"""Weight of what is given in a lesson, beside 1 for what is to be written: reading it teaches as well."""
DOUBTFUL_WEIGHT = 0.25
"""Weight of the first word of a doubtful step, and of all words of one that is guessed."""
COPY_BATCH, COPY_RATE, COPY_GIVEN_WEIGHT = 32, 3e-3, 0.02
"""Lessons a step, learning rate and weight of what is given while nothing but copying is learned. Fits
of `copying=0` and 50,000 lessons did not learn to go by a list step by step."""
COPIES = 0.15
"""Share of copies among an executor's lessons afterwards."""
_SORTED = 16
"""Batches that are drawn together and sorted by length, so that little is padded."""


class Batch(NamedTuple):
    """Lessons of one step, all as long as the longest."""

    ids: list[list[int]]
    """Tokens; the end is padded."""
    weights: list[list[float]]
    """Weight of each; 0 for padding."""
    written: list[list[int]]
    """1 for each token that is to be written."""


def batches(role: Role, size: int, experts: Experts, tokenizer: Any, seed: int) -> Iterator[Batch]:
    """Lessons of a role, `size` at once, without end; a seed and a role give the same ones."""
    rng = random.Random(f"{seed} {role}")
    end = [] if role == "executor" else [tokenizer.eos_token_id]

    def make() -> Lesson:
        if role == "curator":
            return curator_lesson(experts, rng)
        if role == "writer":
            return writer_lesson(experts, rng)
        return (
            copy_lesson(experts, rng, rename=True) if rng.random() < COPIES else executor_lesson(experts, rng)
        )

    while True:
        lessons = [make() for _ in range(size * _SORTED)]
        lessons.sort(key=lambda lesson: len(lesson.context) + len(lesson.target))
        groups = [lessons[at : at + size] for at in range(0, len(lessons), size)]
        rng.shuffle(groups)
        for group in groups:
            yield _padded(group, tokenizer, end)


def copies(role: Role, experts: Experts, tokenizer: Any, seed: int) -> Iterator[Batch]:
    """Lessons of copying, without end: lists of places; for the writer its own lessons without an example."""
    rng = random.Random(f"{seed} copies")
    while True:
        if role == "writer":  # longer ones
            lessons = [short_lesson(experts, rng) for _ in range(COPY_BATCH // 2)]
        else:
            lessons = [copy_lesson(experts, rng) for _ in range(COPY_BATCH)]
        end = [tokenizer.eos_token_id] if role == "writer" else []
        yield _padded(lessons, tokenizer, end, COPY_GIVEN_WEIGHT)


def _padded(
    lessons: list[Lesson], tokenizer: Any, end: list[int], given_weight: float = GIVEN_WEIGHT
) -> Batch:
    given = tokenizer([lesson.context for lesson in lessons])["input_ids"]
    asked = [ids + end for ids in tokenizer([lesson.target for lesson in lessons])["input_ids"]]
    pairs = list(zip(given, asked, strict=True))
    length = max(len(a) + len(b) for a, b in pairs)
    pad = tokenizer.pad_token_id
    weights = [
        [given_weight] * len(a) + _weights(lesson, b, tokenizer) + [0.0] * (length - len(a) - len(b))
        for (a, b), lesson in zip(pairs, lessons, strict=True)
    ]
    return Batch(
        [a + b + [pad] * (length - len(a) - len(b)) for a, b in pairs],
        weights,
        [[0] * len(a) + [1] * len(b) + [0] * (length - len(a) - len(b)) for a, b in pairs],
    )


def _weights(lesson: Lesson, ids: list[int], tokenizer: Any) -> list[float]:
    """The weight of each token that is to be written; a target goes on after its first step's number."""
    found = [1.0] * len(ids)
    for step in (*lesson.doubtful, *lesson.guessed):
        at = 0 if step == 1 else ids.index(tokenizer.convert_tokens_to_ids(f"\n{step}.")) + 1
        found[at] = DOUBTFUL_WEIGHT
        if step in lesson.guessed:  # going there, the place and its number
            found[at : at + 4] = [DOUBTFUL_WEIGHT] * 4
    return found
