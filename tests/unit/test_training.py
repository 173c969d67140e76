"""Whole trainings in a small world: files, resume, stops, errors, and what the loss covers."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.evaluation import evaluate
from jitmem_lab.runs import list_runs
from jitmem_lab.training import TrainRun, attach, launch, train
from jitmem_lab.training.checkpoints import last_checkpoint
from jitmem_lab.training.evaluating import evaluate_trained, gain_frame
from jitmem_lab.training.metrics import HELDOUT_METRICS, STEP_METRICS
from tests.unit.panels import follow, know
from tests.unit.stub_server import Say, StubServer, stub_server, thinking
from tests.unit.training import small_config

pytestmark = pytest.mark.unit
pytest.importorskip("trl")


@pytest.fixture(scope="module")
def done(server: StubServer, curator: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainRun:
    """A training of four steps with held-out games, undisturbed."""
    config = small_config(server.url, curator, steps=4, heldout="part", heldout_every=2)
    return train(config, tmp_path_factory.mktemp("trained") / "run", progress=False)


def played(run: TrainRun) -> list[tuple[Any, ...]]:
    return [(r["step"], r["task_id"], r["payload"], r["reward"], r["advantage"]) for r in run.rollouts()]


def soon(condition: Callable[[], bool], seconds: float = 120.0) -> bool:
    limit = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > limit:
            return False
        time.sleep(0.02)
    return True


def test_a_training_leaves_everything_that_it_did(done: TrainRun) -> None:
    assert done.status()["state"] == "completed"
    metrics = done.metrics()
    assert list(metrics["step"]) == [1, 2, 3, 4]
    for name in ("reward", "zero_variance_share", "clip_share", "ratio", "tokens", "turns", "gradient_norm"):
        assert metrics[name].notna().all(), name
    assert (metrics[["seconds_generate", "seconds_play", "seconds_update"]] > 0).all().all()
    assert list(done.heldout()["step"]) == [0, 2, 4]
    assert [run.status()["state"] for run in done.heldout_runs().values()] == ["completed"] * 3
    assert done.summary()["reward_last"] == pytest.approx(metrics["reward"].mean())  # fewer than six steps
    assert done.summary()["checkpoint"] == 4
    assert "eta_seconds" not in done.status() or done.status()["eta_seconds"] is None
    assert str(done.path) not in {row["path"] for row in list_runs(done.path.parent)}
    assert all(row["state"] != "broken" for row in list_runs(done.path.parent))


def test_every_figure_that_is_written_is_described(done: TrainRun) -> None:
    assert set(done.metrics().columns) <= set(STEP_METRICS)
    assert set(done.heldout().columns) <= set(HELDOUT_METRICS)
    assert "kl" not in done.metrics().columns  # beta is 0
    assert done.metrics()["learning_rate"][0] == 0  # the warm-up's first update
    assert done.metrics()["learning_rate"].iloc[-1] == done.config.learning_rate


def test_a_group_is_of_one_task_and_sees_no_trace_of_it(done: TrainRun) -> None:
    rollouts = done.rollouts()
    assert len(rollouts) == 4 * 8
    for step in range(1, 5):
        for group in range(2):
            mine = [r for r in rollouts if (r["step"], r["group"]) == (step, group)]
            assert len(mine) == 4
            assert len({r["task_id"] for r in mine}) == 1
            assert math.isclose(sum(r["advantage"] for r in mine), 0.0, abs_tol=1e-9)
    held = {task["task_id"] for run in done.heldout_runs().values() for task in _tasks(run)}
    assert held
    for prompt in done.prompts():
        traces = {trace["task_id"] for trace in prompt["recall"]["traces"]}
        assert traces
        assert not traces & ({prompt["task"]["task_id"]} | held)
        assert prompt["task"]["task_id"] not in held


def _tasks(run: Any) -> list[dict[str, Any]]:
    return [episode.task.model_dump() for episode in run.iter_episodes()]


def test_a_trained_curator_is_a_model_like_any_other(done: TrainRun, tmp_path: Path) -> None:
    chosen = done.chosen()
    assert chosen is not None
    assert chosen["step"] in (2, 4)
    assert chosen["on_test"] is False
    config = done.config.evaluation(split="valid_train", curator_model=done.curator, games=4, warm_start=8)
    run = evaluate(config, out=tmp_path / "run", progress=False)
    assert sum(run.summary()["outcomes"].values()) == 4


def test_the_same_settings_give_the_same_training_and_others_are_refused(
    done: TrainRun, server: StubServer, curator: Path, tmp_path: Path
) -> None:
    again = train(done.config, tmp_path / "again", progress=False)
    assert played(again) == played(done)
    asked = len(server.requests)
    assert train(done.config, done.path, progress=False).path == done.path
    assert len(server.requests) == asked
    with pytest.raises(UserError, match=r"training of other settings.*learning_rate"):
        train(small_config(server.url, curator, learning_rate=1e-3), done.path, progress=False)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").write_text("x")
    with pytest.raises(UserError, match="is not empty and holds no training"):
        train(done.config, tmp_path / "other", progress=False)


def test_what_was_trained_on_is_not_evaluated_on(done: TrainRun) -> None:
    with pytest.raises(UserError, match="train is what the curator was trained on"):
        evaluate_trained(done, split="train")
    with pytest.raises(UserError, match="no condition 'untraned'"):
        gain_frame({}, baseline="untraned")


def test_a_killed_training_goes_on_as_if_nothing_had_happened(done: TrainRun, tmp_path: Path) -> None:
    job = launch(done.config, tmp_path / "run")
    assert soon(lambda: len(job.run.rollouts(3)) > 0)
    os.kill(int(job.status()["pid"]), signal.SIGKILL)
    assert soon(lambda: not job.running)
    assert job.status()["state"] == "killed"
    last = last_checkpoint(job.path / "checkpoints")
    assert last is not None
    torn = last.parent / f"checkpoint-{int(last.name.rpartition('-')[2]) + 1}"
    torn.mkdir()
    (torn / "trainer_state.json").write_text('{"glo')
    with (job.path / "rollouts.jsonl").open("a") as file:
        file.write('{"step": 3, "torn')
    run = train(done.config, job.path, progress=False)
    assert played(run) == played(done)
    assert list(run.metrics()["reward"]) == list(done.metrics()["reward"])
    assert list(run.heldout()["won"]) == list(done.heldout()["won"])


def test_a_training_that_goes_through_its_tasks_again_goes_on_with_the_same_ones(
    server: StubServer, curator: Path, tmp_path: Path
) -> None:
    config = small_config(server.url, curator, steps=5, tasks=5)
    whole = train(config, tmp_path / "whole", progress=False)
    assert len({r["task_id"] for r in whole.rollouts()}) == 5
    for step in range(1, 6):
        assert len({r["task_id"] for r in whole.rollouts(step)}) == 2
    from jitmem_lab.training.playing import Player

    play, steps = Player.play, []

    def failing(self: Player, jobs: Any) -> Any:
        steps.append(1)
        if len(steps) == 5:
            raise InfrastructureError("gone")
        return play(self, jobs)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Player, "play", failing)
        with pytest.raises(InfrastructureError, match="gone"):
            train(config, tmp_path / "run", progress=False)
    assert played(train(config, tmp_path / "run", progress=False)) == played(whole)


def test_a_trained_adapter_is_trained_on(server: StubServer, curator: Path, tmp_path: Path) -> None:
    first = train(
        small_config(server.url, curator, steps=3, lora=4, learning_rate=0.1), tmp_path / "1", progress=False
    )
    config = small_config(server.url, curator, steps=1, lora=4)
    second = train(config.model_copy(update={"curator": first.curator}), tmp_path / "2", progress=False)
    fresh = train(config, tmp_path / "3", progress=False)
    assert [r["task_id"] for r in second.rollouts()] == [r["task_id"] for r in fresh.rollouts()]
    assert [r["payload"] for r in second.rollouts()] != [r["payload"] for r in fresh.rollouts()]


def test_a_payload_ends_with_its_stop_text() -> None:
    from jitmem_lab.training.trainer import end_of

    class Letters:
        @staticmethod
        def decode(ids: list[int]) -> str:
            return "".join(map(chr, ids))

    ids = [ord(letter) for letter in "1. go\n\nTask: and so on"]
    assert end_of(Letters, ids, ("\n\n",)) == 7
    assert end_of(Letters, ids[:6], ("\n\n",)) == 6
    assert end_of(Letters, ids, ()) == len(ids)
    assert end_of(Letters, ids, ("x", "on")) == len(ids)


def test_a_job_is_found_again_stopped_and_resumed(server: StubServer, curator: Path, tmp_path: Path) -> None:
    config = small_config(server.url, curator, steps=400, save_every=100)
    job = launch(config, tmp_path / "run")
    assert launch(config, tmp_path / "run").status()["pid"] == job.status()["pid"]
    with pytest.raises(UserError, match="another process is writing"):
        train(config, job.path, progress=False)
    found = attach(job.path)
    assert soon(lambda: len(found.run.metrics()) > 2)
    status = found.stop()
    assert status["state"] == "stopped"
    steps = len(found.run.metrics())
    assert last_checkpoint(job.path / "checkpoints").name == f"checkpoint-{steps}"  # type: ignore[union-attr]
    before = found.status()["pid"]
    again = found.resume()
    try:
        assert again.status()["pid"] != before, "stop would reach the process that is gone"
        assert soon(lambda: len(found.run.metrics()) > steps)
        assert list(found.run.metrics()["step"])[: steps + 1] == list(range(1, steps + 2))
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(again.status()["pid"]), signal.SIGKILL)


def test_two_processes_share_a_batch(server: StubServer, curator: Path, tmp_path: Path) -> None:
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--standalone"]
    config = small_config(server.url, curator, steps=2, micro_batch=4)
    run = launch(config, tmp_path / "run", launcher=launcher).watch()
    assert run.status()["state"] == "completed"
    rollouts = run.rollouts()
    assert len(rollouts) == 2 * 8
    for step in (1, 2):
        tasks = [{r["task_id"] for r in rollouts if (r["step"], r["group"]) == (step, g)} for g in (0, 1)]
        assert [len(one) for one in tasks] == [1, 1]
        assert tasks[0] != tasks[1]
        rewards = [r["reward"] for r in rollouts if r["step"] == step]
        row = run.metrics().iloc[step - 1]
        assert row["reward"] == pytest.approx(sum(rewards) / 8)
        whole = [r for r in rollouts if r["step"] == step]
        assert row["episodes"] == sum(not r["shared"] for r in whole)
        assert row["turns"] == pytest.approx(sum(len(r["actions"]) for r in whole) / 8)
        assert row["distinct_share"] == len({(r["prompt"], r["payload"]) for r in whole}) / 8
    assert run.chosen()["step"] == 2  # type: ignore[index]


def test_a_job_that_cannot_begin_says_why(curator: Path, tmp_path: Path) -> None:
    config = small_config("http://127.0.0.1:9/v1", tmp_path / "missing")
    job = launch(config, tmp_path / "run")
    assert soon(lambda: not job.running)
    assert job.status()["state"] == "failed"
    assert "cannot load the curator" in job.status()["error"]
    assert "cannot load the curator" in job.log_tail()


def test_an_executor_that_dies_is_named_within_a_minute_and_training_goes_on_later(
    done: TrainRun, curator: Path, tmp_path: Path
) -> None:
    dead = []

    def mortal(body: dict[str, Any]) -> Any:
        return Say(status=503, text="going down") if dead else follow(body)

    with stub_server(thinking(mortal)) as server:
        config = small_config(server.url, curator, steps=4)

        def die(*_: Any) -> Any:
            dead.append(1)

        from jitmem_lab.training.watching import Watch

        record = Watch.record

        def recording(self: Any, update: int, rollouts: Any, seconds: float) -> None:
            record(self, update, rollouts, seconds)
            if update == 1:
                die()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Watch, "record", recording)
            begun = time.monotonic()
            with pytest.raises(InfrastructureError, match=str(server.port)):
                train(config, tmp_path / "run", progress=False)
        assert time.monotonic() - begun < 60
        run = TrainRun(tmp_path / "run")
        assert run.status()["state"] == "failed"
        assert str(server.port) in run.status()["error"]
        assert last_checkpoint(run.path / "checkpoints") is not None
        assert {r["step"] for r in run.rollouts()} == {1, 2}
        dead.clear()
        train(config, run.path, progress=False)
    assert [(r["step"], r["task_id"], r["payload"]) for r in run.rollouts()][:16] == [
        row[:3] for row in played(done)
    ][:16]
    assert {r["step"] for r in run.rollouts()} == {1, 2, 3, 4}
    assert run.status()["state"] == "completed"


@pytest.mark.parametrize("share", [8, 2])
def test_some_or_half_of_the_episodes_may_fail(share: int, curator: Path, tmp_path: Path) -> None:
    def flaky(body: dict[str, Any]) -> Any:
        advice = body["messages"][-1]["content"].partition("Steps to do it:")[2].partition("\n\n")[0]
        return (
            Say(status=503, text="busy", headers={"retry-after": "0"})
            if sum(map(ord, advice)) % share == 0
            else follow(body)
        )

    with stub_server(thinking(flaky)) as server:
        run = train(small_config(server.url, curator, steps=3), tmp_path / "run", progress=False)
    rollouts = run.rollouts()
    errors = [r for r in rollouts if r["outcome"] == "error"]
    assert errors
    assert all(r["reward"] is None and r["advantage"] == 0 and r["error"] for r in errors)
    assert run.metrics()["unscored"].sum() == len(errors)
    assert run.metrics()["gradient_norm"].map(math.isfinite).all()


def test_rewards_that_never_differ_teach_nothing_and_there_is_a_warning(
    curator: Path, tmp_path: Path
) -> None:
    with stub_server(Say("<action>press nothing</action>")) as server:
        run = train(small_config(server.url, curator, steps=6), tmp_path / "run", progress=False)
    assert (run.metrics()["zero_variance_share"] == 1).all()
    assert {r["advantage"] for r in run.rollouts()} == {0.0}
    assert (run.metrics()["gradient_norm"] == 0).all()
    (warning,) = run.status()["warnings"]
    assert "nothing was learnt" in warning
    import torch
    from transformers import AutoModelForCausalLM

    before = AutoModelForCausalLM.from_pretrained(curator).state_dict()
    after = AutoModelForCausalLM.from_pretrained(run.path / "curator").state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_one_payload_at_a_time_gives_what_eight_at_once_give(
    server: StubServer, curator: Path, tmp_path: Path
) -> None:
    whole = train(small_config(server.url, curator, steps=1, micro_batch=8), tmp_path / "8", progress=False)
    single = train(small_config(server.url, curator, steps=1, micro_batch=1), tmp_path / "1", progress=False)
    assert played(whole) == played(single)
    assert whole.metrics()["gradient_norm"][0] == pytest.approx(
        single.metrics()["gradient_norm"][0], rel=1e-4
    )
    import torch
    from transformers import AutoModelForCausalLM

    weights = [
        AutoModelForCausalLM.from_pretrained(run.path / "curator").state_dict() for run in (whole, single)
    ]
    for name, value in weights[0].items():
        assert torch.allclose(value, weights[1][name], atol=2e-3), name


def test_several_updates_a_step_move_the_ratio(server: StubServer, curator: Path, tmp_path: Path) -> None:
    run = train(
        small_config(server.url, curator, steps=2, updates=4, micro_batch=2), tmp_path / "run", progress=False
    )
    assert list(run.metrics()["step"]) == [1, 2]
    assert len(run.rollouts()) == 16
    assert run.metrics()["ratio_max"].max() > 1.0001


def test_the_loss_covers_the_payloads_tokens_only(curator: Path, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from jitmem_lab.training.config import TrainConfig
    from jitmem_lab.training.trainer import make_trainer

    config: TrainConfig = small_config("http://127.0.0.1:9/v1", curator)
    model, tokenizer = AutoModelForCausalLM.from_pretrained(curator), AutoTokenizer.from_pretrained(curator)
    from datasets import Dataset

    rows = Dataset.from_list([{"prompt": "Task: press the red button", "index": 0}])
    trainer = make_trainer(config, model, tokenizer, rows, _constant, tmp_path, [])
    batch = {
        "prompt_ids": torch.tensor([[5, 6, 7], [8, 5, 6]]),
        "prompt_mask": torch.ones(2, 3, dtype=torch.long),
        "completion_ids": torch.tensor([[3, 4, 9], [4, 9, 9]]),
        "completion_mask": torch.tensor([[1, 1, 1], [1, 0, 0]]),
        "advantages": torch.tensor([1.0, -1.0]),
        "num_items_in_batch": torch.tensor(4),
    }
    trainer.current_gradient_accumulation_steps = 1
    model.train()
    loss = trainer.compute_loss(model, batch)
    changed = batch | {"completion_ids": torch.tensor([[3, 4, 9], [4, 2, 3]])}
    assert trainer.compute_loss(model, changed).item() == pytest.approx(loss.item(), abs=1e-7)
    longer = batch | {"completion_mask": torch.ones(2, 3, dtype=torch.long)}
    assert trainer.compute_loss(model, longer).item() != pytest.approx(loss.item(), abs=1e-6)


def _constant(completions: list[str], **_: Any) -> list[float]:
    return [0.0] * len(completions)


def test_a_training_that_is_broken_or_newer_is_told_in_a_sentence(done: TrainRun, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no training"):
        TrainRun(tmp_path)
    (tmp_path / "train.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        TrainRun(tmp_path)
    newer = json.loads((done.path / "train.json").read_text()) | {"schema_version": 99}
    (tmp_path / "train.json").write_text(json.dumps(newer))
    with pytest.raises(UserError, match="newer than"):
        TrainRun(tmp_path)


def test_a_refresh_rebuilds_the_bank_with_the_trained_curator(curator: Path, tmp_path: Path) -> None:
    from jitmem_lab.training.refreshing import refresh

    with stub_server(thinking(know)) as server:
        first = train(small_config(server.url, curator, steps=1), tmp_path / "first", progress=False)
        second = refresh(first, tmp_path / "second", games=12, steps=2, progress=False)
        with pytest.raises(UserError, match="a folder of its own"):
            refresh(first, first.path)
    assert second.request["curator"] == first.curator
    assert second.settings["bank"]["source"] == "runs"
    assert second.settings["bank"]["traces"] == 12
    assert second.status()["state"] == "completed"
    shown = {t["task_id"] for prompt in second.prompts() for t in prompt["recall"]["traces"]}
    assert shown


def test_what_must_be_told_with_a_training(done: TrainRun, tmp_path: Path) -> None:
    assert any("small models" in words for words in done.cautions())
    assert not any("test split" in words for words in done.cautions())
    about = json.loads((done.path / "train.json").read_text())
    about["request"] |= {"heldout": "valid_seen", "allow_test": True, "top_p": 0.9}
    (tmp_path / "train.json").write_text(json.dumps(about))
    told = " ".join(TrainRun(tmp_path).cautions())
    assert "chosen on test split valid_seen" in told
    assert "top_p=0.9" in told
