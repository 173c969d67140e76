"""WebShop's pages as a text browser shows them: pieces of text joined by ` [SEP] `, and what can be clicked.

The wording, the order of the pieces and the rule for blank ones are the original's, whose pages are HTML
read back by a parser: a piece of blanks and line ends is left out if a line end is in it, and empty else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .goals import Goal
from .products import Product

SEPARATOR = " [SEP] "
PAGE_SIZE = 10
"""Hits on a page of results."""
BACK, NEXT, PREVIOUS, BUY, SEARCH = "Back to Search", "Next >", "< Prev", "Buy Now", "Search"
DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES = "Description", "Features", "Reviews", "Attributes"
SUB_PAGES = (DESCRIPTION, FEATURES, REVIEWS, ATTRIBUTES)
"""Names of a product's further pages."""
BUTTON, LINK = "", "\0"
"""What a clickable text is; an option is told by its name."""


class Page(NamedTuple):
    """What is shown."""

    name: str
    """search, results, item, sub or done."""
    text: str
    """All visible text."""
    clickables: dict[str, str]
    """Texts that can be clicked, in the original's order, with `BUTTON`, `LINK` or the option's name."""
    has_search_bar: bool = False
    """Whether it is the search page."""


def search_page(goal: Goal) -> Page:
    """Where a session begins."""
    text = _join(["WebShop", "Instruction: ", goal.instruction_text, SEARCH])
    return Page("search", text, _clickables([SEARCH]), has_search_bar=True)


def results_page(goal: Goal, hits: Sequence[Product], number: int, total: int) -> Page:
    """One page of hits; `number` counts from 1, and pages after the last are empty."""
    buttons = ([PREVIOUS] if number > 1 else []) + [NEXT]
    rows = [piece for hit in hits for piece in (hit.asin, hit.name, hit.price_text)]
    text = _join([*_head(goal), BACK, f"Page {number} (Total results: {total})", *buttons, *rows])
    return Page("results", text, _clickables([BACK, *buttons], [hit.asin for hit in hits]))


def item_page(goal: Goal, product: Product, show_attributes: bool) -> Page:
    """A product; which options are chosen is not shown."""
    further = SUB_PAGES if show_attributes else SUB_PAGES[:3]
    options = [piece for name, values in product.options.items() for piece in (name, *values)]
    said = [product.name, f"Price: {product.price_text}", f"Rating: {product.rating}"]
    text = _join([*_head(goal), BACK, PREVIOUS, *options, *said, *further, BUY])
    clickables = _clickables([BACK, PREVIOUS, *further, BUY])
    clickables |= {value: name for name, values in product.options.items() for value in values}
    return Page("item", text, clickables)


def sub_page(goal: Goal, product: Product, name: str) -> Page:
    """A further page of a product: one of `SUB_PAGES`."""
    text = _join([*_head(goal), BACK, PREVIOUS, *_said(product, name)])
    return Page("sub", text, _clickables([BACK, PREVIOUS]))


def _said(product: Product, name: str) -> list[str]:
    if name == DESCRIPTION:
        return [product.description]
    if name == FEATURES:
        return [f" {bullet}" for bullet in product.bullets]
    if name == ATTRIBUTES:
        kind = [product.category, product.query, product.product_category]
        return [f" {attribute}" for attribute in product.attributes] + kind
    return [piece for review in product.reviews for piece in _review(review)]


def _review(review: Mapping[str, Any]) -> tuple[str, str, str]:
    return f'"{review.get("title", "")}"', str(review.get("score", "")), str(review.get("body", ""))


def done_page(product: Product, options: Mapping[str, str], reward: float) -> Page:
    """What a purchase shows; the places for the goal stay empty, as in the original."""
    pieces = ["Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)"]
    pieces += ["Purchased", "asin", product.asin, "options", _options_json(options), "attrs", "None"]
    pieces += ["category", "None", "query", "None", "product category", "None", "Target", "asin", "options"]
    pieces += ["attrs", "price upper", "instuction text", "category", "product category", "query", "Goal"]
    pieces += ["None", "Reward", "Your score (min 0.0, max 1.0)", str(reward), "Reward Details", "None"]
    return Page("done", _join(pieces), {})


def _options_json(options: Mapping[str, str]) -> str:
    """Jinja's `tojson`: sorted, and with the characters that mean something in HTML written as escapes."""
    text = json.dumps(dict(options), sort_keys=True)
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


def _head(goal: Goal) -> list[str]:
    return ["Instruction:", goal.instruction_text]


def _clickables(buttons: Iterable[str], links: Iterable[str] = ()) -> dict[str, str]:
    return {text.lower(): BUTTON for text in buttons} | {text.lower(): LINK for text in links}


def _join(pieces: Iterable[Any]) -> str:
    return SEPARATOR.join(piece.strip() for piece in pieces if not _left_out(piece))


def _left_out(piece: str) -> bool:
    return not piece or ("\n" in piece and not piece.strip(" \n\t\f\r"))
