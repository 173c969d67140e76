"""Agreement with what the original code answered: rewards, whole episodes, rankings, number of goals."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import UserError
from .catalogue import Catalogue, read_all
from .engine import Answer, Search, Shopping
from .files import find_sets
from .goals import Goal, synthetic_goals
from .products import Product
from .reading import read_records
from .reward import Score, score
from .search import HITS, K1, B

TOLERANCE = 1e-9
SHOWN = 5
"""Disagreements that are told in full."""
ABSENT = "absent"
"""Said in place of figures where the folder has no such file."""


def check_oracles(folder: str | Path) -> dict[str, Any]:
    """Replay what the original answered and count how often we answer the same.

    Args:
        folder: Laid out like `webshop` in a data folder: products with their attribute file, and any of
            `*rewards*.jsonl`, `*episodes*.jsonl` and `*top50*.jsonl`, each perhaps ending in .xz or .gz.

    Returns:
        `rewards`: total, equal (to 1e-9), parts_equal, differ. `episodes`: total, equal, steps,
        equal_steps, differ. `rankings`: total, equal, top1, top10_overlap, top50_overlap (shares from 0 to
        1). `goals`: count and products. A kind without a file is `"absent"`.

    Raises:
        UserError: No such folder, no products in it, or a file that is torn or foreign.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise UserError(f"{str(folder)!r} is not a folder: give one laid out like WebShop's data")
    sets = find_sets(folder)
    if not sets:
        raise UserError(
            f"{str(folder)!r} holds no WebShop products (products_1k.jsonl.xz, items_shuffle*.json)"
        )
    products = read_all(sets["small"] if "small" in sets else sets["full"])
    catalogue = Catalogue(products)
    goals = list(synthetic_goals(products, 0))
    return {
        "rewards": _read(folder, "rewards", lambda rows: check_rewards(catalogue, rows)),
        "episodes": _read(folder, "episodes", lambda rows: check_episodes(catalogue, rows)),
        "rankings": _read(folder, "top50", lambda rows: check_rankings(catalogue, rows)),
        "goals": {"count": len(goals), "products": len({goal.asin for goal in goals})},
    }


def _read(folder: Path, kind: str, check: Callable[[Iterator[Any]], dict[str, Any]]) -> dict[str, Any] | str:
    paths = sorted({path for end in ("", ".xz", ".gz") for path in folder.glob(f"*{kind}*.jsonl{end}")})
    if not paths:
        return ABSENT
    try:
        return check(itertools.chain.from_iterable(map(read_records, paths)))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        what = f"{type(error).__name__}: {error}"
        raise UserError(f"{paths[0]} is not in the form of WebShop's recorded {kind} ({what:.120})") from None


