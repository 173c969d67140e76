"""The kernels that are installed here, and the one that is this very interpreter; light, no papermill."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import IO

from ipykernel.kernelspec import make_ipkernel_cmd
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager

from ..errors import UserError

OWN = "jitmem-own"
"""Name of the kernel that is this very interpreter, whatever `python3` means in the user's Jupyter."""


class Specs(KernelSpecManager):
    """The installed kernels, and `OWN`."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """The spec of a name; that of `OWN` points at the running interpreter."""
        if kernel_name != OWN:
            return super().get_kernel_spec(kernel_name)
        wire = "jitmem_lab.notebooks.wire"
        packing = [f"--Session.packer={wire}.pack", f"--Session.unpacker={wire}.unpack"]
        argv = make_ipkernel_cmd(extra_arguments=packing)
        root = Path(__file__).resolve().parents[2]
        env = {} if root.name == "site-packages" else {"PYTHONPATH": _first(root)}
        return KernelSpec(argv=argv, display_name="This interpreter", language="python", env=env)


def _first(root: Path) -> str:
    """The Python path with the source checkout in front: the notebook gets the package that runs it."""
    rest = os.environ.get("PYTHONPATH")
    return f"{root}{os.pathsep}{rest}" if rest else str(root)


def check_kernel(name: str | None) -> str:
    """The kernel to start: `OWN` for None, else an installed Python kernel; `UserError` for another."""
    if name is None:
        return OWN
    specs = Specs()
    installed = specs.find_kernel_specs()
    if name not in installed:
        known = ", ".join(sorted(installed)) or "none"
        raise UserError(
            f"there is no kernel '{name}'; installed kernels: {known} (leave -k out for this interpreter)"
        )
    language = specs.get_kernel_spec(name).language
    if language.lower() != "python":
        raise UserError(f"kernel '{name}' runs {language}, and our notebooks are in Python; choose another")
    return name


def last_line(log: IO[bytes]) -> str:
    """Last line of a kernel's log that says something of its own."""
    log.seek(0)
    lines = log.read()[-4000:].decode(errors="replace").strip().splitlines()
    said = [line for line in lines if not re.search("CurveZMQ|TCP transport|encrypt", line)]
    return said[-1] if said else ""
