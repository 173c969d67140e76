"""What pages share so that visitors need not wait, and what is let go of when they leave; no browser."""

from __future__ import annotations

import asyncio
import gc
import shutil
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("panel")

from jitmem_lab import serve
from jitmem_lab.bench.made_runs import make_run
from jitmem_lab.render import clean_text
from jitmem_lab.statistics import difference_interval, learning_curve, paired
from jitmem_lab.views import aside, comparing, gathering, plots
from jitmem_lab.views.beside import work_out
from jitmem_lab.views.comparing import Reading, read_side
from jitmem_lab.views.gathering import Gathering
from jitmem_lab.views.task_table import _cell

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder / "long", 60)
    make_run(folder / "other", 60, seed=8)
    return folder


def test_figures_of_a_choice_of_runs_are_worked_out_once(folder, monkeypatch):
    asked = []
    for name in ("difference_interval", "learning_curve"):
        own = getattr(comparing, name)
        monkeypatch.setattr(comparing, name, lambda *a, own=own, **k: asked.append(own) or own(*a, **k))
    monkeypatch.setattr(comparing, "_READ", {})
    sides = [read_side(name, folder / name) for name in ("long", "other")]
    for _ in range(2):
        work_out([read_side(name, folder / name) for name in ("long", "other")])
    assert asked == [difference_interval, learning_curve, learning_curve]
    work_out(sides[::-1])
    assert asked[3:] == [difference_interval], "the other way round is another comparison"
    a, b = ({0: [row.episode for row in side.rows]} for side in sides)
    gap = sides[1].against(sides[0], "success", 500)
    assert gap.difference == paired(a, b).difference != 0
    assert gap.interval == difference_interval(paired(a, b), draws=500)
    assert sides[0].curve == learning_curve(a)


def test_a_run_that_grew_is_read_on_and_compared_anew(folder, tmp_path):
    path = Path(shutil.copytree(folder / "long", tmp_path / "long"))
    lines = (path / "episodes.jsonl").read_text().splitlines(keepends=True)
    (path / "episodes.jsonl").write_text("".join(lines[:50]))
    before = read_side("long", path)
    assert read_side("long", path) is before
    gap = before.against(before, "success", 500)
    with (path / "episodes.jsonl").open("a") as file:
        file.write("".join(lines[50:]))
    after = read_side("long", path)
    assert (len(before.rows), len(after.rows)) == (50, 60)
    assert (gap.number, after.against(after, "success", 500).number) == (50, 60)
    assert after.rows[:50] == before.rows
    assert after.rows[0] is before.rows[0], "what was read stays"


