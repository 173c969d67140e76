"""Explore payloads by hand: pick a task, see its traces, curate, change something, play, compare, save."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import handmade
from .benchmarks.base import told
from .embedding import Embedder, load_embedder
from .errors import UserError
from .evaluation import EvalConfig, make_benchmark, make_curator, make_executor, make_memory
from .execution import plan_payload
from .frames import frame
from .memories.jitmem import JitMemory
from .models import load_model
from .models.base import ChatModel
from .prompts import Prompt
from .records import Call, Episode, Phase, Recall, Step, Task, Trajectory, Usage, content_hash
from .render import clean_text
from .runs import Run, open_run
from .session import Session
from .stream import episode_key

if TYPE_CHECKING:
    import pandas as pd


@dataclass(repr=False)
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
    number: int = 0
    """Its place among the explorer's tries, from 1."""
    config: EvalConfig | None = None
    """All parameters, as they apply to this try."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What gave the payload, as a run's settings tell it."""
    bank: dict[str, Any] = field(default_factory=dict)
    """The bank that was searched, as a run's settings tell it."""
    seeds: dict[str, int] = field(default_factory=dict)
    """Seeds that it used."""
    started: float = 0.0
    """Unix time of its start."""
    spent: dict[str, float] = field(default_factory=dict)
    """Wall time of making the payload and of playing."""
    searched: Run | None = None
    """A run directory with the bank that was searched; gone once the explorer is closed."""
    saved: Path | None = None
    """The run directory that it was saved in."""

    @property
    def result(self) -> str:
        """The outcome in a few words."""
        if self.trajectory is None:
            return "not played"
        return f"{self.trajectory.outcome} after {len(self.trajectory.steps)} steps"

    @property
    def score(self) -> float | None:
        """The environment's own metric; None where there is none, or before it played."""
        return None if self.trajectory is None else self.trajectory.reward

    @property
    def about(self) -> str:
        """What was asked for, on one line."""
        how, *rest = (value if name == "how" else f"{name}={value}" for name, value in self.settings.items())
        return clean_text(", ".join([str(how), *map(str, rest)]), 300)

    def usage(self) -> dict[str, Usage]:
        """What it cost, by role."""
        roles = dict.fromkeys(call.role for call in self.calls)
        return {role: Usage.total(call.usage for call in self.calls if call.role == role) for role in roles}

    def prompt(self) -> str:
        """The curator's exact prompt; empty when it was not asked."""
        asked = [call for call in self.calls if call.role == "curator"]
        return "\n\n".join(f"[{m.role}]\n{m.content}" for m in asked[-1].messages) if asked else ""

    def episode(self, position: int = 0, trial: int = 0) -> Episode:
        """This try as the record of an episode, in a stream of episodes that follow one another.

        Raises:
            UserError: It was not played.
        """
        if self.trajectory is None:
            raise UserError(f"try {self.number} was not played yet; play it first")
        return Episode(
            key=episode_key(self.task, trial),
            position=position,
            batch=position,
            snapshot=self.recall.bank_size or None,
            task=self.task,
            trial=trial,
            recall=self.recall,
            trajectory=self.trajectory,
            outcome=self.trajectory.outcome,
            calls=tuple(self.calls),
            seeds=self.seeds,
            started=self.started,
            seconds=sum(self.spent.values()),
        )

    def __repr__(self) -> str:
        return f"Attempt({self.number}, {self.about}: {self.result})"

    def _repr_html_(self) -> str:
        from .views.explorer import cell_html, try_html

        return cell_html(try_html(self))


