"""The grid of ablations: every row possible, none run twice, and its table against the episodes."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab import evaluation
from jitmem_lab.ablations import ROWS, ablation_grid, ablation_groups, ablation_table
from jitmem_lab.errors import UserError
from jitmem_lab.published import CELLS, QWEN
from jitmem_lab.sweep import run_sweep
from jitmem_lab.sweeping import cells as sweep_cells
from jitmem_lab.sweeping.check import check_cells

from .compared import Model, World

pytestmark = pytest.mark.unit
FIXED = {"games": 6, "batch_size": 3, "warm_start": 2, "max_steps": 1}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    def bench(name: str, split: str | None = None) -> World:
        return World(name, str(split), 8, set(), name == "webshop")

    monkeypatch.setattr(evaluation, "load_benchmark", bench)
    monkeypatch.setattr(sweep_cells, "load_model", lambda spec, **_: Model(spec))


@pytest.mark.parametrize("preset", ["paper", "authors-code", "small"])
@pytest.mark.parametrize("benchmark", ["alfworld", "webshop"])
def test_every_row_is_possible(world: None, preset: str, benchmark: str) -> None:
    pytest.importorskip("tokenizers", reason="the row `dense` needs the extra `dense`")
    grid, same = ablation_grid({"preset": preset, "benchmark": benchmark, "games": 2}, [0, 1])
    cells = grid.cells()
    assert {cell.row for cell in cells} | set(same) == set(ROWS)
    assert len(check_cells(cells)) == len(cells) == 2 * (len(ROWS) - len(same))
    twin = {"small": "warm", "paper": "cold", "authors-code": "cold"}[preset]
    assert same[twin] == "jitmem"
    assert same["k=3"] == "jitmem"


def test_what_a_row_is_compared_with_comes_along() -> None:
    grid, same = ablation_grid(FIXED, [0], ["distilled", "k=1"])
    assert list(grid.rows) == ["jitmem", "k=1", "cold", "distilled"]
    assert not same


@pytest.mark.parametrize(
    ("orders", "rows", "says"),
    [
        ([0], ["k=2"], "no row 'k=2'; did you mean k="),
        ([], [], "orders is empty"),
        ([0], ["zzz"], "there are"),
    ],
)
def test_wrong_rows_are_one_sentence(orders: list[int], rows: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        ablation_grid(FIXED, orders, rows)


def test_the_rows_names_are_the_papers() -> None:
    printed = {(cell.table, cell.row) for cell in CELLS}
    assert {(row.of, row.published) for row in ROWS.values() if row.published} <= printed
    assert {row.of for row in ROWS.values()} == {"", "control", "5", "8", "9"}
    assert all(row.against in ROWS for row in ROWS.values())


def test_the_table_is_recomputed_from_the_episodes(tmp_path: Path, world: None) -> None:
    fixed: dict[str, Any] = FIXED | {"benchmark": "webshop", "split": "small_test"}
    grid, same = ablation_grid(fixed, [0, 1], ["jitmem", "raw", "k=3", "k=5", "all+labels", "warm", "untold"])
    done = run_sweep(grid, out=tmp_path / "s", progress=False)
    assert not done.failed()
    groups = ablation_groups(done)
    table = ablation_table(done, same, [QWEN], draws=500).set_index("row")
    assert list(table.index) == [
        name
        for name in ROWS
        if name in ("jitmem", "none", "raw", "k=3", "k=5", "cold", "warm", "all+labels", "untold")
    ]
    for name, row in table.iterrows():
        runs = [run.latest() for run in groups[same.get(str(name), str(name))].runs.values()]
        base = [run.latest() for run in groups[same.get(row["against"], row["against"])].runs.values()]
        rates = [[e.outcome == "success" for e in run] for run in runs]
        means = [statistics.mean(map(float, rate)) for rate in rates]
        assert row["SR"] == f"{100 * statistics.mean(means):.1f} ({100 * statistics.stdev(means):.1f})"
        scores = [statistics.mean(e.trajectory.reward or 0.0 for e in run if e.trajectory) for run in runs]
        assert row["score"] == f"{100 * statistics.mean(scores):.1f} ({100 * statistics.stdev(scores):.1f})"
        gap = statistics.mean(
            (a.outcome == "success") - (b.outcome == "success")
            for one, other in zip(runs, base, strict=True)
            for a in one
            for b in other
            if a.task.task_id == b.task.task_id
        )
        assert row["SR difference"] in ("–", f"{100 * gap:.1f}")
        assert (row["SR difference"] == "–") == (row["same run as"] == row["against"])
        low, high = map(float, row["SR 95 %"].split(" to "))
        assert low <= 100 * statistics.mean(means) <= high
    assert table.loc["k=3", "same run as"] == "jitmem"
    assert table.loc["k=5", "paper, Qwen3-8B executor: WebShop score"] == "60.5"
    assert table.loc["untold", "paper, Qwen3-8B executor: WebShop SR"] == "22.4 (0.4)"
    assert table.loc["jitmem", "paper, Qwen3-8B executor: WebShop SR"] == "–"
    theirs = table["paper, Qwen3-8B executor: row"]
    assert theirs["k=5"] == "JitMem (trained), k = 5", "a trained curator's cell says so"
    assert theirs["untold"] == "trained, not told the task"
    assert theirs["jitmem"] == theirs["raw"] == "–"
    with pytest.raises(UserError, match="no executor"):
        ablation_table(done, same, ["qwen"])
