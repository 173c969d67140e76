"""What became of a run's writes of memory: how many changed it, wrote nothing, were kept out, or failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from .runs import Run


class WriteCounts(NamedTuple):
    """Episodes by what memory did with them, and refused parts of what its writer said."""

    changed: int = 0
    """Taken in: something was kept or changed."""
    empty: int = 0
    """Let in, but nothing was written."""
    kept_out: int = 0
    """Not taken in: the gate said no, there was no usable verdict, or the memory keeps nothing."""
    failed: int = 0
    """Writes that ended in an error and are owed."""
    refused: int = 0
    """Items or edits in the writer's answers that broke the memory's rules."""


def write_counts(run: Run) -> WriteCounts:
    """The counts of a run; of an episode whose write failed first, the last attempt counts."""
    last: dict[str, dict[str, Any]] = {}
    for line in run.writes():
        if line["key"] != "warm":
            last[line["key"]] = line
    counts = dict.fromkeys(WriteCounts._fields, 0)
    for line in last.values():
        change = line.get("change")
        if line.get("error") is not None or not isinstance(change, dict):
            counts["failed"] += line.get("error") is not None
            continue
        if not change.get("stored"):
            counts["kept_out"] += 1
        else:
            counts["empty" if change.get("items") == [] else "changed"] += 1
        counts["refused"] += _refused(change.get("note"))
    return WriteCounts(**counts)


def _refused(note: Any) -> int:
    """How many refusals a note tells of, at any depth: a list of them, or the reason for one."""
    if isinstance(note, list):
        return sum(map(_refused, note))
    if not isinstance(note, dict):
        return 0
    found = sum(_refused(value) for name, value in note.items() if name != "refused")
    told = note.get("refused")
    return found + (len(told) if isinstance(told, list) else told is not None)
