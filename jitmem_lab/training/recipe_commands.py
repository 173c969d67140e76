"""What is typed to follow a recipe, step by step: install, serve, play the bank, train, evaluate."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..models.serving import VLLM, command_line
from ..terminal import table
from .config import TrainConfig
from .recipes import FOLDER, Recipe, hours, memory

LOCAL = ("127.0.0.1", "localhost")
"""Hosts that only this machine reaches."""
TEST_SPLIT = "valid_seen"
"""The split of the last step: the paper's test set of ALFWorld."""


class Step(NamedTuple):
    """One command of a recipe."""

    what: str
    """What it does."""
    where: str
    """Where it is typed, and when."""
    command: str
    """What is typed."""


def steps(recipe: Recipe) -> list[Step]:
    """The commands of a recipe, in their order."""
    several = machines(recipe) > 1
    first = "on machine 0" if several else "here"
    trains = "on every training node" if several else "once"
    packages = shlex.join(["pip", "install", ".[alfworld,hf,train]", VLLM])
    found = [
        Step("install", f"in this repository, {'on every node' if several else 'once'}", packages),
        Step("games", f"{trains}; jitmem data says whether they are found", "alfworld-download"),
        Step("executor", f"{_on(recipe.serving.host)}; leave it running", executor_server(recipe)),
        Step("bank", f"{first}, once: what the executor solves by itself", bank_command(recipe)),
    ]
    if curator_server(recipe):
        host = _after(recipe.launch["curator_server"], "--host")
        found.append(Step("curator's server", f"{_on(host)}; leave it running", curator_server(recipe)))
    for number in range(1, machines(recipe)):
        waits = f"on machine {number}, before the next step, for which it waits up to 15 minutes"
        found.append(Step("training, further processes", waits, other_machine(recipe, number)))
    again = "all of its commands go on" if several else "the same command goes on"
    found.append(Step("training", f"{first}; killed, {again}", training_command(recipe)))
    found.append(Step("evaluation", f"{first}, over the same executor", evaluation_command(recipe)))
    return found


def _on(host: str) -> str:
    return "here" if host in LOCAL else f"on {host}"


def _after(words: Sequence[str], flag: str) -> str:
    return words[words.index(flag) + 1] if flag in words else LOCAL[0]


def machines(recipe: Recipe) -> int:
    """Machines that train."""
    return int(recipe.launch.get("machines", 1))


def bank_folder(recipe: Recipe) -> str:
    """Where the recipe's training bank goes."""
    return f"runs/{recipe.name}-bank"


def run_folder(recipe: Recipe) -> str:
    """Where its training goes."""
    return f"runs/{recipe.name}"


def typed(environment: Mapping[str, str], words: Sequence[str]) -> str:
    """A command line with variables before it."""
    variables = [f"{name}={shlex.quote(value)}" for name, value in environment.items()]
    return " ".join([*variables, shlex.join(words)])


def _key(recipe: Recipe, variable: str) -> dict[str, str]:
    """The executor's password, where others than this machine could use its server."""
    return {} if recipe.serving.host in LOCAL else {variable: "PASSWORD"}


def _devices(recipe: Recipe, part: str) -> dict[str, str]:
    """Which GPUs a part takes; nothing where it takes all of its node."""
    devices = recipe.serving_devices if part == "serve" else str(recipe.launch.get("devices", ""))
    return {"CUDA_VISIBLE_DEVICES": devices} if devices else {}


def _named(recipe: Recipe) -> list[str]:
    """Parameters that hold a placeholder, given once more to be replaced where they are typed."""
    found = []
    for name in ("executor", "vllm_server"):
        value = str(getattr(recipe.config, name))
        if any(placeholder in value for placeholder in recipe.placeholders):
            found += ["-p", name, value]
    return found


def executor_server(recipe: Recipe) -> str:
    """What starts the executor's server."""
    environment = _devices(recipe, "serve") | _key(recipe, "VLLM_API_KEY")
    return typed(environment, command_line(recipe.serving, ["vllm"]))


def curator_server(recipe: Recipe) -> str:
    """What starts the server that writes payloads, where there is one apart; else nothing."""
    words = recipe.launch.get("curator_server", [])
    return typed(recipe.launch.get("curator_server_environment", {}), words) if words else ""


