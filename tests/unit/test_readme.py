"""What the README says is what is here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from jitmem_lab.benchmarks import benchmark_names, default_split

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_benchmark_of_ones_own_is_the_one_that_is_tested() -> None:
    tested = (ROOT / "tests" / "benchmarks" / "own_benchmark.py").read_text(encoding="utf-8")
    code = tested.removeprefix("# fmt: off\n").strip()
    assert code in README
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith("from ")]
    assert len(lines) <= 10


def test_every_benchmark_and_its_default_split_are_named() -> None:
    rows = {m[1]: m[0] for m in re.finditer(r"^\| `(\w+)` \|.*$", README, re.M)}
    for name in benchmark_names():
        assert f"**`{default_split(name)}`**" in rows[name]


def test_every_file_and_folder_that_it_names_is_there() -> None:
    named = re.findall(r"`((?:jitmem_lab|notebooks|dashboards|tests)/[\w/.]*)`", README)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []
