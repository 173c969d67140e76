"""Trainings that are killed, stopped early, or whose files hold what they should not."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.runs import RunLock
from jitmem_lab.terminal import exit_code
from jitmem_lab.training import TrainConfig, TrainRun, attach, train
from jitmem_lab.training.commands import train_group
from jitmem_lab.training.figures import training_figure
from jitmem_lab.training.runs import list_trainings
from tests.unit.stub_server import StubServer
from tests.unit.test_views_train import write_training
from tests.unit.training import small_config

pytestmark = pytest.mark.unit
pytest.importorskip("trl")
pytest.importorskip("panel")

DEEP = '{"step": 1, "kind": "step", "state": ' + "[" * 100_000 + "]" * 100_000 + "}\n"
BROKEN: list[tuple[str, tuple[Any, ...], Any]] = [
    ("status.json", ("warnings",), 5),
    ("status.json", ("eta_seconds",), float("inf")),
    ("train.json", ("created",), "x"),
    ("train.json", ("request", "steps"), "x"),
    ("train.json", ("request", "top_p"), "x"),
    ("metrics.jsonl", ("step",), "1"),
    ("metrics.jsonl", ("won",), "x"),
    ("metrics.jsonl", ("won",), 9),
    ("metrics.jsonl", ("seconds",), 10**400),
    ("metrics.jsonl", ("kind",), []),
    ("rollouts.jsonl", ("advantage",), "x"),
    ("rollouts.jsonl", ("actions",), 5),
    ("rollouts.jsonl", ("step",), float("inf")),
    ("prompts.jsonl", ("task",), 5),
    ("prompts.jsonl", ("recall", "traces"), 5),
    ("prompts.jsonl", ("recall", "traces", 0), 5),
    ("status.json", (), DEEP),
    ("curator/chosen.json", (), DEEP),
    ("metrics.jsonl", (), DEEP),
]


@pytest.mark.parametrize(("name", "place", "value"), BROKEN)
def test_what_a_file_should_not_hold_breaks_neither_page_nor_summary(
    name: str, place: tuple[Any, ...], value: Any, tmp_path: Path
) -> None:
    from jitmem_lab.views import TrainView

    run = write_training(tmp_path / "run", steps=1)
    file = run.path / name
    file.parent.mkdir(exist_ok=True)
    if place:
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        into = lines[0]
        for part in place[:-1]:
            into = into[part]
        into[place[-1]] = value
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        file.write_text(value)
    (found,) = list_trainings(tmp_path)
    assert found.summary()["state"] in ("completed", "new")
    training_figure(found)
    view = TrainView(run.path)
    view.tick()
    assert "choose" not in view._note.object
    if name in ("metrics.jsonl", "rollouts.jsonl") and place != ("seconds",):
        assert "could not be read" in view._standing.object


def test_a_chosen_step_and_a_rank_are_text_on_the_page(tmp_path: Path) -> None:
    from jitmem_lab.views import TrainView

    run = write_training(tmp_path / "run", steps=1)
    (run.path / "curator").mkdir()
    (run.path / "curator" / "chosen.json").write_text(json.dumps({"step": "<img src=x>"}))
    prompts = run.prompts()
    prompts[0]["recall"]["traces"][0]["rank"] = "<img src=x>"
    (run.path / "prompts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))
    view = TrainView(run.path)
    assert "<img" not in view._standing.object + view._cards.object
    assert "&lt;img" in view._standing.object
    assert "&lt;img" in view._cards.object


def test_values_that_no_generator_of_numbers_takes_are_refused(curator: Path) -> None:
    for wrong in ({"seed": -1}, {"seed": 2**32}, {"preset": []}, {"learning_rate": float("nan")}):
        with pytest.raises(UserError):
            TrainConfig.make(**({"split": "train", "benchmark": "alfworld"} | wrong))


def test_a_training_killed_before_its_first_checkpoint_evaluates_once(
    server: StubServer, curator: Path, tmp_path: Path
) -> None:
    config = small_config(server.url, curator, steps=1, heldout="part")
    run = train(config, tmp_path / "run", progress=False)
    before = signal.getsignal(signal.SIGTERM)
    assert before == signal.SIG_DFL  # a program that has trained can be ended as before
    first = run.heldout().iloc[0].to_dict()
    for left in ("checkpoints", "curator", "heldout/step-0001"):
        shutil.rmtree(run.path / left)
    (run.path / "status.json").write_text('{"state": "running"}')
    again = train(config, run.path, progress=False)
    assert list(again.heldout()["step"]) == [0, 1]
    assert again.heldout().iloc[0].to_dict() == first
    assert len(again.rollouts()) == 8


def test_a_stop_while_it_loads_skips_nothing(
    server: StubServer, curator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jitmem_lab.training import prompting

    real = prompting.make_prompts

    def stopped(*parts: Any) -> Any:
        signal.raise_signal(signal.SIGTERM)
        return real(*parts)

    config = small_config(server.url, curator, steps=1, heldout="part")
    with monkeypatch.context() as patch:
        patch.setattr(prompting, "make_prompts", stopped)
        run = train(config, tmp_path / "run", progress=False)
    assert run.status()["state"] == "stopped"
    assert len(run.rollouts()) == 0
    assert list(train(config, run.path, progress=False).heldout()["step"]) == [0, 1]


def test_an_interrupted_training_says_from_where_it_goes_on(
    server: StubServer, curator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jitmem_lab.training.playing import Player

    play, played = Player.play, []

    def interrupted(self: Player, jobs: Any) -> Any:
        played.append(1)
        if len(played) in (2, 5):
            raise KeyboardInterrupt
        return play(self, jobs)

    monkeypatch.setattr(Player, "play", interrupted)
    config = small_config(server.url, curator, steps=4, save_every=2, updates=2, micro_batch=4)
    with pytest.raises(KeyboardInterrupt, match="no checkpoint yet: the same command begins again at step 0"):
        train(config, tmp_path / "run", progress=False)
    assert TrainRun(tmp_path / "run").summary()["checkpoint"] is None
    with pytest.raises(KeyboardInterrupt, match="the same command goes on from step 2"):
        train(config, tmp_path / "run", progress=False)
    summary = TrainRun(tmp_path / "run").summary()
    assert (summary["state"], summary["checkpoint"], summary["eta_seconds"]) == ("interrupted", 2, None)


def test_who_stops_watching_is_told_that_the_training_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jitmem_lab.training.step_bar import StepBar

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    run = write_training(tmp_path / "run")
    monkeypatch.setattr(StepBar, "show", interrupted)
    with pytest.raises(KeyboardInterrupt, match=r"training goes on, and `jitmem train stop .*run` ends it"):
        attach(run.path).watch()


def test_a_training_that_does_not_run_has_no_time_left(tmp_path: Path) -> None:
    run = write_training(tmp_path / "run", steps=1)
    status = {"state": "running", "eta_seconds": 60.0, "phase": "held-out evaluation"}
    (run.path / "status.json").write_text(json.dumps(status))
    (run.path / ".lock").touch()
    assert run.status() == {"state": "killed", "eta_seconds": None, "phase": None}
    with RunLock(run.path):
        assert TrainRun(run.path).summary()["eta_seconds"] == 60.0


def test_rewards_are_told_as_means_of_several_steps_in_percent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_training(tmp_path / "long", steps=9)  # rewards 0.1, 0.2, … 0.9
    summary = run.summary()
    assert summary["reward_steps"] == 6
    assert (summary["reward_first"], summary["reward_last"]) == pytest.approx((0.35, 0.65))
    assert exit_code(train_group, ["status", str(run.path)]) == 0
    told = capsys.readouterr().out
    for words in (
        r"reward \(mean of steps 1 to 6\) +35\.0 %",
        r"reward \(mean of steps 4 to 9\) +65\.0 %",
        r"heldout_first +12\.5 %",
        r"checkpoint +none yet: it would begin at step 0",
        r"! nothing was learnt",
    ):
        assert re.search(words, told), words
    assert "eta" not in told
    none = write_training(tmp_path / "none", steps=0).summary()
    assert (none["reward_first"], none["reward_last"], none["reward_steps"]) == (None, None, 0)
    assert exit_code(train_group, ["status", str(tmp_path / "none")]) == 0


def test_a_full_disk_is_told_in_a_sentence(
    server: StubServer, curator: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from jitmem_lab.training import prompting

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(prompting, "write_prompts", full)
    with pytest.raises(UserError, match=r"is full; make room"):
        train(small_config(server.url, curator), tmp_path / "run", progress=False)
    assert TrainRun(tmp_path / "run").status()["state"] == "failed"


def test_a_warning_outlives_a_resume(curator: Path, tmp_path: Path) -> None:
    import threading

    from jitmem_lab.training.watching import Watch

    lines = [{"kind": "step", "step": n, "zero_variance_share": 1.0} for n in range(1, 8)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_training(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "train.json", tmp_path / "train.json")
    config = small_config("http://127.0.0.1:9/v1", curator)
    watch = Watch(config, tmp_path, [], None, lambda folder: None, False, threading.Event())
    watch.go_on_from(6)
    (words,) = watch.status["warnings"]
    assert "steps 1 to 5" in words
    assert len(TrainRun(tmp_path).metrics()) == 6
