"""Explore payloads by hand: pick a task, see its traces, curate, change something, curate again, play."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .benchmarks.base import told
from .errors import UserError
from .evaluation import EvalConfig, make_benchmark, make_curator, make_executor, make_memory
from .execution import plan_payload
from .memories.raw import RawMemory
from .models import load_model
from .models.base import ChatModel
from .records import Call, Recall, Task, Trajectory, Usage
from .render import escape
from .runs import Run, open_run
from .session import Session
from .stream import episode_key

if TYPE_CHECKING:
    import pandas as pd


@dataclass
class Attempt:
    """One try: what was recalled and curated, and what the executor did with it."""

    task: Task
    """The task."""
    recall: Recall
    """Traces and payload."""
    settings: dict[str, Any]
    """What was asked for."""
    calls: list[Call]
    """Every model call so far."""
    trajectory: Trajectory | None = None
    """What the executor did; None before it played."""

    @property
    def result(self) -> str:
        """The outcome in a few words."""
        if self.trajectory is None:
            return "not played"
        return f"{self.trajectory.outcome} after {len(self.trajectory.steps)} steps"

    def prompt(self) -> str:
        """The curator's exact prompt; empty when it was not asked."""
        asked = [call for call in self.calls if call.role == "curator"]
        return "\n\n".join(f"[{m.role}]\n{m.content}" for m in asked[-1].messages) if asked else ""

    def _repr_html_(self) -> str:
        played = "" if self.trajectory is None else self.trajectory._repr_html_()
        changed = ", ".join(f"{name} = {value}" for name, value in self.settings.items())
        head = f"<p><b>{escape(self.task.description)}</b> · {escape(self.result)} · {escape(changed)}</p>"
        return head + self.recall._repr_html_() + played


