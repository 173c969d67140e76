"""What the executor did, step by step, and what it was worth."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..records import Call, Episode, Step, Trajectory, Verdict
from ..render import clean_text, escape
from ..tool_calls import parse_call
from .calls import MOST_OPTIONS, StepCalls, by_step, call_html, calls_html, options, prompt, usage_html
from .style import SHORT, TEXT_LIMIT, badge, block, code, empty, facts, fold, folds, table

ALL_STEPS = 120_000
"""Characters that what was seen in all steps may take together; so many more may their prompts."""
_LEAST = 800
_EXCERPT = 180
_LAID_OUT = 30_000
_REWRITTEN = 200_000
_WALL = " [SEP] "
_SPEAKERS = {"user": "the user says", "tool": "the tool answers"}
_PARTS = {
    "r_type": "kind of product",
    "r_att": "attributes",
    "r_option": "options",
    "r_price": "price within the limit",
    "termination": "ended by",
    "basis": "counts",
}


def limit_of(steps: int) -> int:
    """Characters that one text of a step may take in an episode of so many steps."""
    return max(_LEAST, min(TEXT_LIMIT, ALL_STEPS // max(1, steps)))


def episode_column(
    episode: Episode, limit: int | None, chosen: int | None = None, payloads: Sequence[int] = ()
) -> str:
    """The episode: its result, its steps, what else was asked, what all cost.

    Args:
        episode: The episode.
        limit: Characters of one text that are shown; None shows all.
        chosen: A step that is shown whole, its prompt open.
        payloads: For each step the number of the payload it was given, by systems that give several.
    """
    trajectory = episode.trajectory
    steps = () if trajectory is None else trajectory.steps
    refused = sum(not step.valid for step in steps)
    count = "" if trajectory is None else f"{len(steps):,} steps"
    parts = [f"<h2>Episode {facts(count, f'{refused:,} not admissible' if refused else '')}</h2>"]
    if episode.error:
        parts.append(f"<h3>{badge('error')}</h3>{block(episode.error, limit)}")
    parts.append(_result(episode, limit))
    by, left = by_step(steps, episode.calls)
    if trajectory is None:
        parts.append(empty("the episode did not end"))
    else:
        parts += _Steps(trajectory, by, limit, chosen, payloads).html()
    asked = {"curator", "judge"}
    parts.append(calls_html((call for call in left if call.role not in asked), limit))
    others = [
        c for c in episode.calls if c.role not in {*asked, "executor"} and c.phase not in ("act", "recall")
    ]
    parts.append(calls_html(others, limit))
    if used := episode.usage():
        parts.append(f'<div class="step"><h3>Usage by role</h3>{usage_html(used)}</div>')
    return "".join(parts)


def _result(episode: Episode, limit: int | None) -> str:
    """Verdict, and the reward with what it is made of."""
    trajectory, parts = episode.trajectory, []
    if trajectory is not None and trajectory.parts:
        reward = "unscored" if trajectory.reward is None else f"{trajectory.reward:g}"
        parts.append(f"<h3>Reward {escape(reward)}</h3>{_parts(trajectory.parts)}")
    parts.append(_verdict(episode.verdict, [c for c in episode.calls if c.role == "judge"], limit))
    inside = "".join(parts)
    return f'<div class="result">{inside}</div>' if inside else ""


def _verdict(verdict: Verdict, calls: Sequence[Call], limit: int | None) -> str:
    if verdict.source == "none" and not calls and not verdict.rationale:
        return ""
    judged = {True: "success", False: "failure", None: "unusable"}[verdict.success]
    by = "by nobody" if verdict.source == "none" else f"by the {escape(verdict.source)}"
    said = ""
    if verdict.rationale:
        said = block(verdict.rationale, limit)
        if len(verdict.rationale) > SHORT:
            said = fold(f"its words {facts(f'{len(verdict.rationale):,} characters')}", said)
    return f"<h3>Verdict {badge(judged)} {facts(by)}</h3>{said}{calls_html(calls, limit)}"


def _parts(parts: Mapping[str, Any]) -> str:
    """What a reward is made of: a part a line, its value, then its weight or how many checks were met."""
    checks = parts.get("checks")
    checks = checks if isinstance(checks, dict) else {}
    rows = []
    for name, value in parts.items():
        weight = parts.get(f"w_{name[2:]}") if name.startswith("r_") else None
        if value is checks or (name.startswith("w_") and f"r_{name[2:]}" in parts):
            continue
        more = "" if weight is None else f"weight {_figure(weight)}"
        met = checks.get(name)
        if isinstance(met, list) and len(met) == 2:
            more = f"{_figure(met[0])} of {_figure(met[1])} checks met"
        label = _PARTS.get(name, name.replace("_", " "))
        rows.append((escape(label, 80), escape(_figure(value), SHORT), escape(more, 80)))
    return table(("part", "value", ""), rows)


def _figure(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value:.3g}"
    if isinstance(value, list):
        return ", ".join(map(_figure, value[:20]))
    return value if isinstance(value, str) else json.dumps(value)


class _Steps:
    """The steps of a trajectory as HTML."""

    def __init__(
        self,
        trajectory: Trajectory,
        calls: Sequence[StepCalls],
        limit: int | None,
        chosen: int | None,
        payloads: Sequence[int],
    ) -> None:
        self.trajectory = trajectory
        self.calls = calls
        self.limit = None if limit is None else min(limit, limit_of(len(trajectory.steps)))
        self.chosen = chosen
        self.payloads = payloads
        self.benchmark = trajectory.task.benchmark

    def html(self) -> list[str]:
        """Every step, then what was seen last."""
        parts: list[str] = []
        before: tuple[str, Call] | None = None
        for number, (step, calls) in enumerate(zip(self.trajectory.steps, self.calls, strict=True)):
            parts.append(self.step(number, step, calls, before))
            if calls.decided is not None:
                before = f"at step {number}", calls.decided
        if last := self.trajectory.final_observation:
            seen = self.seen(last, "", self.limit, opened=self.chosen == len(self.trajectory.steps))
            parts.append(f'<div class="step numbered"><h3>{facts("end")}</h3>{seen}</div>')
        return parts

    def step(self, number: int, step: Step, calls: StepCalls, before: tuple[str, Call] | None) -> str:
        chosen = number == self.chosen
        limit = None if chosen else self.limit
        payload = self.payloads[number] if number < len(self.payloads) else 0
        speaker = _SPEAKERS.get(step.speaker, escape(step.speaker, 40))
        parts = [f"<h3>{facts(f'step {number}')}</h3>"]
        if speaker or payload:
            parts.append(f"<div>{facts(speaker, f'with payload {payload}' if payload else '')}</div>")
        parts.append(self.seen(step.observation, step.speaker, limit, chosen))
        parts.append(_act(step, limit))
        inside = []
        if step.raw not in (step.action, ""):
            inside.append(fold("raw answer", block(step.raw, limit), opened=chosen))
        if (call := calls.decided) is not None:
            inside.append(prompt(call, limit, before, opened=chosen))
        if call is not None and call.options:
            inside.append(options(call, limit))
        elif step.admissible:
            inside.append(_admissible(step, limit))
        parts.append(folds(*inside))
        parts += [
            call_html(call, limit, _titled(call))
            for call in calls.before
            if call.role not in ("curator", "judge")
        ]
        kind = "step numbered" if step.valid else "step numbered refused"
        return f'<div class="{kind}" data-step="{number}">{"".join(parts)}</div>'

    def seen(self, text: str, speaker: str, limit: int | None, opened: bool = False) -> str:
        """What was seen: whole if short, else its beginning and a fold."""
        told, size = "", len(text)
        if self.benchmark == "webshop" and size <= _REWRITTEN and _WALL in text:
            text, told = text.replace(_WALL, "\n"), "a line for each [SEP]"
        elif speaker == "tool" and (laid := _laid_out(text)):
            text, told = laid, "JSON, laid out"
        if size <= SHORT and text.count("\n") < 5:
            return block(text, limit)
        excerpt = " ".join(clean_text(text[:_EXCERPT], None).split())
        head = f'<code class="excerpt">{escape(excerpt, None)}…</code> {facts(f"{size:,} characters", told)}'
        return fold(head, block(text, limit), opened)


def _laid_out(text: str) -> str:
    """JSON of a list or an object on lines of its own; empty for anything else."""
    if text[:1] not in ("{", "[") or len(text) > _LAID_OUT:
        return ""
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ""


def _titled(call: Call) -> str:
    return "the simulated user's model" if call.role == "user" else ""


def _act(step: Step, limit: int | None) -> str:
    """What was done, and whether the environment took it."""
    mark = "" if step.valid else ' <span class="failure">not admissible</span>'
    reward = facts(f"reward {step.reward:g}") if step.reward else ""
    if not step.action:
        return f'<div class="act">→ {empty("no action found")}{mark} {reward}</div>'
    if len(step.action) <= SHORT // 2 and "\n" not in step.action:
        return f'<div class="act">→ {code(step.action)}{mark} {reward}</div>'
    call = parse_call(step.action) if len(step.action) <= _LAID_OUT else None
    if call is None:
        return f'<div class="act">→{mark} {reward}{block(step.action, limit)}</div>'
    given = "\n".join(f"  {name} = {_argument(value)}" for name, value in call.arguments.items())
    return f'<div class="act">→ {code(call.name)}{mark} {reward}{block(given, limit)}</div>'


def _argument(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _admissible(step: Step, limit: int | None) -> str:
    most = len(step.admissible) if limit is None else MOST_OPTIONS
    lines = [*step.admissible[:most]]
    lines += [f"… {len(step.admissible) - most:,} more"] if len(step.admissible) > most else []
    return fold(f"{len(step.admissible):,} admissible actions", block("\n".join(lines), None))
