"""What memory showed for a task: retrieved traces or written items, and after which episode each was made."""

from __future__ import annotations

import contextlib
import json
import mmap
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InfrastructureError, UserError
from ..records import Episode, RetrievedTrace
from ..runs import Run
from .terms import open_bank

if TYPE_CHECKING:
    from ..memories.items import ItemStore, Past

MOST_ITEMS = 60
"""Items shown that are told of in the recall's notes alone."""
SEARCHED = 1 << 26
"""Bytes of `writes.jsonl` that are searched for the places of episodes."""

_NOBODY = "by nobody"
_TITLES = ("title", "name", "situation", "query", "task", "description")
_BOOKKEEPING = {
    *("task_id", "task_ids", "uses", "successes", "success", "hits", "seen", "importance", "failure", "open"),
    *("task", "trace", "facts", "build"),
}
"""Fields of items that are not part of what is shown."""


class Shown(NamedTuple):
    """One thing that memory showed."""

    rank: int
    """1 is the best."""
    number: int
    """Its number in the bank, or as an item."""
    kind: str
    """trace, or what an item is: skill, workflow, rule, …"""
    title: str
    """What it is of."""
    text: str
    """Its text as it was shown."""
    score: float | None = None
    """How well it fitted; None where nothing was compared."""
    cut_chars: int = 0
    """Characters left out of the text."""
    origin: tuple[str, ...] = ()
    """Where it comes from, a fact each; empty where that is not known."""


def shown(episode: Episode, run: Run | None) -> tuple[Shown, ...]:
    """The traces of a recall, then the items that only its notes tell of.

    Args:
        episode: The episode.
        run: Where the bank and the items' history lie; without it a record tells less.
    """
    found = tuple(_of(trace) for trace in episode.recall.traces)
    if run is None:
        return found
    try:
        if not isinstance(run.settings.get("memory", {}).get("retrieval"), str):
            return _items(run, episode, found)
        return _traces(run, episode, found) if found else ()
    except (UserError, InfrastructureError, KeyError, TypeError, ValueError):
        return found  # as far as the record goes


def written_before(episode: Episode) -> int | None:
    """The number of the last write that the episode's recall could see; None where the record doesn't tell.

    `recall.bank_size` doesn't: that is the number of items, of which a write may make several or none.
    """
    return episode.snapshot


def _of(trace: RetrievedTrace) -> Shown:
    return Shown(
        trace.rank, trace.trace_id, "trace", trace.description, trace.text, trace.score, trace.cut_chars
    )


def _traces(run: Run, episode: Episode, found: Sequence[Shown]) -> tuple[Shown, ...]:
    bank = open_bank(run)
    stored = [bank.get(one.number) for one in found]
    places = _places(run, [one.key for one in stored])
    made = []
    for one, trace, kept in zip(found, episode.recall.traces, stored, strict=True):
        if kept.trajectory.task.task_id == trace.task_id:
            labels, reward = kept.labels, kept.trajectory.reward
            facts = [
                "a demonstration" if labels.get("warm") else f"from {_episode(kept.key, places)}",
                f"taken in as a {'success' if labels.get('success') else 'failure'}",
                "" if reward is None else f"reward {reward:g}",
                "1 step" if len(kept.trajectory.steps) == 1 else f"{len(kept.trajectory.steps):,} steps",
            ]
            one = one._replace(origin=tuple(filter(None, facts)))
        made.append(one)
    return tuple(made)


def _items(run: Run, episode: Episode, found: Sequence[Shown]) -> tuple[Shown, ...]:
    from ..memories.items import ItemStore

    snapshot = written_before(episode)
    if snapshot is None:
        return tuple(found)
    with contextlib.closing(ItemStore(run.path / "bank.sqlite", read_only=True)) as store:
        known = {one.number for one in found}
        told = [number for number in _told(store, episode, snapshot) if number not in known]
        numbers = [*(one.number for one in found), *told[:MOST_ITEMS]]
        past = {number: [p for p in store.history(number) if p.write <= snapshot] for number in numbers}
    places = _places(run, {change.key for changes in past.values() for change in changes})
    writer = _writer(run)
    made = [_known(one, past[one.number], writer, places) for one in found]
    for rank, number in enumerate(told[:MOST_ITEMS], len(made) + 1):
        if past[number] and (data := past[number][-1].after) is not None:
            one = Shown(rank, number, "", *_read(data))
            made.append(_known(one, past[number], writer, places))
    return tuple(made)


