"""The whole of a training: `train(config)`, and `python -m jitmem_lab.training.main RUN` for a job.

Only what decides the result enters `settings`; a folder that holds a training of other settings is refused,
one of the same settings goes on from its last checkpoint.
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from types import FrameType
from typing import Any

from ..benchmarks.base import Benchmark
from ..errors import InfrastructureError, JitmemError, UserError
from ..evaluation import make_benchmark, make_curator, make_executor
from ..execution import Executor
from ..files import write_json
from ..models import load_model
from ..provenance import provenance
from ..records import to_json
from ..runs import RunLock, diff_settings, shown
from .bank import TrainingBank
from .checkpoints import last_checkpoint, refuse_infinite
from .config import FROM_TRAIN, OPERATIONAL, TrainConfig
from .ranks import rank, wait_for_all, world
from .runs import CONFIG, SCHEMA, Stopped, TrainRun, is_training


def train(config: TrainConfig, out: str | Path | None = None, *, progress: bool = True) -> TrainRun:
    """Train a curator (or go on, or merely reopen): GRPO with the reward of the same task's episode.

    Args:
        config: What to train.
        out: The run directory; None takes `config.folder()`.
        progress: Whether to draw a bar.

    Raises:
        UserError: Missing packages or data, values that don't fit, or `out` holds another training.
        InfrastructureError: Nothing could be played; checkpoints are kept and the same call goes on.
        KeyboardInterrupt: The user stopped it; it says from which step the same call goes on.
    """
    if world() > 1 and config.heldout is not None:
        raise UserError(
            "held-out tasks are played by one process: train with heldout=None here, and evaluate afterwards"
        )
    if rank() > 0:  # the first process prepares the folder and holds its lock
        path = config.folder() if out is None else Path(out)
        if not is_training(path) or TrainRun(path).status().get("state") != "completed":
            with contextlib.suppress(Stopped):
                _train(config, path, False, threading.Event())
        return TrainRun(path)
    path = prepare(config, out)
    run = TrainRun(path)
    if run.status().get("state") == "completed":
        return run
    with RunLock(path):
        _attempt(config, path, progress)
    return TrainRun(path)


def prepare(config: TrainConfig, out: str | Path | None = None) -> Path:
    """Make the run directory, or make sure that the one there holds the same training.

    Raises:
        UserError: The folder holds something else.
    """
    path = config.folder() if out is None else Path(out)
    request = json.loads(to_json(config.model_dump()))
    if is_training(path):
        there = diff_settings(_deciding(TrainRun(path).request), _deciding(request))
        if there:
            raise UserError(
                f"{path} holds a training of other settings ({shown(there)}); choose another folder"
            )
        _carry_out(path, request)
        return path
    try:
        path.mkdir(parents=True, exist_ok=True)
        used = any(not file.name.startswith(".") for file in path.iterdir())
    except (OSError, ValueError) as error:
        raise UserError(
            f"the folder {str(path)!r} cannot be made or read ({error}); choose another"
        ) from None
    if used:
        raise UserError(f"{path} is not empty and holds no training; choose another folder")
    about = {
        "schema_version": SCHEMA,
        "created": time.time(),
        "settings": {},
        "request": request,
        "provenance": provenance(),
    }
    with RunLock(path):
        if not is_training(path):
            write_json(path / CONFIG, about)
            return path
    return prepare(config, out)  # another was begun here at the same time


def _carry_out(path: Path, request: dict[str, Any]) -> None:
    """Let a training that is not over go on as is asked now, in what changes no result."""
    run = TrainRun(path)
    if run.request == request or run.status()["state"] in ("running", "stopping", "completed"):
        return
    with RunLock(path):
        write_json(path / CONFIG, TrainRun(path).about | {"request": request})


def _deciding(request: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if name not in OPERATIONAL}


def _attempt(config: TrainConfig, path: Path, progress: bool) -> None:
    """One attempt at a training; how it ended stands in its status."""
    status: dict[str, Any] = {
        "state": "running",
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": time.time(),
    }
    stop = threading.Event()
    before = _stopped_by_signal(path, stop)  # first: whoever reads the pid may send the signal
    status["stoppable"] = before is not None
    write_json(path / "status.json", status | {"phase": "loading"})
    try:
        _need_packages(config)
        watch = _train(config, path, progress, stop)
        state = "completed" if watch.status["step"] == config.steps else "stopped"
        watch.write(state=state, phase=None, eta_seconds=None)
    except Stopped:
        _tell_end(path, "stopped", None)
    except BaseException as error:
        asked = isinstance(error, KeyboardInterrupt)
        cause = None if asked else f"{type(error).__name__}: {error}"
        _tell_end(path, "interrupted" if asked else "failed", cause)
        if asked:
            raise KeyboardInterrupt(_interrupted(path)) from None
        if disk_full(error):
            raise UserError(
                f"the disk of {path} is full; make room, then the same call goes on from the last checkpoint"
            ) from error
        if isinstance(error, RuntimeError) and "probability tensor" in str(error):
            raise UserError(
                "the training diverged: the curator's probabilities are not finite; lower learning_rate (or "
                "beta) and start a new training"
            ) from error
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _interrupted(path: Path) -> str:
    """From where an interrupted training goes on."""
    step = TrainRun(path).checkpoint()
    if step is None:
        return "interrupted; no checkpoint yet: the same command begins again at step 0"
    return f"interrupted; the same command goes on from step {step}"


def disk_full(error: BaseException) -> bool:
    """Whether an error, of whatever library, is that of a full disk."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return "No space left on device" in str(error) or "Disk quota exceeded" in str(error)


