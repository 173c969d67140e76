"""The streaming loop: batches, one frozen snapshot a batch, three outcomes, resume.

Inside a batch all tasks see the same snapshot of memory; writes happen after it, in task order,
whatever order they finished in. So results depend on neither concurrency nor interruptions. An episode in
error does not hold the stream up: it is owed, and the batches after it are played without its trace.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, NamedTuple

from .benchmarks.base import Benchmark, told
from .errors import InfrastructureError, UserError
from .execution import Executor
from .files import append_line, drop_torn_line, write_json
from .judging import Judge, environment_verdict
from .memories.base import Memory
from .progress import Progress
from .provenance import provenance
from .records import Call, Episode, Recall, Task, Trajectory, Verdict, content_hash, to_json
from .runs import RUN_SCHEMA, Run, RunLock, diff_settings, shown
from .session import Interrupted, Session

LEAVE_SECONDS = 10.0
"""How long an interrupted run waits for calls under way; what they bring later is not written."""


class Slot(NamedTuple):
    """One place in the stream."""

    position: int
    batch: int
    task: Task
    trial: int
    key: str


class Done(NamedTuple):
    """What is known of a slot from the run directory."""

    outcome: str
    snapshot: int | None


def plan(tasks: Sequence[Task], batch_size: int) -> list[Slot]:
    """The stream's slots: every task exactly once, the last batch possibly short.

    A task that stands twice in the stream gets two trials with keys of their own.
    """
    seen: dict[str, int] = {}
    slots = []
    for position, task in enumerate(tasks):
        digest = task.hash
        trial = seen.get(digest, 0)
        seen[digest] = trial + 1
        slots.append(Slot(position, position // batch_size, task, trial, episode_key(task, trial)))
    return slots


def episode_key(task: Task, trial: int = 0) -> str:
    """What an episode is recognised by on resume, and what its seeds follow from."""
    return content_hash([task.hash, trial])


def run_stream(
    benchmark: Benchmark,
    memory: Memory,
    executor: Executor,
    *,
    out: str | Path,
    tasks: Sequence[Task] | None = None,
    judge: Judge | None = None,
    warm_start: Sequence[Trajectory] = (),
    batch_size: int = 10,
    concurrency: int = 4,
    seed: int = 0,
    request: dict[str, Any] | None = None,
    progress: bool = True,
) -> Run:
    """Stream tasks through memory and executor into a run directory; resume what is there.

    Args:
        benchmark: Where the tasks are played.
        memory: The memory system; its store is made in the run directory.
        executor: The frozen model that acts.
        out: The run directory. If it holds a run of the same settings, only what is missing is run.
        tasks: The stream, in order; None takes all tasks of the benchmark's split.
        judge: The model that judges each trajectory, for memories that want a verdict; None leaves the
            verdict to the environment.
        warm_start: Demonstrations put into memory before the stream.
        batch_size: Tasks that share one snapshot (paper: 10; 5 in τ²).
        concurrency: Episodes at once. Changes no result, for models in process up to float noise.
        seed: Root of every random choice.
        request: What was asked for, recorded so that the run can be made again from its config.
        progress: Whether to draw a bar.

    Returns:
        The run, readable.

    Raises:
        UserError: `out` holds another run, or one of newer schema; nothing was written then.
        KeyboardInterrupt: The user stopped it; what had finished is kept.
    """
    if batch_size < 1 or concurrency < 1:
        raise UserError("batch_size and concurrency must be 1 or more")
    stream = list(benchmark.tasks() if tasks is None else tasks)
    if memory.needs_judge and judge is None:
        raise UserError(
            f"memory {memory.name} gates by a judge; pass judge=Judge(model) or gate='environment'"
        )
    about = benchmark.provenance()
    told_with: dict[str, Any] = {name: about.pop(name, None) for name in ("notes", "floors")}
    played = {task.task_id for task in stream}
    told_with["demonstrations_of_played_tasks"] = len(played & {t.task.task_id for t in warm_start})
    settings = {
        "benchmark": about | {"name": benchmark.name, "split": benchmark.split},
        "tasks": {"count": len(stream), "hash": content_hash([task.hash for task in stream])},
        "memory": memory.settings(),
        "executor": executor.settings() | {"max_steps": executor.max_steps or benchmark.max_steps},
        "judge": judge.settings() if judge is not None and memory.needs_judge else None,
        "warm_start": {
            "count": len(warm_start),
            "hash": content_hash([t.hash for t in warm_start]),
        },
        "batch_size": batch_size,
        "seed": seed,
    }
    path = Path(out)
    with locked(path):
        prepare(path, settings, told_with, request, {"concurrency": concurrency})
        memory.open(path)
        try:
            _Stream(path, benchmark, memory, executor, judge, seed, concurrency, progress).run(
                plan(stream, batch_size), warm_start
            )
        finally:
            memory.close()
    return Run(path)


def prepare(
    path: Path,
    settings: dict[str, Any],
    told_with: dict[str, Any],
    request: dict[str, Any] | None,
    operation: dict[str, Any],
) -> None:
    """Make the run directory, or make sure that the one there holds the same run."""
    settings = json.loads(to_json(settings))
    if _has_config(path):
        there = diff_settings(Run(path).settings, settings)
        if there:
            raise UserError(f"{path} holds a run of other settings ({shown(there)}); choose another folder")
        _note_attempt(path)
        return
    config = {
        "schema_version": RUN_SCHEMA,
        "created": time.time(),
        "settings": settings,
        "told_with": told_with,
        "request": request,
        "operation": operation,
        "provenance": provenance(),
    }
    write_json(path / "config.json", config)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Make the folder if need be, and hold its lock; a folder of something else is left as it is."""
    if not _has_config(path):
        try:
            path.mkdir(parents=True, exist_ok=True)
            used = any(not file.name.startswith(".") for file in path.iterdir())
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            reason = getattr(error, "strerror", None) or str(error)
            raise UserError(
                f"the folder {str(path)!r} cannot be made or read ({reason}); choose another"
            ) from None
        if used:
            raise UserError(f"{path} is not empty and holds no run; choose another folder")
    with RunLock(path):
        yield