def bank_command(recipe: Recipe) -> str:
    """What plays the training bank, once the executor answers."""
    words = ["jitmem", "bank", "--config", str(FOLDER / f"{recipe.name}.toml")]
    words += [*_named(recipe)[:3], "-o", bank_folder(recipe)]
    return typed(_key(recipe, "OPENAI_API_KEY"), words)


def training_command(recipe: Recipe) -> str:
    """What starts the training, once its servers answer and its bank is played."""
    words = ["jitmem", "train", "--config", str(FOLDER / f"{recipe.name}.toml")]
    words += [*_named(recipe), "-p", "bank", bank_folder(recipe), "-o", run_folder(recipe)]
    if "accelerate" in recipe.launch:
        words += ["--launcher", shlex.join(launcher(recipe, 0))]
    return typed(_devices(recipe, "train") | _key(recipe, "OPENAI_API_KEY"), words)


def other_machine(recipe: Recipe, number: int) -> str:
    """What a further machine of the training runs; the first one makes the run directory."""
    words = [*launcher(recipe, number), "-m", "jitmem_lab.training.main", run_folder(recipe)]
    return typed(_devices(recipe, "train") | _key(recipe, "OPENAI_API_KEY"), words)


def launcher(recipe: Recipe, number: int) -> list[str]:
    """What starts the processes of one machine."""
    file = str(recipe.launch["accelerate"])
    words = [str(FOLDER / word) if word == file else word for word in recipe.launch["command"]]
    return [*words, "--machine_rank", str(number)] if machines(recipe) > 1 else words


def evaluation_command(recipe: Recipe) -> str:
    """What plays the test split with the trained curator and the conditions beside it."""
    call = f"evaluate_trained({run_folder(recipe)!r}, split={TEST_SPLIT!r})"
    code = f"from jitmem_lab.training.evaluating import evaluate_trained; {call}"
    python = typed(_devices(recipe, "train") | _key(recipe, "OPENAI_API_KEY"), ["python", "-c"])
    return f'{python} "{code}"'


def overrides(recipe: Recipe) -> list[dict[str, str]]:
    """What the recipe sets otherwise than its preset: parameter, preset's value, recipe's value."""
    preset = TrainConfig.make(preset=recipe.config.preset, split=recipe.config.split).model_dump()
    return [
        {"parameter": name, recipe.config.preset: json.dumps(preset[name]), "recipe": json.dumps(value)}
        for name, value in recipe.config.model_dump().items()
        if preset[name] != value
    ]


def described(recipe: Recipe) -> dict[str, Any]:
    """Everything that `jitmem train recipes NAME` shows."""
    return {
        "file": str(FOLDER / f"{recipe.name}.toml"),
        "machine": recipe.machine["about"],
        "placeholders": recipe.placeholders,
        "overrides": overrides(recipe),
        "steps": [step._asdict() for step in steps(recipe)],
        "notes": list(recipe.launch.get("notes", [])),
        "memory": [line._asdict() for line in memory(recipe)],
        "hours": [line._asdict() for line in hours(recipe)],
    }


def shown_recipe(result: dict[str, Any]) -> str:
    """The same as text."""
    parts = [f"recipe: {result['file']}", f"for {result['machine']}; not yet run on such a machine"]
    if result["placeholders"]:
        rows = [{"replace": name, "by": what} for name, what in result["placeholders"].items()]
        parts += ["", table(rows, "none", limit=120)]
    parts += ["", "unlike its preset:", table(result["overrides"], "nothing", limit=80)]
    for number, step in enumerate(result["steps"], 1):
        parts += ["", f"{number}. {step['what']} ({step['where']})", f"   {step['command']}"]
    parts += ["", *(f"note: {words}" for words in result["notes"])] if result["notes"] else []
    for title, unit in (("memory", "GB"), ("hours", "h")):
        rows = [
            {"": line["what"], unit: f"{line['value']:.1f}", "how": line["how"]} for line in result[title]
        ]
        parts += ["", f"{title} (estimated by arithmetic, not measured):", table(rows, "none", limit=120)]
    return "\n".join(parts)