def _tell_end(path: Path, state: str, cause: str | None) -> None:
    """Write how an attempt ended, where there is room for it."""
    with contextlib.suppress(OSError):
        there = TrainRun(path).status()
        write_json(
            path / "status.json", there | {"state": state, "error": cause, "phase": None, "eta_seconds": None}
        )


def _stopped_by_signal(path: Path, stop: threading.Event) -> Any:
    """Let SIGTERM set `stop`: the training ends at the end of its step, with a checkpoint.

    Returns:
        What SIGTERM did before; None where nothing was changed.
    """

    def asked(number: int, frame: FrameType | None) -> None:
        stop.set()
        write_json(path / "status.json", TrainRun(path).status() | {"state": "stopping"})

    if threading.current_thread() is threading.main_thread():
        return signal.signal(signal.SIGTERM, asked) or signal.SIG_DFL
    return None


def _train(config: TrainConfig, path: Path, progress: bool, stop: threading.Event) -> Any:
    """The training itself, in each of its processes; gives its watch."""
    with contextlib.ExitStack() as stack:
        return _trained(config, path, progress, stack, stop)


def _trained(
    config: TrainConfig, path: Path, progress: bool, stack: contextlib.ExitStack, stop: threading.Event
) -> Any:
    from .curator import curator_facts, live_model, load_curator, saved
    from .prompting import check_lengths, make_prompts, step_rows, write_prompts
    from .reward import EpisodeReward
    from .trainer import make_trainer
    from .watching import Watch

    evaluation = config.evaluation()
    bench = stack.enter_context(contextlib.closing(make_benchmark(evaluation, load_model)))
    first = rank() == 0
    bank = stack.enter_context(contextlib.closing(TrainingBank(config, bench)))
    executor_model = load_model(
        config.executor, concurrency=config.concurrency, timeout=config.timeout, **_patience(config.executor)
    )
    stack.callback(executor_model.close)
    executor = make_executor(evaluation, executor_model)
    model, tokenizer = load_curator(config)
    live = stack.enter_context(contextlib.closing(live_model(config, model, tokenizer)))
    curator = make_curator(evaluation, live)
    prompts = make_prompts(bank.tasks.trained, bank, curator)
    check_lengths(prompts, live, config.max_prompt)
    if first:
        told = curator.settings() | {"model": curator_facts(config, model)}
        _record(config, path, bench, bank, executor, told)
        write_prompts(prompts, path / "prompts.jsonl")
    rows = step_rows(config, prompts, tokenizer)
    from .heldout import Heldout

    heldout = Heldout(config, path, bench, bank, executor, stack)
    watch: Watch
    trainer: Any

    def evaluate(step: int) -> dict[str, Any]:
        return heldout.play(step, trainer.accelerator.unwrap_model(trainer.model), tokenizer)

    def save(folder: Path) -> None:
        refuse_infinite(trainer.model, watch.status["step"])
        saved(trainer, folder)

    watch = Watch(
        config,
        path,
        prompts,
        evaluate if config.heldout is not None else None,
        save,
        progress,
        stop,
    )
    from .playing import Player

    player = Player(bench, executor, config.concurrency, config.seed)
    reward = EpisodeReward(player, curator, prompts, config.group, config.scale_rewards, watch.record)
    checkpoints = path / "checkpoints"
    trainer = make_trainer(
        config, model, tokenizer, rows, reward, checkpoints, [watch], curator.sampling.stop
    )
    wait_for_all()
    last = last_checkpoint(checkpoints, remove=first)
    wait_for_all()
    if first:
        watch.go_on_from(0 if last is None else int(last.name.rpartition("-")[2]) // config.updates)
    wait_for_all()
    try:
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    finally:
        watch.close()
    return watch


def _record(
    config: TrainConfig,
    path: Path,
    bench: Benchmark,
    bank: TrainingBank,
    executor: Executor,
    curator: dict[str, Any],
) -> None:
    """Write what decides the result, or make sure that it is what it was."""
    from ..records import content_hash

    run = TrainRun(path)
    settings = {
        "benchmark": bench.provenance()
        | {"name": bench.name, "split": bench.split, "version": bench.version},
        "tasks": {
            "trained": len(bank.tasks.trained),
            "hash": content_hash([task.hash for task in bank.tasks.trained]),
            "heldout": len(bank.tasks.heldout) if config.heldout == FROM_TRAIN else config.heldout_games,
        },
        "bank": bank.facts(),
        "executor": executor.settings() | {"max_steps": executor.max_steps or bench.max_steps},
        "curator": curator,
        "grpo": _deciding(config.model_dump()),
    }
    settings = json.loads(to_json(settings))
    if run.settings:
        there = diff_settings(run.settings, settings)
        if there:
            raise UserError(
                f"{path} was begun with other data or models ({shown(there)}); start a new training"
            )
        return
    write_json(path / CONFIG, run.about | {"settings": settings})


def _patience(spec: str) -> dict[str, Any]:
    """A served executor that refuses connections is told of within a minute, one that hangs later."""
    return {"retries": 3} if spec.startswith("openai:") else {}


def _need_packages(config: TrainConfig) -> None:
    if config.vllm != "off" and importlib.util.find_spec("vllm") is None:
        raise UserError(
            f"vllm={config.vllm!r} needs vLLM on the machine that trains: pip install vllm, or give vllm=off"
        )
    try:
        import datasets  # noqa: F401
        import peft  # noqa: F401
        import torch  # noqa: F401
        import trl  # noqa: F401
    except ImportError as error:
        raise UserError(
            f"training needs the `train` extra ({error.name} is missing): pip install 'jitmem-lab[train]'"
        ) from None


def main(words: list[str]) -> int:
    """A job's process: train what a prepared run directory asks for."""
    (path,) = words
    try:
        run = TrainRun(path)
        train(run.config, run.path, progress=False)
    except KeyboardInterrupt:
        return 130
    except InfrastructureError as error:
        print(f"error: {error}", file=sys.stderr)
        return 3
    except JitmemError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
