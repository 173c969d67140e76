"""What training was worth: the trained curator beside the untrained one, on tasks of another split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..evaluation import evaluate
from ..runs import Run
from ..statistics import difference_interval, mcnemar_by_replicate, paired, wilson
from .runs import TrainRun

if TYPE_CHECKING:
    import pandas as pd

CONDITIONS: dict[str, dict[str, Any]] = {
    "none": {"memory": "none"},
    "raw": {"memory": "raw"},
    "untrained": {"memory": "jitmem"},
    "untrained-empty": {"memory": "jitmem", "retrieval": "empty"},
    "trained": {"memory": "jitmem"},
    "trained-empty": {"memory": "jitmem", "retrieval": "empty"},
}
"""Without memory; the traces as they are; the curator before training and after it, and both asked without
any trace: what they know by themselves."""


def evaluate_trained(
    training: TrainRun | str | Path,
    *,
    split: str,
    games: int | None = None,
    order: int = 0,
    conditions: tuple[str, ...] = tuple(CONDITIONS),
    out: str | Path | None = None,
    **operation: Any,
) -> dict[str, Run]:
    """Play the same tasks under each condition, on the streaming protocol.

    Episodes are played as the evaluation preset of the training's name says, with what its `play` changes;
    what the preset sets for training only (`paper`: an executor that doesn't think) does not count here. The
    stream starts from as many demonstrations as the training bank had; after a training over `bank`, from
    nothing, as published.

    Args:
        training: The training, with a chosen checkpoint.
        split: The split that is reported on.
        games: Number of tasks; None takes all.
        order: Seed of their order.
        conditions: Names of `CONDITIONS`.
        out: Folder of the runs; None takes `eval-SPLIT` in the training's own.
        operation: As for `evaluate`: concurrency, cache, progress, models.

    Raises:
        UserError: An unknown condition, no chosen checkpoint, the split that was trained on, or one without
            data.
    """
    run = training if isinstance(training, TrainRun) else TrainRun(training)
    for name in conditions:
        if name not in CONDITIONS:
            raise UserError(f"there is no condition {name!r}; there are {', '.join(CONDITIONS)}")
    config = run.config
    if split == config.split:
        raise UserError(f"{split} is what the curator was trained on; evaluate on another split")
    trained = run.curator if any(name.startswith("trained") for name in conditions) else ""
    folder = run.path / f"eval-{split}" if out is None else Path(out)
    found = {}
    for name in conditions:
        more: dict[str, Any] = {"split": split, "games": games, "order": order, "seed": config.seed}
        if CONDITIONS[name]["memory"] != "none" and config.bank is None and config.bank_size:
            more["warm_start"] = config.bank_size
        if CONDITIONS[name]["memory"] == "jitmem":
            more["curator_model"] = trained if name.startswith("trained") else config.curator
        evaluation = config.reported(**(CONDITIONS[name] | more))
        found[name] = evaluate(evaluation, out=folder / f"{name}-{order}", **operation)
    return found


def gain_frame(runs: Mapping[str, Run | Sequence[Run]], baseline: str = "untrained") -> pd.DataFrame:
    """One row a condition: games won with interval, and the difference from a baseline on the same tasks.

    Args:
        runs: By condition, as `evaluate_trained` gives them; several (of other splits) are taken together.
        baseline: The condition that the others are compared with; where it was not played, there are no
            differences.

    Columns: won, games, success_rate (0 to 1), low and high (95 % Wilson), and, of the others, difference
    from the baseline, diff_low and diff_high (95 %, bootstrap over tasks), and p (McNemar's exact test).

    Raises:
        UserError: There is no condition of the baseline's name.
    """
    import pandas as pd

    if baseline not in {*runs, *CONDITIONS}:
        raise UserError(f"there is no condition {baseline!r} to compare with; there are {', '.join(runs)}")
    rows = []
    several = {name: [one] if isinstance(one, Run) else list(one) for name, one in runs.items()}
    latest = {name: [episode for run in found for episode in run.latest()] for name, found in several.items()}
    for name, episodes in latest.items():
        won = sum(episode.outcome == "success" for episode in episodes)
        played = sum(episode.outcome != "error" for episode in episodes)
        interval = wilson(won, played)
        row: dict[str, Any] = {"condition": name, "won": won, "games": played}
        row |= {"success_rate": won / played if played else None, "low": interval.low, "high": interval.high}
        if name != baseline and baseline in latest:
            pairs = paired({0: latest[baseline]}, {0: episodes})
            gap = difference_interval(pairs)
            tests = mcnemar_by_replicate(pairs)
            row |= {
                "difference": pairs.difference,
                "diff_low": None if gap is None else gap.low,
                "diff_high": None if gap is None else gap.high,
                "p": tests[0].p if tests else None,
            }
        rows.append(row)
    return pd.DataFrame(rows).set_index("condition")
