"""`jitmem demo`: the main job, once, on a machine that has nothing yet."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from shlex import quote

from .runs import Run

MEMORIES = ("none", "raw", "jitmem")
"""Memory systems of the demo."""


def main(games: int = 20, split: str = "generated_seen", model: str = "smol", out: str = "runs/demo") -> int:
    """Play the same games with each memory system, through the quickstart notebook, and say where to look.

    A demo that was interrupted goes on where it stopped; one that is complete is shown again.

    Returns:
        The process's exit status.
    """
    from .analysis import summary_text
    from .notebooks import run_notebook
    from .notebooks.export import to_html

    begun = time.perf_counter()
    folder = Path(out)
    notebook = run_notebook(
        "00_quickstart",
        {
            "games": games,
            "split": split,
            "model": model,
            "out": str(folder.resolve()),
            "memories": list(MEMORIES),
        },
        output=folder / "00_quickstart.ipynb",
        echo=True,
    )
    page = to_html(notebook)
    runs = [Run(folder / name) for name in MEMORIES]
    print(f"\n{games} games of {split}, played by {model}, the same games for each memory:\n")
    print(summary_text(runs))
    print(f"\n{verdict(runs)}")
    print(f"\nTook {time.perf_counter() - begun:.0f} s. Look at")
    print(f"  {page}\n    the payload of each game beside the traces it came from (open it in a browser)")
    print(f"  {notebook}\n    the same, as a notebook to go on from")
    for run in runs:
        print(f"  {run.path}\n    {program()} runs show {quote(str(run.path))}")
    print(f"\nThe first payload beside its traces, in your browser:\n  {serving(folder)}")
    return 0


def serving(folder: Path) -> str:
    """The command that opens the dashboards on a folder of runs, ready to be typed here."""
    return f"{program()} serve {quote(str(folder))} --show"


def program() -> str:
    """How this program is called from here: by its name where the shell finds it, else by its path."""
    here = Path(sys.argv[0])
    found = shutil.which("jitmem")
    if here.name != "jitmem" or (found is not None and Path(found).resolve() == here.resolve()):
        return "jitmem"
    return quote(os.path.relpath(here))


def verdict(runs: list[Run]) -> str:
    """What the table shows, in one sentence that claims no more than the intervals allow."""
    model = runs[0].summary()["model"]
    summaries = {run.settings["memory"]["name"]: run.summary() for run in runs}
    base, curated = summaries["none"], summaries["jitmem"]
    if base["success_rate"] is None or curated["success_rate"] is None:
        return "Not enough games ended to compare."
    gain = curated["outcomes"]["success"] - base["outcomes"]["success"]
    apart = curated["success_interval"][0] > base["success_interval"][1]
    if gain <= 0:
        return f"With {model}, just-in-time memory gained nothing over no memory on these games."
    sure = "the intervals do not overlap" if apart else "within what chance can do on so few games"
    return f"Just-in-time memory won {gain} games more than no memory ({sure})."
