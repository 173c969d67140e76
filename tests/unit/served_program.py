"""Stands where vLLM's program would: a real HTTP server, with an engine in a session of its own.

`MODE` in the environment: `die` ends while loading, `stubborn` ignores SIGTERM, `later` dies on its own.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MODE = os.environ.get("MODE", "")


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = (
            b""
            if self.path == "/health"
            else json.dumps({"data": [{"id": option("--served-model-name")}]}).encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


def option(name: str) -> str:
    return sys.argv[sys.argv.index(name) + 1]


def main() -> None:
    if MODE == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # which the engine inherits
    engine = subprocess.Popen(["sleep", "300"], start_new_session=True)
    Path(os.environ["PIDS"]).write_text(json.dumps([os.getpid(), engine.pid]))
    print("INFO loading weights", flush=True)
    time.sleep(float(os.environ.get("LOADS", "0.3")))
    if MODE == "die":
        print("ValueError: no room for the cache: raise gpu_memory_utilization", file=sys.stderr, flush=True)
        os._exit(1)
    if MODE == "later":
        threading.Timer(1.0, os._exit, [9]).start()
    ThreadingHTTPServer((option("--host"), int(option("--port"))), Handler).serve_forever()


main()
