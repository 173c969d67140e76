"""Recipes for GPUs: what is served and trained, and what it takes, by arithmetic that is shown.

Nothing here was measured: memory follows from counting bytes, hours from counting tokens at rates that are
assumptions, set so that the paper's 21 hours on eight H200 (ALFWorld, Qwen3-8B) come out about right.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UserError, did_you_mean
from ..models.serving import Serving
from .config import TrainConfig

FOLDER = Path(__file__).parent / "recipes"
GB = 1e9
PARAMETERS = 8.19e9
"""Weights of Qwen3-8B (its model card)."""
VOCABULARY = 151_936
"""Its vocabulary."""
LAYERS, WIDTH = 36, 4_096
"""Its layers and their width."""
TURNS = 20.0
"""Turns of an episode: the executor alone takes up to 30, a good payload about 12 (paper, table 4)."""
READ, WRITTEN = 900.0, 90.0
"""Tokens of a turn that no prefix cache holds, and tokens written in it (no thinking): assumed."""
READ_RATE, WRITE_RATE = 9_000.0, 2_200.0
"""Tokens a second and GPU that one 8B server reads and writes at full load: assumed."""
TRAIN_RATE = 4_500.0
"""Tokens a second and GPU of forward and backward passes of all weights: assumed."""
WAITING = 2.0
"""A step waits for its longest episode, and its parts for each other: assumed."""
CURATOR_PROMPT, CURATOR_ANSWER = 6_000.0, 500.0
"""Tokens of a curator's prompt (three whole traces) and of a payload: assumed."""


class Recipe(NamedTuple):
    """A recipe, read."""

    name: str
    """Its name."""
    machine: dict[str, Any]
    """`about`, `gpus`, `memory_gb` of each."""
    serving: Serving
    """The executor's server."""
    serving_gpus: int
    """GPUs that it takes."""
    shared: bool
    """Whether training takes the same GPUs."""
    serving_devices: str
    """Which ones those are, as CUDA numbers them; empty for all of a node."""
    config: TrainConfig
    """The training."""
    launch: dict[str, Any]
    """What starts it: `accelerate`'s file and command, GPUs, machines, the curator's server, notes."""
    placeholders: dict[str, str]
    """Names in its commands that are to be replaced, and by what."""


