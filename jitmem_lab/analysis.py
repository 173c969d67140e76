"""Frames, summaries and intervals, recomputed from `episodes.jsonl` each time."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from .records import Episode, Usage, content_hash

if TYPE_CHECKING:
    import pandas as pd

    from .runs import Run


class Interval(NamedTuple):
    """A two-sided interval."""

    low: float
    high: float


def wilson(successes: int, n: int, z: float = 1.959964) -> Interval:
    """Wilson's score interval of a share (E. B. Wilson 1927); 95 % by default, (0, 1) for n = 0."""
    if n == 0:
        return Interval(0.0, 1.0)
    p = successes / n
    spread = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    centre = p + z * z / (2 * n)
    low = (centre - spread) / scale if successes else 0.0
    high = (centre + spread) / scale if successes < n else 1.0
    return Interval(low, high)


def episode_row(episode: Episode) -> dict[str, Any]:
    """One episode as flat values; tokens by role as `tokens_<role>`."""
    trajectory = episode.trajectory
    row: dict[str, Any] = {
        "position": episode.position,
        "batch": episode.batch,
        "task_id": episode.task.task_id,
        "task_type": episode.task.task_type,
        "description": episode.task.description,
        "outcome": episode.outcome,
        "reward": trajectory.reward if trajectory is not None else None,
        "steps": len(trajectory.steps) if trajectory is not None else None,
        "invalid_actions": trajectory.invalid_actions if trajectory is not None else None,
        "verdict": episode.verdict.success,
        "payload": episode.recall.payload,
        "traces": [trace.trace_id for trace in episode.recall.traces],
        "self_excluded": episode.recall.self_excluded,
        "bank_size": episode.recall.bank_size,
        "cut_chars": sum(trace.cut_chars for trace in episode.recall.traces),
        "seconds": episode.seconds,
        "error": episode.error,
    }
    for role, usage in episode.usage().items():
        row[f"tokens_{role}"] = usage.prompt_tokens + usage.completion_tokens
    return row


def episode_frame(episodes: Iterable[Episode]) -> pd.DataFrame:
    """One row an episode, in stream order."""
    import pandas as pd

    return pd.DataFrame([episode_row(episode) for episode in episodes])


def results_table(episodes: Iterable[Episode]) -> str:
    """The results as CSV without times: equal bytes for equal results."""
    columns = ("position", "task_id", "outcome", "reward", "steps", "invalid_actions", "verdict")
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow([*columns, "payload_hash", "actions_hash"])
    for e in episodes:
        steps = e.trajectory.steps if e.trajectory else ()
        reward = e.trajectory.reward if e.trajectory else None
        invalid = e.trajectory.invalid_actions if e.trajectory else ""
        actions = content_hash([step.action for step in steps])
        row = [
            e.position,
            e.task.task_id,
            e.outcome,
            str(reward),
            len(steps),
            invalid,
            str(e.verdict.success),
        ]
        table.writerow([*row, content_hash(e.recall.payload), actions])
    return out.getvalue()


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def summarise(run: Run) -> dict[str, Any]:
    """Outcome counts, success rate with its 95 % Wilson interval, mean steps, tokens by role.

    `mean_reward` is the benchmark's own metric (WebShop's score, partial credit included); `graded` says
    whether any episode got partial credit, which is never a success. Errors are no failures: they are counted
    apart and enter no mean. Tokens, calls and seconds are those of every attempt, failed ones and memory's
    writes included: they were paid for.
    """
    counts = {"success": 0, "failure": 0, "error": 0}
    steps: list[float] = []
    invalid = 0
    rewards: list[float] = []
    unscored = 0
    seconds = 0.0
    usage: dict[str, Usage] = {}
    judged = {"true_positive": 0, "false_positive": 0, "true_negative": 0, "false_negative": 0, "unknown": 0}
    excluded = 0
    for episode in run.latest():
        counts[episode.outcome] += 1
        excluded += episode.recall.self_excluded
        if episode.outcome == "error" or episode.trajectory is None:
            continue
        steps.append(len(episode.trajectory.steps))
        invalid += episode.trajectory.invalid_actions
        if episode.trajectory.reward is None:
            unscored += 1
        else:
            rewards.append(episode.trajectory.reward)
        if run.settings.get("judge") is not None:
            won = episode.outcome == "success"
            if episode.verdict.success is None:
                judged["unknown"] += 1
            else:
                right = "true" if episode.verdict.success == won else "false"
                judged[f"{right}_{'positive' if episode.verdict.success else 'negative'}"] += 1
    for attempt in run.iter_episodes():
        seconds += attempt.seconds
        for role, used in attempt.usage().items():
            usage[role] = usage.get(role, Usage()) + used
    for line in run.writes():
        for call in line.get("calls", []):
            role = call["role"]
            usage[role] = usage.get(role, Usage()) + Usage(**call["usage"])
    scored = counts["success"] + counts["failure"]
    interval = wilson(counts["success"], scored)
    status = run.status()
    total = int(run.settings.get("tasks", {}).get("count", scored))
    return {
        "run": str(run.path),
        "cautions": list(run.card().cautions),
        "state": status.get("state"),
        "benchmark": run.settings.get("benchmark", {}).get("name"),
        "split": run.settings.get("benchmark", {}).get("split"),
        "memory": run.settings.get("memory", {}).get("name"),
        "model": model_name(run),
        "tasks": total,
        "outcomes": counts,
        "owed": total - scored,
        "success_rate": counts["success"] / scored if scored else None,
        "success_interval": [interval.low, interval.high],
        "mean_steps": _mean(steps),
        "mean_reward": _mean(rewards),
        "graded": any(reward not in (0.0, 1.0) for reward in rewards),
        "unscored": unscored,
        "floors": (run.config.get("told_with") or {}).get("floors") or {},
        "invalid_actions": invalid,
        "self_excluded": excluded,
        "judge": judged if any(judged.values()) else None,
        "tokens": {
            role: {"prompt": u.prompt_tokens, "completion": u.completion_tokens} for role, u in usage.items()
        },
        "calls": {role: u.calls for role, u in usage.items()},
        "cached_calls": {role: u.cached_calls for role, u in usage.items()},
        "model_seconds": round(sum(u.seconds for u in usage.values()), 3),
        "episode_seconds": round(seconds, 3),
        "wall_seconds": wall_seconds(run),
    }


