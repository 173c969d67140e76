"""What compares runs: the light reading, the diff, the figures, and the view without a browser."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jitmem_lab.accounting import account
from jitmem_lab.compare_tables import task_table
from jitmem_lab.comparison import Comparison
from jitmem_lab.errors import UserError
from jitmem_lab.render import clean_text
from jitmem_lab.runs import Run, diff
from jitmem_lab.statistics import paired, task_key, wilson, wins_losses
from jitmem_lab.views import beside, comparing, diffing, qualitative
from jitmem_lab.views.comparing import Side, compared, read_side, task_frame, task_names, told
from jitmem_lab.views.lights import light_of

from .rivals import HOSTILE, make_rival, make_rivals

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_rivals(tmp_path_factory.mktemp("runs"), 12)


@pytest.fixture
def sides(folder) -> list[Side]:
    return [read_side(name, folder / name) for name in ("none", "jitmem")]


def words(text: str) -> str:
    """The text of HTML."""
    return html.unescape(re.sub(r"<[^>]*>", "", text))


# --- the light reading ---


def test_light_rows_say_what_the_episodes_say(sides):
    for side in sides:
        whole = side.run.latest()
        assert [row.position for row in side.rows] == [e.position for e in whole]
        for row, episode in zip(side.rows, whole, strict=True):
            assert task_key(row.episode) == task_key(episode)
            assert row.task.description == episode.task.description
            assert (row.outcome, row.payload) == (episode.outcome, len(episode.recall.payload))
            assert row.trajectory == (episode.trajectory.reward, len(episode.trajectory.steps))
            assert row.traces == tuple((t.trace_id, t.description) for t in episode.recall.traces)
            assert side.load(row.position) == episode.model_copy(
                update={"verdict": side.load(row.position).verdict}
            )


@pytest.mark.parametrize(
    "change",
    [
        {"notes": {"a": [1], "error": "no"}},
        {"notes": {"steps": [{"x": 1}], "task": {"y": [1]}, "calls": [{"z": 1}]}},
        {"steps": [{"x": [1]}], "task": {"y": [1]}},
        {"calls": [{"x": [1], "error": '], "error": '}]},
    ],
)
def test_a_cut_in_the_wrong_place_is_noticed(folder, change):
    line = (folder / "jitmem" / "episodes.jsonl").read_text().splitlines()[3]
    raw = json.loads(line)
    raw["recall"] |= change
    raw["zzz"] = change
    raw["trajectory"]["parts"] = change
    text = json.dumps(raw, sort_keys=True).encode()
    assert light_of(text)[1][:-1] == light_of(line.encode())[1][:-1]


def test_errors_give_way_to_results_and_broken_lines_are_counted(folder, tmp_path):
    shutil.copytree(folder / "none", tmp_path / "none")
    file = tmp_path / "none" / "episodes.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    owed = lines[0] | {"outcome": "error", "error": "the server died"}
    texts = [json.dumps(line, sort_keys=True) + "\n" for line in (owed, *lines, owed, {}, [], 3)]
    file.write_text("".join(texts) + "no json\n" + texts[1][:100])
    side = read_side("none", tmp_path / "none")
    assert [row.outcome for row in side.rows] == [e.outcome for e in Run(tmp_path / "none").latest()]
    assert side.unreadable == 4
    file.write_text(json.dumps(lines[0] | {"schema_version": 99}) + "\n")
    with pytest.raises(UserError, match="upgrade"):
        read_side("none", tmp_path / "none")
    shutil.rmtree(tmp_path / "none")
    with pytest.raises(UserError, match="no run directory"):
        read_side("none", tmp_path / "none")
    with pytest.raises(UserError, match="can no longer be read"):
        side.load(0)


# --- figures from the library's own ---


def test_figures_are_those_of_the_library(folder, sides):
    reference = Comparison.read(folder)
    light = compared(sides)
    a, b = (next(g for g in reference.groups if g.memory == side.name) for side in sides)
    ours = paired(light.groups[0].streams, light.groups[1].streams)
    theirs = paired({0: a.episodes}, {0: b.episodes})
    assert ours.tasks == theirs.tasks
    assert ours.difference == theirs.difference
    table = task_table(reference, "jitmem", "none")
    frame = task_frame(sides, task_names(sides))
    for _, row in table.iterrows():
        shown = frame.loc[row["task_id"]]
        assert shown["none"].startswith("✓") == (row["none"] == 1)
        assert shown["jitmem"].startswith("✓") == (row["jitmem"] == 1)
    better = wins_losses(ours)["better"]
    for which, letter in (("first", "a"), ("other", "b")):
        assert len(task_frame(sides, task_names(sides), which)) == (better == letter).sum()
    assert len(task_frame(sides, task_names(sides), "differ")) == better.isin(["a", "b"]).sum()
    text = words(beside.overview_html(sides, light))
    won = sum(row.outcome == "success" for row in sides[1].rows)
    low, high = wilson(won, 12)
    assert f"{100 * low:.1f} – {100 * high:.1f} %" in text


def test_tokens_by_role_are_those_of_the_account(sides):
    text = words(beside.tokens_html(sides).replace("</td>", " | "))
    for side in sides:
        found = account(side.run)
        for role in found.by_role():
            used = found.total(role=role, stage="episode")
            told = (
                f"{used.prompt_tokens / found.episodes:,.0f} + {used.completion_tokens / found.episodes:,.0f}"
            )
            assert told in text, role


def test_what_differs_is_what_diff_says(sides):
    rows = comparing.differences(sides)
    assert {row["field"] for row in rows} == {row["field"] for row in diff(sides[0].run, sides[1].run)}
    name = next(row for row in rows if row["field"] == "memory.name")
    assert (name["none"], name["jitmem"]) == ("none", "jitmem")
    assert "memory.name" in words(beside.differences_html(sides))
    assert "their settings are the same" in beside.differences_html([sides[0], sides[0]])


def test_a_task_with_several_meanings_has_several_names(sides):
    key = next(iter(sides[0].by_task))
    other = (*key[:3], 1)
    sides[1].by_task[other] = sides[1].rows[0]
    try:
        names = task_names(sides)
    finally:
        del sides[1].by_task[other]
    assert {key, other} <= set(names.values())
    assert len(names) == 13
    assert told(None) == "–"


# --- the diff ---


@pytest.mark.parametrize("kind", ["side", "unified"])
def test_a_diff_holds_both_texts_and_marks_what_differs(kind):
    a = "Go to the desk 1.\nTake the mug.\n\nThen look."
    b = "Go to the shelf 1.\nTake the mug.\nWash it.\n\nThen look."
    shown = diffing.diff_html(a, b, kind)
    assert "<del>desk</del>" in shown
    assert "<ins>shelf</ins>" in shown
    rows = re.findall(r"<tr>(.*?)</tr>", shown)
    own = [re.findall(r"<td([^>]*)>(.*?)</td>", row) for row in rows]
    if kind == "side":
        left = [words(cells[1][1]) for cells in own if "gone" not in cells[1][0]]
        right = [words(cells[3][1]) for cells in own if "gone" not in cells[3][0]]
    else:
        left = [words(cells[1][1]) for cells in own if "ins" not in cells[1][0]]
        right = [words(cells[1][1]) for cells in own if "del" not in cells[1][0]]
    assert "\n".join(left) == a
    assert "\n".join(right) == b


def test_a_diff_shows_text_and_nothing_else():
    shown = diffing.diff_html(f"one {HOSTILE} <b>a</b>", f"two {HOSTILE} <i>a</i>\n{HOSTILE}", "unified")
    tags = set(re.findall(r"</?([a-z]+)", shown))
    assert tags <= {"table", "colgroup", "col", "thead", "tbody", "tr", "td", "th", "del", "ins", "br", "div"}
    assert "<img src=x onerror=document.title='pwned'>" in words(shown)
    assert not re.search("[\x00\x1b\u202e\ud83d]", shown)


def test_a_diff_says_what_cannot_be_seen():
    assert "are the same" in diffing.diff_html("a", "a")
    assert "both are empty" in diffing.diff_html("", "")
    assert "differ only in what is not shown" in diffing.diff_html("a\x1b[31m", "a")
    assert "199 more characters" in diffing.diff_html("a" * 200, "b", limit=1)
    gone = diffing.diff_html("", "one\ntwo")
    assert gone.count('class="gone"') == 2


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("a\n" * 4000, "b\na\n" * 4000),
        ("a " * 20_000, "b a " * 20_000),
        ("\n".join(f"{i}" for i in range(9000)), "\n".join(f"{i * 7 % 9001}" for i in range(9000))),
        ("x" * 2_000_000, "y" * 2_000_000),
        ("\n".join(f"word{i} a b c" for i in range(300)), "\n".join(f"a b word{i} d" for i in range(300))),
    ],
)
def test_no_text_holds_a_diff_up(a, b):
    start = time.monotonic()
    shown = diffing.diff_html(a, b, limit=None)
    assert time.monotonic() - start < 5
    assert clean_text(a, None)[:50].split("\n")[0] in words(shown)


# --- single tasks ---


def test_telling_tasks_are_those_that_runs_differ_in(sides):
    names = qualitative.telling_tasks(sides, 20)
    differ = set(task_frame(sides, task_names(sides), "differ").index)
    assert set(names[: len(differ)]) == differ
    assert qualitative.named_tasks(sides, [2, "b5"]) == ["b2", "b5"]
    for wrong in (99, "b99", None):
        with pytest.raises(UserError, match="no run here has played task"):
            qualitative.named_tasks(sides, [wrong])


def test_figures_need_nothing_but_themselves(sides, tmp_path):
    figure = qualitative.task_figure(sides, "b3")
    episode = sides[1].load(sides[1].by_task[task_names(sides)["b3"]].position)
    assert clean_text(episode.recall.payload, None) in words(re.sub("</?mark[^>]*>", "", figure.body))
    found = qualitative.chosen_trace(sides)
    assert found is not None
    side, trace = found
    assert side.name == "jitmem"
    pair = qualitative.trace_figure(side, trace)
    paths = list(qualitative.export([figure, pair, pair], tmp_path / "out", images=False))
    assert len(set(paths)) == 3
    for path in map(Path, paths):
        page = path.read_text()
        assert "default-src 'none'" in page
        assert "<script" not in page
        assert not re.search(r"<img|<iframe|<a |<link|url\(|@import|[\x00\x1b\u202e]", page)
        assert not re.search(r"<[^>]*\son\w+\s*=", page)
    assert "<script" not in figure._repr_html_()


def test_wrong_choices_are_told(sides, tmp_path, monkeypatch):
    for run, trace, message in (("nowhere", None, "choose one of none, jitmem"), ("", 99, "trace 99")):
        with pytest.raises(UserError, match=message):
            qualitative.chosen_trace(sides, trace, run)
    assert qualitative.chosen_trace(sides[:1]) is None
    with pytest.raises(UserError, match="it was at"):
        qualitative.trace_figure(sides[1], 1, [0, 99])
    with pytest.raises(UserError, match="no run with a finished episode"):
        qualitative.open_sides([tmp_path])
    (tmp_path / "file").touch()
    figure = qualitative.task_figure(sides, "b3")
    with pytest.raises(UserError, match="choose another folder"):
        list(qualitative.export([figure], tmp_path / "file" / "x"))
    monkeypatch.setenv("JITMEM_CHROMIUM", str(tmp_path / "nothing"))
    *_, said = qualitative.export([figure], tmp_path / "out")
    assert "no pictures: no chromium here" in said


# --- the view ---


def test_comparer_without_a_browser(folder, tmp_path):
    pytest.importorskip("panel")
    from jitmem_lab.views.compare import Comparer

    one, two = Comparer(folder), Comparer(folder, tab="tasks", task="b4")
    assert one.runs == ["none", "jitmem"]
    assert one.base == "none"
    assert "How they went" in one._overview.object
    one.tab = "tasks"
    first = one.task
    one.move(1)
    assert one.task != first
    assert two.task == "b4", "another view is another selection"
    two.move(-1)
    assert two.task != "b4"
    one.base = "jitmem"
    assert "Advice for room" in one._beside.object
    one.text = "no such words"
    assert "0 of 12 tasks fit; the one below does not" in one._beside.object
    assert "Advice for room" in one._beside.object
    one.text = ""
    assert "tasks fit" not in one._beside.object
    one.tab = "trace"
    assert (one.bank, one.left != one.right) == ("jitmem", True)
    assert "The payloads that it led to" in one._figure.object
    one.trace = 99_999
    assert "no task of jitmem retrieved trace 99999" in one._figure.object
    one.param.update(tab="tasks", task="b99<b>")
    assert "none of these runs has played &#x27;b99&lt;b&gt;&#x27;" in one._beside.object
    with pytest.raises(UserError, match="there is no run 'b'"):
        Comparer(folder, runs=["b"])
    empty = Comparer(tmp_path)
    assert "jitmem demo" in empty._note.object
    make_rival(tmp_path, "none", 2)
    empty.reload()
    assert empty.runs == ["none"]
    assert "choose a second run" in empty._note.object


def test_views_of_comparison_load_no_model_code():
    code = (
        "import sys, jitmem_lab.views.compare, jitmem_lab.views.qualitative\n"
        "light = {'jitmem_lab.models', 'jitmem_lab.models.base', 'jitmem_lab.models.retrying'}\n"
        "models = ('torch', 'transformers', 'openai', 'jitmem_lab.models')\n"
        "print([name for name in sys.modules if name.startswith(models) and name not in light])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
