"""One shopping session: what a search or a click does, exactly as the original does it.

Its codes for listing goods without a search (`search[<r>]` and the like) are not part of it: they would
show whole departments. Their text is searched as words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .catalogue import Catalogue
from .goals import Goal
from .pages import (
    BACK,
    BUTTON,
    BUY,
    LINK,
    NEXT,
    PAGE_SIZE,
    PREVIOUS,
    SEARCH,
    SUB_PAGES,
    Page,
    done_page,
    item_page,
    results_page,
    search_page,
    sub_page,
)
from .products import Product
from .reward import Score, score

Search = Callable[[str], Sequence[str]]
"""Gives the ids of the products for a query, best first."""
_SUB_PAGES = {name.lower(): name for name in SUB_PAGES}


class Answer(NamedTuple):
    """What a session answers to an action."""

    page: Page
    """What is shown now."""
    reward: float = 0.0
    """The score of a purchase, 0 before."""
    done: bool = False
    """Whether something was bought."""
    accepted: bool = True
    """Whether the action was one that the session takes; another changes nothing."""
    parts: dict[str, Any] = {}  # noqa: RUF012  (never written to)
    """What the reward is made of, once done."""


class Shopping:
    """A session for one goal.

    Args:
        catalogue: What is sold.
        goal: What is asked for.
        search: The ranking; None takes the catalogue's own.
        price: What a product costs; None takes the catalogue's own.
        show_attributes: Whether a product's page has a button for its attributes.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        goal: Goal,
        search: Search | None = None,
        price: Callable[[Product], float] | None = None,
        show_attributes: bool = False,
    ) -> None:
        self.catalogue = catalogue
        self.goal = goal
        self._search = search or catalogue.search
        self._price = price or catalogue.price
        self._show_attributes = show_attributes
        self.reset()

    def reset(self) -> Answer:
        """Start over at the search page."""
        self.options: dict[str, str] = {}
        self.product: Product | None = None
        self._hits: Sequence[str] = ()
        self._number = 1
        self._last = Answer(search_page(self.goal))
        return self._last

    def step(self, action: str) -> Answer:
        """Act; anything that is no search and no click on what is shown changes nothing."""
        if self._last.done:
            return self._last._replace(accepted=False)
        verb, text = parse(action)
        text = text.lower()
        if verb == "search" and text:
            self._hits = [asin for asin in self._search(text) if asin in self.catalogue]
            self._last = self._results(1)
        elif verb == "click" and text != SEARCH.lower() and text in self._last.page.clickables:
            self._last = self._click(text, self._last.page)
        else:
            return self._last._replace(accepted=False)
        return self._last

    def purchase(self) -> Score:
        """What buying the present product with the present options is worth."""
        assert self.product is not None
        return score(self.product, self.goal, self.options, self._price(self.product))

    def _click(self, text: str, page: Page) -> Answer:
        # the original looks at the text before it looks at what was clicked: an option named like a
        # button acts as the button
        if text == BUY.lower():
            return self._buy()
        if text == BACK.lower():
            return self.reset()
        if page.name == "results" and text in (NEXT.lower(), PREVIOUS.lower()):
            return self._results(self._number + (1 if text == NEXT.lower() else -1))
        if page.name == "item" and text == PREVIOUS.lower():
            return self._results(self._number)
        if text in _SUB_PAGES and self.product is not None:
            return Answer(sub_page(self.goal, self.product, _SUB_PAGES[text]))
        return self._item(text, page.clickables[text])

    def _results(self, number: int) -> Answer:
        self.options = {}
        self.product = None
        self._number = number
        shown = self._hits[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
        products = [product for asin in shown if (product := self.catalogue.product(asin)) is not None]
        return Answer(results_page(self.goal, products, number, len(self._hits)))

    def _item(self, text: str, kind: str) -> Answer:
        if kind == LINK:
            found = self.catalogue.product(text.upper())
            if found is None:  # an id that is not in capitals; the original fails here
                return self._last._replace(accepted=False)
            self.product = found
        elif kind != BUTTON:
            self.options[kind.lower()] = text
        assert self.product is not None
        return Answer(item_page(self.goal, self.product, self._show_attributes))

    def _buy(self) -> Answer:
        assert self.product is not None
        worth = self.purchase()
        page = done_page(self.product, self.options, worth.reward)
        return Answer(page, worth.reward, done=True, parts=worth.parts)


def parse(action: str) -> tuple[str, str]:
    """The verb and the text of `verb[text]`; two empty texts for another form.

    As the original: within the first line, up to the last closing bracket, from the last opening one
    that leaves a text.
    """
    line = action.partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 1))
    return (line[:start], line[start + 1 : end]) if start > 0 else ("", "")


def can_click(text: str) -> bool:
    """Whether `click[text]` is read as a click on that text: one with brackets may not be."""
    return parse(f"click[{text}]") == ("click", text)
