"""What a study publishes, and that README shows what was published."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from jitmem_lab import browser
from jitmem_lab.cli import cli
from jitmem_lab.errors import UserError
from jitmem_lab.study import running
from jitmem_lab.study.figures import PLAIN, READ, rates_figure
from jitmem_lab.study.plan import RUNS, make_plan
from jitmem_lab.study.publishing import TABLE, markdown, publish
from jitmem_lab.study.running import STATUS, plan_of
from jitmem_lab.study.tables import compared

from .compared import make_run

pytestmark = pytest.mark.unit
ROOT = Path(__file__).parents[2]
PUBLISHED = ROOT / "notebooks" / "study-mini"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """A study's folder with two memories in two orders."""
    out = tmp_path / "s"
    for memory in ("none", "jitmem"):
        for order in (0, 1):
            folder = out / RUNS / f"alfworld-generated_test-{memory}-order{order}"
            make_run(folder, "alfworld", "generated_test", memory, order)
    asked: dict[str, Any] = {"part": ["table_1"], "orders": 2}
    status = {"state": "completed", "size": "smoke", "asked": asked, "steps": {}}
    (out / STATUS).write_text(json.dumps(status))
    return out


def test_rates_are_shown_row_by_row_with_intervals_and_single_orders(study: Path) -> None:
    plan = plan_of(study)
    (main,) = plan.parts
    figure = rates_figure(compared(plan, main), list(main.rows), draws=50)
    assert list(figure.layout.yaxis.categoryarray) == ["jitmem", "none"]  # from below
    by_colour = {trace.marker.color: trace for trace in figure.data if trace.error_x.array is not None}
    assert {colour: list(trace.y) for colour, trace in by_colour.items()} == {
        PLAIN: ["none"],
        READ: ["jitmem"],
    }
    for trace in by_colour.values():
        single = next(t for t in figure.data if t.marker.color == trace.marker.color and t is not trace)
        assert sum(single.x) / len(single.x) == pytest.approx(trace.x[0])
        assert 0 <= trace.x[0] - trace.error_x.arrayminus[0] <= trace.x[0] + trace.error_x.array[0] <= 100


def test_tables_are_kept_as_they_are_in_the_report(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browser, "find_browser", lambda: None)
    said = publish(plan_of(study), tmp_path / "kept", draws=50)
    assert "no pictures" in said[-1]
    for file in (tmp_path / "kept").glob("*.csv"):
        assert file.read_bytes() == (study / "report" / file.name).read_bytes()
    head, line, *rows = (tmp_path / "kept" / TABLE).read_text().splitlines()
    assert [row.split(" | ")[0] for row in rows if "not run" not in row][:1] == ["| none"]
    assert {text.count("|") for text in (head, line, *rows)} == {head.count("|")}
    assert "paper, " in head.split("|")[-2]


def test_a_study_without_table_1_and_a_folder_that_is_none_are_one_sentence(
    study: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="no table 1"):
        publish(make_plan("smoke", study, parts=["table_8"]), tmp_path)
    (tmp_path / "file").write_text("")
    said = CliRunner().invoke(
        cli, ["study", "report", str(study), "--publish", str(tmp_path / "file"), "--json"]
    )
    assert isinstance(said.exception, UserError)
    assert "cannot be made" in str(said.exception)


def test_parts_that_were_asked_for_before_stay_in_the_report(study: Path) -> None:
    def shown(**asked: Any) -> list[str]:
        plan = running._with_parts_before(make_plan("smoke", study, **asked))
        return [planned.part.name for planned in plan.parts]

    assert shown(parts=["table_8"], orders=2) == ["table_1", "table_8"]
    assert shown(parts=["table_8"], orders=1) == ["table_8"]
    assert len(shown(orders=2)) > 2
    asked = {"state": "completed", "size": "smoke", "asked": {}, "steps": {}}
    (study / STATUS).write_text(json.dumps(asked))
    assert shown(parts=["table_8"]) == shown()
    (study / STATUS).write_text("{")
    assert shown(parts=["table_8"]) == ["table_8"]


def test_a_mark_of_columns_in_a_name_stays_in_its_cell() -> None:
    assert markdown("row,SR\na|b,1.0\n").splitlines()[-1] == r"| a\|b | 1.0 |"


def test_the_readme_shows_the_published_table() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    between = re.search(r"<!-- study -->\n(.*?)\n<!-- /study -->", readme, re.S)
    assert between is not None, "the README has no lines <!-- study --> and <!-- /study -->"
    assert between[1].strip() == (PUBLISHED / TABLE).read_text(encoding="utf-8").strip()
    (source,) = PUBLISHED.glob("table_1_*.csv")
    assert markdown(source.read_text(encoding="utf-8")) == (PUBLISHED / TABLE).read_text(encoding="utf-8")
