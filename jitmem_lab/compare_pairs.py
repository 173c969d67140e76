"""Tables of pairs of systems: each against a baseline, or an ordering step by step."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from .compare_tables import NONE, percent, place_cells
from .comparison import Comparison, Group
from .errors import UserError
from .frames import frame
from .inference import detectable_for, few_orders, holm, paired_test, task_differences, tested_orders
from .statistics import Metric, Pairs, difference_interval, mcnemar_by_replicate, over_orders, paired

if TYPE_CHECKING:
    import pandas as pd


def order_notes(comparison: Comparison) -> list[str]:
    """`few_orders` for the systems of a comparison, those with the same sentence together."""
    said: dict[str, list[str]] = defaultdict(list)
    for group in comparison.groups:
        if warning := few_orders(over_orders(group.streams).n):
            said[warning].append(f"{group.label} on {group.benchmark} {group.split}")
    every = len(comparison.groups)
    return [f"{'all systems' if len(who) == every else '; '.join(who)}: {text}" for text, who in said.items()]


def pair_table(
    comparison: Comparison, baseline: str = "none", draws: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """Each system against a baseline on the same tasks in the same orders.

    Differences are in points with their 95 % interval over tasks and orders. p is `paired_test`'s, over all
    orders, `p Holm` the same corrected for the rows of the table; `detectable` is `detectable_for`, in
    points. McNemar's exact test is told order by order too: pairs that only the baseline won / only the
    system won, and p, uncorrected. `differs in` names what the baseline was played with otherwise, beside
    the memory.
    """
    rows = []
    for group in comparison.groups:
        base = comparison.baseline(group, baseline)
        for metric in _metrics(base, group) if base else ():
            assert base is not None
            pairs = paired(base.streams, group.streams, metric)
            row = _head(base, group, metric) | {"pairs": pairs.number} | figures(pairs, draws, seed)
            tests = mcnemar_by_replicate(pairs) if metric == "success" else {}
            told = [f"{which}: {t.only_a}/{t.only_b}, p {t.p:.3g}" for which, t in tests.items()]
            row["McNemar by order"] = "; ".join(told) or NONE
            rows.append(row | {"left out: errors": pairs.errors, "without partner": pairs.unmatched})
    return corrected(rows)


def steps_table(
    comparison: Comparison, labels: Sequence[str], draws: int = 10_000, seed: int = 0
) -> pd.DataFrame:
    """An ordering of systems, best first: each against the next, and the first against the last.

    One row a step, benchmark, split and metric; columns as in `pair_table`, and p is corrected for all rows.
    Above 0 a difference speaks for the ordering. Wins and losses are tasks by their mean over orders. Where
    a system was not run, its steps are missing: the two beside it are no step.

    Args:
        comparison: The runs.
        labels: Labels of systems, or else memories of which there is one.
        draws, seed: Of the intervals, and of p for rewards.

    Raises:
        UserError: Fewer than two labels, one twice, one that is not there or means several systems.
    """
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise UserError(f"an ordering takes two different systems or more, not {', '.join(labels) or 'none'}")
    steps = list(pairwise(labels)) + ([(labels[0], labels[-1])] if labels[2:] else [])
    found = {name: _named(comparison, name) for name in labels}
    rows = []
    for place in dict.fromkeys(group.place for group in comparison.groups):
        for better, worse in steps:
            group, base = found[better].get(place), found[worse].get(place)
            if group is None or base is None:
                continue
            for metric in _metrics(base, group):
                pairs = paired(base.streams, group.streams, metric)
                gaps = task_differences(pairs)
                row = _head(base, group, metric) | {"orders": tested_orders(pairs), "tasks": len(gaps)}
                row |= figures(pairs, draws, seed)
                rows.append(row | {"wins": int((gaps > 0).sum()), "losses": int((gaps < 0).sum())})
    return corrected(rows)


def _named(comparison: Comparison, name: str) -> dict[tuple[str, str, str], Group]:
    """The system of that label, or else memory, by place.

    Raises:
        UserError: There is none, or several in one place.
    """
    groups = [g for g in comparison.groups if g.label == name]
    groups = groups or [g for g in comparison.groups if g.memory == name]
    labels = ", ".join(dict.fromkeys(g.label for g in groups or comparison.groups))
    if not groups:
        known = {n for g in comparison.groups for n in (g.label, g.memory)}
        near = difflib.get_close_matches(name, sorted(known), 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise UserError(f"there is no system {name!r} here; {hint}there are {labels}")
    by_place = {group.place: group for group in groups}
    if len(by_place) < len(groups):
        raise UserError(f"{name!r} means several systems in one place; tell them apart by label ({labels})")
    return by_place


def _metrics(base: Group, group: Group) -> tuple[Metric, ...]:
    return ("success", "reward") if base.graded or group.graded else ("success",)


def _head(base: Group, group: Group, metric: Metric) -> dict[str, Any]:
    """The cells that say what a row compares."""
    row: dict[str, Any] = place_cells(group) | {"against": base.label}
    row["differs in"] = ", ".join(group.differs_in(base)) or NONE
    return row | {"metric": "score" if metric == "reward" else "SR"}


def figures(pairs: Pairs, draws: int, seed: int) -> dict[str, Any]:
    """Difference, interval, p as a number yet, and what can be detected."""
    interval = difference_interval(pairs, draws=draws, seed=seed)
    return {
        "difference": percent(pairs.difference),
        "95 % bootstrap": "{} to {}".format(*map(percent, interval)) if interval else NONE,
        "p": paired_test(pairs, draws=draws, seed=seed).p,
        "p Holm": None,
        "detectable": percent(detectable_for(pairs)),
    }


def corrected(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Rows as a frame, p corrected for their number and both told in three digits."""
    for row, adjusted in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p"], row["p Holm"] = (NONE if p is None else f"{p:.3g}" for p in (row["p"], adjusted))
    return frame(rows)
