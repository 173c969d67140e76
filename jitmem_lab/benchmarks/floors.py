"""Floors of a benchmark: policies that know nothing, to set any success rate against."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

from ..errors import UserError
from .base import Env, Observation

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


def noop(observation: Observation) -> str:
    """Look around, whatever is seen."""
    return "look"


def random_policy(seed: int) -> Policy:
    """A policy that takes any admissible action, the same ones for the same seed."""
    rng = random.Random(seed)
    return lambda observation: rng.choice(observation.admissible) if observation.admissible else "look"


def floor_policy(name: str, seed: int = 0) -> Policy:
    """The policy called `noop` or `random`."""
    if name == "noop":
        return noop
    if name == "random":
        return random_policy(seed)
    raise UserError(f"unknown floor {name!r}; known are noop, random")


def play(env: Env, policy: Policy, max_steps: int) -> Played:
    """Play one episode from its reset until it ends or `max_steps` turns are taken."""
    seen = env.reset()
    steps = 0
    while steps < max_steps and not seen.done:
        seen = env.step(policy(seen))
        steps += 1
    return Played(seen.success, seen.reward, steps)
