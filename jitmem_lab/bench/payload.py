"""Does the executor follow a payload? The same games with none and with the walkthrough as payload."""

from __future__ import annotations

import tempfile
from math import sqrt
from pathlib import Path
from typing import Any

from ..analysis import Interval, wilson
from ..errors import InfrastructureError
from ..evaluation import EvalConfig, evaluate
from ..models import load_model


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
    memories: tuple[str, str] = ("none", "oracle"),
) -> dict[str, Any]:
    """Success with no payload and with the walkthrough as payload, on the same games.

    Args:
        games: Number of games from the start of order 0.
        split: Split to play.
        model: The executor's model.
        out: Folder of the two run directories; None leaves none behind.
        concurrency: Episodes at once.
        progress: Whether to draw a bar.
        memories: The two that are compared.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch if out is None else out)
        llm = load_model(model, concurrency=concurrency)
        won, counts, seconds = {}, {}, 0.0
        try:
            for memory in memories:
                config = EvalConfig.make(memory=memory, split=split, games=games, model=model)
                played = evaluate(
                    config,
                    out=folder / memory,
                    concurrency=concurrency,
                    models={model: llm},
                    progress=progress,
                ).summary()
                won[memory] = played["outcomes"]["success"]
                counts[memory] = won[memory] + played["outcomes"]["failure"]
                seconds += played["wall_seconds"] or 0.0
        finally:
            llm.close()
    if len(set(counts.values())) != 1:
        raise InfrastructureError(f"some episodes ended in errors ({counts} finished); run it again")
    played_games = counts[memories[0]]
    a, b = (won[memory] for memory in memories)
    interval = difference_interval(a, b, played_games)
    return {
        "model": model,
        "split": split,
        "games": played_games,
        "won": won,
        "intervals": {
            memory: [round(x, 3) for x in wilson(won[memory], played_games)] for memory in memories
        },
        "difference": round((b - a) / played_games, 3),
        "difference_interval": [round(x, 3) for x in interval],
        "clearly_more": interval.low > 0,
        "wall_s": round(seconds, 1),
    }
