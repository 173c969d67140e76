"""A study run dry: every run's parts are made, and what it would ask is estimated; nothing is trained.

Runs whose data are missing are checked on the split that stands in, and estimated from published counts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from .. import data
from ..accounting import read_prices
from ..errors import InfrastructureError, UserError
from ..evaluation import EvalConfig
from ..grids import Cell
from ..sweeping.check import Checked, Checker, model_names
from ..training.recipes import WRITE_RATE
from .dry_batches import play_batches
from .dry_estimates import Ground, estimate, table_row
from .dry_rows import Dry, assumptions, cell_row, model_rows, part_rows, plain, role_rows
from .dry_servers import Context, contexts, servers
from .plan import Plan

COUNTS = {
    ("alfworld", "valid_seen"): 140,
    ("webshop", "full_test"): 500,
    ("tau2", "airline"): 50,
    ("tau2", "retail"): 114,
    ("tau2", "telecom"): 114,
}
"""Tasks of the paper's test splits, as published."""
STAND_IN = {"alfworld": "generated_test", "webshop": "generated_test"}
"""Splits that need no data."""
COPIES = 4
"""Copies of an executor behind one address, as the paper serves its own; other models have one."""
_FEW = 3


def run_dry(
    plan: Plan,
    *,
    prices: str | Path | Mapping[str, Any] | None = None,
    context: Iterable[tuple[str, int]] = (),
    tokens_per_second: float | None = None,
    copies: int = COPIES,
    server: str | None = None,
    turns: int = 3,
    batch: int | None = None,
    out: Path | None = None,
    concurrency: int = 4,
    timeout: float = 120.0,
) -> dict[str, Any]:
    """Check and estimate every run of a plan, and play a batch of each kind where a server is given.

    Args:
        plan: The runs.
        prices: As for `accounting.read_prices`.
        context: Contexts in tokens by model, before those known.
        tokens_per_second: Tokens that one copy of a model writes in a second at full load; None takes what
            the recipes for GPUs assume.
        copies: Copies of an executor behind one address.
        server: Address of an OpenAI-compatible server that plays all served models; None plays nothing.
        turns: Turns of its episodes at most.
        batch: Tasks of its batches at most; None takes each run's own.
        out: Where its run directories go; None takes a folder that is removed again.
        concurrency: Episodes at once.
        timeout: Seconds after which a model call counts as failed.

    Returns:
        `cells`, `parts`, `models`, `roles`, `servers`, `batches`, `assumptions` and `failed`, as JSON has it;
        a low and a high bound are a list of two.

    Raises:
        UserError: Options that make no sense. What is wrong with a run is told with it.
    """
    if tokens_per_second is not None and not 0 < tokens_per_second < float("inf"):
        raise UserError(f"--tokens-per-second must be a number above 0, not {tokens_per_second:g}")
    cells, priced = plan.cells(), read_prices(prices)
    rate = WRITE_RATE if tokens_per_second is None else tokens_per_second
    lengths = contexts(context, {spec for cell in cells for spec in model_names(cell.config)})
    trained = {model for role, model in plan.roles.items() if role.startswith(("trained", "refreshed"))}
    found, grounds = check(cells, lengths, trained)
    batches = []
    if server is not None:
        fit = [(one.cell, STAND_IN.get(one.cell.config.benchmark) if one.says else None) for one in found]
        batches = play_batches(
            [pair for pair, one in zip(fit, found, strict=True) if one.state != "failed"],
            server,
            turns=turns,
            batch=batch,
            out=out,
            concurrency=concurrency,
            timeout=timeout,
        )
    failed = [one.cell.name for one in found if one.state == "failed"]
    result = {
        "size": plan.size.name,
        "cells": [cell_row(one, priced) for one in found],
        "parts": part_rows(plan, found, priced),
        "models": model_rows(found, priced, rate, copies),
        "roles": role_rows(found, lengths),
        "servers": servers([cell.config for cell in cells], lengths, copies),
        "batches": batches,
        "assumptions": assumptions(grounds, lengths, rate, copies),
        "failed": failed + [row["cell"] for row in batches if row["state"] != "completed"],
    }
    return {name: plain(value) for name, value in result.items()}


def check(
    cells: Iterable[Cell], lengths: Mapping[str, Context], trained: Collection[str] = ()
) -> tuple[list[Dry], dict[str, Ground]]:
    """What is known of each run, and of each split by name; no run's error stops the others.

    Args:
        cells: The runs.
        lengths: Contexts by model.
        trained: Models that are trained curators.
    """
    missing = missing_data()
    grounds: dict[str, Ground] = {}
    found = []
    with Checker(lambda spec: lengths[spec].used) as checker:
        for cell in cells:
            says = missing.get((cell.config.benchmark, cell.config.split), "")
            try:
                found.append(_checked(cell, says, checker, lengths, grounds, trained))
            except (UserError, InfrastructureError) as error:
                found.append(Dry(cell, "failed", str(error), 0, []))
    return found, grounds


def missing_data() -> dict[tuple[str, str], str]:
    """What to do about each benchmark's split whose data are not here."""
    return {
        (row["benchmark"], row["split"]): row["note"] or "not found"
        for row in data.report()
        if not row["found"]
    }


def _checked(
    cell: Cell,
    says: str,
    checker: Checker,
    lengths: Mapping[str, Context],
    grounds: dict[str, Ground],
    trained: Collection[str],
) -> Dry:
    config = cell.config
    tried = EvalConfig.make(**cell.parameters | {"split": STAND_IN[config.benchmark]}) if says else config
    made = checker.check(tried)
    place = f"{config.benchmark} {config.split}"
    if place not in grounds:
        grounds[place] = measured(tried, made)
    tasks = len(made.tasks) // config.trials
    if says:
        known = COUNTS.get((config.benchmark, config.split), tasks)
        tasks = min(known, config.games or known)
    row = table_row(config, trained)
    asks = estimate(config, made, tasks, grounds[place], row, lambda spec: lengths[spec].used)
    state, words = ("data missing", f"data missing: {says}") if says else ("ok", "")
    return Dry(cell, state, words, tasks, asks)


def measured(config: EvalConfig, made: Checked) -> Ground:
    """First prompt and solutions of a split, as its first tasks have them."""
    bench = made.benchmark
    task = bench.tasks()[0]
    env = bench.make_env(task)
    try:
        first = env.reset()
    finally:
        env.close()
    prompt = made.executor.messages(task, "", [], first)
    tools = str(list(first.tools)) if config.act == "tools" else ""
    opening = (sum(len(message.content) for message in prompt) + len(tools)) / 4
    lengths = [len(bench.oracle(one)) for one in bench.tasks()[:_FEW]]
    source = f"the first task of {config.split}, and the solutions of {len(lengths)}"
    return Ground(opening, round(sum(lengths) / len(lengths), 1), source)
