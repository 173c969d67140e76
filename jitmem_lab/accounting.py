"""What a run cost, by role and phase: tokens, calls, seconds and price.

Everything is recomputed from `episodes.jsonl` and `writes.jsonl`. Tokens of answers that came from a cache
are counted as if they had been asked for, so that systems compare; `cached_calls` says how many those are,
and `paid` is the price without them. What an embedder reads is no prompt: its tokens and calls are told apart
from those of the models that write.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .errors import UserError
from .records import Call, Episode, Role, Usage

if TYPE_CHECKING:
    from .runs import Run

Stage = Literal["warm", "episode", "lost", "write"]
"""Where a call belongs: demonstrations taken in before the stream, an episode that counts, an attempt at an
episode or at memory's write that ended in an error (it was paid for all the same), or what memory did after
an episode."""
EMBEDDER: Role = "embedder"
"""The role that writes nothing."""


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


def in_process(model: str) -> bool:
    """Whether a model of that name runs in the process: it costs time, and money only if a price says so."""
    return model in ("smol", "wordllama") or model.startswith("hf:")


def ledger(run: Run) -> Iterator[Entry]:
    """Every model call of every attempt that ended, in order: warm start, episodes as they ended, after each
    batch the writes. What an attempt had asked for when it was killed is in no file."""
    for stage, calls, _ in _walk(run):
        yield from (Entry(stage, call) for call in calls)


def _walk(run: Run) -> Iterator[tuple[Stage, Sequence[Call], Episode | None]]:
    """Stage, calls and episode, if it is one, of each line of a run's files."""
    try:
        yield from _stages(run)
    except (TypeError, ValueError) as error:
        why = str(error).splitlines()[0]
        raise UserError(f"{run.path} cannot be read: a call in writes.jsonl is broken ({why})") from None


def _stages(run: Run) -> Iterator[tuple[Stage, Sequence[Call], Episode | None]]:
    writes = run.writes()
    waiting = deque(line for line in writes if line["key"] != "warm")
    for line in writes:
        if line["key"] == "warm":
            yield "warm", _calls(line), None
    finished: set[str] = set()
    for episode in run.iter_episodes():
        while waiting and waiting[0].get("batch", 0) < episode.batch:
            yield _written(waiting.popleft())
        counts = episode.outcome != "error" and episode.key not in finished
        finished |= {episode.key} if counts else set()
        yield "episode" if counts else "lost", episode.calls, episode
    yield from map(_written, waiting)


def _written(line: Mapping[str, Any]) -> tuple[Stage, Sequence[Call], None]:
    return "lost" if line.get("error") else "write", _calls(line), None


def _calls(line: Mapping[str, Any]) -> list[Call]:
    return [Call.model_validate(call) for call in line.get("calls", [])]


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


def _find(model: str, prices: Prices) -> Price | None:
    return prices.get(model) or prices.get(model.partition("#")[2])


def _cost(model: str, used: Usage, prices: Prices) -> float | None:
    """The price of what one model was asked; None without one."""
    if not used.prompt_tokens and not used.completion_tokens:
        return 0.0
    price = _find(model, prices)
    if price is None:
        return None
    return (used.prompt_tokens * price.prompt + used.completion_tokens * price.completion) / 1e6


def _whole(parts: Sequence[tuple[str, Usage]], prices: Prices) -> float | None:
    """The price of what several models were asked; None where a server's has none, or all have none."""
    asked = [(model, used) for model, used in parts if used.prompt_tokens or used.completion_tokens]
    free = [model for model, _ in asked if _find(model, prices) is None]
    if not all(map(in_process, free)) or (free and len(free) == len(asked)):
        return None
    return sum(_cost(model, used, prices) or 0.0 for model, used in asked)


class Place(NamedTuple):
    """What calls are added up by."""

    stage: Stage
    """Where they belong."""
    role: str
    """For whom they were made."""
    phase: str
    """When in an episode's life."""
    model: str
    """The model's name."""
    cached: bool
    """Whether a cache answered."""


