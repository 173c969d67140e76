"""The run card: what a run was made with, where each value comes from, and what a reader must be told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from .render import clean_text, escape

if TYPE_CHECKING:
    from .runs import Run


class Row(NamedTuple):
    """One parameter of a run."""

    name: str
    """Its name in `EvalConfig`."""
    value: Any
    """Its value."""
    origin: str
    """`preset NAME`; `default` where the preset says nothing; `chosen` where it differs from either."""


class Card(NamedTuple):
    """A run's card; prints as text and shows as a table in a notebook."""

    title: str
    """Benchmark, split and memory."""
    cautions: tuple[str, ...]
    """Leaks, controls and lenient settings: to be told with every figure of the run."""
    rows: tuple[Row, ...]
    """Every parameter; empty for a run that was not made by `evaluate`."""

    def __str__(self) -> str:
        lines = [self.title, *(f"  ! {caution}" for caution in self.cautions)]
        lines += [f"  {row.name} = {clean_text(row.value, 200)}  ({row.origin})" for row in self.rows]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cautions = "".join(f"<li><b>{escape(caution)}</b></li>" for caution in self.cautions)
        rows = "".join(
            "<tr>" + "".join(f"<td>{escape(value, 200)}</td>" for value in row) + "</tr>" for row in self.rows
        )
        table = f"<details><summary>{len(self.rows)} parameters</summary><table>{rows}</table></details>"
        return f"<p><b>{escape(self.title)}</b></p><ul>{cautions}</ul>{table if rows else ''}"


def card(run: Run) -> Card:
    """The card of a run."""
    bench = run.settings.get("benchmark") or {}
    memory = run.settings.get("memory") or {}
    title = f"{bench.get('name')} {bench.get('split')} · memory {memory.get('name')}"
    request = run.config.get("request") or {}
    trials = request.get("trials")
    said = cautions(run.settings, run.config.get("told_with") or {}, trials if isinstance(trials, int) else 1)
    said += [
        f"write {one['write']} of memory was taken back by hand after {one['episodes']} episodes"
        for one in run.undone()
    ]
    owed = run.status().get("owed", 0)
    if owed:
        said.append(f"{owed} episodes are owed: run it again to play what is missing")
    return Card(title, tuple(said), tuple(_rows(request)))


def _rows(request: dict[str, Any]) -> list[Row]:
    from .evaluation import EvalConfig
    from .presets import values_of

    name = request.get("preset")
    known = values_of(request)
    usual = {
        key: field.get_default(call_default_factory=True) for key, field in EvalConfig.model_fields.items()
    }

    def origin(key: str, value: Any) -> str:
        if key in known:
            return f"preset {name}" if known[key] == value else "chosen"
        return "default" if key in usual and usual[key] == value else "chosen"

    return [Row(key, value, origin(key, value)) for key, value in request.items()]


def cautions(settings: dict[str, Any], told_with: dict[str, Any], trials: int = 1) -> list[str]:
    """What must be told with the figures of a run of these settings, the benchmark's own words first.

    Args:
        settings: The run's settings.
        told_with: What its benchmark says.
        trials: How often the stream went through the tasks.
    """
    from .memories.reflexion import SINGLE_PASS
    from .memories.retrieving import CONTROLS

    bench, memory = settings.get("benchmark") or {}, settings.get("memory") or {}
    said = [f"leak: {leak}" for leak in bench.get("leaks") or []] + list(told_with.get("notes") or [])
    said += [note for note in memory.get("notes") or [] if trials == 1 or note != SINGLE_PASS]
    if memory.get("name") == "oracle":
        said.append("a control: the payload is the benchmark's own solution")
    if memory.get("gate") == "partial":
        said.append("the bank takes any reward above 0 for a success")
    if memory.get("exclude_own") is False:
        said.append("leak: a task may retrieve its own earlier trajectory")
    if memory.get("retrieval") in tuple(CONTROLS):
        said.append(f"a control: {memory['retrieval']} retrieval ({CONTROLS[memory['retrieval']]})")
    if memory.get("payload_of") == "another":
        said.append("a control: the payload is made for another task")
    warm = (settings.get("warm_start") or {}).get("count", 0)
    if warm:
        said.append(f"the bank began with {warm} solved demonstrations of the train split")
    played = told_with.get("demonstrations_of_played_tasks", 0)
    if played:
        said.append(f"{played} of these demonstrations are of tasks that are played here")
    return said
