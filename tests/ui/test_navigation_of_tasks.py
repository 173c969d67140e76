"""Going through tasks in a real browser: keys, history, filters, and a list that is sorted and turned."""

from __future__ import annotations

import pytest

from jitmem_lab.execution import Executor
from jitmem_lab.memories import load_memory
from jitmem_lab.runs import Run
from jitmem_lab.stream import run_stream

from ..unit.doubles import RuleModel
from ..unit.rivals import HOSTILE, HostileBenchmark
from .test_inspect import shows, unharmed

pytestmark = pytest.mark.ui


def test_goes_by_keys_and_by_the_browsers_history(address, visit, screenshot):
    page = visit().page
    page.goto(f"{address}?run=jitmem")
    shows(page, 0)
    page.wait_for_url("**position=0")
    for key, place in (("n", 1), ("j", 2), ("ArrowRight", 3), ("p", 2), ("k", 1), ("ArrowLeft", 0), ("n", 1)):
        page.keyboard.press(key)
        shows(page, place)
    page.wait_for_url("**position=1")
    page.go_back()
    shows(page, 0)
    page.go_forward()
    shows(page, 1)
    assert page.url.endswith("position=1")
    page.keyboard.press("?")
    page.get_by_text("next failure").wait_for()
    screenshot(page, "keys")
    page.keyboard.press("?")
    page.get_by_text("next failure").wait_for(state="hidden")
    page.keyboard.press("s")
    page.locator('.step.chosen[data-step="0"]').wait_for()
    page.wait_for_url("**step=0")
    page.locator('.step[data-step="1"] h3').click()
    page.locator('.step.chosen[data-step="1"]').wait_for()
    page.wait_for_url("**step=1")
    page.reload()
    page.locator('.step.chosen[data-step="1"]').wait_for()
    page.go_back()
    shows(page, 0)
    page.wait_for_url("**position=0")
    page.keyboard.press("/")
    page.keyboard.type("npk?")
    page.keyboard.press("Escape")
    shows(page, 0)
    page.get_by_label("Filter").fill("room")
    page.keyboard.press("Enter")
    page.keyboard.press("n")
    shows(page, 1)


def test_filters_and_says_what_it_did_not_understand(runs, address, visit, screenshot):
    lost = [episode.position for episode in Run(runs / "none").latest() if episode.outcome == "failure"]
    page = visit().page
    page.goto(f"{address}?run=none&position=0")
    shows(page, 0)
    page.get_by_label("Outcome").select_option("failure")
    page.get_by_text(f"of {len(lost)} that fit, 6 in all").wait_for()
    assert page.get_by_label("Filter").input_value() == "outcome:failure"
    listed = page.locator('.tabulator-row [tabulator-field="position"]')
    assert listed.all_inner_texts() == [str(place) for place in lost]
    page.get_by_label("Filter").fill(f"outcom:failure {HOSTILE[:60]}")
    page.keyboard.press("Enter")
    page.locator(".note", has_text="did you mean outcome").wait_for()
    screenshot(page, "did-you-mean")
    page.get_by_label("Filter").fill('"room 4." memory:jitmem')
    page.keyboard.press("Enter")
    shows(page, 4)
    page.wait_for_url("**run=jitmem&**")
    assert listed.all_inner_texts() == ["4"]
    page.reload()
    shows(page, 4)
    assert listed.all_inner_texts() == ["4"]
    assert page.get_by_label("Filter").input_value() == '"room 4." memory:jitmem'
    unharmed(page)


def test_long_lists_open_what_was_clicked(serve, visit, tmp_path, screenshot):
    run = run_stream(
        HostileBenchmark(60),
        load_memory("none"),
        Executor(RuleModel()),
        out=tmp_path / "long",
        progress=False,
    )
    page = visit().page
    page.goto(f"{serve(run.path)}?position=57")
    shows(page, 57)
    chosen = page.locator(".tabulator-selected")
    chosen.filter(has_text="room 57.").wait_for()
    assert page.locator(".tabulator-page.active").inner_text() == "8"
    page.locator('.tabulator-col[tabulator-field="task"]').click()
    page.locator(".tabulator-row", has_text="room 0.").first.wait_for()
    page.get_by_label("Show Page 3").click()
    page.locator(".tabulator-page.active", has_text="3").wait_for()
    order = sorted(range(60), key=lambda i: (i % 5, str(i)))  # panel 0 in room 0, panel 0 in room 10, …
    place = order[8 * 2 + 5]
    row = page.locator(".tabulator-row", has_text=f"room {place}.")
    row.click()
    shows(page, place)
    chosen.filter(has_text=f"room {place}.").wait_for()
    page.keyboard.press("n")
    shows(page, order[8 * 2 + 6])
    screenshot(page, "sorted")
    unharmed(page)


def test_the_bar_leads_on_with_the_run_that_is_shown(address, visit):
    """Also after another run was chosen, whose name only the inspector put into the address."""
    page = visit().page
    page.goto(f"{address}?run=jitmem")
    page.locator('nav a[href*="run=jitmem"]', has_text="judge").wait_for()
    listed = page.get_by_label("Run").locator("option", has_text="none")
    page.get_by_label("Run").select_option(label=listed.first.inner_text())
    page.locator('nav a[href*="run=none"]', has_text="judge").click()
    page.wait_for_url("**/judge?run=none**")
