"""What the pages bank, judge and live count and say; no browser."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("panel")

from panel.io.location import Location

from jitmem_lab import views
from jitmem_lab.accounting import account
from jitmem_lab.curation import Curator
from jitmem_lab.errors import UserError
from jitmem_lab.execution import Executor
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory
from jitmem_lab.memories.items import Change, ItemStore
from jitmem_lab.render import fields_text
from jitmem_lab.retrieval import words
from jitmem_lab.runs import Run, RunLock
from jitmem_lab.serve import PAGES
from jitmem_lab.statistics import confusion, wilson
from jitmem_lab.stream import run_stream
from jitmem_lab.views.bank import TABS, BankView
from jitmem_lab.views.bank_facts import kept_out, near_duplicates, reasons, uses
from jitmem_lab.views.bank_items import change_html
from jitmem_lab.views.facts import Facts, Writes, added, without_texts
from jitmem_lab.views.judge import JudgeView, judged_of
from jitmem_lab.views.live import LiveView
from jitmem_lab.views.navigation import Navigation
from jitmem_lab.views.paging import ROWS, Column, Pager
from jitmem_lab.views.plots import POINTS, line_figure

from .doubles import ButtonBenchmark, RuleModel, demonstration

pytestmark = pytest.mark.unit
HOSTILE = '", "calls": [], "error": null, "usage": {"cached_calls": 9, "steps": [], "task": {"x": "<script>'


def read_facts(run: Run) -> tuple[Facts, Writes]:
    facts, writes = Facts.of(run), Writes.of(run)
    facts.refresh()
    writes.refresh()
    return facts, writes


def answer(text: str, sampling) -> str:
    if '"success"' in text:
        return "no idea" if len(text) % 5 == 0 else json.dumps({"success": len(text) % 2 == 0})
    return f"{HOSTILE} <action>press {('red', 'green', 'blue')[len(text) % 3]}</action>"


class Bench(ButtonBenchmark):
    def tasks(self, limit: int | None = None, order: int | None = None):
        return [
            task.model_copy(update={"description": f"{task.description} {HOSTILE}"})
            for task in super().tasks(limit, order)
        ]


def make_run(out: Path, n: int = 14) -> Run:
    model, bench = RuleModel(rule=answer), Bench(n, broken=lambda task: task.task_id == "b3")
    return run_stream(
        bench,
        load_memory("jitmem", curator=Curator(model), gate="judge"),
        Executor(model, temperature=1.0),
        out=out,
        batch_size=3,
        judge=Judge(model),
        warm_start=[demonstration(task) for task in bench.tasks()[:4]],
        progress=False,
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Run:
    return make_run(tmp_path_factory.mktemp("runs") / "judged")


@pytest.fixture
def run(made, tmp_path) -> Run:
    return Run(shutil.copytree(made.path, tmp_path / "runs" / "judged"))


def test_facts_are_those_of_the_whole_episodes(made):
    facts, writes = read_facts(made)
    latest = made.latest()
    assert [(f.position, f.key, f.outcome, f.description) for f in facts.episodes()] == [
        (e.position, e.key, e.outcome, e.task.description) for e in latest
    ]
    assert [f.traces for f in facts.episodes()] == [
        tuple(trace.trace_id for trace in e.recall.traces) for e in latest
    ]
    assert [f.verdict for f in facts.episodes(writes)] == [e.verdict.success for e in latest]
    assert {e.outcome for e in latest} == {"success", "failure", "error"}
    spent = account(made)
    for role, tokens in added(facts.tokens, writes.tokens).items():
        used = spent.total(role=role)
        assert tokens == (used.calls, used.cached_calls, used.prompt_tokens, used.completion_tokens)


def test_a_line_that_misleads_is_parsed_whole(made):
    line = json.loads((made.path / "episodes.jsonl").read_text().splitlines()[0])
    line["calls"][0]["tool_calls"] = [
        {"name": "x", "arguments": {"a": [], "error": 1, "steps": []}, "id": ""}
    ]
    raw = json.dumps(line, sort_keys=True).encode()
    light, _ = without_texts(raw, b'], "error": ')
    assert {name: light[name] for name in ("key", "recall", "verdict", "task", "outcome")} == {
        name: line[name] for name in ("key", "recall", "verdict", "task", "outcome")
    }


def test_facts_follow_a_growing_file_and_a_new_one(run):
    whole = (run.path / "episodes.jsonl").read_bytes()
    lines = whole.splitlines(keepends=True)
    (run.path / "episodes.jsonl").write_bytes(lines[0] + lines[1][:50])
    facts = Facts(run)
    facts.refresh()
    assert len(facts) == 1
    with (run.path / "episodes.jsonl").open("ab") as file:
        file.write(lines[1][50:] + b"{}\n[]\nno json\n" + b"".join(lines[2:]))
    while not facts.whole or len(facts) < len(lines):
        facts.refresh(seconds=0)  # one line at a time
    assert facts.unreadable == 3
    (run.path / "episodes.jsonl").write_bytes(b"".join(lines[4:]))
    facts.refresh()
    assert len(facts) == len(lines) - 4
    (run.path / "episodes.jsonl").unlink()
    facts.refresh()
    assert len(facts) == 0
    shutil.rmtree(run.path)
    with pytest.raises(UserError, match="no longer there"):
        facts.refresh()


def test_one_reading_serves_all_visitors(run):
    assert Facts.of(run) is Facts.of(Run(run.path))
    assert Facts.of(run) is not Writes.of(run)


def test_a_later_verdict_and_a_later_write_count(run):
    facts, writes = read_facts(run)
    first = facts.episodes()[0]
    with (run.path / "writes.jsonl").open("a") as file:
        verdict = {"success": True, "source": "judge", "rationale": ""}
        for line in (
            {"key": first.key, "error": "the server died", "calls": []},
            {"key": first.key, "verdict": verdict, "change": {"stored": True, "id": 9}, "calls": []},
        ):
            file.write(json.dumps(line, sort_keys=True) + "\n")
    writes.refresh()
    assert facts.episodes(writes)[0].verdict is True
    assert kept_out(facts.episodes(writes), writes)[0].kind == "taken"


def test_what_was_kept_out_and_why(made):
    facts, writes = read_facts(made)
    kept = kept_out(facts.episodes(writes), writes)
    latest = {e.position: e for e in made.latest()}
    assert {one.fact.position for one in kept} == {p for p, e in latest.items() if e.outcome != "error"}
    for one in kept:
        said = latest[one.fact.position].verdict.success
        assert one.kind == {True: "taken", False: "gate", None: "unusable"}[said]
    assert {"taken", "gate", "unusable"} == {one.kind for one in kept}
    assert sum(row.won + row.lost for row in reasons(kept)) == len(kept)
    assert sum(row.won for row in reasons(kept)) == made.summary()["outcomes"]["success"]


def test_how_traces_were_used(made):
    facts, _ = read_facts(made)
    found = {use.trace: use for use in uses(facts, facts.episodes())}
    latest = made.latest()
    for trace, use in found.items():
        own = [e for e in latest if trace in [t.trace_id for t in e.recall.traces]]
        scored = [e for e in own if e.outcome != "error"]
        assert use.positions == tuple(e.position for e in own)
        assert (use.times, use.scored) == (len(own), len(scored))
        assert use.won == sum(e.outcome == "success" for e in scored)
        assert use.interval == wilson(use.won, use.scored)
    assert set(found) == {t.trace_id for e in latest for t in e.recall.traces}


@pytest.mark.parametrize("overlap", [0.5, 0.6, 0.8, 1.0])
def test_near_duplicates_are_those_of_comparing_all_pairs(overlap):
    draw = random.Random(3)
    some = ("put", "take", "a", "the", "mug", "pan", "in", "on", "desk", "shelf", "1", "2")
    texts = [(i, " ".join(draw.choice(some) for _ in range(6))) for i in range(120)]
    texts += [(200, "Put, THE mug!"), (201, "put the mug"), (202, ""), (203, "")]
    sets = {i: frozenset(words(text)) for i, text in texts if words(text)}
    near: dict[int, set[int]] = {i: {i} for i in sets}
    for a in sets:
        for b in sets:
            share = len(sets[a] & sets[b]) / len(sets[a] | sets[b])
            if share >= overlap - 1e-9 and near[a] is not near[b]:
                both = near[a] | near[b]
                near.update(dict.fromkeys(both, both))
    expected = {tuple(sorted(group)) for group in near.values() if len(group) > 1}
    found = near_duplicates(texts, overlap)
    assert {group.ids for group in found.groups} == expected
    assert found.whole
    assert all(overlap <= group.overlap + 1e-9 <= 1 + 1e-8 for group in found.groups)


def test_the_judge_is_counted_as_elsewhere(made):
    facts, writes = read_facts(made)
    judged = judged_of(facts.episodes(writes))
    assert tuple(map(len, judged.values())) == confusion(made.latest())
    view = JudgeView(made)
    assert f"{len(judged['unknown'])} unusable" in view._head.object
    view.show = "false_positive"
    assert view._list._rows == judged["false_positive"]


def stamps(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(f.relative_to(folder)): (f.stat().st_mtime_ns, f.stat().st_size) for f in folder.rglob("*")}


def test_live_touches_nothing_and_tells_the_killed(run):
    status = json.loads((run.path / "status.json").read_text())
    (run.path / "status.json").write_text(json.dumps(status | {"state": "running", "eta_seconds": 90}))
    lock = RunLock(run.path)
    lock.acquire()
    before = stamps(run.path.parent)
    view = LiveView(run.path.parent)
    assert "running" in view._standing.object
    assert "</b> left" in view._standing.object
    assert "13 of 14 done" in view._head.object
    assert "<b>1</b> ended in errors" in view._standing.object
    assert "<b>1</b> owed" in view._standing.object
    lock.release()
    view.tick()
    assert "its process died without a word" in view._standing.object
    assert stamps(run.path.parent) == before
    with (run.path / "episodes.jsonl").open("r+b") as file:
        line = file.readline()
        owed = next(e for e in run.latest() if e.outcome == "error")
        redone = line.replace(json.loads(line)["key"].encode(), owed.key.encode(), 1)
        redone = re.sub(rb'"position": \d+', b'"position": %d' % owed.position, redone)
        file.seek(0, 2)
        file.write(redone)
    view.tick()
    assert "14 of 14 done" in view._head.object
    shutil.rmtree(run.path)
    view.tick()
    assert "no longer there" in view._note.object


def test_live_shows_the_cells_of_a_sweep(run):
    folder = run.path.parent
    cells = [
        {"name": "judged", "folder": str(run.path), "state": "completed", "done": 13, "total": 14},
        {"name": "<b>next", "folder": "elsewhere", "state": "running", "error": "<i>", "total": "x"},
    ]
    status = {"state": "running", "done": 13, "total": 28, "cells": cells, "updated": 1.0}
    (folder / "sweep.json").write_text(json.dumps(status))
    shown = LiveView(folder)._sweep.object
    assert "killed" in shown
    assert "&lt;b&gt;next" in shown
    assert "<b>judged</b>" in shown
    (folder / "sweep.json").write_text("{")
    assert "not the status of a sweep" in LiveView(folder)._sweep.object
    lone = folder / "begun"
    lone.mkdir()
    (lone / "sweep.json").write_text(json.dumps(status))
    assert "13 of 28 episodes" in LiveView(lone)._sweep.object


def test_every_part_of_the_bank_is_shown(made, tmp_path):
    view = BankView(made)
    for tab in TABS:
        view.tab = tab
        assert view._main.visible, view._note.object
    view.param.update(tab="explain", query="press the button of panel 1")
    assert "score" in view._explained.object
    view.size = 99
    assert "it never had 99" in view._explained.object
    view.param.update(tab="items")
    assert "writes no items" in view._items._held.object
    model = RuleModel(rule=lambda text, sampling: "Title: a\nDescription: b\nContent: press red")
    written = run_stream(
        Bench(4),
        load_memory("reasoningbank", model=model, gate="environment", retrieval="bm25"),
        Executor(RuleModel()),
        out=tmp_path / "written",
        progress=False,
    )
    view = BankView(written)
    for tab in TABS:
        view.tab = tab
        assert view._main.visible, view._note.object
    assert "items</b> after 4 writes" in view._items._held.object
    view._items.at = 77
    assert "not 77" in view._items._held.object
    with contextlib.closing(ItemStore(written.path / "bank.sqlite")) as store:
        both = [Change("insert", "skill", {"name": name}) for name in ("one", "two")]
        store.apply("warm:ab", both, {"refused": ["told once", "told too"], "seen": [1, 2, 3]})
    view.reload()
    shown = view._items._history._pane.object
    assert shown.count("told once") == 1
    assert "1, 2, 3" in shown
    assert "a demonstration" in shown
    assert "warm:" not in shown
    bare = run_stream(
        Bench(2), load_memory("none"), Executor(RuleModel()), out=tmp_path / "bare", progress=False
    )
    assert "no memory" in BankView(bare)._note.object
    assert "no model judged" in JudgeView(bare)._note.object


@pytest.mark.parametrize("view", [BankView, JudgeView, LiveView])
def test_bad_runs_get_a_sentence_and_the_rest_works(view, run, tmp_path):
    folder = run.path.parent
    shutil.copytree(run.path, folder / "newer")
    config = json.loads((run.path / "config.json").read_text())
    (folder / "newer" / "config.json").write_text(json.dumps(config | {"schema_version": 99}))
    (folder / "broken").mkdir()
    (folder / "broken" / "config.json").write_text("{")
    shown = view(folder, run="newer")
    assert "upgrade jitmem-lab" in shown._note.object
    shown.run = "broken"
    assert "cannot be read" in shown._note.object
    shown.run = "judged"
    assert shown._main.visible
    with pytest.raises(UserError, match="there is no run 'nowhere'"):
        view(folder, run="nowhere")
    empty = view(tmp_path / "nowhere")
    assert "jitmem demo" in empty._note.object
    shutil.copytree(run.path, tmp_path / "nowhere" / "late")
    empty.reload()
    assert empty.run == "late"
    assert empty._main.visible


def test_two_visitors_share_no_state(run):
    one, two = BankView(run), BankView(run)
    one.tab, one.order = "retrieved", "newest"
    assert (two.tab, two.order) == ("growth", "most often retrieved")


def test_the_url_holds_the_selection(run):
    location = Location(search="?run=judged&tab=explain&query=a%20mug&k=2&other=1")
    view = BankView(run.path.parent, location=location)
    assert (view.run, view.tab, view.query, view.k) == ("judged", "explain", "a mug", 2)
    view.k = 5
    assert "k=5" in location.search
    assert "other=1" in location.search
    assert "query=a+mug" in location.search
    for search, said in (
        ("?tab=<b>", "tab=&lt;b&gt; cannot be"),
        ("?k=-1", "k=-1 cannot be"),
        ("?k=99", "k=99 cannot be"),
        ("?run=../x", "there is no run &#x27;../x&#x27;"),
    ):
        view = BankView(run.path.parent, location=Location(search=search))
        assert said in view._note.object, search
    assert "inspect?run=judged&amp;position=3" in BankView(
        run.path.parent, location=Location(search="?run=judged")
    ).place(3)


def test_the_bar_keeps_the_run():
    location = Location(search="?run=a%2Fb&theme=dark&position=3")
    bar = Navigation("judge", PAGES, location)
    assert 'href="live?run=a%2Fb&amp;theme=dark"' in bar._pane.object
    assert 'href="judge?run=a%2Fb&amp;theme=dark" aria-current="true"' in bar._pane.object
    location.search = '?run="><script>'
    assert "<script>" not in bar._pane.object
    assert 'href="live?run=%22%3E%3Cscript%3E"' in bar._pane.object


def test_a_long_table_is_sent_by_the_page():
    pn = pytest.importorskip("panel")
    asked: list[int] = []

    def cells(row: int) -> list[str]:
        asked.append(row)
        return [str(row)]

    pager = Pager([Column("n", True)], cells, "none", pn.pane.HTML(""))
    pager.fill(range(10_000))
    assert len(asked) == ROWS
    pager.turn(-1)
    assert pager.page == 0
    pager.turn(1)
    assert asked[-1] == 2 * ROWS - 1
    pager.fill(range(3))
    assert pager.page == 0
    pager.fill([])
    assert "none" in pager._pane.object


def test_a_curve_of_many_points_is_thinned():
    figure = line_figure(range(10_000), [0.5] * 10_000, across="x", up="y", shares=True)
    assert len(figure.data[0].x) == POINTS
    assert (figure.data[0].x[0], figure.data[0].x[-1]) == (0, 9999)


def test_pages_load_no_model_code():
    heavy, own = ("torch", "transformers", "openai"), ("bank", "judge", "live", "navigation")
    for pages, names in ((PAGES, heavy), (own, (*heavy, "jitmem_lab.models"))):
        modules = ", ".join(f"jitmem_lab.views.{page}" for page in pages)
        code = f"import sys, {modules}\nprint([name for name in sys.modules if name.startswith({names})])"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


def test_the_views_are_listed_and_open_a_run(made):
    assert views.__all__ == ["BankView", "Comparer", "Inspector", "JudgeView", "LiveView", "TrainView"]
    assert set(views.__all__) <= set(dir(views))
    for name in views.__all__:
        assert getattr(views, name)(made).__panel__() is not None
    with pytest.raises(AttributeError, match="no attribute 'Judge'"):
        views.Judge  # noqa: B018


def test_the_pages_are_loaded_before_the_server_answers():
    """The first visitor need not wait for imports."""
    code = (
        "import sys, panel\nfrom jitmem_lab import serve\n"
        "wanted = {'plotly.io._renderers', *(f'jitmem_lab.views.{name}' for name in serve.PAGES)}\n"
        "panel.serve = lambda pages, **_: sys.exit(sorted(wanted - {*sys.modules}) or None)\n"
        "serve.main(['.'], port=0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_changes_of_items_are_told_in_words_and_diffs():
    old = {"name": "clean", "steps": ["go <to> sink", "wash"], "uses": 1}
    new = old | {"steps": ["go <to> sink", "rinse"], "uses": 2}
    both = change_html(old, new)
    assert "as before: name" in both
    assert "<del>wash</del>" in both
    assert "<ins>rinse</ins>" in both
    assert "go &lt;to&gt; sink" in both
    for one in (change_html(None, old), change_html(old, None)):
        assert "<b>name</b>" in one
        assert "{" not in one
        assert "<li>" in one
    assert change_html(None, None) == ""
    long = change_html(None, {"text": "word " * 400})
    assert long.count("<details") == 1
    assert "2,006 characters" in long
    nested = {"items": [{"title": "a", "n": 1}, {"title": "b"}], "more": {"deep": None}, "none": []}
    assert fields_text(nested).splitlines() == [
        "items 1:",
        "  title: a",
        "  n: 1",
        "items 2:",
        "  title: b",
        "more:",
        "  deep: null",
        "none: ",
    ]
