"""Kernelspecs in the user's Jupyter folder: written, listed and removed; never with a secret in them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..files import write_json

PROVISIONERS = {"local": "jitmem-local", "ssh": "jitmem-ssh", "gateway": "jitmem-gateway"}
"""What starts a kernel of each kind: names of the entry point group `jupyter_client.kernel_provisioners`."""
MARK = "JITMEM_KERNEL"
"""Environment variable that holds the kernel's name inside the kernel."""
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")  # what Jupyter finds again: it looks for names in lower case
_TAKEN = ("python", "python3", "jitmem-own")
_SECRET = re.compile(r"(^|_)(token|secret|password|passwd|pw|credentials?|key|apikey)(_|$)", re.I)


def kernels_dir() -> Path:
    """Folder of the user's own kernelspecs."""
    from jupyter_core.paths import jupyter_data_dir

    return Path(jupyter_data_dir()) / "kernels"


def check_name(name: str) -> str:
    """`name`, if a kernel may be added under it.

    Raises:
        UserError: Jupyter would not find it, or another kernel has it.
    """
    from jupyter_client.kernelspec import KernelSpecManager

    if not _NAME.fullmatch(name):
        raise UserError(f"a kernel's name has small letters, digits and . _ - only, not {name!r}")
    if name in _TAKEN:
        raise UserError(f"the name {name} is Jupyter's own; choose another, such as gpu")
    found = KernelSpecManager().find_kernel_specs().get(name)
    if (kernels_dir() / name).is_dir():
        raise UserError(f"there is a kernel {name} already; remove it first: jitmem kernels remove {name}")
    if found:
        raise UserError(f"another package has installed a kernel {name} ({found}); choose another name")
    return name


def write_spec(
    name: str,
    kind: str,
    target: str,
    argv: Sequence[str],
    config: Mapping[str, Any],
    env: Mapping[str, str] | None = None,
) -> Path:
    """Write the kernelspec and give its folder.

    Args:
        name: What `-k` and the kernel menu call it.
        kind: One of `PROVISIONERS`.
        target: Where it leads, for people.
        argv: The command that a Jupyter client runs; `{connection_file}` is filled in by it.
        config: Settings of the provisioner.
        env: Variables of the kernel; `${NAME}` in a value is filled in from the caller's environment.
    """
    folder = kernels_dir() / name
    folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "argv": list(argv),
        "display_name": f"{name} ({target})",
        "language": "python",
        "interrupt_mode": "message" if kind == "ssh" else "signal",
        "env": dict(env or {}),
        "metadata": {
            "debugger": True,
            "kernel_provisioner": {"provisioner_name": PROVISIONERS[kind], "config": dict(config)},
            "jitmem": {"kind": kind, "target": target},
        },
    }
    write_json(folder / "kernel.json", spec)
    return folder


def read_spec(name: str) -> dict[str, Any]:
    """The kernelspec of one of our kernels.

    Raises:
        UserError: There is none, or another package's.
    """
    path = kernels_dir() / name / "kernel.json"
    try:
        spec: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        spec["metadata"]["jitmem"]["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        known = ", ".join(row["name"] for row in list_specs()) or "none yet"
        raise UserError(f"no kernel {name} was added here; added kernels: {known}") from None
    return spec


def list_specs() -> list[dict[str, Any]]:
    """Name, kind, target and variables of each kernel that was added, by name."""
    rows = []
    for path in sorted(kernels_dir().glob("*/kernel.json")):
        try:
            spec = json.loads(path.read_text(encoding="utf-8"))
            about = spec["metadata"]["jitmem"]
            config = spec["metadata"]["kernel_provisioner"]["config"]
            row = {"name": path.parent.name, "kind": about["kind"], "target": about["target"]}
        except (OSError, ValueError, KeyError, TypeError):
            continue
        rows.append({**row, "token_env": config.get("token_env") or None, "folder": str(path.parent)})
    return rows


def remove_spec(name: str) -> Path:
    """Remove one of our kernelspecs; `UserError` if it isn't ours or cannot be removed."""
    read_spec(name)
    folder = kernels_dir() / name
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise UserError(f"{folder} cannot be removed ({error.strerror}); remove it yourself") from None
    return folder


def read_env(pairs: Sequence[str]) -> dict[str, str]:
    """Variables from `K=V` texts.

    Raises:
        UserError: One is no pair, or would write a secret into the kernelspec.
    """
    env: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_]\w*", key):
            raise UserError(f"--env takes NAME=VALUE, not {key!r}")
        if _SECRET.search(key) and not re.fullmatch(r"\$\{\w+\}", value):
            raise UserError(
                f"--env {key} would write a secret into a file; set {key} in your own environment, which a "
                f"local kernel inherits, or hand another variable on with --env {key}='${{OTHER}}'"
            )
        env[key] = value
    return env
