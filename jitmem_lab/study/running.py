"""Running a study: training, runs, pages, report; each goes on where it stopped."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import InfrastructureError, JitmemError, UserError
from ..files import make_folder, parse_json, read_object, write_json
from ..grids import Cell
from ..runs import Run, RunLock
from ..sweep import Sweep, check_folder, run_sweep
from ..sweeping.check import check_cells
from ..sweeping.engines import Engine
from .plan import REFRESH, RUNS, TRAINING, Plan, make_plan, own_curator
from .sizes import SIZES

STATUS = "study.json"
"""Name of a study's status file."""
PAGES, REPORT = "pages", "report"
"""Folders of the executed notebooks and the report."""


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


class _Steps:
    """The study's status, step by step."""

    def __init__(self, plan: Plan, names: list[str]) -> None:
        self.plan = plan
        self.begun = time.time()
        self.steps = {name: {"state": "owed", "seconds": None, "error": None} for name in names}

    @contextlib.contextmanager
    def step(self, name: str, says: str) -> Iterator[dict[str, Any]]:
        """A step; what it raises is told in the status and goes on."""
        row: dict[str, Any] = self.steps[name]
        row["state"] = "running"
        number = list(self.steps).index(name) + 1
        _say(f"[{number}/{len(self.steps)}] {says}")
        self.write("running")
        began = time.perf_counter()
        try:
            yield row
            row["state"] = "completed" if row["error"] is None else "incomplete"
        except BaseException as error:
            row["state"] = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            row["error"] = f"{type(error).__name__}: {error}".rstrip(": ")
            raise
        finally:
            row["seconds"] = round(time.perf_counter() - began, 1)
            self.write("running")

    def write(self, state: str) -> None:
        """Write the status file."""
        write_json(
            self.plan.out / STATUS,
            {
                "state": state,
                "size": self.plan.size.name,
                "asked": self.plan.asked,
                "pid": os.getpid(),
                "started": self.begun,
                "updated": time.time(),
                "steps": self.steps,
            },
        )


def run_study(
    plan: Plan,
    *,
    concurrency: int = 4,
    engine: Engine | None = None,
    cache: str | Path | None = None,
    timeout: float = 120.0,
    notebooks: bool = False,
    pages: bool = True,
    progress: bool = True,
) -> Path:
    """Run what a study asks for, or what is missing of it, and write its report.

    Args:
        plan: What is run.
        concurrency: Episodes at once, within one run.
        engine: Who plays the runs, as for `run_sweep`.
        cache: SQLite file of model answers; None for none.
        timeout: Seconds after which a model call counts as failed.
        notebooks: Keep each run as notebook 20_evaluate.
        pages: Make the pages of `21_compare` and `40_qualitative`.
        progress: Whether to draw bars.

    Returns:
        The report. A run that failed stops no other; the report tells which are missing.

    Raises:
        UserError: Wrong parameters, or a folder that holds something else; nothing was run.
        InfrastructureError: The training's executor is gone, or every episode ended in an error; the same
            call goes on.
        KeyboardInterrupt: The user stopped it; the same call goes on.
    """
    from .reporting import write_study

    out = plan.out
    _check_models(plan)
    make_folder(out)
    names = [TRAINING] if plan.trains else []
    names += [REFRESH] if plan.refreshes else []
    names += [RUNS, *([PAGES] if pages else []), REPORT]
    with RunLock(out):
        _check_folder(plan)
        shown = _with_parts_before(plan)
        steps = _Steps(shown, names)
        state = "failed"
        try:
            if plan.trains:
                with steps.step(TRAINING, "training a curator") as row:
                    _train(plan, progress)
                    row["error"] = _lost_curator(plan)
            if plan.refreshes:
                with steps.step(REFRESH, "training it further over a rebuilt bank") as row:
                    row["error"] = _refresh(plan, concurrency, progress)
            cells = [cell for cell in plan.cells() if has_curator(plan, cell)]
            with steps.step(RUNS, f"{len(cells)} runs") as row:
                sweep = run_sweep(
                    cells,
                    out=out / RUNS,
                    concurrency=concurrency,
                    cache=cache,
                    timeout=timeout,
                    notebooks=notebooks,
                    engine=engine,
                    progress=progress,
                )
                row["error"] = _unfinished(sweep)
                _some_played(sweep)
            if pages:
                with steps.step(PAGES, "pages") as row:
                    row["error"] = _pages(shown, progress)
            with steps.step(REPORT, "the report"):
                page = write_study(shown)[-1]
            state = (
                "completed"
                if all(_is_complete(out / RUNS / name) for name in shown.all_cells)
                else "incomplete"
            )
        except KeyboardInterrupt:
            state = "interrupted"
            raise
        finally:
            steps.write(state)
    return page


