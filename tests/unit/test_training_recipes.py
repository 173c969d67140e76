"""Recipes for GPUs: they load, their arguments exist, and they fit."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.models.serving import command_line
from jitmem_lab.terminal import exit_code
from jitmem_lab.training.commands import bank_command as played_bank
from jitmem_lab.training.commands import read_parameters, train_group
from jitmem_lab.training.config import TrainConfig
from jitmem_lab.training.recipe_commands import (
    bank_command,
    bank_folder,
    curator_server,
    evaluation_command,
    executor_server,
    machines,
    other_machine,
    overrides,
    run_folder,
    steps,
    training_command,
)
from jitmem_lab.training.recipes import (
    FOLDER,
    Recipe,
    hours,
    load_recipe,
    memory,
    recipe_names,
    training_gpus,
)

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
    for step in steps(recipe):
        assert step.command in shown
    told = parsed(training_command(recipe), train_group)
    assert TrainConfig.make(**read_parameters(told["file"], told["pairs"])) == with_bank(recipe)
    assert str(told["out"]) == run_folder(recipe)
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


def without_variables(command: str) -> list[str]:
    return [word for word in shlex.split(command) if not re.match(r"[A-Z_]+=", word)]


def parsed(command: str, of: click.Command) -> dict[str, Any]:
    """The parameters that one of our commands gets from a line that is typed."""
    program, name, *words = without_variables(command)
    assert (program, name) == ("jitmem", of.name)
    return of.make_context(name, words).params


def with_bank(recipe: Recipe) -> TrainConfig:
    return recipe.config.model_copy(update={"bank": bank_folder(recipe)})


def gpus(command: str) -> list[str]:
    """The GPUs that a line that is typed takes; none for all."""
    found = re.search(r"CUDA_VISIBLE_DEVICES=(\S+)", command)
    return found[1].split(",") if found else []


@pytest.mark.parametrize("name", recipe_names())
def test_the_bank_is_played_first_by_the_same_executor(name: str) -> None:
    recipe = load_recipe(name)
    told = parsed(bank_command(recipe), played_bank)
    assert str(told["out"]) == bank_folder(recipe)
    assert TrainConfig.make(**read_parameters(told["file"], told["pairs"])) == recipe.config
    order = [step.what for step in steps(recipe)]
    assert order.index("executor") < order.index("bank") < order.index("training") < order.index("evaluation")


@pytest.mark.parametrize("name", recipe_names())
def test_each_gpu_has_its_work_as_the_arithmetic_counts_it(name: str) -> None:
    recipe = load_recipe(name)
    serving, training = gpus(executor_server(recipe)), gpus(training_command(recipe))
    if machines(recipe) == 1:
        assert len(serving) == recipe.serving_gpus
        assert len(training) == training_gpus(recipe)
        assert len({*serving, *training}) == recipe.machine["gpus"]
        assert gpus(evaluation_command(recipe)) == training
    words = shlex.split(executor_server(recipe))
    copies = int(words[words.index("--data-parallel-size") + 1]) if "--data-parallel-size" in words else 1
    assert copies == recipe.serving_gpus
    flags = [word for word in words if word.startswith("--")]
    assert len(flags) == len(set(flags)), "none is given twice"
    curator = shlex.split(curator_server(recipe))
    if curator:
        assert int(curator[curator.index("--data-parallel-size") + 1]) == recipe.serving_gpus


def test_what_is_asked_is_where_it_is_served() -> None:
    recipe = load_recipe("nodes")
    for server, asked in (
        (executor_server(recipe), recipe.config.executor),
        (curator_server(recipe), recipe.config.vllm_server),
    ):
        words = shlex.split(server)
        address = f"http://{words[words.index('--host') + 1]}:{words[words.index('--port') + 1]}"
        assert address in asked
    assert "VLLM_API_KEY=PASSWORD" in executor_server(recipe), "others reach it"
    asking = (bank_command(recipe), training_command(recipe), evaluation_command(recipe))
    assert all("OPENAI_API_KEY=PASSWORD" in command for command in asking)


def test_several_machines_find_each_other() -> None:
    launching = pytest.importorskip("accelerate.commands.launch")
    recipe = load_recipe("nodes")
    told = parsed(training_command(recipe), train_group)
    first = [*shlex.split(told["launcher"]), "-m", "jitmem_lab.training.main", run_folder(recipe)]
    other = without_variables(other_machine(recipe, 1))
    parser = launching.launch_command_parser()
    for rank, words in enumerate((first, other)):
        assert words[:2] == ["accelerate", "launch"]
        read = parser.parse_args(words[2:])
        assert read.machine_rank == rank
        assert read.main_process_ip == "first-node"
        assert read.main_process_port == 29_500
        assert read.module
        assert [read.training_script, *read.training_script_args] == first[-2:]
    from accelerate.commands.config.config_args import load_config_from_file

    launched = load_config_from_file(str(FOLDER / recipe.launch["accelerate"]))
    assert launched.num_machines == machines(recipe) == 2


@pytest.mark.parametrize("name", recipe_names())
def test_what_is_to_be_replaced_is_named_and_nothing_else_is(name: str) -> None:
    recipe = load_recipe(name)
    lines = " ".join(step.command for step in steps(recipe))
    assert all(one in lines for one in recipe.placeholders)
    named = set(re.findall(r"\w+-node|PASSWORD", lines))
    assert named == set(recipe.placeholders)


def test_a_recipe_says_what_it_sets_unlike_its_preset() -> None:
    recipe = load_recipe("eight")
    preset = TrainConfig.make(preset="paper", split=recipe.config.split)
    rows = {row["parameter"]: (row["paper"], row["recipe"]) for row in overrides(recipe)}
    assert rows
    for name in TrainConfig.model_fields:
        both = (json.dumps(getattr(preset, name)), json.dumps(getattr(recipe.config, name)))
        assert rows.get(name, (both[0], both[0])) == both


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
