"""The notebooks of a training, top to bottom, in a small world with a real trainer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jitmem_lab.notebooks import read_status, run_notebook
from jitmem_lab.training import TrainRun
from tests.unit.panels import follow
from tests.unit.stub_server import StubServer, stub_server, thinking
from tests.unit.tiny_models import tiny_model
from tests.unit.training import WORLD, small_config

pytestmark = pytest.mark.notebooks
pytest.importorskip("trl")


@pytest.fixture(scope="module")
def server() -> Iterator[StubServer]:
    with stub_server(thinking(follow)) as made:
        yield made


def test_a_bank_is_played_and_a_curator_trained_on_it(server: StubServer, tmp_path: Path) -> None:
    curator = tiny_model(tmp_path / "curator")
    config = small_config(server.url, curator)
    own = {"preset", "benchmark", "split", "bank", "seed", "curator", "executor", "steps"}
    asked = config.model_dump(exclude=own) | {"play": {"act": "write", "k": 1}}
    same = {"preset": "smol", "benchmark": WORLD, "split": "train", "executor": config.executor}

    lucky = small_config(server.url, curator).model_dump(exclude=own) | {
        "play": {"act": "choose", "k": 1, "max_steps": 2, "no_repeat": 1}
    }
    banked = run_notebook(
        "30_training_bank",
        {**same, "executor": f"hf:{curator}", "games": 12, "out": str(tmp_path / "bank"), "more": lucky},
        output=tmp_path / "30.ipynb",
        progress=False,
    )
    assert read_status(banked)["state"] == "completed"
    assert "trajectories in the bank, one a task" in banked.read_text()

    trained = run_notebook(
        "31_train_curator",
        {
            **same,
            "curator": f"hf:{curator}",
            "bank": str(tmp_path / "bank"),
            "steps": 2,
            "more": asked | {"heldout": "part", "bank_size": None},
            "test_split": "valid_seen",
            "games": 4,
            "conditions": ["none", "untrained", "untrained-empty", "trained", "trained-empty"],
            "out": str(tmp_path / "run"),
        },
        output=tmp_path / "31.ipynb",
        progress=False,
    )
    assert read_status(trained)["state"] == "completed"
    run = TrainRun(tmp_path / "run")
    assert run.status()["state"] == "completed"
    assert run.settings["bank"]["source"] == "runs"
    text = trained.read_text()
    assert len(text) < 3_000_000
    for words in ("success_rate", "advantage", "the trained curator: hf:", "Step 2"):
        assert words in text
    assert {path.name for path in (tmp_path / "run" / "eval-valid_seen").iterdir()} == {
        "none-0",
        "untrained-0",
        "untrained-empty-0",
        "trained-0",
        "trained-empty-0",
    }
    assert "'not evaluated'" not in text, "the output, which the source has between other quotes"
