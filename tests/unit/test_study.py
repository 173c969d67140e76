"""What a study runs at each size: every row, each run once, what is left out and why."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jitmem_lab.cli import cli
from jitmem_lab.errors import UserError
from jitmem_lab.frames import frame as made_frame
from jitmem_lab.published import CELLS, QWEN
from jitmem_lab.report import Link, table_html, to_csv
from jitmem_lab.study.commands_of import cell_command
from jitmem_lab.study.parts import PARTS, roles_of
from jitmem_lab.study.plan import RUNS, Plan, make_plan
from jitmem_lab.study.reporting import write_study
from jitmem_lab.study.running import plan_of, read_study
from jitmem_lab.study.sizes import SIZES
from jitmem_lab.study.tables import EXECUTOR

pytestmark = pytest.mark.unit


@pytest.fixture(params=list(SIZES))
def plan(request: pytest.FixtureRequest, tmp_path: Path) -> Plan:
    return make_plan(request.param, tmp_path)


def test_every_row_is_run_or_left_out_with_a_reason(plan: Plan) -> None:
    shown = {(one.part.name, one.benchmark, row) for one in plan.parts for row in one.rows}
    for part in PARTS.values():
        for benchmark in part.benchmarks:
            for row in part.rows:
                out = (part.name, f"{part.name} on {benchmark}", f"{part.name}/{row}")
                reasons = [plan.left_out[name] for name in out if name in plan.left_out]
                assert ((part.name, benchmark, row) in shown) != bool(reasons), (part.name, benchmark, row)
                assert all(reasons)


def test_no_run_is_asked_for_twice_and_each_is_shown(plan: Plan) -> None:
    requests = Counter(json.dumps(cell.config.request(), sort_keys=True) for cell in plan.cells())
    assert set(requests.values()) == {1}
    shown = {name for one in plan.parts for names in one.rows.values() for name in names}
    assert shown == set(plan.all_cells)
    for one in plan.parts:
        for row, names in one.rows.items():
            orders = [plan.all_cells[name].config.order for name in names]
            assert orders == list(range(len(orders))), row


def test_a_model_of_every_role_stands_in_its_runs(plan: Plan) -> None:
    for one in plan.parts:
        for row, names in one.rows.items():
            world = plan.size.worlds[one.benchmark].fixed
            own = plan.size.rows.get(f"{one.part.name}/{row}", {})
            asked = {"model": "@executor"} | world | one.part.rows[row].parameters | own
            config = plan.all_cells[names[0]].config
            for name, value in asked.items():
                if roles_of({name: value}):
                    role = value[1:]
                    known = plan.roles.get(f"{role}-{one.benchmark}", plan.roles[role])
                    assert getattr(config, name) == known


def test_rows_named_like_the_papers_have_cells_there() -> None:
    for part in PARTS.values():
        printed = {
            cell.row
            for cell in CELLS
            if f"table {cell.table}" == part.source
            and cell.executor == EXECUTOR.get(part.name, QWEN)
            and cell.benchmark in part.benchmarks
        }
        assert {row.published for row in part.rows.values()} - {""} <= printed, part.name
        assert printed or part.name == "controls"


def test_the_command_of_a_run_asks_for_the_same_run(plan: Plan) -> None:
    from jitmem_lab.evaluation import EvalConfig

    for cell in plan.cells():
        words = iter(shlex.split(" ".join(cell_command(plan, cell)))[3:])
        asked: dict[str, Any] = {}
        for word in words:
            assert word == "-p"
            name, value = next(words), next(words)
            asked |= json.loads(value) if name == "more" else {name: value}
        asked = {
            name: value.replace("STUDY/", f"{plan.out.resolve()}/") if isinstance(value, str) else value
            for name, value in asked.items()
        }
        assert EvalConfig.make(**asked).request() == cell.config.request()


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"size": "huge"}, "no size 'huge'"),
        ({"parts": ["table_7"]}, "no part 'table_7'"),
        ({"roles": {"judge": "smol"}}, "no role 'judge'"),
        ({"games": 0}, "1 or more"),
        ({"orders": 0}, "1 or more"),
    ],
)
def test_wrong_studies_are_one_sentence(asked: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says):
        make_plan(**({"size": "smoke", "out": tmp_path} | asked))


def test_games_and_orders_are_upper_bounds(tmp_path: Path) -> None:
    plan = make_plan("mini", tmp_path, games=5, orders=2)
    assert {cell.config.games for cell in plan.cells()} == {5}
    assert {cell.config.order for cell in plan.cells()} == {0, 1}
    assert {cell.config.games for cell in make_plan("smoke", tmp_path, games=50).cells()} == {3}


def test_roles_go_their_way_and_a_given_curator_is_not_trained(tmp_path: Path) -> None:
    plan = make_plan("smoke", tmp_path, roles={"trained": "hf:/elsewhere", "writer": "smol"})
    assert not plan.trains
    assert plan.all_cells["alfworld-generated_test-jitmem_trained-order0"].config.curator_model == (
        "hf:/elsewhere"
    )
    assert plan.all_cells["alfworld-generated_test-memp-order0"].config.curator_model == "smol"
    assert make_plan("smoke", tmp_path).trains


def test_nothing_that_was_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nothing was run"):
        write_study(make_plan("smoke", tmp_path))
    with pytest.raises(UserError, match="there is no study"):
        read_study(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", '{"state": 3}', '{"state": "running", "steps": 7}'])
def test_a_broken_status_is_one_sentence(text: str, tmp_path: Path) -> None:
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(UserError, match="not the status of a study"):
        plan_of(tmp_path)


def test_the_plan_is_shown_and_runs_nothing(tmp_path: Path) -> None:
    asked = ["study", "plan", "--size", "paper", "-o", str(tmp_path / "s"), "--part", "table_8", "--json"]
    said = CliRunner().invoke(cli, asked)
    told = json.loads(said.output)
    assert told["runs"] == sum(part["runs"] for part in told["parts"]) > 0
    assert not (tmp_path / "s").exists()


def test_a_link_leads_beside_the_page_only() -> None:
    frame = made_frame([{"row": Link("<b>", "../runs/a%20b/")}])
    assert '<a href="../runs/a%20b/">&lt;b&gt;</a>' in table_html(frame)
    assert to_csv(frame) == "row\n<b>\n"
    for href in ("javascript:alert(1)", "https://example.org/", "//example.org/"):
        with pytest.raises(UserError, match="not beside the page"):
            Link("x", href)


def test_a_split_that_was_begun_stays_whatever_data_is_found_later(tmp_path: Path) -> None:
    (tmp_path / RUNS / "alfworld-generated_test-none-order0").mkdir(parents=True)
    assert {planned.split for planned in make_plan("mini", tmp_path).parts} == {"generated_test"}
    (tmp_path / RUNS / "alfworld-generated_test-none-order0").rename(
        tmp_path / RUNS / "alfworld-valid_seen-none-order0"
    )
    assert {planned.split for planned in make_plan("mini", tmp_path).parts} == {"valid_seen"}


@pytest.mark.parametrize("size", ["mini", "paper"])
def test_a_run_has_the_same_name_whichever_parts_are_asked_for(size: str, tmp_path: Path) -> None:
    whole = make_plan(size, tmp_path)
    for part in PARTS:
        cells = make_plan(size, tmp_path, parts=[part]).all_cells
        assert all(cell.config == whole.all_cells[name].config for name, cell in cells.items())
