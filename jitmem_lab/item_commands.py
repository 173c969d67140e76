"""`jitmem items`: what a write-time memory of a run holds, how it came to be, and taking a write back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from .errors import UserError
from .terminal import emit, json_option, run_path, table


@click.command("items")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--at", type=click.IntRange(min=0), metavar="N", help="As of write N; by default now.")
@click.option("--history", is_flag=True, help="Every change in order, and what was refused.")
@click.option("--undo", type=click.IntRange(min=1), metavar="N", help="Take write N back by a new write.")
@json_option
def items_command(run: Path, at: int | None, history: bool, undo: int | None, as_json: bool) -> None:
    """Show the items (rules, skills, workflows, ...) that the memory of RUN wrote.

    With --undo, what write N did is done in reverse. The history keeps both, the run's card tells of it, and
    episodes played from then on, when the run goes on, see memory without it.
    """
    from .item_frames import history_rows, memory_rows, undo_write
    from .runs import open_run

    if sum((at is not None, history, undo is not None)) > 1:
        raise UserError("give one of --at, --history and --undo")

    def work() -> dict[str, Any]:
        found = open_run(run_path(run))
        by = None if undo is None else undo_write(found, undo)
        rows = history_rows(found) if history else memory_rows(found, at)
        return {"rows": rows} | ({} if by is None else {"undone": undo, "by": by})

    def show(result: dict[str, Any]) -> str:
        rows = [{name: _short(value) for name, value in row.items()} for row in result["rows"]]
        shown = table(rows, "no changes" if history else "no items", limit=80)
        return f"write {undo} is taken back by write {result['by']}\n\n{shown}" if undo else shown

    emit(as_json, work, show)


def _short(value: Any) -> Any:
    """An item's fields as one text; anything else as it is."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {inner}" for name, inner in value.items())
    return value
