"""Checks of several environments and their processes: determinism, isolation, death, what is left behind."""

from __future__ import annotations

import contextlib
import os
import signal
import time

from ...errors import InfrastructureError, UserError
from ...records import Task, content_hash
from ..base import Benchmark
from ..floors import random_policy
from .common import PATIENCE, loaded_again, require, shown, some_tasks, steps
from .leftovers import Leftovers


def check_determinism(bench: Benchmark) -> str:
    """The same actions show the same, again, after other episodes, and in another worker."""
    first, *others = some_tasks(bench)
    pids = set()
    for script in (bench.oracle(first), _random_actions(bench, first)):
        with (
            contextlib.closing(bench.make_env(first)) as env,
            contextlib.closing(bench.make_env(first)) as twin,
        ):
            once = shown(env, script)
            require(shown(env, script) == once, f"two resets of {first.task_id!r} do not show the same")
            require(shown(twin, script) == once, f"two environments of {first.task_id!r} do not agree")
            pids |= {getattr(env, "pid", None), getattr(twin, "pid", None)}
            for task in others:
                with contextlib.closing(bench.make_env(task)) as other:
                    shown(other, bench.oracle(task))
            after = f"{first.task_id!r} does not show the same after other episodes"
            require(shown(env, script) == once, after)
            require(shown(twin, script) == once, after)
    return f"{len(pids - {None})} workers" if pids - {None} else "in this process"


def check_isolation(bench: Benchmark) -> str:
    """Live environments, in the same worker too, do not show each other's doings."""
    pool = getattr(bench, "pool", None)
    tasks = some_tasks(bench, min(2 if pool is None else pool.limit + 1, 5))
    plans = [bench.oracle(task) for task in tasks]
    with contextlib.ExitStack() as stack:
        envs = [stack.enter_context(contextlib.closing(bench.make_env(task))) for task in tasks]
        alone = [shown(env, plan) for env, plan in zip(envs, plans, strict=True)]
        mixed = [[env.reset()] for env in envs]
        for turn in range(max(map(len, plans))):
            for env, plan, seen in zip(envs, plans, mixed, strict=True):
                if turn < len(plan) and not seen[-1].done:
                    seen.append(env.step(plan[turn]))
    for task, one, other in zip(tasks, alone, mixed, strict=True):
        require(one == other, f"{task.task_id!r} shows something else while other episodes run")
    return f"{len(tasks)} at a time"


def check_crash(bench: Benchmark) -> str:
    """A worker that dies is an InfrastructureError at once, other episodes go on, and a reset starts anew."""
    first, second = some_tasks(bench, 2)
    plan, other_plan = bench.oracle(first), bench.oracle(second)
    with (
        contextlib.closing(bench.make_env(first)) as env,
        contextlib.closing(bench.make_env(second)) as other,
    ):
        once = shown(env, plan)
        spared = shown(other, other_plan)
        env.reset()
        pid = getattr(env, "pid", None)
        if not pid or pid == os.getpid():
            return "no worker processes: nothing to kill"
        other.reset()
        os.kill(pid, signal.SIGKILL)
        started = time.monotonic()
        try:
            env.step(plan[0])
        except InfrastructureError:
            require(time.monotonic() - started < PATIENCE, "a dead worker is noticed late")
        else:
            raise AssertionError("a step is answered though its worker was killed")
        if getattr(other, "pid", None) != pid:
            seen = [*steps(other, other_plan)]
            require(seen == spared[1:], "killing one worker disturbs an episode in another")
        require(shown(env, plan) == once, "after its worker was killed, an environment shows something else")
    return "killed by signal 9"


def check_close(bench: Benchmark) -> str:
    """What is closed is gone: processes, open files, temporary files."""
    with Leftovers() as leftovers, loaded_again(bench) as fresh:
        task, other = some_tasks(fresh, 2)
        _close_env(fresh, task)
        leftovers.count_files()
        for again in (task, other, task):
            _close_env(fresh, again)
        grown = leftovers.more_files()
        require(not grown, f"{grown} more open files after three closed episodes than after one")
        fresh.close()
        fresh.close()
        require(not (left := leftovers.processes()), f"close() leaves processes behind: {', '.join(left)}")
        require(not (kept := leftovers.temporary()), f"close() leaves temporary files: {', '.join(kept)}")
    return "no process, open file or temporary file"


def _close_env(bench: Benchmark, task: Task) -> None:
    env = bench.make_env(task)
    env.reset()
    action = bench.oracle(task)[0]
    env.step(action)
    env.close()
    env.close()
    try:
        env.step(action)
    except (UserError, InfrastructureError):
        return
    except Exception as error:
        raise AssertionError(f"a step after close() fails with {type(error).__name__}: {error}") from error
    raise AssertionError("a step after close() is answered")


def _random_actions(bench: Benchmark, task: Task, count: int = 12) -> list[str]:
    """Random admissible actions from the start of a task; doing nothing where none is listed."""
    policy = random_policy(int(content_hash(task.task_id, 8), 16), bench.noop)
    taken: list[str] = []
    with contextlib.closing(bench.make_env(task)) as env:
        seen = env.reset()
        while not seen.done and len(taken) < count:
            taken.append(policy(seen))
            seen = env.step(taken[-1])
    return taken
