"""A whole comparison as the sections of a report: what notebook 21_compare shows and writes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .accounting import Prices
from .compare_figures import curve_figures
from .compare_pairs import order_notes, pair_table
from .compare_tables import (
    cost_table,
    coverage,
    judge_table,
    prefix_table,
    rates,
    table_1,
    table_2,
    table_4,
    task_table,
)
from .comparison import Comparison
from .errors import UserError
from .frames import frame
from .memories import NAMES
from .records import content_hash
from .report import Section

if TYPE_CHECKING:
    import pandas as pd

PAPER_NOTE = (
    "Columns that begin with “paper” hold the JitMem paper's own cells, as transcribed by third parties: "
    "its models, its test sets (ALFWorld valid_seen, 500 WebShop goals) and its harness. They are there to "
    "be looked at, not to be subtracted."
)

WRITES = (
    "writes: episodes whose write changed memory; empty writes: let in, but nothing was written; refused "
    "parts: items or edits in a writer's answers that broke the memory's rules; failed writes: ended in an "
    "error and are owed."
)


def compare_sections(
    comparison: Comparison,
    *,
    baseline: str = "none",
    shown: str = "",
    executors: Sequence[str] = (),
    prices: Prices | None = None,
    draws: int = 10_000,
    seed: int = 0,
) -> dict[str, Section]:
    """Every table and figure of a comparison by name, in the order of a report.

    Args:
        comparison: The runs.
        baseline: Label or memory that the others are compared with.
        shown: Label of the system whose wins and losses are listed by task; empty takes jitmem, else the
            last one that has a baseline.
        executors: The paper's executors whose cells stand beside.
        prices: Prices by model.
        draws, seed: Of the bootstrap intervals.

    Raises:
        UserError: A baseline or system that is not there, an executor that the paper does not have, no draws.
    """
    labels = dict.fromkeys(group.label for group in comparison.groups)
    for name, known in ((baseline, [*labels, *NAMES]), (shown, ["", *labels])):
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise UserError(f"there is no system {name!r} here; {hint}there are {', '.join(labels)}")
    compared = [g.label for g in comparison.groups if comparison.baseline(g, baseline) is not None]
    shown = shown or next((label for label in ("jitmem", *compared[::-1]) if label in compared), "")
    paper = PAPER_NOTE if executors else ""
    told = "\n".join([*comparison.notes, *order_notes(comparison), WRITES])
    pairs = pair_table(comparison, baseline, draws, seed)
    sections = [
        Section("runs", "What was read", told, coverage(comparison)),
        Section("cautions", "To be told with every figure", "", cautions_table(comparison)),
        Section(
            "table_1",
            "Success rate and score by memory",
            f"In percent, mean (sample std over orders); with one order there is no std.\n{paper}",
            table_1(comparison, executors),
        ),
        Section(
            "rates",
            "Every rate with its interval",
            "Shares with 95 % intervals by bootstrap over tasks and orders; Wilson's where nothing varies "
            "(`interval by` says which).",
            rates(comparison, draws, seed),
        ),
        Section(
            "table_2",
            "τ²-bench by domain",
            "In percent. Micro: over all tasks; macro: over domains.",
            table_2(comparison, bool(executors)),
        ),
        Section(
            "table_4",
            "Tokens and steps a task",
            "The executor's own tokens, as the paper counts them, then those of all roles that write, with "
            "memory's writes. Thousands of tokens, means over orders. What an embedder read stands apart "
            "(embedded K) and is in no other column but seconds and price; a model in the process has a "
            "price only if one is given.",
            table_4(comparison, prices, bool(executors)),
        ),
        Section(
            "costs",
            "Costs by stage, role and phase, a finished episode",
            "Calls, tokens, seconds in the model, and price in dollars where one is given, means over "
            "orders. The rows of episode and write, without embedders, add up to the calls and tokens of all "
            "roles in the table before; lost is what attempts that ended in errors cost, warm what memory "
            "took in before the stream. Answers from a cache are among the calls, are charged in price and "
            "not in paid.",
            cost_table(comparison, prices),
        ),
        Section(
            "prefixes",
            "What a prefix cache could reuse",
            "Characters of whole blocks of 64 at the beginning of a prompt that an earlier prompt of the run "
            "began with too: what the prompts' layout allows a server with room for everything.",
            prefix_table(comparison),
        ),
        Section(
            "pairs",
            f"Each memory against {baseline}, on the same tasks in the same orders",
            "Differences in points with 95 % intervals by paired bootstrap over tasks and orders (where no "
            "pair differs, what Wilson's interval leaves open). p: over all orders, by flipping the signs of "
            "the tasks' mean differences, so that a task counts once (with one order, McNemar's exact test). "
            "p Holm: corrected for the rows of this table. Detectable: the true difference, in points, that "
            "so many tasks that differ as much would show with p below 0.05 four times of five, before the "
            "correction. Order by order: McNemar's exact test, pairs that only the baseline won / only the "
            "memory won, and p, not corrected. Pairs with an error on either side are left out. What the "
            "baseline was played with otherwise, beside the memory, is named under differs in.",
            pairs,
        ),
        Section(
            "curves",
            "Success over the stream",
            "Share of successes among the games so far: mean over the orders that got as far, with a band "
            "from the lowest to the highest (where there is one order, its 95 % Wilson interval) where no "
            "more than four systems stand together.",
            figures=curve_figures(comparison),
        ),
        Section(
            "tasks",
            f"Wins by task: {shown or 'nothing to compare'}",
            _chosen(shown, compared, baseline),
            task_table(comparison, shown, baseline),
        ),
        Section(
            "judge",
            "Judges against the environment",
            "Verdicts of a model that decide what memory takes in. Empty where the environment decides.",
            judge_table(comparison),
        ),
    ]
    return {section.name: section for section in sections}


def _chosen(shown: str, compared: Sequence[str], baseline: str) -> str:
    """Which system's wins are listed, and how another one is chosen."""
    others = [label for label in dict.fromkeys(compared) if label != shown]
    more = (
        f" Another is chosen by the parameter shown, as in -p shown '{others[0]}'; there are "
        if others
        else ""
    )
    told = f"{shown or 'No system'} against {baseline}, over all orders; tasks that only one wins come first."
    return told + (f"{more}{', '.join(others)}." if others else "")


def compare_folder(runs: str | Path | Sequence[str | Path], root: str | Path = "runs/compare") -> Path:
    """Where a comparison of these runs goes by default: the same choice always to the same folder."""
    places = [runs] if isinstance(runs, str | Path) else list(runs)
    digest = content_hash(sorted(str(Path(place).resolve()) for place in places), 8)
    names = "-".join(re.sub(r"[^A-Za-z0-9._]+", "_", Path(place).resolve().name) for place in places)
    return Path(root) / f"{names[:60].strip('-._') or 'runs'}-{digest}"


def cautions_table(comparison: Comparison) -> pd.DataFrame:
    """Leaks, controls and lenient settings, and which runs have them."""
    rows = [{"caution": text, "of": "; ".join(who)} for text, who in comparison.cautions().items()]
    return frame(rows)
