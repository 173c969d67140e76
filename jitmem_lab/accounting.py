"""What a run cost, by role and phase: tokens, calls, seconds and price.

Everything is recomputed from `episodes.jsonl` and `writes.jsonl`. Tokens of answers that came from a cache
are counted as if they had been asked for, so that systems compare; `cached_calls` says how many those are,
and `paid` is the price without them.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .errors import UserError
from .records import Call, Usage

if TYPE_CHECKING:
    import pandas as pd

    from .runs import Run

Stage = Literal["warm", "episode", "lost", "write"]
"""Where a call belongs: demonstrations taken in before the stream, an episode that counts, an attempt that
ended in an error (it was paid for all the same), or what memory did after an episode."""


class Entry(NamedTuple):
    """One call in the ledger of a run."""

    stage: Stage
    """Where it belongs."""
    call: Call
    """The call."""


class Price(NamedTuple):
    """What a model costs, in US dollars a million tokens."""

    prompt: float
    """Tokens read."""
    completion: float
    """Tokens written."""


Prices = Mapping[str, Price]
"""Prices by model: its whole name as recorded, or what stands behind its `#`."""


def ledger(run: Run) -> Iterator[Entry]:
    """Every model call of every attempt, in order: warm start, episodes as they ended, after each batch the
    writes."""
    writes = run.writes()
    waiting = deque(line for line in writes if line["key"] != "warm")
    for line in writes:
        if line["key"] == "warm":
            yield from _entries("warm", line)
    finished: set[str] = set()
    for episode in run.iter_episodes():
        while waiting and waiting[0].get("batch", 0) < episode.batch:
            yield from _entries("write", waiting.popleft())
        counts = episode.outcome != "error" and episode.key not in finished
        finished |= {episode.key} if counts else set()
        yield from (Entry("episode" if counts else "lost", call) for call in episode.calls)
    for line in waiting:
        yield from _entries("write", line)


def _entries(stage: Stage, line: Mapping[str, Any]) -> Iterator[Entry]:
    for call in line.get("calls", []):
        yield Entry(stage, Call.model_validate(call))


def read_prices(source: str | Path | Mapping[str, Any] | None) -> dict[str, Price]:
    """Prices from a JSON file or a mapping: `{"model": {"prompt": 0.1, "completion": 0.4}}`, in US dollars a
    million tokens; none gives no prices.

    Raises:
        UserError: No such file, or something that is no price.
    """
    if not source:
        return {}
    table: Any = source
    if not isinstance(source, Mapping):
        try:
            table = json.loads(Path(source).read_text(encoding="utf-8"))
        except OSError as error:
            raise UserError(
                f"the prices {source} cannot be read ({error.strerror}); check the path"
            ) from None
        except ValueError as error:
            raise UserError(f"the prices {source} are no JSON ({error}); mend the file") from None
    if not isinstance(table, Mapping):
        raise UserError('prices are written as {"model": {"prompt": 0.1, "completion": 0.4}}')
    return {str(model): _price(str(model), value) for model, value in table.items()}


def _price(model: str, value: Any) -> Price:
    if isinstance(value, Price):
        return value
    if isinstance(value, Mapping) and set(value) == set(Price._fields):
        found = [value["prompt"], value["completion"]]
        numbers = [x for x in found if isinstance(x, int | float) and not isinstance(x, bool)]
        if len(numbers) == 2 and all(math.isfinite(x) and x >= 0 for x in numbers):
            return Price(*map(float, numbers))
    raise UserError(
        f"the price of {model} must be two numbers of 0 or more, prompt and completion, in dollars a million "
        "tokens"
    )


def price_of(calls: Iterable[Call], prices: Prices, cached: bool = True) -> float | None:
    """What calls cost in US dollars; None where a model that was asked has no price.

    Args:
        calls: The calls.
        prices: Prices by model.
        cached: Whether answers from a cache are charged too.
    """
    total = 0.0
    for call in calls:
        used = call.usage
        if (used.cached_calls and not cached) or not (used.prompt_tokens or used.completion_tokens):
            continue
        price = prices.get(call.model) or prices.get(call.model.partition("#")[2])
        if price is None:
            return None
        total += (used.prompt_tokens * price.prompt + used.completion_tokens * price.completion) / 1e6
    return total


def cost_rows(run: Run, prices: Prices | None = None) -> list[dict[str, Any]]:
    """One row a role, phase and model: calls, tokens, seconds, price; every attempt is in it.

    `price` charges all tokens, `paid` only those of calls that reached the model; both are None without a
    price. Phase `warm` is what memory did with demonstrations before the stream.
    """
    groups: dict[tuple[str, str, str], list[Call]] = defaultdict(list)
    for stage, call in ledger(run):
        groups[call.role, "warm" if stage == "warm" else call.phase, call.model].append(call)
    rows = []
    for (role, phase, model), calls in sorted(groups.items()):
        used = Usage.total(call.usage for call in calls)
        rows.append(
            {
                "role": role,
                "phase": phase,
                "model": model,
                "calls": used.calls,
                "cached_calls": used.cached_calls,
                "prompt_tokens": used.prompt_tokens,
                "completion_tokens": used.completion_tokens,
                "seconds": used.seconds,
                "price": price_of(calls, prices or {}),
                "paid": price_of(calls, prices or {}, cached=False),
            }
        )
    return rows


def cost_frame(run: Run, prices: Prices | None = None) -> pd.DataFrame:
    """`cost_rows` as a frame."""
    import pandas as pd

    columns = [
        *("role", "phase", "model", "calls", "cached_calls", "prompt_tokens", "completion_tokens"),
        *("seconds", "price", "paid"),
    ]
    return pd.DataFrame(cost_rows(run, prices), columns=columns)


def per_task(run: Run, prices: Prices | None = None) -> dict[str, Any]:
    """Costs a finished episode: the executor's alone (as the paper's table 4) and all roles together.

    `executor_*` and `steps` are of the episodes that count, `all_*` of the same ones with every role and
    memory's writes. What was lost to attempts that ended in errors and what the warm start cost once are
    apart: they don't belong to a task. Tokens are in thousands, as in the paper's table; a choice among
    options writes the tokens of all options that were scored. All are None where no episode finished.
    """
    stages: dict[str, list[Call]] = {"warm": [], "episode": [], "lost": [], "write": []}
    for stage, call in ledger(run):
        stages[stage].append(call)
    finished = [e for e in run.latest() if e.outcome != "error" and e.trajectory is not None]
    n = len(finished)
    executor = Usage.total(call.usage for call in stages["episode"] if call.role == "executor")
    calls = stages["episode"] + stages["write"]
    whole = Usage.total(call.usage for call in calls)
    price = price_of(calls, prices or {}) if prices else None

    def share(value: float | None) -> float | None:
        return value / n if n and value is not None else None

    figures = {
        "episodes": n,
        "executor_input_k": share(executor.prompt_tokens / 1000),
        "executor_output_k": share(executor.completion_tokens / 1000),
        "steps": share(sum(len(e.trajectory.steps) for e in finished if e.trajectory is not None)),
        "all_input_k": share(whole.prompt_tokens / 1000),
        "all_output_k": share(whole.completion_tokens / 1000),
        "calls": share(whole.calls + whole.cached_calls),
        "seconds": share(whole.seconds),
        "price": share(price),
    }
    for stage in ("lost", "warm"):
        used = Usage.total(call.usage for call in stages[stage])
        figures[f"{stage}_k"] = (used.prompt_tokens + used.completion_tokens) / 1000
    return figures
