"""Recipes for GPUs: they load, their arguments exist, and they fit."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.models.serving import command_line
from jitmem_lab.terminal import exit_code
from jitmem_lab.training.commands import read_parameters, train_group
from jitmem_lab.training.config import TrainConfig
from jitmem_lab.training.recipes import FOLDER, hours, load_recipe, memory, recipe_names, training_gpus

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("name", recipe_names())
def test_a_recipe_reaches_trl_and_fits(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = load_recipe(name)
    assert training_gpus(recipe) >= 1
    *parts, total = memory(recipe)
    assert total.value == pytest.approx(sum(part.value for part in parts))
    assert total.value < recipe.machine["memory_gb"]
    assert 1 < hours(recipe)[-1].value < 24 * 14
    assert "--enable-prefix-caching" in command_line(recipe.serving, ["vllm"])
    assert exit_code(train_group, ["recipes", name]) == 0
    shown = capsys.readouterr().out
    assert "estimated by arithmetic, not measured" in shown
    typed = shlex.split(next(line for line in shown.splitlines() if line.startswith("training: ")))
    told = train_group.make_context("train", typed[3:]).params
    assert TrainConfig.make(**read_parameters(told["file"], ())) == recipe.config
    assert all(Path(word).is_file() for word in shlex.split(told["launcher"]) if word.endswith(".yaml"))
    assert bool(told["launcher"]) == ("accelerate" in recipe.launch)
    pytest.importorskip("trl")
    from jitmem_lab.training.trainer import grpo_arguments

    world = 1
    if "accelerate" in recipe.launch:
        from accelerate.commands.config.config_args import load_config_from_file

        launched = load_config_from_file(str(FOLDER / recipe.launch["accelerate"]))
        world = launched.num_processes
        assert world == training_gpus(recipe)
        assert recipe.config.heldout is None
    found = grpo_arguments(recipe.config, tmp_path, world=world)
    assert found.per_device_train_batch_size * found.gradient_accumulation_steps * world == 256
    assert found.use_vllm
    assert found.vllm_mode == recipe.config.vllm


def test_the_papers_setting_takes_about_the_papers_time() -> None:
    assert 10 < hours(load_recipe("eight"))[-1].value < 42


def test_the_curators_server_is_started_as_trl_asks() -> None:
    launch = tomllib.loads((FOLDER / "nodes.toml").read_text())["launch"]
    assert launch["curator_server_environment"] == {"VLLM_SERVER_DEV_MODE": "1"}
    words = " ".join(launch["curator_server"])
    client = pytest.importorskip("trl.generation.vllm_client")
    told = Path(str(client.__file__)).read_text()
    for flag in ("--weight-transfer-config", "--logprobs-mode processed_logprobs"):
        assert flag in words
        assert flag in told


def test_an_unknown_recipe_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean"):
        load_recipe("eigth")
