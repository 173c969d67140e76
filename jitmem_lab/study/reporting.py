"""The study's report: one page that opens from disk, with the tables' files beside it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..compare_figures import curve_figures
from ..compare_pairs import steps_table
from ..compare_report import PAPER_NOTE
from ..compare_tables import NONE, table_2, table_4
from ..comparison import Comparison, Group
from ..errors import UserError
from ..frames import frame
from ..inference import few_orders
from ..published import BENCHMARKS
from ..report import Link, Section, write_report
from ..statistics import over_orders
from .analysis import solution_table, solutions, type_steps_table, type_table
from .commands_of import STUDY, cell_command, study_command
from .figures import rates_figure
from .plan import REFRESH, RUNS, TRAINING, Plan, Planned
from .running import PAGES, REPORT
from .tables import best_written, compared, part_table, payload_table, run_of, run_table

if TYPE_CHECKING:
    import pandas as pd

READING = (
    "SR: success rate in percent, mean (sample std over orders); 95 %: bootstrap over tasks and orders. "
    "Differences in points on the same tasks in the same orders, with paired bootstrap intervals; p by "
    "flipping the signs of the tasks' mean differences, a task counting once; p Holm: corrected for the rows "
    "of the table; detectable: the true difference that so many tasks that differ as much would show with p "
    "below 0.05 four times of five. Tokens in thousands a task."
)


def write_study(plan: Plan, draws: int = 10_000) -> list[Path]:
    """Write each table as CSV and LaTeX, and `report/report.html`, from what has been run.

    Returns:
        The files' paths, the page's last.

    Raises:
        UserError: Nothing was run yet, or the folder cannot be written to.
    """
    sections = list(study_sections(plan, draws))
    title = f"Just-in-time memory, the study at size {plan.size.name}"
    return write_report(plan.out / REPORT, title, sections)


def study_sections(plan: Plan, draws: int = 10_000) -> Iterator[Section]:
    """Every section in the report's order."""
    parts = [(planned, compared(plan, planned)) for planned in plan.parts]
    if not any(comparison.groups for _, comparison in parts):
        any_there = any((plan.out / RUNS / name).is_dir() for name in plan.all_cells)
        why = "no run has an episode with a result yet" if any_there else "nothing was run yet"
        raise UserError(f"{why} in {plan.out}; `jitmem study run` goes on")
    yield _setting(plan)
    main = [(planned, found) for planned, found in parts if planned.part.name == "table_1"]
    for planned, comparison in main:
        yield from _part(plan, planned, comparison, draws)
        yield from _main_sections(comparison, planned, draws)
    for planned, comparison in parts:
        if planned.part.name != "table_1":
            yield from _part(plan, planned, comparison, draws)
    for planned, comparison in main:
        yield Section(
            f"table_4_{_key(planned)}",
            f"Efficiency on {_where(planned)} (table 4)",
            "Tokens in thousands and steps a task, means over orders: the executor's own, as the paper "
            f"counts them, then those of all roles that write, with memory's writes.\n{PAPER_NOTE}",
            _steady(table_4(comparison)),
        )
        yield Section(
            f"curves_{_key(planned)}",
            f"Success over the stream, {_where(planned)}",
            "Share of successes among the games so far, mean over the orders.",
            figures=curve_figures(comparison),
        )
    yield from _trainings(plan)
    yield from _pages(plan)
    yield _threats(plan, [comparison for _, comparison in parts])
    yield Section(
        "runs",
        "Every run",
        "Where its directory is, which rows it stands in, what has to be told with its figures (its card's "
        "cautions; `jitmem runs show` prints the whole card), and the command that makes it again "
        f"({STUDY} is this study's folder).",
        run_table(plan, {name: cell_command(plan, cell) for name, cell in plan.all_cells.items()}),
    )


