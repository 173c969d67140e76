"""Titles, descriptions and bullet points of the synthetic catalogue."""

from __future__ import annotations

import random
from collections.abc import Sequence

from .generated_words import Kind, pick, shuffled, words

_SMALL = {"a", "and", "for", "in", "of", "on", "the", "to", "with", "up"}


def write_texts(
    rng: random.Random,
    kind: Kind,
    names: tuple[str, str, str],
    attributes: Sequence[str],
    options: dict[str, list[str]],
) -> tuple[str, str, list[str]]:
    """Title, description and bullet points of a product whose brand, line and noun are `names`.

    Each attribute stands in one of them, but for at most one that only the list of attributes knows.
    """
    brand, line, noun = names
    order = shuffled(rng, attributes)
    hidden = len(order) > 4 and rng.random() < 0.35
    shown = order[1:] if hidden else order
    in_title = shown[: int(rng.random() * 2.6)]
    rest = shown[len(in_title) :]
    described = noun != kind.nouns[0] or rng.random() < 0.85
    in_description = rest[: int(rng.random() * 2.2)] if described else []
    in_bullets = rest[len(in_description) :]
    fact, other_fact = shuffled(rng, kind.facts)[:2]
    said = {
        "brand": brand,
        "line": line,
        "noun": noun.lower(),
        "query": kind.query,
        "fact": other_fact,
        "FACT": other_fact.upper(),
    }
    title = _title(rng, kind, names, fact, in_title, options)
    description = ""
    if described:
        openings = words()["opening"]
        if noun != kind.nouns[0]:
            openings = [text for text in openings if "{query}" in text]
        told = [pick(rng, openings), *(_told(rng, a) for a in in_description), pick(rng, words()["closing"])]
        description = " ".join(_sentence(text.format(**said)) for text in told)
    fillers = shuffled(rng, words()["filler"])[: 1 + int(rng.random() * 2)]
    bullets = [_bullet(rng, attribute) for attribute in in_bullets]
    bullets = shuffled(rng, bullets + [_sentence(text.format(**said)) for text in fillers])
    return title, description, bullets


def _capital(text: str) -> str:
    """Words with a capital, as in titles."""
    return " ".join(word if word in _SMALL else word[:1].upper() + word[1:] for word in text.split())


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _title(
    rng: random.Random,
    kind: Kind,
    names: tuple[str, str, str],
    fact: str,
    attributes: Sequence[str],
    options: dict[str, list[str]],
) -> str:
    lists = words()
    brand, line, noun = names
    lead = [brand, line if rng.random() < 0.45 else "", kind.who]
    lead += [a for a in attributes if a in lists["adjectives"]]
    lead.append(noun)
    for sort, before in (("features", "with "), ("uses", "for ")):
        found = [a for a in attributes if a in lists[sort]]
        lead += [before + " and ".join(found)] if found else []
    tail = [fact] if rng.random() < 0.7 else []
    if rng.random() < 0.3:
        tail.append(next(other for other in shuffled(rng, kind.nouns) if other != noun))
    separator = pick(rng, (", ", ", ", " - ", " | "))
    title = separator.join(_capital(part) for part in (" ".join(filter(None, lead)), *shuffled(rng, tail)))
    if options and rng.random() < 0.15:
        title += f" ({_capital(', '.join(values[0] for values in options.values()))})"
    return title


def _bullet(rng: random.Random, attribute: str) -> str:
    """A bullet point that states an attribute."""
    lists = words()
    if attribute in lists["adjectives"]:
        clause = lists["adjectives"][attribute]
        frames = ("{HEAD} - {Clause}.", "{Head} design that {clause}.", "{HEAD}: {clause}.")
    elif attribute in lists["features"]:
        clause = lists["features"][attribute]
        frames = ("{HEAD} - {Clause}.", "{Head}: {clause}.", "Comes with {head}. {Clause}.")
    else:
        clause = lists["uses"][attribute]
        frames = ("FOR {HEAD} - {Clause}.", "Great for {head}: {clause}.", "Made for {head}, it {clause}.")
    return pick(rng, frames).format(
        HEAD=attribute.upper(),
        Head=_sentence(attribute),
        head=attribute,
        clause=clause,
        Clause=_sentence(clause),
    )


def _told(rng: random.Random, attribute: str) -> str:
    """A sentence of a description that states an attribute; it may name the brand and the line."""
    lists = words()
    frames: tuple[str, ...]
    if attribute in lists["adjectives"]:
        frames = (
            "It is {head} and {clause}.",
            "The {{line}} range is {head}: it {clause}.",
            "Being {head}, it {clause}.",
        )
    elif attribute in lists["features"]:
        frames = ("{{brand}} adds {head}, which {clause}.", "You also get {head}: {clause}.")
    else:
        frames = ("Buyers like it for {head}, since it {clause}.", "Made with {head} in mind, it {clause}.")
    clause = next(
        lists[sort][attribute] for sort in ("adjectives", "features", "uses") if attribute in lists[sort]
    )
    return pick(rng, frames).format(head=attribute, clause=clause)
