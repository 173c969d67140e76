"""From the demo's last line to the first payload beside its traces, and a comparison gone through by keys."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from jitmem_lab import demo
from jitmem_lab.runs import Run

from ..unit.rivals import make_rivals

pytestmark = pytest.mark.ui


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """Runs in a folder whose names are long and begin alike."""
    folder = make_rivals(tmp_path_factory.mktemp("made"), 6)
    for name in ("none", "jitmem"):
        (folder / name).rename(folder / f"buttons-of-a-long-name-{name}-of-the-first-order")
    return folder


def test_the_demos_last_line_opens_the_first_payload_without_a_click(played, visit, tmp_path, screenshot):
    program, *given = shlex.split(demo.serving(played))
    assert Path(program).name == "jitmem"
    assert given == ["serve", str(played), "--show"]
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {shlex.quote(str(opened))}\n')
    browser.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", "jitmem_lab.cli", *given, "--port", "0"],
        env=os.environ | {"BROWSER": str(browser)},
        stdout=subprocess.DEVNULL,
    )
    try:
        limit = time.monotonic() + 180
        while not (opened.exists() and opened.read_text()) and time.monotonic() < limit:
            time.sleep(0.1)
        page = visit().page
        page.goto(opened.read_text().strip())
        page.locator(".payload-column pre.payload").wait_for()
        assert page.locator(".payload-column pre.payload").is_visible()
        assert page.locator(".traces-column .trace[open] pre").first.is_visible()
        screenshot(page, "first")
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(10)
        if server.poll() is None:
            server.kill()
            server.wait()


def test_a_comparison_goes_by_keys_and_tells_runs_apart(played, serve, visit):
    page = visit().page
    page.goto(serve(played).rsplit("/", 1)[0] + "/compare?tab=tasks")
    page.locator(".payloads .diff").first.wait_for()
    titles = page.locator(".tabulator-col-title:visible").all_inner_texts()
    assert titles[:3] == ["task", "none", "jitmem"]
    page.locator(".tabulator-col:visible", has_text="jitmem").hover()
    page.locator(".tabulator-tooltip", has_text="buttons-of-a-long-name-jitmem-of-the-first-order").wait_for()
    first = re.findall(r"in room \d+\.", page.locator("h1:visible").inner_text())[0]
    page.keyboard.press("n")
    page.locator("h1:visible", has_not_text=first).wait_for()
    page.keyboard.press("ArrowLeft")
    page.locator("h1:visible", has_text=first).wait_for()
    page.keyboard.press("?")
    page.get_by_text("next task, or next trace").wait_for()
    page.get_by_role("button", name="One trace, two tasks").click()
    page.locator("section.trace:visible").wait_for()
    page.wait_for_url("**trace=*")
    start = re.findall(r"trace=(\d+)", page.url)[0]
    assert page.get_by_role("button", name="‹ Previous").locator("visible=true").is_disabled()
    page.keyboard.press("j")
    page.wait_for_url(lambda url: f"trace={start}&" not in url)
    page.keyboard.press("p")
    page.wait_for_url(f"**trace={start}&**")
    page.get_by_role("button", name="Next ›").locator("visible=true").click()
    page.wait_for_url(lambda url: f"trace={start}&" not in url)
    run = Run(next(played.glob("*jitmem*")))
    known = {str(trace.trace_id) for episode in run.latest() for trace in episode.recall.traces}
    assert re.findall(r"trace=(\d+)", page.url)[0] in known - {start}