def _setting(plan: Plan) -> Section:
    """What was asked, with which models, by which command."""
    rows: list[dict[str, Any]] = [
        {"what": "size", "value": f"{plan.size.name}: {plan.size.says}"},
        {"what": "command", "value": " ".join(study_command(plan))},
    ]
    rows += [
        {"what": f"model: {role}", "value": _model(plan, name)} for role, name in sorted(plan.roles.items())
    ]
    for planned in plan.parts:
        cells = [plan.all_cells[name] for names in planned.rows.values() for name in names]
        games = sorted({str(cell.config.games or "all") for cell in cells})
        orders = len({cell.config.order for cell in cells})
        counted = "1 order" if orders == 1 else f"{orders} orders"
        told = f"{planned.benchmark} {planned.split}, {' or '.join(games)} games, {counted}"
        rows.append({"what": f"{planned.part.name} ({planned.part.source})", "value": told})
    text = (
        "Made by one command from run directories that lie beside this page; rows lead to their first run, "
        "and every run is listed at the end. Nothing here is a reproduction of the paper's figures: the "
        "models are others. Where the paper's cells are shown they stand in columns that begin with “paper”."
    )
    return Section("setting", "Setting", "\n".join([text, READING, PAPER_NOTE, *plan.notes]), frame(rows))


def _model(plan: Plan, name: str) -> str:
    """A model's name; of one that the study trained, where it lies in the study's folder."""
    return name.replace(f"{plan.out.resolve()}/", f"{STUDY}/")


def _main_sections(comparison: Comparison, planned: Planned, draws: int) -> Iterator[Section]:
    """The ordering trained, untrained, best write-time, none, step by step; by type of task; payloads."""
    groups = {group.label: group for group in comparison.groups}
    best = best_written(groups)
    labels = [name for name in ("jitmem trained", "jitmem", best, "none") if name and name in groups]
    if len(labels) < 2:
        return
    rates = [f"{label} {_rate(groups[label])}" for label in labels]
    held = all(_success(groups[a]) >= _success(groups[b]) for a, b in pairwise(labels))
    chosen = (
        f"{best} is the best of the write-time systems on these very games, which flatters it."
        if best
        else "No write-time system was run."
    )
    yield Section(
        f"ordering_{_key(planned)}",
        f"The ordering on {_where(planned)}",
        f"Paper: trained JitMem, JitMem, the best write-time system, none. Here, in the paper's order: "
        f"{'; '.join(rates)}. {'The means stand in that order.' if held else 'The means do NOT stand so.'} "
        f"{chosen}",
        steps_table(comparison, labels, draws).drop(columns=["benchmark", "split"], errors="ignore"),
    )
    yield Section(
        f"types_{_key(planned)}",
        f"Success by type of task, {_where(planned)}",
        "In percent, mean over orders; the number of tasks stands beside the type.",
        type_table(comparison),
    )
    yield Section(
        f"types_steps_{_key(planned)}",
        f"The ordering by type of task, {_where(planned)}",
        f"The steps of the ordering within each type: those that speak most against it stand first. {chosen}",
        type_steps_table(comparison, labels, draws),
    )
    yield Section(
        f"solutions_{_key(planned)}",
        f"What payloads held of the solution, {_where(planned)}",
        "Mean share, in percent, of the actions of a task's own solution (which no system was shown) that "
        "stand in its payload word for word, then success where none, some, and half or more of "
        "them do, with the number of episodes. A match of texts: the executor may have gone another way; and "
        "tasks of different columns differ in difficulty, so this describes and shows no effect.",
        solution_table(comparison, solutions(comparison)),
    )
    yield Section(
        f"payloads_{_key(planned)}",
        f"Payloads to read, {_where(planned)}",
        "Of each pattern of wins and losses among these systems the first task of the first order, with what "
        "each was shown: chosen to show what can happen, not how often.",
        payload_table(comparison, labels),
    )


def _where(planned: Planned) -> str:
    return f"{BENCHMARKS.get(planned.benchmark, planned.benchmark)} {planned.split}"


def _success(group: Group) -> float:
    return over_orders(group.streams).mean or 0.0


def _rate(group: Group) -> str:
    return f"{100 * _success(group):.1f} %"


def _key(planned: Planned) -> str:
    """What tells a part's sections from those of another split."""
    return f"{planned.benchmark}_{planned.split}"


