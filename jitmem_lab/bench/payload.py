"""Does the executor follow a payload? The same games with none, a wrong one, a raw trace, the right one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from typing import Any

from ..errors import InfrastructureError
from ..evaluation import EvalConfig, evaluate
from ..models import load_model
from ..statistics import Interval, wilson

CONDITIONS: dict[str, dict[str, Any]] = {
    "none": {"memory": "none"},
    "another": {"memory": "oracle", "options": {"of": "another"}},
    "raw": {"memory": "raw", "k": 1, "warm_start": 300},
    "walkthrough": {"memory": "oracle"},
}
"""What stands in the prompt: nothing; another task's walkthrough; the most similar of 300 train traces as it
is; the task's own walkthrough."""


def difference_interval(won_a: int, won_b: int, n: int) -> Interval:
    """95 % interval of the difference b - a of two shares of `n`, by Newcombe's hybrid score method.

    R. G. Newcombe 1998, method 10: the square root of the summed squared distances to the Wilson limits.
    """
    a, b = won_a / n, won_b / n
    left, right = wilson(won_a, n), wilson(won_b, n)
    low = b - a - sqrt((b - right.low) ** 2 + (left.high - a) ** 2)
    high = b - a + sqrt((right.high - b) ** 2 + (a - left.low) ** 2)
    return Interval(low, high)


def run(
    games: int = 30,
    split: str = "valid_seen",
    model: str = "smol",
    out: str | Path | None = None,
    concurrency: int = 2,
    progress: bool = True,
    conditions: Mapping[str, dict[str, Any]] = CONDITIONS,
) -> dict[str, Any]:
    """Success under each condition, on the same games, and how far each is from the first.

    Args:
        games: Number of games from the start of order 0.
        split: Split of ALFWorld to play.
        model: The executor's model.
        out: Folder of the run directories, one a condition; None leaves none behind.
        concurrency: Episodes at once.
        progress: Whether to draw a bar.
        conditions: Parameters of `EvalConfig` by name; the first is what the others are compared with.

    Returns:
        `model`, `split`, `games`, `wall_s`, and by condition `won`, `intervals` (95 % Wilson), `differences`
        and `difference_intervals` (95 % Newcombe), and `clearly_more` than the first.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        llm = load_model(model, concurrency=concurrency)
        won, counts, seconds = {}, {}, 0.0
        try:
            for name, parameters in conditions.items():
                config = EvalConfig.make(split=split, games=games, model=model, **parameters)
                played = evaluate(
                    config,
                    out=folder / name,
                    concurrency=concurrency,
                    models={model: llm},
                    progress=progress,
                ).summary()
                won[name] = played["outcomes"]["success"]
                counts[name] = won[name] + played["outcomes"]["failure"]
                seconds += played["wall_seconds"] or 0.0
        finally:
            llm.close()
    if len(set(counts.values())) != 1:
        raise InfrastructureError(f"some episodes ended in errors ({counts} finished); run it again")
    first, *others = conditions
    n = counts[first]
    apart = {name: difference_interval(won[first], won[name], n) for name in others}
    return {
        "model": model,
        "split": split,
        "games": n,
        "won": won,
        "intervals": {name: [round(x, 3) for x in wilson(won[name], n)] for name in conditions},
        "differences": {name: round((won[name] - won[first]) / n, 3) for name in others},
        "difference_intervals": {name: [round(x, 3) for x in apart[name]] for name in others},
        "clearly_more": {name: apart[name].low > 0 for name in others},
        "wall_s": round(seconds, 1),
    }
