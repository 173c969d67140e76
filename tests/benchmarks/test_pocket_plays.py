"""The shipped pocket models in real games: what a right payload, a wrong one and none are worth to them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from jitmem_lab import load_benchmark
from jitmem_lab.evaluation import EvalConfig, evaluate, make_executor
from jitmem_lab.execution import plan_payload
from jitmem_lab.models import load_model
from jitmem_lab.session import Session

pytestmark = pytest.mark.benchmarks
GAMES = 12


def test_a_right_payload_is_followed_and_none_rarely_suffices():
    config = EvalConfig.make(preset="pocket", memory="none")
    assert (config.model, config.max_steps) == ("pocket", 20)
    bench, model = load_benchmark("alfworld", split="generated_test"), load_model("pocket", threads=1)
    executor = make_executor(config, model)
    tasks = bench.tasks(limit=GAMES, order=0)
    wrong = {task.task_id: next(one for one in tasks if one.task_type != task.task_type) for task in tasks}

    def wins(payloads):
        def play(pair):
            env = bench.make_env(pair[0])
            try:
                return executor.play(env, *pair, Session(0, pair[0].task_id)).outcome == "success"
            finally:
                env.close()

        with ThreadPoolExecutor(2) as pool:
            return sum(pool.map(play, zip(tasks, payloads, strict=True)))

    try:
        right = wins([plan_payload(task, bench.oracle(task)) for task in tasks])
        none = wins(["" for _ in tasks])
        misled = wins(
            [plan_payload(wrong[task.task_id], bench.oracle(wrong[task.task_id])) for task in tasks]
        )
    finally:
        bench.close()
        model.close()
    assert right >= 0.5 * GAMES
    assert none <= right - 4
    assert misled <= right - 4


def test_the_preset_evaluates_with_the_curator(tmp_path):
    config = EvalConfig.make(preset="pocket", memory="jitmem", split="generated_test", games=4, warm_start=20)
    run = evaluate(config, out=tmp_path / "run", progress=False)
    frame = run.episodes()
    assert len(frame) == 4
    assert set(frame["outcome"]) <= {"success", "failure"}
    assert run.config["request"]["curator_model"] == "pocket:curator"


def test_the_preset_evaluates_with_the_writer(tmp_path):
    config = EvalConfig.make(preset="pocket", memory="memp", split="generated_test", games=4, warm_start=6)
    run = evaluate(config, out=tmp_path / "run", progress=False)
    assert run.config["request"]["curator_model"] == "pocket:writer"
    assert set(run.episodes()["outcome"]) <= {"success", "failure"}
    shown = [episode.recall.payload for episode in run.latest()]
    assert any("Steps to do it:\n1. go to " in payload for payload in shown)


def test_the_command_fits_them_and_refuses_games_to_be_tested_on(tmp_path, capsys):
    import json

    from jitmem_lab.cli import _run

    assert _run(["pocket", "fit", "--split", "valid_seen", "-o", str(tmp_path / "no")]) == 2
    assert "not on 'valid_seen'" in capsys.readouterr().err
    assert not (tmp_path / "no").exists()
    out = tmp_path / "made"
    assert (
        _run(["pocket", "fit", "--split", "generated_train", "--steps", "2", "-o", str(out), "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["executor"]["steps"] == 2
    made = json.loads((out / "fit.json").read_text())
    assert made["split"] == "generated_train"
    assert sorted(path.name for path in out.iterdir()) == ["curator", "executor", "fit.json", "writer"]
    for role in ("executor", "curator", "writer"):
        model = load_model(f"hf:{out / role}", dtype="float32")
        try:
            assert model.count_tokens("go to toaster 12") == 4  # a name that no train game goes to
        finally:
            model.close()


def test_a_role_alone_comes_out_as_with_the_others(tmp_path, capsys):
    from jitmem_lab.cli import _run

    fit = ["pocket", "fit", "--split", "generated_train", "--steps", "2", "--threads", "1"]
    assert _run([*fit, "--role", "editor", "-o", str(tmp_path)]) == 2
    assert "no pocket model 'editor'" in capsys.readouterr().err
    assert _run([*fit, "--role", "executor2", "--role", "curator", "-o", str(tmp_path / "some")]) == 0
    assert _run([*fit, "--role", "curator", "-o", str(tmp_path / "one")]) == 0
    weights = [(tmp_path / name / "curator/model.safetensors").read_bytes() for name in ("some", "one")]
    assert weights[0] == weights[1]
    assert (tmp_path / "some/executor2/model.safetensors").is_file()
    assert not (tmp_path / "some/executor").exists()
