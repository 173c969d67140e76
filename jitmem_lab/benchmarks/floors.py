"""Floors of a benchmark: policies that know nothing, to set any success rate against."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ..errors import UserError
from ..progress import make_bar
from ..records import Task, content_hash
from .base import Benchmark, Env, Observation

Policy = Callable[[Observation], str]
"""Chooses an action from what is seen."""


class Played(NamedTuple):
    """How an episode went."""

    success: bool
    """Whether the benchmark counts it as solved."""
    reward: float
    """The benchmark's metric."""
    steps: int
    """Turns taken."""


def fixed_policy(action: str) -> Policy:
    """A policy that takes `action`, whatever is seen."""
    return lambda observation: action


def random_policy(seed: int, idle: str = "look") -> Policy:
    """A policy that takes any admissible action, the same ones for the same seed; `idle` where none is."""
    rng = random.Random(seed)
    return lambda observation: rng.choice(observation.admissible) if observation.admissible else idle


def play(env: Env, policy: Policy, max_steps: int) -> Played:
    """Play one episode from its reset until it ends or `max_steps` turns are taken."""
    seen = env.reset()
    steps = 0
    while steps < max_steps and not seen.done:
        seen = env.step(policy(seen))
        steps += 1
    return Played(seen.success, seen.reward, steps)


def play_plan(env: Env, actions: Sequence[str]) -> Played:
    """Play `actions` from the reset until they or the episode end."""
    plan = iter(actions)
    return play(env, lambda observation: next(plan), len(actions))


def floors(benchmark: Benchmark, limit: int | None = None, seed: int = 0) -> dict[str, Any]:
    """What an agent scores that does nothing, one that acts at random, and the oracle.

    Args:
        benchmark: The benchmark, with its split loaded.
        limit: Tasks to play, in the data's order; None plays all.
        seed: Of the random actions; each task draws its own from it, whatever else is played.

    Returns:
        `benchmark`, `split`, `games`, `seconds`, and for each of `noop`, `random`, `oracle` a dict of
        `success` (rate), `reward` (mean of the benchmark's metric), `won` and `n` (episodes).

    Raises:
        UserError: The split has no tasks.
        InfrastructureError: An environment died; the figures would not be whole.
    """
    tasks = benchmark.tasks(limit)
    if not tasks:
        raise UserError(f"split {benchmark.split} of {benchmark.name} has no tasks to play")
    started = time.perf_counter()
    pool = getattr(benchmark, "pool", None)
    threads = 1 if pool is None else pool.limit
    with (
        make_bar(len(tasks), 0, "task", benchmark.name) as bar,
        ThreadPoolExecutor(threads) as executor,
    ):
        scores = []
        for score in executor.map(lambda task: _scores(benchmark, task, seed), tasks):
            scores.append(score)
            bar.update()
    return {
        "benchmark": benchmark.name,
        "split": benchmark.split,
        "games": len(tasks),
        **{name: _rates([score[name] for score in scores]) for name in ("noop", "random", "oracle")},
        "seconds": round(time.perf_counter() - started, 1),
    }


def _scores(benchmark: Benchmark, task: Task, seed: int) -> dict[str, Played]:
    own = int(content_hash([seed, task.task_id], 8), 16)
    with contextlib.closing(benchmark.make_env(task)) as env:
        return {
            "noop": play(env, fixed_policy(benchmark.noop), benchmark.max_steps),
            "random": play(env, random_policy(own, benchmark.noop), benchmark.max_steps),
            "oracle": play_plan(env, benchmark.oracle(task)),
        }


def _rates(played: Sequence[Played]) -> dict[str, Any]:
    won = sum(episode.success for episode in played)
    reward = sum(episode.reward for episode in played) / len(played)
    return {"success": won / len(played), "reward": reward, "won": won, "n": len(played)}
