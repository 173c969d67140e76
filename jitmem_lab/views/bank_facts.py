"""What a bank's page tells, as plain rows: growth, what was kept out, what is retrieved, near-duplicates."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..retrieval import words
from ..statistics import Interval, wilson
from .facts import Fact, Facts, Writes

COMPARED = 1_500_000
"""Pairs of texts that are compared before the search for near-duplicates stops."""


class Kept(NamedTuple):
    """What became of one finished episode in memory."""

    fact: Fact
    """The episode."""
    why: str
    """`taken in`, or why it was not."""
    kind: str
    """taken, gate, unusable, failed (the write) or waiting."""


def kept_out(episodes: Iterable[Fact], writes: Writes) -> list[Kept]:
    """What memory did with each episode that ended with a result, in stream order."""
    return [Kept(fact, *_fate(fact, writes)) for fact in episodes if fact.outcome != "error"]


def _fate(fact: Fact, writes: Writes) -> tuple[str, str]:
    change = writes.changes.get(fact.key)
    if change is None:
        cause = writes.errors.get(fact.key)
        if cause is not None:
            return f"the write failed and is owed: {cause}", "failed"
        return "not yet written", "waiting"
    if change.get("stored"):
        if change.get("items") == []:
            note = change.get("note")
            why = note.get("why") if isinstance(note, dict) else None
            return f"let in, but nothing was written{f': {why}' if why else ''}", "taken"
        return "taken in", "taken"
    if not change:
        return "this memory keeps nothing", "gate"
    why = str(change.get("why") or "not stored")
    unusable = fact.verdict is None and why == "no usable verdict"
    return why, "unusable" if unusable else "gate"


class Reason(NamedTuple):
    """One reason, and how the episodes that it befell had ended."""

    why: str
    """The reason."""
    kind: str
    """As in `Kept`."""
    won: int
    """Episodes that the environment counts as successes."""
    lost: int
    """Those that it counts as failures."""


def reasons(kept: Iterable[Kept]) -> list[Reason]:
    """How often each reason, most often first."""
    found: Counter[tuple[str, str, bool]] = Counter(
        (k.why, k.kind, k.fact.outcome == "success") for k in kept
    )
    names = {(why, kind) for why, kind, _ in found}
    rows = [Reason(why, kind, found[why, kind, True], found[why, kind, False]) for why, kind in names]
    return sorted(rows, key=lambda row: (-row.won - row.lost, row.why))


class Use(NamedTuple):
    """How one trace was used."""

    trace: int
    """Its id."""
    sentence: str
    """The task it tells of."""
    times: int
    """Episodes that it was retrieved for."""
    first: int
    """How often as the best one."""
    won: int
    """Successes among the episodes with a result."""
    scored: int
    """Episodes with a result."""
    positions: tuple[int, ...]
    """Places of these episodes in the stream."""

    @property
    def share(self) -> float:
        """Share of successes; 0 without a result."""
        return self.won / self.scored if self.scored else 0.0

    @property
    def interval(self) -> Interval:
        """95 % Wilson interval of the share."""
        return wilson(self.won, self.scored)


def uses(facts: Facts, episodes: Sequence[Fact]) -> list[Use]:
    """Every trace that was retrieved, most often first."""
    places: dict[int, list[int]] = defaultdict(list)
    first: Counter[int] = Counter()
    won: Counter[int] = Counter()
    scored: Counter[int] = Counter()
    for fact in episodes:
        for trace in dict.fromkeys(fact.traces):
            places[trace].append(fact.position)
            scored[trace] += fact.outcome != "error"
            won[trace] += fact.outcome == "success"
        if fact.traces:
            first[fact.traces[0]] += 1
    rows = [
        Use(
            trace,
            facts.sentences.get(trace, ""),
            len(at),
            first[trace],
            won[trace],
            scored[trace],
            tuple(at),
        )
        for trace, at in places.items()
    ]
    return sorted(rows, key=lambda row: (-row.times, row.trace))


ORDERS: Mapping[str, Callable[[Use], Any]] = {
    "most often retrieved": lambda row: (-row.times, row.trace),
    "best after": lambda row: (-row.interval.low, -row.times, row.trace),
    "worst after": lambda row: (row.interval.high, -row.times, row.trace),
    "newest": lambda row: -row.trace,
}
"""How uses can be ordered; best and worst by the near end of the interval, so that few tries don't lead."""


