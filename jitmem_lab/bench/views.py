"""What the dashboards cost: a real server, a real browser, runs as large as they get."""

from __future__ import annotations

import importlib.util
import os
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

from ..browser import find_browser
from ..errors import InfrastructureError
from ..terminal import table
from .made_runs import make_run

MEGABYTE = 1_000_000
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
PATIENCE = 120
"""Seconds after which something is taken not to come."""
WARM = 40
"""Visits before memory is measured: what is loaded once is loaded then, and there were as many at a time
as there will be, for a closed one is held until the server notices."""
OPENED = 20
"""Tasks that are opened one after another."""
SIGNS = {
    "inspect": ".episode-column",
    "compare": "h2:has-text('How they went')",
    "bank": "p:has-text('The bank holds')",
    "judge": "table.confusion",
    "live": ".bar",
}
"""What is seen on each page once there is something to read."""


def run(
    episodes: int = 10_000,
    gigabytes: float = 1.0,
    observation: float = 5.0,
    sessions: int = 200,
    progress: Callable[[str], None] = lambda line: None,
) -> dict[str, Any]:
    """Measure the dashboards on made-up runs.

    Args:
        episodes: Episodes of the long run.
        gigabytes: Size of the large run's `episodes.jsonl`.
        observation: Megabytes of one observation.
        sessions: Visits opened and closed.
        progress: Told what is measured next.

    Returns:
        `rows` with `what`, `value` and, where there is one, `limit` and `met`; and `notes`, what was left out
        or made smaller and why.
    """
    notes: list[str] = []
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load > cores / 2:
        notes.append(f"the machine was busy with other work: load {load:.1f} on {cores} cores at the start")
    browser = _find_browser(notes)
    with tempfile.TemporaryDirectory(prefix="jitmem-views-") as name:
        folder = Path(name)
        free = shutil.disk_usage(folder).free / 1e9
        if free < 3 * gigabytes + 2:
            smaller = max(round((free - 2) / 3, 2), 0.05)
            notes.append(
                f"the large run has {smaller} GB instead of {gigabytes}: only {free:.1f} GB are free"
            )
            gigabytes = smaller
        progress("making runs …")
        made = folder / "made"
        make_run(made / "long", episodes)
        make_run(made / "other", episodes, seed=8)
        make_run(made / "wide", 2, observation=int(observation * MEGABYTE))
        count = make_run(made / "large", size=int(gigabytes * 1e9))
        rows = _index_rows(made, episodes, gigabytes, count, progress)
        if browser is not None:
            with _chromium(browser) as chromium:
                _Visit(chromium).leave()  # a visitor's browser runs already
                rows += _visit_rows(chromium, made, episodes, observation, gigabytes, progress)
                rows += _page_rows(chromium, made, episodes, progress)
                rows += _session_rows(chromium, made, sessions, progress, notes)
    return {"rows": rows, "notes": notes}


def render(result: dict[str, Any]) -> str:
    """The figures as a table, and what is to be said about them."""
    rows = [
        {"measured": row["what"], "value": row["value"], "limit": row["limit"], "": _verdict(row["met"])}
        for row in result["rows"]
    ]
    return "\n".join(
        [table(rows, "nothing was measured", limit=100), *(f"note: {n}" for n in result["notes"])]
    )


def _verdict(met: bool | None) -> str:
    return "" if met is None else "ok" if met else "MISSED"


def _row(what: str, value: float, unit: str = "", limit: float | None = None) -> dict[str, Any]:
    shown = f"{value:,.2f} {unit}".strip()
    most = None if limit is None else f"{limit:,.10g} {unit}".strip()
    return {
        "what": what,
        "value": shown,
        "limit": most,
        "met": None if limit is None else value <= limit,
        "number": value,
    }


def _find_browser(notes: list[str]) -> str | None:
    if importlib.util.find_spec("playwright") is None:
        notes.append("nothing was measured in a browser: playwright is not installed (extra: dev)")
        return None
    found = find_browser()
    if found is None:
        notes.append("nothing was measured in a browser: no chromium here; JITMEM_CHROMIUM names its path")
    return found


@contextmanager
def _chromium(path: str) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=SWITCHES)
        try:
            yield chromium
        finally:
            chromium.close()


