"""TextWorldExpress's games: what they show, their folds, and Java processes that end with their worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from jitmem_lab.bench.environments import run
from jitmem_lab.benchmarks import load_benchmark
from jitmem_lab.benchmarks.contract.leftovers import Leftovers
from jitmem_lab.benchmarks.demos import play_actions
from jitmem_lab.benchmarks.express import SEEDS, SOLVERS, TextWorldExpress
from jitmem_lab.errors import InfrastructureError, UserError

pytestmark = pytest.mark.benchmarks
pytest.importorskip("textworld_express")


@pytest.fixture(scope="module")
def bench() -> Iterator[TextWorldExpress]:
    try:
        made = TextWorldExpress("test", workers=2)
    except UserError as error:
        if "Java" not in str(error):
            raise
        pytest.skip(str(error))
    with made:
        yield made


def soon(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def java_of(worker: int) -> list[int]:
    """Process ids of the Java processes that a worker started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid=,comm="], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [int(pid) for pid, parent, name in rows if int(parent) == worker and name == "java"]


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_tasks_are_the_packages_folds_with_the_families_in_turns(bench: TextWorldExpress) -> None:
    tasks = bench.tasks()
    assert len(tasks) == len(SOLVERS) * SEEDS
    assert [task.task_type for task in tasks[: len(SOLVERS)]] == list(SOLVERS)
    assert tasks[1].task_id == "twc-20000"
    assert tasks[1].description.startswith("Your task is to pick up objects")
    folds = {split: {task.meta["seed"] for task in bench.split_tasks(split)} for split in bench.splits}
    assert {split: (min(seeds), len(seeds)) for split, seeds in folds.items()} == {
        "train": (0, SEEDS),
        "dev": (10_000, SEEDS),
        "test": (20_000, SEEDS),
    }


def test_a_game_of_each_family_is_won_by_its_plan(bench: TextWorldExpress) -> None:
    for task in bench.tasks(limit=len(SOLVERS)):
        with bench.make_env(task) as env:
            played = play_actions(env, task, bench.oracle(task), "x")
        assert (played.outcome, played.reward) == ("success", 1.0), task.task_id
        assert played.invalid_actions == 0
        assert len(played.steps) == len(bench.oracle(task)) <= bench.max_steps
        assert played.parts["score"] >= 1
    assert not any(step.reward == 1.0 for step in played.steps[:-1])


def test_what_a_game_shows(bench: TextWorldExpress) -> None:
    task = next(task for task in bench.tasks() if task.task_type == "coin")
    with bench.make_env(task) as env:
        seen = env.reset()
        assert seen.text.startswith("You are in the ")
        assert list(seen.admissible) == sorted(set(seen.admissible))
        assert {"look around", "inventory"} <= set(seen.admissible)
        refused = env.step("fly to the moon")
        assert not refused.accepted
        assert refused.text.startswith("Unknown action")
        assert refused.admissible == seen.admissible
        with pytest.raises(UserError, match="must be a string"):
            env.step(None)  # type: ignore[arg-type]
        assert env.step("look around").text == seen.text


def test_part_of_the_score_is_kept_and_a_lost_game_ends(bench: TextWorldExpress) -> None:
    twc, says = (next(t for t in bench.tasks() if t.task_type == kind) for kind in ("twc", "simonsays"))
    with bench.make_env(twc) as env:
        half = play_actions(env, twc, bench.oracle(twc)[:-1], "x")
    assert half.outcome == "failure"
    assert 0 < (half.reward or 0) < 1
    with bench.make_env(says) as env:
        wrong = next(action for action in env.reset().admissible if action != bench.oracle(says)[0])
        lost = env.step(wrong)
    assert (lost.done, lost.success) == (True, False)
    assert lost.reward < 1


def test_java_that_dies_is_an_infrastructure_error_and_a_reset_starts_anew(bench: TextWorldExpress) -> None:
    task = bench.tasks()[1]
    with bench.make_env(task) as env:
        seen = env.reset()
        worker = env.pid
        (java,) = java_of(worker)
        os.kill(java, signal.SIGKILL)
        with pytest.raises(InfrastructureError):
            env.step("look around")
        assert soon(lambda: worker not in bench.pool.pids())
        assert env.reset() == seen
        assert env.pid != worker


def test_a_closed_or_killed_worker_takes_its_java_along(bench: TextWorldExpress) -> None:
    envs = [bench.make_env(task) for task in bench.tasks(limit=2)]
    for env in envs:
        env.reset()
    workers = [env.pid for env in envs]
    javas = [java for worker in workers for java in java_of(worker)]
    assert len(set(workers)) == len(javas) == 2
    os.kill(workers[0], signal.SIGKILL)
    assert soon(lambda: gone(javas[0]))
    assert not gone(javas[1])
    bench.pool.close()
    assert soon(lambda: gone(javas[1]))
    for env in envs:
        env.close()


def test_nothing_is_left_when_the_program_itself_is_killed() -> None:
    code = (
        "from jitmem_lab.benchmarks.express import TextWorldExpress\n"
        "bench = TextWorldExpress('test', workers=1)\n"
        "print(*bench.pool.pids(), flush=True)\n"
        "input()\n"
    )
    with Leftovers() as leftovers:
        program = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert program.stdout is not None
        worker = int(program.stdout.readline())
        (java,) = java_of(worker)
        program.kill()
        program.wait()
        assert soon(lambda: gone(worker) and gone(java))
        assert leftovers.temporary() == []


def test_without_java_one_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="needs Java"):
        load_benchmark("express")
    row = run(["express"])["rows"][0]
    assert (row["benchmark"], row["split"], row["step_ms_p50"]) == ("express", "test", None)
    assert "needs Java" in row["note"]


def test_times_of_the_environment(bench: TextWorldExpress) -> None:
    (row,) = run(["express"], episodes=2)["rows"]
    assert set(row) == {"benchmark", "split", "reset_ms_p50", "step_ms_p50", "episodes_per_s"}
    assert 0 < row["step_ms_p50"] < 100
    assert row["episodes_per_s"] > 0
