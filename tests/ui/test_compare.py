"""The compare dashboard and the figures of single tasks in a real browser, on runs with hostile texts."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from urllib.request import urlopen

import pytest

from jitmem_lab.runs import Run
from jitmem_lab.views import qualitative

from ..unit.rivals import make_rivals

pytestmark = pytest.mark.ui
TASKS = 24


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    return make_rivals(tmp_path_factory.mktemp("runs"), TASKS)


@pytest.fixture(scope="module")
def broken(runs, tmp_path_factory) -> Path:
    """Runs that are empty, of a newer version, and soon gone."""
    folder = tmp_path_factory.mktemp("broken")
    for name in ("empty", "newer", "gone"):
        shutil.copytree(runs / "none", folder / name)
    (folder / "empty" / "episodes.jsonl").unlink()
    config = json.loads((folder / "newer" / "config.json").read_text())
    (folder / "newer" / "config.json").write_text(json.dumps(config | {"schema_version": 99}))
    return folder


@pytest.fixture(scope="module")
def address(runs, broken, serve) -> str:
    page = serve(runs, broken).rsplit("/", 1)[0] + "/compare"
    with urlopen(page, timeout=60) as answer:  # the first page imports what all need
        answer.read()
    return page


def unharmed(page) -> None:
    assert page.title() != "pwned"
    assert page.locator("img[src=x]").count() == 0
    assert page.locator(".jm script, .MathJax, mjx-container").count() == 0


def brightness(colour: str) -> float:
    """0 to 255 of a CSS colour."""
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3


def heading(page, text: str) -> None:
    """Wait until the task shown is the one with these words."""
    page.locator("h1:visible", has_text=text).wait_for()


def test_what_differs_and_how_they_went(runs, address, visit):
    page = visit().page
    page.goto(address)
    page.get_by_role("heading", name="How they went").wait_for()
    page.wait_for_url("**?runs=none&runs=jitmem&base=none")
    for name in ("none", "jitmem"):
        won = sum(episode.outcome == "success" for episode in Run(runs / name).latest())
        row = page.locator(".grid").first.locator("tr", has_text=f"{name} · buttons")
        assert row.locator("td").nth(3).inner_text() == str(won)
    page.locator(".plotly svg", has_text="success so far").first.wait_for()
    legend = page.locator(".plotly .legendtext").all_text_contents()
    assert legend == ["none", "jitmem (dots: the same as none)"]
    curator = page.locator(".tokens tr", has_text="curator")
    assert re.match(r"[\d,]+ \+ [\d,]+", curator.locator("td").last.inner_text())
    name = page.locator(".grid").last.locator("tr", has_text="memory.curator")
    page.locator("summary", has_text="settings that not all of them have").click()
    name.first.wait_for()
    unharmed(page)


def test_a_row_opens_its_task_however_the_table_is_sorted(runs, address, visit):
    page = visit().page
    page.goto(f"{address}?tab=tasks")
    page.locator(".payloads .diff").first.wait_for()
    page.locator(".tabulator-col:visible", has_text="task").first.click()
    page.locator(".tabulator-row:visible", has_text="panel 0 in room 0.").wait_for()
    page.locator(".tabulator-page:visible", has_text="2").click()
    row = page.locator(".tabulator-row:visible", has_text="panel 2 in room 22.")
    row.click()
    heading(page, "in room 22.")
    page.wait_for_url("**task=b22*")
    cards = page.locator(".card[data-position]")
    assert cards.evaluate_all("nodes => nodes.map(node => node.dataset.position)") == ["22", "22"]
    for name in ("none", "jitmem"):
        episode = Run(runs / name).episode(22)
        shown = page.locator(f'.card[data-run="{name}"]').inner_text()
        assert episode.outcome in shown
    assert "Advice for room 22:" in page.locator(".payloads").inner_text()
    page.get_by_role("button", name="Previous").first.press("Enter")
    heading(page, "panel 2 in room 2.")
    inside = page.get_by_role("link", name="open in the inspector").nth(1)
    assert inside.get_attribute("href") == "inspect?run=jitmem&position=2"
    unharmed(page)


def test_filter_base_and_kind_are_kept_in_the_address(address, visit):
    page = visit().page
    page.goto(f"{address}?tab=tasks")
    page.locator(".payloads .diff.side").first.wait_for()
    page.get_by_label("Words").fill("room 1")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=room+1*")
    page.get_by_role("button", name="unified").click()
    page.locator(".payloads .diff.unified").first.wait_for()
    page.get_by_label("Compared with").select_option("jitmem")
    page.locator(".payloads th", has_text=re.compile("− jitmem")).wait_for()
    page.wait_for_url("**base=jitmem*")
    before = page.locator(".jm:visible").last.inner_text()
    other = visit().page
    other.goto(page.url)
    other.locator(".payloads .diff.unified").first.wait_for()
    assert other.locator(".jm:visible").last.inner_text() == before
    assert other.get_by_label("Words").input_value() == "room 1"
    page.get_by_role("button", name="What differs").click()
    page.get_by_role("heading", name="Against jitmem").wait_for()
    assert other.locator(".payloads .diff.unified").first.is_visible(), "another visitor's page"


def test_one_trace_two_tasks(runs, address, visit):
    page = visit().page
    page.goto(f"{address}?tab=trace")
    page.locator(".payloads .diff").wait_for()
    page.wait_for_url("**left=*")
    asked = dict(re.findall(r"(\w+)=(\w+)", page.url.partition("?")[2]))
    assert asked["bank"] == "jitmem"
    pair = [Run(runs / "jitmem").episode(int(asked[side])) for side in ("left", "right")]
    for episode in pair:
        assert int(asked["trace"]) in [trace.trace_id for trace in episode.recall.traces]
        room = f"room {episode.task.task_id[1:]}"
        assert f"Advice for {room}:" in page.locator(".payloads").inner_text()
    assert pair[0].task.task_id[1:] in page.locator(".payloads del").first.inner_text()
    page.locator(".tabulator-row:visible").nth(2).click()
    page.wait_for_url(lambda url: f"trace={asked['trace']}&" not in url)
    page.locator(".payloads .diff").wait_for()
    options = page.get_by_label("Another").locator("option")
    assert options.count() > 1
    page.get_by_label("Another").select_option(index=options.count() - 1)
    page.wait_for_url(lambda url: f"right={asked['right']}" not in url)
    before, url = page.locator(".jm:visible").last.inner_text(), page.url
    page.reload()
    page.locator(".payloads .diff").wait_for()
    assert page.locator(".jm:visible").last.inner_text() == before
    assert page.url == url
    unharmed(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_follows_the_theme(address, visit, screenshot, scheme):
    page = visit(scheme).page
    page.goto(address)
    page.locator(".plotly .xtick text").first.wait_for()
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (brightness(paper) > 128) == (scheme == "light")
    for words in ("h2:visible", ".grid td", ".plotly .xtick text", ".plotly .legendtext"):
        look = "node => node.closest('svg') ? getComputedStyle(node).fill : getComputedStyle(node).color"
        ink = page.locator(words).first.evaluate(look)
        assert abs(brightness(paper) - brightness(ink)) > 120, words
    screenshot(page, "runs")
    page.get_by_role("button", name="Tasks", exact=True).click()
    page.locator(".payloads .diff").first.wait_for()
    screenshot(page, "tasks")
    cell = page.locator(".tabulator-cell:visible").first.evaluate("node => getComputedStyle(node).color")
    assert abs(brightness(paper) - brightness(cell)) > 120
    page.get_by_role("button", name="One trace, two tasks").click()
    page.locator("section.trace:visible").wait_for()
    screenshot(page, "trace")


def test_bad_runs_get_a_sentence_and_the_rest_works(broken, address, visit, screenshot):
    page = visit().page
    chosen = "".join(f"&runs={name}" for name in ("none", "empty", "newer", "jitmem"))
    page.goto(f"{address}?tab=tasks{chosen}")
    page.locator(".note", has_text="newer: ").wait_for()
    page.locator(".note", has_text="empty has no finished episode").wait_for()
    page.locator(".payloads .diff").first.wait_for()
    screenshot(page, "bad")
    page.goto(f"{address}?runs=none&runs=jitmem&runs=nowhere&tab=nothing&trace=-1&task=%3Cb%3E")
    for sentence in ("there is no run 'nowhere'", "tab=nothing is not to be had", "trace=-1 is no number"):
        page.locator(".note:visible", has_text=sentence).wait_for()
    page.goto(f"{address}?tab=tasks&runs=gone&runs=jitmem")
    page.locator(".payloads .diff").first.wait_for()
    shutil.rmtree(broken / "gone")
    page.get_by_role("button", name="Next ›").first.click()
    page.locator(".card", has_text="can no longer be read").wait_for()
    page.get_by_role("button", name="Reload").click()
    page.locator(".note:visible", has_text="gone: ").wait_for()


def test_figures_of_single_tasks_open_anywhere(runs, visit, tmp_path, screenshot):
    sides = qualitative.open_sides([runs])
    found = qualitative.chosen_trace(sides)
    assert found is not None
    task = qualitative.telling_tasks(sides, 1)[0]
    figures = [qualitative.task_figure(sides, task), qualitative.trace_figure(*found)]
    files = [Path(line) for line in qualitative.export(figures, tmp_path)]
    assert [file.suffix for file in files] == [".html", ".html", ".png", ".png"]
    assert all(file.stat().st_size > 5_000 for file in files[2:])
    page = visit("dark").page
    for file in files[:2]:
        page.goto(file.as_uri())
        assert "Advice for room" in page.locator("body").inner_text()
        assert "<img src=x onerror=document.title='pwned'>" in page.locator("body").inner_text()
        unharmed(page)
        screenshot(page, file.stem)
