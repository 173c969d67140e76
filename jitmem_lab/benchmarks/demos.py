"""Oracle-played trajectories, kept in the user's cache so that the second time is instant."""

from __future__ import annotations

import contextlib
import sqlite3
import zlib
from concurrent.futures import ThreadPoolExecutor

from ..data import cache_dir
from ..errors import InfrastructureError
from ..records import Step, Task, Trajectory, content_hash
from .acting import act, finished
from .base import Benchmark, Env, told


def play_actions(env: Env, task: Task, actions: list[str], environment: str) -> Trajectory:
    """The trajectory of playing `actions` until they or the episode end."""
    steps: list[Step] = []
    seen = env.reset()
    task = told(task, seen)
    for action in actions:
        step, seen = act(env, seen, action, action)
        steps.append(step)
        if seen.done:
            break
    return finished(task, steps, seen, environment, "oracle")


def demonstrations(benchmark: Benchmark, tasks: list[Task], concurrency: int) -> list[Trajectory]:
    """Trajectories of the oracle on `tasks`, in their order, `concurrency` played at a time.

    Raises:
        InfrastructureError: The oracle failed on a task, so data and mechanics don't fit.
    """
    environment = f"{benchmark.name} {benchmark.version}"
    keys = [content_hash(["oracle", environment, task.model_dump()], 32) for task in tasks]
    known = _read(keys)

    def play(index: int) -> Trajectory:
        task = tasks[index]
        env = benchmark.make_env(task)
        try:
            played = play_actions(env, task, benchmark.oracle(task), environment)
        finally:
            env.close()
        if played.outcome != "success":
            raise InfrastructureError(f"the oracle of {benchmark.name} no longer solves {task.task_id!r}")
        return played

    owed = [index for index, key in enumerate(keys) if key not in known]
    if owed:
        with ThreadPoolExecutor(concurrency) as threads:
            fresh = {keys[index]: done for index, done in zip(owed, threads.map(play, owed), strict=True)}
        _write(fresh)
        known |= fresh
    return [known[key] for key in keys]


def _connect() -> sqlite3.Connection:
    path = cache_dir() / "demonstrations.sqlite"
    path.parent.mkdir(parents=True, exist_ok=True)
    db = sqlite3.connect(path, timeout=30)
    db.execute("CREATE TABLE IF NOT EXISTS played (key TEXT PRIMARY KEY, line BLOB)")
    return db


def _read(keys: list[str]) -> dict[str, Trajectory]:
    """Cached trajectories; an unreadable cache is an empty one."""
    found: dict[str, Trajectory] = {}
    with (
        contextlib.suppress(sqlite3.Error, OSError, ValueError, zlib.error),
        contextlib.closing(_connect()) as db,
    ):
        for key in keys:
            row = db.execute("SELECT line FROM played WHERE key = ?", (key,)).fetchone()
            if row:
                found[key] = Trajectory.from_line(zlib.decompress(row[0]).decode())
    return found


def _write(fresh: dict[str, Trajectory]) -> None:
    rows = [(key, zlib.compress(played.to_line().encode())) for key, played in fresh.items()]
    with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(_connect()) as db, db:
        db.executemany("INSERT OR REPLACE INTO played VALUES (?, ?)", rows)
