"""The process that Jupyter clients take for the kernel: their ZMQ sockets here, a gateway's websocket there.

It is started by `gateway.GatewayProvisioner`, is interrupted and ended by signals like a kernel, and ends
with a sentence on standard error when the kernel or the gateway is gone, so that whoever waits for a cell
learns that its kernel died.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hmac
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.session import DELIM, Session
from tornado.httpclient import HTTPClientError, HTTPRequest
from tornado.websocket import WebSocketClientConnection, websocket_connect

from ..errors import InfrastructureError, JitmemError
from .frames import PROTOCOL, pack, unpack
from .gateway import START_SECONDS, Gateway
from .ports import PORTS, rewrite
from .specs import MARK

_ROUTED = ("shell", "control", "stdin")
_SOCKETS = {**dict.fromkeys(_ROUTED, zmq.ROUTER), "iopub": zmq.PUB, "hb": zmq.ROUTER}
_PING_SECONDS = 120.0  # a busy gateway may be late; one that is gone closes the connection
_WAITING = 10_000  # requests whose askers are remembered
_LARGEST = 1 << 30  # bytes of one message; tornado's own limit of 10 MiB would end a notebook with a figure


class Bridge:
    """One kernel on a gateway behind the sockets of a connection file.

    Args:
        info: The connection file: addresses, ports and key that clients use.
        gateway: Where the kernel is.
        kernel: Its id there.
    """

    def __init__(self, info: dict[str, Any], gateway: Gateway, kernel: str) -> None:
        self.gateway, self.kernel = gateway, kernel
        self.session = Session(key=str(info["key"]).encode(), signature_scheme=info["signature_scheme"])
        self.asked: dict[str, list[bytes]] = {}  # message id of a request → who waits for its answer
        self.end: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.tasks: set[asyncio.Task[None]] = set()
        self.context = zmq.asyncio.Context()
        self.sockets: dict[str, zmq.asyncio.Socket] = {}
        for channel, kind in _SOCKETS.items():
            socket = self.context.socket(kind)
            socket.linger, socket.sndhwm = 1000, 0
            info[f"{channel}_port"] = _bind(socket, info, info[f"{channel}_port"])
            self.sockets[channel] = socket

    async def run(self) -> str:
        """Carry messages until the kernel ends; why it ended, empty if it was asked to."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, lambda: self._start(self._tell("interrupt")))
        loop.add_signal_handler(signal.SIGTERM, self._finish, "")
        self._start(self._watch_parent())
        self._start(self._beat())
        websocket = await self._connect()
        try:
            await websocket.write_message(self._marking(), binary=True)
            self._start(self._inward(websocket))
            for channel in _ROUTED:
                self._start(self._outward(channel, websocket))
            return await self.end
        finally:
            for task in self.tasks:
                task.cancel()
            await asyncio.gather(*self.tasks, return_exceptions=True)
            with contextlib.suppress(JitmemError):
                await self.gateway.call("DELETE", f"kernels/{self.kernel}")
            websocket.close()
            self.context.destroy(linger=1000)

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._finish(f"{type(error).__name__}: {error}")

    def _finish(self, why: str) -> None:
        if not self.end.done():
            self.end.set_result(why)

    async def _connect(self) -> WebSocketClientConnection:
        """The websocket to the kernel's channels; the token goes in the handshake's headers.

        Raises:
            UserError: The gateway refuses the token.
            InfrastructureError: It cannot be reached, or doesn't speak the protocol.
        """
        place = f"{self.gateway.url}/api/kernels/{self.kernel}/channels?session_id={self.session.session}"
        request = HTTPRequest(
            "ws" + place.removeprefix("http"),
            headers=self.gateway.headers,
            connect_timeout=START_SECONDS,
            request_timeout=START_SECONDS,
        )
        try:
            websocket = await websocket_connect(
                request, ping_interval=_PING_SECONDS, max_message_size=_LARGEST, subprotocols=[PROTOCOL]
            )
        except HTTPClientError as error:
            raise self.gateway.complaint(error.code, str(error.message)) from None
        except OSError as error:
            raise InfrastructureError(f"the gateway {self.gateway.url} does not answer ({error})") from None
        if websocket.selected_subprotocol != PROTOCOL:
            websocket.close()
            raise InfrastructureError(
                f"the gateway {self.gateway.url} does not speak {PROTOCOL}; it needs jupyter_server 2"
            )
        return websocket

    async def _inward(self, websocket: WebSocketClientConnection) -> None:
        """From the kernel to the clients."""
        while True:
            blob = await websocket.read_message()
            if blob is None:
                why = await self.gateway.alive(self.kernel)
                self._finish(why or f"the gateway {self.gateway.url} closed the connection")
                return
            channel, parts = unpack(blob if isinstance(blob, bytes) else blob.encode())
            parts = [bytes(part) for part in parts]
            signed = [self.session.sign(parts[:4]), *parts]
            if channel == "iopub":
                await self.sockets[channel].send_multipart([b"kernel", DELIM, *signed])
                self._look_for_death(parts)
                continue
            parent = json.loads(parts[1]).get("msg_id", "")
            waiting = self.asked.get(parent) if channel == "stdin" else self.asked.pop(parent, None)
            if waiting is not None:
                await self.sockets[channel].send_multipart([*waiting, DELIM, *signed])

    def _look_for_death(self, parts: Sequence[bytes]) -> None:
        """A gateway that restarts a dead kernel by itself says so; to a notebook it is dead all the same."""
        if b'"status"' not in parts[0]:
            return
        state = json.loads(parts[3]).get("execution_state")
        if state in ("restarting", "dead"):
            self._finish(f"the kernel on the gateway {self.gateway.url} died")

    async def _outward(self, channel: str, websocket: WebSocketClientConnection) -> None:
        """From a client to the kernel, but for what the gateway must be asked for instead."""
        socket = self.sockets[channel]
        while True:
            frames: list[bytes] = await socket.recv_multipart()
            if DELIM not in frames:
                continue
            place = frames.index(DELIM)
            waiting, signature, parts = frames[:place], frames[place + 1 :][:1], frames[place + 2 :]
            # any program of this machine may connect; only who read the connection file can sign
            if len(parts) < 4 or not hmac.compare_digest(self.session.sign(parts[:4]), signature[0]):
                continue
            header = json.loads(parts[0])
            kind = header.get("msg_type")
            if kind in ("shutdown_request", "interrupt_request"):
                # forwarded, a gateway would take the end for a crash and start the kernel again
                await self._answer(channel, waiting, header, kind.replace("request", "reply"))
                if kind == "shutdown_request":
                    self._finish("")
                    return
                await self._tell("interrupt")
                continue
            if channel != "stdin":
                self.asked[header["msg_id"]] = waiting
                if len(self.asked) > _WAITING:  # a widget's messages are never answered
                    del self.asked[next(iter(self.asked))]
            await websocket.write_message(pack(channel, parts), binary=True)

    async def _answer(self, channel: str, waiting: list[bytes], parent: dict[str, Any], kind: str) -> None:
        message = self.session.msg(kind, {"status": "ok", "restart": False}, parent=parent)
        await self.sockets[channel].send_multipart(self.session.serialize(message, waiting))

    async def _tell(self, what: str) -> None:
        """Ask the gateway to do something with the kernel."""
        try:
            await self.gateway.call("POST", f"kernels/{self.kernel}/{what}", {})
        except JitmemError as error:
            print(error, file=sys.stderr, flush=True)

    def _marking(self) -> bytes:
        """A silent request that gives the kernel its name here, since a gateway's POST does not."""
        code = f"__import__('os').environ.setdefault({MARK!r}, {os.environ.get(MARK, '')!r})"
        content = {"code": code, "silent": True, "store_history": False, "allow_stdin": False}
        message = self.session.msg("execute_request", {**content, "user_expressions": {}})
        keys = ("header", "parent_header", "metadata", "content")
        return pack("shell", [self.session.pack(message[key]) for key in keys])

    async def _beat(self) -> None:
        """Answer heartbeats."""
        while True:
            await self.sockets["hb"].send_multipart(await self.sockets["hb"].recv_multipart())

    async def _watch_parent(self) -> None:
        """End with the process that started us, kill -9 included."""
        parent = os.getppid()
        while os.getppid() == parent:
            await asyncio.sleep(1.0)
        self._finish("")


