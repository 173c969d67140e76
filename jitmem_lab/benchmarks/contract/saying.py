"""Checks of what a benchmark says: tasks, splits, provenance, demonstrations."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

from ...records import Task
from ..base import Benchmark
from .common import load_again, loaded_again, refusal_of, require


def check_tasks(bench: Benchmark) -> str:
    """Tasks are unique, the same at each load, survive JSON, and are ordered and cut as asked."""
    tasks = bench.tasks()
    ids = [task.task_id for task in tasks]
    require(tasks, f"split {bench.split} has no tasks")
    require(len(set(ids)) == len(ids), "two tasks of the split have the same task_id")
    require(bench.tasks() == tasks, "tasks() gives something else the second time")
    with loaded_again(bench) as again:
        require([t.task_id for t in again.tasks()] == ids, "loading the split again gives other task ids")
    for task in tasks:
        where = f"task {task.task_id!r}"
        names = (task.benchmark, task.split)
        require(names == (bench.name, bench.split), f"{where} names another benchmark or split")
        require(task.description.strip(), f"{where} has no description")
        require(Task.from_line(task.to_line()) == task, f"{where} does not survive JSON")
        told = f"{task.description}\n{task.key}".lower()
        for fact in _texts(task.meta.get("hidden")):
            require(fact.lower() not in told, f"{where} tells in description or key what it hides: {fact!r}")
    _check_order(bench, tasks)
    return f"{len(tasks)} tasks"


def _check_order(bench: Benchmark, tasks: Sequence[Task]) -> None:
    shuffled = bench.tasks(order=1)
    ids = sorted(task.task_id for task in tasks)
    require(sorted(task.task_id for task in shuffled) == ids, "an order is no permutation of the tasks")
    require(bench.tasks(order=1) == shuffled, "the same order comes out differently the second time")
    if len(tasks) > 8:
        require(shuffled != list(tasks), "an order leaves the tasks as they are")
    require(bench.tasks(limit=2) == list(tasks)[:2], "a limit does not take the first tasks")
    require(bench.tasks(limit=2, order=1) == shuffled[:2], "a limit does not take the first of the order")
    require(bench.tasks(limit=0) == [], "a limit of 0 gives tasks")
    require(refusal_of(lambda: bench.tasks(limit=-1)), "a limit of -1 is not refused by a UserError")


def check_splits(bench: Benchmark) -> str:
    """The splits are named, and an unknown one is refused with their names."""
    require(bench.split in bench.splits, f"the loaded split {bench.split!r} is none of its splits")
    refusal = refusal_of(lambda: load_again(bench, "no such split"))
    require(refusal, "an unknown split is not refused by a UserError")
    absent = [split for split in bench.splits if split not in str(refusal)]
    require(not absent, f"the refusal of an unknown split does not name {', '.join(absent)}")
    return ", ".join(bench.splits)


def check_provenance(bench: Benchmark) -> str:
    """The provenance is JSON, and says benchmark, split and version."""
    facts = bench.provenance()
    try:
        json.dumps(facts, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise AssertionError(f"the provenance is no JSON: {error}") from None
    for name in ("version", "split"):
        require(facts.get(name) == getattr(bench, name), f"the provenance does not say the {name}")
    require(bench.version and isinstance(bench.version, str), "the version is empty")
    require(bench.version == bench.version, "the version changes from one time to the next")
    return bench.version


def check_demonstrations(bench: Benchmark) -> str:
    """Demonstrations are solved tasks of one train split, the same for the same seed."""
    demos = bench.demonstrations(2, seed=0)
    require(len(demos) == 2, f"2 demonstrations were asked for, and {len(demos)} came")
    require(bench.demonstrations(0) == [], "0 demonstrations were asked for, and some came")
    again = bench.demonstrations(2, seed=0)
    require([d.hash for d in again] == [d.hash for d in demos], "the same seed gives other demonstrations")
    for demo in demos:
        where = f"the demonstration of {demo.task.task_id!r}"
        require(demo.outcome == "success" and demo.steps, f"{where} is no success")
        require(demo.source == "oracle", f"{where} does not say that the oracle played it")
        require(demo.invalid_actions == 0, f"{where} has actions that the environment did not take")
    splits = {demo.task.split for demo in demos}
    require(len(splits) == 1, "demonstrations come from several splits")
    (split,) = splits
    with contextlib.closing(load_again(bench, split)) as train:
        shared = {task.task_id for task in train.tasks()} & {task.task_id for task in bench.tasks()}
    require(
        not shared or "test" not in bench.split,
        f"{len(shared)} tasks of {bench.split} may be demonstrated, such as {min(shared, default='')!r}",
    )
    return f"from {split}" + (f", which shares {len(shared)} tasks with {bench.split}" if shared else "")


def _texts(value: Any) -> list[str]:
    """The texts of four characters or more in a JSON value."""
    if isinstance(value, str):
        return [value] if len(value) > 3 else []
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return [text for one in inner for text in _texts(one)]
