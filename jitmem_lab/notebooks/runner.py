"""Notebooks run through papermill: parameters checked first, a true status, output in one piece."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import re
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import InfrastructureError, JitmemError, UserError
from ..files import write_atomic
from ..render import clean_text
from .parameters import (
    check_values,
    notebook_parameters,
    read_notebook,
    to_source,
)

INJECTED = "injected-parameters"


class NotebookError(JitmemError):
    """A cell raised; the message says which and what, and where the notebook is kept."""


def run_notebook(
    path: str | Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    output: str | Path | None = None,
    kernel: str | None = None,
    out_dir: str | Path = "runs/notebooks",
    timeout: float | None = None,
    progress: bool = True,
    echo: bool = False,
) -> Path:
    """The path of the executed notebook, which appears whole at the end of a complete run.

    While it runs, `<name>.running.ipynb` beside it can be opened, and `<output>.status.json` says how far
    it is. A run that does not complete leaves `<name>.failed.ipynb`.

    Args:
        path: The notebook: a path, or the name of a shipped one.
        parameters: Values for names of its parameters cell; others keep their defaults.
        output: Where the executed notebook goes; default a new name in `out_dir`.
        kernel: Name of an installed kernel; None takes the interpreter that runs this.
        out_dir: Folder of outputs without a name.
        timeout: Seconds that the whole run may take.
        progress: Show a bar of cells on standard error.
        echo: Repeat what cells write on standard error as it comes.

    Raises:
        UserError: Unknown notebook, parameter or kernel, or an unsuitable value (nothing was started); or a
            cell raised a `UserError`.
        NotebookError: A cell raised something else.
        InfrastructureError: The kernel died or could not start, or the time was up.
        KeyboardInterrupt: The run was interrupted; its kernel and what it started have ended.
    """
    path = find_notebook(str(path))
    notebook = read_notebook(path)
    values = check_values(notebook_parameters(notebook, path.name), dict(parameters or {}), path.name)
    _refuse_passwords(values)
    from .installed import check_kernel

    name = check_kernel(kernel)
    target = _claim(path, output, Path(out_dir))
    run = _Run(path, target, values, kernel or f"this interpreter ({sys.executable})", len(notebook.cells))
    run.execute(_with_values(notebook, values), name, timeout, progress, echo)
    return target


def _refuse_passwords(values: Mapping[str, Any]) -> None:
    """Parameters are written into the executed notebook, so a password in an address must not come in."""
    for name, value in values.items():
        if isinstance(value, str) and re.search(r"//[^/@#\s]*:[^/@#\s]*@", value):
            raise UserError(
                f"parameter {name} holds a password, which would be written into the notebook; leave it out "
                "and set the key in the environment (JITMEM_API_KEY_HOST or OPENAI_API_KEY)"
            )


def find_notebook(name: str) -> Path:
    """A notebook by path, or a shipped one by number or name (`20`, `20_evaluate`).

    Shipped notebooks are looked for in `./notebooks` and in the source checkout.

    Raises:
        UserError: None or several fit; the message lists those there are.
    """
    path = Path(name)
    if path.is_file():
        return path
    folders = [Path("notebooks"), Path(__file__).resolve().parents[2] / "notebooks"]
    shipped: dict[str, Path] = {}
    for folder in folders:
        for found in sorted(folder.glob("*.ipynb")):
            shipped.setdefault(found.stem, found)
    fits = [stem for stem in shipped if stem == path.stem] if path.parent == Path() else []
    fits = fits or [stem for stem in shipped if name in (stem.partition("_")[0], stem.partition("_")[2])]
    if len(fits) == 1:
        return shipped[fits[0]]
    known = ", ".join(sorted(fits or shipped)) or "none found here"
    what = "several notebooks fit" if fits else "there is no notebook"
    raise UserError(f"{what} '{name}'; give a path or one of the shipped notebooks: {known}")


def status_path(output: str | Path) -> Path:
    """Where the status of the run that writes `output` is."""
    return Path(f"{output}.status.json")


def read_status(output: str | Path) -> dict[str, Any]:
    """The status of a notebook run, true even if the runner itself was killed.

    `state` is running, completed, failed, killed or interrupted.

    Raises:
        UserError: There is no such run, or its status cannot be read.
    """
    path = status_path(output)
    try:
        status: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if status["state"] == "running" and not _alive(status["pid"], status.get("pid_started")):
            status.update(state="killed", error="the process that ran the notebook is gone")
    except OSError:
        raise UserError(f"there is no notebook run that writes {output}; check the path") from None
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is not the status of a notebook run; remove it and run again") from None
    return status


def _process_started(pid: int) -> str | None:
    """When a process started, in the kernel's ticks: tells a pid from a later process with the same pid."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _alive(pid: int, started: str | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return started is None or _process_started(pid) in (started, None)