class Account(NamedTuple):
    """All calls of a run, added up."""

    usage: dict[Place, Usage]
    """Usage by place, sorted."""
    episodes: int
    """Episodes with a result."""
    steps: int
    """Their steps."""

    def total(self, **only: Any) -> Usage:
        """The usage of all places of which the named fields are such, e.g. `role="executor"`."""
        fits = [u for place, u in self.usage.items() if only.items() <= place._asdict().items()]
        return Usage.total(fits)

    def by_role(self) -> dict[str, Usage]:
        """The usage of all stages by role."""
        return {role: self.total(role=role) for role in sorted({place.role for place in self.usage})}


def account(run: Run) -> Account:
    """The calls of a run, added up in one reading of its files."""
    sums: dict[Place, Usage] = defaultdict(Usage)
    episodes = steps = 0
    for stage, calls, episode in _walk(run):
        for call in calls:
            sums[Place(stage, call.role, call.phase, call.model, call.usage.cached_calls > 0)] += call.usage
        if stage == "episode" and episode is not None and episode.trajectory is not None:
            episodes += 1
            steps += len(episode.trajectory.steps)
    return Account(dict(sorted(sums.items())), episodes, steps)


def cost_rows(found: Account, prices: Prices | None = None) -> list[dict[str, Any]]:
    """One row a stage, role, phase and model: calls, tokens, seconds, price; every attempt is in one.

    `calls` are all calls, `cached_calls` those of them that a cache answered. `price` charges all tokens,
    `paid` only those of calls that reached the model; both are None without a price.
    """
    groups: dict[tuple[Stage, str, str, str], list[tuple[bool, Usage]]] = defaultdict(list)
    for place, used in found.usage.items():
        groups[place.stage, place.role, place.phase, place.model].append((place.cached, used))
    rows = []
    for (stage, role, phase, model), parts in sorted(groups.items()):
        used = Usage.total(part for _, part in parts)
        paid = Usage.total(part for cached, part in parts if not cached)
        rows.append(
            {
                "stage": stage,
                "role": role,
                "phase": phase,
                "model": model,
                "calls": used.calls + used.cached_calls,
                "cached_calls": used.cached_calls,
                "prompt_tokens": used.prompt_tokens,
                "completion_tokens": used.completion_tokens,
                "seconds": used.seconds,
                "price": _cost(model, used, prices or {}),
                "paid": _cost(model, paid, prices or {}),
            }
        )
    return rows


def per_task(found: Account, prices: Prices | None = None) -> dict[str, float | None]:
    """Costs a finished episode: the executor's alone (as the paper's table 4) and all roles together.

    `executor_*` and `steps` are of the episodes that count, `all_*` and `calls` of the same ones with every
    role that writes and memory's writes; `embedded_k` is what embedders read for them. `seconds` and `price`
    are of both. A model in the process that has no price adds nothing to one; the price is None where a
    server's model has none, or where nothing has one. What was lost to attempts that ended in errors
    (`lost_k`) and what the warm start cost (`warm_k`) are whole sums, without embedders: they belong to no
    task. Tokens are in thousands, as in the paper's table; a choice among options writes the tokens of all
    options that were scored. What is a mean is None where no episode finished.
    """
    executor = found.total(stage="episode", role="executor")
    parts = {p: u for p, u in found.usage.items() if p.stage in ("episode", "write")}
    whole = Usage.total(parts.values())
    read = Usage.total(used for place, used in parts.items() if place.role == EMBEDDER)
    sums: dict[str, float | None] = {
        "executor_input_k": executor.prompt_tokens / 1000,
        "executor_output_k": executor.completion_tokens / 1000,
        "steps": found.steps,
        "all_input_k": (whole.prompt_tokens - read.prompt_tokens) / 1000,
        "all_output_k": (whole.completion_tokens - read.completion_tokens) / 1000,
        "embedded_k": read.prompt_tokens / 1000,
        "calls": whole.calls + whole.cached_calls - read.calls - read.cached_calls,
        "seconds": whole.seconds,
        "price": _whole([(place.model, used) for place, used in parts.items()], prices or {}),
    }
    figures = {
        name: number / found.episodes if found.episodes and number is not None else None
        for name, number in sums.items()
    }
    for stage in ("lost", "warm"):
        own = [used for p, used in found.usage.items() if p.stage == stage and p.role != EMBEDDER]
        figures[f"{stage}_k"] = sum(used.prompt_tokens + used.completion_tokens for used in own) / 1000
    return figures
