"""The official games, where their data are found: oracle, floors, memo patches on a sample.

`jitmem bench alfworld` does the same over every game.
"""

from collections import Counter

import pytest

from jitmem_lab import data
from jitmem_lab.benchmarks.alfworld.benchmark import Alfworld
from jitmem_lab.benchmarks.alfworld.check import check_split
from jitmem_lab.errors import UserError

pytestmark = pytest.mark.benchmarks
pytest.importorskip("alfworld")
pytest.importorskip("textworld")

COUNTS = {
    "train": (3553, (790, 308, 650, 459, 533, 813)),
    "valid_train": (200, (46, 19, 37, 25, 28, 45)),
    "valid_seen": (140, (35, 13, 27, 16, 25, 24)),
    "valid_unseen": (134, (24, 18, 31, 23, 21, 17)),
}


def needs(split: str) -> None:
    try:
        found = data.alfworld_splits(data.find("alfworld"))
    except UserError as error:
        pytest.skip(str(error))
    if split not in found:
        pytest.skip(f"ALFWorld's {split} data were not found: {data.advice('alfworld')}")


@pytest.mark.parametrize("split", ["valid_train", "valid_seen", "valid_unseen"])
def test_splits_have_the_published_counts(split):
    needs(split)
    with Alfworld(split) as bench:
        tasks = bench.tasks()
        counts = Counter(task.task_type for task in tasks)
        assert (len(tasks), tuple(counts.values())) == (COUNTS[split][0], _sorted(counts, COUNTS[split][1]))
        assert len({task.task_id for task in tasks}) == len(tasks)


def _sorted(counts, published):
    from jitmem_lab.benchmarks.alfworld.catalogue import TASK_TYPES

    by_type = dict(zip(TASK_TYPES, published, strict=True))
    return tuple(by_type[kind] for kind in counts)


@pytest.mark.parametrize("split", ["valid_seen", "valid_unseen"])
def test_oracle_wins_and_floors_lose_and_memo_shows_the_same(split):
    needs(split)
    row = check_split(split, workers=2, limit=20, memo_limit=3)
    assert row["oracle"] == 1.0, row["oracle_failed"]
    assert row["noop"] == 0.0
    assert row["memo_equal"] == row["memo_games"] == 3, row["memo_differ"]


def test_demonstrations_come_from_the_real_train_split():
    needs("train")
    with Alfworld("valid_seen", workers=2) as bench:
        tasks = bench.split_tasks("train")
        assert (len(tasks), tuple(Counter(task.task_type for task in tasks).values())) == (
            COUNTS["train"][0],
            _sorted(Counter(task.task_type for task in tasks), COUNTS["train"][1]),
        )
        demos = bench.demonstrations(2, seed=3)
    assert [demo.task.split for demo in demos] == ["train", "train"]
    assert all(demo.outcome == "success" for demo in demos)