def _claim(path: Path, output: str | Path | None, out_dir: Path) -> Path:
    """The output's path, reserved by its status file."""
    if output is not None:
        target = Path(output)
        if target.suffix != ".ipynb" or target.is_dir():
            raise UserError(f"the output must be a file that ends in .ipynb, not {target}")
        if target.resolve() == path.resolve():
            raise UserError(f"the output {target} would replace the notebook itself; choose another name")
        pid = _writer(target)
        if pid is not None:
            raise UserError(f"process {pid} is writing {target}; wait for it, or choose another output")
        _make_folder(target.parent)
        return target
    _make_folder(out_dir)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    for number in range(1, 1000):
        target = out_dir / f"{path.stem}-{stamp}{'' if number == 1 else f'-{number}'}.ipynb"
        with contextlib.suppress(FileExistsError):
            status_path(target).touch(exist_ok=False)
            return target
    raise InfrastructureError(f"no free name in {out_dir}; try again in a second")


def _writer(target: Path) -> int | None:
    """Process that is writing `target` now."""
    try:
        status = read_status(target)
    except UserError:
        return None
    return int(status["pid"]) if status["state"] == "running" else None


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = f"{folder} cannot be created ({error.strerror})"
        raise UserError(f"the folder {reason}; choose another output") from None


def _with_values(notebook: Any, values: Mapping[str, Any]) -> Any:
    """A copy of the notebook with a cell that assigns the values, as papermill would inject it."""
    from .quick import nbformat

    notebook = copy.deepcopy(notebook)
    notebook.cells = [c for c in notebook.cells if INJECTED not in c.metadata.get("tags", [])]
    notebook.metadata["papermill"] = {"parameters": json.loads(_json(values))}
    if values:
        source = "\n".join(["# Parameters", *(f"{k} = {to_source(v)}" for k, v in values.items())])
        place = next(i for i, c in enumerate(notebook.cells) if "parameters" in c.metadata.get("tags", []))
        notebook.cells.insert(place + 1, nbformat.v4.new_code_cell(source, metadata={"tags": [INJECTED]}))
        if (notebook.nbformat, notebook.nbformat_minor) < (4, 5):
            del notebook.cells[place + 1]["id"]
    return notebook


def _json(value: Any) -> str:
    """Strict JSON of plain values; sets as lists, NaN and infinities as texts."""
    from .outputs import json_safe

    return json.dumps(json_safe(value), indent=1, ensure_ascii=True, allow_nan=False)


