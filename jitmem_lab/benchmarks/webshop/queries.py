"""Searches that an instruction suggests, by rule; and what the oracle may search for besides."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .engine import parse
from .products import Product
from .words import tokens

_PRICE = re.compile(
    r"[\s,;.(]*\b(?:and |at |a |keep |the )*price (?:lower|less|cheaper) than \$?[\d.]+(?: dollars)?[\s.)]*",
    re.I,
)
_LEAD = re.compile(
    r"^\s*(?:please |hello |hi |so |can you |could you |help me )*"
    r"(?:find|buy|get|show|looking for|shopping for|"
    r"i(?: a|')?m (?:looking|searching|shopping) for|i(?: would|'d) like|i (?:need|want)|looking to buy)"
    r"(?: me| to (?:buy|find|get)| a pair of)*\s+(?:a |an |some |the )?",
    re.I,
)
_OPTIONS = re.compile(r"(?:\s+with|[,;.(])\s*(?:and |it has to be |choose )*[\w-]+(?: [\w-]+)?: ", re.I)
_WITH = re.compile(r",?\s(?:with|for|that (?:is|are|has|have)|which|in)\s", re.I)


def suggested(instruction: str) -> list[str]:
    """Searches built from an instruction, the shortest first; every one of them can be made."""
    wish = _LEAD.sub("", _PRICE.sub("", instruction))
    plain = _OPTIONS.split(wish)[0]
    core = _WITH.split(plain)[0]
    return _distinct(_clean(text) for text in (core, plain, wish))


def telling(product: Product) -> list[str]:
    """Searches that name a product: its title, and all of its words."""
    every = dict.fromkeys(tokens(product.text()))
    return _distinct((_clean(product.name), " ".join(every)))


def _clean(text: str) -> str:
    """A text without what a search may not hold: brackets and line ends."""
    return " ".join(re.sub(r"[\[\]\s]+", " ", text).split()).strip(" ,;.()").lower()


def _distinct(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if parse(f"search[{text}]") == ("search", text)]
