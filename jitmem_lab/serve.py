"""`jitmem serve`: the dashboards, on this machine unless there is a token."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import ipaddress
import itertools
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .errors import UserError

SHORTEST_TOKEN = 8
"""Characters that a token must have."""
PAGES = ("inspect", "compare", "bank", "judge", "live", "train")
"""The dashboards, in the order of the bar on top; each is `views.NAME.NAME_page(runs)`."""
AHEAD, RUNS_AHEAD = 2.5, 20
"""Seconds that are spent on reading runs before the address is told, and most runs."""
SESSIONS = {
    "unused_session_lifetime_milliseconds": 15_000,
    "check_unused_sessions_milliseconds": 5_000,
    "keep_alive_milliseconds": 30_000,
}
"""How soon the server lets go of a page that was closed, and how it notices."""
TURN = 0.001
"""Seconds after which a thread that reads a run lets the pages have their turn."""


def main(
    runs: Sequence[str] = (),
    port: int = 5006,
    address: str = "127.0.0.1",
    token: str | None = None,
    show: bool = False,
) -> int:
    """Serve the dashboards of some runs until interrupted.

    Args:
        runs: Run directories and folders of runs; none takes the folder `runs`.
        port: 0 takes a free one.
        address: Where to listen; other machines are let in only with a token.
        token: The password that visitors are asked for.
        show: Whether to open a browser.

    Returns:
        The process's exit status.

    Raises:
        UserError: A folder is missing, the port is taken, or the address is open and there is no token.
    """
    check_door(address, token)
    for run in runs:
        if not Path(run).is_dir():
            raise UserError(f"there is no folder {run}; give run directories or folders of runs")
    try:
        import panel as pn

        for name in ("navigation", *PAGES):  # now, that the first visitor need not wait
            importlib.import_module(f"jitmem_lab.views.{name}")
        importlib.import_module("jitmem_lab.views.plots").load_plotly()
    except ImportError as error:
        raise UserError(
            f"the dashboards need packages that are missing ({error}); pip install 'jitmem-lab[lab]'"
        ) from None
    port = find_port(address, port)
    shown = list(runs) or ["runs"]
    sys.setswitchinterval(TURN)
    server = pn.serve(
        {name: served(name, shown) for name in PAGES},
        port=port,
        address=address,
        websocket_origin=origins(address, port),
        title={name: f"JitMem Lab · {name}" for name in PAGES},
        basic_auth=token,
        login_template=str(Path(__file__).parent / "views" / "login.html"),
        cookie_secret=secrets.token_hex(32) if token else None,
        start=False,
        show=show,
        verbose=False,
        index=str(Path(__file__).parent / "views" / "root.html"),
        warm=True,  # each page is made once now, that the first visitor need not wait for what is made once
        compress_response=not is_loopback(address),  # on this machine it would only take time
        **SESSIONS,
    )
    ahead = read_ahead(shown)  # kept here, so that the first visitor finds them read
    print(f"Dashboards at {url(address, port)}/inspect (Ctrl-C ends them)", flush=True)
    server.start()
    give_back_memory(server)
    server.io_loop.start()
    server.stop()
    ahead.clear()
    return 0


def read_ahead(runs: Sequence[str | Path], seconds: float = AHEAD) -> list[Any]:
    """The indexes of the newest runs, read for so many seconds in all; a visit goes on where one stopped."""
    from .runs import Run
    from .views.reading import EpisodeIndex, find_runs

    found: list[Any] = []
    limit = time.monotonic() + seconds
    for listed in itertools.islice(find_runs(runs).values(), RUNS_AHEAD):
        with contextlib.suppress(UserError):
            index = EpisodeIndex(Run(listed.path))
            index.read(max(0.0, limit - time.monotonic()))
            found.append(index)
        if time.monotonic() > limit:
            break
    return found


def served(name: str, runs: Sequence[str | Path]) -> Callable[[], Any]:
    """What makes a dashboard for each visitor; Panel serves plain functions only."""

    def page() -> Any:
        import panel as pn

        from .views.navigation import Navigation

        module = importlib.import_module(f"jitmem_lab.views.{name}")
        view = getattr(module, f"{name}_page")(list(runs))
        bar = Navigation(name, PAGES, pn.state.location, getattr(view, "browser", None))
        return pn.Column(bar, view, sizing_mode="stretch_width", margin=0)

    return page


def give_back_memory(server: Any, every: int = 10_000) -> None:
    """Give the system back what closed pages have left, which the C library would keep for itself.

    Args:
        server: A `panel.io.server.Server`.
        every: Milliseconds between two looks at whether pages were closed.
    """
    from tornado.ioloop import PeriodicCallback

    trim: Any = None
    with contextlib.suppress(OSError, TypeError):
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it
    known: set[str] = set()

    def look() -> None:
        nonlocal known
        now = {session.id for page in PAGES for session in server.get_sessions(f"/{page}")}
        if known - now:
            trim(0)
        known = now

    if trim is not None:
        PeriodicCallback(look, every).start()


def is_loopback(address: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def check_door(address: str, token: str | None) -> None:
    """Refuse an address that others reach without a token, and a token that is easily guessed."""
    if not address:
        raise UserError("give an address, such as 127.0.0.1")
    if ":" in address:  # Panel 1.9.4 fails on each request to such a host
        raise UserError(
            f"no dashboard opens under {address}; give a host name or an address such as 127.0.0.1"
        )
    if token is None and not is_loopback(address):
        raise UserError(
            f"anyone who reaches {address} could read the runs: set a token with --token or JITMEM_TOKEN, "
            "or serve on 127.0.0.1"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise UserError(f"the token is too short; take at least {SHORTEST_TOKEN} characters")


def find_port(address: str, port: int) -> int:
    """The port, or a free one for 0; `UserError` if it cannot be had."""
    try:
        family, _, _, _, place = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UserError(
            f"port {port} of {address} cannot be had ({error.strerror}); choose another with --port"
        ) from None


def url(address: str, port: int) -> str:
    """Where a browser on this machine finds the server."""
    host = "localhost" if is_loopback(address) or address == "0.0.0.0" else address
    return f"http://{host}:{port}"


def origins(address: str, port: int) -> list[str]:
    """Hosts whose pages may talk to the server: this machine's names, and the address itself."""
    hosts = {"localhost", "127.0.0.1"}
    if not is_loopback(address):
        hosts |= {address, socket.gethostname(), socket.getfqdn()}
    return [f"{host}:{port}" for host in sorted(hosts)]
