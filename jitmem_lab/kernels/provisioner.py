"""A kernel on this machine under a name of its own: another Python, other variables, another folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from traitlets import Unicode

from ..errors import UserError
from .ports import PickedPorts
from .specs import MARK, write_spec


class NamedProvisioner(PickedPorts):
    """Starts the kernelspec's command as Jupyter does, in its own folder and marked with its name."""

    label = Unicode(help="The kernel's name, put into the variable JITMEM_KERNEL.")
    folder = Unicode(help="Working directory; empty takes the client's.")

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Check what the kernelspec names before anything starts; `UserError` if it isn't there."""
        python = self.kernel_spec.argv[0]
        check_python(python, self.label)
        if self.folder and not Path(self.folder).is_dir():
            raise UserError(f"kernel {self.label}: there is no folder {self.folder}; add the kernel again")
        launch: dict[str, Any] = await super().pre_launch(**kwargs)
        env = launch["env"]
        env[MARK] = self.label
        # what the notebook starts with `!` or subprocess comes from that Python's environment, too
        env["PATH"] = os.pathsep.join([str(Path(python).parent), env.get("PATH", os.defpath)])
        if self.folder:
            launch["cwd"] = self.folder
        return launch


def check_python(python: str, name: str) -> None:
    """`UserError` unless `python` is a program here."""
    if not os.access(python, os.X_OK) or Path(python).is_dir():
        raise UserError(
            f"kernel {name}: there is no Python {python}; add the kernel again with --python, "
            "or without it for the Python that runs jitmem"
        )


def add_local(
    name: str, python: str | None = None, env: Mapping[str, str] | None = None, cwd: str | None = None
) -> Path:
    """Write the kernelspec of a kernel on this machine and give its folder.

    Args:
        name: The kernel's name.
        python: A Python with ipykernel; None takes the one that runs this.
        env: Variables on top of the client's own.
        cwd: Working directory; None takes the client's.

    Raises:
        UserError: No such Python or folder.
    """
    # not resolved: a virtual environment's Python is a link, and the link is what makes it one
    program = str(Path(python or sys.executable).expanduser().absolute())
    check_python(program, name)
    folder = "" if cwd is None else str(Path(cwd).expanduser().absolute())
    if folder and not Path(folder).is_dir():
        raise UserError(f"there is no folder {folder}; give --cwd a folder that exists")
    argv = [program, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    return write_spec(name, "local", program, argv, {"label": name, "folder": folder}, env)