class Explorer:
    """A bench, a bank and a model to try payloads with.

    Args:
        run: A run directory whose bank is explored (and whose tasks and settings are taken); None explores
            demonstrations of the train split.
        model: Spec or loaded model; None takes the run's or the preset's.
        parameters: As for `EvalConfig.make`.

    Raises:
        UserError: Wrong parameters, missing data, or a run without a bank.
    """

    def __init__(
        self, run: str | Path | Run | None = None, *, model: str | ChatModel | None = None, **parameters: Any
    ) -> None:
        request: dict[str, Any] = {}
        if run is not None:
            request = dict(open_run(run).config.get("request") or {})
        request |= {"memory": "jitmem", "payload_of": "own"} | parameters
        if isinstance(model, str):
            request["model"] = model
        self.config = EvalConfig.make(**request)
        if self.config.payload_of != "own":
            raise UserError("the explorer makes a payload for the task that is picked: leave out payload_of")
        self.attempts: list[Attempt] = []
        self._models: dict[str, ChatModel] = {}
        if model is not None and not isinstance(model, str):
            self._models[self.config.model] = model
        self.benchmark = make_benchmark(self.config, self._model)
        self._tasks = self.benchmark.tasks(limit=self.config.games, order=self.config.order)
        self.memory: RawMemory = make_memory(self.config, self._model, self.benchmark)
        self.memory.open(None)
        if run is not None:
            self._copy_bank(open_run(run))
        elif self.config.warm_start:
            shown = self.benchmark.demonstrations(self.config.warm_start, self.config.seed)
            self.memory.warm(shown, Session(self.config.seed, "warm"))
        self.task: Task = self._told(self._tasks[0])

    def _copy_bank(self, run: Run) -> None:
        if not (run.path / "bank.sqlite").exists():
            raise UserError(f"{run.path} has no bank; explore a run of memory raw or jitmem")
        bank = run.bank()
        stored = [bank.get(number) for number in range(1, len(bank) + 1)]
        bank.close()
        self.memory.bank.append([(s.key, s.trajectory, s.labels) for s in stored])

    def _model(self, spec: str) -> ChatModel:
        if spec not in self._models:
            self._models[spec] = load_model(spec)
        return self._models[spec]

    def tasks(self) -> pd.DataFrame:
        """The tasks to pick from."""
        import pandas as pd

        rows = [
            {"task_id": t.task_id, "type": t.task_type, "description": t.description} for t in self._tasks
        ]
        return pd.DataFrame(rows)

    def pick(self, task: int | str) -> Task:
        """Turn to a task, by its row in `tasks()` or its id."""
        if isinstance(task, int):
            if not 0 <= task < len(self._tasks):
                raise UserError(f"there are tasks 0 to {len(self._tasks) - 1}, not {task}")
            self.task = self._told(self._tasks[task])
            return self.task
        for known in self._tasks:
            if known.task_id == task:
                self.task = self._told(known)
                return self.task
        raise UserError(f"there is no task {task!r} in this split; `tasks()` lists those there are")

    def _told(self, task: Task) -> Task:
        """The task with its sentence, which some environments only tell at their reset."""
        if not self.benchmark.tells_at_reset:
            return task
        with contextlib.closing(
            self.benchmark.make_env(task, Session(self.config.seed, episode_key(task)))
        ) as env:
            return told(task, env.reset())

    def traces(self, k: int | None = None) -> Recall:
        """The traces retrieved for the task, with their scores, and no payload yet."""
        session = Session(self.config.seed, episode_key(self.task))
        return self.memory.retrieve(self.task, self.memory.snapshot(), session, k)

    def explain(self, k: int | None = None) -> pd.DataFrame:
        """What each word of the task adds to the BM25 score of each retrieved trace.

        Raises:
            UserError: Traces are found in another way than by BM25, so that there is no such score.
        """
        import pandas as pd

        if self.config.retrieval != "bm25":
            raise UserError(
                "explain tells what each word adds to a BM25 score; traces found by "
                f"retrieval={self.config.retrieval!r} have none to explain"
            )

        recall = self.traces(k)
        shown = [trace.trace_id for trace in recall.traces]
        wide = len(shown) + recall.self_excluded
        terms = self.memory.bank.explain(self.task.retrieval_key, k=max(wide, 1))
        return pd.DataFrame([term._asdict() for term in terms if term.id in shown])

    def _with(self, **changes: Any) -> EvalConfig:
        known = {name: value for name, value in changes.items() if value is not None}
        return EvalConfig.make(**(self.config.model_dump() | known))

    def curate(self, k: int | None = None, prompt: str | None = None, **changes: Any) -> Attempt:
        """A payload for the task, with whatever is to differ from the explorer's parameters.

        Args:
            k: Number of traces.
            prompt: A curator prompt: a shipped name, a path, or the template's own text.
            changes: Other parameters of the curator, e.g. `curator_temperature=0.7`.

        Raises:
            UserError: A parameter that the curator does not have.
        """
        for name in changes:
            if not name.startswith("curator_") and name not in ("task_conditioned", "max_trace_tokens"):
                raise UserError(
                    f"{name!r} is no parameter of the curator; make another Explorer({name}=...) for it"
                )
        text = prompt if prompt is not None and "[[" in prompt else None
        config = self._with(k=k, curator_prompt=None if text else prompt, **changes)
        curator = make_curator(config, self._model(config.curator_model or config.model))
        if text is not None:
            curator.prompt = curator.prompt._replace(name="(edited)", text=text)
        session = Session(config.seed, episode_key(self.task))
        session.phase = "recall"
        curated = curator.curate(self.task, self.traces(config.k).traces, session)
        recall = self.traces(config.k).model_copy(
            update={"payload": curated.payload, "traces": curated.traces}
        )
        asked = {"how": "curated", "k": config.k, "prompt": curator.prompt.name} | changes
        return self._keep(Attempt(self.task, recall, asked, session.calls))

    def prompt(self) -> str:
        """The text of the curator's prompt template, to edit and hand to `curate(prompt=...)`."""
        return make_curator(
            self.config, self._model(self.config.curator_model or self.config.model)
        ).prompt.text

    def payload(self, text: str) -> Attempt:
        """A payload written by hand (empty: none)."""
        return self._keep(Attempt(self.task, Recall(payload=text), {"how": "by hand"}, []))

    def oracle_payload(self) -> Attempt:
        """The walkthrough as payload: the ceiling of what a payload can do for this executor."""
        text = plan_payload(self.task, self.benchmark.oracle(self.task))
        return self._keep(Attempt(self.task, Recall(payload=text), {"how": "the walkthrough"}, []))

    def _keep(self, attempt: Attempt) -> Attempt:
        self.attempts.append(attempt)
        return attempt

    def play(self, attempt: Attempt | None = None, on_step: Callable[[Any], None] | None = None) -> Attempt:
        """Play the attempt's task with its payload; the last attempt by default.

        Raises:
            InfrastructureError: The model's server or the environment failed.
        """
        if attempt is None:
            if not self.attempts:
                raise UserError("there is nothing to play yet: call curate() first")
            attempt = self.attempts[-1]
        config = self.config
        executor = make_executor(config, self._model(config.model))
        session = Session(config.seed, episode_key(attempt.task))
        session.phase = "act"
        env = self.benchmark.make_env(attempt.task, session)
        try:
            attempt.trajectory = executor.play(
                env,
                attempt.task,
                attempt.recall.payload,
                session,
                max_steps=self.benchmark.max_steps,
                on_step=on_step,
            )
        finally:
            env.close()
            attempt.calls = [call for call in attempt.calls if call.role != "executor"] + session.calls
        return attempt

    def compare(self) -> pd.DataFrame:
        """All attempts so far, one row each."""
        import pandas as pd

        rows = []
        for attempt in self.attempts:
            used = Usage.total(call.usage for call in attempt.calls)
            rows.append(
                {
                    "task": attempt.task.description,
                    **attempt.settings,
                    "payload": attempt.recall.payload,
                    "result": attempt.result,
                    "tokens": used.prompt_tokens + used.completion_tokens,
                }
            )
        return pd.DataFrame(rows)

    def close(self) -> None:
        """End the environments and free the models."""
        self.memory.close()
        self.benchmark.close()
        for model in self._models.values():
            model.close()
        self._models.clear()