def _bind(socket: zmq.asyncio.Socket, info: dict[str, Any], port: int) -> int:
    """Listen on a port, 0 for a free one, and give it."""
    if info["transport"] == "tcp" and not port:
        return int(socket.bind_to_random_port(f"tcp://{info['ip']}"))
    socket.bind(f"tcp://{info['ip']}:{port}" if info["transport"] == "tcp" else f"ipc://{info['ip']}-{port}")
    return port


async def _run(options: argparse.Namespace) -> str:
    path = Path(options.connection_file)
    info = json.loads(path.read_text(encoding="utf-8"))
    bridge = Bridge(info, Gateway(options.url, options.token_env), options.kernel)
    rewrite(path, {name: info[name] for name in PORTS})
    return await bridge.run()


def main(args: Sequence[str] | None = None) -> int:
    """Run the bridge; 0 if it was asked to end, else 1 and a sentence on standard error."""
    parser = argparse.ArgumentParser(description="A gateway's kernel behind local sockets.")
    parser.add_argument("connection_file")
    for option in ("--kernel", "--url"):
        parser.add_argument(option, required=True)
    parser.add_argument("--token-env", default="")
    try:
        why = asyncio.run(_run(parser.parse_args(args)))
    except JitmemError as error:
        why = str(error)
    if why:
        print(why, file=sys.stderr, flush=True)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
