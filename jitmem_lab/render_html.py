"""Records as HTML for a notebook cell: no script, no link, no markup of theirs, no fixed colours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .render import escape, short_repr
from .tool_calls import answer_text, message_text

TEXT_LIMIT = 1500
"""Characters of a long text that are shown."""
CELL_LIMIT = 300
"""Characters of a text that are shown in a table cell."""
STEP_LIMIT = 40
"""Steps of a trajectory that are shown."""
TRACE_LIMIT = 5
"""Retrieved traces whose text is shown."""

_LINE = "1px solid rgba(128,128,128,.35)"
_ROOT = "color:inherit;line-height:1.4;overflow-wrap:anywhere"
_PRE = (
    f"white-space:pre-wrap;margin:2px 0;padding:4px 8px;border:{_LINE};border-radius:4px;background:none;"
    "color:inherit;font:12px/1.45 ui-monospace,monospace;max-height:24em;overflow:auto"
)
_CELL = f"text-align:left;vertical-align:top;padding:2px 8px;border-bottom:{_LINE}"
_HEAD = f"{_CELL};white-space:nowrap"
_CODE = "font:inherit;color:inherit;background:none;padding:0;white-space:pre-wrap"


def record_html(record: Any) -> str:
    """HTML of a record, in a box in which nothing is typeset as mathematics."""
    view = next((_VIEWS[c.__name__] for c in type(record).__mro__ if c.__name__ in _VIEWS), _generic)
    try:
        body = view(record)
    except (AttributeError, TypeError, ValueError):  # a record made without validation
        body = _generic(record)
    return f'<div class="jitmem-record mathjax_ignore tex2jax_ignore" style="{_ROOT}">{body}</div>'


def _text(text: Any, limit: int = CELL_LIMIT) -> str:
    """A short text; Jupyter typesets `$$` in HTML, but not within code."""
    return f'<code style="{_CODE}">{escape(text, limit)}</code>'


def _block(text: Any, limit: int = TEXT_LIMIT) -> str:
    """A long text with its line breaks."""
    return f'<pre style="{_PRE}">{escape(text, limit)}</pre>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the cells are HTML already."""
    top = "".join(f'<th style="{_HEAD}">{escape(name)}</th>' for name in head)
    lines = ("".join(f'<td style="{_CELL}">{cell}</td>' for cell in row) for row in rows)
    body = "".join(f'<tr style="background:transparent">{line}</tr>' for line in lines)
    header = f"<thead><tr>{top}</tr></thead>" if top else ""
    return f'<table style="border-collapse:collapse;font-size:12px">{header}<tbody>{body}</tbody></table>'


def _details(title: str, body: str, opened: bool = False) -> str:
    """A part that unfolds; the title is HTML already."""
    return f"<details{' open' if opened else ''}><summary>{title}</summary>{body}</details>"


def _columns(left: str, right: str) -> str:
    """Two parts side by side, one below the other where there is no room."""
    part = '<div style="flex:1 1 20em;min-width:0">{}</div>'
    both = part.format(left) + part.format(right)
    return f'<div style="display:flex;flex-wrap:wrap;gap:12px;margin:4px 0">{both}</div>'


def _head(title: str, *facts: str) -> str:
    """A line with a title and facts; they are HTML already."""
    return f"<div><b>{title}</b>{''.join(f' · {fact}' for fact in facts if fact)}</div>"


def _generic(record: Any) -> str:
    fields = {**record.__dict__, **(getattr(record, "__pydantic_extra__", None) or {})}
    rows = []
    for name, value in list(fields.items())[:60]:
        shown = _text(value) if isinstance(value, str) else _text(short_repr(value, depth=1), CELL_LIMIT)
        rows.append((_text(name, 80), shown))
    if len(fields) > 60:
        rows.append(("…", f"{len(fields) - 60} more fields"))
    return _head(escape(type(record).__name__)) + _table((), rows)


def _usage(usage: Any) -> str:
    names = ("calls", "cached_calls", "prompt_tokens", "completion_tokens", "seconds")
    cells = [
        f"{getattr(usage, name):,.1f}" if name == "seconds" else f"{getattr(usage, name):,}" for name in names
    ]
    return _table([name.replace("_", " ") for name in names], [cells])


def _usage_by_role(usage: dict[str, Any]) -> str:
    head = ("role", "calls", "from cache", "tokens read", "tokens written", "seconds")
    rows = [
        (
            escape(role),
            f"{u.calls:,}",
            f"{u.cached_calls:,}",
            f"{u.prompt_tokens:,}",
            f"{u.completion_tokens:,}",
            f"{u.seconds:,.1f}",
        )
        for role, u in usage.items()
    ]
    return _table(head, rows)


def _task(task: Any) -> str:
    facts = [_text(f"{task.benchmark} {task.split}", 80), _text(task.task_type, 80) if task.task_type else ""]
    return _head(_text(task.description), *facts, _text(task.task_id, 120))


