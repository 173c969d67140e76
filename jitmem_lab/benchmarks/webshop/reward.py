"""The published reward of a purchase: type x (attributes + options + price) / (their number).

Yao et al. 2022 (WebShop), with the matching rules of the authors' code: thefuzz's token_set_ratio over 85,
colours by their first colour word, the type by nouns of the two titles. The colour words and their order are
those of the authors' list (princeton-nlp/WebShop, web_agent_site/engine/normalize.py, MIT licence, (c) 2022
Princeton Natural Language Processing): with any other list rewards would differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .goals import Goal
from .nouns import nouns
from .products import Product

MATCH = 85
"""A similarity must lie above this to count, of 100."""
_COLOUR_WORDS = """
alabaster apricot aqua ash asphalt azure banana beige black blue blush bordeaux bronze brown burgundy
camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral
cranberry cream crystal dark denim eggplant elephant espresso fuchsia gold granite grape graphite grass
gray green grey heather indigo ivory ivy khaki lavender lemon leopard light lilac lime magenta maroon
mauve merlot midnight mint mocha multicolor mushroom mustard natural navy nude olive orange peach pewter
pink plum purple rainbow red rose royal rust sand sapphire seashell silver skull slate steel stone
stonewash sunflower tan taupe teal tiger turquoise violet walnut wheat white wine yellow
"""
COLOURS = tuple(_COLOUR_WORDS.split())
"""Colour words in the order in which they are looked for."""
_SEPARATOR = "›"


class Score(NamedTuple):
    """What a purchase is worth."""

    reward: float
    """Between 0 and 1."""
    parts: dict[str, Any]
    """What it is made of: r_type (with query_match, category_match, title_score), and r_att, r_option and
    r_price with their weights w_att, w_option, w_price. A part that the goal does not ask for is left out."""


def score(
    product: Product,
    goal: Goal,
    options: Mapping[str, str],
    price: float | None,
    noun_finder: Callable[[str], Sequence[str]] = nouns,
) -> Score:
    """The reward of buying `product` for `goal`.

    Args:
        product: What is bought.
        goal: What was asked for.
        options: The options chosen, by name.
        price: What it costs; None for a price that is not known, which keeps no limit.
        noun_finder: Gives the nouns of a title.
    """
    kind = type_parts(product, goal, noun_finder)
    wanted = goal.wanted_options()
    n_attributes = sum(has_attribute(product, attribute) for attribute in goal.attributes)
    n_options = sum(any(fits(option, chosen) for chosen in options.values()) for option in wanted)
    size = len(goal.attributes) + len(wanted) + 1
    parts: dict[str, Any] = dict(kind)
    if goal.attributes:
        parts |= {"r_att": n_attributes / len(goal.attributes), "w_att": len(goal.attributes) / size}
    if wanted:
        parts |= {"r_option": n_options / len(wanted), "w_option": len(wanted) / size}
    within = price is not None and price <= goal.price_upper
    if goal.price_upper > 0:
        parts |= {"r_price": within, "w_price": 1 / size}
    return Score((n_attributes + n_options + within) / size * kind["r_type"], parts)


def type_parts(
    product: Product, goal: Goal, noun_finder: Callable[[str], Sequence[str]] = nouns
) -> dict[str, Any]:
    """How far the product is of the kind asked for: r_type, query_match, category_match, title_score."""
    same_query = product.query == goal.query
    same_category = len(_path(product.product_category) & _path(goal.product_category)) >= 2
    bought, desired = noun_finder(product.name), noun_finder(goal.name)
    title_score = len(set(bought) & set(desired)) / len(desired) if desired else 0.2
    if title_score == 0:
        value = 0.0
    elif title_score < 0.1:
        value = 0.1
    else:
        value = 1.0 if same_query or same_category or title_score > 0.2 else 0.5
    return {
        "r_type": value,
        "query_match": same_query,
        "category_match": same_category,
        "title_score": title_score,
    }


def _path(category: str) -> set[str]:
    return {part.strip() for part in category.split(_SEPARATOR)}


def has_attribute(product: Product, attribute: str) -> bool:
    """Whether a product has an attribute: among its own, or in its title, features or description."""
    return (
        any(similarity(own, attribute) > MATCH for own in product.attributes)
        or attribute in product.name.lower()
        or attribute in " ".join(product.bullets).lower()
        or attribute in product.description.lower()
    )


def fits(wanted: Any, chosen: str) -> bool:
    """Whether a chosen option is the one wanted: a value, or a (name, value) pair (synthetic goals)."""
    return similarity(first_colour(chosen), first_colour(wanted)) > MATCH


def first_colour(option: Any) -> Any:
    """The first colour word of the list that `option` contains, else `option` itself.

    A pair contains a word only if one of its two is that word.
    """
    return next((colour for colour in COLOURS if colour in option), option)


def similarity(one: Any, other: Any) -> int:
    """thefuzz's token_set_ratio, 0 to 100; what is no text is compared as its `str`."""
    from thefuzz import fuzz

    ratio: int = fuzz.token_set_ratio(one, other)
    return ratio
