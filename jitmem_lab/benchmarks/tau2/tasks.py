"""τ²'s task files: which tasks a split holds, and what may be told of each."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from pathlib import Path
from typing import Any

from ...errors import UserError
from ...records import content_hash
from .splits import Split

RawTask = dict[str, Any]
"""A task as τ²'s file has it; most of it is hidden from the agent."""

_TASK_FILES = ("tasks.json", "tasks.json.xz", "tasks_full.json", "tasks_full.json.xz")


class DomainFiles:
    """The tasks of one domain, read once.

    Args:
        folder: The domain's folder inside the package: policy, database, splits.
        tasks_folder: A folder with other task files of the domain; None takes the package's.

    Raises:
        UserError: There is no task file, or it can't be read.
    """

    def __init__(self, folder: Path, tasks_folder: Path | None = None) -> None:
        self.folder = folder
        self.own = tasks_folder or folder
        found = [self.own / name for name in _TASK_FILES if (self.own / name).is_file()]
        if not found:
            raise UserError(f"{self.own} holds no τ² tasks (tasks.json)")
        self.file = found[0]
        tasks = _read(self.file)
        if isinstance(tasks, dict):
            tasks = tasks.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) and "id" in task for task in tasks):
            raise UserError(f"{self.file} is no list of τ² tasks")
        self.tasks: dict[str, RawTask] = {str(task["id"]): task for task in tasks}
        self.index = {task_id: number for number, task_id in enumerate(self.tasks)}

    def select(self, split: Split) -> list[RawTask]:
        """The split's tasks in the file's order."""
        chosen = list(self.tasks.values())
        if split.domain != "mock":
            source = self.own if (self.own / "split_tasks.json").is_file() else self.folder
            wanted = set(map(str, _read(source / "split_tasks.json")[split.part]))
            chosen = [task for task in chosen if str(task["id"]) in wanted]
        return [task for task in chosen if not split.solo or _fits_solo(task)]

    def row(self, raw: RawTask) -> dict[str, Any]:
        """What the parent process is told of a task: nothing of its hidden part but hashes and labels."""
        kind = re.match(r"\[(\w+)\]", str(raw["id"]))
        return {
            "id": str(raw["id"]),
            "index": self.index[str(raw["id"])],
            "sha": content_hash(raw),
            "ticket": raw.get("ticket") or "",
            "type": kind[1] if kind else "",
            "needs_judge": "NL_ASSERTION" in (basis(raw) or ()),
        }

    def fingerprint(self) -> str:
        """Hash of the tasks, policies and databases, 8 hex digits."""
        sha = hashlib.sha256()
        kept = (".json", ".toml", ".md")
        files = [file for file in sorted(self.folder.iterdir()) if file.suffix in kept]
        for file in [file for file in files if not file.name.startswith("tasks")] + [self.file]:
            data = lzma.decompress(file.read_bytes()) if file.suffix == ".xz" else file.read_bytes()
            sha.update(hashlib.sha256(data).digest())
        return sha.hexdigest()[:8]


def basis(raw: RawTask) -> list[str] | None:
    """What the reward of a task is made of; None where the file leaves it to τ²'s default."""
    found = (raw.get("evaluation_criteria") or {}).get("reward_basis")
    return None if found is None else [str(part) for part in found]


def without_judge(raw: RawTask) -> RawTask:
    """The task with the part that needs a judge model taken out of its reward."""
    parts = basis(raw)
    if parts is None or "NL_ASSERTION" not in parts:
        return raw
    kept = [part for part in parts if part != "NL_ASSERTION"]
    return raw | {"evaluation_criteria": raw["evaluation_criteria"] | {"reward_basis": kept}}


def _fits_solo(raw: RawTask) -> bool:
    """Whether τ²'s solo agent takes the task: it has a ticket, and something to do or a state to begin in."""
    criteria = raw.get("evaluation_criteria") or {}
    return bool(raw.get("ticket")) and bool(raw.get("initial_state") or criteria.get("actions"))


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
        return json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)
    except (OSError, ValueError, lzma.LZMAError, EOFError) as error:
        raise UserError(f"{path} can't be read: {error}") from None
