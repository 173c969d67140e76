"""What `jitmem study dry` found, as tables of a screen each."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..terminal import table

_SHARED = "A run that stands in several parts is counted in the first."
_WORST = 12
"""Lines of trouble that are shown; the JSON has all."""


def dry_text(found: dict[str, Any]) -> str:
    """All sections."""
    sections = [
        ("Runs", _runs(found["cells"])),
        ("Parts", f"{_table(found['parts'])}\n{_SHARED}"),
        ("Models", _table(found["models"])),
        ("Longest calls, tokens of prompt and answer", _table(found["roles"])),
        ("Servers", _servers(found["servers"])),
        ("Estimates", "\n".join(textwrap.fill(f"- {line}", 110) for line in found["assumptions"])),
    ]
    if found["batches"]:
        sections.append(("Batches against the server", _batches(found["batches"])))
    failed = found["failed"]
    end = f"{len(failed)} failed: {_few(failed)}" if failed else "nothing failed"
    return "\n\n".join([*(f"## {title}\n{text}" for title, text in sections), end])


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _WORST} more" if len(names) > _WORST else ""
    return ", ".join(names[:_WORST]) + more


def _runs(cells: list[dict[str, Any]]) -> str:
    """How many runs are possible, and what is wrong with the others, each thing once."""
    states = Counter(cell["state"] for cell in cells)
    lines = [f"{len(cells)} runs: " + ", ".join(f"{count} {state}" for state, count in states.items())]
    wrong = Counter((cell["split"], cell["says"]) for cell in cells if cell["says"])
    lines += [f"- {split}, {count} runs: {says}" for (split, says), count in wrong.most_common(_WORST)]
    return "\n".join(lines)


def _servers(rows: list[dict[str, Any]]) -> str:
    return "\n".join(f"{row['model']} ({row['for']})\n    {row['start']}" for row in rows) or "none"


def _batches(rows: list[dict[str, Any]]) -> str:
    """One line a state and split, then what went wrong."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["state"], row["cell"].split("-")[0]), []).append(row)
    shown = [
        {
            "benchmark": benchmark,
            "state": state,
            "kinds": len(own),
            "episodes": sum(row["episodes"] for row in own),
            "longest prompt": max((row["longest"] or 0 for row in own), default=0),
        }
        for (state, benchmark), own in sorted(groups.items())
    ]
    wrong = [{"batch": row["cell"], "error": row["error"]} for row in rows if row["state"] != "completed"]
    lines = [table(shown, "none")]
    lines += [f"- {row['batch']}: {row['error']}" for row in wrong[:_WORST]]
    return "\n".join(lines)


def _table(rows: list[dict[str, Any]]) -> str:
    return table([_line(row) for row in rows], "nothing")


def _line(row: dict[str, Any]) -> dict[str, str]:
    """A row with its spans in words."""
    return {_HEADS.get(name, name): _word(name, value) for name, value in row.items()}


_HEADS = {"prompt": "read M", "completion": "written M", "price": "price $", "hours": "hours"}
_SCALES = {"prompt": 1e6, "completion": 1e6}


def _word(name: str, value: Any) -> str:
    if value is None:
        return "unknown" if name == "context" else "–"
    if isinstance(value, list):
        return " to ".join(_number(one / _SCALES.get(name, 1)) for one in value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _number(value: float) -> str:
    """A number with no more digits than an estimate has."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