def read_study(out: str | Path) -> dict[str, Any]:
    """The status of the study in a folder; `state` is running only while its process lives, else killed.

    Raises:
        UserError: There is no study, or its status cannot be read.
    """
    file = Path(out) / STATUS
    try:
        status: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))
        running = status["state"] == "running"
        [step["state"] for step in status["steps"].values()]
    except OSError:
        raise UserError(f"there is no study in {out}; `jitmem study run -o {out}` begins one") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{file} is not the status of a study; remove it and run the study again") from None
    if running and not RunLock(Path(out)).held():
        status["state"] = "killed"
        for step in status["steps"].values():
            step["state"] = "killed" if step["state"] == "running" else step["state"]
    return status


def plan_of(out: str | Path) -> Plan:
    """The plan of the study in a folder, as it was last asked for.

    Raises:
        UserError: There is no study, or its status cannot be read.
    """
    status = read_study(out)
    asked = status.get("asked")
    try:
        return _made(_text(status["size"]), out, dict(asked) if isinstance(asked, dict) else {})
    except (KeyError, TypeError, ValueError):
        raise UserError(f"{Path(out) / STATUS} is not the status of a study; run the study again") from None


def _made(size: str, out: str | Path, asked: Mapping[str, Any]) -> Plan:
    """A plan from what was asked, as it is recorded."""
    return make_plan(
        size,
        out,
        parts=_list(asked.get("part")),
        roles={str(role): str(model) for role, model in _list(asked.get("role"))},
        games=asked.get("games"),
        orders=asked.get("orders"),
    )


def _list(value: Any) -> list[Any]:
    """A list that may be missing; `TypeError` for something else."""
    if not isinstance(value, list | type(None)):
        raise TypeError
    return value or []


def _text(value: Any) -> str:
    """A text; `TypeError` for something else."""
    if not isinstance(value, str):
        raise TypeError
    return value


def _with_parts_before(plan: Plan) -> Plan:
    """The plan that is reported: with the parts that were asked for earlier, unless anything else differs."""
    with contextlib.suppress(UserError):
        before = plan_of(plan.out)
        same = before.size is plan.size and before.roles == plan.roles  # in whatever order they were given
        same &= all(before.asked.get(name) == plan.asked.get(name) for name in ("games", "orders"))
        if same and "part" in plan.asked:
            parts = [*before.asked["part"], *plan.asked["part"]] if "part" in before.asked else []
            return _made(plan.size.name, plan.out, plan.asked | {"part": parts})
    return plan


def _is_complete(folder: Path) -> bool:
    with contextlib.suppress(UserError):
        return Run(folder).status().get("state") == "completed"
    return False


def _check_models(plan: Plan) -> None:
    """`UserError` for what could not be run, before anything is made."""
    own = {own_curator(plan.out, stage) for stage in (TRAINING, REFRESH)}
    for role, model in plan.roles.items():
        folder = Path(model.removeprefix("hf:"))
        if model.startswith("hf:") and folder.is_absolute() and model not in own and not folder.is_dir():
            raise UserError(f"the model of role {role}, {model}, is not there; check the path")
    check_cells(plan.cells())


def _check_folder(plan: Plan) -> None:
    """`UserError` if the folder holds something else, before its status is written."""
    before = (read_object(plan.out / STATUS) or {}).get("size")
    if before != plan.size.name and before in list(SIZES):
        raise UserError(
            f"{plan.out} holds a study of size {before}; choose another folder with -o, or give --size "
            f"{before}"
        )
    _check_moved(plan)
    check_folder(plan.cells(), plan.out / RUNS)


