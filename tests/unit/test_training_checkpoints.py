"""What a training goes on from, what it refuses to keep, and what no second one may write."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.files import write_json
from jitmem_lab.runs import RunLock
from jitmem_lab.terminal import exit_code
from jitmem_lab.training import TrainRun, attach, launch, train
from jitmem_lab.training.checkpoints import last_checkpoint, refuse_infinite
from jitmem_lab.training.commands import train_group
from jitmem_lab.training.main import disk_full, prepare
from tests.unit.panels import follow, know
from tests.unit.stub_server import EMPTY_CHOICE, StubServer, stub_server, thinking
from tests.unit.training import small_config

pytestmark = pytest.mark.unit
pytest.importorskip("trl")


@pytest.fixture(scope="module")
def done(server: StubServer, curator: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainRun:
    config = small_config(server.url, curator, keep=None)
    return train(config, tmp_path_factory.mktemp("trained") / "run", progress=False)


def stopped_after_two(done: TrainRun, folder: Path) -> Path:
    """The training as a kill in its third step would have left it."""
    shutil.copytree(done.path, folder)
    shutil.rmtree(folder / "checkpoints" / "checkpoint-3")
    shutil.rmtree(folder / "curator")
    write_json(folder / "status.json", TrainRun(folder).status() | {"state": "killed", "step": 2})
    return folder


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def without(pattern: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        for file in folder.glob(pattern):
            file.unlink()

    return remove


DAMAGES: dict[str, Callable[[Path], None]] = {
    "torn weights": cut("model.safetensors"),
    "no weights": without("*.safetensors"),
    "no optimiser": without("optimizer*"),
    "no random state": without("rng_state*"),
    "an empty optimiser": lambda folder: os.truncate(next(folder.glob("optimizer*")), 0),
    "a state of another kind": lambda folder: (folder / "trainer_state.json").write_text("[]") and None,
    "a torn state": cut("trainer_state.json"),
    "no state": without("trainer_state.json"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_passed_over(done: TrainRun, tmp_path: Path, damage: str) -> None:
    checkpoints = stopped_after_two(done, tmp_path / "run") / "checkpoints"
    DAMAGES[damage](checkpoints / "checkpoint-2")
    found = last_checkpoint(checkpoints)
    assert found is not None
    assert found.name == "checkpoint-1"
    kept = (checkpoints / "checkpoint-2").exists()
    assert kept == (damage not in ("a torn state", "no state")), "only what a kill tore is removed"


def test_it_goes_on_from_the_one_before_as_if_undisturbed(done: TrainRun, tmp_path: Path) -> None:
    folder = stopped_after_two(done, tmp_path / "run")
    DAMAGES["torn weights"](folder / "checkpoints" / "checkpoint-2")
    again = train(done.config, folder, progress=False)
    assert again.status()["state"] == "completed"
    played = [[one | {"seconds": None} for one in run.rollouts()] for run in (again, done)]
    assert played[0] == played[1]


def test_none_that_is_whole_begins_anew(tmp_path: Path) -> None:
    assert last_checkpoint(tmp_path) is None
    (tmp_path / "checkpoint-x").mkdir()
    (tmp_path / "checkpoint-4").mkdir()
    assert last_checkpoint(tmp_path) is None


# What diverges


@pytest.mark.parametrize("name", ["learning_rate", "beta", "temperature", "clip", "weight_decay", "timeout"])
@pytest.mark.parametrize("value", [float("inf"), float("nan")])
def test_what_is_not_finite_is_refused(curator: Path, name: str, value: float) -> None:
    with pytest.raises(UserError, match=f"{name}="):
        small_config("http://127.0.0.1:9/v1", curator, **{name: value})


def test_a_training_that_diverges_says_so_and_keeps_no_curator(curator: Path, tmp_path: Path) -> None:
    def some(body: dict[str, Any]) -> str:
        """Payloads of a task differ in what they are worth, so that there is something to learn."""
        advice = body["messages"][-1]["content"].partition("Steps to do it:")[2].partition("\n\n")[0]
        return know(body) if sum(map(ord, advice)) % 2 else "<action>press nothing</action>"

    with stub_server(thinking(some)) as server:
        config = small_config(server.url, curator, learning_rate=1e30)
        with pytest.raises(UserError, match=r"the training diverged.*lower learning_rate"):
            train(config, tmp_path / "run", progress=False)
    run = TrainRun(tmp_path / "run")
    assert run.status()["state"] == "failed"
    assert not (run.path / "curator").exists()


def test_weights_that_are_not_finite_are_not_saved() -> None:
    import torch

    layer = torch.nn.Linear(2, 2)
    refuse_infinite(layer, 3)
    with torch.no_grad():
        layer.bias[0] = float("nan")
    with pytest.raises(UserError, match="after step 3 bias is not finite"):
        refuse_infinite(layer, 3)


@pytest.mark.parametrize(
    ("error", "full"),
    [
        (OSError(28, "No space left on device"), True),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), True),
        (OSError(13, "Permission denied"), False),
        (ValueError("no such thing"), False),
    ],
)
def test_a_full_disk_is_known_whatever_library_tells_of_it(error: Exception, full: bool) -> None:
    assert disk_full(error) is full


# Two at once


def test_a_second_training_writes_nothing_where_one_begins(
    server: StubServer, curator: Path, tmp_path: Path
) -> None:
    (tmp_path / "run").mkdir()
    with RunLock(tmp_path / "run"), pytest.raises(UserError, match="another process is writing"):
        prepare(small_config(server.url, curator), tmp_path / "run")
    assert not (tmp_path / "run" / "train.json").exists()
    prepare(small_config(server.url, curator), tmp_path / "run")
    before = (tmp_path / "run" / "train.json").read_bytes()
    with pytest.raises(UserError, match="training of other settings"):
        prepare(small_config(server.url, curator, learning_rate=5e-3), tmp_path / "run")
    assert (tmp_path / "run" / "train.json").read_bytes() == before


def test_what_changes_no_result_is_taken_from_the_newest_call(curator: Path, tmp_path: Path) -> None:
    """A job reads its config from the folder, so that a new number of episodes at once has to get there."""
    prepare(small_config("http://127.0.0.1:9/v1", curator), tmp_path / "run")
    about = TrainRun(tmp_path / "run").about
    write_json(tmp_path / "run" / "status.json", {"state": "failed"})
    prepare(small_config("http://127.0.0.1:9/v1", curator, concurrency=9), tmp_path / "run")
    run = TrainRun(tmp_path / "run")
    assert run.config.concurrency == 9
    assert run.about == about | {"request": run.request}
    write_json(tmp_path / "run" / "status.json", {"state": "completed"})
    prepare(small_config("http://127.0.0.1:9/v1", curator, concurrency=2), tmp_path / "run")
    assert TrainRun(tmp_path / "run").config.concurrency == 9, "it says how it was carried out"


# Held-out tasks that can't be played


@pytest.mark.parametrize("lost", [1, 2])
def test_held_out_episodes_that_are_lost_are_played_again_or_told(
    curator: Path, tmp_path: Path, lost: int
) -> None:
    """One attempt fails: it is owed and played again. All fail: no checkpoint is judged by what is left."""
    refused: list[str] = []

    def brain(body: dict[str, Any]) -> Any:
        asked = json.dumps(body)
        if "panel 3" in asked and (lost == 2 or len(refused) < 4):
            refused.append(asked)
            return EMPTY_CHOICE
        return follow(body)

    with stub_server(thinking(brain)) as server:
        config = small_config(
            server.url, curator, steps=2, heldout="valid_train", heldout_games=8, heldout_every=2
        )
        if lost == 1:
            run = train(config, tmp_path / "run", progress=False)
            assert list(run.heldout()["games"]) == [8, 8]
        else:
            with pytest.raises(InfrastructureError, match="of 8 held-out episodes could not be played"):
                train(config, tmp_path / "run", progress=False)
            assert not (tmp_path / "run" / "metrics.jsonl").exists()
    assert refused


# Jobs


@pytest.mark.parametrize("pid", [-1, 0, 1, True, None, "12", 10**30, 4.5])
def test_stop_signals_no_process_that_is_not_the_trainings(
    done: TrainRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pid: Any
) -> None:
    folder = stopped_after_two(done, tmp_path / "run")
    write_json(folder / "status.json", TrainRun(folder).status() | {"state": "running", "pid": pid})
    real, sent = os.kill, []

    def kill(to: int, signal: int) -> None:
        sent.append(to)
        if to > 10**9:
            real(to, signal)

    monkeypatch.setattr(os, "kill", kill)
    with RunLock(folder), pytest.raises(UserError, match="does not say yet which process"):
        attach(folder).stop()
    assert [to for to in sent if to < 10**9] == []


def test_a_training_inside_another_program_is_not_stopped_from_outside(
    done: TrainRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = stopped_after_two(done, tmp_path / "run")
    write_json(folder / "status.json", TrainRun(folder).status() | {"state": "running", "stoppable": False})
    monkeypatch.setattr(os, "kill", lambda *_: pytest.fail("it was signalled"))
    with RunLock(folder), pytest.raises(UserError, match="inside another program"):
        attach(folder).stop()


@pytest.mark.parametrize(
    ("launcher", "says"),
    [
        (["no-such-program-anywhere", "-x"], "'no-such-program-anywhere' cannot be started"),
        ([str(Path(sys.executable).parent)], "cannot be started"),
    ],
)
def test_a_launcher_that_is_none_is_one_sentence(
    curator: Path, tmp_path: Path, launcher: list[str], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        launch(small_config("http://127.0.0.1:9/v1", curator), tmp_path / "run", launcher=launcher)


def test_a_launcher_that_starts_nothing_is_told(curator: Path, tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="the training ended at once"):
        launch(small_config("http://127.0.0.1:9/v1", curator), tmp_path / "run", launcher=["true"])


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "steps", "[" * 100_000],
        ["-o", "x" * 300, "-p", "steps", "1"],
        ["--launcher", "'x"],
        ["-p", "vllm", "colocate"],
        ["status", "x" * 300],
        ["recipes", "zzz"],
    ],
    ids=["deep", "long name", "quote", "no vllm", "long name to read", "recipe"],
)
def test_the_command_line_answers_in_one_sentence(
    words: list[str], curator: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    given = []
    if words[0] not in ("status", "recipes"):
        made = small_config("http://127.0.0.1:9/v1", curator).model_dump(exclude_unset=True)
        (tmp_path / "base.json").write_text(json.dumps(made))
        given = ["--config", str(tmp_path / "base.json")]
        if "-o" not in words:
            given += ["-o", str(tmp_path / "run")]
    code = exit_code(train_group, [*given, *words])
    said = capsys.readouterr().err
    assert code == 2
    assert said.startswith("error: ")
    assert len(said) < 700
    assert "  " not in said.strip()
