"""What a write-time memory holds and how it came to be, as frames and HTML; read beside a live run."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .errors import UserError
from .files import append_line
from .frames import frame
from .memories.items import ItemStore, Past
from .records import to_json
from .render import clean_text, escape
from .runs import RunLock

if TYPE_CHECKING:
    import pandas as pd

    from .runs import Run

HISTORY = ("write", "key", "position", "op", "kind", "item", "before", "after", "note")
"""Columns of `history_frame`."""
SHOWN_ITEMS = 200
"""Items in the HTML table; the newest ones."""


@contextlib.contextmanager
def _opened(run: Run, at: int | None = None) -> Iterator[tuple[ItemStore, int]]:
    """The store and the write that is looked at, which a write made meanwhile does not move."""
    with contextlib.closing(ItemStore(run.path / "bank.sqlite", read_only=True)) as store:
        latest = store.version()
        if at is not None and not 0 <= at <= latest:
            raise UserError(f"{run.path} has writes 0 (nothing yet) to {latest}, not {at}")
        yield store, latest if at is None else at


def _positions(run: Run) -> dict[str, int]:
    """Place in the stream of each episode that memory took in, by key."""
    return {line["key"]: line["position"] for line in run.writes() if isinstance(line.get("position"), int)}


def history_frame(run: Run) -> pd.DataFrame:
    """Every change of every item, one row each in order; a write that changed nothing is a row of `op` none.

    Columns are `HISTORY`: `write` counts from 1; `key` and `position` are those of the episode (no position
    for demonstrations and for what was undone by hand); `before` and `after` are the item's fields, None
    where there is no item; `note` is what was kept with the write, e.g. what was refused and why.

    Raises:
        UserError: The run's memory writes no items.
    """
    rows = [tuple(row.values()) for row in history_rows(run)]
    return frame(rows, HISTORY).astype({"position": "Int64", "item": "Int64"})


def history_rows(run: Run) -> list[dict[str, Any]]:
    """`history_frame` as plain rows."""
    with _opened(run) as (store, _):
        writes, changes = store.writes(), store.history()
    places = _positions(run)
    done: dict[int, list[Past]] = {}
    for past in changes:
        done.setdefault(past.write, []).append(past)
    rows: list[tuple[Any, ...]] = []
    for number, key, note in writes:
        parts = [(p.op, p.kind, p.item, p.before, p.after) for p in done.get(number, [])] or [_NO_CHANGE]
        rows += [(number, key, places.get(key), *part, note) for part in parts]
    return [dict(zip(HISTORY, row, strict=True)) for row in rows]


def memory_frame(run: Run, at: int | None = None) -> pd.DataFrame:
    """The items that stood after write `at` (None: now), one row each, oldest first.

    Columns: `item`, `kind`, `born` and `changed` (the writes that inserted and last changed it), `position`
    (of the episode that last changed it), then one a field, named `data.` and the field.

    Raises:
        UserError: The run's memory writes no items, or there is no write `at` yet.
    """
    rows = [
        {name: row[name] for name in _COLUMNS}
        | {f"data.{name}": value for name, value in row["data"].items()}
        for row in memory_rows(run, at)
    ]
    return frame(rows, None if rows else _COLUMNS).astype({"position": "Int64"})


def memory_rows(run: Run, at: int | None = None) -> list[dict[str, Any]]:
    """`memory_frame` as plain rows, an item's fields together in `data`."""
    with _opened(run, at) as (store, at):
        items, writes = store.items(at=at), store.writes()
    places = _positions(run)
    keys = {number: key for number, key, _ in writes}
    return [
        dict(zip(_COLUMNS, (i.id, i.kind, i.born, i.changed, places.get(keys[i.changed])), strict=True))
        | {"data": i.data}
        for i in items
    ]


def undo_write(run: Run, write: int) -> int:
    """Take back one write of a run's memory by a new one that does the opposite, and record that in the run.

    Both stay in the history, and the new one can be taken back in its turn. Episodes that were played stay as
    they were; those played after it, when the run goes on, see memory without the write.

    Returns:
        The number of the new write.

    Raises:
        UserError: The run's memory writes no items or has no such write, a later write changed one of its
            items again, or a process writes the run just now.
    """
    with _opened(run):  # a store of items is there; opened for writing, one would be made
        pass
    lock = RunLock(run.path)
    lock.acquire()
    try:
        with contextlib.closing(ItemStore(run.path / "bank.sqlite")) as store:
            number = store.undo(write)
        undone = {"write": write, "by": number, "episodes": len(run.latest())}
        append_line(run.path / "attempts.jsonl", to_json({"time": time.time(), "undone": undone}))
    finally:
        lock.release()
    return number


