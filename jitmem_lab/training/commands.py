"""`jitmem bank` and `jitmem train`: a training from the command line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click

from ..errors import UserError
from ..files import parse_json
from ..terminal import definitions, emit, facts, json_option, run_path, table

config_option = click.option(
    "--config",
    "file",
    type=click.Path(path_type=Path),
    help="TOML or JSON file of parameters, or a recipe's file.",
)
pairs_option = click.option(
    "-p",
    "--parameter",
    "pairs",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="A parameter of the training, see `jitmem train parameters`; repeat it for several.",
)


def read_parameters(file: Path | None, pairs: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Parameters from a file, and what is given beside it; values are JSON where they can be.

    Raises:
        UserError: The file is missing or is no table of parameters.
    """
    values: dict[str, Any] = {}
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
            if file.suffix == ".toml":
                import tomllib

                values = tomllib.loads(text)
            else:
                values = parse_json(text)
        except RecursionError:
            raise UserError(f"{file} cannot be read as TOML: it is nested too deep") from None
        except (OSError, ValueError) as error:
            raise UserError(f"{file} cannot be read as TOML or JSON: {error}") from None
        if not isinstance(values, dict):
            raise UserError(f"{file} holds no table of parameters")
        if isinstance(values.get("train"), dict):  # a recipe
            values = dict(values["train"])
    for name, text in pairs:
        values[name] = _value(text)
    return values


def _value(text: str) -> Any:
    if text in ("None", "True", "False"):
        return {"None": None, "True": True, "False": False}[text]
    try:
        return parse_json(text)
    except ValueError:
        return text


@click.group("train", invoke_without_command=True)
@config_option
@pairs_option
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The run directory.")
@click.option("--detach", is_flag=True, help="Start it as a job of its own and come back at once.")
@click.option(
    "--launcher",
    default="",
    help="What starts it on several GPUs, e.g. 'accelerate launch --config_file eight.yaml'.",
)
@click.pass_context
@json_option
def train_group(
    ctx: click.Context,
    file: Path | None,
    pairs: tuple[tuple[str, str], ...],
    out: Path | None,
    detach: bool,
    launcher: str,
    as_json: bool,
) -> None:
    """Train a curator by GRPO from the reward of the same task's episode.

        jitmem train -p preset pocket -o runs/pocket

    On GPUs, `jitmem train recipes` shows what to serve and how to start it.

    Killed or interrupted, the same command goes on from the last checkpoint.
    """
    if ctx.invoked_subcommand is not None:
        return
    if file is None and not pairs and out is None:  # an hour's work is not begun by mistake
        click.echo(ctx.get_help())
        return
    values = read_parameters(file, pairs)

    def work() -> dict[str, Any]:
        from . import TrainConfig, launch, train

        config = TrainConfig.make(**values)
        if detach or launcher:
            try:
                words = shlex.split(launcher)
            except ValueError as error:
                raise UserError(f"--launcher {launcher!r} is no command: {error}".lower()) from None
            job = launch(config, out, launcher=words)
            return (job.run if detach else job.watch()).summary()
        return train(config, out).summary()

    emit(as_json, work, standing)


def standing(summary: dict[str, Any]) -> str:
    """A training's summary as text: shares in percent, its cautions below."""
    from ..analysis import readable

    step, over = summary["step"], summary["reward_steps"]
    steps = {"reward_first": (1, over), "reward_last": (max(step - over, 0) + 1, step)}
    rows: dict[str, Any] = {}
    for name, value in summary.items():
        if name in steps and value is not None:
            first, last = steps[name]
            rows[f"reward (mean of steps {first} to {last})"] = f"{100 * value:.1f} %"
        elif name.startswith("heldout_") and value is not None:
            rows[name] = f"{100 * value:.1f} %"
        elif name == "checkpoint":
            rows[name] = "none yet: it would begin at step 0" if value is None else f"step {value}"
        elif name not in ("reward_steps", "cautions", *(("eta_seconds", *steps) if value is None else ())):
            rows[name] = value
    return "\n".join([facts(readable(rows)), *(f"! {words}" for words in summary["cautions"])])


@train_group.command("parameters")
@click.argument("preset", default="pocket")
@json_option
def parameters_command(preset: str, as_json: bool) -> None:
    """Show every parameter with the value that PRESET gives it."""

    def work() -> dict[str, Any]:
        from .config import TrainConfig

        config = TrainConfig.make(preset=preset)
        notes = _docs(TrainConfig)
        return {
            "rows": [
                {
                    "parameter": name,
                    "value": json.dumps(value),
                    "choices": _choices(TrainConfig.model_fields[name].annotation),
                    "what": notes.get(name, ""),
                }
                for name, value in config.model_dump().items()
            ]
        }

    def show(result: dict[str, Any]) -> str:
        rows = []
        for row in result["rows"]:
            one_of = f" One of: {', '.join(row['choices'])}." if row["choices"] else ""
            rows.append({"name": row["parameter"], "value": row["value"], "what": row["what"] + one_of})
        return definitions(rows)

    emit(as_json, work, show)


def _choices(annotation: Any) -> list[str]:
    """The values that a field takes where they are counted out; else empty."""
    return [str(value) for value in get_args(annotation)] if get_origin(annotation) is Literal else []