class _Run:
    """One execution and its status file."""

    def __init__(self, path: Path, target: Path, values: Mapping[str, Any], kernel: str, cells: int) -> None:
        self.target = target
        self.running = target.with_name(f"{target.stem}.running.ipynb")
        self.failed = target.with_name(f"{target.stem}.failed.ipynb")
        self.status: dict[str, Any] = {
            "state": "running",
            "notebook": str(path),
            "output": str(target),
            "kernel": kernel,
            "parameters": dict(values),
            "pid": os.getpid(),
            "pid_started": _process_started(os.getpid()),
            "started": datetime.now(UTC).isoformat(timespec="seconds"),
            "ended": None,
            "cell": 0,
            "cells": cells,
            "error": None,
        }
        self._write()

    def _write(self, **changes: Any) -> None:
        self.status.update(changes)
        write_atomic(status_path(self.target), _json(self.status))

    def execute(self, notebook: Any, kernel: str, timeout: float | None, progress: bool, echo: bool) -> None:
        """Run the notebook and tell how it ended, in the status file and by what is raised."""
        import papermill
        from nbclient.exceptions import CellTimeoutError, DeadKernelError
        from papermill.exceptions import PapermillExecutionError

        from .kernel import ENGINE, Watch

        self._write(cells=len(notebook.cells))
        watch = Watch(
            lambda index: self._write(cell=index + 1), None if timeout is None else time.monotonic() + timeout
        )
        state, error = "failed", "the run ended without a reason"
        raised: type[BaseException] = InfrastructureError
        try:
            with watch.signals():
                papermill.execute_notebook(
                    notebook,
                    str(self.running.absolute()).replace("{", "{{").replace("}", "}}"),
                    engine_name=ENGINE,
                    kernel_name=kernel,
                    progress_bar=progress and {"file": sys.stderr},
                    start_timeout=120,
                    autosave_cell_every=10,
                    watch=watch,
                    echo=echo,
                )
                self._keep(self.target, watch.cell, whole=True)
            state, error, raised = "completed", "", SystemExit
        except KeyboardInterrupt:
            state, error, raised = "interrupted", "interrupted", KeyboardInterrupt
        except PapermillExecutionError as e:
            state, error, raised = self._cell_error(e)
        except CellTimeoutError:
            error = f"it took longer than {timeout:g} s"
        except DeadKernelError:
            words = watch.last_words()
            state, error = "killed", "its kernel died" + (f" ({clean_text(words, 300)})" if words else "")
        except UserError as e:  # of the kernel's provisioner: nothing has run
            error, raised = clean_text(str(e), 1000), UserError
        except InfrastructureError as e:
            error = clean_text(str(e), 1000)
        except RuntimeError as e:
            words = watch.last_words() or str(e)
            error = f"its kernel did not start ({clean_text(words, 300)})"
        except Exception as e:
            error = f"{type(e).__name__}: {clean_text(str(e), 500)}"
        finally:
            watch.kernel_log.close()
            if watch.interrupted and state != "completed":
                state, error, raised = "interrupted", "interrupted", KeyboardInterrupt
            self._end(state, error, watch.cell)
        if state != "completed":
            raise raised(self._sentence(error))

    @staticmethod
    def _cell_error(error: Any) -> tuple[str, str, type[BaseException]]:
        if error.ename == "KeyboardInterrupt":
            return "interrupted", "interrupted", KeyboardInterrupt
        message = clean_text(error.evalue, 1000)
        if error.ename == "UserError":
            return "failed", message, UserError
        kind = InfrastructureError if error.ename == "InfrastructureError" else NotebookError
        return "failed", f"{error.ename}: {message}" if message else error.ename, kind

    def _sentence(self, error: str) -> str:
        where = f"cell {self.status['cell']} of {self.status['cells']}"
        kept = f"; what ran is in {self.failed}" if self.failed.is_file() else ""
        return f"{error} ({self.status['notebook']}, {where}{kept})"

    def _end(self, state: str, error: str, cell: int) -> None:
        ended = datetime.now(UTC).isoformat(timespec="seconds")
        if state == "completed":
            self.failed.unlink(missing_ok=True)
        elif self.running.is_file():
            # The reason why it failed matters more than whether its remains can be tidied.
            with contextlib.suppress(Exception):
                self._keep(self.failed, cell, whole=False)
        self._write(state=state, error=error or None, ended=ended)

    def _keep(self, path: Path, cell: int, whole: bool) -> None:
        """Tidy the notebook that papermill wrote and give it its name in one step."""
        from .outputs import tidy
        from .quick import nbformat

        notebook = nbformat.read(self.running, as_version=4)
        notebook.metadata.papermill["output_path"] = str(path)
        notebook.metadata.papermill["input_path"] = self.status["notebook"]
        if not whole:
            _mark(notebook, cell)
        tidy(notebook)
        write_atomic(path, nbformat.writes(notebook))
        self.running.unlink()


def _mark(notebook: Any, cell: int) -> None:
    """Say which cell was running and which never ran; papermill calls them all completed."""
    notebook.metadata.papermill["exception"] = True
    own = [c for c in notebook.cells if "papermill-error-cell-tag" not in c.metadata.get("tags", [])]
    for index, each in enumerate(own):
        if index >= cell:
            status = {"status": "failed" if index == cell else "pending", "exception": index == cell}
            each.metadata.setdefault("papermill", {}).update(status)