class Explorer:
    """A bench, a bank and a model to try payloads with. Close it, or use it in a `with` block.

    Args:
        run: A run directory whose bank is explored (and whose tasks and settings are taken); None explores
            demonstrations of the train split.
        model: Spec or loaded model, which stays open; None takes the run's or the preset's.
        parameters: As for `EvalConfig.make`.

    Raises:
        UserError: Wrong parameters, missing data, or a run without a bank of trajectories.
        InfrastructureError: The bank is locked, or demonstrations could not be played.
    """

    def __init__(
        self, run: str | Path | Run | None = None, *, model: str | ChatModel | None = None, **parameters: Any
    ) -> None:
        self.source = None if run is None else open_run(run)
        """The run whose bank is explored."""
        self.config = _config(self.source, model, parameters)
        self.attempts: list[Attempt] = []
        """All tries, in order."""
        self._models: dict[str, ChatModel] = {}
        if model is not None and not isinstance(model, str):
            self._models[self.config.model] = model
        self._open = contextlib.ExitStack()
        self.closed = False
        try:
            self._begin()
        except BaseException:
            self.close()
            raise

    def _begin(self) -> None:
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="jitmem-explorer-")))
        self.benchmark = make_benchmark(self.config, self._model)
        self._open.callback(self.benchmark.close)
        self.known_tasks = self.benchmark.tasks(limit=self.config.games, order=self.config.order)
        if not self.known_tasks:
            raise UserError(f"split {self.config.split} of {self.config.benchmark} has no tasks")
        if self.source is not None:
            handmade.copy_bank(self.source, folder)
        self.memory: JitMemory = make_memory(self.config, self._model, self.benchmark, self._embedder)
        self._open.callback(self.memory.close)
        self.memory.open(folder)
        self._bank = {"bank": handmade.named(self.source, self.memory.snapshot())} if self.source else {}
        if self.source is None:
            shown = self.benchmark.demonstrations(self.config.warm_start, self.config.seed)
            self.memory.warm(shown, Session(self.config.seed, "warm"))
            self._bank = {"warm_start": {"count": len(shown), "hash": content_hash([t.hash for t in shown])}}
        self.searched = handmade.describe(folder, {"memory": self.memory.settings()})
        self.task: Task = self._told(self.known_tasks[0])

    def _embedder(self, spec: str) -> Embedder:
        loaded = load_embedder(spec)
        self._open.callback(loaded.close)
        return loaded

    def _model(self, spec: str) -> ChatModel:
        if spec not in self._models:
            self._models[spec] = load_model(spec)
            self._open.callback(self._models[spec].close)
        return self._models[spec]

    def _session(self, task: Task, phase: Phase = "") -> Session:
        if self.closed:
            raise UserError("this explorer is closed; make another one")
        session = Session(self.config.seed, episode_key(task))
        session.phase = phase
        return session

    def tasks(self) -> pd.DataFrame:
        """The tasks to pick from."""
        rows = [
            {"task_id": t.task_id, "type": t.task_type, "description": t.description}
            for t in self.known_tasks
        ]
        return frame(rows)

    def pick(self, task: int | str) -> Task:
        """Turn to a task, by its row in `tasks()` or its id."""
        if isinstance(task, int):
            if not 0 <= task < len(self.known_tasks):
                raise UserError(f"there are tasks 0 to {len(self.known_tasks) - 1}, not {task}")
            self.task = self._told(self.known_tasks[task])
            return self.task
        for known in self.known_tasks:
            if known.task_id == task:
                self.task = self._told(known)
                return self.task
        raise UserError(f"there is no task {task!r} in this split; `tasks()` lists those there are")

    def _told(self, task: Task) -> Task:
        """The task with its sentence, which some environments only tell at their reset."""
        session = self._session(task, "act")
        if not self.benchmark.tells_at_reset:
            return task
        with contextlib.closing(self.benchmark.make_env(task, session)) as env:
            return told(task, env.reset())

    def traces(self, k: int | None = None, pick: Sequence[int] | None = None) -> Recall:
        """The traces for the task, with their scores, and no payload yet.

        Args:
            k: How many of the best are retrieved; None takes the explorer's.
            pick: Ids of the traces that are wanted instead.

        Raises:
            UserError: A trace that the bank does not have, or that is of this very task.
        """
        return self._recall(k, pick, self._session(self.task, "recall"))

    def _recall(self, k: int | None, pick: Sequence[int] | None, session: Session) -> Recall:
        snapshot = self.memory.snapshot()
        if pick is None:
            return self.memory.retrieve(self.task, snapshot, session, k)
        wide = 4 * len(set(pick)) + 16
        while True:  # far enough down the ranking to meet them all
            looking = self._session(self.task, "recall")
            recall = self.memory.retrieve(self.task, snapshot, looking, wide)
            chosen = tuple(trace for trace in recall.traces if trace.trace_id in pick)
            if len(chosen) == len(set(pick)) or wide >= snapshot:
                break
            wide *= 4
        missing = set(pick) - {trace.trace_id for trace in chosen}
        if missing:
            shown = ", ".join(map(str, sorted(missing)))
            raise UserError(
                f"trace {shown} is not to be had for this task: ids go from 1 to {snapshot}, and a trace of "
                "the task itself is never shown"
            )
        session.calls += looking.calls
        session.seeds.update(looking.seeds)
        notes = recall.notes | {"picked by hand": sorted(set(pick))}
        return recall.model_copy(update={"traces": chosen, "notes": notes})

    def look(self, k: int | None = None, pick: Sequence[int] | None = None) -> Attempt:
        """The traces for the task as a try that nothing was curated for; it is shown, and not kept.

        Args: as for `traces`.
        """
        asked = {"how": "traces, not curated"}
        return Attempt(self.task, self.traces(k, pick), asked, [], searched=self.searched)

    def explain(self, k: int | None = None) -> pd.DataFrame:
        """What each word of the task adds to the BM25 score of each retrieved trace.

        Raises:
            UserError: Traces are found in another way than by BM25, so that there is no such score.
        """

        if self.config.retrieval != "bm25":
            raise UserError(
                "explain tells what each word adds to a BM25 score; traces found by "
                f"retrieval={self.config.retrieval!r} have none to explain"
            )

        recall = self.traces(k)
        shown = [trace.trace_id for trace in recall.traces]
        wide = len(shown) + recall.self_excluded
        terms = self.memory.bank.explain(self.task.retrieval_key, k=max(wide, 1))
        return frame([term._asdict() for term in terms if term.id in shown])

    def _with(self, **changes: Any) -> EvalConfig:
        known = {name: value for name, value in changes.items() if value is not None}
        return EvalConfig.make(**(self.config.model_dump() | known))

    def curate(
        self,
        k: int | None = None,
        prompt: str | None = None,
        traces: Sequence[int] | None = None,
        model: str | None = None,
        **changes: Any,
    ) -> Attempt:
        """A payload for the task, with whatever is to differ from the explorer's parameters.

        Args:
            k: Number of traces.
            prompt: A curator prompt: a shipped name, a path, or the template's own text.
            traces: Ids of the traces that the curator is given; None takes the best `k`.
            model: Another model to curate and to play with.
            changes: Other parameters of the curator, e.g. `curator_temperature=0.7`.

        Raises:
            UserError: A parameter that the curator does not have, or a trace that is not to be had.
            InfrastructureError: The model's server failed; nothing is kept.
        """
        for name in changes:
            if not name.startswith("curator_") and name not in ("task_conditioned", "max_trace_tokens"):
                raise UserError(
                    f"{name!r} is no parameter of the curator; make another Explorer({name}=...) for it"
                )
        text = prompt if prompt is not None and "[[" in prompt else None
        session = self._session(self.task, "recall")
        started, clock = time.time(), time.perf_counter()
        config = self._with(k=k, model=model, curator_prompt=None if text else prompt, **changes)
        curator = make_curator(config, self._model(config.curator_model or config.model))
        if text is not None:
            curator.prompt = Prompt("(edited)", text)
            curator.prompt.messages(task="", traces="")
        found = self._recall(config.k, traces, session)
        curated = curator.curate(self.task, found.traces, session)
        asked: dict[str, Any] = {"how": "curated"}
        asked |= {"k": config.k} if traces is None else {"traces": sorted(set(traces))}
        asked |= {"prompt": curator.prompt.name} | ({} if model is None else {"model": model}) | changes
        memory = self.memory.settings() | {"curator": curator.settings(), "on_empty": "call", "k": config.k}
        memory |= {} if traces is None else {"k": len(found.traces), "picked": sorted(set(traces))}
        recall = found.model_copy(update={"payload": curated.payload, "traces": curated.traces})
        attempt = Attempt(self.task, recall, asked, session.calls, config=config, seeds=session.seeds)
        attempt.memory, attempt.bank, attempt.searched = memory, self._bank, self.searched
        attempt.started, attempt.spent = started, {"recall": time.perf_counter() - clock}
        return self._keep(attempt)

    def prompt(self) -> str:
        """The text of the curator's prompt template, to edit and hand to `curate(prompt=...)`."""
        return make_curator(
            self.config, self._model(self.config.curator_model or self.config.model)
        ).prompt.text

    def payload(self, text: str, model: str | None = None) -> Attempt:
        """A payload written by hand (empty: none), for the explorer's model or another one."""
        memory = {"name": "written", "payload_hash": content_hash(text)} if text else {"name": "none"}
        return self._given(Recall(payload=text), "by hand" if text else "no payload", memory, model)

    def oracle_payload(self, model: str | None = None) -> Attempt:
        """The walkthrough as payload: the ceiling of what a payload can do for this executor."""
        text = plan_payload(self.task, self.benchmark.oracle(self.task))
        recall = Recall(payload=text, notes={"control": "the benchmark's own solution"})
        return self._given(recall, "the walkthrough", {"name": "oracle", "of": "own"}, model)

    def _given(self, recall: Recall, how: str, memory: dict[str, Any], model: str | None) -> Attempt:
        asked = {"how": how} | ({} if model is None else {"model": model})
        config = self._with(model=model)
        return self._keep(Attempt(self.task, recall, asked, [], config=config, memory=memory))

    def _keep(self, attempt: Attempt) -> Attempt:
        self.attempts.append(attempt)
        attempt.number = len(self.attempts)
        return attempt

    def _last(self, attempt: Attempt | None) -> Attempt:
        if attempt is not None:
            return attempt
        if not self.attempts:
            raise UserError("there is no try yet: call curate() first")
        return self.attempts[-1]

    def play(self, attempt: Attempt | None = None, on_step: Callable[[Step], None] | None = None) -> Attempt:
        """Play the attempt's task with its payload; the last attempt by default.

        Raises:
            InfrastructureError: The model's server or the environment failed.
        """
        attempt = self._last(attempt)
        config = attempt.config or self.config
        session = self._session(attempt.task, "act")
        executor = make_executor(config, self._model(config.model))
        before = [call for call in attempt.calls if call.phase != "act"]
        attempt.trajectory = attempt.saved = None
        begun, clock = time.time(), time.perf_counter()
        try:
            with contextlib.closing(self.benchmark.make_env(attempt.task, session)) as env:
                attempt.trajectory = executor.play(
                    env,
                    attempt.task,
                    attempt.recall.payload,
                    session,
                    max_steps=self.benchmark.max_steps,
                    environment=f"{self.benchmark.name} {self.benchmark.version}",
                    on_step=on_step,
                )
        finally:
            attempt.calls = before + session.calls
            attempt.seeds = {"run": config.seed} | attempt.seeds | session.seeds
            attempt.started = attempt.started or begun
            attempt.spent["act"] = time.perf_counter() - clock
        return attempt

    def save(self, attempt: Attempt | None = None, out: str | Path = "runs/explored") -> Run:
        """Write a try that was played into a run directory, as a run of its own kind: made by hand.

        Tries that differ in the task only come together in one run; a task tried again is a further trial.
        The dashboards show such runs beside others, and their cards say how they were made.

        Args:
            attempt: The try; the last one by default. Saved once only.
            out: Folder of the run directories; each is named after what made its payloads.

        Raises:
            UserError: It was not played, or the folder cannot be written to.
        """
        attempt = self._last(attempt)
        if attempt.saved is not None:
            return Run(attempt.saved)
        self._session(attempt.task)
        config = attempt.config or self.config
        executor = make_executor(config, self._model(config.model))
        run = handmade.save(attempt, self.benchmark, executor, config.request(), self.source, Path(out))
        attempt.saved = run.path
        return run

    def compare(self, last: int | None = None) -> pd.DataFrame:
        """All attempts so far, or the last ones only, one row each."""

        rows = []
        for attempt in self.attempts[-last if last else None :]:
            used = Usage.total(attempt.usage().values())
            played = attempt.trajectory
            row = {"task": attempt.task.description, **attempt.settings, "result": attempt.result}
            row |= {"outcome": played.outcome if played else None, "score": attempt.score}
            row |= {"steps": len(played.steps) if played else None}
            row |= {"tokens": used.prompt_tokens + used.completion_tokens, "payload": attempt.recall.payload}
            rows.append({"try": attempt.number} | row)
        whole = [name for name in ("k", "steps") if any(name in row for row in rows)]
        return frame(rows).astype(dict.fromkeys(whole, "Int64"))

    def close(self) -> None:
        """End the environments, and free the models that were loaded here and the copy of the bank."""
        self.closed = True
        self._open.close()
        self._models.clear()

    def __enter__(self) -> Explorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _config(run: Run | None, model: str | ChatModel | None, parameters: dict[str, Any]) -> EvalConfig:
    """What is explored with: the run's own parameters, and what was asked for otherwise."""
    request: dict[str, Any] = {}
    if run is not None:
        asked = handmade.request_of(run)
        if asked is None:
            raise UserError(
                f"{run.path} records no request, so its benchmark and models are not known; explore a run "
                "made by evaluate"
            )
        request = asked
    if parameters.get("memory", "jitmem") != "jitmem" or parameters.get("payload_of", "own") != "own":
        raise UserError(
            "the explorer curates for the task that is picked: leave out payload_of, and memory if it is "
            "not jitmem"
        )
    request |= {"memory": "jitmem", "payload_of": "own", "variant": None, "options": {}} | parameters
    if isinstance(model, str):
        request["model"] = model
    return EvalConfig.make(**request)