def model_name(run: Run) -> str | None:
    """What the executor's model was called: as asked for, else as it identifies itself."""
    request = run.config.get("request") or {}
    identity = run.settings.get("executor", {}).get("model", {})
    return request.get("model") or identity.get("model") or identity.get("name")


def wall_seconds(run: Run) -> float | None:
    """Seconds from the first episode's start to the last one's end, pauses between attempts included."""
    spans = [(e.started, e.started + e.seconds) for e in run.iter_episodes()]
    return round(max(end for _, end in spans) - min(start for start, _ in spans), 3) if spans else None


COLUMNS = ("memory", "games", "won", "success rate", "95 % interval", "steps", "invalid", "errors", "wall s")
"""Columns of the summary table, before tokens by role."""


def summary_rows(runs: Sequence[Run]) -> list[dict[str, str]]:
    """One row of formatted figures a run; a column `score` where some run gave partial credit."""
    summaries = [run.summary() for run in runs]
    roles = [
        r
        for r in ("executor", "curator", "judge", "distiller", "user")
        if any(r in s["tokens"] for s in summaries)
    ]
    graded = any(s["graded"] for s in summaries)
    floored = any("noop" in s["floors"] for s in summaries)
    rows = []
    for s in summaries:
        scored = s["outcomes"]["success"] + s["outcomes"]["failure"]
        low, high = s["success_interval"]
        row = {
            "memory": str(s["memory"]),
            "games": str(scored),
            "won": str(s["outcomes"]["success"]),
            "success rate": "-" if s["success_rate"] is None else f"{100 * s['success_rate']:.1f} %",
            "95 % interval": f"{100 * low:.0f} – {100 * high:.0f} %",
            "score": "-" if s["mean_reward"] is None else f"{s['mean_reward']:.3f}",
            "steps": "-" if s["mean_steps"] is None else f"{s['mean_steps']:.1f}",
            "invalid": str(s["invalid_actions"]),
            "errors": str(s["outcomes"]["error"]),
            "wall s": "-" if s["wall_seconds"] is None else f"{s['wall_seconds']:.0f}",
        }
        if not graded:
            del row["score"]
        if floored:
            noop = s["floors"].get("noop")
            row["doing nothing"] = "-" if noop is None else f"{100 * noop:.1f} %"
        for role in roles:
            tokens = s["tokens"].get(role, {"prompt": 0, "completion": 0})
            row[f"{role} tokens"] = f"{tokens['prompt'] + tokens['completion']:,}"
        rows.append(row)
    return rows


def summary_frame(runs: Sequence[Run]) -> pd.DataFrame:
    """The summary table as a frame of formatted figures, one row a run."""
    import pandas as pd

    return pd.DataFrame(summary_rows(runs)).set_index("memory")


def summary_text(runs: Sequence[Run], names: Sequence[str] = ()) -> str:
    """The summary table in plain text; with `names`, one a run, a first column that holds them."""
    rows = summary_rows(runs)
    if names:
        rows = [{"run": name} | row for name, row in zip(names, rows, strict=True)]
    if not rows:
        return "(no runs)"
    widths = {name: max(len(name), *(len(row[name]) for row in rows)) for name in rows[0]}
    lines = ["  ".join(name.rjust(width) for name, width in widths.items())]
    lines += ["  ".join(row[name].rjust(width) for name, width in widths.items()) for row in rows]
    return "\n".join(lines)


def summary_html(runs: Sequence[Run]) -> str:
    """The summary table for a notebook cell."""
    from .render import escape

    rows = summary_rows(runs)
    if not rows:
        return "<p>(no runs)</p>"
    head = "".join(f"<th>{escape(name)}</th>" for name in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(v)}</td>" for v in row.values()) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def curve_figure(runs: Sequence[Run]) -> Any:
    """A plotly figure of the success rate over the stream, one line a run, with its 95 % Wilson band."""
    import plotly.graph_objects as go

    figure = go.Figure()
    palette = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b")
    for run, colour in zip(runs, palette * len(runs), strict=False):
        won = [e.outcome == "success" for e in run.latest() if e.outcome != "error"]
        counts = list(range(1, len(won) + 1))
        rates = [100 * sum(won[:n]) / n for n in counts]
        bands = [wilson(sum(won[:n]), n) for n in counts]
        name = str(run.settings.get("memory", {}).get("name"))
        figure.add_scatter(
            x=counts + counts[::-1],
            y=[100 * b.high for b in bands] + [100 * b.low for b in bands][::-1],
            fill="toself",
            fillcolor=colour,
            opacity=0.12,
            line_width=0,
            hoverinfo="skip",
            showlegend=False,
        )
        figure.add_scatter(x=counts, y=rates, name=name, mode="lines+markers", line_color=colour)
    longest = max((len(trace.x) for trace in figure.data if trace.name), default=0)
    figure.update_layout(
        xaxis={"title": "games played", "tickformat": "d", "dtick": max(1, longest // 10)},
        yaxis_title="success rate so far (%)",
        yaxis_range=[0, 100],
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        height=360,
        template="plotly_white",
    )
    return figure