def _told(store: ItemStore, episode: Episode, snapshot: int) -> list[int]:
    """Numbers of the items that the notes say were shown, in the order in which they say so."""
    notes = episode.recall.notes
    numbers = [*notes.get("rules", []), *notes.get("plans", [])]
    for step in notes.get("steps", []):
        numbers += step["shown"]
    if isinstance(notes.get("workflows"), int):
        left_out, own = set(notes.get("left_out", [])), episode.task.task_id
        every = store.items("workflow", snapshot)
        wanted = [one.id for one in every if one.id not in left_out]
        others = [one.id for one in every if one.id in wanted and one.data.get("task_id") != own]
        numbers += others if len(others) == notes["workflows"] else wanted
    return [number for number in dict.fromkeys(numbers) if isinstance(number, int) and 0 < number < 2**63]


def _known(one: Shown, past: Sequence[Past], writer: str, places: dict[str, int]) -> Shown:
    """What is shown with its kind and its story."""
    if not past:
        return one
    first, last = past[0], past[-1]
    as_it_was = last.kind == "trial" or writer == _NOBODY
    made = "kept" if as_it_was else f"written {writer}"
    story = [f"{made} after {_episode(first.key, places)}".replace("  ", " ")]
    if len(past) > 1:
        times = "" if len(past) == 2 else f"{len(past) - 1} times, last "
        story.append(f"changed {times}after {_episode(last.key, places)}")
    if last.after is not None:
        uses = [last.after.get(name) for name in ("uses", "hits") if name in last.after]
        story += [f"used in {use} episodes before" for use in uses if use]
        if "importance" in last.after:
            story.append(f"importance {last.after['importance']}")
    return one._replace(kind=last.kind, origin=tuple(story))


def _read(data: dict[str, Any]) -> tuple[str, str]:
    """Title and text of an item's fields."""
    title = next((str(data[name]) for name in _TITLES if data.get(name)), "")
    lines = []
    for name, value in data.items():
        if name in _BOOKKEEPING or str(value) == title:
            continue
        if isinstance(value, list):
            lines += [f"{number}. {one}" for number, one in enumerate(value, 1)]
        elif isinstance(value, str):
            lines.append(value)
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    text = "\n".join(lines)
    return title or text.partition("\n")[0], text or title


def _writer(run: Run) -> str:
    """Who writes items, as `by NAME`; empty where the settings don't say."""
    memory = run.settings.get("memory", {})
    if memory.get("stores") == "trajectories":
        return _NOBODY
    model = memory.get("model")
    name = (model.get("model") or model.get("name")) if isinstance(model, dict) else None
    return f"by {name}" if isinstance(name, str) else ""


def _episode(key: str, places: dict[str, int]) -> str:
    """An episode for a reader."""
    if key in places:
        return f"episode {places[key]}"
    return "a demonstration" if key.startswith("warm:") else f"episode {key}"


def _places(run: Run, keys: Iterable[str]) -> dict[str, int]:
    """Place in the stream of some episodes that memory took in; what is not found is left out.

    The file is searched, not parsed: its lines hold all calls of the writers. Inside a text its quotes are
    escaped, so nothing there looks like this.
    """
    wanted = [re.escape(json.dumps(key)).encode() for key in set(keys) if not key.startswith("warm:")]
    file = run.path / "writes.jsonl"
    if not wanted or not file.is_file() or not 0 < file.stat().st_size <= SEARCHED:
        return {}
    pattern = re.compile(b'"key": (%s), "position": (\\d+)' % b"|".join(wanted))
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as lines:
        return dict(_read_places(pattern.finditer(lines)))


def _read_places(found: Iterable[re.Match[bytes]]) -> Iterator[tuple[str, int]]:
    for one in found:
        yield json.loads(one[1]), int(one[2])
