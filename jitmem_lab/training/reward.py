"""The reward of a payload: the benchmark's own metric of the one episode that it is given to."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

from ..curation import Curator
from ..records import Message, Recall, Task
from .playing import Job, Played, Player

Scale = Literal["none", "group", "batch"]
_EPSILON = 1e-4
"""Added by TRL to a standard deviation before it divides by it (`GRPOTrainer`, 1.16.0)."""


class Prompt(NamedTuple):
    """A task as the curator is asked about it."""

    task: Task
    """The task."""
    messages: tuple[Message, ...]
    """The exact prompt."""
    recall: Recall
    """The traces in it."""


class Rollout(NamedTuple):
    """A payload with what came of it."""

    prompt: int
    """Index of its prompt."""
    payload: str
    """What the executor was given."""
    tokens: int
    """Tokens that the curator wrote."""
    played: Played
    """The episode."""
    advantage: float
    """What the policy gradient weighs it by."""


def advantages(rewards: Sequence[float | None], group: int, scale: Scale = "none") -> list[float]:
    """What GRPO weighs each payload by: its reward less the mean of its group (of those that have one).

    A payload without reward weighs nothing, and neither does any of a group whose rewards are equal.

    Args:
        rewards: Of whole groups, one after another.
        group: Payloads a group.
        scale: Divides by the standard deviation (n - 1) of the group or the batch, plus 1e-4, as TRL does;
            `none` as in the paper.
    """
    known = [reward for reward in rewards if reward is not None]
    whole = deviation(known)
    found: list[float] = []
    for start in range(0, len(rewards), group):
        part = rewards[start : start + group]
        scored = [reward for reward in part if reward is not None]
        mean = sum(scored) / len(scored) if scored else 0.0
        by = {"none": 1.0, "group": deviation(scored) + _EPSILON, "batch": whole + _EPSILON}[scale]
        found += [0.0 if reward is None else (reward - mean) / by for reward in part]
    return found


def deviation(values: Sequence[float]) -> float:
    """Standard deviation with n - 1, as `torch.std` and so TRL have it; 0 of fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = sum(values) / len(values)
    return float((sum((value - mean) ** 2 for value in values) / (len(values) - 1)) ** 0.5)


def zero_variance_share(rewards: Sequence[float | None], group: int) -> float:
    """Share of the groups without any difference of reward, from which nothing is learnt."""
    groups = [rewards[start : start + group] for start in range(0, len(rewards), group)]
    equal = [len({reward for reward in part if reward is not None}) < 2 for part in groups]
    return sum(equal) / len(equal) if equal else 0.0


class EpisodeReward:
    """A reward function for TRL: plays each payload on the task that it was written for.

    Args:
        player: Plays them.
        curator: Takes the payload out of what the model wrote, as in an evaluation.
        prompts: All prompts, by the index in the dataset's column `index`.
        group: Payloads a prompt.
        scale: How advantages are scaled, for the record.
        record: Told of each batch: the trainer's count of updates, its rollouts, seconds of playing.
    """

    __name__ = "success"

    def __init__(
        self,
        player: Player,
        curator: Curator,
        prompts: Sequence[Prompt],
        group: int,
        scale: Scale,
        record: Callable[[int, list[Rollout], float], None],
    ) -> None:
        self.player = player
        self.curator = curator
        self.prompts = prompts
        self.group = group
        self.scale = scale
        self.record = record

    def __call__(
        self,
        *,
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        index: Sequence[int],
        trainer_state: Any,
        **_: Any,
    ) -> list[float | None]:
        """One reward a completion; None after an infrastructure error.

        Raises:
            InfrastructureError: Nothing could be played.
        """
        begun = time.perf_counter()
        texts = [_text(completion) for completion in completions]
        payloads = [
            self.curator.payload(self.prompts[at].messages, text)
            for at, text in zip(index, texts, strict=True)
        ]
        update = int(trainer_state.global_step)
        jobs = [
            Job(self.prompts[at].task, payload, f"{update}:{self.prompts[at].task.hash}:{place}")
            for place, (at, payload) in enumerate(zip(index, payloads, strict=True))
        ]
        played = self.player.play(jobs)
        rewards = [one.reward for one in played]
        weights = advantages(rewards, self.group, self.scale)
        rollouts = [
            Rollout(at, payload, len(ids), one, weight)
            for at, payload, ids, one, weight in zip(
                index, payloads, completion_ids, played, weights, strict=True
            )
        ]
        self.record(update, rollouts, time.perf_counter() - begun)
        return rewards


def _text(completion: Any) -> str:
    """What was written, of a completion in either of TRL's forms."""
    return completion if isinstance(completion, str) else str(completion[0]["content"])
