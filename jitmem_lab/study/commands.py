"""`jitmem study`: the whole paper in one command."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ..errors import UserError
from ..terminal import Seconds, emit, facts, json_option, table

out_option = click.option(
    "-o", "--out", type=click.Path(path_type=Path), help="The study's folder; by default runs/study-SIZE."
)
size_option = click.option(
    "--size", default="mini", show_default=True, help="smoke, mini, overnight or paper."
)
part_option = click.option("--part", "parts", multiple=True, help="Only this part; repeat it for several.")
role_option = click.option(
    "--role",
    "roles",
    nargs=2,
    multiple=True,
    metavar="ROLE MODEL",
    help="A model in place of the size's, by role; `jitmem study plan` lists the roles.",
)
games_option = click.option("--games", type=click.IntRange(min=1), help="Games of each run at most.")
orders_option = click.option("--orders", type=click.IntRange(min=1), help="Orders of the tasks at most.")


def plan_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what is planned, in the order of `planned`'s parameters."""
    for option in (orders_option, games_option, role_option, part_option, out_option, size_option):
        command = option(command)
    return command


def planned(
    size: str,
    out: Path | None,
    parts: tuple[str, ...],
    roles: tuple[tuple[str, str], ...],
    games: int | None,
    orders: int | None,
) -> Any:
    """The plan that a command line asks for."""
    from .plan import make_plan

    if len({role for role, _ in roles}) < len(roles):
        raise UserError("a role was given twice; give each once")
    folder = out or Path("runs") / f"study-{size}"
    return make_plan(size, folder, parts=parts, roles=dict(roles), games=games, orders=orders)


@click.group("study")
def study_group() -> None:
    """The paper's tables and figures, run here at four sizes, and one report of them."""


@study_group.command("run")
@plan_options
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=4, show_default=True, help="Episodes at once."
)
@click.option("--engine", default="local", show_default=True, help="Who plays the runs: local or ray.")
@click.option("--workers", type=click.IntRange(min=1), default=1, show_default=True, help="Runs at a time.")
@click.option("--address", default="", help="Ray cluster to join.")
@click.option("--cache", type=click.Path(path_type=Path), help="SQLite file of model answers to reuse.")
@click.option("--timeout", type=Seconds(min=0, min_open=True), default=120.0, help="Seconds of a model call.")
@click.option("--notebooks", is_flag=True, help="Keep each run as notebook 20_evaluate.")
@click.option("--pages/--no-pages", default=True, help="Make the notebooks' pages too.")
@json_option
def run_command(
    size: str,
    out: Path | None,
    parts: tuple[str, ...],
    roles: tuple[tuple[str, str], ...],
    games: int | None,
    orders: int | None,
    concurrency: int,
    engine: str,
    workers: int,
    address: str,
    cache: Path | None,
    timeout: float,
    notebooks: bool,
    pages: bool,
    as_json: bool,
) -> int:
    """Run a study, or what is missing of it, and write its report.

    Killed or interrupted, the same command goes on where it stopped.
    """
    done: dict[str, Any] = {}

    def work() -> dict[str, Any]:
        from ..sweeping.engines import make_engine
        from .running import read_study, run_study

        plan = planned(size, out, parts, roles, games, orders)
        page = run_study(
            plan,
            concurrency=concurrency,
            engine=make_engine(engine, workers, address),
            cache=cache,
            timeout=timeout,
            notebooks=notebooks,
            pages=pages,
        )
        done.update(read_study(plan.out) | {"report": str(page)})
        return done

    def show(status: dict[str, Any]) -> str:
        steps = [{"step": name, **step} for name, step in status["steps"].items()]
        return f"{table(steps, 'nothing')}\n\n{status['report']} is the report, for a browser"

    emit(as_json, work, show)
    return 0 if all(step["state"] == "completed" for step in done["steps"].values()) else 1