def test_runs_are_read_a_slice_at_a_time(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(comparing, "_READ", {})
    paths = {name: folder / name for name in ("long", "other")} | {"gone": tmp_path / "gone"}
    one, shares = Gathering(paths), []
    while not one.whole:
        one.go_on(0.001)
        shares.append(one.share)
    assert len(shares) > 2
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert [side.name for side in one.sides] == ["long", "other"]
    assert [len(side.rows) for side in one.sides] == [60, 60]
    assert one.problems == [
        f"gone: there is no run directory {tmp_path / 'gone'}; `jitmem runs list` shows those there are"
    ]
    known = Gathering({name: folder / name for name in ("long", "other")})
    known.go_on(0)
    assert known.whole, "what another visitor has read is there at once"
    assert Reading("long", folder / "long").share == 1


def test_reading_aside_ends_with_the_figures_at_hand(folder, monkeypatch):
    monkeypatch.setattr(comparing, "_READ", {})
    monkeypatch.setattr(gathering, "SLICE", 0.002)
    session = SimpleNamespace(add_next_tick_callback=lambda then: then())
    monkeypatch.setattr(aside, "pn", SimpleNamespace(state=SimpleNamespace(curdoc=session)))
    one, turns = Gathering({name: folder / name for name in ("long", "other")}), 0
    while not one.whole:
        done = threading.Event()
        assert one.go_on_aside(done.set)
        assert done.wait(20)
        turns += 1
    assert turns > 1
    assert one.sides[0] in one.sides[1]._gaps
    assert "curve" in vars(one.sides[0])
    monkeypatch.setattr(aside, "pn", SimpleNamespace(state=SimpleNamespace(curdoc=None)))
    assert not one.go_on_aside(done.set), "a notebook has no session"


def test_what_draws_figures_is_asked_for_last():
    pn = pytest.importorskip("panel")
    from bokeh.document import Document
    from panel.io.state import set_curdoc

    pane = plots.line_pane()
    assert plots.drawn_last(pane) is pane, "a notebook has it there"
    with set_curdoc(Document()):
        place = plots.drawn_last(pane)
        assert list(place) == [], "without a figure nothing is loaded"
        for _ in range(2):
            pane.object = plots.line_figure([1, 2], [0, 1], across="a", up="b")
        (loader,) = place
        assert loader.source.endswith(".min.js")
        loader._handle_msg({"loaded": True})
        assert list(place) == [pane]
        assert "plotly" in pn.state._extensions


def test_closed_pages_are_let_go(folder):
    """Documents and views of closed sessions are gone, whatever page they showed."""
    with ThreadPoolExecutor(1) as other:  # the tests' own thread may have a loop that runs already
        kept, left = other.submit(_visit_and_leave, folder).result()
    gc.collect()
    assert left == 0
    assert len(kept) == 2 * len(serve.PAGES)
    assert [reference() for reference in kept if reference() is not None] == []


def _visit_and_leave(folder: Path) -> tuple[list[weakref.ref], int]:
    asyncio.set_event_loop(asyncio.new_event_loop())
    pn = pytest.importorskip("panel")
    client = pytest.importorskip("bokeh.client")
    kept: list[weakref.ref] = []

    def watched(name: str):
        page = serve.served(name, [folder])

        def made():
            view = page()
            kept.extend((weakref.ref(pn.state.curdoc), weakref.ref(view)))
            return view

        return made

    short = {"unused_session_lifetime_milliseconds": 1, "check_unused_sessions_milliseconds": 100}
    port = serve.find_port("127.0.0.1", 0)
    server = pn.serve(
        {name: watched(name) for name in serve.PAGES},
        port=port,
        address="127.0.0.1",
        start=False,
        show=False,
        verbose=False,
        **serve.SESSIONS | short,
    )

    def visit() -> None:
        try:
            for name in serve.PAGES:
                asked = {"run": "long", "runs": "long"}
                client.pull_session(url=f"http://127.0.0.1:{port}/{name}", arguments=asked).close()
            time.sleep(0.5)
        finally:
            server.io_loop.call_later(1.0, server.io_loop.stop)

    visitor = threading.Thread(target=visit)
    server.start()
    server.io_loop.call_later(0.1, visitor.start)
    server.io_loop.start()
    visitor.join()
    left = sum(len(server.get_sessions(f"/{name}")) for name in serve.PAGES)
    server.stop()
    return kept, left


def test_memory_goes_back_once_pages_were_closed(monkeypatch):
    trimmed: list[int] = []
    there = {"a", "b"}
    fake = SimpleNamespace(
        get_sessions=lambda path: [SimpleNamespace(id=f"{path}{name}") for name in sorted(there)]
    )
    monkeypatch.setattr(serve.ctypes, "CDLL", lambda name: SimpleNamespace(malloc_trim=trimmed.append))

    async def leave() -> None:
        serve.give_back_memory(fake, every=10)
        await asyncio.sleep(0.1)
        assert trimmed == [], "nobody has left"
        there.discard("a")
        await asyncio.sleep(0.2)
        assert trimmed == [0], "once for those who left, not again and again"

    with ThreadPoolExecutor(1) as other:
        other.submit(asyncio.run, leave()).result()


def test_cells_of_a_long_table_are_those_of_cleaned_texts():
    texts = ["", " a  b ", "x" * 200, "x" * 201, "<b>&", "\x1b[31mred", "é\u202e", *map(chr, range(300))]
    assert [_cell(text, 200) for text in texts] == [clean_text(text, 200) for text in texts]


def test_runs_are_read_before_the_first_visitor_comes(folder, tmp_path):
    from jitmem_lab.runs import Run
    from jitmem_lab.views.reading import EpisodeIndex

    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    ahead = serve.read_ahead([folder, tmp_path, tmp_path / "missing"])
    assert {index.run.name for index in ahead} == {"long", "other"}
    scan = ahead[0]._scan
    assert scan.whole
    index = EpisodeIndex(Run(ahead[0].run.path))
    assert index._scan is scan
    assert scan.version == 60
    del index, scan
    assert serve.read_ahead([folder], seconds=0.0)[0].share <= 1.0
