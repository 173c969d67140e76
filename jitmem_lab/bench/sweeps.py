"""What a sweep costs beyond the runs that it is made of: the same cells one by one, and as a sweep."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from ..grids import Cell, Grid
from ..sweep import run_sweep
from ..sweeping.cells import Job, Kept, play


def run(*, games: int = 6, rounds: int = 4, progress: Any = None) -> dict[str, Any]:
    """Seconds of six pocket runs on generated games both ways, interleaved.

    One by one, models and worker processes are kept from run to run too, so that only the sweep's own work
    is compared: checks, status, bar.

    Args:
        games: Games of a run.
        rounds: Passes each way, in turn.
        progress: Told of each pass.

    Returns:
        Medians of a pass in seconds, and by how much the second is longer.

    Raises:
        UserError: The benchmark's extra is missing.
    """
    fixed = {"preset": "pocket", "split": "generated_test", "games": games, "warm_start": 10}
    cells = Grid(fixed, {"memory": ["none", "raw", "jitmem"], "order": [0, 1]}).cells()
    seconds: dict[str, list[float]] = {"bare": [], "sweep": []}
    for number in range(rounds):
        for way in ("bare", "sweep") if number % 2 == 0 else ("sweep", "bare"):
            with tempfile.TemporaryDirectory() as folder:
                begun = time.perf_counter()
                if way == "bare":
                    _one_by_one(cells, Path(folder))
                else:
                    run_sweep(cells, out=Path(folder) / "s", progress=False)
                seconds[way].append(time.perf_counter() - begun)
            if progress is not None:
                progress(f"{way}: {seconds[way][-1]:.2f} s")
    bare, swept = (statistics.median(seconds[way]) for way in ("bare", "sweep"))
    return {
        "runs": len(cells),
        "episodes": len(cells) * games,
        "passes_each": rounds,
        "bare_seconds": round(bare, 2),
        "sweep_seconds": round(swept, 2),
        "more": round(swept / bare - 1, 4),
    }


def _one_by_one(cells: list[Cell], folder: Path) -> None:
    kept = Kept()
    try:
        for cell in cells:
            state, error = play(Job(cell.name, str(folder / cell.name), cell.config.request()), kept)
            assert state == "completed", error
    finally:
        kept.keep(())
