"""One episode as three columns of HTML: its traces, its payload, and what the executor did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..records import Call, Episode, Recall, Step, Trajectory, Usage
from ..render import escape, short_repr
from ..tool_calls import answer_text, message_text

TEXT_LIMIT = 8000
"""Characters of one text that are shown unless all are asked for."""
SHORT = 300
"""Characters of a text on one line."""

STYLE = """
:host { color: var(--background-text-color, inherit); }
* { box-sizing: border-box; }
.jm { font: 14px/1.45 system-ui, sans-serif; overflow-wrap: anywhere; color: inherit;
  --line: rgba(128,128,128,.32); --soft: rgba(128,128,128,.1);
  --good: color-mix(in srgb, #1a9e4b 75%, currentColor); --bad: color-mix(in srgb, #e0384a 75%, currentColor);
  --warn: color-mix(in srgb, #d98a00 75%, currentColor); }
.jm h1, .jm h2, .jm h3 { font-size: 15px; margin: 0; line-height: 1.35; }
.jm h1 { font-size: 17px; white-space: pre-wrap; }
.jm h2 { padding: 0 0 6px; border-bottom: 1px solid var(--line); margin-bottom: 8px; }
.jm .facts { opacity: .75; font-size: 13px; font-weight: normal; }
.jm .badge { display: inline-block; padding: 0 8px; border: 1px solid currentColor; border-radius: 9px;
  font-size: 13px; font-weight: 600; opacity: 1; }
.jm .success { color: var(--good); } .jm .failure { color: var(--bad); } .jm .error { color: var(--warn); }
.jm .columns { display: grid; grid-template-columns: minmax(0,1fr) minmax(0,1fr) minmax(0,1.35fr); gap: 12px;
  margin-top: 10px; }
@media (max-width: 900px) { .jm .columns { grid-template-columns: minmax(0,1fr); } }
.jm .column { border: 1px solid var(--line); border-radius: 6px; padding: 10px; min-width: 0;
  max-height: max(24em, calc(100vh - 190px)); overflow: auto; }
.jm pre { white-space: pre-wrap; margin: 4px 0; padding: 6px 8px; background: var(--soft); border-radius: 4px;
  font: 12.5px/1.45 ui-monospace, monospace; color: inherit; }
.jm .payload { border-left: 3px solid currentColor; }
.jm code { font: 12.5px/1.45 ui-monospace, monospace; background: none; color: inherit;
  white-space: pre-wrap; }
.jm summary { cursor: pointer; padding: 2px 0; } .jm summary:hover { background: var(--soft); }
.jm details { margin: 2px 0; } .jm details > :not(summary) { margin-left: 14px; }
.jm .step { border-top: 1px solid var(--line); padding: 8px 0; } .jm .step:first-of-type { border-top: 0; }
.jm .act code { font-weight: 700; } .jm .empty { opacity: .7; font-style: italic; }
.jm table { border-collapse: collapse; font-size: 12.5px; }
.jm th, .jm td { text-align: left; padding: 1px 10px 1px 0; vertical-align: top; font-weight: normal; }
.jm th { opacity: .7; } .jm td.n { text-align: right; font-variant-numeric: tabular-nums; }
.jm .note { padding: 10px 12px; border: 1px solid var(--line); border-left: 4px solid var(--warn);
  border-radius: 4px; }
"""


def page(body: str) -> str:
    """HTML in the box that the style is for."""
    return f'<div class="jm mathjax_ignore tex2jax_ignore">{body}</div>'


def note(sentence: str) -> str:
    """A sentence in place of what cannot be shown."""
    return page(f'<div class="note" role="status">{escape(sentence, TEXT_LIMIT)}</div>')


def episode_html(episode: Episode, full: bool = False) -> str:
    """The head of an episode and its three columns.

    Args:
        episode: The episode.
        full: Whether long texts are shown whole.
    """
    view = _View(None if full else TEXT_LIMIT)
    parts = (
        ("traces", "Retrieved traces", view.traces(episode.recall)),
        ("payload", "Payload", view.payload(episode)),
        ("episode", "Episode", view.episode(episode)),
    )
    columns = "".join(
        f'<section class="column {name}-column" data-position="{episode.position}" aria-label="{title}" '
        f'tabindex="0">{body}</section>'
        for name, title, body in parts
    )
    return page(f'{view.head(episode)}<div class="columns">{columns}</div>')


def _facts(*facts: str) -> str:
    return f'<span class="facts">{" · ".join(fact for fact in facts if fact)}</span>'


def _details(title: str, body: str, opened: bool = False) -> str:
    return f"<details{' open' if opened else ''}><summary>{title}</summary>{body}</details>"


def _empty(text: str) -> str:
    return f'<div class="empty">{escape(text)}</div>'


def _badge(outcome: str) -> str:
    kind = outcome if outcome in ("success", "failure") else "error"
    return f'<span class="badge {kind}">{escape(outcome)}</span>'


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; the first column is text, the others numbers; cells are HTML already."""
    top = "".join(f"<th>{name}</th>" for name in head)
    lines = (
        "<tr>" + "".join(f"<td{' class=n' if i else ''}>{cell}</td>" for i, cell in enumerate(row)) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


class _View:
    """The parts of an episode as HTML, texts cut at a limit."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit

    def block(self, text: str, kind: str = "") -> str:
        attribute = f' class="{kind}"' if kind else ""
        return f"<pre{attribute}>{escape(text, self.limit)}</pre>"

    def head(self, episode: Episode) -> str:
        task, verdict = episode.task, episode.verdict
        judged = {True: "success", False: "failure", None: "no usable verdict"}[verdict.success]
        trajectory = episode.trajectory
        unscored = trajectory is None or trajectory.reward is None
        facts = _facts(
            "unscored" if unscored else f"reward {trajectory.reward:g}",  # type: ignore[union-attr]
            f"verdict: {judged}, by the {escape(verdict.source)}"
            if verdict.source != "none"
            else "no verdict",
            f"{escape(task.benchmark, 80)} {escape(task.split, 80)}",
            escape(task.task_type, 80),
            f"position {episode.position}, batch {episode.batch}",
            f"{episode.seconds:,.1f} s",
            f"<code>{escape(task.task_id, 160)}</code>",
        )
        return f"<h1>{escape(task.description, 1000)}</h1>{_badge(episode.outcome)} {facts}"

    def traces(self, recall: Recall) -> str:
        count = f"{len(recall.traces):,} of {recall.bank_size:,} in the bank"
        parts = [f"<h2>Retrieved traces {_facts(count)}</h2>"]
        if recall.query:
            parts.append(f'<div class="facts">searched for <code>{escape(recall.query, SHORT)}</code></div>')
        if recall.self_excluded:
            parts.append(f'<div class="facts">{recall.self_excluded:,} of this very task left out</div>')
        for trace in recall.traces:
            title = f"{trace.rank}. <code>{escape(trace.description, SHORT)}</code> "
            title += _facts(f"score {trace.score:.3f}", f"trace {trace.trace_id}")
            text = self.block(trace.text) if trace.text else _empty("no text kept")
            if trace.cut_chars:
                text += f'<div class="facts">{trace.cut_chars:,} characters cut to fit the prompt</div>'
            parts.append(_details(title, text, opened=trace.rank == 1))
        if not recall.traces:
            parts.append(_empty("no traces were retrieved"))
        return "".join(parts)

    def payload(self, episode: Episode) -> str:
        recall = episode.recall
        size = f"{len(recall.payload):,} characters" if recall.payload else ""
        parts = [f"<h2>Payload {_facts(size)}</h2>"]
        none = _empty("no payload: the executor saw the task alone")
        parts.append(self.block(recall.payload, "payload") if recall.payload else none)
        parts += [self.call(call) for call in episode.calls if call.role == "curator"]
        if recall.notes:
            parts.append(_details("notes", self.block(short_repr(recall.notes, depth=4, text=600, items=20))))
        return "".join(parts)

    def episode(self, episode: Episode) -> str:
        trajectory = episode.trajectory
        count = "" if trajectory is None else f"{len(trajectory.steps):,} steps"
        invalid = 0 if trajectory is None else trajectory.invalid_actions
        parts = [f"<h2>Episode {_facts(count, f'{invalid:,} not admissible' if invalid else '')}</h2>"]
        if episode.error:
            parts.append(f"<h3>{_badge('error')}</h3>{self.block(episode.error)}")
        calls = [call for call in episode.calls if call.role == "executor"]
        if trajectory is None:
            parts.append(_empty("the episode did not end"))
        else:
            calls = self.steps(trajectory, calls, parts)
        parts += [self.call(call) for call in calls]
        parts.append(self.verdict(episode))
        parts += [
            self.call(call) for call in episode.calls if call.role not in ("executor", "curator", "judge")
        ]
        parts.append(self.usage(episode))
        return "".join(parts)

    def steps(self, trajectory: Trajectory, calls: list[Call], parts: list[str]) -> list[Call]:
        """Adds the steps, each with the call that decided it; returns the calls of none."""
        left = list(calls)
        for number, step in enumerate(trajectory.steps):
            own = bool(left) and (left[0].text == step.raw or bool(left[0].tool_calls and step.raw))
            call = left.pop(0) if own else None
            parts.append(self.step(number, step, call))
        if trajectory.final_observation:
            last = f'<h3 class="facts">end</h3>{self.block(trajectory.final_observation)}'
            parts.append(f'<div class="step">{last}</div>')
        if trajectory.parts:
            made_of = self.block(short_repr(trajectory.parts, depth=4, text=600, items=20))
            parts.append(_details("what the reward is made of", made_of))
        return left

    def step(self, number: int, step: Step, call: Call | None) -> str:
        mark = "" if step.valid else ' <span class="failure">not admissible</span>'
        action = f"<code>{escape(step.action, SHORT)}</code>" if step.action else _empty("no action found")
        reward = f"reward {step.reward:g}" if step.reward else ""
        head = _facts(f"step {number}", escape(step.speaker, 40))
        parts = [f"<h3>{head}</h3>", self.block(step.observation)]
        parts.append(f'<div class="act">→ {action}{mark} {_facts(reward)}</div>')
        if step.raw not in (step.action, ""):
            parts.append(_details("raw answer", self.block(step.raw)))
        if call is not None:
            parts.append(self.prompt(call))
        if call is not None and call.options:
            parts.append(self.options(call))
        elif step.admissible:
            parts.append(
                _details(f"{len(step.admissible):,} admissible actions", self.lines(step.admissible))
            )
        return f'<div class="step">{"".join(parts)}</div>'

    def lines(self, texts: Sequence[str]) -> str:
        return self.block("\n".join(texts))

    def prompt(self, call: Call) -> str:
        """The exact prompt of a call, folded."""
        said = "".join(
            f'<div class="facts">{escape(message.role)}</div>{self.block(message_text(message))}'
            for message in call.messages
        )
        if call.tools:
            said += f'<div class="facts">tools</div>{self.lines(call.tools)}'
        cost = _facts(
            f"{call.usage.prompt_tokens:,} tokens read", f"{call.usage.completion_tokens:,} written"
        )
        return _details(f"prompt as sent {cost}", said)

    def options(self, call: Call) -> str:
        """The options of a choice, best first."""
        options = call.options or ()
        scores = call.scores or ()
        order = sorted(range(len(options)), key=lambda i: -scores[i] if i < len(scores) else 0.0)
        rows = [
            (
                f"<code>{escape(options[i], SHORT)}</code>",
                f"{scores[i]:.3f}" if i < len(scores) else "",
            )
            for i in order
        ]
        return _details(
            f"{len(options):,} options, likeliest first", _table(("option", "log-probability"), rows)
        )

    def call(self, call: Call) -> str:
        """A whole call, folded but for its title."""
        facts = _facts(escape(call.model, 120), escape(call.finish, 40))
        answer = self.block(call.error or answer_text(call))
        parts = [
            self.prompt(call),
            self.options(call) if call.options else "",
            _details("raw answer", answer),
        ]
        return f'<div class="step"><h3>{escape(call.role)} call {facts}</h3>{"".join(parts)}</div>'

    def verdict(self, episode: Episode) -> str:
        verdict = episode.verdict
        if verdict.source == "none":
            return ""
        judged = {True: "success", False: "failure", None: "unusable"}[verdict.success]
        parts = [f"<h3>Verdict {_badge(judged)} {_facts(f'by the {escape(verdict.source)}')}</h3>"]
        if verdict.rationale:
            parts.append(self.block(verdict.rationale))
        calls = [self.call(call) for call in episode.calls if call.role == "judge"]
        return f'<div class="step">{"".join(parts + calls)}</div>'

    def usage(self, episode: Episode) -> str:
        used = episode.usage()
        if not used:
            return ""
        rows = [(escape(role), *_usage(usage)) for role, usage in used.items()]
        head = ("role", "calls", "from cache", "tokens read", "written", "seconds")
        return f'<div class="step"><h3>Usage by role</h3>{_table(head, rows)}</div>'


def _usage(usage: Usage) -> tuple[str, ...]:
    counts = (usage.calls, usage.cached_calls, usage.prompt_tokens, usage.completion_tokens)
    return (*(f"{count:,}" for count in counts), f"{usage.seconds:,.1f}")
