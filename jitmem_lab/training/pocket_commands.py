"""`jitmem pocket`: the miniature's models, made from nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from ..terminal import emit, facts, json_option


@click.group("pocket")
def pocket_group() -> None:
    """Make the pocket models: small executors, the curator that training begins with, and a writer."""


@pocket_group.command("fit")
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), default=Path("pocket"), help="Folder of the models."
)
@click.option(
    "--role",
    "names",
    multiple=True,
    help="executor, curator, writer or executor2; may be given again. By default the first three.",
)
@click.option("--split", help="ALFWorld's train split: train (needs data) or generated_train.")
@click.option("--seed", default=0, help="Root of every random choice.")
@click.option(
    "--steps", type=click.IntRange(min=1), help="Steps of each; by default those of the shipped ones."
)
@click.option(
    "--threads", type=click.IntRange(min=0), default=0, help="Threads; 0 leaves the library's choice."
)
@json_option
def fit_command(
    out: Path,
    names: tuple[str, ...],
    split: str | None,
    seed: int,
    steps: int | None,
    threads: int,
    as_json: bool,
) -> None:
    """Fit the pocket models on expert episodes of the train split, never on a valid game.

    Some minutes each. The folders serve as models: hf:OUT/executor, hf:OUT/curator, hf:OUT/writer. The same
    seed gives the same weights on the same machine with as many threads; elsewhere they differ by the
    rounding of sums.
    """
    from .fitting import USUAL, fit_pocket

    def tell(role: str, step: int, of: int, loss: float) -> None:
        if sys.stderr.isatty() and (step % 20 == 0 or step == of):
            print(f"\r{role} {step}/{of} loss {loss:.3f} ", end="", file=sys.stderr, flush=True)

    def work() -> dict[str, Any]:
        done = fit_pocket(
            out,
            names=names or USUAL,
            split=split,
            seed=seed,
            steps=steps,
            threads=threads,
            on_step=tell,
        )
        return {"out": str(out), **done}

    emit(as_json, work, facts)
