"""The command line: thin, and light until a command needs more."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, NoReturn

import click

from . import __version__
from .errors import InfrastructureError, JitmemError, UserError

EXIT_CODES = "0 done, 1 a notebook or run failed, 2 wrong input, 3 infrastructure (retry), 130 interrupted"


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 wrong input, 3 infrastructure, 130 interrupted."""
    sys.exit(_run(args))


def _run(args: Sequence[str] | None) -> int:
    """The exit code of a command line."""
    try:
        code = cli.main(args=None if args is None else list(args), prog_name="jitmem", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except click.ClickException as error:
        _complain(f"error: {error.format_message()}")
        if isinstance(error, click.UsageError) and error.ctx is not None:
            _complain(f"see: {error.ctx.command_path} --help")
        return 2
    except (KeyboardInterrupt, click.Abort) as stop:  # click makes an Abort of a KeyboardInterrupt
        _complain(str(stop.__cause__ or stop) or "interrupted; what was finished is kept")
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 1
    except UserError as error:
        _complain(f"error: {error}")
        return 2
    except InfrastructureError as error:
        _complain(f"error: {error}")
        return 3
    except JitmemError as error:
        _complain(f"error: {error}")
        return 1


def _complain(sentence: str) -> None:
    from .render import clean_text

    print(clean_text(sentence, 4000), file=sys.stderr, flush=True)


def _silence_stdout() -> None:
    """The reader of our output has gone; keep Python from complaining about it while it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def _quiet_stdout() -> Iterator[None]:
    """Send what is printed meanwhile, by child processes too, to standard error."""
    sys.stdout.flush()
    try:
        out, err = sys.stdout.fileno(), sys.stderr.fileno()
    except (AttributeError, OSError):  # no real files: under a test, or in a notebook
        with redirect_stdout(sys.stderr):
            yield
        return
    kept = os.dup(out)
    os.dup2(err, out)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, out)
        os.close(kept)


def _emit(as_json: bool, work: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any]], str]) -> None:
    """Do the work, then print one JSON object or a text; what the work prints goes to standard error."""
    with _quiet_stdout():
        result = work()
    if as_json:
        from .notebooks.outputs import json_safe

        print(json.dumps(json_safe(result), ensure_ascii=True, allow_nan=False, default=str))
    else:
        from .notebooks.wire import visible

        print(visible(show(result)))
    sys.stdout.flush()


def table(rows: Sequence[dict[str, Any]], empty: str, limit: int = 60) -> str:
    """Rows as aligned columns of text, each value cut at `limit`; `empty` when there are none."""
    if not rows:
        return empty
    from .render import clean_text

    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [names]
    for row in rows:
        values = ("" if row.get(name) is None else row.get(name) for name in names)
        lines.append([clean_text(value, limit).replace("\n", " ") for value in values])
    widths = [max(len(line[i]) for line in lines) for i in range(len(names))]
    padded = (
        "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)) for line in lines
    )
    return "\n".join(line.rstrip() for line in padded)


def _note(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


class Seconds(click.FloatRange):
    """A finite number of seconds: NaN passes every range of click's own."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, or click's error."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value} is no number of seconds.", param, ctx)
        return seconds


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object and nothing else on standard output."
)


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
    help="A value for a name of the parameters cell; repeat it for several.",
)
@click.option("-k", "--kernel", help="An installed kernel; by default this very interpreter.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the executed notebook goes.")
@click.option("--timeout", type=Seconds(min=0, min_open=True), help="Seconds that the whole run may take.")
@click.option("--echo", is_flag=True, help="Repeat what the cells print, on standard error.")
@json_option
def run_command(
    notebook: str,
    pairs: tuple[tuple[str, str], ...],
    kernel: str | None,
    output: Path | None,
    timeout: float | None,
    echo: bool,
    as_json: bool,
) -> None:
    """Run a notebook with parameters.

    NOTEBOOK is a path, or the number or name of a shipped notebook (20, 20_evaluate).
    """
    from .notebooks import find_notebook, parse_pairs, read_parameters, read_status, run_notebook

    def work() -> dict[str, Any]:
        path = find_notebook(notebook)
        values = parse_pairs(read_parameters(path), pairs, path.name)
        bar = sys.stderr.isatty() and not echo
        done = run_notebook(
            path, values, output=output, kernel=kernel, timeout=timeout, progress=bar, echo=echo
        )
        return read_status(done)

    _emit(as_json, work, lambda status: str(status["output"]))


