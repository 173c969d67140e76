"""Whole runs on real ALFWorld mechanics: killed and resumed, and at any concurrency the same."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jitmem_lab.analysis import results_table
from jitmem_lab.benchmarks import load_benchmark
from jitmem_lab.execution import Executor
from jitmem_lab.memories import load_memory
from jitmem_lab.runs import Run
from jitmem_lab.stream import run_stream

from ..unit.doubles import RuleModel

pytestmark = pytest.mark.benchmarks

CHILD = """
import sys
sys.path.insert(0, {root!r})
from tests.benchmarks.test_stream_real import play
play({out!r}, concurrency=3)
"""


def play(out, concurrency=1):
    """Ten generated games, actions chosen by a rule, memory filled with every trajectory."""
    bench = load_benchmark("alfworld", split="generated_test")
    try:
        return run_stream(
            bench,
            load_memory("raw", gate="environment"),
            Executor(RuleModel(), act="choose", temperature=0.0, max_steps=6, history=1),
            out=out,
            tasks=bench.tasks(limit=10, order=1),
            warm_start=bench.demonstrations(5),
            batch_size=4,
            concurrency=concurrency,
            progress=False,
        )
    finally:
        bench.close()


def workers_of(out: Path) -> list[int]:
    """Processes whose environment names the run: environment workers of its process, if any is left."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"JITMEM_TEST_RUN={out}".encode() in environ:
                found.append(int(entry.name))
    return found


def test_killed_and_resumed_it_is_the_same_run(tmp_path):
    whole = play(tmp_path / "whole")
    out = tmp_path / "killed"
    script = CHILD.format(root=str(Path(__file__).parents[2]), out=str(out))
    environment = os.environ | {"JITMEM_TEST_RUN": str(out)}
    rng, kills = random.Random(3), 0
    while kills < 3:
        child = subprocess.Popen([sys.executable, "-c", script], env=environment)
        lines = _lines(out)
        end = time.monotonic() + 90
        while _lines(out) <= lines and child.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        time.sleep(rng.random() * 0.3)
        if child.poll() is not None:
            break
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        kills += 1
        assert Run(out).status()["state"] == "killed"
    assert kills, "no kill hit a living run"
    run = play(out, concurrency=2)
    assert results_table(run.latest()) == results_table(whole.latest())
    assert [run.bank().get(n).key for n in range(1, len(run.bank()) + 1)] == [
        whole.bank().get(n).key for n in range(1, len(whole.bank()) + 1)
    ]
    end = time.monotonic() + 10
    while workers_of(out) and time.monotonic() < end:
        time.sleep(0.1)
    assert not workers_of(out), "workers outlive a killed run"


def _lines(out: Path) -> int:
    file = out / "episodes.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0