def _step_rows(trajectory: Any) -> list[tuple[str, ...]]:
    steps = trajectory.steps
    shown = range(len(steps))
    if len(steps) > STEP_LIMIT:
        half = STEP_LIMIT // 2
        shown = [*range(half), -1, *range(len(steps) - half, len(steps))]  # type: ignore[assignment]
    rows: list[tuple[str, ...]] = []
    for index in shown:
        if index < 0:
            rows.append(("…", f"{len(steps) - STEP_LIMIT} steps left out", "", "", ""))
            continue
        step = steps[index]
        action = _text(step.action, 120) if step.action else "–"
        raw = "" if step.raw == step.action else _text(step.raw, 120)
        mark = "" if step.valid else " <b>(not admissible)</b>"
        said = f"<b>{escape(step.speaker)}</b>: " if step.speaker else ""
        rows.append(
            (str(index), said + _text(step.observation), action + mark, raw, f"{len(step.admissible):,}")
        )
    return rows


def _trajectory(trajectory: Any, title: str = "") -> str:
    reward = "unscored" if trajectory.reward is None else f"reward {trajectory.reward:g}"
    facts = [
        escape(trajectory.outcome),
        reward,
        f"{len(trajectory.steps):,} steps",
        f"{trajectory.invalid_actions:,} not admissible",
        _text(trajectory.environment, 80) if trajectory.environment else "",
    ]
    head = _head(title or _text(trajectory.task.description), *facts)
    rows = _step_rows(trajectory)
    if trajectory.final_observation:
        rows.append(("end", _text(trajectory.final_observation), "", "", ""))
    if trajectory.parts:
        head += f"<div>{_text(short_repr(trajectory.parts, depth=3, items=20), 800)}</div>"
    if trajectory.task.benchmark == "webshop":
        from .benchmarks.webshop.view import pages_html

        head += _details("pages", pages_html(trajectory))
    table = _table(("step", "observation", "action", "raw answer", "admissible"), rows)
    return head + _details("steps", table, opened=len(rows) <= 12)


def _recall(recall: Any) -> str:
    left = [f"<b>Retrieved traces</b> · {len(recall.traces):,} of {recall.bank_size:,}"]
    if recall.query:
        left.append(f"<div>query {_text(recall.query)}</div>")
    if recall.self_excluded:
        left.append(f"<div>{recall.self_excluded:,} of this very task left out</div>")
    for trace in recall.traces[:TRACE_LIMIT]:
        title = f"{trace.rank}. {_text(trace.description, 160)} · score {trace.score:.3f}"
        cut = f"<div>{trace.cut_chars:,} characters cut</div>" if trace.cut_chars else ""
        left.append(_details(title, _block(trace.text) + cut))
    if len(recall.traces) > TRACE_LIMIT:
        left.append(f"<div>… {len(recall.traces) - TRACE_LIMIT:,} more traces</div>")
    size = f" · {len(recall.payload):,} characters" if recall.payload else ""
    right = [f"<b>Payload</b>{size}", _block(recall.payload) if recall.payload else "<div>(none)</div>"]
    if recall.notes:
        right.append(f"<div>{_text(short_repr(recall.notes, depth=2), 600)}</div>")
    return _columns("".join(left), "".join(right))


def _episode(episode: Any) -> str:
    verdict = episode.verdict
    judged = {True: "success", False: "failure", None: "unknown"}[verdict.success]
    facts = [
        f"<b>{escape(episode.outcome)}</b>",
        f"gate: {judged} by {escape(verdict.source)}" if verdict.source != "none" else "",
        f"batch {episode.batch}, position {episode.position}",
        f"{episode.seconds:,.1f} s",
    ]
    parts = [_head(_text(episode.task.description), *facts)]
    if episode.error:
        parts.append(_block(episode.error))
    parts.append(_recall(episode.recall))
    if episode.trajectory is not None:
        parts.append(_trajectory(episode.trajectory, "What the executor did"))
    if verdict.rationale:
        parts.append(_details("the gate's words", _block(verdict.rationale)))
    if episode.calls:
        title = f"{len(episode.calls):,} model calls"
        parts.append(_details(title, _usage_by_role(episode.usage())))
    return "".join(parts)


def _call(call: Any) -> str:
    facts = [escape(call.role), _text(call.model, 120), escape(call.finish), f"sample {call.sample}"]
    parts = [_head("Model call", *facts)]
    parts += [_details(escape(m.role), _block(message_text(m)), opened=True) for m in call.messages[:20]]
    if call.options:
        scores = call.scores or [None] * len(call.options)
        ranked = sorted(
            zip(call.options, scores, strict=False), key=lambda pair: -(pair[1] if pair[1] is not None else 0)
        )
        rows = [(_text(o, 120), "" if s is None else f"{s:.3f}") for o, s in ranked[:30]]
        parts.append(_details(f"{len(call.options):,} options", _table(("option", "score"), rows)))
    parts.append(f"<div>answer</div>{_block(call.error or answer_text(call))}")
    return "".join(parts) + _usage(call.usage)


_VIEWS: dict[str, Callable[[Any], str]] = {
    "Usage": _usage,
    "Task": _task,
    "Trajectory": _trajectory,
    "Recall": _recall,
    "Episode": _episode,
    "Call": _call,
}
