"""Parameters of a training: presets, what is refused, what reaches TRL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.terminal import exit_code
from jitmem_lab.training import TrainConfig
from jitmem_lab.training.commands import read_parameters, train_group
from jitmem_lab.training.metrics import HELDOUT_METRICS, STEP_METRICS
from jitmem_lab.training.presets import is_test_split
from tests.unit.training import small_config

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"sede": 1}, "did you mean"),
        ({"k": 5}, "play={'k'"),
        ({"play": {"model": "smol"}}, "as a parameter of the training"),
        ({"play": {"exclude_own": False}}, "can't be changed in a training"),
        ({"play": {"memory": "none"}}, "can't be changed in a training"),
        ({"play": {"traces": "distilled"}}, "can't be changed in a training"),
        ({"executor": "openai:http://me:secret@127.0.0.1/v1#m"}, "would be written down"),
        ({"preset": "huge"}, "there are paper"),
        ({"group": 1}, "greater than or equal to 2"),
        ({"micro_batch": 5}, "doesn't divide"),
        ({"updates": 3}, "can't be shared out among 3 updates"),
        ({"rate_low": 0.2}, "give bank=RUN"),
        ({"vllm": "server"}, "needs the server's address"),
        ({"heldout": "valid_seen"}, "is a test split"),
        ({"split": "valid_seen"}, "is a test split"),
        ({"heldout": "train"}, "heldout='part'"),
        ({"heldout_every": 3, "save_every": 2}, "multiple of save_every"),
        ({"play": {"sede": 1}}, "no parameter 'sede'"),
        ({"learning_rate": 0}, "greater than 0"),
    ],
)
def test_what_cannot_be_trained_is_refused(parameters: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        small_config("http://127.0.0.1:9/v1", Path("x"), **parameters)


def test_a_test_split_is_taken_where_that_is_allowed() -> None:
    config = small_config("http://127.0.0.1:9/v1", Path("x"), heldout="valid_seen", allow_test=True)
    assert config.heldout == "valid_seen"
    assert [is_test_split(name) for name in ("valid_seen", "generated_test", "test", "small_test")] == [
        True
    ] * 4
    assert not any(
        is_test_split(name) for name in ("train", "valid_train", "generated_train", "generated_dev")
    )


def test_the_papers_settings_reach_trl(tmp_path: Path) -> None:
    pytest.importorskip("trl")
    from jitmem_lab.training.trainer import grpo_arguments

    paper = TrainConfig.make(preset="paper", split="train", vllm="off")
    found = grpo_arguments(paper, tmp_path)
    assert found.generation_batch_size == 32 * 8
    assert (found.max_steps, found.steps_per_generation) == (100, found.gradient_accumulation_steps)
    assert (found.learning_rate, found.warmup_steps, found.beta) == (1e-6, 5, 1e-3)
    assert str(found.lr_scheduler_type).endswith("constant_with_warmup") or (
        found.lr_scheduler_type.value == "constant_with_warmup"
    )
    assert (found.scale_rewards, found.loss_type, found.use_bias_correction_kl) == ("none", "dapo", False)
    assert (found.temperature, found.top_p, found.epsilon, found.num_iterations) == (1.0, 1.0, 0.2, 1)
    code = grpo_arguments(TrainConfig.make(preset="authors-code", split="train", vllm="off"), tmp_path)
    assert code.max_steps == 800
    assert code.generation_batch_size == 32 * 8
    assert code.gradient_accumulation_steps * code.per_device_train_batch_size == 32
    eight = grpo_arguments(paper, tmp_path, world=8)
    assert eight.gradient_accumulation_steps * eight.per_device_train_batch_size * 8 == 256
    with pytest.raises(ValueError, match="7 processes"):
        grpo_arguments(paper, tmp_path, world=7)


def test_what_is_played_otherwise_leaves_the_rest_of_the_preset() -> None:
    config = TrainConfig.make(preset="paper", split="train", play={"k": 5})
    played = config.evaluation()
    assert (played.k, played.thinking, played.top_p, played.top_k) == (5, False, 0.95, 20)
    shop = TrainConfig.make(preset="paper", benchmark="webshop", split="generated_train")
    assert (config.max_completion, shop.max_completion) == (8192, 4096)


def test_the_pockets_curator_is_judged_on_games_that_it_has_not_been_fitted_on() -> None:
    assert TrainConfig.make(split="train").heldout == "valid_train"
    assert TrainConfig.make(split="generated_train").heldout == "part"


def test_parameters_come_from_a_file_and_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text('preset = "smol"\nsteps = 7\n[play]\nk = 5\n')
    pairs = (("steps", "9"), ("curator", "hf:some/where"), ("heldout", "None"), ("play", '{"k": 2}'))
    assert read_parameters(file, pairs) == {
        "preset": "smol",
        "steps": 9,
        "curator": "hf:some/where",
        "heldout": None,
        "play": {"k": 2},
    }
    file.write_text("[")
    with pytest.raises(UserError, match="cannot be read as TOML"):
        read_parameters(file, ())


def test_the_command_line_refuses_in_a_sentence(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert exit_code(train_group, ["-p", "sede", "1"]) == 2
    assert "no parameter 'sede'" in capsys.readouterr().err
    assert exit_code(train_group, ["status", str(tmp_path)]) == 2
    assert "holds no training" in capsys.readouterr().err


def test_every_parameter_is_shown_with_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(train_group, ["parameters", "smol"]) == 0
    printed = capsys.readouterr().out
    shown = " ".join(printed.split())
    for name in TrainConfig.model_fields:
        assert name in shown
    assert "Learning rate, constant after the warm-up." in shown
    assert 'and the executor plays: parameters of `EvalConfig`, e.g. {"k": 5, "max_steps": 20}.' in shown
    assert "One of: dapo, grpo, dr_grpo, bnpo." in shown
    assert "One of: paper, authors-code, smol, pocket." in shown
    assert "more characters" not in shown
    assert max(map(len, printed.splitlines())) <= 120


def test_every_figure_is_told_with_what_it_means(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("trl")
    from jitmem_lab.training.trainer import NAMES

    left = {"step_time"}  # told as seconds by part
    assert set(NAMES.values()) - left <= set(STEP_METRICS)
    assert exit_code(train_group, ["metrics"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    for name in (*STEP_METRICS, *HELDOUT_METRICS):
        assert name in shown
    assert "Only there if `beta` is above 0" in shown


def test_what_is_reported_is_played_as_published_not_as_in_training() -> None:
    paper = TrainConfig.make(preset="paper", split="train", heldout="valid_train")
    assert paper.evaluation().thinking is False
    assert paper.reported(split="valid_seen").thinking is True
    own = TrainConfig.make(preset="paper", split="train", heldout="valid_train", play={"k": 5})
    assert own.reported(split="valid_seen").k == 5


def test_another_benchmarks_train_split_is_held_out_from_in_part() -> None:
    assert TrainConfig.make(preset="pocket", benchmark="express", split="train").heldout == "part"


def test_a_training_has_the_same_folder_however_it_is_carried_out(tmp_path: Path) -> None:
    first = small_config("http://127.0.0.1:9/v1", tmp_path)
    carried = small_config(
        "http://127.0.0.1:9/v1", tmp_path, concurrency=9, timeout=7, micro_batch=4, keep=None
    )
    other = small_config("http://127.0.0.1:9/v1", tmp_path, seed=1)
    assert first.folder() == carried.folder()
    assert first.folder() != other.folder()


def test_no_training_is_begun_by_mistake(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert exit_code(train_group, []) == 0
    assert "jitmem train -p preset pocket" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
