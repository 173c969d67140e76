"""What several trainings were worth, each and together: `jitmem train results RUN…`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import UserError
from ..terminal import table

if TYPE_CHECKING:
    from ..records import Episode
    from ..runs import Run
    from .runs import TrainRun

TOGETHER = "together"
"""The name of all splits taken together."""


class Evaluated(NamedTuple):
    """One training's two conditions on the same tasks in the same order."""

    run: str
    """The training, as it is told from the others."""
    order: int
    """Seed of the tasks' order."""
    baseline: dict[str, list[Episode]]
    """Episodes of the condition compared with, by split."""
    other: dict[str, list[Episode]]
    """Episodes of the condition asked about, of the same splits."""


def pooled_results(
    paths: Sequence[str | Path], *, condition: str = "trained", baseline: str = "untrained"
) -> dict[str, Any]:
    """Compare two conditions of `evaluate_trained` over several trainings, from the runs in their folders.

    Args:
        paths: The trainings' directories.
        condition: The condition asked about, one of `evaluating.CONDITIONS`.
        baseline: The one that it is compared with, on the same tasks.

    Returns:
        `baseline` and `condition`; `runs`, one row a training and split: games (pairs with two results),
        won_baseline, won, difference (of the success rates, -1 to 1), p (McNemar's exact test); `pooled`, one
        row a split: trainings, games, difference (mean of the trainings'), low and high (95 %, bootstrap
        over trainings and tasks); `notes`, what has to be told with them. Where there are several splits,
        both also have a row of all of them, `TOGETHER`.

    Raises:
        UserError: An unknown condition, a training that is given twice, or one that was not evaluated so.
    """
    from .evaluating import CONDITIONS
    from .runs import TrainRun

    for name in (condition, baseline):
        if name not in CONDITIONS:
            raise UserError(f"there is no condition {name!r}; there are {', '.join(CONDITIONS)}")
    if condition == baseline:
        raise UserError(f"{condition} would be compared with itself; choose another baseline")
    trainings = [TrainRun(path) for path in paths]
    if len({training.path.resolve() for training in trainings}) < len(trainings):
        raise UserError("the same training is given twice, which would make its gain look surer than it is")
    notes: list[str] = []
    found = [
        one
        for training, name in zip(trainings, _names(trainings), strict=True)
        for one in _evaluated(training, name, baseline, condition, notes)
    ]
    splits = list(dict.fromkeys(split for one in found for split in one.other))
    asked = splits if len(splits) == 1 else [*splits, TOGETHER]
    return {
        "baseline": baseline,
        "condition": condition,
        "runs": [row for one in found for split in asked for row in _row(one, split)],
        "pooled": [_pooled(found, split) for split in asked],
        "notes": [*dict.fromkeys(notes), *_cautions(trainings), *_gaps(found, splits)],
    }


def _names(trainings: Sequence[TrainRun]) -> list[str]:
    """Their folders' names, or their paths where two have the same."""
    names = [training.name for training in trainings]
    return names if len(set(names)) == len(names) else [str(training.path) for training in trainings]


def _evaluated(
    training: TrainRun, name: str, baseline: str, condition: str, notes: list[str]
) -> Iterator[Evaluated]:
    """What was played of both conditions, order by order; unfinished runs are noted."""
    runs = _runs(training)
    orders = sorted({order for _, order, _ in runs})
    splits = list(dict.fromkeys(split for split, _, _ in runs))
    some = False
    for order in orders:
        both = [
            split for split in splits if {(split, order, baseline), (split, order, condition)} <= set(runs)
        ]
        for key in [(split, order, which) for split in both for which in (baseline, condition)]:
            state = runs[key].status().get("state")
            if state != "completed":
                notes.append(f"{runs[key].path} is {state}: only what it has played counts")
        if both:
            some = True
            a, b = (
                {split: runs[split, order, which].latest() for split in both}
                for which in (baseline, condition)
            )
            yield Evaluated(name, order, a, b)
    if not some:
        raise UserError(
            f"{training.path} has no evaluation of both {baseline} and {condition}; play one with "
            f"jitmem_lab.training.evaluating.evaluate_trained({str(training.path)!r}, split=SPLIT), or in "
            "notebook 31_train_curator"
        )