def _has_config(path: Path) -> bool:
    with contextlib.suppress(OSError, ValueError):  # a name too long, a NUL: told when the folder is made
        return (path / "config.json").exists()
    return False


def _note_attempt(path: Path) -> None:
    """Record where this attempt comes from, if not from where the one before came."""
    run, now = Run(path), json.loads(to_json(provenance()))
    if run.provenances()[-1] != now:
        append_line(path / "attempts.jsonl", to_json({"time": time.time(), "provenance": now}))


class _Stream:
    """One attempt at a run."""

    def __init__(
        self,
        path: Path,
        benchmark: Benchmark,
        memory: Memory,
        executor: Executor,
        judge: Judge | None,
        seed: int,
        concurrency: int,
        show: bool,
    ) -> None:
        self.path = path
        self.benchmark = benchmark
        self.memory = memory
        self.executor = executor
        self.judge = judge if memory.needs_judge else None
        self.seed = seed
        self.concurrency = concurrency
        self.show = show
        self.stop = threading.Event()
        self.done: dict[str, Done] = {}
        self.written: set[str] = set()
        self.stored = 0
        self.running: set[Future[Episode]] = set()

    def run(self, slots: list[Slot], warm_start: Sequence[Trajectory]) -> None:
        self._load()
        finished = [done.outcome for done in self.done.values() if done.outcome != "error"]
        counts = {name: finished.count(name) for name in ("success", "failure")}
        progress = Progress(self.path, len(slots), counts, self.show)
        progress.write("running")
        pool = ThreadPoolExecutor(self.concurrency, thread_name_prefix="episode")
        state, cause = "failed", None
        try:
            if warm_start:
                self._warm(warm_start)
            self._check_memory()
            for number in range(slots[-1].batch + 1 if slots else 0):
                self._batch([slot for slot in slots if slot.batch == number], pool, progress)
            complete = self.written >= {slot.key for slot in slots} and all(
                d.outcome != "error" for d in self.done.values()
            )
            state = "completed" if complete else "incomplete"
        except KeyboardInterrupt:
            state = "interrupted"
            raise
        except BaseException as error:
            cause = f"{type(error).__name__}: {error}"
            raise
        finally:
            self.stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            wait(self.running, timeout=LEAVE_SECONDS)
            progress.write(state, cause)
            progress.close()

    def _warm(self, trajectories: Sequence[Trajectory]) -> None:
        """Let memory take in demonstrations; each call is a line among the writes, and so outlives a kill."""

        def spent(call: Call) -> None:
            append_line(self.path / "writes.jsonl", to_json({"key": "warm", "calls": [call.model_dump()]}))

        session = Session(self.seed, "warm", self.stop, spent)
        session.phase = "write"
        self.memory.warm(trajectories, session)

    def _load(self) -> None:
        """Read what an earlier attempt left, tolerating a torn last line."""
        for name in ("episodes.jsonl", "writes.jsonl"):
            drop_torn_line(self.path / name)
        run = Run(self.path)
        for episode in run.iter_episodes():
            if episode.key not in self.done or self.done[episode.key].outcome == "error":
                self.done[episode.key] = Done(episode.outcome, episode.snapshot)
        taken = [line for line in run.writes() if line.get("error") is None]
        self.written = {line["key"] for line in taken}
        changes = [line["change"] for line in taken if isinstance(line.get("change"), dict)]
        self.stored = max((c["id"] for c in changes if isinstance(c.get("id"), int)), default=0)

    def _check_memory(self) -> None:
        """Refuse to go on with a memory that has lost what earlier episodes saw: results would change."""
        seen = max((done.snapshot or 0 for done in self.done.values()), default=0)
        seen = max(seen, self.stored)
        now = self.memory.snapshot()
        if now < seen:
            raise UserError(
                f"the bank in {self.path} holds {now} traces, but {seen} were stored by its episodes; put "
                "the lost bank.sqlite back or start a new run in another folder"
            )

    def _batch(self, slots: list[Slot], pool: ThreadPoolExecutor, progress: Progress) -> None:
        known = [self.done[slot.key] for slot in slots if slot.key in self.done]
        owed = [slot for slot in slots if slot.key not in self.done or self.done[slot.key].outcome == "error"]
        unwritten = [slot for slot in slots if slot.key not in self.written]
        if not owed and not unwritten:
            return
        # the snapshot that the batch's finished episodes saw; those in error have seen nothing that counts
        tokens = [done.snapshot for done in known if done.snapshot is not None and done.outcome != "error"]
        snapshot = tokens[0] if tokens else self.memory.snapshot()
        fresh: dict[str, Episode] = {}
        self.running = {pool.submit(self._episode, slot, snapshot) for slot in owed}
        while self.running:
            ended, self.running = wait(self.running, return_when=FIRST_COMPLETED)
            for future in ended:
                episode = future.result()
                append_line(self.path / "episodes.jsonl", episode.to_line())
                self.done[episode.key] = Done(episode.outcome, snapshot)
                fresh[episode.key] = episode
                progress.episode(episode)
        earlier = self._reload({slot.key for slot in unwritten} - set(fresh))
        for slot in unwritten:
            found = fresh.get(slot.key) or earlier.get(slot.key)
            if found is not None and found.outcome != "error":
                self._write(found, progress)

    def _reload(self, keys: set[str]) -> dict[str, Episode]:
        """Episodes of an earlier attempt that memory has not taken in yet."""
        if not keys:
            return {}
        run = Run(self.path)
        return {e.key: e for e in run.iter_episodes() if e.key in keys and e.outcome != "error"}

    def _episode(self, slot: Slot, snapshot: int) -> Episode:
        """Play one slot; an infrastructure failure becomes an error episode."""
        session, task = Session(self.seed, slot.key, self.stop), slot.task
        started, clock = time.time(), time.perf_counter()
        recall, trajectory, verdict = Recall(), None, Verdict(success=None, source="none")
        error: str | None = None
        try:
            session.check()
            session.phase = "act"
            env = self.benchmark.make_env(slot.task, session)
            with contextlib.closing(env):
                first = env.reset()
                task = told(slot.task, first)
                session.phase = "recall"
                recall = self.memory.recall(task, snapshot, session)
                session.phase = "act"
                companion = self.memory.companion(task, snapshot, recall)
                trajectory = self.executor.play(
                    env,
                    task,
                    recall.payload,
                    session,
                    max_steps=self.benchmark.max_steps,
                    environment=f"{self.benchmark.name} {self.benchmark.version}",
                    first=first,
                    companion=companion,
                )
                if companion is not None:
                    recall = recall.model_copy(update={"notes": recall.notes | companion.notes()})
            session.phase = "judge"
            verdict = self._verdict(trajectory, session)
        except Interrupted:
            raise
        except InfrastructureError as cause:
            error = f"{type(cause).__name__}: {cause}"
        return Episode(
            key=slot.key,
            position=slot.position,
            batch=slot.batch,
            snapshot=snapshot,
            task=task,
            trial=slot.trial,
            recall=recall,
            trajectory=trajectory,
            verdict=verdict,
            outcome="error" if error or trajectory is None else trajectory.outcome,
            error=error,
            calls=tuple(session.calls),
            seeds={"run": self.seed} | session.seeds,
            started=started,
            seconds=time.perf_counter() - clock,
        )

    def _verdict(self, trajectory: Trajectory, session: Session) -> Verdict:
        """The gate's verdict; a judge out of reach costs no episode, it is asked again before the write."""
        if self.judge is None:
            return environment_verdict(trajectory)
        try:
            return self.judge.verdict(trajectory, session)
        except Interrupted:
            raise
        except InfrastructureError as cause:
            return Verdict(success=None, source="none", rationale=f"the judge could not be asked: {cause}")

    def _write(self, episode: Episode, progress: Progress) -> None:
        """Let memory take in one episode; an infrastructure failure leaves it owed."""
        session = Session(self.seed, f"{episode.key}:write", self.stop, progress.call)
        line: dict[str, Any] = {"key": episode.key, "position": episode.position, "batch": episode.batch}
        try:
            if episode.verdict.source == "none" and episode.trajectory is not None and self.judge is not None:
                session.phase = "judge"
                verdict = self.judge.verdict(episode.trajectory, session)
                episode = episode.model_copy(update={"verdict": verdict})
                line["verdict"] = verdict.model_dump()
            session.phase = "write"
            line["change"] = self.memory.remember(episode, session)
        except Interrupted:
            raise KeyboardInterrupt from None
        except InfrastructureError as cause:
            line["error"] = f"{type(cause).__name__}: {cause}"
        else:
            self.written.add(episode.key)
        line["calls"] = [call.model_dump() for call in session.calls]
        append_line(self.path / "writes.jsonl", to_json(line))
