"""A real HTTP server on loopback that answers like an OpenAI-compatible one, well or badly as told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Say(NamedTuple):
    """What the server does with one request."""

    text: str | None = "ok"
    """Content of the answer; None sends a null content."""
    status: int = 200
    """HTTP status; from 400 on `text` is the error's message."""
    headers: dict[str, str] | None = None
    """Further headers."""
    seconds: float = 0.0
    """Delay before anything is sent."""
    raw: bytes | None = None
    """Exact body instead of a well-formed one."""
    drop: bool = False
    """Close the connection without a word."""
    usage: tuple[int, int] = (7, 3)
    """Prompt and completion tokens."""
    finish: str = "stop"
    """Finish reason."""
    message: dict[str, Any] | None = None
    """Whole message instead of one made from `text`."""


EMPTY_CHOICE = Say(raw=b'{"id": "x", "object": "chat.completion", "choices": []}')
NO_CONTENT = Say(text=None)
TRUNCATED = Say(raw=b'{"id": "x", "choices": [{"index": 0, "message": {"role": "assistant", "conte')

Script = Callable[[str, dict[str, Any], int], Say]
"""(path, request body, number of the request from 0) → what to do."""

Brain = Callable[[dict[str, Any]], "dict[str, Any] | str | Say"]
"""Request body → the assistant's message, its text, or anything else that a server may do."""


class StubServer:
    """The running server: `url`, the `requests` it got (path, body, headers), and its peak of open ones."""

    def __init__(self, script: Script, models: list[dict[str, Any]] | None = None) -> None:
        self.requests: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.peak = 0
        self._open = 0
        self._lock = threading.Lock()
        self.stopped = threading.Event()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_GET(self) -> None:
                self._send(200, json.dumps({"object": "list", "data": models or []}).encode())

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with stub._lock:
                    number = len(stub.requests)
                    stub.requests.append((self.path, body, dict(self.headers)))
                    stub._open += 1
                    stub.peak = max(stub.peak, stub._open)
                try:
                    self._answer(script(self.path, body, number), body)
                finally:
                    with stub._lock:
                        stub._open -= 1

            def _answer(self, say: Say, body: dict[str, Any]) -> None:
                if say.seconds:
                    stub.stopped.wait(say.seconds)
                if say.drop:
                    self.close_connection = True
                    return
                payload = say.raw if say.raw is not None else _body(self.path, body, say)
                self._send(say.status, payload, say.headers)

            def _send(self, status: int, payload: bytes, headers: dict[str, str] | None = None) -> None:
                try:
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(payload)))
                    for name, value in (headers or {}).items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(payload)
                except OSError:
                    self.close_connection = True

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)


def _body(path: str, body: dict[str, Any], say: Say) -> bytes:
    if say.status >= 400:
        return json.dumps({"error": {"message": say.text, "type": "stub", "code": None}}).encode()
    prompt, written = say.usage
    usage = {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}
    if path.endswith("/chat/completions"):
        message = say.message or {"role": "assistant", "content": say.text}
        finish = "tool_calls" if say.finish == "stop" and message.get("tool_calls") else say.finish
        choices: list[dict[str, Any]] = [{"index": 0, "message": message, "finish_reason": finish}]
    elif body.get("echo"):
        choices = [_echo(at, text) for at, text in enumerate(body["prompt"])]
    else:
        choices = [{"index": 0, "text": say.text, "finish_reason": say.finish}]
    answer = {"id": "stub", "object": "x", "created": int(time.time()), "model": "stub"}
    return json.dumps({**answer, "choices": choices, "usage": usage}).encode()


def _echo(index: int, text: str) -> dict[str, Any]:
    """One token a character, likelier if early in the alphabet; one written token behind."""
    values = [None] + [-float(ord(char) % 32) for char in text[1:]] + [-1.0]
    offsets = [*range(len(text)), len(text)]
    return {
        "index": index,
        "text": text + "!",
        "finish_reason": "length",
        "logprobs": {"tokens": [*text, "!"], "token_logprobs": values, "text_offset": offsets},
    }


def in_turn(says: Iterable[Say]) -> Script:
    """A script that goes through `says` and then repeats the last one."""
    listed = list(says)
    return lambda _path, _body, number: listed[min(number, len(listed) - 1)]


def thinking(brain: Brain) -> Script:
    """A script that asks a brain about each request; tokens are counted as a quarter of the characters."""

    def script(_path: str, body: dict[str, Any], _number: int) -> Say:
        answer = brain(body)
        if isinstance(answer, Say):
            return answer
        message = {"role": "assistant", "content": answer} if isinstance(answer, str) else answer
        asked = json.dumps([body["messages"], body.get("tools", [])])
        return Say(message=message, usage=(len(asked) // 4, len(json.dumps(message)) // 4))

    return script


def by_model(**brains: Brain) -> Brain:
    """A brain for each model's name, so that one server speaks for agent and user."""
    return lambda body: brains[body["model"]](body)


def conversing(*answers: dict[str, Any] | str | Say) -> Brain:
    """A brain that gives the n-th answer to a request with n messages of its own; it needs no memory, so
    that tries and episodes at once don't disturb it."""

    def brain(body: dict[str, Any]) -> dict[str, Any] | str | Say:
        said = sum(message["role"] == "assistant" for message in body["messages"])
        return answers[min(said, len(answers) - 1)]

    return brain


def calling(*calls: tuple[str, Any], text: str | None = None) -> dict[str, Any]:
    """A message that calls tools, each given by name and arguments (text is sent as it is)."""
    made = [
        {
            "id": f"chatcmpl-tool-{number}",
            "type": "function",
            "function": {
                "name": name,
                "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments),
            },
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": text, "tool_calls": made}


@contextmanager
def stub_server(script: Script | Iterable[Say] | Say, **options: Any) -> Iterator[StubServer]:
    """A stub server for a `with` block; it follows a script, a list of answers, or one answer."""
    if isinstance(script, Say):
        script = [script]
    server = StubServer(script if callable(script) else in_turn(script), **options)
    try:
        yield server
    finally:
        server.stop()
