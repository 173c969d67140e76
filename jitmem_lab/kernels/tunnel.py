"""What starts a kernel over ssh: the package sshpyk's provisioner, but for two things that a run needs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir
from sshpyk.provisioning import SSHKernelProvisioner

LOST_SECONDS = 60.0
"""How long a host may be out of reach before its kernel counts as dead; sshpyk itself waits for ever."""


class SshProvisioner(SSHKernelProvisioner):
    """A kernel on a host that may vanish: then it is dead, and whoever waits for a cell is told."""

    lost_since: float | None = None

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Start the kernel there; the folder of its papers here may not have been needed before."""
        Path(jupyter_runtime_dir()).mkdir(mode=0o700, parents=True, exist_ok=True)
        self.lost_since = None
        launch: dict[str, Any] = await super().pre_launch(**kwargs)
        return launch

    async def fetch_remote_processes_info(self, pids: list[int]) -> tuple[bool, dict[int, dict[str, str]]]:
        """Whether the host could be asked, and what it says of its processes; a lost host has none."""
        reached, found = await super().fetch_remote_processes_info(pids)
        now = time.monotonic()
        if reached:
            self.lost_since = None
        elif self.lost_since is None:
            self.lost_since = now
        elif now - self.lost_since > LOST_SECONDS:
            self.log.error("host %s is out of reach", self.ssh_host_alias)
            self.rem_pid_k = self.rem_pid_ka = None  # nothing there can be ended from here
            return True, {}
        return reached, found
