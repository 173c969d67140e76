"""The command line: thin, and light until a command needs more."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import click

from . import __version__
from .bench.commands import bench_group
from .benchmarks.commands import check_group, floors_command
from .errors import UserError
from .item_commands import items_command
from .kernels.commands import kernels_group
from .serving_commands import serve_model_command
from .study.commands import study_group
from .sweeping.commands import sweep_command
from .terminal import (
    EXIT_CODES,
    Seconds,
    definitions,
    emit,
    exit_code,
    facts,
    json_option,
    open_streams,
    run_path,
    table,
)
from .training.commands import bank_command, train_group
from .training.pocket_commands import pocket_group


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong input, 3 infrastructure, 130 interrupted."""
    open_streams()
    sys.exit(_run(args))


def _run(args: Sequence[str] | None) -> int:
    """The exit code of a command line."""
    return exit_code(cli, args)


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"Exit codes: {EXIT_CODES}.",
)
@click.version_option(__version__, message="%(version)s")
def cli() -> None:
    """See, run and train the memory of language-model agents."""


@cli.command("run")
@click.argument("notebook")
@click.option(
    "-p",
    "--parameter",
    "pairs",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    help="A value for a name that --parameters lists; repeat it for several.",
)
@click.option("--parameters", is_flag=True, help="List the parameters that NOTEBOOK takes, and run nothing.")
@click.option("-k", "--kernel", help="An installed kernel; by default this very interpreter.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the executed notebook goes.")
@click.option("--timeout", type=Seconds(min=0, min_open=True), help="Seconds that the whole run may take.")
@click.option("--echo", is_flag=True, help="Repeat what the cells print, on standard error.")
@click.option("--html", is_flag=True, help="Also write it as one HTML page that needs no network.")
@json_option
def run_command(
    notebook: str,
    pairs: tuple[tuple[str, str], ...],
    parameters: bool,
    kernel: str | None,
    output: Path | None,
    timeout: float | None,
    echo: bool,
    html: bool,
    as_json: bool,
) -> None:
    """Run a notebook with parameters.

    Prints where the executed notebook is, and on standard error what its last cell printed.

    NOTEBOOK is a path, or the number or name of a shipped notebook (20, 20_evaluate). What -p takes is
    listed by: jitmem run NOTEBOOK --parameters
    """
    if parameters:
        _list_parameters(notebook, as_json)
        return
    from .notebooks import find_notebook, parse_pairs, read_parameters, read_status, run_notebook
    from .notebooks.export import to_html
    from .notebooks.outputs import last_printed
    from .notebooks.parameters import read_notebook
    from .notebooks.wire import visible

    def work() -> dict[str, Any]:
        path = find_notebook(notebook)
        values = parse_pairs(read_parameters(path), pairs, path.name)
        bar = sys.stderr.isatty() and not echo
        done = run_notebook(
            path, values, output=output, kernel=kernel, timeout=timeout, progress=bar, echo=echo
        )
        page = {"page": str(to_html(done))} if html else {}
        return read_status(done) | page

    def show(status: dict[str, Any]) -> str:
        with suppress(UserError):  # it was moved meanwhile
            told = last_printed(read_notebook(status["output"]))
            if told and not echo:
                click.echo(visible(told), err=True)
        return "\n".join(str(status[name]) for name in ("output", "page") if name in status)

    emit(as_json, work, show)


def _list_parameters(notebook: str, as_json: bool) -> None:
    """Print what a notebook takes: name, default, kind and comment."""
    from .notebooks import find_notebook, read_parameters

    def work() -> dict[str, Any]:
        found = read_parameters(find_notebook(notebook)).values()
        return {"rows": [asdict(parameter) for parameter in found]}

    def show(result: dict[str, Any]) -> str:
        return definitions(
            [
                {"name": row["name"], "value": f"{row['default']!r} ({row['kind']})", "what": row["comment"]}
                for row in result["rows"]
            ]
        )

    emit(as_json, work, show)


@cli.command("data")
@json_option
def data_command(as_json: bool) -> None:
    """Show which data were found and which are missing."""

    def work() -> dict[str, Any]:
        from .data import report

        return {"rows": report()}

    emit(as_json, work, lambda result: table(result["rows"], "no data", limit=200))


@cli.group("runs")
def runs_group() -> None:
    """List, show and compare run directories."""


@runs_group.command("list")
@click.argument("folder", default="runs", type=click.Path(path_type=Path))
@json_option
def runs_list(folder: Path, as_json: bool) -> None:
    """List the run directories below FOLDER (default: runs)."""
    from .runs import list_runs

    if not folder.is_dir() and folder != Path("runs"):
        raise UserError(f"there is no folder {folder}; give the folder that holds your run directories")
    emit(
        as_json,
        lambda: {"rows": list_runs(folder)},
        lambda r: table(_dated(r["rows"]), f"no runs in {folder}"),
    )


