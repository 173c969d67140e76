"""Checks of one environment at a time: observations, oracle, floors, admissible actions, odd text."""

from __future__ import annotations

import contextlib
import math
import random
import time

from ...errors import UserError
from ...models.base import Tool
from ..base import Benchmark, Observation
from ..floors import fixed_policy, play, play_plan, random_policy
from .common import PATIENCE, TASKS, is_json, require, shown, some_tasks, steps

ODD_TEXTS = {
    "empty": "",
    "blank": "  \t ",
    "50 KB": "look " * 10_000,
    "NUL": "look\0at\0this",
    "lone surrogate": "look \ud83d",
    "emoji": "look 🪑 ↔ 机",
    "newlines": "look\nlook\r\n\u2028look",
    "brackets": 'search[[click[x]] {"name": 3} look(\'',
}
"""Actions that a model may well write."""


def check_observations(bench: Benchmark) -> str:
    """Observations have the types that the protocol says, and only the last one is done."""
    seen = 0
    for task in some_tasks(bench):
        with contextlib.closing(bench.make_env(task)) as env:
            first = env.reset()
            _check_observation(first, task.task_id)
            told = bool(first.task.strip())
            require(not first.done, f"{task.task_id}: a reset is done already")
            require(told or not bench.tells_at_reset, f"{task.task_id}: the reset does not tell the task")
            observations = [first, *steps(env, bench.oracle(task)), env.reset(), env.step(bench.noop)]
        for observation in observations:
            _check_observation(observation, task.task_id)
        seen += len(observations)
    return f"{seen} observations"


def _check_observation(seen: Observation, where: str) -> None:
    def wrong(what: str) -> str:
        return f"{where}: an observation's {what}"

    require(isinstance(seen, Observation), f"{where}: answers with {type(seen).__name__}, no Observation")
    for name in ("text", "speaker", "task", "rules"):
        require(isinstance(getattr(seen, name), str), wrong(f"{name} is no text"))
    for name in ("done", "success", "open", "accepted"):
        require(isinstance(getattr(seen, name), bool), wrong(f"{name} is neither True nor False"))
    require(seen.text.strip(), wrong("text is empty"))
    reward = seen.reward
    require(isinstance(reward, int | float) and math.isfinite(reward), wrong("reward is no finite number"))
    require(seen.done or not seen.success, wrong("success comes before its end"))
    actions = seen.admissible
    texts = isinstance(actions, tuple) and all(isinstance(action, str) for action in actions)
    require(texts, wrong("admissible is no tuple of texts"))
    require(all(action.strip() for action in actions), wrong("admissible holds an empty action"))
    require(len(set(actions)) == len(actions), wrong("admissible holds an action twice"))
    require(seen.done or seen.open or actions, wrong("admissible is empty, and it is not open either"))
    schemas = isinstance(seen.tools, tuple) and all(map(_is_tool, seen.tools))
    require(schemas, wrong("tools are no function schemas"))
    require(is_json(seen.parts) and isinstance(seen.parts, dict), wrong("parts are no JSON object"))


def check_oracle(bench: Benchmark) -> str:
    """The oracle solves its tasks within the limit of turns, by actions that the environment takes."""
    require(isinstance(bench.max_steps, int) and bench.max_steps >= 1, "max_steps is no whole number above 0")
    longest = 0
    for task in some_tasks(bench):
        plan = bench.oracle(task)
        require(plan, f"the oracle has no actions for {task.task_id!r}")
        require(bench.oracle(task) == plan, f"the oracle of {task.task_id!r} gives two different plans")
        require(len(plan) <= bench.max_steps, f"the oracle of {task.task_id!r} needs more than max_steps")
        with contextlib.closing(bench.make_env(task)) as env:
            seen = env.reset()
            for action in plan:
                require(not seen.done, f"{task.task_id!r} ends before its oracle's {action!r}")
                after = env.step(action)
                taken = action in seen.admissible or (seen.open and after.accepted)
                require(taken, f"the oracle of {task.task_id!r} takes {action!r}, which is not admissible")
                seen = after
        require(seen.success, f"the oracle does not solve {task.task_id!r}")
        require(seen.reward > 0, f"solving {task.task_id!r} gives the reward {seen.reward}")
        longest = max(longest, len(plan))
    return f"longest plan {longest} of {bench.max_steps} turns"


def check_floors(bench: Benchmark) -> str:
    """Doing nothing and acting at random can be played to the limit, and win no more than the oracle."""
    won = dict.fromkeys(("noop", "random", "oracle"), 0)
    for task in some_tasks(bench):
        with contextlib.closing(bench.make_env(task)) as env:
            idle = play(env, fixed_policy(bench.noop), bench.max_steps)
            chance = play(env, random_policy(0, bench.noop), bench.max_steps)
            solved = play_plan(env, bench.oracle(task))
        require(idle.reward <= solved.reward, f"doing nothing beats the oracle on {task.task_id!r}")
        for name, played in (("noop", idle), ("random", chance), ("oracle", solved)):
            won[name] += played.success
    return ", ".join(f"{name} {count} of {TASKS}" for name, count in won.items())


def check_admissible(bench: Benchmark) -> str:
    """Every listed action that is tried is taken, and one that is not listed changes nothing."""
    tried = 0
    for task in some_tasks(bench, 1):
        plan = bench.oracle(task)
        with contextlib.closing(bench.make_env(task)) as env:
            for prefix in ([], plan[: len(plan) // 2]):
                seen = shown(env, prefix)[-1]
                listed = seen.admissible
                refused = env.step("qwx zzyzx")
                if not refused.accepted:
                    same = refused.admissible == listed and not refused.done
                    require(same, "an action that was not accepted changed what can be done")
                telling = not seen.open and refused.accepted and refused.text != seen.text
                for action in random.Random(0).sample(listed, min(6, len(listed))):
                    shown(env, prefix)
                    after = env.step(action)
                    tried += 1
                    real = after.accepted and not (telling and after.text == refused.text)
                    require(real, f"{action!r} is listed as admissible and was refused: {after.text[:200]!r}")
    return f"{tried} listed actions taken" if tried else "no actions are listed"


def check_odd_text(bench: Benchmark) -> str:
    """Long and odd actions are answered or refused by a UserError, and the episode can go on."""
    (task,) = some_tasks(bench, 1)
    plan = bench.oracle(task)
    with contextlib.closing(bench.make_env(task)) as env:
        env.reset()
        pid = getattr(env, "pid", None)
        for name, text in ODD_TEXTS.items():
            started = time.monotonic()
            try:
                seen = env.step(text)
            except UserError:
                pass
            except Exception as error:
                what = f"{type(error).__name__}: {error}"
                raise AssertionError(f"an action with {name} fails with {what}") from error
            else:
                _check_observation(seen, f"after an action with {name}")
                if seen.done:
                    env.reset()
            require(time.monotonic() - started < PATIENCE, f"an action with {name} takes too long")
            require(getattr(env, "pid", None) == pid, f"an action with {name} costs the worker")
        require(shown(env, plan)[-1].success, "after odd actions the oracle no longer solves the task")
    return ", ".join(ODD_TEXTS)


def _is_tool(tool: Tool) -> bool:
    function = tool.get("function") if isinstance(tool, dict) else None
    return isinstance(function, dict) and isinstance(function.get("name"), str) and is_json(tool)
