"""One action in an environment, and how it is recorded."""

from __future__ import annotations

import time
from collections.abc import Sequence

from ..parsing import match_admissible
from ..records import Step, Task, Trajectory
from .base import Env, Observation

NO_ACTION = "Nothing happens. (No command was given.)"
"""What the executor is told after an answer without a command; the environment is not asked."""


def act(env: Env, now: Observation, raw: str, action: str) -> tuple[Step, Observation]:
    """Take one action: the step as it is recorded, and what is seen after it.

    Where the environment accepts its listed actions only, case and spacing are forgiven. An open one is sent
    the very text: what it makes of a wrong argument is part of the benchmark.
    """
    listed = action if action in now.admissible else None
    if listed is None and not now.open:
        listed = match_admissible(action, now.admissible)
    begun = time.perf_counter()
    if action:
        after = env.step(listed or action)
    else:
        after = now._replace(text=NO_ACTION, reward=0.0, speaker="", accepted=False)
    step = Step(
        observation=now.text,
        admissible=now.admissible,
        raw=raw,
        action=listed or action,
        valid=listed is not None or (now.open and after.accepted),
        reward=after.reward,
        seconds=time.perf_counter() - begun,
        speaker=now.speaker,
    )
    return step, after


def finished(
    task: Task, steps: Sequence[Step], last: Observation, environment: str, source: str = "executor"
) -> Trajectory:
    """The trajectory of an attempt that ended with `last`."""
    return Trajectory(
        task=task,
        steps=tuple(steps),
        final_observation=last.text,
        outcome="success" if last.success else "failure",
        reward=last.reward,
        parts=last.parts,
        environment=environment,
        source=source,
    )
