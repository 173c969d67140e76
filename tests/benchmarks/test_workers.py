import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jitmem_lab.benchmarks.workers import WorkerPool
from jitmem_lab.errors import InfrastructureError, UserError

pytestmark = pytest.mark.benchmarks

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TARGET = "toy_host:Host"


@pytest.fixture(autouse=True)
def path(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))


@pytest.fixture
def pool():
    made = WorkerPool(TARGET, {"offset": 100}, workers=2, timeout=10)
    yield made
    made.close()


def gone(pid: int, within: float = 5.0) -> bool:
    end = time.monotonic() + within
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except OSError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False


def test_many_environments_share_few_workers_and_keep_their_state(pool):
    envs = [pool.open(number) for number in range(8)]
    assert len(pool.pids()) == 2
    assert [env.call("bump", 1) for env in envs] == [101 + number for number in range(8)]
    assert [env.call("bump", 1) for env in envs] == [102 + number for number in range(8)]
    for env in envs:
        env.close()
        env.close()
    with pytest.raises(InfrastructureError, match="closed"):
        envs[0].call("bump", 1)


def test_one_environment_at_a_time_needs_one_worker(pool):
    for number in range(3):
        env = pool.open(number)
        env.call("bump", 1)
        env.close()
    assert len(pool.pids()) == 1


def test_workers_run_one_thread_each(pool):
    assert pool.call("threads") == "1"
    assert pool.call("add", 2, 3) == 5


@pytest.mark.parametrize("text", ["bad \ud83d", "nul \0 \u2028", "x" * 3_000_000, "", "\n\r\t"])
def test_any_text_travels_exactly(pool, text):
    env = pool.open(0)
    assert env.call("echo", text) == text


def test_a_hanging_call_is_killed_and_the_pool_heals(pool):
    env, other = pool.open(0), pool.open(1)
    assert [env.call("bump", 0), other.call("bump", 0)] == [100, 101]  # past the workers' start
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match=r"within 0\.5 s"):
        env.call("spin", 30, timeout=0.5)
    assert time.monotonic() - started < 5
    assert not env.alive
    with pytest.raises(InfrastructureError):
        env.call("bump", 1)
    assert other.call("bump", 1) == 102
    fresh = pool.open(5)
    assert fresh.call("bump", 1) == 106


def test_a_stopped_worker_is_noticed_even_with_a_large_request(pool):
    env = pool.open(0)
    env.call("bump", 0)
    os.kill(env.pid, signal.SIGSTOP)
    with pytest.raises(InfrastructureError, match="no answer"):
        env.call("echo", "x" * 5_000_000, timeout=0.5)


def test_kill_9_is_an_infrastructure_error_at_once_and_the_pool_heals(pool):
    env = pool.open(0)
    env.call("bump", 1)
    threading.Timer(0.3, os.kill, (env.pid, signal.SIGKILL)).start()
    started = time.monotonic()
    with pytest.raises(InfrastructureError, match="signal 9"):
        env.call("sleep", 8)
    assert time.monotonic() - started < 3
    assert pool.open(1).call("bump", 1) == 102
    env.close()


def test_an_exit_inside_is_reported(pool):
    with pytest.raises(InfrastructureError, match="exit status 3"):
        pool.open(0).call("die")


def test_errors_inside_leave_the_worker_alive(pool):
    env = pool.open(0)
    with pytest.raises(UserError, match="differently"):
        env.call("refuse")
    with pytest.raises(InfrastructureError, match="AttributeError"):
        env.call("nothing")
    with pytest.raises(InfrastructureError, match="no such toy"):
        pool.open("bad")
    assert env.call("bump", 1) == 101


def test_a_host_that_cannot_be_imported_is_reported(pool):
    broken = WorkerPool("no_such_module:Host", workers=1)
    with pytest.raises(InfrastructureError, match="no_such_module"):
        broken.open(0)
    broken.close()


def test_an_interrupted_call_does_not_poison_the_next(pool):
    env = pool.open(0)
    env.call("bump", 0)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        env.call("sleep", 8)
    assert pool.open(1).call("echo", "mine") == "mine"


def test_close_leaves_no_process_and_the_pool_can_be_used_again(pool):
    env = pool.open(0)
    pids = pool.pids()
    pool.close()
    assert all(gone(pid, 0.1) for pid in pids)
    with pytest.raises(InfrastructureError, match="closed"):
        env.call("bump", 1)
    assert pool.call("add", 1, 1) == 2


def test_a_worker_is_replaced_after_its_share():
    pool = WorkerPool(TARGET, {}, workers=1, max_opens=2)
    seen = set()
    for number in range(5):
        env = pool.open(number)
        seen.add(env.pid)
        env.close()
    assert len(seen) == 3
    assert len(pool.pids()) == 1
    pool.close()


@pytest.mark.parametrize("ending", ["exit", "kill", "busy-kill", "exception"])
def test_workers_die_with_their_parent(tmp_path, ending):
    # no main guard: a worker must not run the caller's script again
    script = tmp_path / "caller.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import os, sys, threading, time
            sys.path.insert(0, {str(ROOT)!r})
            from jitmem_lab.benchmarks.workers import WorkerPool
            pool = WorkerPool({TARGET!r}, workers=2)
            envs = [pool.open(n) for n in range(2)]
            print(*pool.pids(), flush=True)
            if {ending!r} == "busy-kill":
                threading.Thread(target=envs[0].call, args=("spin", 60), daemon=True).start()
            if {ending!r} == "exception":
                raise RuntimeError("boom")
            if "kill" in {ending!r}:
                time.sleep(0.3)
                os.kill(os.getpid(), 9)
            """
        )
    )
    temp = tmp_path / "temp"
    temp.mkdir()
    done = subprocess.run(
        [sys.executable, script],
        capture_output=True,
        text=True,
        env={**os.environ, "TMPDIR": str(temp)},
        timeout=60,
        check=False,
    )
    pids = [int(word) for word in done.stdout.split()]
    assert len(pids) == 2, done.stderr
    assert all(gone(pid) for pid in pids)
    assert not list(temp.iterdir())


def test_threads_share_the_pool_without_mixing_answers(pool):
    def work(number):
        env = pool.open(number)
        answers = [env.call("echo", f"{number}-{step}") for step in range(50)]
        env.close()
        return answers

    with ThreadPoolExecutor(16) as threads:
        for number, answers in enumerate(threads.map(work, range(32))):
            assert answers == [f"{number}-{step}" for step in range(50)]


def test_a_call_costs_less_than_a_millisecond(pool):
    env = pool.open(0)
    text = "x" * 2000
    env.call("echo", text)
    best = min(_timed(env, text) for _ in range(5))
    assert best < 1e-3


def _timed(env, text, calls=200):
    started = time.perf_counter()
    for _ in range(calls):
        env.call("echo", text)
    return (time.perf_counter() - started) / calls


def test_at_least_one_worker():
    with pytest.raises(UserError, match="at least 1"):
        WorkerPool(TARGET, workers=0)
