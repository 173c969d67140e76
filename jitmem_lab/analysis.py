"""Frames, summaries and intervals, recomputed from `episodes.jsonl` each time."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .accounting import account
from .frames import frame
from .records import Episode, content_hash
from .statistics import confusion, wilson
from .write_counts import write_counts

if TYPE_CHECKING:
    import pandas as pd

    from .runs import Run


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
    return frame([episode_row(episode) for episode in episodes])


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
    """Outcome counts, success rate with its 95 % Wilson interval, mean steps, writes, tokens by role.

    `mean_reward` is the benchmark's own metric (WebShop's score, partial credit included); `graded` says
    whether any episode got partial credit, which is never a success. Errors are no failures: they are counted
    apart and enter no mean. Tokens, calls and seconds are those of every attempt, failed ones and memory's
    writes included: they were paid for.
    """
    episodes = run.latest()
    counts = Counter(episode.outcome for episode in episodes)
    played = [e.trajectory for e in episodes if e.outcome != "error" and e.trajectory is not None]
    rewards = [trajectory.reward for trajectory in played if trajectory.reward is not None]
    judged = confusion(episodes)
    spent = account(run).by_role()
    spans = [(attempt.started, attempt.seconds) for attempt in run.iter_episodes()]
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
        "variant": (run.config.get("request") or {}).get("variant"),
        "model": model_name(run),
        "tasks": total,
        "outcomes": {name: counts[name] for name in ("success", "failure", "error")},
        "owed": total - scored,
        "success_rate": counts["success"] / scored if scored else None,
        "success_interval": [interval.low, interval.high],
        "mean_steps": _mean([len(trajectory.steps) for trajectory in played]),
        "mean_reward": _mean(rewards),
        "graded": any(reward not in (0.0, 1.0) for reward in rewards),
        "unscored": len(played) - len(rewards),
        "floors": (run.config.get("told_with") or {}).get("floors") or {},
        "invalid_actions": sum(trajectory.invalid_actions for trajectory in played),
        "self_excluded": sum(episode.recall.self_excluded for episode in episodes),
        "judge": judged._asdict() if judged else None,
        "writes": write_counts(run)._asdict(),
        "tokens": {
            role: {"prompt": u.prompt_tokens, "completion": u.completion_tokens} for role, u in spent.items()
        },
        "calls": {role: u.calls for role, u in spent.items()},
        "cached_calls": {role: u.cached_calls for role, u in spent.items()},
        "model_seconds": round(sum(u.seconds for u in spent.values()), 3),
        "episode_seconds": round(sum(seconds for _, seconds in spans), 3),
        "wall_seconds": _wall(spans),
    }


def readable(summary: Mapping[str, Any]) -> dict[str, Any]:
    """A summary with shares in percent and other figures cut to what a reader needs, as texts."""
    told: dict[str, Any] = {}
    for name, value in summary.items():
        if name == "success_rate":
            told[name] = "–" if value is None else f"{100 * value:.1f} %"
        elif name == "success_interval":
            low, high = value
            told[f"{name} (95 %, Wilson)"] = f"{100 * low:.1f} – {100 * high:.1f} %"
        elif isinstance(value, float):
            told[name] = f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
        elif isinstance(value, dict):
            told[name] = readable(value)
        elif isinstance(value, list):
            told[name] = "; ".join(map(str, value)) or "none"
        elif isinstance(value, int) and not isinstance(value, bool):
            told[name] = f"{value:,}"
        else:
            told[name] = "–" if value is None or value == {} else value
    return told


def model_name(run: Run) -> str | None:
    """What the executor's model was called: as asked for, else as it identifies itself."""
    request = run.config.get("request") or {}
    identity = run.settings.get("executor", {}).get("model", {})
    return request.get("model") or identity.get("model") or identity.get("name")


def _wall(spans: Sequence[tuple[float, float]]) -> float | None:
    """Seconds from the first episode's start to the last one's end, pauses between attempts included."""
    if not spans:
        return None
    return round(max(start + seconds for start, seconds in spans) - min(start for start, _ in spans), 3)


COLUMNS = ("memory", "games", "won", "success rate", "95 % Wilson", "steps", "invalid", "errors", "wall s")
"""Columns of the summary table, before tokens by role."""


def summary_rows(runs: Sequence[Run]) -> list[dict[str, str]]:
    """One row of formatted figures a run; `variant` and `score` where some run has such."""
    summaries = [run.summary() for run in runs]
    roles = [
        r
        for r in ("executor", "curator", "judge", "distiller", "user")
        if any(r in s["tokens"] for s in summaries)
    ]
    graded = any(s["graded"] for s in summaries)
    varied = any(s["variant"] for s in summaries)
    floored = any("noop" in s["floors"] for s in summaries)
    rows = []
    for s in summaries:
        scored = s["outcomes"]["success"] + s["outcomes"]["failure"]
        low, high = s["success_interval"]
        row = {
            "memory": str(s["memory"]),
            "variant": str(s["variant"] or "-"),
            "games": str(scored),
            "won": str(s["outcomes"]["success"]),
            "success rate": "-" if s["success_rate"] is None else f"{100 * s['success_rate']:.1f} %",
            "95 % Wilson": f"{100 * low:.0f} – {100 * high:.0f} %",
            "score": "-" if s["mean_reward"] is None else f"{s['mean_reward']:.3f}",
            "steps": "-" if s["mean_steps"] is None else f"{s['mean_steps']:.1f}",
            "invalid": str(s["invalid_actions"]),
            "errors": str(s["outcomes"]["error"]),
            "wall s": "-" if s["wall_seconds"] is None else f"{s['wall_seconds']:.0f}",
        }
        if not graded:
            del row["score"]
        if not varied:
            del row["variant"]
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
    return frame(summary_rows(runs)).set_index("memory")


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
