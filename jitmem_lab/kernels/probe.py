"""What runs inside a kernel to say what it has; it may know nothing of ours, so its source is sent."""

from __future__ import annotations

import inspect
import json
from typing import Any

MARKER = "JITMEM-PROBE "
"""What the line with the answer begins with."""
PACKAGES = ("jitmem-lab", "torch", "transformers", "trl", "peft", "vllm", "ipykernel")
"""Packages whose versions are told."""


def report(packages: tuple) -> dict:
    """What this Python and its machine have, by the standard library and torch alone; Python 3.8 will do."""
    import importlib.metadata
    import os
    import platform
    import shutil
    import subprocess
    import sys
    from pathlib import Path

    found: dict = {"python": platform.python_version(), "executable": sys.executable, "device": "cpu"}
    found.update(platform=platform.platform(), host=platform.node(), cpus=os.cpu_count())
    found.update(folder=str(Path.cwd()), pid=os.getpid(), mark=os.environ.get("JITMEM_KERNEL"))
    versions: dict = {}
    devices: list = []
    for name in packages:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found["free_memory_gib"] = round(int(line.split()[1]) / 2**20, 1)
    except OSError:
        pass  # not Linux
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
        try:
            listed = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False).stdout
        except (OSError, subprocess.SubprocessError):
            listed = ""
        for line in listed.splitlines():
            words = [word.strip() for word in line.split(",")]
            if len(words) == 3 and words[1].isdigit() and words[2].isdigit():
                gib = [round(int(mib) / 1024, 1) for mib in words[1:]]
                devices.append({"name": words[0], "memory_gib": gib[0], "free_gib": gib[1]})
    torch_version: str = versions.get("torch") or ""
    if devices and not torch_version:
        found["problem"] = "there is a GPU, but no torch to use it"
    elif devices and torch_version.endswith("+cpu"):
        found["problem"] = f"there is a GPU, but torch {torch_version} is built for the CPU alone"
    elif torch_version and not torch_version.endswith("+cpu"):
        try:
            import torch

            if torch.cuda.is_available():
                found["device"], devices = "cuda", []
                for index in range(torch.cuda.device_count()):
                    free, total = torch.cuda.mem_get_info(index)
                    name = torch.cuda.get_device_name(index)
                    gib = [round(size / 2**30, 1) for size in (total, free)]
                    devices.append({"name": name, "memory_gib": gib[0], "free_gib": gib[1]})
            elif devices:
                found["problem"] = f"torch {torch_version} sees no GPU (its CUDA: {torch.version.cuda})"
        except Exception as error:
            found["problem"] = f"torch cannot be used ({type(error).__name__}: {error})"
    return {**found, "devices": devices, "packages": versions}


def code() -> str:
    """Source that prints the report as one line of JSON behind `MARKER`."""
    call = f"import json\nprint({MARKER!r} + json.dumps(report({PACKAGES!r})))"
    return f"{inspect.getsource(report)}\n{call}"


def read(text: str) -> dict[str, Any] | None:
    """The report in what the kernel printed; None if there is none."""
    lines = [line for line in text.splitlines() if line.startswith(MARKER)]
    return json.loads(lines[-1][len(MARKER) :]) if lines else None
