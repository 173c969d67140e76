"""The pages bank, judge and live in a real browser, on real runs with hostile texts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from jitmem_lab.runs import Run

from .test_inspect import brightness, make_run, shows, unharmed

pytestmark = pytest.mark.ui


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    make_run(folder, "none", 4)
    make_run(folder, "jitmem", 60)
    return folder


@pytest.fixture(scope="module")
def others(tmp_path_factory) -> Path:
    """A folder that is served too, empty at first."""
    return tmp_path_factory.mktemp("others")


@pytest.fixture(scope="module")
def root(runs, others, serve) -> str:
    parts = urlsplit(serve(runs, others))
    return f"{parts.scheme}://{parts.netloc}"


def test_the_root_leads_to_every_page_and_the_run_goes_along(root, visit):
    page = visit().page
    page.goto(root)
    page.wait_for_url("**/inspect?**")
    bar = page.get_by_role("navigation", name="Dashboards")
    page.goto(f"{root}/inspect?run=none&position=2")
    shows(page, 2)
    for name in ("live", "bank", "compare"):
        bar.get_by_role("link", name=name).click()
        page.wait_for_url(f"**/{name}?*run=none*")
        bar.get_by_role("link", name=name).and_(page.locator("[aria-current]")).wait_for()
        assert page.title() == f"JitMem Lab · {name}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_live_shows_how_it_stands(runs, root, visit, screenshot, scheme):
    page = visit(scheme).page
    page.goto(f"{root}/live?run=jitmem")
    page.get_by_text("60 of 60 done").wait_for()
    outcomes = Run(runs / "jitmem").summary()["outcomes"]
    assert page.get_by_text(f"({outcomes['success']} won, {outcomes['failure']} lost)").is_visible()
    text = page.locator(".xtick text").first
    text.wait_for()
    ink = text.evaluate("node => getComputedStyle(node).fill")
    assert (paper(page) > 128) == (scheme == "light")
    assert abs(paper(page) - brightness(ink)) > 120
    assert page.get_by_role("row").filter(has_text="curator").count() == 1
    unharmed(page)
    screenshot(page, "live")
    page.get_by_role("link", name="57", exact=True).click()
    shows(page, 57)


def test_live_follows_a_run_and_tells_of_its_end(runs, others, root, visit, screenshot):
    """A run that a process holds grows while the page is open, then its process dies."""
    run = Path(shutil.copytree(runs / "jitmem", others / "now"))
    lines = (run / "episodes.jsonl").read_text().splitlines(keepends=True)
    (run / "episodes.jsonl").write_text("".join(lines[:10]))
    status = json.loads((run / "status.json").read_text())
    now = {"state": "running", "eta_seconds": 600, "updated": time.time()}
    (run / "status.json").write_text(json.dumps(status | now))
    hold = "import fcntl, time; f = open('.lock'); fcntl.flock(f, 2); print(1, flush=True); time.sleep(99)"
    holder = subprocess.Popen([sys.executable, "-c", hold], cwd=run, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        page = visit().page
        page.goto(f"{root}/live?run=now")
        page.get_by_text("10 of 60 done").wait_for()
        page.get_by_text("it is running").wait_for()
        assert page.get_by_text("min left").is_visible()
        before = {f.name: f.stat().st_mtime_ns for f in run.iterdir()}
        with (run / "episodes.jsonl").open("a") as file:
            file.write("".join(lines[10:20]) + lines[20][:99])
        page.get_by_text("20 of 60 done").wait_for()
        screenshot(page, "running")
    finally:
        holder.kill()
        holder.wait()
    page.get_by_text("its process died without a word").wait_for()
    after = {f.name: f.stat().st_mtime_ns for f in run.iterdir()}
    assert before | {"episodes.jsonl": 0} == after | {"episodes.jsonl": 0}
    screenshot(page, "killed")
    shutil.rmtree(run)
    page.get_by_text("no longer there").wait_for()


def paper(page) -> float:
    """Brightness of the page's background."""
    return brightness(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_every_disagreement_is_one_click_from_its_episode(runs, root, visit, screenshot):
    wrong = [
        e.position
        for e in Run(runs / "jitmem").latest()
        if e.verdict.success is not None and e.verdict.success != (e.outcome == "success")
    ]
    page = visit("light").page
    page.goto(f"{root}/judge?run=jitmem&theme=dark")
    page.locator("table.confusion").wait_for()
    assert paper(page) < 128, "the theme of the URL wins over the browser's"
    links = page.locator("td.n a")
    assert [int(text) for text in links.all_inner_texts()] == wrong[:20]
    unharmed(page)
    screenshot(page, "dark")
    page.get_by_role("link", name="light").click()
    page.wait_for_url("**theme=light*")
    page.locator("table.confusion").wait_for()
    assert paper(page) > 128
    screenshot(page, "light")
    page.get_by_label("Episodes").select_option(index=1)
    page.wait_for_url("**show=false_positive*")
    first = links.first
    place = int(first.inner_text())
    first.click()
    shows(page, place)


def test_the_banks_parts_reload_to_the_same_view(root, visit, screenshot):
    page = visit().page
    page.goto(f"{root}/bank?run=jitmem")
    page.get_by_text("traces now").wait_for()
    page.locator(".xtick text").first.wait_for()
    screenshot(page, "growth")
    for tab, told in (
        ("Retrieved", "different ones were retrieved"),
        ("Kept out", "What memory did with each episode"),
        ("Near-duplicates", "by the text that retrieval compares"),
        ("Items", "keeps whole trajectories"),
    ):
        page.get_by_text(tab, exact=True).click()
        page.get_by_text(told).wait_for()
        unharmed(page)
        screenshot(page, tab)
    page.get_by_text("Explain a query").click()
    page.get_by_label("Query").fill("press the button <img src=x onerror=document.title='pwned'>")
    page.keyboard.press("Enter")
    page.get_by_text("Ranked by BM25").wait_for()
    page.wait_for_url("**query=press*")
    unharmed(page)
    screenshot(page, "explain")
    before = page.locator(".jm").last.inner_text()
    page.reload()
    page.get_by_text("Ranked by BM25").wait_for()
    assert page.locator(".jm").last.inner_text() == before
    assert "score" in before


def test_two_visitors_do_not_touch_each_other(root, visit):
    one, two = visit().page, visit().page
    one.goto(f"{root}/bank?run=jitmem&tab=retrieved")
    two.goto(f"{root}/bank?run=none&tab=kept-out")
    one.get_by_text("different ones were retrieved").wait_for()
    two.get_by_text("this run has no memory").wait_for()
    two.get_by_label("Run").select_option(index=0)
    two.get_by_text("What memory did with each episode").wait_for()
    two.get_by_label("Episodes").select_option(label="taken in")
    two.get_by_text("1 to 20 of ").wait_for()
    two.get_by_role("button", name="Later rows").focus()
    two.keyboard.press("Enter")
    two.get_by_text("21 to ").wait_for()
    one.get_by_label("Order").select_option(label="newest")
    one.wait_for_url("**order=newest*")
    assert "order" not in two.url
    assert one.get_by_text("different ones were retrieved").is_visible()


def test_broken_runs_get_a_sentence_and_the_rest_works(runs, others, root, visit):
    for name in ("good", "newer", "torn"):
        shutil.copytree(runs / "jitmem", others / name)
    config = json.loads((others / "newer" / "config.json").read_text())
    (others / "newer" / "config.json").write_text(json.dumps(config | {"schema_version": 99}))
    lines = (others / "torn" / "episodes.jsonl").read_text().splitlines(keepends=True)
    (others / "torn" / "episodes.jsonl").write_text("no json\n" + lines[0] + lines[1][:200])
    os.truncate(others / "torn" / "bank.sqlite", 100)
    page = visit().page
    page.goto(f"{root}/live?run=torn")
    page.get_by_text("1 of 60 done").wait_for()
    page.get_by_text("1 lines could not be read").wait_for()
    page.goto(f"{root}/bank?run=torn")
    page.locator(".note").wait_for()
    page.goto(f"{root}/judge?run=newer")
    page.locator(".note", has_text="upgrade jitmem-lab").wait_for()
    option = page.get_by_label("Run").locator("option", has_text="good").first
    page.get_by_label("Run").select_option(label=option.inner_text())
    page.locator("table.confusion").wait_for()