def recipe_names() -> list[str]:
    """Names of the recipes."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load_recipe(name: str) -> Recipe:
    """A recipe by name.

    Raises:
        UserError: There is none of that name.
    """
    if name not in recipe_names():
        known = recipe_names()
        raise UserError(
            f"there is no recipe {name!r}; {did_you_mean(name, known, 'there are ' + ', '.join(known))}"
        )
    read = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    serve = dict(read["serve"])
    gpus, shared, devices = int(serve.pop("gpus")), bool(serve.pop("shared")), serve.pop("devices", "")
    serve["extra"] = tuple(serve.get("extra", ()))
    return Recipe(
        name,
        read["machine"],
        Serving(**serve),
        gpus,
        shared,
        str(devices),
        TrainConfig.make(**read["train"]),
        read.get("launch", {}),
        read.get("placeholders", {}),
    )


class Line(NamedTuple):
    """One line of an estimate."""

    what: str
    """What is counted."""
    value: float
    """GB, or hours."""
    how: str
    """The arithmetic."""


def training_gpus(recipe: Recipe) -> int:
    """GPUs that train."""
    taken = 0 if recipe.shared else recipe.serving_gpus
    if recipe.config.vllm == "server":
        taken += recipe.serving_gpus  # the curator's server is as large
    return int(recipe.machine["gpus"]) - taken


def memory(recipe: Recipe) -> list[Line]:
    """GB on one GPU that trains, part by part; the last line is the sum."""
    config, gpus = recipe.config, training_gpus(recipe)
    lines = []
    if config.lora:
        lines.append(Line("weights, bfloat16", 2 * PARAMETERS / GB, f"2 bytes x {PARAMETERS:.3g}"))
        adapters = 40e6 * config.lora / 16  # rank 16 on all linear layers of an 8B model: about 40 million
        lines.append(
            Line("adapters with gradients and Adam", 16 * adapters / GB, f"16 bytes x {adapters:.3g}")
        )
    else:
        whole = 16 * PARAMETERS / GB / gpus
        lines.append(
            Line(
                "weights, gradients, Adam in float32",
                whole,
                f"16 bytes x {PARAMETERS:.3g} / {gpus} GPUs (sharded)",
            )
        )
        gathered = 2 * PARAMETERS / GB * 0.1
        lines.append(Line("layers gathered for a pass", gathered, "a tenth of 2 bytes x weights"))
        if config.beta:
            share = 4 * PARAMETERS / GB / gpus
            lines.append(Line("reference policy, float32", share, f"4 bytes x weights / {gpus} GPUs"))
    tokens = config.micro_batch * min(CURATOR_PROMPT * 2 + config.max_completion, 40_960)
    kept = 2 * tokens * WIDTH * (LAYERS + 18) / GB
    lines.append(
        Line(
            "activations, each layer's input kept",
            kept,
            f"2 bytes x {tokens:,.0f} tokens (prompts twice as long as usual) x {WIDTH:,} "
            f"x ({LAYERS} layers + 18 for the one at work)",
        )
    )
    logits = 4 * 2 * config.micro_batch * config.max_completion * VOCABULARY / GB
    rows = f"2 x 4 bytes x {config.micro_batch} payloads x {config.max_completion:,} tokens x {VOCABULARY:,}"
    chunked = min(logits, 12.0)  # TRL 1.16 computes log-probabilities in chunks
    lines.append(Line("log-probabilities", chunked, f"{rows}, in chunks of at most 12 GB"))
    if config.vllm == "colocate":
        share = config.vllm_memory * float(recipe.machine["memory_gb"])
        lines.append(Line("vLLM in the trainer's process", share, f"{config.vllm_memory:.0%} of the GPU"))
    if recipe.shared:
        share = recipe.serving.gpu_memory * float(recipe.machine["memory_gb"])
        lines.append(Line("the executor's server", share, f"{recipe.serving.gpu_memory:.0%} of the GPU"))
    total = sum(line.value for line in lines)
    return [*lines, Line("in all", total, f"of {recipe.machine['memory_gb']:g} GB")]


def hours(recipe: Recipe) -> list[Line]:
    """Hours of the training, part by part; the last line is the sum."""
    config, gpus = recipe.config, training_gpus(recipe)
    episodes = config.steps * config.batch
    turn = READ / READ_RATE + WRITTEN / WRITE_RATE
    play = episodes * TURNS * turn / recipe.serving_gpus / 3600
    curator_gpus = recipe.serving_gpus if config.vllm == "server" else gpus
    write = episodes * CURATOR_ANSWER / WRITE_RATE / curator_gpus / 3600
    passes = 2 if config.beta else 1
    train = episodes * (CURATOR_PROMPT + CURATOR_ANSWER) * passes / TRAIN_RATE / gpus / 3600
    slower = WAITING * (1.6 if recipe.shared else 1.0)
    shared = f", x {WAITING:g} for waiting" + (", x 1.6 on a shared GPU" if recipe.shared else "")
    tokens = CURATOR_PROMPT + CURATOR_ANSWER
    lines = [
        Line(
            "episodes",
            play * slower,
            f"{episodes:,} x {TURNS:g} turns x ({READ:g}/{READ_RATE:,.0f} + {WRITTEN:g}/{WRITE_RATE:,.0f}) s "
            f"/ {recipe.serving_gpus} GPUs{shared}",
        ),
        Line(
            "payloads",
            write * slower,
            f"{episodes:,} x {CURATOR_ANSWER:g} / {WRITE_RATE:,.0f} / {curator_gpus}{shared}",
        ),
        Line(
            "updates",
            train * slower,
            f"{episodes:,} x {tokens:,.0f} tokens x {passes} / {TRAIN_RATE:,.0f} / {gpus}{shared}",
        ),
    ]
    return [*lines, Line("in all", sum(line.value for line in lines), "one after another")]