@cli.command("data")
@json_option
def data_command(as_json: bool) -> None:
    """Show which data were found and which are missing."""

    def work() -> dict[str, Any]:
        from .data import report

        return {"rows": report()}

    _emit(as_json, work, lambda result: table(result["rows"], "no data", limit=200))


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
    _emit(
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
    """Show outcomes, success rate, steps and tokens of RUN."""
    from .runs import open_run

    _emit(as_json, lambda: open_run(_where(run)).summary(), _facts)


def _where(run: Path) -> Path:
    """The run's path: as given, or below `runs`, where runs go by default."""
    inside = Path("runs") / run
    return inside if not run.exists() and inside.is_dir() else run


def _facts(values: dict[str, Any]) -> str:
    """Names and values, nested ones with dotted names."""
    from .runs import flatten

    rows = [{"": name, "value": value} for name, value in flatten(values).items()]
    return table(rows, "nothing", limit=200).partition("\n")[2]


@runs_group.command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@json_option
def runs_diff(a: Path, b: Path, as_json: bool) -> None:
    """Show what differs between the runs A and B."""
    from .runs import diff

    _emit(
        as_json,
        lambda: {"rows": diff(_where(a), _where(b))},
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

    _emit(as_json, work, show)


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

    _emit(as_json, work, lambda result: f"{name} is ready in {result['path']}")


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

    return serve([str(_where(run)) for run in runs], port, address, token, show)


@cli.group("bench")
def bench_group() -> None:
    """Measure retrieval, stream, choice and ALFWorld here."""


def _names(text: str, option: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise UserError(f"{option} takes one value or more, with commas, not {text!r}")
    return found


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part.replace("_", "")) for part in _names(text, "--sizes"))
    except ValueError:
        raise UserError(
            f"--sizes takes whole numbers with commas, such as 1000,100000, not '{text}'"
        ) from None


@bench_group.command("retrieval")
@click.option(
    "--corpus", "corpora", default="alfworld,webshop,long", show_default=True, help="Corpora, with commas."
)
@click.option("--sizes", default="1000,100000", show_default=True, help="Traces in the bank, with commas.")
@click.option("--seed", default=0, show_default=True, help="Seed of the texts.")
@json_option
def bench_retrieval(corpora: str, sizes: str, seed: int, as_json: bool) -> None:
    """Retrieval against rank-bm25, interleaved in one process."""
    counts = _sizes(sizes)

    def work() -> dict[str, Any]:
        from .bench.retrieval import run

        return dict(run(corpora=_names(corpora, "--corpus"), sizes=counts, seed=seed, progress=_note))

    def show(result: dict[str, Any]) -> str:
        from .bench.retrieval import render

        return render(result)

    _emit(as_json, work, show)


@bench_group.command("stream")
@click.option(
    "--episodes", type=click.IntRange(min=1), default=2000, show_default=True, help="Episodes played."
)
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=32, show_default=True, help="Episodes at a time."
)
@click.option(
    "--latency",
    type=Seconds(min=0),
    default=0.2,
    show_default=True,
    help="Seconds that the stub model takes.",
)
@json_option
def bench_stream(episodes: int, concurrency: int, latency: float, as_json: bool) -> None:
    """The stream's own cost, with a stub model of a fixed latency."""

    def work() -> dict[str, Any]:
        from .bench.stream import run

        return dict(run(episodes=episodes, concurrency=concurrency, latency=latency))

    _emit(as_json, work, _facts)


@bench_group.command("choose")
@click.option(
    "--states", type=click.IntRange(min=1), default=200, show_default=True, help="Recorded states decided on."
)
@click.option(
    "--threads", type=click.IntRange(min=1), default=2, show_default=True, help="Threads of the model."
)
@click.option("--split", default="valid_seen", show_default=True, help="Split the states come from.")
@json_option
def bench_choose(states: int, threads: int, split: str, as_json: bool) -> None:
    """The embedded model's time to choose an action on recorded states."""

    def work() -> dict[str, Any]:
        from .bench.choose import run

        return dict(run(states=states, threads=threads, split=split))

    _emit(as_json, work, _facts)


@bench_group.command("payload")
@click.option(
    "--games",
    type=click.IntRange(min=1),
    default=30,
    show_default=True,
    help="Games, the same with and without.",
)
@click.option("--split", default="valid_seen", show_default=True, help="Split to play.")
@click.option("--model", default="smol", show_default=True, help="The executor's model.")
@click.option("-o", "--out", help="Folder in which the two runs are kept.")
@json_option
def bench_payload(games: int, split: str, model: str, out: str | None, as_json: bool) -> None:
    """Success with no payload against the walkthrough as payload."""

    def work() -> dict[str, Any]:
        from .bench.payload import run

        return run(games=games, split=split, model=model, out=out)

    _emit(as_json, work, _facts)


@bench_group.command("alfworld")
@click.option("--split", "splits", default="valid_seen,valid_unseen", show_default=True, help="With commas.")
@click.option("--games", type=click.IntRange(min=1), help="Games of each split; all by default.")
@click.option(
    "--memo-games",
    type=click.IntRange(min=0),
    help="Games replayed without the memo patches; all by default.",
)
@click.option("--workers", type=click.IntRange(min=1), help="Worker processes; one a CPU by default.")
@json_option
def bench_alfworld(
    splits: str, games: int | None, memo_games: int | None, workers: int | None, as_json: bool
) -> None:
    """Oracle, floors and memo patches on real ALFWorld games."""

    def work() -> dict[str, Any]:
        from .benchmarks.alfworld.check import check_split

        rows = []
        for split in _names(splits, "--split"):
            _note(f"{split} …")
            rows.append(check_split(split, workers=workers, limit=games, memo_limit=memo_games))
        return {"rows": rows}

    _emit(as_json, work, lambda result: table(result["rows"], "no splits"))


if __name__ == "__main__":
    main()
