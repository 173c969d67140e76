"""What breaks a study: damaged files, wrong models and folders, a full disk, closed streams."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from jitmem_lab.cli import _run, cli
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.runs import Run
from jitmem_lab.study import analysis, publishing, running
from jitmem_lab.study.plan import RUNS, Plan, make_plan, own_curator
from jitmem_lab.study.reporting import write_study
from jitmem_lab.study.running import STATUS, plan_of, read_study, run_study
from jitmem_lab.study.tables import compared
from jitmem_lab.sweep import Place, Sweep
from jitmem_lab.terminal import exit_code

from .compared import make_run

pytestmark = pytest.mark.unit
ASKED: dict[str, Any] = {"parts": ["table_1"], "orders": 1, "games": 2}
NONE, JITMEM = (f"alfworld-generated_test-{memory}-order0" for memory in ("none", "jitmem"))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study's folder with two of its three runs, and a status."""
    out = tmp_path_factory.mktemp("made") / "s"
    for name in (NONE, JITMEM):
        make_run(out / RUNS / name, "alfworld", "generated_test", name.split("-")[2], 0)
    status = {"state": "completed", "size": "smoke", "asked": {"part": ["table_1"], "orders": 1, "games": 2}}
    (out / STATUS).write_text(json.dumps(status | {"steps": {"runs": {"state": "completed"}}}))
    return out


@pytest.fixture
def study(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "s"))


def report(study: Path) -> str:
    return write_study(plan_of(study), draws=50)[-1].read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["{", "[]", '{"schema_version": 99, "settings": {}}', "\udcff"])
def test_a_damaged_run_is_told_and_the_others_are_shown(text: str, study: Path) -> None:
    (study / RUNS / JITMEM / "config.json").write_text(text, errors="surrogateescape")
    page = report(study)
    assert f"run {JITMEM} is missing" in page
    assert ">damaged<" in page
    assert f'<a href="../runs/{NONE}/">none</a>' in page


def test_damaged_lines_and_verdicts_are_left_out(study: Path) -> None:
    for name in (NONE, JITMEM):
        folder = study / RUNS / name
        key = Run(folder).latest()[0].key
        lines = b'\xff\xfe\x00\n[]\n{}\n{"key": 3}\n'
        for file, more in (
            ("episodes.jsonl", b""),
            ("writes.jsonl", json.dumps({"key": key, "verdict": {"success": []}}).encode() + b"\n"),
        ):
            whole = (folder / file).read_bytes()
            (folder / file).write_bytes(lines + more + whole[: len(whole) - 20])
    assert "table 1" in report(study)


def test_a_damaged_training_leaves_the_report(study: Path) -> None:
    folder = study / "training"
    folder.mkdir()
    (folder / "train.json").write_bytes(b"\xff")
    assert "restore it or start a new training" in report(study)


def test_texts_of_a_run_cannot_break_out_of_the_page(study: Path) -> None:
    bad = "<script>alert(1)</script>\n\"'</table><img src=x onerror=alert(1)> \u2028\ud83d\x00\x1b[31m"
    for name in (NONE, JITMEM):
        file = study / RUNS / name / "episodes.jsonl"
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            line["task"] |= {"description": bad, "task_type": bad}
            line["recall"]["payload"] = bad
            line["outcome"] = "success" if name == JITMEM else "failure"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    page = report(study)
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert "<img" not in page


def test_nothing_with_a_result_is_one_sentence(study: Path) -> None:
    for name in (NONE, JITMEM):
        (study / RUNS / name / "episodes.jsonl").write_bytes(b"")
    with pytest.raises(UserError, match="no run has an episode with a result yet"):
        report(study)


@pytest.mark.parametrize(
    "change",
    [
        {"steps": [["runs", 1]]},
        {"steps": {"runs": {}}},
        {"steps": {"runs": "completed"}},
        {"size": None},
        {"size": [1]},
        {"asked": {"part": "table_1"}},
        {"asked": {"role": [["executor"]]}},
    ],
)
def test_an_odd_status_is_one_sentence(change: dict[str, Any], study: Path) -> None:
    status = json.loads((study / STATUS).read_text()) | change
    (study / STATUS).write_text(json.dumps(status))
    with pytest.raises(UserError, match="not the status of a study"):
        plan_of(study)
    said = CliRunner().invoke(cli, ["study", "status", str(study)])
    assert said.exception is None or isinstance(said.exception, UserError)


def test_an_odd_status_of_the_runs_is_shown_as_none(study: Path) -> None:
    (study / RUNS / "sweep.json").write_text('{"state": "completed"}')
    said = CliRunner().invoke(cli, ["study", "status", str(study), "--json"])
    assert json.loads(said.output)["episodes"] is None


def test_a_killed_study_has_no_running_step(study: Path) -> None:
    status = json.loads((study / STATUS).read_text())
    status |= {
        "state": "running",
        "steps": {"training": {"state": "completed"}, "runs": {"state": "running"}},
    }
    (study / STATUS).write_text(json.dumps(status))
    assert [step["state"] for step in read_study(study)["steps"].values()] == ["completed", "killed"]


