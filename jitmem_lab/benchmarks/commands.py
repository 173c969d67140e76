"""`jitmem floors` and `jitmem check`: whether a benchmark holds here, and what its success rates stand on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..errors import UserError
from ..terminal import emit, facts, json_option, names, note, table

benchmark_argument = click.argument("benchmark")
split_option = click.option("--split", help="Its split; by default the benchmark's own, which needs no data.")


@click.command("floors")
@benchmark_argument
@split_option
@click.option(
    "--games", type=click.IntRange(min=1), help="Tasks from the start of the split; all by default."
)
@click.option("--seed", default=0, show_default=True, help="Seed of the random actions.")
@json_option
def floors_command(benchmark: str, split: str | None, games: int | None, seed: int, as_json: bool) -> None:
    """Play BENCHMARK doing nothing, at random, and by its oracle.

    BENCHMARK is a name, or one's own module:Class or file.py:Class.
    """

    def work() -> dict[str, Any]:
        import contextlib

        from . import load_benchmark
        from .floors import floors

        with contextlib.closing(load_benchmark(benchmark, split=split)) as loaded:
            return floors(loaded, games, seed)

    emit(as_json, work, _floors_table)


def _floors_table(result: dict[str, Any]) -> str:
    from ..statistics import wilson

    rows = []
    for name in ("noop", "random", "oracle"):
        score = result[name]
        low, high = wilson(score["won"], score["n"])
        rows.append(
            {
                "policy": name,
                "success": f"{score['success']:.3f}",
                "95 % interval": f"{low:.3f} to {high:.3f}",
                "mean reward": f"{score['reward']:.3f}",
                "won": f"{score['won']} of {score['n']}",
            }
        )
    head = f"{result['benchmark']} {result['split']}: {result['games']} tasks, {result['seconds']} s"
    return f"{head}\n{table(rows, '')}"


@click.group("check")
def check_group() -> None:
    """Check that a benchmark holds here."""


@check_group.command("webshop")
@click.option(
    "--oracles",
    required=True,
    type=click.Path(path_type=Path),
    help="Folder with recorded rewards, episodes and rankings.",
)
@json_option
def check_webshop(oracles: Path, as_json: bool) -> None:
    """Replay recorded WebShop rewards, episodes and rankings."""

    def work() -> dict[str, Any]:
        if not oracles.is_dir():
            raise UserError(f"there is no folder {oracles}; give the one that holds the recorded oracles")
        from .webshop.check import check_oracles

        return dict(check_oracles(oracles))

    emit(as_json, work, facts)


@check_group.command("tau2")
@click.option("--split", "splits", default="telecom_solo_small", show_default=True, help="With commas.")
@click.option("--games", type=click.IntRange(min=1), help="Tasks of each split; all by default.")
@click.option("--workers", type=click.IntRange(min=1), help="Worker processes; one a CPU by default.")
@json_option
def check_tau2(splits: str, games: int | None, workers: int | None, as_json: bool) -> None:
    """Play τ²'s gold actions, whole and without the last, and its floors."""

    def work() -> dict[str, Any]:
        from .tau2.check import check_split

        rows = []
        for split in names(splits, "--split"):
            note(f"{split} …")
            rows.append(check_split(split, workers=workers, limit=games))
        return {"rows": rows}

    emit(as_json, work, lambda result: table(result["rows"], "no splits"))


@check_group.command("contract")
@benchmark_argument
@split_option
@json_option
def check_contract_command(benchmark: str, split: str | None, as_json: bool) -> int:
    """Check what every benchmark must hold, on BENCHMARK.

    BENCHMARK is a name, or one's own module:Class or file.py:Class. The exit code is 1 where a check fails.
    """
    failed: list[dict[str, Any]] = []

    def work() -> dict[str, Any]:
        import contextlib

        from . import load_benchmark
        from .contract import check_contract

        with contextlib.closing(load_benchmark(benchmark, split=split)) as loaded:
            rows = check_contract(loaded)
            failed.extend(row for row in rows if not row["ok"])
            return {"benchmark": loaded.name, "split": loaded.split, "ok": not failed, "rows": rows}

    emit(as_json, work, _contract_table)
    return 1 if failed else 0


def _contract_table(result: dict[str, Any]) -> str:
    rows = [{**row, "ok": "ok" if row["ok"] else "FAILED"} for row in result["rows"]]
    verdict = "holds" if result["ok"] else "is broken"
    return f"{table(rows, '', limit=300)}\n{result['benchmark']} {result['split']}: the contract {verdict}"
