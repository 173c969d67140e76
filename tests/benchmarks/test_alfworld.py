"""ALFWorld's worker side and benchmark protocol, on generated households (no data needed)."""

import os
import random
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jitmem_lab.benchmarks import load_benchmark
from jitmem_lab.benchmarks.alfworld.benchmark import Alfworld
from jitmem_lab.benchmarks.alfworld.check import digest, fingerprint, random_play, replay
from jitmem_lab.benchmarks.demos import play_actions
from jitmem_lab.benchmarks.floors import fixed_policy, play, random_policy
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.records import Task, Trajectory

pytestmark = pytest.mark.benchmarks
pytest.importorskip("alfworld")
pytest.importorskip("textworld")


@pytest.fixture(scope="module")
def bench():
    with Alfworld("generated_test", workers=2) as made:
        yield made


@pytest.fixture
def env(bench):
    made = bench.make_env(bench.tasks()[0])
    yield made
    made.close()


def test_reset_shows_welcome_room_and_task(bench, env):
    seen = env.reset()
    task = bench.tasks()[0]
    assert seen.text.startswith("-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room.")
    assert seen.text.endswith(f"\n\nYour task is to: {task.description}")
    assert task.description[0] != " "
    assert task.description.endswith(".")
    assert not seen.done
    assert not seen.success
    assert 10 <= len(seen.admissible) <= 60


def test_admissible_actions_are_sorted_and_without_help(env):
    seen = env.reset()
    assert "help" not in seen.admissible
    assert {"look", "inventory"} <= set(seen.admissible)
    assert list(seen.admissible) == sorted(set(seen.admissible))


def test_the_oracle_wins_with_reward_one_and_only_at_the_end(bench):
    task = bench.tasks()[0]
    env = bench.make_env(task)
    shown = replay(env, bench.oracle(task))
    env.close()
    assert [seen.success for seen in shown] == [False] * (len(shown) - 1) + [True]
    assert (shown[-1].reward, shown[-1].done) == (1.0, True)
    assert all(seen.reward == 0.0 for seen in shown[:-1])


def test_two_resets_and_two_processes_show_the_same(bench):
    task = bench.tasks()[1]
    envs = [bench.make_env(task) for _ in range(2)]
    first = [digest(random_play(env, 3, 12)) for env in envs]
    again = [digest(random_play(env, 3, 12)) for env in envs]
    assert envs[0].pid != envs[1].pid
    assert first[0] == first[1] == again[0] == again[1]
    for env in envs:
        env.close()


def test_many_live_games_in_few_processes_do_not_disturb_each_other(bench):
    tasks = bench.tasks()[:12]

    def alone(task):
        env = bench.make_env(task)
        try:
            return digest(replay(env, bench.oracle(task)))
        finally:
            env.close()

    expected = [alone(task) for task in tasks]
    envs = [bench.make_env(task) for task in tasks]
    shown = [[env.reset()] for env in envs]
    assert len({env.pid for env in envs}) <= 2
    plans = [bench.oracle(task) for task in tasks]
    for turn in range(max(map(len, plans))):
        for env, plan, seen in zip(envs, plans, shown, strict=True):
            if turn < len(plan):
                seen.append(env.step(plan[turn]))
    assert [digest(seen) for seen in shown] == expected
    for env in envs:
        env.close()


def test_32_concurrent_episodes_need_no_32_processes(bench):
    tasks = [bench.tasks()[number % 6] for number in range(32)]

    def episode(task):
        env = bench.make_env(task)
        try:
            return replay(env, bench.oracle(task))[-1].success
        finally:
            env.close()

    with ThreadPoolExecutor(32) as threads:
        assert all(threads.map(episode, tasks))
    assert len(bench.pool.pids()) <= 2


def test_memo_changes_nothing_that_is_shown(bench):
    tasks = random.Random(5).sample(bench.tasks(), 3)
    with Alfworld("generated_test", workers=2, memo=False) as stock, ThreadPoolExecutor(2) as threads:
        theirs = list(threads.map(lambda task: fingerprint(stock, task), tasks))
    assert [fingerprint(bench, task) for task in tasks] == theirs
    with Alfworld("generated_test", workers=1) as again:  # from the translations kept on disk
        assert [fingerprint(again, task) for task in tasks] == theirs


@pytest.mark.parametrize(
    "action",
    ["", "   ", "nonsense", "go to nowhere 1", "x" * 100_000, "bad \ud83d", "look\nlook", "nul\0", "\u2028"],
    ids=["empty", "blank", "nonsense", "nowhere", "long", "surrogate", "newline", "nul", "separator"],
)
def test_odd_actions_are_answered_and_cost_a_step(env, action):
    before = env.reset()
    seen = env.step(action)
    assert seen.text == "Nothing happens."
    assert seen.admissible == before.admissible
    assert (seen.reward, seen.done) == (0.0, False)


def test_an_action_that_is_no_text_is_refused(env):
    env.reset()
    with pytest.raises(UserError, match="must be a string"):
        env.step(None)
    assert env.step("look").text


def test_a_step_before_the_reset_is_refused(env):
    with pytest.raises(UserError, match=r"reset\(\)"):
        env.step("look")


def test_kill_9_in_mid_episode_is_an_infrastructure_error_and_the_next_episode_works(bench):
    task = bench.tasks()[0]
    env = bench.make_env(task)
    env.reset()
    os.kill(env.pid, signal.SIGKILL)
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="signal 9"):
        env.step("look")
    assert time.monotonic() - started < 3
    assert replay(env, bench.oracle(task))[-1].success
    env.close()
    env.close()