class Alike(NamedTuple):
    """Texts of the bank that say nearly the same."""

    ids: tuple[int, ...]
    """Their ids, ascending."""
    overlap: float
    """1 where all have the same words in the same order, else the least overlap of two that were joined."""
    texts: tuple[str, ...]
    """Their different spellings, as many as there are after normalisation."""


class Duplicates(NamedTuple):
    """What a search for near-duplicates found."""

    groups: list[Alike]
    """Largest first."""
    texts: int
    """Texts that were looked at."""
    compared: int
    """Pairs of different texts whose words were compared one by one."""
    whole: bool
    """False where the search stopped at `COMPARED` pairs."""


def near_duplicates(texts: Iterable[tuple[int, str]], overlap: float = 0.8) -> Duplicates:
    """Groups of texts whose words are the same, or nearly.

    First those with the same words in the same order (case, punctuation and Unicode spellings aside). Then,
    among the different ones, any two whose sets of words have at least `overlap` in common (Jaccard).
    Nothing is sampled: two sets that overlap so much must share one of their rarest words, so only sets that
    share one are compared (prefix filtering). Groups are what is joined by such pairs.
    """
    same: dict[str, list[tuple[int, str]]] = defaultdict(list)
    count = 0
    for number, text in texts:
        count += 1
        same[" ".join(words(text))].append((number, text))
    keys = [key for key in same if key]
    joined, compared, whole = _join([frozenset(key.split()) for key in keys], overlap)
    groups: dict[int, list[int]] = defaultdict(list)
    for place, (root, _) in enumerate(joined):
        groups[root].append(place)
    found = []
    for root, places in groups.items():
        members = sorted(one for place in places for one in same[keys[place]])
        if len(members) > 1:
            spellings = tuple(same[keys[place]][0][1] for place in places)
            found.append(Alike(tuple(number for number, _ in members), joined[root][1], spellings))
    found.sort(key=lambda group: (-len(group.ids), group.ids))
    return Duplicates(found, count, compared, whole)


def _join(sets: Sequence[frozenset[str]], overlap: float) -> tuple[list[tuple[int, float]], int, bool]:
    """For each set the root of its group with the group's least overlap; pairs compared; whether all were."""
    parent = list(range(len(sets)))
    least = [1.0] * len(sets)

    def root(place: int) -> int:
        while parent[place] != place:
            parent[place] = parent[parent[place]]
            place = parent[place]
        return place

    common = Counter(word for one in sets for word in one)
    order = sorted(range(len(sets)), key=lambda place: len(sets[place]))
    holding: dict[str, list[int]] = defaultdict(list)
    compared = 0
    for place in order:
        mine = sets[place]
        rare = sorted(mine, key=lambda word: (common[word], word))
        rare = rare[: len(mine) - math.ceil(overlap * len(mine) - 1e-9) + 1]
        for other in {other for word in rare for other in holding[word]}:
            if len(sets[other]) < overlap * len(mine) - 1e-9:
                continue
            compared += 1
            both = len(mine & sets[other])
            share = both / (len(mine) + len(sets[other]) - both)
            if share >= overlap - 1e-9:
                a, b = root(place), root(other)
                lowest = min(share, least[a], least[b])
                parent[max(a, b)] = min(a, b)
                least[min(a, b)] = lowest
        if compared > COMPARED:
            return [(root(i), least[root(i)]) for i in range(len(sets))], compared, False
        for word in rare:
            holding[word].append(place)
    return [(root(i), least[root(i)]) for i in range(len(sets))], compared, True


def trace_growth(kept: Iterable[Kept], warm: int) -> tuple[list[int], list[int]]:
    """Traces in the bank after so many episodes were taken in or refused, by place in the stream."""
    size, places, sizes = warm, [0], [warm]
    for one in kept:
        if one.kind in ("waiting", "failed"):
            continue
        size += one.kind == "taken"
        places.append(one.fact.position + 1)
        sizes.append(size)
    return places, sizes
