"""What the commands share: one JSON object or a text, sentences on standard error, exit codes."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import click

from .errors import InfrastructureError, JitmemError, UserError

EXIT_CODES = "0 done, 1 a notebook or run failed, 2 wrong input, 3 infrastructure (retry), 130 interrupted"

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


def open_streams() -> None:
    """Give a process that was started with closed standard streams some that lead nowhere.

    A file that is opened later would else take their numbers, and be written over.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, os.O_RDWR)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def exit_code(command: click.Command, args: Sequence[str] | None) -> int:
    """Run a command line and give its exit code; what went wrong is one sentence on standard error."""
    try:
        code = command.main(
            args=None if args is None else list(args), prog_name="jitmem", standalone_mode=False
        )
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
    except OSError as error:
        if error.errno not in _FULL:
            raise
        where = f" at {error.filename}" if error.filename else ""
        _complain(
            f"error: nothing more can be written{where} ({error.strerror}); make room and give the same "
            "command again: what was finished is kept"
        )
        return 3


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


def emit(as_json: bool, work: Callable[[], dict[str, Any]], show: Callable[[dict[str, Any]], str]) -> None:
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


def definitions(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of `name`, `value` and `what`: a line with name and value, below it the whole text, wrapped."""
    from .render import clean_text

    wide = max((len(str(row["name"])) for row in rows), default=0) + 2
    columns = min(max(shutil.get_terminal_size((100, 24)).columns, wide + 40), 120)
    lines = []
    for row in rows:
        head = [str(row["value"])] if "value" in row else []
        below = textwrap.wrap(str(row["what"]), columns - wide, break_on_hyphens=False)
        for number, line in enumerate([*head, *below] or [""]):
            name = "" if number else str(row["name"])
            lines.append(name.ljust(wide) + clean_text(line, None))
    return "\n".join(line.rstrip() for line in lines)


def run_path(run: Path) -> Path:
    """A run's path: as given, or below `runs`, where runs go by default."""
    inside = Path("runs") / run
    try:
        return inside if not run.exists() and inside.is_dir() else run
    except OSError:  # a name that no folder can have: who opens it says so
        return run


def note(line: str) -> None:
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


def facts(values: dict[str, Any]) -> str:
    """Names and values, nested ones with dotted names."""
    from .runs import flatten

    rows = [{"": name, "value": value} for name, value in flatten(values).items()]
    return table(rows, "nothing", limit=200).partition("\n")[2]


def names(text: str, option: str) -> tuple[str, ...]:
    """The values of an option that takes several, with commas."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise UserError(f"{option} takes one value or more, with commas, not {text!r}")
    return found
