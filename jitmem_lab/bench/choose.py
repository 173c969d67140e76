"""How long the embedded model takes to choose an action, and whether its choice is the plain one."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ..benchmarks import load_benchmark
from ..benchmarks.base import Benchmark
from ..errors import UserError
from ..execution import Executor, plan_payload
from ..models import load_model
from ..models.base import ChatModel
from ..presets import SMALL
from ..records import Message, Step, Task

FEWEST, MOST = 15, 60
"""States with so many admissible actions are recorded."""


class State(NamedTuple):
    """One decision as it came up in a game."""

    episode: int
    """Number of the game."""
    messages: tuple[Message, ...]
    """The executor's prompt."""
    options: tuple[str, ...]
    """Admissible actions."""


def record_states(
    bench: Benchmark, executor: Executor, count: int, seed: int = 0, per_game: int = 12
) -> list[State]:
    """Decisions of real games, in the order in which they come up.

    A game is played by its oracle, every third action at random, with the oracle's plan as payload.

    Args:
        bench: The games.
        executor: Makes the prompts.
        count: Number of states; fewer if the games give fewer.
        seed: Order of games and random actions.
        per_game: Most steps of one game.
    """
    rng = random.Random(seed)
    found: list[State] = []
    for number, task in enumerate(bench.tasks(order=seed)):
        if len(found) >= count:
            break
        found += _play(bench, executor, task, number, rng, per_game)
    return found[:count]


def _play(
    bench: Benchmark, executor: Executor, task: Task, number: int, rng: random.Random, per_game: int
) -> list[State]:
    plan = bench.oracle(task)
    payload, ahead, past, found = plan_payload(task, plan), list(plan), list[Step](), list[State]()
    env = bench.make_env(task)
    try:
        now = env.reset()
        for turn in range(per_game):
            if now.done:
                break
            if FEWEST <= len(now.admissible) <= MOST:
                messages = executor.messages(task, payload, past, now)
                found.append(State(number, messages, now.admissible))
            stray = turn % 3 == 2 or not ahead
            action = rng.choice(now.admissible) if stray else ahead.pop(0)
            past.append(Step(observation=now.text, admissible=now.admissible, action=action))
            now = env.step(action)
    finally:
        env.close()
    return found


def run(
    states: int = 200, threads: int = 2, split: str = "valid_seen", model: str = "smol"
) -> dict[str, Any]:
    """Time and exactness of choices on recorded states.

    Each state is decided on in turn as in life (an episode's next step reuses what the step before computed),
    and then by the plain computation: one prefill of the whole prompt, one padded batch of all options on its
    cache. After that all episodes are decided on anew, eight at a time.

    Args:
        states: Number of states.
        threads: Threads of the model.
        split: Split that they come from.
        model: `smol`, or another model in process.

    Returns:
        `median_s` and `p90_s` of a decision (wall), `median_cpu_s`, `plain_median_s`; `agreement`, the share
        of states with the same choice; `max_abs_diff` of any score; `per_s` alone and `batched_per_s`.
    """
    llm = load_model(model, threads=threads, concurrency=8)
    plain = None
    try:
        plain = load_model(model, threads=threads, fast=False)
        executor = Executor(llm, act="choose", history=SMALL["history"], no_repeat=SMALL["no_repeat"])
        bench = load_benchmark("alfworld", split=split)
        try:
            recorded = record_states(bench, executor, states)
            source = f"{bench.name} {bench.split}"
        finally:
            bench.close()
        if not recorded:
            raise UserError(
                f"no state of {split} has {FEWEST} to {MOST} admissible actions; try another split"
            )
        return {**_measure(llm, plain, recorded), "model": llm.name, "threads": threads, "source": source}
    finally:
        llm.close()
        if plain is not None:
            plain.close()


def _measure(llm: ChatModel, plain: ChatModel, recorded: Sequence[State]) -> dict[str, Any]:
    llm.choose(recorded[0].messages[:1], ["warm", "up"])
    wall, cpu, plain_wall, diffs, agreed = [], [], [], [], 0
    for state in recorded:
        began, began_cpu = time.perf_counter(), time.process_time()
        quick = llm.choose(state.messages, state.options)
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
        began = time.perf_counter()
        full = plain.choose(state.messages, state.options)
        plain_wall.append(time.perf_counter() - began)
        diffs.append(max(abs(a - b) for a, b in zip(quick.scores, full.scores, strict=True)))
        agreed += quick.index == full.index
    seconds = _together(llm, recorded)
    return {
        "states": len(recorded),
        "options_median": statistics.median(len(state.options) for state in recorded),
        "median_s": round(statistics.median(wall), 4),
        "p90_s": round(sorted(wall)[int(0.9 * (len(wall) - 1))], 4),
        "median_cpu_s": round(statistics.median(cpu), 4),
        "plain_median_s": round(statistics.median(plain_wall), 4),
        "agreement": agreed / len(recorded),
        "max_abs_diff": round(max(diffs), 7),
        "per_s": round(len(wall) / sum(wall), 2),
        "batched_per_s": round(len(recorded) / seconds, 2),
    }


def _together(llm: ChatModel, recorded: Sequence[State]) -> float:
    """Seconds to decide on all states again, eight episodes at a time."""
    episodes: dict[int, list[State]] = {}
    for state in recorded:
        episodes.setdefault(state.episode, []).append(state)

    def play(states: list[State]) -> None:
        for state in states:
            llm.choose(state.messages, state.options)

    began = time.perf_counter()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(play, episodes.values()))
    return time.perf_counter() - began