def _part(plan: Plan, planned: Planned, comparison: Comparison, draws: int) -> Iterator[Section]:
    """A part's table; of table 2 also success by domain."""
    part, where = planned.part, _where(planned)
    missing = [
        f"{key.partition('/')[2]} ({why})"
        for key, why in plan.left_out.items()
        if key.startswith(f"{part.name}/")
    ]
    said = part.says + (f"\nNot run: {'; '.join(missing)}." if missing else "")
    orders = max((len(names) for names in planned.rows.values()), default=0)
    few = few_orders(orders)
    name = f"{part.name}_{_key(planned)}"
    yield Section(
        name,
        f"{part.title}: {where} ({part.source})",
        said + (f"\n{few[:1].upper()}{few[1:]}." if few else ""),
        part_table(planned, comparison, draws),
        [rates_figure(comparison, list(planned.rows), draws)] if comparison.groups else (),
    )
    if part.name == "table_2" and comparison.groups:
        yield Section(f"{name}_paper", f"Domains, {where}", PAPER_NOTE, table_2(comparison))


def _steady(table: pd.DataFrame) -> pd.DataFrame:
    """A table without what the clock tells, so that the same runs give the same bytes."""
    return table.drop(columns=[name for name in table.columns if name == "model s"])


def _trainings(plan: Plan) -> Iterator[Section]:
    """Reward and held-out success over each training's steps (figures 5 and 6)."""
    from ..training.figures import training_figure
    from ..training.runs import TrainRun, is_training

    stages = {TRAINING: (plan.trains, plan.out / TRAINING)}
    stages[REFRESH] = (plan.refreshes, plan.out / REFRESH / "run")
    for name, (asked, folder) in stages.items():
        if not asked or not is_training(folder):
            continue
        title = f"{'The training' if name == TRAINING else 'Staged refresh'} (figures 5 and 6)"
        try:
            run = TrainRun(folder)
        except UserError as error:
            yield Section(name, title, str(error))
            continue
        if run.chosen() is None:
            continue
        held = run.heldout()
        kept = [column for column in ("step", "games", "won", "success_rate") if column in held.columns]
        chosen = run.chosen() or {}
        cautions = "\n".join(run.cautions())
        yield Section(
            name,
            title,
            f"Reward of each batch and success on held-out tasks, on which the checkpoint was chosen "
            f"(step {chosen.get('step', NONE)}). Directory: {folder.relative_to(plan.out)}.\n{cautions}",
            held[kept],
            figures=[training_figure(run, clock=False)],
        )


def _pages(plan: Plan) -> Iterator[Section]:
    """Links to the notebooks' pages."""
    rows = [
        {"page": Link(name, f"../{PAGES}/{name}.html"), "shows": says}
        for name, says in (
            ("21_compare", "every table of the comparison, costs by role, wins by task"),
            ("40_qualitative", "single tasks closely: traces, payload, what was done (figures 3 and 4)"),
        )
        if (plan.out / PAGES / f"{name}.html").is_file()
    ]
    if rows:
        yield Section("pages", "Pages", "Made by the notebooks, beside this page.", frame(rows))


def _threats(plan: Plan, comparisons: list[Comparison]) -> Section:
    """What weakens these figures, and what was not run."""
    said = [
        f"Size {plan.size.name}: {plan.size.says}. Small models show that a mechanism works here, not how "
        "much it gives a large one."
    ]
    said += [*plan.size.threats, *plan.notes]
    said += [
        f"{caution} ({', '.join(where)})" for c in comparisons for caution, where in c.cautions().items()
    ]
    rows = [{"threat": text, "kind": "to be told"} for text in dict.fromkeys(said)]
    rows += [{"threat": f"{key}: {why}", "kind": "not run"} for key, why in sorted(plan.left_out.items())]
    missing = {name: why for name in plan.all_cells for run, why in [run_of(plan, name)] if run is None}
    rows += [{"threat": f"run {name} is missing: {why}", "kind": "not run"} for name, why in missing.items()]
    return Section("threats", "Threats, and what was not run", "", frame(rows))
