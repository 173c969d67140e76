"""`jitmem items`: what a write-time memory of a run holds, how it came to be, and taking a write back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from .errors import UserError
from .terminal import emit, json_option, run_path, table

SHORT = 80
"""Characters of one text that the table shows."""


@click.command("items")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--at", type=click.IntRange(min=0), metavar="N", help="As of write N; by default now.")
@click.option("--history", is_flag=True, help="Every change in order, and what was refused.")
@click.option("--undo", type=click.IntRange(min=1), metavar="N", help="Take write N back by a new write.")
@click.option("--item", type=click.IntRange(min=1), metavar="ID", help="This item alone, whole.")
@click.option("--full", is_flag=True, help="Whole texts, one below the other.")
@json_option
def items_command(
    run: Path, at: int | None, history: bool, undo: int | None, item: int | None, full: bool, as_json: bool
) -> None:
    """Show the items (rules, skills, workflows, ...) that the memory of RUN wrote.

    With --undo, what write N did is done in reverse. The history keeps both, the run's card tells of it, and
    episodes played from then on, when the run goes on, see memory without it.
    """
    from .item_frames import history_rows, memory_rows, undo_write

    if sum((at is not None, history, undo is not None)) > 1:
        raise UserError("give one of --at, --history and --undo")

    def work() -> dict[str, Any]:
        found = run_of_items(run)
        by = None if undo is None else undo_write(found, undo)
        rows = history_rows(found) if history else memory_rows(found, at)
        if item is not None:
            ids = sorted({row["item"] for row in rows if row["item"] is not None})
            rows = [row for row in rows if row["item"] == item]
            if not rows:
                there = f"there are {ids[0]} to {ids[-1]}" if ids else "there are none"
                gone = "" if history else "; --history also shows those that are gone"
                raise UserError(f"there is no item {item} in {found.path}; {there}{gone}")
        return {"rows": rows} | ({} if by is None else {"undone": undo, "by": by})

    def show(result: dict[str, Any]) -> str:
        rows = result["rows"]
        if (full or item is not None) and rows:
            shown = "\n\n".join(map(_whole, rows))
        else:
            cells = [{name: _short(value) for name, value in row.items()} for row in rows]
            shown = table(cells, "no changes" if history else "no items", limit=SHORT)
            if any(len(str(value)) > SHORT for row in cells for value in row.values()):
                click.echo("--full shows whole texts, --item ID one item", err=True)
        return f"write {undo} is taken back by write {result['by']}\n\n{shown}" if undo else shown

    emit(as_json, work, show)


def run_of_items(path: Path) -> Any:
    """The run at a path, if its memory writes items.

    Raises:
        UserError: It is a folder of runs, or its memory writes none; the message says where to look instead.
    """
    from .memories import NAMES, parameters
    from .runs import Run, list_runs, open_run

    writers = [name for name in NAMES if "model" in parameters(name)]
    place = run_path(path)
    if place.is_dir() and not (place / "config.json").exists():
        below = [row for row in list_runs(place) if "error" not in row]
        if below:
            fitting = [row["path"] for row in below if row["memory"] in writers]
            one = f"give one of them, such as {fitting[0]}" if fitting else _none_of(writers)
            raise UserError(f"{place} is a folder of {len(below)} runs; {one}")
    found: Run = open_run(place)
    memory = found.settings.get("memory", {}).get("name")
    if memory in ("none", "oracle"):
        raise UserError(f"{place} has memory {memory}, which stores nothing; {_none_of(writers)}")
    if memory in ("raw", "jitmem"):
        raise UserError(
            f"{place} has memory {memory}, which writes no items but keeps whole trajectories; jitmem serve "
            f"{place} shows its bank"
        )
    return found


def _none_of(writers: Sequence[str]) -> str:
    return f"runs of {', '.join(writers)} have items"


def _short(value: Any) -> Any:
    """An item's fields as one text; anything else as it is."""
    if isinstance(value, dict):
        return "; ".join(f"{name}: {inner}" for name, inner in value.items())
    return value


def _whole(row: dict[str, Any]) -> str:
    """A row with its short values on one line and whole texts below."""
    from .render import clean_text, fields_text

    head = [f"{n} {v}" for n, v in row.items() if v is not None and not isinstance(v, dict)]
    lines = ["  ".join(head)]
    for name, value in row.items():
        if isinstance(value, dict) and value:
            lines += [f"  {name}:"] if name != "data" else []
            lines += [f"    {line}" for line in clean_text(fields_text(value), None).splitlines()]
    return "\n".join(lines)
