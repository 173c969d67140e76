"""Ports that the kernel's own process picks: those that a client picks for it may be taken meanwhile.

A client looks for free ports, lets go of them and starts the kernel, which binds them a second later. With
four kernels started at a time, one in about a hundred such starts fails. Here the connection file says 0,
the kernel binds what is free and writes it down, and the client reads it (ipykernel does so since long, but
for version 6.24).
"""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo, LocalPortCache
from jupyter_client.provisioning import LocalProvisioner
from jupyter_core.paths import secure_write

PORTS = ("shell_port", "iopub_port", "stdin_port", "hb_port", "control_port")
"""The ports in a connection file."""
PICK_SECONDS = 90.0
"""How long a kernel's process may take to say its ports."""


def rewrite(path: Path, ports: dict[str, int]) -> None:
    """Put ports into a connection file, which only its owner can read."""
    info = json.loads(path.read_text(encoding="utf-8")) | ports
    with secure_write(str(path)) as file:
        json.dump(info, file)


class PickedPorts(LocalProvisioner):
    """Starts a process on this machine that picks its ports itself; when started again it keeps them."""

    picked = False

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Start the process and read its ports; `RuntimeError` if it ends or doesn't say them."""
        manager: Any = self.parent
        pick = not self.picked and manager.transport == "tcp"
        path = Path(manager.connection_file)
        if pick:
            cache = LocalPortCache.instance()
            for name in PORTS:
                cache.return_port(getattr(manager, name))
            rewrite(path, dict.fromkeys(PORTS, 0))
        await super().launch_kernel(cmd, **kwargs)
        if pick:
            for name, port in (await self._read(path)).items():
                setattr(manager, name, port)
            self.picked = True
            self.connection_info = manager.get_connection_info()
        return self.connection_info

    async def _read(self, path: Path) -> dict[str, int]:
        deadline = time.monotonic() + PICK_SECONDS
        while time.monotonic() < deadline:
            try:
                info = json.loads(path.read_text(encoding="utf-8"))
                ports = {name: int(info[name]) for name in PORTS}
            except (OSError, ValueError, KeyError):  # it is being written
                ports = {}
            if ports and all(ports.values()):
                return ports
            status = await self.poll()
            if status is not None:
                raise RuntimeError(f"its process ended with status {status} as it started")
            await asyncio.sleep(0.03)
        await self.kill()
        raise RuntimeError(f"its process did not say its ports within {PICK_SECONDS:g} s")