def _runs(training: TrainRun) -> dict[tuple[str, int, str], Run]:
    """A training's evaluations, as `evaluate_trained` lays them out, by split, order and condition."""
    from ..runs import Run

    found = {}
    for file in sorted(training.path.glob("eval-*/*/config.json")):
        match = re.fullmatch(r"(.+)-(\d+)", file.parent.name)
        if match:
            run = Run(file.parent)
            split = str(run.settings.get("benchmark", {}).get("split"))
            found[split, int(match[2]), match[1]] = run
    return found


def _episodes(by_split: Mapping[str, list[Episode]], split: str) -> list[Episode]:
    if split != TOGETHER:
        return by_split.get(split, [])
    return [episode for episodes in by_split.values() for episode in episodes]


def _row(one: Evaluated, split: str) -> Iterator[dict[str, Any]]:
    """The row of one training and split; none where it was not played."""
    from ..statistics import mcnemar_by_replicate, paired

    pairs = paired({0: _episodes(one.baseline, split)}, {0: _episodes(one.other, split)})
    if pairs.number:
        yield {
            "run": one.run,
            "order": one.order,
            "split": split,
            "games": pairs.number,
            "won_baseline": int((pairs.a > 0).sum()),
            "won": int((pairs.b > 0).sum()),
            "difference": pairs.difference,
            "p": mcnemar_by_replicate(pairs)[0].p,
            "left_out": pairs.errors + pairs.unmatched,
        }


def _pooled(found: Sequence[Evaluated], split: str) -> dict[str, Any]:
    import numpy as np

    from ..statistics import difference_interval, paired

    pairs = paired(
        {n: _episodes(one.baseline, split) for n, one in enumerate(found)},
        {n: _episodes(one.other, split) for n, one in enumerate(found)},
    )
    interval = difference_interval(pairs) if pairs.number else None
    played = {one.run for one, row in zip(found, np.isfinite(pairs.a), strict=True) if row.any()}
    return {
        "split": split,
        "trainings": len(played),
        "games": pairs.number,
        "difference": pairs.difference,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
    }


def _cautions(trainings: Sequence[TrainRun]) -> list[str]:
    """What has to be told of the trainings themselves, and in what they differ but for the seed."""
    from .config import OPERATIONAL

    told = list(dict.fromkeys(words for training in trainings for words in training.cautions()))
    apart = set()
    for training in trainings[1:]:
        a, b = trainings[0].request, training.request
        apart |= {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}
    apart -= OPERATIONAL | {"seed"}
    if apart:
        told.append(f"the trainings differ in more than their seed: {', '.join(sorted(apart))}")
    if len(trainings) == 1:
        told.append("one training: the interval is over tasks only, another seed may gain more or less")
    return told


def _gaps(found: Sequence[Evaluated], splits: Sequence[str]) -> list[str]:
    """Splits that some trainings were not evaluated on."""
    told = []
    for split in splits:
        names = [one.run for one in found if split not in one.other]
        if names:
            told.append(f"not evaluated on {split}: {', '.join(dict.fromkeys(names))}")
    return told


def shown_results(result: dict[str, Any]) -> str:
    """The results as text: a table of trainings, one of them together, and the notes."""
    several = len({row["order"] for row in result["runs"]}) > 1
    lost = any(row["left_out"] for row in result["runs"])
    runs = []
    for row in result["runs"]:
        line = {"training": row["run"]} | ({"order": row["order"]} if several else {})
        line |= {"split": row["split"], "games": row["games"], result["baseline"]: row["won_baseline"]}
        line |= {result["condition"]: row["won"], "points": f"{100 * row['difference']:+.1f}"}
        runs.append(line | {"p": f"{row['p']:.2g}"} | ({"left out": row["left_out"]} if lost else {}))
    pooled = []
    for row in result["pooled"]:
        line = {"mean of": row["trainings"], "split": row["split"], "pairs": row["games"]}
        gain = "" if row["difference"] is None else f"{100 * row['difference']:+.1f}"
        ends = "" if row["low"] is None else f"{100 * row['low']:.1f} to {100 * row['high']:.1f}"
        pooled.append(line | {"points": gain, "95 %": ends})
    parts = [
        table(runs, "none"),
        "",
        table(pooled, "none"),
        "",
        "p: McNemar's exact test; 95 %: bootstrap over trainings and tasks",
    ]
    return "\n".join([*parts, *(f"note: {words}" for words in result["notes"])])
