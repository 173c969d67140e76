"""What an environment costs: its resets and steps as the parent sees them, worker round trip included."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from ..benchmarks import benchmark_names, default_split, load_benchmark
from ..benchmarks.base import Benchmark, Env
from ..benchmarks.floors import random_policy
from ..errors import UserError

MORE_SPLITS = {"webshop": ("small_test",), "tau2": ("airline",)}
"""Splits measured besides the default one, where their data are here."""

RANDOM_STEPS = 20


def run(
    benchmarks: Sequence[str] | None = None,
    episodes: int = 10,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Times of each benchmark's environments.

    Args:
        benchmarks: Names as for `load_benchmark`; None takes all that are known.
        episodes: Tasks played, each by the oracle and once more at random.
        progress: Told what is measured next.

    Returns:
        `rows`, each with `benchmark`, `split`, `reset_ms_p50`, `step_ms_p50` (medians over all episodes) and
        `episodes_per_s` (by the oracle, one after another, resets included). WebShop's also have
        `engine_step_ms_p50` (the same steps without a worker between). A benchmark that is not installed has
        None for its figures, and a `note`.

    Raises:
        UserError: An unknown name.
    """
    rows = []
    for name in benchmark_names() if benchmarks is None else benchmarks:
        for split in (default_split(name), *MORE_SPLITS.get(name, ())):
            progress(f"{name} {split} …")
            try:
                with contextlib.closing(load_benchmark(name, split=split)) as bench:
                    rows.append(measure(bench, episodes))
            except UserError as error:
                if split == default_split(name):
                    rows.append(_absent(name, split, str(error)))
    return {"rows": rows}


def _absent(name: str, split: str, note: str) -> dict[str, Any]:
    figures = dict.fromkeys(("reset_ms_p50", "step_ms_p50", "episodes_per_s"))
    return {"benchmark": name, "split": split, **figures, "note": note}


def measure(bench: Benchmark, episodes: int) -> dict[str, Any]:
    """One row of `run`."""
    tasks = bench.tasks(episodes, order=0)
    plans = [bench.oracle(task) for task in tasks]
    resets: list[float] = []
    steps: list[float] = []
    spent = 0.0
    for number, (task, plan) in enumerate(zip(tasks, plans, strict=True)):
        with contextlib.closing(bench.make_env(task)) as env:
            env.reset()  # starts the worker, and fills what it keeps
            begun = time.perf_counter()
            _timed_episode(env, _follow(plan), len(plan), resets, steps)
            spent += time.perf_counter() - begun
            _timed_episode(env, random_policy(number, bench.noop), RANDOM_STEPS, resets, steps)
    row = {
        "benchmark": bench.name,
        "split": bench.split,
        "reset_ms_p50": _ms(resets),
        "step_ms_p50": _ms(steps),
        "episodes_per_s": round(len(tasks) / spent, 2),
    }
    if bench.name == "webshop":
        row |= {"engine_step_ms_p50": _ms(_engine_steps(bench, plans))}
    return row


def _timed_episode(
    env: Env, policy: Callable[[Any], str], limit: int, resets: list[float], steps: list[float]
) -> None:
    """Play an episode, adding the seconds of its reset and of each step."""
    begun = time.perf_counter()
    seen = env.reset()
    resets.append(time.perf_counter() - begun)
    for _ in range(limit):
        if seen.done:
            return
        action = policy(seen)
        begun = time.perf_counter()
        seen = env.step(action)
        steps.append(time.perf_counter() - begun)


def _engine_steps(bench: Any, plans: Sequence[Sequence[str]]) -> list[float]:
    """Seconds of WebShop's steps over the oracle's plans, in this process."""
    from ..benchmarks.webshop.host import Host

    host = Host()
    spent = []
    for task, plan in zip(bench.tasks(len(plans), order=0), plans, strict=True):
        visit = host.open(bench.spec(task))
        visit.reset()
        for action in plan:
            begun = time.perf_counter()
            visit.step(action)
            spent.append(time.perf_counter() - begun)
    return spent


def _follow(plan: Sequence[str]) -> Callable[[Any], str]:
    ahead = iter(plan)
    return lambda seen: next(ahead)


def _ms(seconds: Sequence[float]) -> float:
    return round(median(seconds) * 1000, 3)
