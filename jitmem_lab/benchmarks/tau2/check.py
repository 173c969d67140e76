"""Whether τ²-bench holds here: gold actions, what is left without the last of them, and the floors."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...records import Task, content_hash
from ..floors import fixed_policy, play, play_plan, random_policy
from .benchmark import Tau2

POLICIES = ("gold", "gold_without_last", "noop", "random")


def check_split(
    split: str, workers: int | None = None, limit: int | None = None, seed: int = 0, **options: Any
) -> dict[str, Any]:
    """One split's figures, with the scripted user.

    Args:
        split: Any split of τ²-bench.
        workers: Worker processes; None takes the number of CPUs.
        limit: Tasks to play, in the data's order; None plays all.
        seed: Seed of the random actions.
        options: Further settings of `Tau2`.

    Returns:
        `split`, `version`, `tasks`, success rates (0 to 1) `gold`, `gold_without_last` (over the
        `with_gold_calls` tasks that have a gold call to leave out, None if there are none), `noop` and
        `random`, `gold_failed` (task ids), and `seconds`.
    """
    started = time.perf_counter()
    with Tau2(split, workers=workers, **options) as bench:
        tasks = bench.tasks(limit)
        with ThreadPoolExecutor(bench.pool.limit) as threads:
            scores = list(threads.map(lambda task: _scores(bench, task, seed), tasks))
        row: dict[str, Any] = {"split": split, "version": bench.version, "tasks": len(tasks)}
    for name in POLICIES:
        played = [score[name] for score in scores if name in score]
        row[name] = round(sum(played) / len(played), 4) if played else None
    row["with_gold_calls"] = sum("gold_without_last" in score for score in scores)
    row["gold_failed"] = [
        task.task_id for task, score in zip(tasks, scores, strict=True) if not score["gold"]
    ]
    return row | {"seconds": round(time.perf_counter() - started, 1)}


def _scores(bench: Tau2, task: Task, seed: int) -> dict[str, bool]:
    own = int(content_hash([seed, task.task_id], 8), 16)
    short = bench.gold_without_last(task)
    with contextlib.closing(bench.make_env(task)) as env:
        scores = {
            "gold": play_plan(env, bench.oracle(task)).reward == 1.0,
            "noop": play(env, fixed_policy(bench.noop), bench.max_steps).success,
            "random": play(env, random_policy(own, bench.noop), bench.max_steps).success,
        }
        if short:
            scores["gold_without_last"] = play_plan(env, short).success
    return scores
