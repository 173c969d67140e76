"""Rows of a dry run: what runs, parts, models and roles come to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..accounting import Prices
from ..grids import Cell
from ..training.recipes import READ_RATE, WRITE_RATE
from .dry_estimates import Asks, Ground, Span, added, fit_of
from .dry_servers import Context, hosted, short
from .plan import Plan


class Dry(NamedTuple):
    """What is known of one run."""

    cell: Cell
    """The run."""
    state: str
    """ok, data missing, or failed."""
    says: str
    """What is missing or wrong."""
    tasks: int
    """Tasks of its stream."""
    asks: list[Asks]
    """What it would ask; nothing where it failed."""

    @property
    def ground(self) -> str:
        """What it is played on."""
        return f"{self.cell.config.benchmark} {self.cell.config.split}"


def plain(value: Any) -> Any:
    """A value as JSON has it, its bounds as lists of numbers with two digits behind the point."""
    if isinstance(value, Span):
        return [round(value.low, 2), round(value.high, 2)]
    if isinstance(value, list):
        return [plain(one) for one in value]
    return {name: plain(one) for name, one in value.items()} if isinstance(value, dict) else value


def price_of(asks: Asks, prices: Prices) -> Span | None:
    """US dollars of what a role asks; None without a price."""
    price = prices.get(asks.model) or prices.get(short(asks.model))
    if price is None:
        return None
    low = asks.prompt.low * price.prompt + asks.completion.low * price.completion
    high = asks.prompt.high * price.prompt + asks.completion.high * price.completion
    return Span(low / 1e6, high / 1e6)


def _price(asks: Iterable[Asks], prices: Prices) -> Span | None:
    """What all of them cost; None if one has no price."""
    each = [price_of(one, prices) for one in asks]
    known = [one for one in each if one is not None]
    return added(known) if each and len(known) == len(each) else None


def _sums(asks: list[Asks], prices: Prices) -> dict[str, Any]:
    """Calls, tokens and price of what is asked, as spans."""
    return {
        "calls": added(one.calls for one in asks),
        "prompt": added(one.prompt for one in asks),
        "completion": added(one.completion for one in asks),
        "price": _price(asks, prices),
    }


def cell_row(one: Dry, prices: Prices) -> dict[str, Any]:
    """One run: how it stands, and what each role asks with its arithmetic."""
    roles = [
        asks._asdict() | {"model": short(asks.model), "price": price_of(asks, prices)} for asks in one.asks
    ]
    return {
        "cell": one.cell.name,
        "split": one.ground,
        "state": one.state,
        "says": one.says,
        "tasks": one.tasks,
        "roles": roles,
    } | _sums(one.asks, prices)


def part_rows(plan: Plan, found: list[Dry], prices: Prices) -> list[dict[str, Any]]:
    """One row a part and split; a run that stands in several parts is counted in the first."""
    by_name = {one.cell.name: one for one in found}
    seen: set[str] = set()
    rows = []
    for planned in plan.parts:
        names = dict.fromkeys(name for row in planned.rows.values() for name in row if name not in seen)
        seen |= set(names)
        own = [by_name[name] for name in names]
        row: dict[str, Any] = {"part": planned.part.name, "split": f"{planned.benchmark} {planned.split}"}
        row |= {"runs": len(own), "episodes": sum(one.tasks * one.cell.config.trials for one in own)}
        states = [one.state for one in own]
        row["state"] = next((state for state in ("failed", "data missing") if state in states), "ok")
        rows.append(row | _sums([asks for one in own for asks in one.asks], prices))
    return rows


def model_rows(found: list[Dry], prices: Prices, rate: float, copies: int) -> list[dict[str, Any]]:
    """One row a model: all that it is asked, its price, and hours where one serves it oneself."""
    by_model: dict[str, list[Asks]] = {}
    for one in found:
        for asks in one.asks:
            by_model.setdefault(asks.model, []).append(asks)
    rows = []
    for spec, group in sorted(by_model.items()):
        sums = _sums(group, prices)
        work = [
            written + read * WRITE_RATE / READ_RATE
            for written, read in zip(sums["completion"], sums["prompt"], strict=True)
        ]
        served = rate * (copies if any(asks.role == "executor" for asks in group) else 1)
        hours = None if hosted(spec) else Span(*(tokens / served / 3600 for tokens in work))
        rows.append({"model": short(spec)} | sums | {"hours": hours})
    return rows


def role_rows(found: list[Dry], lengths: Mapping[str, Context]) -> list[dict[str, Any]]:
    """One row a model, role and way of acting: the longest calls against the context."""
    rows: dict[tuple[str, str, str], list[Asks]] = {}
    for one in found:
        for asks in one.asks:
            key = (short(asks.model), asks.role, one.cell.config.benchmark)
            rows.setdefault(key, []).append(asks)
    order = ("too long", "fits, long ones may be refused", "cut", "fits, long ones cut", "unknown", "fits")
    table = []
    for (model, role, benchmark), group in sorted(rows.items()):
        context = lengths[group[0].model]
        verdicts = {fit_of(asks, context.tokens) for asks in group}
        need = Span(max(asks.need.low for asks in group), max(asks.need.high for asks in group))
        table.append(
            {
                "model": model,
                "role": role,
                "benchmark": benchmark,
                "need": need,
                "context": context.tokens,
                "verdict": min(verdicts, key=order.index),
            }
        )
    return table


def assumptions(
    grounds: Mapping[str, Ground], lengths: Mapping[str, Context], rate: float, copies: int
) -> list[str]:
    """What the figures rest on."""
    lines = [
        "All of this is arithmetic, nothing was measured in a run. Low: the paper's table 4 on ALFWorld (of "
        "a hosted model that is not told to think; one that thinks writes several times as much), elsewhere "
        "the solution's actions and the first prompt. High: every call reaches every limit.",
        "A trace is 2,000 tokens and a payload 500, as the recipes for GPUs assume; a conversation's growth "
        "is left out of the low bound, and so are tries that are made again.",
        f"Hours: written tokens, and read ones at {WRITE_RATE / READ_RATE:.2f} of one each, at {rate:,.0f} "
        f"a second and copy (--tokens-per-second; as it stands, assumed), {copies} copies of an executor, "
        "one of other models; hosted models have no hours.",
        "Training is not in it: 21 h (ALFWorld) and 27 h (WebShop) on eight H200 as published; see `jitmem "
        "train recipes`.",
        "Think blocks are read from the text: a reasoning parser is needed only where a thinking model "
        "calls tools. Settings that a hosted model refuses (temperature, top_k and the like) are left out "
        "after its first refusal, and max_tokens goes out as max_completion_tokens where it asks for that.",
    ]
    lines += [
        f"{place}: {one.opening:,.0f} tokens of first prompt, {one.solution:g} actions ({one.source})"
        for place, one in grounds.items()
    ]
    sources: dict[str, list[str]] = {}
    for spec, context in lengths.items():
        sources.setdefault(context.source, []).append(short(spec))
    return lines + [f"context of {', '.join(names)}: {source}" for source, names in sources.items()]
