"""Importing the package is light: it is what every command and every notebook pays for first."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import jitmem_lab

pytestmark = pytest.mark.unit

CODE = """
import json, sys, time
wall, cpu = time.perf_counter(), time.process_time()
import jitmem_lab
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
{then}
print(json.dumps({{"wall": wall, "cpu": cpu, "modules": sorted(sys.modules)}}))
"""
HEAVY = {"torch", "panel", "pandas", "transformers", "numba", "plotly", "openai", "papermill", "textworld"}


def fresh(then: str = "") -> dict:
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(then=then)], capture_output=True, text=True, check=True, timeout=60
    )
    return json.loads(done.stdout)


def test_import_is_fast_and_loads_nothing_heavy() -> None:
    seen = [fresh() for _ in range(3)]
    assert not HEAVY & {name.partition(".")[0] for name in seen[0]["modules"]}
    assert min(s["cpu"] for s in seen) <= 0.3, [s["cpu"] for s in seen]


def test_the_core_does_without_torch_panel_and_pandas() -> None:
    modules = fresh("jitmem_lab.EvalConfig.make(); jitmem_lab.Curator; jitmem_lab.run_stream; jitmem_lab.Run")
    assert not {"torch", "panel", "pandas", "transformers"} & set(modules["modules"])


def test_every_public_name_is_there_and_listed() -> None:
    assert 15 <= len(jitmem_lab.__all__) <= 25
    for name in jitmem_lab.__all__:
        assert getattr(jitmem_lab, name) is not None
    assert set(jitmem_lab.__all__) <= set(dir(jitmem_lab))
    assert jitmem_lab.TrainRun is jitmem_lab.training.TrainRun
    assert callable(jitmem_lab.training.evaluate_trained)
    with pytest.raises(AttributeError, match="no attribute 'load_modl'"):
        jitmem_lab.load_modl  # noqa: B018
