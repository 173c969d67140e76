"""What solves a goal, known from its hidden target: a search that reaches it, options, the purchase."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .catalogue import Catalogue
from .engine import Shopping, can_click
from .goals import Goal
from .pages import BUY, NEXT, PAGE_SIZE
from .products import Product
from .queries import suggested, telling
from .reward import fits

_DETOURS = (0, 2, 4)
"""Further pages that a search is worth which the instruction suggests, over the title, over all words."""
_TRIED = 10
"""Hits tried where the target is out of reach."""


class Solution(NamedTuple):
    """Actions for a goal."""

    actions: list[str]
    """From the reset to the purchase."""
    reward: float
    """What they earn; less than 1 where the target is out of reach or the reward's rules can't be met."""
    reachable: bool
    """Whether some search shows the target among its 50 hits."""


def solve(catalogue: Catalogue, goal: Goal) -> Solution:
    """The actions that earn most: the target where it can be reached, else the best of the first hits."""
    target = catalogue.product(goal.asin)
    queries = suggested(goal.instruction_text)
    if target is not None:
        found = sorted(_routes(catalogue, target, queries))
        if found:
            _, _, query, page = found[0]
            return _play(catalogue, goal, query, page, target, reachable=True)
    shown = [(query, asin) for query in queries for asin in catalogue.search(query)[:_TRIED]]
    products = [(query, product) for query, asin in shown if (product := catalogue.product(asin)) is not None]
    played = [_play(catalogue, goal, query, 1, product, reachable=False) for query, product in products]
    return max(played, key=lambda each: each.reward, default=Solution([], 0.0, False))


def _routes(
    catalogue: Catalogue, target: Product, queries: Sequence[str]
) -> Iterator[tuple[int, int, str, int]]:
    """Cost, preference, query and page of each search that shows the target."""
    wordings = [(query, _DETOURS[0]) for query in queries]
    wordings += list(zip(telling(target), _DETOURS[1:], strict=False))
    for preference, (query, detour) in enumerate(wordings):
        hits = catalogue.search(query)
        if target.asin in hits:
            page = hits.index(target.asin) // PAGE_SIZE + 1
            yield page + detour, preference, query, page


def _play(
    catalogue: Catalogue, goal: Goal, query: str, page: int, product: Product, reachable: bool
) -> Solution:
    actions = [f"search[{query}]", *[f"click[{NEXT.lower()}]"] * (page - 1), f"click[{product.asin.lower()}]"]
    actions += [f"click[{value}]" for value in chosen_options(product, goal) if can_click(value)]
    actions.append(f"click[{BUY.lower()}]")
    shopping = Shopping(catalogue, goal)
    reward = [shopping.step(action) for action in actions][-1].reward
    return Solution(actions, reward, reachable)


def chosen_options(product: Product, goal: Goal) -> list[str]:
    """Values of a product's options that meet the goal's, at most one an option."""
    chosen: dict[str, str] = {}
    for wanted in goal.wanted_options():
        name, value = wanted if isinstance(wanted, tuple) else (None, wanted)
        for option in sorted(product.options, key=lambda each: each != name):
            if option not in chosen:
                values = product.options[option]
                exact = [each for each in values if each == value]
                found = exact or [each for each in values if fits(wanted, each)]
                if found:
                    chosen[option] = found[0]
                    break
    return list(chosen.values())
