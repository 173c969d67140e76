"""The inspect dashboard and the notebook's page in a real browser, on real runs with hostile texts."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jitmem_lab.runs import Run

from ..unit.rivals import HOSTILE, make_rival

pytestmark = pytest.mark.ui


def answer(text: str, sampling) -> str:
    """What every role of the stand-in model says."""
    if '"success"' in text:
        return json.dumps({"success": len(text) % 2 == 0, "rationale": f"because {HOSTILE}"})
    if "Record" in text:
        return f"Payload for {re.findall(r'room [0-9]+', text)[0]}: press what is red {HOSTILE}"
    return f"I think {HOSTILE} <action>press {('red', 'green', 'blue')[len(text) % 3]}</action>"


def make_run(folder: Path, memory: str, n: int = 6) -> Run:
    return make_rival(folder, memory, n, answer)


COLUMNS = ("traces", "payload", "episode")


def positions(page) -> list[str]:
    """The place in the stream that each of the three columns says it shows."""
    return [page.locator(f".{name}-column").get_attribute("data-position") for name in COLUMNS]


def shows(page, position: int) -> None:
    """Wait until the three columns show a task, and check that they do."""
    page.locator(f'.episode-column[data-position="{position}"]').wait_for()
    assert positions(page) == [str(position)] * 3
    assert f"room {position}." in page.locator("h1").inner_text()


def unharmed(page) -> None:
    assert "pwned" not in page.title()
    assert page.locator("img[src=x]").count() == 0
    assert page.locator(".jm script, .jitmem-record script, .MathJax, mjx-container").count() == 0


def test_opens_and_goes_through_tasks(address, visit):
    page = visit().page
    page.goto(address)
    shows(page, 0)
    page.wait_for_url("**?run=jitmem&position=0")  # the newest run comes first
    assert page.get_by_role("button", name="‹ Previous").is_disabled()
    page.get_by_role("button", name="Next ›").click()
    shows(page, 1)
    page.get_by_role("button", name="Next ›").click()
    shows(page, 2)
    page.get_by_role("button", name="‹ Previous").click()
    shows(page, 1)
    page.locator(".tabulator-row", has_text="room 5.").click()
    shows(page, 5)
    assert page.get_by_role("button", name="Next ›").is_disabled()
    unharmed(page)


def test_columns_hold_what_the_record_holds(runs, address, visit):
    episode = Run(runs / "jitmem").episode(3)
    page = visit().page
    page.goto(f"{address}?run=jitmem&position=3")
    shows(page, 3)
    payload = page.locator(".payload-column pre.payload").inner_text()
    assert payload.startswith("Payload for room 3:")
    assert "<img src=x onerror=document.title='pwned'>" in payload
    assert "</script>" in payload
    assert "$$\\frac{1}{0}$$" in payload
    assert "\x1b" not in payload
    assert "\\u202e" in payload
    traces = page.locator(".traces-column details")
    assert traces.count() == len(episode.recall.traces) > 0
    for trace, shown in zip(episode.recall.traces, traces.all(), strict=True):
        assert f"{trace.rank}. {trace.description[:20]}" in shown.inner_text()
        assert f"score {trace.score:.3f}" in shown.inner_text()
    assert episode.trajectory is not None
    steps = page.locator(".episode-column .step", has=page.locator(".act"))
    assert [f"→ {step.action}" for step in episode.trajectory.steps] == [
        shown.locator(".act").inner_text().strip() for shown in steps.all()
    ]
    prompts = [page.locator("details", has_text="prompt as sent").nth(i) for i in range(2)]
    assert not prompts[0].locator("pre").first.is_visible(), "prompts start folded"
    prompts[0].locator("summary").click()
    sent = episode.calls[0].messages[0].content
    assert episode.calls[0].role == "curator"
    assert sent[:200].split() == prompts[0].locator("pre").first.inner_text()[:200].split()
    assert page.locator("summary", has_text="prompt as sent").count() == len(episode.calls)
    assert page.locator(".badge").first.inner_text() == episode.outcome
    assert f"by the {episode.verdict.source}" in page.locator(".episode-column").inner_text()
    unharmed(page)


def test_reload_gives_the_same_view(address, visit):
    page = visit().page
    page.goto(address)
    shows(page, 0)
    page.get_by_label("Run").select_option(index=1)
    page.locator(".payload-column", has_text="no payload").wait_for()
    page.get_by_role("button", name="Next ›").click()
    shows(page, 1)
    page.wait_for_url("**position=1*")
    assert "run=none" in page.url
    before = page.locator(".jm").last.inner_text()
    page.reload()
    shows(page, 1)
    assert page.locator(".jm").last.inner_text() == before
    other = visit().page
    other.goto(page.url)
    shows(other, 1)
    assert other.locator(".jm").last.inner_text() == before


def test_two_visitors_do_not_touch_each_other(address, visit):
    one, two = visit().page, visit().page
    one.goto(f"{address}?run=jitmem&position=1")
    two.goto(f"{address}?run=none&position=4")
    shows(one, 1)
    shows(two, 4)
    two.get_by_role("button", name="Next ›").click()
    shows(two, 5)
    shows(one, 1)
    one.get_by_role("button", name="Next ›").click()
    shows(one, 2)
    shows(two, 5)
    assert "run=none" in two.url
    assert "run=jitmem" in one.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_follows_the_theme(address, visit, screenshot, scheme):
    page = visit(scheme).page
    page.goto(f"{address}?position=3")
    shows(page, 3)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.locator("h1").evaluate("node => getComputedStyle(node).color")
    field = page.get_by_label("Run").evaluate("node => getComputedStyle(node).backgroundColor")
    assert (brightness(paper) > 128) == (scheme == "light")
    assert (brightness(field) > 128) == (scheme == "light")
    assert abs(brightness(paper) - brightness(ink)) > 120
    screenshot(page, "closed")
    page.locator("summary", has_text="prompt as sent").nth(1).click()
    screenshot(page, "open")


def brightness(colour: str) -> float:
    """0 to 255 of a CSS colour."""
    return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3


def test_bad_runs_get_a_sentence_and_the_rest_works(runs, serve, visit, tmp_path, screenshot):
    for name in ("none", "jitmem"):
        shutil.copytree(runs / name, tmp_path / name)
    for name in ("empty", "newer", "newer-episode", "torn", "gone"):
        shutil.copytree(runs / "none", tmp_path / name)
    (tmp_path / "empty" / "episodes.jsonl").unlink()
    config = json.loads((tmp_path / "newer" / "config.json").read_text())
    (tmp_path / "newer" / "config.json").write_text(json.dumps(config | {"schema_version": 99}))
    lines = (tmp_path / "newer-episode" / "episodes.jsonl").read_text().splitlines()
    raised = "".join(json.dumps(json.loads(line) | {"schema_version": 99}) + "\n" for line in lines)
    (tmp_path / "newer-episode" / "episodes.jsonl").write_text(raised)
    lines.sort(key=lambda line: json.loads(line)["position"])
    (tmp_path / "torn" / "episodes.jsonl").write_text(f"not json\n{lines[1]}\n{lines[0][:200]}")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{")
    address = serve(tmp_path)
    page = visit().page
    for run, sentence in {
        "empty": "no finished episode yet",
        "newer": "upgrade jitmem-lab",
        "newer-episode": "upgrade jitmem-lab",
        "broken": "cannot be read",
        "nowhere": "there is no run 'nowhere'",
        "../none": "there is no run '../none'",
    }.items():
        page.goto(f"{address}?run={run}")
        page.locator(".note", has_text=sentence).wait_for()
    screenshot(page, "unknown")
    page.goto(f"{address}?run=none&position=99")
    page.locator(".note", has_text="no finished episode at position 99").wait_for()
    page.goto(f"{address}?run=none&position=-1%3Cb%3E")
    page.locator(".note", has_text="position=-1<b> is no place").wait_for()
    page.goto(f"{address}?run=torn")
    shows(page, 1)  # the only one left, though the run shown by default has an earlier one
    assert page.get_by_text("1 lines could not be read").is_visible()
    page.goto(f"{address}?run=gone")
    shows(page, 0)
    shutil.rmtree(tmp_path / "gone")
    page.get_by_role("button", name="Next ›").click()
    page.locator(".note", has_text="no longer there").wait_for()
    screenshot(page, "gone")
    listed = page.get_by_label("Run").locator("option", has_text="jitmem")
    page.get_by_label("Run").select_option(label=listed.first.inner_text())
    shows(page, 1)


def test_a_token_keeps_others_out(runs, serve, visit, screenshot):
    address = serve(runs, arguments=("--token", "open sesame"))
    page = visit().page
    page.goto(address)
    page.get_by_label("token").fill("wrong one")
    page.keyboard.press("Enter")
    page.get_by_text("That is not the token").wait_for()
    screenshot(page, "login")
    page.goto(address)
    assert page.locator(".column").count() == 0
    page.get_by_label("token").fill("open sesame")
    page.keyboard.press("Enter")
    page.locator(".episode-column").wait_for()


def test_page_of_an_executed_notebook(runs, visit, screenshot, tmp_path):
    import nbformat

    from jitmem_lab.notebooks.export import to_html

    cells = [
        nbformat.v4.new_markdown_cell("# A payload beside its traces"),
        nbformat.v4.new_code_cell(f"path = {str(runs / 'jitmem')!r}", metadata={"tags": ["parameters"]}),
        nbformat.v4.new_code_cell(
            "from jitmem_lab import open_run\nrun = open_run(path)\nepisode = run.episode(3)\nepisode"
        ),
        nbformat.v4.new_code_cell("run"),
        nbformat.v4.new_code_cell("import jitmem_lab as jm\njm.curve_figure([run])"),
        nbformat.v4.new_code_cell("episode.calls[0]"),
        nbformat.v4.new_code_cell("print(episode.recall.payload.encode('ascii', 'replace').decode())"),
    ]
    notebook = nbformat.v4.new_notebook(cells=cells)
    source, done = tmp_path / "small.ipynb", tmp_path / "done.ipynb"
    nbformat.write(notebook, source)
    command = [sys.executable, "-m", "jitmem_lab.cli", "run", str(source), "-o", str(done)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    html = to_html(done)
    page = visit().page
    page.goto(html.as_uri())
    record = page.locator(".jitmem-record").first
    record.wait_for()
    text = record.inner_text()
    assert "Payload for room 3:" in text
    assert "<img src=x onerror=document.title='pwned'>" in text
    assert "$$\\frac{1}{0}$$" in text
    page.locator(".plotly svg", has_text="success rate").first.wait_for()
    unharmed(page)
    screenshot(page, "page")