@study_group.command("plan")
@plan_options
@json_option
def plan_command(
    size: str,
    out: Path | None,
    parts: tuple[str, ...],
    roles: tuple[tuple[str, str], ...],
    games: int | None,
    orders: int | None,
    as_json: bool,
) -> None:
    """What a study would run: its runs, and what is left out and why. Runs nothing."""

    def work() -> dict[str, Any]:
        plan = planned(size, out, parts, roles, games, orders)
        return {
            "size": plan.size.name,
            "says": plan.size.says,
            "roles": plan.roles,
            "parts": [
                {
                    "part": one.part.name,
                    "benchmark": one.benchmark,
                    "split": one.split,
                    "rows": len(one.rows),
                    "runs": len({name for names in one.rows.values() for name in names}),
                }
                for one in plan.parts
            ],
            "runs": len(plan.all_cells),
            "left_out": plan.left_out,
            "notes": plan.notes,
        }

    def show(plan: dict[str, Any]) -> str:
        lines = [f"{plan['size']}: {plan['says']}", "", table(plan["parts"], "nothing"), ""]
        lines += [f"{plan['runs']} runs in all", *plan["notes"], ""]
        lines += ["Models by role:"]
        lines += [f"  {role}: {model}" for role, model in sorted(plan["roles"].items())]
        lines += ["", "Not run:" if plan["left_out"] else "All of it is run."]
        lines += [f"  {key}: {why}" for key, why in plan["left_out"].items()]
        return "\n".join(lines)

    emit(as_json, work, show)


@study_group.command("dry")
@plan_options
@click.option(
    "--prices", type=click.Path(path_type=Path), help="JSON file of prices by model, in dollars a million."
)
@click.option(
    "--context",
    nargs=2,
    type=(str, int),
    multiple=True,
    metavar="MODEL TOKENS",
    help="How long a model's context is; repeat it for several.",
)
@click.option("--tokens-per-second", type=float, help="What a copy of a model writes; else assumed.")
@click.option(
    "--copies",
    type=click.IntRange(min=1),
    default=4,
    show_default=True,
    help="Copies of an executor behind one address.",
)
@click.option("--server", metavar="URL", help="Play a batch of each kind of run with this server's models.")
@click.option("--turns", type=click.IntRange(min=1), default=3, show_default=True, help="Turns of a batch.")
@click.option("--batch", type=click.IntRange(min=1), help="Tasks of a batch at most; else the run's own.")
@click.option("--batches", type=click.Path(path_type=Path), help="Keep the batches' run directories here.")
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=4, show_default=True, help="Episodes at once."
)
@click.option("--timeout", type=Seconds(min=0, min_open=True), default=120.0, help="Seconds of a model call.")
@json_option
def dry_command(
    size: str,
    out: Path | None,
    parts: tuple[str, ...],
    roles: tuple[tuple[str, str], ...],
    games: int | None,
    orders: int | None,
    batches: Path | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Check a study's runs without running them, and estimate their calls, tokens, price and hours.

    With --server, one batch of each kind of run is played by that server's models, whatever their names. Ends
    with code 1 if a run is not possible or its batch failed.
    """
    failed: list[str] = []

    def work() -> dict[str, Any]:
        from .dry import run_dry

        found = run_dry(planned(size, out, parts, roles, games, orders), out=batches, **options)
        failed.extend(found["failed"])
        return found

    def show(found: dict[str, Any]) -> str:
        from .dry_text import dry_text

        return dry_text(found)

    emit(as_json, work, show)
    return 1 if failed else 0


@study_group.command("status")
@click.argument("out", type=click.Path(path_type=Path))
@json_option
def status_command(out: Path, as_json: bool) -> None:
    """How the study in a folder stands."""

    def work() -> dict[str, Any]:
        from ..sweep import read_sweep
        from .plan import RUNS
        from .running import read_study

        status = read_study(out)
        runs: dict[str, Any] = {}
        with contextlib.suppress(UserError):
            runs = read_sweep(out / RUNS)
        return {
            "state": status["state"],
            "size": status.get("size"),
            "steps": {name: step["state"] for name, step in status["steps"].items()},
            "episodes": f"{runs['done']} of {runs['total']}" if runs else None,
            "eta_seconds": runs.get("eta_seconds") if status["state"] == "running" else None,
        }

    emit(as_json, work, facts)


@study_group.command("report")
@click.argument("out", type=click.Path(path_type=Path))
@click.option(
    "--publish",
    type=click.Path(path_type=Path),
    metavar="FOLDER",
    help="Keep its tables (CSV), and table 1 as Markdown and as a picture, in this folder too.",
)
@json_option
def report_command(out: Path, publish: Path | None, as_json: bool) -> None:
    """Write the report of what the study in a folder has run so far."""

    def work() -> dict[str, Any]:
        from . import publishing
        from .reporting import write_study
        from .running import plan_of

        plan = plan_of(out)
        if publish is None:
            return {"report": str(write_study(plan)[-1])}
        return {"written": publishing.publish(plan, publish)}

    def show(found: dict[str, Any]) -> str:
        return "\n".join(found["written"]) if publish else facts(found)

    emit(as_json, work, show)