def _dated(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows with a Unix time `created` as a local date."""
    from datetime import datetime

    found = []
    for row in rows:
        created = row.get("created")
        when = f"{datetime.fromtimestamp(created).astimezone():%Y-%m-%d %H:%M}" if created else ""
        found.append({**row, "created": when})
    return found


@runs_group.command("show")
@click.argument("run", type=click.Path(path_type=Path))
@json_option
def runs_show(run: Path, as_json: bool) -> None:
    """Show outcomes, success rate, steps, writes of memory and tokens of RUN."""
    from .analysis import readable
    from .runs import open_run

    emit(as_json, lambda: open_run(run_path(run)).summary(), lambda summary: facts(readable(summary)))


@runs_group.command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@json_option
def runs_diff(a: Path, b: Path, as_json: bool) -> None:
    """Show what differs between the runs A and B."""
    from .runs import diff

    emit(
        as_json,
        lambda: {"rows": diff(run_path(a), run_path(b))},
        lambda r: table(r["rows"], "the runs do not differ"),
    )


@cli.group("models", invoke_without_command=True)
@click.pass_context
@json_option
def models_group(ctx: click.Context, as_json: bool) -> None:
    """List the forms of a model's name; fetch the embedded one."""
    if ctx.invoked_subcommand is not None:
        if as_json:
            raise UserError("put --json after the command it belongs to")
        return

    def work() -> dict[str, Any]:
        from .models import FORMS
        from .models.smol import model_dir, ready

        return {"forms": list(FORMS), "smol": {"ready": ready(), "path": str(model_dir())}}

    def show(result: dict[str, Any]) -> str:
        smol = result["smol"]
        state = f"ready, {smol['path']}" if smol["ready"] else "not fetched yet: jitmem models fetch smol"
        return "\n".join([*result["forms"], "", f"smol: {state}"])

    emit(as_json, work, show)


@models_group.command("fetch")
@click.argument("name", default="smol")
@json_option
def models_fetch(name: str, as_json: bool) -> None:
    """Fetch the embedded model NAME (smol) and convert it into the user's cache."""
    if name != "smol":
        raise UserError(f"there is nothing to fetch for model '{name}'; the embedded model is 'smol'")

    def work() -> dict[str, Any]:
        from .models.smol import ensure

        return {"model": name, "path": str(ensure())}

    emit(as_json, work, lambda result: f"{name} is ready in {result['path']}")


@cli.command("memories")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@json_option
def memories_command(names: tuple[str, ...], as_json: bool) -> None:
    """List the memory systems, or show the page of some: what is stored, when, how it is found, defaults."""
    from .memories.page import listed, pages, text

    def show(result: dict[str, Any]) -> str:
        if not names:
            return listed()
        return "\n\n".join(text(row["name"]) for row in result["rows"])

    emit(as_json, lambda: {"rows": pages(*names)}, show)


@cli.command("demo")
@click.option(
    "--games",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="Games, the same for each memory.",
)
@click.option("--split", default="generated_seen", show_default=True, help="Split to play.")
@click.option("--model", default="smol", show_default=True, help="The model that plays and curates.")
@click.option("-o", "--out", default="runs/demo", show_default=True, help="Folder of the runs.")
def demo_command(games: int, split: str, model: str, out: str) -> int:
    """Play real games with three kinds of memory and show the table."""
    from .demo import main as demo

    return demo(games=games, split=split, model=model, out=out)


@cli.command("serve")
@click.argument("runs", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--port", default=5006, show_default=True, type=click.IntRange(0, 65535), help="0 takes a free one."
)
@click.option("--address", default="127.0.0.1", show_default=True, help="Another one needs a token.")
@click.option("--token", envvar="JITMEM_TOKEN", help="Password asked of visitors (or in JITMEM_TOKEN).")
@click.option("--show", is_flag=True, help="Open a browser.")
def serve_command(runs: tuple[Path, ...], port: int, address: str, token: str | None, show: bool) -> int:
    """Serve the dashboards of RUNS, run directories or folders of them (default: runs)."""
    from .serve import main as serve

    return serve([str(run_path(run)) for run in runs], port, address, token, show)


for _command in (
    kernels_group,
    serve_model_command,
    items_command,
    sweep_command,
    study_group,
    bench_group,
    floors_command,
    check_group,
    bank_command,
    train_group,
    pocket_group,
):
    cli.add_command(_command)


if __name__ == "__main__":
    main()
