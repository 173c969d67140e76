"""Starts a kernel by name, asks what it has, and ends it again."""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from .. import __version__
from ..errors import InfrastructureError, JitmemError, UserError
from ..notebooks.installed import Specs, check_kernel, last_line
from ..render import clean_text
from . import probe
from .specs import read_spec

ROUND_TRIPS = 5
"""Requests whose median is the round trip."""
PROBE_SECONDS = 120.0
"""How long the kernel may take to answer; importing torch is most of it."""


def check_named(name: str, seconds: float = 90.0) -> dict[str, Any]:
    """What kernel `name` has: Python, machine, device, memory, packages, and how long a message takes.

    Args:
        name: Any installed Python kernel.
        seconds: How long it may take to start.

    Raises:
        UserError: There is no such kernel, or what its kernelspec says is wrong.
        InfrastructureError: It does not start or answer; the message says what to look at.
    """
    check_kernel(name)
    began = time.monotonic()
    with started(name, seconds) as client:
        ready = time.monotonic() - began
        trips = []
        for _ in range(ROUND_TRIPS):
            sent = time.perf_counter()
            client.kernel_info(reply=True, timeout=PROBE_SECONDS)
            trips.append(time.perf_counter() - sent)
        said = _ask(client, name)
    trip = round(1000 * statistics.median(trips), 2)
    found = {"kernel": name, **about_kernel(name), "start_s": round(ready, 2), "round_trip_ms": trip, **said}
    version = said["packages"].get("jitmem-lab")
    if version != __version__:
        has = f"jitmem-lab {version}" if version else "no jitmem-lab"
        found["warning"] = f"the kernel has {has}, this is {__version__}; install the same there"
    return found


def about_kernel(name: str) -> dict[str, Any]:
    """Kind and target of one of our kernels; of another one, that it is not ours."""
    try:
        about: dict[str, Any] = read_spec(name)["metadata"]["jitmem"]
        return about
    except UserError:
        return {"kind": "other", "target": ""}


@contextlib.contextmanager
def started(name: str, seconds: float) -> Iterator[BlockingKernelClient]:
    """A client of a kernel that runs while this is entered.

    Raises:
        UserError: What its kernelspec says is wrong.
        InfrastructureError: It does not start.
    """
    manager = KernelManager(kernel_name=name, kernel_spec_manager=Specs())
    with tempfile.TemporaryFile() as log:
        try:
            try:
                manager.start_kernel(stdout=log, stderr=log)
                client = manager.client()
                client.start_channels()
                client.wait_for_ready(timeout=seconds)
            except JitmemError:
                raise
            except Exception as error:
                words = last_line(log) or str(error) or type(error).__name__
                reason = clean_text(words, 500).rstrip(". ")
                raise InfrastructureError(
                    f"kernel {name} does not start ({reason}); {advice(name)}"
                ) from None
            yield client
            client.stop_channels()
        finally:
            if manager.has_kernel:
                manager.shutdown_kernel()
            manager.cleanup_resources()


def _ask(client: BlockingKernelClient, name: str) -> dict[str, Any]:
    printed: list[str] = []

    def hear(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            printed.append(content["text"])
        elif message["msg_type"] == "error":
            printed.append(f"\n{content['ename']}: {content['evalue']}\n")

    try:
        client.execute_interactive(
            probe.code(), store_history=False, output_hook=hear, timeout=PROBE_SECONDS, allow_stdin=False
        )
    except Exception as error:
        raise InfrastructureError(f"kernel {name} starts, but does not answer ({error})") from None
    said = probe.read("".join(printed))
    if said is None:
        last = clean_text("".join(printed).strip().rpartition("\n")[2], 300)
        raise InfrastructureError(f"kernel {name} starts, but cannot say what it has ({last or 'no answer'})")
    return said


def advice(name: str) -> str:
    """What to look at when a kernel doesn't start."""
    try:
        spec = read_spec(name)
    except UserError:
        return f"its kernelspec is not ours; see: jupyter kernelspec list, and reinstall {name}"
    config = spec["metadata"]["kernel_provisioner"]["config"]
    kind = spec["metadata"]["jitmem"]["kind"]
    if kind == "local":
        return f"this must succeed: {spec['argv'][0]} -m ipykernel --version"
    if kind == "gateway":
        return f"the log of the gateway {config['url']} may say more"
    remote = f'{config["remote_python"]} -c "import jupyter_client, ipykernel"'
    command = f"ssh -F {config['ssh_config']} {config['ssh_host_alias']} '{remote}'"
    return f"this must succeed without a question: {command}"
