"""Every benchmark keeps the contract: each check on each of them, and on one written in ten lines."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jitmem_lab import cli
from jitmem_lab.benchmarks import benchmark_names, default_split, load_benchmark
from jitmem_lab.benchmarks.base import Benchmark
from jitmem_lab.benchmarks.contract import CHECKS
from jitmem_lab.benchmarks.floors import floors

pytestmark = pytest.mark.benchmarks
OWN = Path(__file__).with_name("own_benchmark.py")


class Case(NamedTuple):
    name: str
    split: str
    modules: tuple[str, ...]
    program: str = ""


CASES = [
    Case("alfworld", "generated_test", ("alfworld", "textworld")),
    Case("webshop", "generated_test", ("spacy", "thefuzz", "Stemmer")),
    Case("tau2", "telecom_solo_small", ("tau2",)),
    Case("tau2", "mock", ("tau2",)),
    Case("express", "test", ("textworld_express",), "java"),
    Case(f"{OWN}:Doors", "test", ()),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{Path(case.name).name}-{case.split}")
def bench(request: pytest.FixtureRequest) -> Iterator[Benchmark]:
    case = request.param
    for module in case.modules:
        pytest.importorskip(module)
    if case.program and not shutil.which(case.program):
        pytest.skip(f"there is no {case.program} on this machine")
    with contextlib.closing(load_benchmark(case.name, split=case.split)) as made:
        yield made


@pytest.mark.parametrize("check", CHECKS)
def test_contract(bench: Benchmark, check: str) -> None:
    assert CHECKS[check](bench)


def test_floors(bench: Benchmark, capsys: pytest.CaptureFixture[str]) -> None:
    result = floors(bench, limit=3)
    assert (result["benchmark"], result["split"], result["games"]) == (bench.name, bench.split, 3)
    assert result["oracle"] == {"success": 1.0, "reward": 1.0, "won": 3, "n": 3}
    assert result["noop"]["won"] <= result["random"]["won"] <= 3
    played = {name: result[name] for name in ("noop", "random", "oracle")}
    assert {name: floors(bench, limit=3)[name] for name in played} == played
    assert "3/3" in capsys.readouterr().err


def test_every_benchmark_that_is_known_is_here() -> None:
    assert {case.name for case in CASES if ":" not in case.name} == set(benchmark_names())
    assert all(default_split(case.name) == case.split for case in CASES[:3] + CASES[4:5])


def test_ten_lines_make_a_benchmark_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = OWN.read_text()
    code = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    assert len(code) <= 10
    (tmp_path / "doors.py").write_text(text)
    for command in ("check contract", "floors"):
        with pytest.raises(SystemExit) as stop:
            cli.main([*command.split(), f"{tmp_path / 'doors.py'}:Doors", "--split", "test", "--json"])
        assert stop.value.code == 0
        result: dict[str, Any] = json.loads(capsys.readouterr().out)
        assert (result["benchmark"], result["split"]) == ("doors", "test")
    assert result["oracle"]["won"] == 9
    assert result["noop"]["won"] == 0
