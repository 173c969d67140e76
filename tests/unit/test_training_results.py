"""What several trainings were worth together: against the figures of the functions that it pools with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.records import Episode, Task, Trajectory
from jitmem_lab.statistics import difference_interval, mcnemar, paired
from jitmem_lab.terminal import exit_code
from jitmem_lab.training.commands import train_group
from jitmem_lab.training.results import TOGETHER, pooled_results

pytestmark = pytest.mark.unit

SEEN = {0: ("llllllwwll", "wwwwwwwlll"), 1: ("lwlwlwlwll", "wwwwlwwwll")}
"""What each training's untrained and trained curators did on a split: w won, l lost, e error."""
UNSEEN = {0: ("llllwl", "wwllwl"), 1: ("wllllw", "wlwwle")}


def episodes(split: str, outcomes: str) -> list[Episode]:
    found = []
    for n, letter in enumerate(outcomes):
        ended: Any = {"w": "success", "l": "failure", "e": "error"}[letter]
        task = Task(benchmark="b", split=split, task_id=f"{n}", description=f"do {n}")
        done = None if letter == "e" else Trajectory(task=task, outcome=ended, reward=float(letter == "w"))
        found.append(Episode(key=f"{n}", position=n, batch=0, task=task, outcome=ended, trajectory=done))
    return found


def evaluated(training: Path, split: str, condition: str, outcomes: str, state: str = "completed") -> None:
    run = training / f"eval-{split}" / f"{condition}-0"
    run.mkdir(parents=True)
    settings = {"benchmark": {"name": "b", "split": split}}
    (run / "config.json").write_text(json.dumps({"schema_version": 1, "settings": settings}))
    (run / "status.json").write_text(json.dumps({"state": state}))
    lines = [episode.to_line() + "\n" for episode in episodes(split, outcomes)]
    (run / "episodes.jsonl").write_text("".join(lines))


def training(path: Path, **request: Any) -> Path:
    path.mkdir(parents=True)
    asked = {"preset": "paper", "bank": "runs/bank", "concurrency": 4} | request
    about = {"schema_version": 1, "created": 1.0, "settings": {}, "request": asked}
    (path / "train.json").write_text(json.dumps(about))
    return path


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """Two trainings on two splits; the second lost an episode to an error."""
    made = [training(tmp_path / f"seed-{seed}", seed=seed, concurrency=seed + 1) for seed in (0, 1)]
    for seed, path in enumerate(made):
        for split, outcomes in (("seen", SEEN), ("unseen", UNSEEN)):
            for condition, played in zip(("untrained", "trained"), outcomes[seed], strict=True):
                evaluated(path, split, condition, played)
    return made


def test_each_trainings_wins_and_their_mean_gain(two: list[Path]) -> None:
    found = pooled_results(two)
    rows = {(row["run"], row["split"]): row for row in found["runs"]}
    assert list(rows) == [(f"seed-{n}", split) for n in (0, 1) for split in ("seen", "unseen", TOGETHER)]
    first = rows["seed-0", "seen"]
    assert (first["games"], first["won_baseline"], first["won"]) == (10, 2, 7)
    assert first["difference"] == pytest.approx(0.5)
    assert first["p"] == mcnemar(1, 6).p
    second = rows["seed-1", TOGETHER]
    assert (second["games"], second["won_baseline"], second["won"], second["left_out"]) == (15, 5, 10, 1)

    pooled = {row["split"]: row for row in found["pooled"]}
    streams = [
        {n: episodes("seen", SEEN[n][side]) + episodes("unseen", UNSEEN[n][side]) for n in (0, 1)}
        for side in (0, 1)
    ]
    pairs = paired(*streams)
    assert pooled[TOGETHER]["difference"] == pairs.difference
    assert (pooled[TOGETHER]["low"], pooled[TOGETHER]["high"]) == difference_interval(pairs)
    assert (pooled[TOGETHER]["trainings"], pooled[TOGETHER]["games"]) == (2, 31)
    assert found["notes"] == [], "the seed and how it was carried out are no difference"


def test_the_command_shows_and_gives_the_same(two: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["results", *map(str, two)]
    assert exit_code(train_group, words) == 0
    shown = capsys.readouterr().out
    assert "seed-0    seen      10     2          7        +50.0   0.12" in shown
    assert "left out" in shown
    assert exit_code(train_group, [*words, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == pooled_results(two)
    turned = [*words, "--condition", "untrained", "--baseline", "trained", "--json"]
    assert exit_code(train_group, turned) == 0
    assert json.loads(capsys.readouterr().out)["pooled"][0]["difference"] < 0


def test_one_split_has_no_row_of_all_and_one_training_says_so(tmp_path: Path) -> None:
    path = training(tmp_path / "run")
    evaluated(path, "seen", "untrained", SEEN[0][0])
    evaluated(path, "seen", "trained", SEEN[0][1][:8], state="failed")
    found = pooled_results([path])
    assert [row["split"] for row in found["runs"]] == ["seen"]
    assert found["runs"][0]["left_out"] == 2
    assert len(found["pooled"]) == 1
    assert any("trained-0 is failed" in words for words in found["notes"])
    assert any("over tasks only" in words for words in found["notes"])


def test_trainings_that_differ_are_told(two: list[Path], tmp_path: Path) -> None:
    third = training(tmp_path / "other" / "seed-0", seed=0, steps=7)
    for condition, played in zip(("untrained", "trained"), SEEN[0], strict=True):
        evaluated(third, "seen", condition, played)
    found = pooled_results([*two, third])
    assert {row["run"] for row in found["runs"]} == {*map(str, two), str(third)}
    assert any("more than their seed: steps" in words for words in found["notes"])
    assert any(words == f"not evaluated on unseen: {third}" for words in found["notes"])
    assert [row["trainings"] for row in found["pooled"]] == [3, 2, 3]


def test_what_cannot_be_pooled_is_refused(two: list[Path], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="given twice"):
        pooled_results([two[0], two[0].parent / "seed-1" / ".." / "seed-0"])
    with pytest.raises(UserError, match="no evaluation of both untrained and trained-empty"):
        pooled_results(two, condition="trained-empty")
    with pytest.raises(UserError, match="there is no condition 'best'"):
        pooled_results(two, condition="best")
    with pytest.raises(UserError, match="compared with itself"):
        pooled_results(two, condition="untrained")
    with pytest.raises(UserError, match="holds no training"):
        pooled_results([tmp_path])
