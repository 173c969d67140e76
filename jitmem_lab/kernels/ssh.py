"""A kernel on another machine over ssh, started and tunnelled by the package sshpyk."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path

from ..errors import UserError
from .specs import kernels_dir, write_spec

REMOTE_KERNEL = "python3"
"""Kernelspec on the other machine: with no spec of that name there, Jupyter takes the Python asked."""
LAUNCH_SECONDS = 60
"""How long the other machine may take to start a kernel."""
SHUTDOWN_SECONDS = 8
"""How long a kernel there may take to end before it is killed."""


def add_ssh(name: str, host: str, python: str | None = None, ssh_config: str | None = None) -> Path:
    """Write the kernelspec and the ssh settings of a kernel on `host`, and give their folder.

    sshpyk shares one connection among its many ssh calls and wants ssh settings of its own for that. They are
    written beside the kernelspec and take in the user's own settings, so that any host that `ssh HOST`
    reaches without a question will do.

    Args:
        name: The kernel's name.
        host: A host or alias, as `ssh` takes it; `user@host` too.
        python: The Python there, with ipykernel; None takes `python3` of its login shell.
        ssh_config: The user's ssh settings; None takes `~/.ssh/config`.

    Raises:
        UserError: sshpyk or ssh is missing, or the host is no host.
    """
    if importlib.util.find_spec("sshpyk") is None:
        raise UserError("kernels over ssh need the package sshpyk; pip install 'jitmem-lab[kernels]'")
    if shutil.which("ssh") is None:
        raise UserError("there is no ssh program here; install OpenSSH's client (Debian: openssh-client)")
    user, _, place = host.rpartition("@")
    if not re.fullmatch(r"[\w.:-]+", place) or not re.fullmatch(r"[\w.\\-]*", user) or place.startswith("-"):
        raise UserError(f"--ssh takes a host as ssh takes it, such as gpu1 or me@gpu1, not {host!r}")
    own = Path(ssh_config).expanduser().absolute() if ssh_config else None
    if own is not None and not own.is_file():
        raise UserError(f"there is no ssh configuration {own}; leave --ssh-config out for ~/.ssh/config")
    control_folder().mkdir(mode=0o700, exist_ok=True)
    folder = kernels_dir() / name
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "ssh_config"
    settings.write_text(ssh_settings(place, user, own), encoding="utf-8")
    remote = python or "python3"
    config = {
        "ssh_host_alias": place,
        "ssh_config": str(settings),
        "remote_python": remote,
        "remote_kernel_name": REMOTE_KERNEL,
        "launch_timeout": LAUNCH_SECONDS,
        "shutdown_time": SHUTDOWN_SECONDS,
        # it would refuse a host that is its own name, which is only advice against mistakes
        "raise_on_ssh_config_error": False,
    }
    argv = [
        sys.executable,
        "-m",
        "sshpyk.kernelapp",
        f"--SSHKernelApp.kernel_name={name}",
        "--KernelManager.connection_file='{connection_file}'",
    ]
    return write_spec(name, "ssh", f"ssh {host}", argv, config)


def control_folder() -> Path:
    """Where the shared connections' sockets are."""
    return Path.home() / ".ssh"


def ssh_settings(host: str, user: str = "", own: Path | None = None) -> str:
    """Settings for ssh: a shared connection of our own, then the user's settings, then the machine's.

    Of each setting ssh takes the first value that it reads, so ours must come first.
    """
    lines = [
        f"Host {host}",
        *([f"  User {user}"] if user else []),
        "  BatchMode yes",
        "  ConnectTimeout 10",
        "  ServerAliveInterval 15",
        "  ServerAliveCountMax 4",
        "  ControlMaster auto",
        # ssh itself takes ~ from the user database; HOME may name another folder
        f'  ControlPath "{str(control_folder()).replace("%", "%%")}/jitmem-%C"',
        "  ControlPersist 60",
        "Match all",
        f'  Include "{own or "~/.ssh/config"}"',
        "  Include /etc/ssh/ssh_config",
    ]
    return "\n".join(lines) + "\n"