def memory_html(run: Run, at: int | None = None) -> str:
    """The items that stood after write `at` (None: now) as a table of HTML, each unfolding to its history.

    Raises:
        UserError: The run's memory writes no items, or there is no write `at` yet.
    """
    with _opened(run, at) as (store, at):
        items, writes = store.items(at=at), store.writes()
        changes = [past for past in store.history() if past.write <= at]
    places = _positions(run)
    tasks = {change.write: taught for change in changes if (taught := taught_by(change.before, change.after))}
    where = {
        number: escape(said_of(key, places.get(key), tasks.get(number, "")), 200) for number, key, _ in writes
    }
    shown = items[-SHOWN_ITEMS:]
    past: dict[int, list[Past]] = {item.id: [] for item in shown}
    for change in changes:
        past.get(change.item, []).append(change)
    rows = []
    for item in shown:
        *earlier, last = past[item.id]
        story = [f"<li>{one.op}, {where[one.write]}{fields_html(one.after)}</li>" for one in earlier]
        story.append(f"<li>{last.op}, {where[last.write]}</li>")
        title = f"{len(story)}, last {where[last.write]}"
        cells = (
            str(item.id),
            escape(item.kind, 80),
            fields_html(item.data),
            f"<details><summary>{title}</summary><ol>{''.join(story)}</ol></details>",
        )
        rows.append("<tr>" + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells) + "</tr>")
    head = "".join(f'<th style="{_CELL}">{name}</th>' for name in ("item", "kind", "fields", "changes"))
    more = f", the last {len(shown):,} of them shown" if len(shown) < len(items) else ""
    return (
        f'<div class="mathjax_ignore tex2jax_ignore"><p><b>{len(items):,} items</b> after {at:,} writes{more}'
        f'</p><table style="border-collapse:collapse"><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


_COLUMNS = ("item", "kind", "born", "changed", "position")
_NO_CHANGE: tuple[Any, ...] = ("none", None, None, None, None)
_CELL = "text-align:left;vertical-align:top;padding:2px 8px;border-bottom:1px solid rgba(128,128,128,.35)"
_TEXT = "white-space:pre-wrap;font:inherit;color:inherit;background:none"


def taught_by(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> str:
    """The task that a change was written after, as far as its fields tell: its sentence, else its id."""
    if after is None:
        return ""
    if before is None and (told := after.get("task") or after.get("query")):
        return str(told)
    old, new = (
        [*one.get("task_ids", []), *([one["task_id"]] if one.get("task_id") else [])]
        for one in (before or {}, after)
    )
    added = [str(one) for one in new if one not in old]
    return added[0] if len(added) == 1 else ""


def said_of(key: str, position: int | None, task: str = "") -> str:
    """Who wrote, for a reader: an episode by its place, a demonstration with its task, a hand.

    Args:
        key: Key of the write.
        position: Place in the stream of its episode, None where it has none.
        task: Of which task it was, see `taught_by`.
    """
    if position is not None:
        return f"episode {position}"
    if key.startswith("warm:"):
        return "a demonstration" + (f" of “{clean_text(task, 120)}”" if task else "")
    if key.startswith("undo:"):
        return f"by hand: write {key.split(':')[1]} taken back"
    return key if len(key) <= 40 else f"{key[:40]}…"


def fields_html(data: Mapping[str, Any] | None) -> str:
    """Fields of an item or of a note, one a line, as HTML."""
    return "".join(
        f"<div><b>{escape(name, 80)}</b> {_value(value)}</div>" for name, value in (data or {}).items()
    )


def _value(value: Any) -> str:
    """A text as it is, a list item by item, anything else as JSON."""
    if isinstance(value, dict):
        return fields_html(value)
    if isinstance(value, list) and value and all(isinstance(one, int | float) for one in value):
        return f'<code style="{_TEXT}">{", ".join(map(str, value))}</code>'
    if isinstance(value, list):
        return f"<ol>{''.join(f'<li>{_value(one)}</li>' for one in value)}</ol>"
    return f'<code style="{_TEXT}">{escape(value if isinstance(value, str) else json.dumps(value))}</code>'
