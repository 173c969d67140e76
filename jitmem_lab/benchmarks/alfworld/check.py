"""Whether ALFWorld holds here: oracle, floors, and equality with and without the memo patches."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...records import Task
from ..base import Env, Observation
from ..floors import fixed_policy, play, random_policy
from .benchmark import Alfworld


def digest(observations: Iterable[Observation]) -> str:
    """Hash of everything that an episode showed."""
    sha = hashlib.sha256()
    for seen in observations:
        sha.update(json.dumps(list(seen)).encode())
    return sha.hexdigest()[:16]


def replay(env: Env, actions: Sequence[str]) -> list[Observation]:
    """Everything shown from a reset over `actions`."""
    return [env.reset(), *(env.step(action) for action in actions)]


def random_play(env: Env, seed: int, steps: int) -> list[Observation]:
    """Everything shown over `steps` random admissible actions, `seed` fixing them."""
    policy = random_policy(seed)
    shown = [env.reset()]
    for _ in range(steps):
        shown.append(env.step(policy(shown[-1])))
    return shown


def fingerprint(benchmark: Alfworld, task: Task, random_steps: int = 10) -> str:
    """Hash of what a game shows over its walkthrough and then over random play."""
    env = benchmark.make_env(task)
    try:
        shown = replay(env, benchmark.oracle(task))
        return digest([*shown, *random_play(env, 0, random_steps)])
    finally:
        env.close()


def _scores(benchmark: Alfworld, task: Task) -> dict[str, bool]:
    env = benchmark.make_env(task)
    try:
        shown = replay(env, benchmark.oracle(task))
        scores = {"oracle": shown[-1].success and shown[-1].reward == 1.0}
        for name, policy in (("noop", fixed_policy(benchmark.noop)), ("random", random_policy(0))):
            scores[name] = play(env, policy, benchmark.max_steps).success
        return scores
    finally:
        env.close()


def check_split(
    split: str, workers: int | None = None, limit: int | None = None, memo_limit: int | None = None
) -> dict[str, Any]:
    """One split's figures.

    Args:
        split: Any split of ALFWorld.
        workers: Worker processes; None takes the number of CPUs.
        limit: Games to play, in the data's order; None plays all.
        memo_limit: Games to replay without the memo patches as well; None takes as many as are played.

    Returns:
        `split`, `games`, success rates `oracle`, `noop` and `random` (0 to 1), `oracle_failed` (task ids),
        `memo_games`, `memo_equal` (games that showed the same with and without), `memo_differ` (task ids),
        and `seconds`.
    """
    started = time.perf_counter()
    with Alfworld(split, workers=workers) as fast, Alfworld(split, workers=workers, memo=False) as stock:
        tasks = fast.tasks(limit)
        scores = _spread(fast, lambda task: _scores(fast, task), tasks)
        compared = tasks[:memo_limit]
        ours = _spread(fast, lambda task: fingerprint(fast, task), compared)
        fast.close()
        theirs = _spread(stock, lambda task: fingerprint(stock, task), compared)
    differ = [task.task_id for task, a, b in zip(compared, ours, theirs, strict=True) if a != b]
    row: dict[str, Any] = {"split": split, "games": len(tasks)}
    for name in ("oracle", "noop", "random"):
        row[name] = round(sum(score[name] for score in scores) / len(scores), 4) if scores else None
    row["oracle_failed"] = [t.task_id for t, score in zip(tasks, scores, strict=True) if not score["oracle"]]
    row |= {"memo_games": len(compared), "memo_equal": len(compared) - len(differ), "memo_differ": differ}
    return row | {"seconds": round(time.perf_counter() - started, 1)}


def _spread(benchmark: Alfworld, function: Callable[[Task], Any], tasks: Sequence[Task]) -> list[Any]:
    with ThreadPoolExecutor(benchmark.pool.limit) as threads:
        return list(threads.map(function, tasks))
