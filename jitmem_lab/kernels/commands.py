"""`jitmem kernels`: where notebooks run, by name."""

from __future__ import annotations

from typing import Any

import click

from ..errors import UserError
from ..terminal import Seconds, emit, facts, json_option, table


@click.group("kernels")
def kernels_group() -> None:
    """Add, list, check and remove kernels: this machine, another one over ssh, a Jupyter gateway."""


@kernels_group.command("add")
@click.argument("name")
@click.option("--local", is_flag=True, help="On this machine.")
@click.option("--ssh", "host", metavar="HOST", help="On a machine that ssh HOST reaches without a question.")
@click.option("--gateway", metavar="URL", help="On a Jupyter gateway or server.")
@click.option("--python", metavar="PATH", help="Its Python, with ipykernel (--local, --ssh).")
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable; repeat it (--local).")
@click.option("--cwd", metavar="DIR", help="Its working directory (--local).")
@click.option("--ssh-config", metavar="FILE", help="Instead of ~/.ssh/config (--ssh).")
@click.option("--token-env", metavar="VARIABLE", help="Variable that holds the token (--gateway).")
@click.option("--kernel-name", metavar="REMOTE", help="The kernel's name there, default python3 (--gateway).")
@json_option
def kernels_add(
    name: str,
    local: bool,
    host: str | None,
    gateway: str | None,
    python: str | None,
    env: tuple[str, ...],
    cwd: str | None,
    ssh_config: str | None,
    token_env: str | None,
    kernel_name: str | None,
    as_json: bool,
) -> None:
    """Make NAME a kernel of jitmem run -k, papermill -k and JupyterLab's menu.

    \b
        jitmem kernels add gpu --local --python /opt/train/bin/python --env CUDA_VISIBLE_DEVICES=1
        jitmem kernels add gpu --ssh gpu1 --python /opt/train/bin/python
        jitmem kernels add gpu --gateway https://gpu1.example:8888 --token-env GPU_TOKEN
    """
    kinds = {"local": local, "ssh": host is not None, "gateway": gateway is not None}
    if sum(kinds.values()) != 1:
        raise UserError("give one of --local, --ssh HOST and --gateway URL")
    kind = next(kind for kind, given in kinds.items() if given)
    fitting = {
        "python": ("local", "ssh"),
        "env": ("local",),
        "cwd": ("local",),
        "ssh_config": ("ssh",),
        "token_env": ("gateway",),
        "kernel_name": ("gateway",),
    }
    given = click.get_current_context().params
    for option, kinds_of in fitting.items():
        if given[option] and kind not in kinds_of:
            raise UserError(f"--{option.replace('_', '-')} does not go with --{kind}")

    def work() -> dict[str, Any]:
        from .specs import check_name, read_env

        check_name(name)
        if kind == "local":
            from .provisioner import add_local

            folder = add_local(name, python, read_env(env), cwd)
        elif kind == "ssh":
            from .ssh import add_ssh

            folder = add_ssh(name, str(host), python, ssh_config)
        else:
            from .gateway import add_gateway

            folder = add_gateway(name, str(gateway), token_env, kernel_name)
        return {"kernel": name, "kind": kind, "folder": str(folder)}

    emit(as_json, work, lambda r: f"kernel {name} is in {r['folder']}; see: jitmem kernels check {name}")


@kernels_group.command("list")
@json_option
def kernels_list(as_json: bool) -> None:
    """List the kernels that were added."""

    def work() -> dict[str, Any]:
        from .specs import list_specs

        return {"rows": list_specs()}

    emit(as_json, work, lambda r: table(r["rows"], "no kernels yet; see jitmem kernels add", limit=100))


@kernels_group.command("check")
@click.argument("name")
@click.option(
    "--timeout",
    type=Seconds(min=0, min_open=True),
    default=90.0,
    show_default=True,
    help="Seconds it may take to start.",
)
@json_option
def kernels_check(name: str, timeout: float, as_json: bool) -> None:
    """Start kernel NAME, say what it has, and end it."""

    def work() -> dict[str, Any]:
        from .check import check_named

        return check_named(name, timeout)

    emit(as_json, work, facts)


@kernels_group.command("remove")
@click.argument("name")
@json_option
def kernels_remove(name: str, as_json: bool) -> None:
    """Remove kernel NAME, which was added here."""

    def work() -> dict[str, Any]:
        from .specs import remove_spec

        return {"kernel": name, "folder": str(remove_spec(name))}

    emit(as_json, work, lambda result: f"removed {result['folder']}")