@contextmanager
def _server(folder: Path) -> Iterator[tuple[str, int]]:
    """Address and process id of `jitmem serve`."""
    command = [sys.executable, "-m", "jitmem_lab.cli", "serve", "--port", "0", str(folder)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout is not None
        limit = time.monotonic() + PATIENCE
        while time.monotonic() < limit and server.poll() is None:
            if select.select([server.stdout], [], [], 1)[0]:
                found = re.search(r"http://\S+", server.stdout.readline())
                if found:
                    yield found[0], server.pid
                    return
        raise InfrastructureError("the server did not start; try `jitmem serve` by hand")
    finally:
        server.terminate()
        with suppress(subprocess.TimeoutExpired):
            server.wait(10)
        server.kill()
        server.wait()


class _Visit:
    """A page in a browser with a cache of its own, and what came over the wire for it."""

    def __init__(self, chromium: Any) -> None:
        self.context = chromium.new_context(viewport={"width": 1440, "height": 1000})
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page = self.context.new_page()
        wire = self.context.new_cdp_session(self.page)
        wire.send("Network.enable")
        self.program = self.own = 0
        self._urls: dict[str, str] = {}
        wire.on(
            "Network.requestWillBeSent", lambda e: self._urls.update({e["requestId"]: e["request"]["url"]})
        )
        wire.on("Network.loadingFinished", self._loaded)
        wire.on("Network.webSocketFrameReceived", self._received)

    def _loaded(self, event: dict[str, Any]) -> None:
        if "/static/" in self._urls.get(event["requestId"], ""):
            self.program += event["encodedDataLength"]
        else:
            self.own += event["encodedDataLength"]

    def _received(self, event: dict[str, Any]) -> None:
        self.own += len(event["response"]["payloadData"].encode())

    def open(self, address: str, page: str = "inspect") -> float:
        """Seconds until there is something to read."""
        self.program = self.own = 0
        begun = time.perf_counter()
        self.page.goto(address)
        self.page.locator(SIGNS[page]).first.wait_for()
        return time.perf_counter() - begun

    def leave(self) -> None:
        """Close the page and forget its cache."""
        self.context.close()

    def settle(self, sign: str = ".tabulator-row") -> None:
        """Wait until the table is there and nothing more comes."""
        self.page.locator(sign).first.wait_for()
        before = -1
        while before != self.own:
            before = self.own
            self.page.wait_for_timeout(300)

    def press(self, key: str, sign: str) -> float:
        """Seconds from a key to a sign that it was done."""
        begun = time.perf_counter()
        self.page.keyboard.press(key)
        self.page.locator(sign).wait_for()
        return time.perf_counter() - begun


def _index_rows(
    made: Path, episodes: int, gigabytes: float, count: int, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    from ..runs import Run
    from ..views.reading import EpisodeIndex

    rows = []
    for name, what in (
        ("long", f"{episodes:,} episodes"),
        ("large", f"{gigabytes:g} GB, {count:,} episodes"),
    ):
        progress(f"index of {what} …")
        index = EpisodeIndex(Run(made / name))
        begun = time.perf_counter()
        index.refresh()
        size = index.file.stat().st_size / MEGABYTE
        rows.append(_row(f"index of {what} ({size:,.0f} MB)", time.perf_counter() - begun, "s"))
    return rows


def _visit_rows(
    chromium: Any,
    made: Path,
    episodes: int,
    observation: float,
    gigabytes: float,
    progress: Callable[[str], None],
) -> list[dict[str, Any]]:
    rows = []
    with _server(made) as (address, _):
        progress("first views …")
        visit = _Visit(chromium)
        long = f"{address}?run=long"
        first = f"first view of {episodes:,} episodes, a server's first visitor"
        rows.append(_row(first, visit.open(long), "s", 2))
        visit.settle()
        rows.append(_row("… over the wire: the program, kept by the browser", visit.program / MEGABYTE, "MB"))
        rows.append(_row("… over the wire: the page and its data", visit.own / MEGABYTE, "MB", 0.5))
        new = _Visit(chromium)
        rows.append(_row("first view, a later visitor with a new browser", new.open(long), "s", 2))
        new.leave()
        again = [visit.open(long) for _ in range(3)]
        rows.append(_row("first view again, in a browser that knows the program", median(again), "s", 2))
        visit.settle()
        progress("opening tasks …")
        shown = '.episode-column[data-position="{}"]'
        taken = [visit.press("n", shown.format(place)) for place in range(1, OPENED + 1)]
        rows.append(_row("opening a task", median(taken), "s", 0.3))
        rows.append(_row("… the slowest", max(taken), "s"))
        visit.leave()
        progress("a long observation …")
        visit = _Visit(chromium)
        rows.append(
            _row(
                f"first view of an observation of {observation:g} MB", visit.open(f"{address}?run=wide"), "s"
            )
        )
        visit.settle()
        rows.append(_row("… over the wire: the page and its data", visit.own / MEGABYTE, "MB", 0.5))
        visit.own = 0
        rows.append(_row("… shown whole", visit.press("s", '.step.chosen[data-step="0"]'), "s"))
        rows.append(_row("… over the wire", visit.own / MEGABYTE, "MB"))
        visit.leave()
        progress("the large file …")
        visit = _Visit(chromium)
        begun = time.perf_counter()
        rows.append(_row(f"first view of {gigabytes:g} GB", visit.open(f"{address}?run=large"), "s"))
        visit.page.locator("h2", has_text="read so far").wait_for(state="hidden")
        rows.append(_row("… until all is read", time.perf_counter() - begun, "s"))
        visit.leave()
    return rows


def _page_rows(
    chromium: Any, made: Path, episodes: int, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The other pages, each opened by a browser of its own, on a server that has read none of the runs."""
    rows = []
    with _server(made) as (address, _):
        root = address.rpartition("/")[0]
        for name in list(SIGNS)[1:]:
            progress(f"first view of {name} …")
            visit = _Visit(chromium)
            page = f"{root}/{name}?{_asked(name)}"
            what = f"{name}: first view of {'two runs of ' if name == 'compare' else ''}{episodes:,} episodes"
            rows.append(_row(what, visit.open(page, name), "s", 2))
            visit.settle(SIGNS[name])
            rows.append(
                _row("… over the wire: the program, kept by the browser", visit.program / MEGABYTE, "MB")
            )
            rows.append(_row("… over the wire: the page and its data", visit.own / MEGABYTE, "MB", 0.5))
            visit.leave()
            later = _Visit(chromium)
            rows.append(_row("… a later visitor with a new browser", later.open(page, name), "s", 2))
            later.leave()
    return rows


def _asked(name: str) -> str:
    """The runs that a page is opened with."""
    return "runs=long&runs=other" if name == "compare" else "run=long"


def _session_rows(
    chromium: Any, made: Path, sessions: int, progress: Callable[[str], None], notes: list[str]
) -> list[dict[str, Any]]:
    if not sessions:
        return []
    with _server(made) as (address, pid):
        if _memory(pid) is None:
            notes.append("memory was not measured: there is no /proc here")
            return []
        root = address.rpartition("/")[0]
        for number in range(WARM):
            _come_and_go(chromium, root, number)
        before = _settled_memory(pid)
        for number in range(sessions):
            if number % 50 == 0:
                progress(f"visit {number} of {sessions} …")
            _come_and_go(chromium, root, number)
        most = _memory(pid) or 0.0
        after = _settled_memory(pid)
    return [
        _row(f"server's memory after {WARM} visits to all pages", before, "MB"),
        _row(f"… after {sessions} more, the last ones not yet let go", most, "MB"),
        _row("… when they are", after, "MB"),
        _row("… more than before", 100 * (after / before - 1), "%", 20),
    ]


def _come_and_go(chromium: Any, root: str, number: int) -> None:
    """One visit: the pages in turn, each time the inspector's next task."""
    name = list(SIGNS)[number % len(SIGNS)]
    context = chromium.new_context()
    page = context.new_page()
    page.goto(f"{root}/{name}?{_asked(name)}&position={number}")
    page.locator(SIGNS[name]).first.wait_for(timeout=PATIENCE * 1000)
    context.close()


def _memory(pid: int) -> float | None:
    """Megabytes that a process holds."""
    with suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) * 1024 / MEGABYTE if found else None
    return None


def _settled_memory(pid: int) -> float:
    """The least that is held once the server has had time to let go of closed sessions."""
    from ..serve import SESSIONS

    lasting = (
        SESSIONS["unused_session_lifetime_milliseconds"] + SESSIONS["check_unused_sessions_milliseconds"]
    ) / 1000
    time.sleep(lasting + 5)
    found = []
    for _ in range(5):
        found.append(_memory(pid) or 0.0)
        time.sleep(1)
    return min(found)
