"""Made-up task texts of three kinds, from a seed, for measuring retrieval at any size.

`alfworld`: household task sentences from about 110 words in all. `webshop`: shopping requests with
product words of a long-tailed vocabulary. `long`: texts of 60 to 120 words, half of them common ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

from ..errors import UserError


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_THINGS = _list(
    "apple bread egg lettuce potato tomato mug cup bowl plate pan pot kettle knife fork spoon butterknife "
    "spatula ladle saltshaker peppershaker dishsponge soapbar soapbottle cloth handtowel toiletpaper candle "
    "vase statue book newspaper pencil pen creditcard keychain watch cellphone laptop remotecontrol cd "
    "alarmclock pillow box tissuebox spraybottle winebottle basketball teddybear"
)
_PLACES = _list(
    "countertop cabinet drawer shelf fridge microwave stoveburner sinkbasin coffeemachine garbagecan "
    "diningtable coffeetable sidetable desk dresser bed sofa armchair ottoman safe toilet bathtub cart"
)
_HOUSE = (
    "put a {thing} in {place}.",
    "put some {thing} on {place}.",
    "find two {thing} and put them in {place}.",
    "put two {thing} in {place}.",
    "clean some {thing} and put it in {place}.",
    "put a clean {thing} in {place}.",
    "heat some {thing} and put it in {place}.",
    "put a hot {thing} in {place}.",
    "cool some {thing} and put it in {place}.",
    "put a cool {thing} in {place}.",
    "look at {thing} under the desklamp.",
    "examine the {thing} with the desklamp.",
)
_OPENINGS = (
    "i am looking for a",
    "i need a",
    "i want to buy",
    "find me",
    "im looking for",
    "i would like a",
    "please help me find",
    "show me some",
)
_LINKS = ("with", "that is", "which has", "for my", "made of", "and also", "in", "that comes with")
_COLORS = _list("black white red blue green grey pink brown purple yellow navy beige silver gold")
_SIZES = ("small", "medium", "large", "x-large", "xx-large", "8 ounce", "pack of 2", "queen", "10 wide")
_COMMON = _list(
    "the of and to in is that it for was on are as with they at be this from have or by one had not but "
    "what all were when we there can an your which their said if do will each about how up out them then "
    "she many some so these would other into has more her two like him see time could no make than first"
)
_SYLLABLES = [c + v for c in _list("b d f g k l m n p r s t v z br cl st tr") for v in "aeiou"]
_TAIL = 60_000
"""Product words in all; their frequency falls off with their rank (Zipf)."""


def texts(corpus: str, count: int, seed: int = 0) -> Iterator[str]:
    """`count` texts of a corpus: `alfworld`, `webshop` or `long`; the same seed gives the same texts.

    Raises:
        UserError: For an unknown corpus.
    """
    make = CORPORA.get(corpus)
    if make is None:
        raise UserError(f"unknown corpus {corpus!r}; choose one of {', '.join(CORPORA)}")
    rng = random.Random(f"{corpus}-{seed}")
    return (make(rng) for _ in range(count))


def _house(rng: random.Random) -> str:
    return rng.choice(_HOUSE).format(thing=rng.choice(_THINGS), place=rng.choice(_PLACES))


def _tail(rng: random.Random) -> str:
    # Log-uniform ranks are Zipf's law with exponent 1; the rank is spelled in syllables, 90 to a place.
    rank = int(_TAIL ** rng.random())
    word = ""
    while rank:
        rank, place = divmod(rank, len(_SYLLABLES))
        word += _SYLLABLES[place]
    return word + "x"


def _shop(rng: random.Random) -> str:
    parts = [rng.choice(_OPENINGS), *(_tail(rng) for _ in range(rng.randint(2, 5)))]
    for _ in range(rng.randint(1, 3)):
        parts += [rng.choice(_LINKS), *(_tail(rng) for _ in range(rng.randint(1, 2)))]
    if rng.random() < 0.6:
        parts += ["with color", rng.choice(_COLORS)]
    if rng.random() < 0.4:
        parts += ["and size", rng.choice(_SIZES)]
    return f"{' '.join(parts)}, and price lower than {rng.randint(1, 30) * 10}.00 dollars"


def _long(rng: random.Random) -> str:
    count = rng.randint(60, 120)
    return " ".join(rng.choice(_COMMON) if rng.random() < 0.5 else _tail(rng) for _ in range(count))


CORPORA: dict[str, Callable[[random.Random], str]] = {"alfworld": _house, "webshop": _shop, "long": _long}
"""The kinds of text, by name."""
