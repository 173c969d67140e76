"""A kernel on a Jupyter gateway: found and let in before it starts, ended even if its bridge is killed."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from jupyter_client.connect import KernelConnectionInfo
from traitlets import Unicode

from ..errors import InfrastructureError, UserError
from .ports import PickedPorts
from .specs import MARK, write_spec

START_SECONDS = 120.0
"""How long a gateway may take to start a kernel."""
CONNECT_SECONDS = 15.0
"""How long it may take to be reached."""
CALL_SECONDS = 60.0
"""How long it may take to answer anything else."""


class Gateway(NamedTuple):
    """Where a gateway is, and the variable that holds its token; the token itself is read when it is sent."""

    url: str
    """Address without a closing slash."""
    token_env: str = ""
    """Name of the environment variable with the token; empty sends none."""

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries, the websocket's handshake too."""
        token = os.environ.get(self.token_env, "") if self.token_env else ""
        return {"Authorization": f"token {token}"} if token else {}

    async def call(self, method: str, path: str, body: Any = None, seconds: float = CALL_SECONDS) -> Any:
        """The JSON answer of `url/api/path`, None if it is empty.

        Raises:
            UserError: The token is missing or refused, or the gateway refuses the request.
            InfrastructureError: It doesn't answer, or answers with a failure of its own.
        """
        from tornado.httpclient import AsyncHTTPClient, HTTPClientError, HTTPRequest

        if self.token_env and not os.environ.get(self.token_env):
            raise UserError(f"set {self.token_env} to the token of the gateway {self.url}")
        client = AsyncHTTPClient(force_instance=True)
        try:
            answer = await client.fetch(
                HTTPRequest(
                    f"{self.url}/api/{path}",
                    method=method,
                    headers={**self.headers, "Content-Type": "application/json"},
                    body=None if body is None else json.dumps(body),
                    allow_nonstandard_methods=True,
                    follow_redirects=False,  # the token is meant for this address alone
                    connect_timeout=CONNECT_SECONDS,
                    request_timeout=seconds,
                )
            )
        except HTTPClientError as error:
            raise self.complaint(error.code, str(error.message)) from None
        except (OSError, ValueError) as error:
            raise InfrastructureError(f"the gateway {self.url} does not answer ({_reason(error)})") from None
        finally:
            client.close()
        try:
            return json.loads(answer.body) if answer.body else None
        except ValueError:
            raise UserError(f"{self.url} answers, but is no Jupyter gateway; check the address") from None

    def complaint(self, status: int, words: str = "") -> UserError | InfrastructureError:
        """The error that a status of the gateway means."""
        if status in (401, 403):
            if not self.token_env:
                return UserError(
                    f"the gateway {self.url} wants a token (status {status}); add the kernel again with "
                    "--token-env and the name of a variable that holds it"
                )
            return UserError(
                f"the gateway {self.url} refuses the token in {self.token_env} (status {status}); "
                f"set {self.token_env} to the gateway's token"
            )
        if status in (404, 405) or 300 <= status < 400:
            return UserError(f"{self.url} answers with status {status}; check the gateway's address")
        return InfrastructureError(f"the gateway {self.url} fails with status {status} ({words})")

    async def check(self, kernel: str) -> None:
        """`UserError` unless the gateway lets us in and has the kernelspec `kernel`."""
        listed = await self.call("GET", "kernelspecs")
        specs = listed.get("kernelspecs", {}) if isinstance(listed, dict) else {}
        if kernel not in specs:
            known = ", ".join(sorted(specs)) or "none"
            raise UserError(f"the gateway {self.url} has no kernel {kernel}; it has: {known}")

    async def alive(self, kernel_id: str) -> str:
        """Empty while the kernel is there, else what became of it."""
        try:
            await self.call("GET", f"kernels/{kernel_id}")
        except InfrastructureError as error:
            return str(error)
        except UserError:
            return f"the gateway {self.url} no longer has the kernel"
        return ""


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


class GatewayProvisioner(PickedPorts):
    """Starts a kernel on a gateway, and here a bridge that Jupyter clients talk to as if it were the kernel.

    jupyter_server's own gateway client sends no token on the websocket, and papermill has none at all.
    """

    label = Unicode(help="The kernel's name here.")
    url = Unicode(help="The gateway's address.")
    token_env = Unicode(help="Variable that holds its token; empty for none.")
    remote_name = Unicode("python3", help="The kernel's name on the gateway.")
    remote_id = ""

    @property
    def gateway(self) -> Gateway:
        """The gateway."""
        return Gateway(self.url, self.token_env)

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Ask the gateway for the kernel before anything starts; `UserError` says what is wrong."""
        await self.gateway.check(self.remote_name)
        launch: dict[str, Any] = await super().pre_launch(**kwargs)
        launch["env"][MARK] = self.label
        return launch

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the kernel there and the bridge here."""
        started = await self.gateway.call("POST", "kernels", {"name": self.remote_name}, START_SECONDS)
        self.remote_id = str(started["id"])
        words = ["--kernel", self.remote_id, "--url", self.url, "--token-env", self.token_env]
        try:
            return await super().launch_kernel([*cmd, *words], **kwargs)
        except BaseException:
            await self._end_remote()
            raise

    async def cleanup(self, restart: bool = False) -> None:
        """Give the ports back, and end the kernel there if the bridge could not."""
        await super().cleanup(restart)
        await self._end_remote()

    async def _end_remote(self) -> None:
        ended, self.remote_id = self.remote_id, ""
        if ended:
            try:
                await self.gateway.call("DELETE", f"kernels/{ended}")
            except (UserError, InfrastructureError) as error:  # usually: the bridge has ended it already
                self.log.debug("kernel %s on %s: %s", ended, self.url, error)


def add_gateway(name: str, url: str, token_env: str | None = None, kernel: str | None = None) -> Path:
    """Write the kernelspec of a kernel on a gateway and give its folder.

    Args:
        name: The kernel's name here.
        url: The gateway's address, http:// or https://, without a password or token.
        token_env: Variable that holds the token; None for a gateway that asks for none.
        kernel: The kernel's name on the gateway; None takes `python3`.

    Raises:
        UserError: The address or the variable is none, or holds a secret.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UserError("--gateway takes an address such as https://gpu.example:8888")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UserError(
            "the gateway's address would be written into a file with its password or token; give the address "
            "alone, put the token into a variable, and name it with --token-env"
        )
    if token_env is not None and not re.fullmatch(r"[A-Za-z_]\w*", token_env):
        raise UserError("--token-env takes the name of an environment variable, not the token itself")
    address = url.rstrip("/")
    config = {
        "label": name,
        "url": address,
        "token_env": token_env or "",
        "remote_name": kernel or "python3",
    }
    argv = [sys.executable, "-P", "-m", "jitmem_lab.kernels.bridge", "{connection_file}"]
    return write_spec(name, "gateway", address, argv, config)
