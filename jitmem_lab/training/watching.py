"""A training on its way: its files, its state, its held-out evaluations, and how it is asked to stop."""

from __future__ import annotations

import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from ..files import (
    append_line,
    append_lines,
    drop_torn_line,
    parse_json,
    read_lines,
    write_atomic,
    write_json,
)
from ..records import to_json
from ..runs import read_status
from .config import TrainConfig
from .presets import is_test_split
from .ranks import any_of, gathered, rank, wait_for_all
from .reward import Prompt, Rollout, deviation, zero_variance_share
from .runs import Stopped, TrainRun
from .step_bar import StepBar
from .trainer import renamed

IDLE_STEPS = 5
"""Steps in a row without any difference of reward in any group, after which there is a warning."""
LINES = ("metrics.jsonl", "rollouts.jsonl")
OLD = ".curator-old"
"""The checkpoint that was chosen before, as long as training may have to go back to it."""


class Watch(TrainerCallback):
    """Writes what happens, evaluates on held-out tasks, keeps the best checkpoint, stops when asked.

    Of several processes the first writes; each keeps the payloads that it played itself.

    Args:
        config: The training.
        path: Its run directory.
        prompts: Its prompts.
        evaluate: Plays the held-out tasks at a step; gives the line to be written. None for none.
        save: Saves the model as it stands into a folder.
        show: Whether to draw a bar.
        stop: Set when the training shall end at the end of its step.
    """

    def __init__(
        self,
        config: TrainConfig,
        path: Path,
        prompts: list[Prompt],
        evaluate: Callable[[int], dict[str, Any]] | None,
        save: Callable[[Path], None],
        show: bool,
        stop: threading.Event,
    ) -> None:
        self.config = config
        self.path = path
        self.prompts = prompts
        self.evaluate = evaluate
        self.save = save
        self.show = show
        self.stop = stop
        self.writes = rank() == 0
        self.begun = time.time()
        self.first: int | None = None
        self.status: dict[str, Any] = {
            "state": "running",
            "error": None,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "started": self.begun,
            "step": 0,
            "steps": config.steps,
            "warnings": [],
        }
        self._batch: dict[str, Any] = {}
        self._play = 0.0
        self._begun_before = False
        self._idle = 0
        self._bar: StepBar | None = None

    def go_on_from(self, step: int) -> None:
        """Forget what was written after the checkpoint that training goes on from."""
        for name in LINES:
            file = self.path / name
            drop_torn_line(file)
            kept = [line for line in read_lines(file) if _step_of(line) <= step]
            if file.exists():
                write_atomic(file, "".join(line + "\n" for line in kept))
        for line in TrainRun(self.path).lines("metrics.jsonl"):
            self._begun_before |= line["kind"] == "heldout" and line["step"] == 0
            if line["kind"] == "step":
                self._batch = line
                self._warn(line["step"])
        self._batch = {}
        for folder in (self.path / "heldout").glob("step-*"):
            number = folder.name.removeprefix("step-")
            if not number.isdecimal() or int(number) > step or not _finished(folder):
                shutil.rmtree(folder, ignore_errors=True)
        now, old, gone = (self.path / name for name in ("curator", OLD, ".curator-new"))
        shutil.rmtree(gone, ignore_errors=True)
        chosen = self.best()
        if chosen is not None and chosen["step"] > step:
            now.rename(gone)
            shutil.rmtree(gone)
        if not now.exists() and old.exists():
            old.rename(now)

    def best(self) -> dict[str, Any] | None:
        """What is known of the chosen checkpoint."""
        found = TrainRun(self.path).chosen()
        return found if found is not None and isinstance(found.get("step"), int) else None

    def record(self, update: int, rollouts: list[Rollout], seconds: float) -> None:
        """Write a batch of payloads with what came of them."""
        step = update // self.config.updates + 1
        before = rank() * len(rollouts) // self.config.group
        lines: list[dict[str, Any]] = []
        for number, one in enumerate(rollouts):
            task = self.prompts[one.prompt].task
            trajectory = one.played.trajectory
            line = {
                "step": step,
                "group": before + number // self.config.group,
                "prompt": one.prompt,
                "task_id": task.task_id,
                "task_type": task.task_type,
                "description": task.description,
                "payload": one.payload,
                "tokens": one.tokens,
                "reward": one.played.reward,
                "advantage": one.advantage,
                "outcome": "error" if trajectory is None else trajectory.outcome,
                "error": one.played.error or None,
                "actions": [] if trajectory is None else [s.action for s in trajectory.steps],
                "seconds": round(one.played.seconds, 3),
                "executor_tokens": one.played.tokens,
                "shared": one.played.shared,
            }
            lines.append(line)
        append_lines(self.path / "rollouts.jsonl", [to_json(line) for line in lines])
        self._play += seconds
        self._batch = batch_figures(gathered(lines), self.config.group, self.config.max_completion)

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate before the first step."""
        self.first = state.global_step // self.config.updates
        self.write(step=self.first)
        if self.show and self.writes:
            self._bar = StepBar(self.config.steps, self.first)
        if any_of(self.stop.is_set()):
            raise Stopped  # nothing has been done: the trainer would do a step, without what comes before it
        if self.first == 0 and not self._begun_before:
            self._evaluate(0)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Evaluate where it is time to, and stop if that was asked."""
        step, rest = divmod(state.global_step, self.config.updates)
        if rest:
            return
        every = self.config.heldout_every
        if step == self.config.steps or (every and step % every == 0):
            self._evaluate(step)
        if any_of(self.stop.is_set()):
            control.should_save = True
            control.should_training_stop = True

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any
    ) -> None:
        """Write the line of a step."""
        if not logs or "loss" not in logs or not self.writes:
            return
        step = state.global_step // self.config.updates
        theirs = renamed(logs)
        whole = (theirs.pop("step_time", None) or 0.0) * self.config.updates
        generate = theirs.pop("seconds_generate", None) or 0.0
        line = {
            "kind": "step",
            "step": step,
            "time": time.time(),
            **self._batch,
            **theirs,
            "seconds_generate": round(generate, 3),
            "seconds_play": round(self._play, 3),
            "seconds_update": round(max(whole - generate - self._play, 0.0), 3),
        }
        self._play = 0.0
        append_line(self.path / "metrics.jsonl", to_json(line))
        self._warn(step)
        done = step - (self.first or 0)
        spent = time.time() - self.begun
        left = self.config.steps - step
        self.write(
            step=step,
            reward=self._batch.get("reward"),
            eta_seconds=round(spent / done * left, 1) if done and left else None,
        )
        if self._bar is not None:
            self._bar.show(step, self.status)

    def _warn(self, step: int) -> None:
        """Say so where nothing can be learnt."""
        self._idle = self._idle + 1 if self._batch.get("zero_variance_share") == 1.0 else 0
        if self._idle == IDLE_STEPS:
            words = (
                f"steps {step - IDLE_STEPS + 1} to {step}: every payload of a task got the same reward, so "
                "nothing was learnt; take tasks of a middling rate of success (rate_low, rate_high), or a "
                "higher temperature"
            )
            self.status["warnings"].append(words)
            print(f"warning: {words}", file=sys.stderr, flush=True)

    def _evaluate(self, step: int) -> None:
        if self.evaluate is None:
            if step == self.config.steps:
                self._keep(step, None)
            return
        self.write(phase="held-out evaluation")
        line = self.evaluate(step)
        append_line(self.path / "metrics.jsonl", to_json({"kind": "heldout", "step": step, **line}))
        rate = line["success_rate"]
        self.write(phase=None, heldout=rate)
        before = self.best()
        better = rate is not None and (before is None or rate > (before.get("success_rate") or 0.0))
        if step and (better or (step == self.config.steps and before is None)):
            self._keep(step, rate)

    def _keep(self, step: int, rate: float | None) -> None:
        """Make the model as it stands the chosen one; the one before stays until there is a checkpoint."""
        made, old = self.path / ".curator-new", self.path / OLD
        if self.writes:
            for folder in (made, old):
                shutil.rmtree(folder, ignore_errors=True)
        wait_for_all()
        self.save(made)
        wait_for_all()
        if not self.writes:
            return
        split = self.config.heldout
        chosen = {"step": step, "success_rate": rate, "split": split}
        write_json(made / "chosen.json", chosen | {"on_test": bool(split and is_test_split(split))})
        target = self.path / "curator"
        if target.exists():
            target.rename(old)
        made.rename(target)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Drop what training can no longer go back to."""
        if self.writes:
            shutil.rmtree(self.path / OLD, ignore_errors=True)

    def write(self, **changes: Any) -> None:
        """Write `status.json`."""
        if not self.writes:
            return
        if self.stop.is_set():
            changes.setdefault("state", "stopping")
        self.status |= changes | {"updated": time.time()}
        write_json(self.path / "status.json", self.status)

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


def batch_figures(batch: list[dict[str, Any]], group: int, longest: int) -> dict[str, Any]:
    """The figures of a step's line that follow from its payloads; see `metrics.STEP_METRICS`.

    Args:
        batch: Lines of `rollouts.jsonl`, groups one after another.
        group: Payloads a group.
        longest: Most tokens of a payload.
    """
    rewards = [one["reward"] for one in batch]
    known = [reward for reward in rewards if reward is not None]
    turns = [len(one["actions"]) for one in batch if one["outcome"] != "error"]
    own = [one for one in batch if not one["shared"]]
    return {
        "reward": sum(known) / len(known) if known else None,
        "reward_std": deviation(known) if known else None,
        "zero_variance_share": zero_variance_share(rewards, group),
        "unscored": len(rewards) - len(known),
        "turns": sum(turns) / len(turns) if turns else None,
        "episodes": len(own),
        "cut_share": sum(one["tokens"] >= longest for one in batch) / len(batch),
        "distinct_share": len({(one["prompt"], one["payload"]) for one in batch}) / len(batch),
        "executor_tokens": sum(one["executor_tokens"] for one in own),
    }


def _step_of(line: str) -> float:
    try:
        return float(parse_json(line)["step"])
    except (ValueError, KeyError, TypeError):
        return float("inf")


def _finished(folder: Path) -> bool:
    return read_status(folder).get("state") == "completed"
