"""A real browser, and a real server to open with it."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from jitmem_lab.browser import find_browser

SWITCHES = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


@pytest.fixture(scope="session")
def browser() -> Iterator:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra: dev)")
    path = find_browser()
    if path is None:
        pytest.skip("no chromium here: install Debian's package chromium, or set JITMEM_CHROMIUM to its path")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        yield chromium
        chromium.close()


class Visit:
    """A page with what it complained about and what it asked of other machines."""

    def __init__(self, browser, scheme: str = "light") -> None:
        self.context = browser.new_context(viewport={"width": 1440, "height": 1000}, color_scheme=scheme)
        self.context.set_default_timeout(30_000)  # a busy machine is slow, not wrong
        self.page = self.context.new_page()
        self.complaints: list[str] = []
        self.foreign: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append("a dialog opened"), dialog.dismiss()))
        self.context.route(
            lambda url: not re.match(r"(http://(localhost|127\.0\.0\.1)[:/]|file:|data:|blob:)", url),
            self._refuse,
        )

    def _refuse(self, route) -> None:
        self.foreign.append(route.request.url)
        route.abort()


@pytest.fixture
def visit(browser) -> Iterator[Callable[..., Visit]]:
    """Opens pages of their own; afterwards none may have complained or asked elsewhere."""
    visits: list[Visit] = []

    def new(scheme: str = "light") -> Visit:
        visits.append(Visit(browser, scheme))
        return visits[-1]

    yield new
    complaints = [complaint for visit in visits for complaint in visit.complaints]
    foreign = [url for visit in visits for url in visit.foreign]
    for visit in visits:
        visit.context.close()
    assert complaints == []
    assert foreign == []


@pytest.fixture(scope="session")
def serve() -> Iterator[Callable[..., str]]:
    """Starts `jitmem serve` on folders; gives the dashboard's address."""
    servers: list[subprocess.Popen] = []

    def start(*runs: Path, arguments: tuple[str, ...] = ()) -> str:
        command = [
            sys.executable,
            "-m",
            "jitmem_lab.cli",
            "serve",
            "--port",
            "0",
            *arguments,
            *map(str, runs),
        ]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        servers.append(server)
        assert server.stdout is not None
        limit = time.monotonic() + 180  # a busy machine is slow, not wrong
        while time.monotonic() < limit and server.poll() is None:
            if select.select([server.stdout], [], [], 1)[0]:
                found = re.search(r"http://\S+", server.stdout.readline())
                if found:
                    return found[0]
        raise AssertionError("the server did not start")

    yield start
    for server in servers:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(10)
        if server.poll() is None:
            server.kill()
            server.wait()


@pytest.fixture
def screenshot(tmp_path, request) -> Callable[..., Path]:
    """Keeps a picture of a page in JITMEM_SCREENSHOTS, else in the test's folder."""

    def take(page, name: str) -> Path:
        folder = Path(os.environ.get("JITMEM_SCREENSHOTS") or tmp_path)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{request.node.name.replace('/', '_')}-{name}.png"
        page.screenshot(path=path, full_page=True)
        return path

    return take


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Two runs on the same tasks, whose texts try to run something."""
    from .test_inspect import make_run

    folder = tmp_path_factory.mktemp("runs")
    for memory in ("none", "jitmem"):
        make_run(folder, memory)
    return folder


@pytest.fixture(scope="module")
def address(runs, serve) -> str:
    """Where they are served."""
    return serve(runs)