def test_no_temporary_files_even_after_kill_9(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Alfworld("generated_test", workers=1) as bench:
        envs = [bench.make_env(task) for task in bench.tasks(limit=3)]
        for env in envs:
            env.reset()
        assert not list(tmp_path.iterdir())
        os.kill(envs[0].pid, signal.SIGKILL)
    assert not list(tmp_path.iterdir())


def test_memory_stays_flat_over_many_episodes():
    with Alfworld("generated_test", workers=1) as bench:
        tasks = bench.tasks(limit=3)
        sizes = []
        for round_ in range(12):
            for task in tasks:
                env = bench.make_env(task)
                replay(env, bench.oracle(task))
                pid = env.pid
                env.close()
            if round_ in (3, 11):
                sizes.append(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096)
    assert sizes[1] - sizes[0] < 8e6


def test_floors(bench):
    tasks = bench.tasks()[::20]
    for task in tasks:
        env = bench.make_env(task)
        assert play(env, fixed_policy(bench.noop), 5) == (False, 0.0, 5)
        once = play(env, random_policy(1), 10)
        assert play(env, random_policy(1), 10) == once
        env.close()


def test_demonstrations_are_played_once(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with Alfworld("generated_test", workers=2) as bench:
        played = bench.demonstrations(3, seed=1)
    assert [demo.task.split for demo in played] == ["generated_train"] * 3
    for demo in played:
        assert isinstance(demo, Trajectory)
        assert (demo.outcome, demo.reward, demo.source) == ("success", 1.0, "oracle")
        assert demo.invalid_actions == 0
        assert demo.environment == f"alfworld {bench.version}"
        assert demo.steps[0].observation.startswith("-= Welcome")
        assert all(len(step.admissible) >= 10 for step in demo.steps)
    with Alfworld("generated_test", workers=2) as bench:
        started = time.perf_counter()
        assert bench.demonstrations(3, seed=1) == played
        assert time.perf_counter() - started < 0.5
        assert not bench.pool.pids()
        assert bench.demonstrations(3, seed=2) != played
        assert bench.demonstrations(0) == []


def test_a_broken_demonstration_cache_is_an_empty_one(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    broken = tmp_path / "jitmem-lab" / "demonstrations.sqlite"
    broken.parent.mkdir(parents=True)
    broken.write_text("not a database")
    with Alfworld("generated_test", workers=1) as bench:
        assert bench.demonstrations(1)[0].outcome == "success"


def test_a_wrong_walkthrough_is_a_failure(bench):
    task = bench.tasks()[0]
    env = bench.make_env(task)
    played = play_actions(env, task, ["look", "nonsense"], "alfworld x")
    env.close()
    assert (played.outcome, played.reward, played.invalid_actions) == ("failure", 0.0, 1)


def test_tasks_are_small_stable_and_ordered_by_seed(bench):
    tasks = bench.tasks()
    assert tasks == bench.tasks()
    assert len({task.task_id for task in tasks}) == len(tasks) == 60
    assert max(len(task.to_line()) for task in tasks) < 600
    assert bench.tasks(order=0) == bench.tasks(order=0) != bench.tasks(order=1)
    assert sorted(task.task_id for task in bench.tasks(order=0)) == sorted(task.task_id for task in tasks)
    assert bench.tasks(limit=4, order=0) == bench.tasks(order=0)[:4]
    assert bench.tasks(limit=0) == []
    with pytest.raises(UserError, match="limit"):
        bench.tasks(limit=-1)


def test_provenance_says_what_can_change_a_result(bench):
    facts = bench.provenance()
    assert facts["version"] == bench.version
    assert facts["memo"] is True
    assert facts["games"] == 60
    assert "path" not in str(facts)
    assert len(facts["content_hash"]) == 16
    assert any(action.startswith("go to ") for action in facts["admissible_sample"])
    assert facts["packages"]["textworld"] != "missing"


def test_tasks_of_elsewhere_are_refused(bench):
    task = bench.tasks()[0]
    with pytest.raises(UserError, match="belongs to benchmark"):
        bench.make_env(task.model_copy(update={"benchmark": "webshop"}))
    with pytest.raises(UserError, match="has no task"):
        bench.make_env(task.model_copy(update={"task_id": "other/one"}))
    with pytest.raises(UserError, match="no split"):
        bench.make_env(Task(benchmark="alfworld", split="tset", task_id="x", description="x"))


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("alfword", {}, "did you mean alfworld"),
        ("alfworld", {"split": "valid_sen"}, "no split 'valid_sen'"),
        ("alfworld", {"split": "generated_test", "worker": 2}, "did you mean workers"),
        ("alfworld", {"split": "generated_test", "workers": 0}, "at least 1"),
    ],
)
def test_wrong_input_is_one_clear_sentence(name, options, message):
    with pytest.raises(UserError, match=message) as caught:
        load_benchmark(name, **options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("split", ["train", "valid_train", "valid_seen", "valid_unseen"])
def test_missing_data_say_what_to_do(tmp_path, monkeypatch, split):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    monkeypatch.delenv("JITMEM_DATA", raising=False)
    with pytest.raises(UserError, match=r"JITMEM_DATA.*generated_test"):
        load_benchmark("alfworld", split=split)
    load_benchmark("alfworld", split="generated_test").close()