def _docs(model: type) -> dict[str, str]:
    """The sentence under each field of a class."""
    import ast
    import inspect
    import textwrap

    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, text in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            found[field.target.id] = " ".join(str(text.value.value).split())
    return found


@train_group.command("metrics")
@json_option
def metrics_command(as_json: bool) -> None:
    """Show what each value of `metrics.jsonl` means: of a step, and of a held-out evaluation."""
    from .metrics import HELDOUT_METRICS, STEP_METRICS

    def show(result: dict[str, Any]) -> str:
        parts = [
            definitions([{"name": name, "what": what} for name, what in result[kind].items()])
            for kind in ("step", "heldout")
        ]
        return "\n\n".join(["A step's line:", parts[0], "A held-out evaluation's line:", parts[1]])

    emit(as_json, lambda: {"step": STEP_METRICS, "heldout": HELDOUT_METRICS}, show)


@train_group.command("recipes")
@click.argument("name", required=False)
@json_option
def recipes_command(name: str | None, as_json: bool) -> None:
    """List the recipes for GPUs, or show one: commands in their order, memory and hours."""

    def work() -> dict[str, Any]:
        from .recipes import load_recipe, recipe_names

        if name is None:
            found = [load_recipe(one) for one in recipe_names()]
            return {"rows": [{"recipe": one.name, "machine": one.machine["about"]} for one in found]}
        from .recipe_commands import described

        return described(load_recipe(name))

    def show(result: dict[str, Any]) -> str:
        if "rows" in result:
            return table(result["rows"], "none")
        from .recipe_commands import shown_recipe

        return shown_recipe(result)

    emit(as_json, work, show)


@train_group.command("status")
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def status_command(run: Path, as_json: bool) -> None:
    """Show how a training stands."""
    from .runs import TrainRun

    emit(as_json, lambda: TrainRun(run_path(run)).summary(), standing)


@train_group.command("stop")
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def stop_command(run: Path, as_json: bool) -> None:
    """Stop a training at the end of its step, with a checkpoint."""

    def work() -> dict[str, Any]:
        from .job import attach

        job = attach(run_path(run))
        job.stop()
        return job.run.summary()

    emit(as_json, work, standing)


@train_group.command("resume")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--detach", is_flag=True, help="As a job of its own.")
@json_option
def resume_command(run: Path, detach: bool, as_json: bool) -> None:
    """Go on with a training from its last checkpoint."""

    def work() -> dict[str, Any]:
        from . import train
        from .job import attach

        job = attach(run_path(run))
        if detach:
            return job.resume().run.summary()
        return train(job.run.config, job.path).summary()

    emit(as_json, work, standing)


@train_group.command("refresh")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder of bank and run.")
@click.option("--games", type=click.IntRange(min=1), help="Train tasks played for the bank; all by default.")
@click.option("--steps", type=click.IntRange(min=1), default=50, show_default=True, help="Steps.")
@json_option
def refresh_command(run: Path, out: Path, games: int | None, steps: int, as_json: bool) -> None:
    """Rebuild the bank with RUN's trained curator and go on training over it."""

    def work() -> dict[str, Any]:
        from .refreshing import refresh

        return refresh(run_path(run), out, games=games, steps=steps).summary()

    emit(as_json, work, standing)


@train_group.command("results")
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--condition", default="trained", show_default=True, help="The condition asked about.")
@click.option("--baseline", default="untrained", show_default=True, help="What it is compared with.")
@json_option
def results_command(runs: tuple[Path, ...], condition: str, baseline: str, as_json: bool) -> None:
    """Show what trainings were worth: games won before and after, each RUN's and their mean gain.

    It reads the evaluations in their folders, as notebook 31_train_curator plays them.

        jitmem train results runs/seed-0 runs/seed-1 runs/seed-2 --condition trained-empty
    """

    from .results import pooled_results, shown_results

    def work() -> dict[str, Any]:
        paths = [run_path(run) for run in runs]
        return pooled_results(paths, condition=condition, baseline=baseline)

    emit(as_json, work, shown_results)


@click.command("bank")
@config_option
@pairs_option
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The run directory.")
@click.option("--games", type=click.IntRange(min=1), help="Tasks of the train split; all by default.")
@click.option("--tries", type=click.IntRange(min=1), default=1, show_default=True, help="Tries a task.")
@json_option
def bank_command(
    file: Path | None,
    pairs: tuple[tuple[str, str], ...],
    out: Path,
    games: int | None,
    tries: int,
    as_json: bool,
) -> None:
    """Play a training bank: the frozen executor over the train split, without memory.

    Its successes are what `jitmem train -p bank OUT` retrieves from.
    """
    values = read_parameters(file, pairs)

    def work() -> dict[str, Any]:
        from .bank import play_bank, successes
        from .config import TrainConfig

        config = TrainConfig.make(**values)
        run = play_bank(config, out, games=games, tries=tries)
        kept, rates = successes([run])
        tried = sum(rate.tries for rate in rates.values())
        won = sum(rate.won for rate in rates.values())
        return {"run": str(run.path), "tasks": len(rates), "tries": tried, "won": won, "bank": len(kept)}

    emit(as_json, work, facts)