def check_rewards(catalogue: Catalogue, rows: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Score recorded purchases anew: `goal`, `purchased`, `price`, `options` → `reward`, `info`."""
    total = equal = parts_equal = 0
    differ: list[dict[str, Any]] = []
    for row in rows:
        product = catalogue.product(row["purchased"])
        if product is None:
            ours = Score(-1.0, {"product": "not in this folder"})
        else:
            ours = score(product, Goal.of(row["goal"]), row["options"], row["price"])
        wrong = _differences(ours.parts, row["info"])
        same = _close(ours.reward, row["reward"])
        if not same:
            wrong["reward"] = [ours.reward, row["reward"]]
        total, equal, parts_equal = total + 1, equal + same, parts_equal + (not wrong)
        if wrong and len(differ) < SHOWN:
            differ.append({"row": total - 1, "purchased": row["purchased"], "ours_theirs": wrong})
    return {"total": total, "equal": equal, "parts_equal": parts_equal, "differ": differ}


def check_episodes(
    catalogue: Catalogue, rows: Iterator[Mapping[str, Any]], search: Search | None = None
) -> dict[str, Any]:
    """Play recorded actions anew and compare each step's observation, clickables, search bar and reward.

    Args:
        catalogue: The products.
        rows: Episodes: `goal`, and `steps` of `action`, `obs`, `clickables`, `has_search_bar`, `reward`.
        search: The ranking that was used; None takes `stand_in_search` for an episode that says bm25s, else
            our own.
    """
    total = equal = steps = equal_steps = 0
    differ: list[dict[str, Any]] = []
    stand_in = functools.cache(lambda: stand_in_search(catalogue))
    for row in rows:
        ranking = search or (stand_in() if "bm25s" in str(row.get("search", "")) else catalogue.search)
        wrong = [
            (number, found)
            for number, (answer, step) in enumerate(_replay(catalogue, row, ranking))
            if (found := _unlike(answer, step))
        ]
        size = len(row["steps"])
        total, equal = total + 1, equal + (not wrong)
        steps, equal_steps = steps + size, equal_steps + size - len(wrong)
        if wrong and len(differ) < SHOWN:
            number, found = wrong[0]
            differ.append({"episode": total - 1, "step": number, "ours_theirs": found})
    return {"total": total, "equal": equal, "steps": steps, "equal_steps": equal_steps, "differ": differ}


def _replay(
    catalogue: Catalogue, row: Mapping[str, Any], search: Search
) -> Iterator[tuple[Answer, Mapping[str, Any]]]:
    goal = Goal.of(row["goal"])

    def price(product: Product) -> float:
        # the original drew it unseeded; all that is known is that the target keeps its own goal's limit
        drawn = catalogue.price(product)
        return min(drawn, goal.price_upper) if product.asin == goal.asin else drawn

    shopping = Shopping(catalogue, goal, search=search, price=price)
    for step in row["steps"]:
        yield (shopping.reset() if step["action"] is None else shopping.step(step["action"])), step


def _unlike(answer: Answer, step: Mapping[str, Any]) -> dict[str, list[Any]]:
    theirs = {"obs": step["obs"], "clickables": step["clickables"], "has_search_bar": step["has_search_bar"]}
    page = answer.page
    ours = {"obs": page.text, "clickables": list(page.clickables), "has_search_bar": page.has_search_bar}
    if "reward" in step:
        theirs |= {"reward": step["reward"], "done": step["done"]}
        ours |= {"reward": answer.reward, "done": answer.done}
    return _differences(ours, theirs)


def check_rankings(catalogue: Catalogue, rows: Iterator[Mapping[str, Any]]) -> dict[str, Any]:
    """Search recorded queries anew: `query` → `top50`, the ids that Lucene gave."""
    total = equal = top1 = 0
    overlaps: dict[int, list[float]] = {10: [], HITS: []}
    for row in rows:
        ours, theirs = catalogue.search(row["query"]), list(row["top50"])
        total, equal, top1 = total + 1, equal + (ours == theirs), top1 + (ours[:1] == theirs[:1])
        for depth, shares in overlaps.items():
            wanted = set(theirs[:depth])
            shares.append(len(wanted & set(ours[:depth])) / len(wanted) if wanted else float(not ours))
    shares_of = {f"top{depth}_overlap": _mean(shares) for depth, shares in overlaps.items()}
    return {"total": total, "equal": equal, "top1": top1 / total if total else None, **shares_of}


def stand_in_search(catalogue: Catalogue) -> Search:
    """The ranking that recorded episodes were made with in Lucene's place: bm25s with Porter's stems."""
    try:
        import bm25s
        import Stemmer
    except ImportError:
        raise UserError("replaying these episodes needs bm25s: pip install 'jitmem-lab[webshop]'") from None
    stemmer = Stemmer.Stemmer("porter")

    def tokens(texts: Sequence[str]) -> Any:
        return bm25s.tokenize(list(texts), stopwords="en", stemmer=stemmer, show_progress=False)

    index = bm25s.BM25(k1=K1, b=B, method="lucene")
    index.index(tokens([product.text() for product in catalogue.products]), show_progress=False)

    def search(query: str) -> list[str]:
        hits = min(HITS, len(catalogue.asins))
        found, _ = index.retrieve(tokens([query]), k=hits, show_progress=False)
        return [catalogue.asins[row] for row in found[0]]

    return search


def _differences(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, list[Any]]:
    names = [*theirs, *(name for name in ours if name not in theirs)]
    pairs = {name: [ours.get(name), theirs.get(name)] for name in names}
    return {name: pair for name, pair in pairs.items() if not _close(*pair)}


def _close(one: Any, other: Any) -> bool:
    if isinstance(one, int | float) and isinstance(other, int | float):
        return math.isclose(one, other, rel_tol=0, abs_tol=TOLERANCE)
    return bool(one == other)


def _mean(values: Sequence[float]) -> float | None:
    return round(sum(values) / len(values), 6) if values else None
