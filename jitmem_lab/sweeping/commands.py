"""`jitmem sweep`: a grid of runs from the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import UserError
from ..terminal import Seconds, emit, json_option


@click.command("sweep")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "-p",
    "--parameter",
    "pairs",
    nargs=2,
    multiple=True,
    metavar="NAME VALUES",
    help="Values of one parameter, with commas; repeat it for several.",
)
@click.option("-o", "--out", default="runs/sweep", show_default=True, help="Folder of the runs.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=2, show_default=True, help="Episodes at once."
)
@click.option("--cache", type=click.Path(path_type=Path), help="SQLite file of model answers to reuse.")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    default=120.0,
    show_default=True,
    help="Seconds after which a model call counts as failed.",
)
@click.option("--engine", default="local", show_default=True, help="Who plays the cells: local or ray.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Cells at a time; in a Ray cluster that is joined, its resources decide.",
)
@click.option("--address", default="", help="Ray cluster to join, such as auto or ray://HOST:10001.")
@click.option("--cell-cpus", type=float, default=1.0, show_default=True, help="CPUs of a cell, for Ray.")
@click.option("--cell-gpus", type=float, default=0.0, show_default=True, help="GPUs of a cell, for Ray.")
@click.option("--notebooks", is_flag=True, help="Run each cell as notebook 20_evaluate and keep it.")
@json_option
def sweep_command(
    file: Path | None,
    pairs: tuple[tuple[str, str], ...],
    out: str,
    concurrency: int,
    cache: Path | None,
    timeout: float,
    engine: str,
    workers: int,
    address: str,
    cell_cpus: float,
    cell_gpus: float,
    notebooks: bool,
    as_json: bool,
) -> int:
    """Run every combination of parameters, or what is missing of it.

    FILE (TOML or JSON) holds the tables `fixed`, `grid` and `rows`; -p adds to it or stands alone:

        jitmem sweep -p memory none,raw,jitmem -p order 0,1,2 -p games 20

    Killed or interrupted, the same command goes on where it stopped.
    """
    from ..grids import Grid
    from ..sweep import STATUS, read_sweep, run_sweep
    from .engines import make_engine

    if file is None and not pairs:
        raise UserError("give a grid file or -p NAME VALUES, such as -p memory none,raw,jitmem")
    failed: list[str] = []

    def work() -> dict[str, Any]:
        grid = (Grid() if file is None else Grid.read(file)).with_pairs(pairs)
        sweep = run_sweep(
            grid,
            out=out,
            concurrency=concurrency,
            cache=cache,
            timeout=timeout,
            notebooks=notebooks,
            engine=make_engine(engine, workers, address, cell_cpus, cell_gpus),
        )
        failed.extend(place.cell.name for place in sweep.failed())
        return read_sweep(out) | {"table": sweep.text()}

    def show(status: dict[str, Any]) -> str:
        return f"{status['table']}\n\n{Path(out) / STATUS} says how each cell stands"

    emit(as_json, work, show)
    return 1 if failed else 0
