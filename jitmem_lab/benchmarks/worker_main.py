"""What runs inside an environment worker: one loop that answers its parent's calls."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from typing import Any

from ..errors import UserError
from .loading import load_object
from .workers import receive, send


def main(fd: int, target: str, options: dict[str, Any]) -> None:
    """Serve the parent at the other end of socket `fd` until it closes or is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    sock = socket.socket(fileno=fd)
    host = load_object(target)(**options)
    envs: dict[int, Any] = {}
    with contextlib.suppress(EOFError, OSError):
        while True:
            send(sock, _answer(host, envs, receive(sock)))
    os._exit(0)


def _answer(host: Any, envs: dict[int, Any], request: dict[str, Any]) -> dict[str, Any]:
    try:
        if request["op"] == "open":
            envs[request["env"]] = host.open(request["spec"])
            return {"ok": None}
        if request["op"] == "close":
            env = envs.pop(request["env"], None)
            if hasattr(env, "close"):
                env.close()
            return {"ok": None}
        owner = host if request["op"] == "host" else envs[request["env"]]
        return {"ok": getattr(owner, request["method"])(*request["args"])}
    except UserError as error:
        return {"kind": "user", "error": str(error)}
    except Exception as error:
        return {"kind": "infrastructure", "error": f"{type(error).__name__}: {error}"[:2000]}


def _watch(parent: int) -> None:
    """End this process when its parent is gone, even while an environment computes."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(0)