def _check_moved(plan: Plan) -> None:
    """`UserError` if the study was begun in another folder: its runs name the curator that is there."""
    for cell in plan.cells():
        mine = cell.config.curator_model
        for stage in (TRAINING, REFRESH):
            own = own_curator(plan.out, stage)
            asked = (read_object(plan.out / RUNS / cell.name / "config.json") or {}).get("request")
            there = asked.get("curator_model") if isinstance(asked, dict) else None
            tail = own.removeprefix(f"hf:{plan.out.resolve()}")
            if mine == own and isinstance(there, str) and there != own and there.endswith(tail):
                begun = there.removeprefix("hf:").removesuffix(tail)
                raise UserError(
                    f"{plan.out} was moved: its runs name the curator in {begun}; move it back there to "
                    "go on (`jitmem study report` works here too), or choose another folder with -o"
                )


def _some_played(sweep: Sweep) -> None:
    """An error if no run has an episode with a result, with the reason of the first."""
    if any(place.done() for place in sweep.places) or not sweep.failed():
        return
    first = sweep.failed()[0]
    kind = UserError if (first.error or "").startswith("UserError: ") else InfrastructureError
    why = (first.error or first.state).removeprefix("UserError: ")
    raise kind(f"no run has an episode with a result; {first.cell.name}: {why}")


def _train(plan: Plan, progress: bool) -> None:
    from ..training import TrainConfig, train

    assert plan.size.training is not None
    train(TrainConfig.make(**plan.size.training), plan.out / TRAINING, progress=progress)


def _lost_curator(plan: Plan) -> str | None:
    """Why a training that has ended has no curator all the same."""
    folder = plan.out / TRAINING
    if (folder / "curator" / "chosen.json").is_file():
        return None
    why = f"its curator was removed; remove {folder} too, and the same command trains again"
    _say(f"the training has ended, but {why}")
    return why


def _refresh(plan: Plan, concurrency: int, progress: bool) -> str | None:
    """Why there is no refreshed curator; the study goes on without its rows."""
    from ..training.refreshing import refresh

    assert plan.size.refresh is not None
    asked = {"concurrency": concurrency, "progress": progress, **plan.size.refresh}
    try:
        refresh(plan.out / TRAINING, plan.out / REFRESH, **asked)
    except UserError as error:  # such as a bank without a success
        _say(f"no refreshed curator: {error}")
        return str(error)
    return None


def has_curator(plan: Plan, cell: Cell) -> bool:
    """Whether the curator of a run is there, if it is one that the study trains itself."""
    own = {own_curator(plan.out, stage) for stage in (TRAINING, REFRESH)}
    name = cell.config.curator_model
    return name not in own or (Path(name.removeprefix("hf:")) / "chosen.json").is_file()


def _unfinished(sweep: Sweep) -> str | None:
    missing = sweep.failed()
    return f"{len(missing)} of {len(sweep.places)} runs are not complete" if missing else None


def _pages(plan: Plan, progress: bool) -> str | None:
    """Make the notebooks' pages; which failed and why, for one that fails stops no other."""
    from ..notebooks import run_notebook
    from ..notebooks.export import to_html

    failed = []
    for name, values in page_parameters(plan).items():
        try:
            to_html(run_notebook(name, values, output=plan.out / PAGES / f"{name}.ipynb", progress=progress))
        except JitmemError as error:
            failed.append(f"{name}: {error}")
    return "; ".join(failed) or None


def page_parameters(plan: Plan) -> dict[str, dict[str, Any]]:
    """Parameters of the notebooks that make the study's pages."""
    main = plan.main
    if main is None:
        return {}
    runs = plan.out.resolve() / RUNS

    def there(name: str) -> bool:
        with contextlib.suppress(UserError):
            return Run(runs / name).path.is_dir()
        return False

    played = [name for names in main.rows.values() for name in names if there(name)]
    shown = ("none", "jitmem", "jitmem trained")
    beside = [main.rows[row][0] for row in shown if row in main.rows and there(main.rows[row][0])]
    pages: dict[str, dict[str, Any]] = {}
    if played:
        folder = str(plan.out.resolve() / PAGES / "compare")
        pages["21_compare"] = {"runs": [str(runs / name) for name in played], "out": folder}
    if len(beside) > 1:
        folder = str(plan.out.resolve() / PAGES / "qualitative")
        chosen = {"runs": [str(runs / name) for name in beside], "out": folder, "images": False}
        pages["40_qualitative"] = chosen
    return pages