@pytest.mark.parametrize(
    ("model", "says"),
    [
        ("nonsense", "unknown model 'nonsense'"),
        ("", "unknown model ''"),
        ("openai:http://bob:Xsecret@127.0.0.1:1/v1#m", "without|user, password or query"),
        ("openai:http://127.0.0.1:1/v1?key=Xsecret#m", "user, password or query"),
    ],
)
def test_wrong_models_are_told_before_anything_is_written(model: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=says) as told:
        make_plan("smoke", tmp_path / "s", roles={"executor": model})
    assert "Xsecret" not in str(told.value)


def test_a_model_folder_that_is_missing_is_told_before_anything_is_written(tmp_path: Path) -> None:
    plan = make_plan("smoke", tmp_path / "s", roles={"executor": f"hf:{tmp_path}/none"}, **ASKED)
    with pytest.raises(UserError, match=r"role executor.*is not there"):
        run_study(plan, progress=False)
    assert not (tmp_path / "s").exists()


def test_a_part_given_twice_is_shown_once(tmp_path: Path) -> None:
    plan = make_plan("smoke", tmp_path, parts=["table_1", "table_8", "table_1"])
    assert [one.part.name for one in plan.parts] == ["table_1", "table_8"]


def test_folders_that_nothing_can_be_kept_in_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for out in (tmp_path / "loop", tmp_path / "bad\udcff", Path("a\0b")):
        with pytest.raises(UserError, match="cannot hold a study"):
            make_plan("smoke", out)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(UserError, match="cannot hold a study"):
        make_plan("smoke", "s")


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models and data pass for checked."""
    monkeypatch.setattr(running, "check_cells", lambda cells: None)


def refused(plan: Plan, says: str) -> None:
    before = (plan.out / STATUS).read_bytes()
    with pytest.raises(UserError, match=says):
        run_study(plan, progress=False)
    assert (plan.out / STATUS).read_bytes() == before


@pytest.mark.usefixtures("checked")
def test_a_folder_of_another_study_is_refused_and_left_as_it_is(study: Path) -> None:
    refused(make_plan("mini", study), "holds a study of size smoke")
    refused(make_plan("smoke", study, **ASKED), "holds a run of other settings")


@pytest.mark.usefixtures("checked")
def test_a_study_that_was_moved_says_so(study: Path, tmp_path: Path) -> None:
    file = study / RUNS / "alfworld-generated_test-jitmem_trained-order0" / "config.json"
    file.parent.mkdir()
    there = own_curator(tmp_path / "before", "training")
    file.write_text(json.dumps({"schema_version": 1, "settings": {}, "request": {"curator_model": there}}))
    refused(make_plan("smoke", study, **ASKED), f"was moved.*{tmp_path / 'before'}; move it back")


@pytest.mark.parametrize(
    ("error", "kind"), [("UserError: no such model", UserError), ("status 503", InfrastructureError)]
)
def test_runs_without_any_result_say_why(error: str, kind: type[Exception], tmp_path: Path) -> None:
    cell = make_plan("smoke", tmp_path, **ASKED).cells()[0]
    sweep = Sweep(tmp_path, [Place(cell, tmp_path / "a", 2, "failed", error)])
    with pytest.raises(kind, match=rf"no run has .*; {cell.name}: {error.removeprefix('UserError: ')}"):
        running._some_played(sweep)
    running._some_played(Sweep(tmp_path, [Place(cell, tmp_path / "a", 2, "completed")]))


def test_a_curator_that_was_removed_is_told(tmp_path: Path) -> None:
    plan = make_plan("smoke", tmp_path)
    assert "trains again" in str(running._lost_curator(plan))
    (tmp_path / "training" / "curator").mkdir(parents=True)
    (tmp_path / "training" / "curator" / "chosen.json").write_text("{}")
    assert running._lost_curator(plan) is None


def test_a_full_disk_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    @click.command()
    @click.argument("number", type=int)
    def command(number: int) -> None:
        raise OSError(number, os.strerror(number), "/data/x")

    assert exit_code(command, [str(errno.ENOSPC)]) == 3
    assert "nothing more can be written at /data/x (No space left" in capsys.readouterr().err
    with pytest.raises(OSError, match="Input/output"):
        exit_code(command, [str(errno.EIO)])


def test_a_report_on_a_full_disk_can_be_written_again(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr("jitmem_lab.report.write_atomic", full)
        with pytest.raises(InfrastructureError, match="make room and write it again"):
            report(study)
    assert report(study)


def test_a_status_is_asked_for_with_closed_streams(study: Path) -> None:
    shell = f'exec "{sys.executable}" -m jitmem_lab.cli study report "{study}"'
    for closed in ("0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"):
        shutil.rmtree(study / "report", ignore_errors=True)
        assert subprocess.run(["sh", "-c", f"{shell} {closed}"], timeout=120).returncode == 0, closed
        assert (study / "report" / "report.html").is_file(), closed


@pytest.mark.parametrize(
    "source", ["x = 1  # \ud83d", "x = 1\0", "x = (1,", "x = " + "(" * 5000 + ")" * 5000]
)
def test_a_parameters_cell_that_is_no_python_is_one_sentence(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = {"cell_type": "code", "id": "a", "metadata": {"tags": ["parameters"]}, "source": source}
    cells = [cell | {"outputs": [], "execution_count": None}]
    notebook = {"cells": cells, "nbformat": 4, "nbformat_minor": 5, "metadata": {}}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    assert _run(["run", str(tmp_path / "a.ipynb"), "--parameters"]) == 2
    assert "is not valid Python" in capsys.readouterr().err


def test_a_run_with_a_wrong_folder_ends_with_exit_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    assert _run(["study", "run", "--size", "smoke", "--part", "table_1", "-o", str(tmp_path / "file")]) == 2
    assert "cannot be made" in capsys.readouterr().err


def test_rows_of_different_models_are_reported(study: Path) -> None:
    file = study / RUNS / NONE / "config.json"
    whole = json.loads(file.read_text())
    file.write_text(json.dumps(whole | {"request": (whole.get("request") or {}) | {"model": "another"}}))
    assert "table 1" in report(study)


def test_solutions_that_raise_leave_the_others(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(study)
    comparison = compared(plan, plan.parts[0])
    first, *others = {e.task.task_id: e.task for e in comparison.groups[0].episodes}.values()

    class World:
        def tasks(self) -> list[Any]:
            return [first, *others, first.model_copy(update={"task_id": "not played"})]

        def oracle(self, task: Any) -> list[str]:
            if task.task_id == first.task_id:
                raise KeyError("a damaged file")
            return ["look"]

        def close(self) -> None:
            raise OSError("gone")

    monkeypatch.setattr(analysis, "load_benchmark", lambda *_: World())
    assert set(analysis.solutions(comparison)) == {task.task_id for task in others}


def test_roles_in_another_order_are_the_same_study(study: Path) -> None:
    roles = {"writer": "pocket:curator", "second": "pocket"}
    asked = make_plan("smoke", study, parts=["table_1"], roles=roles).asked
    (study / STATUS).write_text(
        json.dumps({"state": "completed", "size": "smoke", "asked": asked, "steps": {}})
    )
    turned = dict(reversed(roles.items()))
    plan = running._with_parts_before(make_plan("smoke", study, parts=["table_8"], roles=turned))
    assert [planned.part.name for planned in plan.parts] == ["table_1", "table_8"]


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, InfrastructureError), (errno.EACCES, UserError)])
@pytest.mark.parametrize("name", ["runs.csv", publishing.TABLE, publishing.PICTURE])
def test_a_published_file_that_cannot_be_written_is_one_sentence(
    number: int,
    kind: type[Exception],
    name: str,
    study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def write(path: Path, content: bytes) -> None:
        if path.name == name:
            raise OSError(number, os.strerror(number))

    def take(pages: list[Path], *_: Any, **__: Any) -> list[str]:
        pages[0].with_suffix(".png").write_bytes(b"")
        return []

    monkeypatch.setattr(publishing, "write_atomic", write)
    monkeypatch.setattr(publishing, "take_pictures", take)
    with pytest.raises(kind, match="cannot be written to"):
        publishing.publish(plan_of(study), tmp_path / "kept", draws=20)


def test_an_older_picture_is_told(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publishing, "take_pictures", lambda *_, **__: ["no pictures"])
    (tmp_path / publishing.PICTURE).write_bytes(b"old")
    said = publishing.publish(plan_of(study), tmp_path, draws=20)
    assert "older picture" in said[-1]
    assert (tmp_path / publishing.PICTURE).read_bytes() == b"old"


def test_rates_by_type_differ_by_the_difference_where_orders_have_other_tasks(study: Path) -> None:
    for memory, won in (("none", {0: (0, 1)}), ("jitmem", {0: (0, 1, 2), 1: (0,)})):
        for order, counts in ((0, 3), (1, 1)):
            folder = study / RUNS / f"alfworld-generated_test-{memory}-order{order}"
            if order:
                make_run(folder, "alfworld", "generated_test", memory, order)
            first = Run(folder).latest()[:counts]
            lines = [json.loads(episode.to_line()) for episode in first]
            for place, line in enumerate(lines):
                line["task"] |= {"task_type": "one", "task_id": f"t{place}"}
                line["outcome"] = "success" if place in won.get(order, ()) else "failure"
            (folder / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    plan = make_plan("smoke", study, parts=["table_1"], orders=2)
    comparison = compared(plan, plan.parts[0])
    row = analysis.type_steps_table(comparison, ["jitmem", "none"], draws=20).iloc[0]
    better, worse = map(float, row["SR"].split(" against "))
    assert (better, worse, float(row["difference"])) == (100.0, 33.3, 66.7)
