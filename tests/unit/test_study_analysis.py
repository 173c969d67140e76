"""Why an ordering came out as it did: by type of task, and by what payloads held."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from jitmem_lab.comparison import Comparison
from jitmem_lab.runs import Run
from jitmem_lab.study.analysis import held, solution_table, solutions, type_steps_table, type_table

from .compared import make_run

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Comparison:
    root = tmp_path_factory.mktemp("runs")
    groups: dict[str, list[Run]] = {}
    for memory in ("none", "raw", "jitmem"):
        for order in (0, 1):
            path: Path = root / f"{memory}-{order}"
            make_run(path, "alfworld", "generated_test", memory, order)
            groups.setdefault(memory, []).append(Run(path))
    return Comparison.of(groups)


def test_an_action_counts_where_it_stands_word_for_word() -> None:
    solution = ["go to shelf 1", "take mug 1 from shelf 1", "go to shelf 1"]
    assert held("1. Go to  shelf 1\n2. look", solution) == 0.5
    assert held("1. go to shelf 10\n2. ago to shelf 1st", solution) == 0.0
    assert held("go to\nshelf 1, then take mug 1 from shelf 1.", solution) == 1.0
    assert held("", solution) == 0.0
    assert held("anything", []) is None
    assert held("a.c", ["a.c"]) == 1.0
    assert held("abc", ["a.c"]) == 0.0


def test_steps_by_type_have_every_task_once_and_begin_with_what_speaks_against_them(
    comparison: Comparison,
) -> None:
    table = type_steps_table(comparison, ["jitmem", "raw", "none"], draws=50)
    for step in ("jitmem against raw", "raw against none"):
        better = step.split()[0]
        group = next(group for group in comparison.groups if group.label == better)
        tasks = {episode.task.task_id for episode in group.episodes if episode.outcome != "error"}
        assert sum(table[table["step"] == step]["tasks"]) == len(tasks)
    gaps = [float(value) for value in table["difference"]]
    assert gaps == sorted(gaps)
    assert all(float(p) <= float(q) for p, q in zip(table["p"], table["p Holm"], strict=True))


def test_payloads_are_counted_by_what_they_hold(comparison: Comparison) -> None:
    (jitmem,) = (group for group in comparison.groups if group.label == "jitmem")
    scored = [e for e in jitmem.episodes if e.outcome != "error" and e.recall.payload]
    assert scored
    known = {e.task.task_id: [" ".join(e.recall.payload.split()[:3]), "not there at all"] for e in scored}
    table = solution_table(comparison, known)
    row = table[table["row"] == "jitmem"].iloc[0]
    assert row["payloads"] == len(scored)
    assert 0 < float(row["of the solution"]) <= 50
    assert "none" not in list(table["row"])  # it shows no payload
    assert len(solution_table(comparison, {})) == 0


def test_solutions_that_cannot_be_had_are_left_out(comparison: Comparison) -> None:
    ids = {episode.task.task_id for group in comparison.groups for episode in group.episodes}
    assert set(solutions(comparison)) <= ids
    elsewhere = [replace(group, benchmark="nowhere") for group in comparison.groups]
    assert solutions(replace(comparison, groups=elsewhere)) == {}


def test_types_have_a_column_each(comparison: Comparison) -> None:
    table = type_table(comparison)
    assert list(table["row"]) == [group.label for group in comparison.groups]
    assert sum(int(name.rpartition("(")[2].rstrip(")")) for name in table.columns[1:]) == len(
        {episode.task.task_id for group in comparison.groups for episode in group.episodes}
    )
