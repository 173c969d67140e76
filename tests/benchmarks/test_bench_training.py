"""The measurement of a training step beside TRL's own: both ways do the same work."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.benchmarks
# Of the preset's bank of 300 demonstrations each would have to be played first, a second of computing apiece.
SMALL = {"prompts": 2, "group": 2, "micro_batch": 4, "tasks": 10, "bank_size": 20}


def test_both_ways_are_measured() -> None:
    pytest.importorskip("trl")
    from jitmem_lab.bench.training import run

    told: list[str] = []
    found = run(steps=3, rounds=2, progress=told.append, **SMALL)
    assert [line.split(":")[0] for line in told] == ["bare", "ours", "ours", "bare"]
    assert found["payloads_a_step"] == 4
    assert found["steps_each"] == 2
    assert 0 < found["bare_seconds"] < 60
    assert found["more"] == pytest.approx(found["ours_seconds"] / found["bare_seconds"] - 1, abs=1e-2)
