"""One episode as three columns of HTML: its traces, its payload, and what the executor did."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from ..records import Call, Episode
from ..render import escape
from ..runs import Run
from .calls import by_step, call_html, calls_html
from .shown import Shown, shown, written_before
from .steps import episode_column
from .style import SHORT, STYLE, TEXT_LIMIT, badge, code, empty, facts, fold, note, page, table
from .terms import Word, Words, words_of
from .uptake import LABEL, Uptake, hue, marked, uptake

__all__ = ["SHORT", "STYLE", "TEXT_LIMIT", "episode_html", "note", "page"]

OPEN = 2500
"""Characters up to which the first trace is shown open."""
FEW_CALLS = 2
"""Calls of the curator on the way that are shown each; more are folded together."""
MOST_WORDS = 40
"""Words of a query that are explained one by one."""


def episode_html(
    episode: Episode, full: bool = False, run: Run | None = None, step: int | None = None
) -> str:
    """The head of an episode and its three columns.

    Args:
        episode: The episode.
        full: Whether long texts are shown whole.
        run: The run that it is of: its bank explains the scores, its items' history who wrote what. Without
            it the record alone is told.
        step: A step that is shown whole and open, its prompt too, whatever `full` says.
    """
    limit = None if full else TEXT_LIMIT
    sources = shown(episode, run)
    given = _given(episode)
    taken = uptake([text for text, _ in given], [one.text for one in sources])
    payloads = (
        {number: at for at, (_, steps) in enumerate(given, 1) for number in steps} if _stepwise(given) else {}
    )
    last = max(payloads, default=-1)
    numbers = [payloads.get(number, 0) for number in range(last + 1)]
    parts = (
        (
            "traces",
            "Retrieved traces",
            _traces(episode, sources, taken, words_of(run, episode.recall), limit),
        ),
        ("payload", "Payload", _payload(episode, given, sources, taken, limit)),
        ("episode", "Episode", episode_column(episode, limit, step, numbers)),
    )
    columns = "".join(
        f'<section class="column {name}-column" data-position="{episode.position}" aria-label="{title}" '
        f'tabindex="0">{body}</section>'
        for name, title, body in parts
    )
    return page(f'{_head(episode)}<div class="columns">{columns}</div>')


def _head(episode: Episode) -> str:
    task, verdict, trajectory = episode.task, episode.verdict, episode.trajectory
    judged = {True: "success", False: "failure", None: "no usable verdict"}[verdict.success]
    reward = None if trajectory is None else trajectory.reward
    told = facts(
        "unscored" if reward is None else f"reward {reward:g}",
        f"verdict: {judged}, by the {escape(verdict.source)}" if verdict.source != "none" else "no verdict",
        f"{escape(task.benchmark, 80)} {escape(task.split, 80)}",
        escape(task.task_type, 80),
        f"position {episode.position}, batch {episode.batch}",
        f"trial {episode.trial}" if episode.trial else "",
        f"{episode.seconds:,.1f} s",
        code(task.task_id, 160),
    )
    return f"<h1>{escape(task.description, 1000)}</h1>{badge(episode.outcome)} {told}"


def _given(episode: Episode) -> list[tuple[str, Sequence[int]]]:
    """The payloads, each with the steps that it was for; no steps where one is for all of them."""
    steps = () if episode.trajectory is None else episode.trajectory.steps
    if not any(step.payload for step in steps):
        return [(episode.recall.payload, ())] if episode.recall.payload else []
    texts: dict[str, list[int]] = {}
    for number, step in enumerate(steps):
        if step.payload:
            texts.setdefault(step.payload, []).append(number)
    return list(texts.items())


def _stepwise(given: Sequence[tuple[str, Sequence[int]]]) -> bool:
    return any(steps for _, steps in given)


def payload_text(episode: Episode) -> str:
    """The payload as one text; of a system that gives several on the way, each behind its steps."""
    given = _given(episode)
    if not _stepwise(given):
        return episode.recall.payload
    return "\n\n".join(f"({_ranges(steps)})\n{text}" for text, steps in given)


def _count(number: int, name: str) -> str:
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else ""


def _traces(
    episode: Episode, sources: Sequence[Shown], taken: Uptake, words: Words, limit: int | None
) -> str:
    recall = episode.recall
    written = any(one.kind != "trace" for one in sources)
    title, of = "Retrieved traces", f"{len(sources):,} of {recall.bank_size:,} in the bank"
    if written:
        before = written_before(episode)
        title, of = "Shown by memory", _count(len(sources), "item")
        of += "" if before is None else f", after {_count(before, 'write')}"
    parts = [f"<h2>{title} {facts(of)}</h2>"]
    if recall.query:
        parts.append(f'<div class="facts">searched for {code(recall.query)}</div>')
    if recall.self_excluded:
        parts.append(f'<div class="facts">{recall.self_excluded:,} of this very task left out</div>')
    if words.why:
        parts.append(f'<div class="facts">{escape(words.why, SHORT)}</div>')
    if words.documents:
        parts.append(_documents(words))
    opened = bool(sources) and len(sources[0].text) <= OPEN
    for place, one in enumerate(sources):
        parts.append(_trace(place, one, taken, words, limit, opened=opened and place == 0))
    if not sources:
        parts.append(empty("no traces were retrieved"))
    looked = [
        call
        for call in episode.calls
        if call.phase == "recall" and call.role not in ("curator", "executor", "judge")
    ]
    parts.append(calls_html(looked, limit))
    return "".join(parts)


def _documents(words: Words) -> str:
    """How rare each word of the query was."""
    rare = sorted(words.documents.items(), key=lambda pair: pair[1])
    told = " · ".join(f"{code(text, 60)}: {count:,}" for text, count in rare[:MOST_WORDS])
    more = f" · … {len(rare) - MOST_WORDS:,} more words" if len(rare) > MOST_WORDS else ""
    return f'<div class="facts">in how many of the {words.size:,} traces each word was: {told}{more}</div>'


def _trace(place: int, one: Shown, taken: Uptake, words: Words, limit: int | None, opened: bool) -> str:
    both = taken.by_trace[place]
    told = facts(
        "" if one.score is None else f"score {one.score:.3f}",
        f"{escape(one.kind, 40)} {one.number}",
        f"{_percent(both, taken.words)} of the payload" if both else "",
    )
    title = f'<span class="rank {hue(place)}">{one.rank}.</span> {code(one.title)} {told}'
    parts = (
        [f'<div class="facts">{" · ".join(escape(fact, SHORT) for fact in one.origin)}</div>']
        if one.origin
        else []
    )
    if one.number in words.by_trace and one.kind == "trace":
        parts.append(_added(words, one))
    text = marked(one.text, taken.traces[place], limit)
    parts.append(f"<pre>{text}</pre>" if one.text else empty("no text kept"))
    if one.cut_chars:
        parts.append(f'<div class="facts">{one.cut_chars:,} characters cut to fit the prompt</div>')
    return fold(title, "".join(parts), opened, kind="trace")


def _added(words: Words, one: Shown) -> str:
    """The score of a trace, word by word, the one that added most first."""
    ordered = sorted(words.by_trace[one.number], key=lambda word: -abs(word.adds))
    most = max((abs(word.adds) for word in ordered), default=0.0) or 1.0
    shares = "".join(_word(word, abs(word.adds) / most) for word in ordered[:MOST_WORDS] if word.adds)
    without = [code(word.text, 60) for word in ordered if not word.adds][:MOST_WORDS]
    nothing = facts(f"nothing by {', '.join(without)}") if without else ""
    return f"<div>{shares}{nothing}</div>"


def _word(word: Word, share: float) -> str:
    times = f" ×{word.times}" if word.times > 1 else ""
    return (
        f'<span class="word" style="--share:{share:.2f}">{code(word.text, 60)} {word.adds:+.2f}{times}</span>'
    )


def _payload(
    episode: Episode,
    given: Sequence[tuple[str, Sequence[int]]],
    sources: Sequence[Shown],
    taken: Uptake,
    limit: int | None,
) -> str:
    size = sum(len(text) for text, _ in given)
    told = facts(
        f"{size:,} characters" if given else "",
        f"{_percent(taken.shared, taken.words)} of its words stand in what was shown"
        if sources and taken.words
        else "",
    )
    parts = [f"<h2>Payload {told}</h2>"]
    if taken.shared:
        parts.append(f'<div class="facts">{_label(taken)}</div>')
    for number, ((text, steps), marks) in enumerate(zip(given, taken.payloads, strict=True), 1):
        if steps:
            parts.append(f"<h3>Payload {number} {facts(_ranges(steps))}</h3>")
        parts.append(f'<pre class="payload">{marked(text, marks, limit)}</pre>')
    if not given:
        parts.append(empty("no payload: the executor saw the task alone"))
    first, each = _curator(episode)
    parts += [call_html(call, limit) for call in first]
    asked = "".join(call_html(call, limit, title) for title, call in each)
    parts.append(
        fold(f"{len(each):,} curator calls, step by step", asked) if len(each) > FEW_CALLS else asked
    )
    if episode.recall.notes:
        parts.append(fold("notes", _value(episode.recall.notes)))
    return "".join(parts)


def _label(taken: Uptake) -> str:
    weak = any(not mark.label for marks in taken.traces for mark in marks)
    more = " Underlined: the payload's words bear the mark of another trace." if weak else ""
    cut = " Only the beginnings of the longest texts were compared." if taken.cut else ""
    return escape(LABEL + more + cut)


def _curator(episode: Episode) -> tuple[list[Call], list[tuple[str, Call]]]:
    """The calls that made payloads: those before the episode, and those on the way, each with a title."""
    first = [call for call in episode.calls if call.role == "curator" and call.phase != "act"]
    steps = () if episode.trajectory is None else episode.trajectory.steps
    by, left = by_step(steps, episode.calls)
    each = [
        (f"before step {number}: curator call", call)
        for number, calls in enumerate(by)
        for call in calls.before
        if call.role == "curator"
    ]
    return first, [*each, *(("", call) for call in left if call.role == "curator")]


def _ranges(steps: Sequence[int]) -> str:
    """Steps as a reader says them: `steps 0 to 4, 9`."""
    runs = [[n for _, n in group] for _, group in groupby(enumerate(steps), lambda pair: pair[1] - pair[0])]
    told = ", ".join(f"{run[0]}" if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs[:20])
    more = f", … {len(runs) - 20} more" if len(runs) > 20 else ""
    return f"step{'' if len(steps) == 1 else 's'} {told}{more}"


def _value(value: Any, depth: int = 3) -> str:
    """A note: texts as they are, lists of records as tables, the rest name by name."""
    if isinstance(value, dict) and value and depth:
        rows = [
            (escape(name.replace("_", " ") if isinstance(name, str) else name, 80), _value(inner, depth - 1))
            for name, inner in list(value.items())[:60]
        ]
        return (
            "<table><tbody>"
            + "".join(f"<tr><th>{n}</th><td>{cell}</td></tr>" for n, cell in rows)
            + "</tbody></table>"
        )
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value) and depth:
        names = list(dict.fromkeys(name for one in value[:60] for name in one))[:12]
        head = [escape(name, 80) for name in names]
        return table(head, [[_value(one.get(name, ""), 0) for name in names] for one in value[:60]])
    if isinstance(value, list) and all(isinstance(one, int | float | str) for one in value):
        return code(", ".join(map(str, value[:200])) or "none", SHORT)
    if isinstance(value, str):
        return code(value, 2000)
    return code("none" if value is None else json.dumps(value, default=str), 2000)
