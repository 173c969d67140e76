"""A batch of each kind of run of the paper's size against a stub server, in the real worlds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.grids import Cell
from jitmem_lab.study.dry import STAND_IN, missing_data
from jitmem_lab.study.dry_batches import play_batches
from jitmem_lab.study.dry_servers import hosted
from jitmem_lab.study.plan import make_plan

from ..unit.dry_brain import HOSTED, studied
from ..unit.stub_server import StubServer, stub_server, thinking

pytestmark = pytest.mark.benchmarks
NEEDS = {"alfworld": "textworld", "webshop": "numpy", "tau2": "tau2"}
OPTIONS = ("benchmark", "memory", "gate", "retrieval", "payload_of", "traces", "task_conditioned", "act")
"""What tells kinds apart here, beside warm starts, hosted models and τ²'s domains."""


def chosen(benchmark: str) -> list[tuple[Cell, str | None]]:
    """One run of each kind on a benchmark, with the split that stands in where data are missing."""
    missing = missing_data()
    kinds: dict[tuple[Any, ...], tuple[Cell, str | None]] = {}
    for cell in make_plan("paper", "unused").cells():
        config = cell.config
        if config.benchmark != benchmark or (config.split == "retail"):
            continue
        own = tuple(getattr(config, name) for name in OPTIONS)
        own += (config.warm_start > 0, hosted(config.model), hosted(config.curator_model or config.model))
        own += (config.split if config.memory == "none" else "",)
        gone = (benchmark, config.split) in missing
        kinds.setdefault(own, (cell, STAND_IN[benchmark] if gone else None))
    return list(kinds.values())


def expected(cell: Cell) -> set[str]:
    """Roles that must have been asked in a batch of a run."""
    config = cell.config
    roles = {"executor"}
    roles |= {"user"} if config.user_model else set()
    if config.memory not in ("none", "oracle") and config.gate != "environment":
        roles.add("judge")
    roles |= {"curator"} if config.memory == "jitmem" else set()
    writes = config.memory in ("reasoningbank", "skillos") or config.traces == "distilled"
    return roles | ({"distiller"} if writes else set())


@pytest.mark.parametrize("benchmark", list(NEEDS))
def test_a_batch_of_each_kind_is_played(benchmark: str, tmp_path: Path) -> None:
    pytest.importorskip(NEEDS[benchmark])
    pytest.importorskip("tokenizers", reason="MemP finds by meaning, which needs the extra `dense`")
    cells = chosen(benchmark)
    with stub_server(thinking(studied)) as server:
        rows = play_batches(cells, server.url, turns=3, batch=1, out=tmp_path, concurrency=2, timeout=20.0)
        check_requests(server, benchmark)
    assert len(rows) == len(cells) > 4
    for row, (cell, _) in zip(rows, cells, strict=True):
        assert row["state"] == "completed", row
        assert row["episodes"] == 2
        assert {one.split()[0] for one in row["asked"].split(", ")} - {"embedder"} >= expected(cell), row


def check_requests(server: StubServer, benchmark: str) -> None:
    """All that the hosted model refuses was left out in the end, and of τ² tools were called."""
    bodies = [body for _, body, _ in server.requests]
    asked = [body for body in bodies if body["model"] == HOSTED]
    taken = [body for body in asked if "max_completion_tokens" in body and body.get("temperature", 1) == 1]
    assert taken
    assert {body["model"] for body in bodies} > {HOSTED, "Qwen/Qwen3-8B"} or benchmark == "tau2"
    calls = [m for body in bodies for m in body["messages"] if m.get("tool_calls")]
    assert bool(calls) is (benchmark == "tau2")
