"""What the curator is asked in training: the prompt of an evaluation, word for word."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..curation import Curator
from ..errors import UserError
from ..files import write_atomic
from ..models.base import ChatModel
from ..models.rendering import clean_text, render
from ..records import Message, Task, content_hash, to_json
from .bank import TrainingBank
from .config import TrainConfig
from .reward import Prompt


def make_prompts(tasks: Sequence[Task], bank: TrainingBank, curator: Curator) -> list[Prompt]:
    """One prompt a task, its traces taken from the training bank (never the task's own)."""
    made = []
    for task in tasks:
        recall = bank.recall(task)
        messages, shown = curator.messages(task, recall.traces)
        made.append(Prompt(task, messages, recall.model_copy(update={"traces": shown.traces})))
    return made


def write_prompts(prompts: Sequence[Prompt], path: Path) -> None:
    """Keep the prompts, one a line."""
    lines = [
        to_json(
            {
                "task": one.task.model_dump(),
                "messages": [message.model_dump() for message in one.messages],
                "recall": one.recall.model_dump(),
            }
        )
        for one in prompts
    ]
    write_atomic(path, "\n".join([*lines, ""]))


def trainer_prompt(messages: Sequence[Message], tokenizer: Any) -> str | list[dict[str, str]]:
    """A prompt as TRL takes it: text to be continued, or messages for the model's chat template.

    TRL adds the tokenizer's own beginning to a text, so that one is left out of it.
    """
    if messages[-1].role != "assistant":
        return [{"role": message.role, "content": clean_text(message.content)} for message in messages]
    text = render(tokenizer, messages, False)
    begin = getattr(tokenizer, "bos_token", None)
    return text.removeprefix(begin) if begin else text


def step_order(config: TrainConfig, count: int) -> list[int]:
    """The prompts of all steps, one after another: whole passes through all of them in shuffled orders.

    Of each pass the prompts that fill no whole step are left out, so that none stands twice in a step. As one
    list it is the same whenever a training goes on.
    """
    found: list[int] = []
    passes = itertools.count()
    while len(found) < config.steps * config.prompts:
        order = list(range(count))
        random.Random(content_hash([config.seed, "pass", next(passes)], 16)).shuffle(order)
        found += order[: count // config.prompts * config.prompts]
    return found[: config.steps * config.prompts]


def step_rows(config: TrainConfig, prompts: Sequence[Prompt], tokenizer: Any) -> Any:
    """The dataset that TRL trains on: `prompt` and `index`, in the order of the steps."""
    from datasets import Dataset

    return Dataset.from_list(
        [
            {"prompt": trainer_prompt(prompts[at].messages, tokenizer), "index": at}
            for at in step_order(config, len(prompts))
        ]
    )


def check_lengths(prompts: Sequence[Prompt], model: ChatModel, longest: int) -> None:
    """Raise `UserError` if a prompt is longer than what training allows."""
    for one in prompts:
        size = sum(model.count_tokens(message.content) for message in one.messages)
        if size > longest:
            raise UserError(
                f"the prompt of task {one.task.task_id} has about {size} tokens even with its traces cut, "
                f"more than max_prompt={longest}; raise it or take a shorter curator prompt"
            )
