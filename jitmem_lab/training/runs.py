"""A training's run directory, read.

It holds `train.json` (settings that decide the result, and provenance), `prompts.jsonl` (each task trained on
as the curator is asked about it), `rollouts.jsonl` (one payload a line with reward, advantage and what the
executor did), `metrics.jsonl` (one line a step, and one a held-out evaluation), `heldout/step-N` (a run
directory each), `checkpoints/`, `curator/` (the chosen checkpoint, which `hf:PATH` loads), `status.json` and
`log.txt`. Reading never changes a file.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import UserError
from ..files import parse_json, read_lines, read_object
from ..runs import Run, read_status
from .checkpoints import last_checkpoint
from .lines import finite, read_line
from .presets import is_test_split

if TYPE_CHECKING:
    import pandas as pd

    from .config import TrainConfig

REWARD_STEPS = 6
"""Steps over which a summary's first and last reward are means: one batch's says little."""
SCHEMA = 1
"""Version of the directory; a reader refuses a newer one."""
CONFIG = "train.json"
"""The file by which a training is known."""


class Stopped(Exception):
    """A training was asked to stop before it had begun."""


def is_training(path: str | Path) -> bool:
    """Whether a folder holds a training."""
    try:
        return (Path(path) / CONFIG).is_file()
    except OSError as error:  # a name that no folder can have
        raise UserError(f"{str(path)[:80]!r} cannot be read: {error.strerror}") from None


class TrainRun:
    """A training's run directory. Cheap to make: only `train.json` is read until asked for more.

    Raises:
        UserError: The folder holds no training, is broken, or was written by a newer version.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        file = self.path / CONFIG
        if not is_training(self.path):
            raise UserError(f"{self.path} holds no training: there is no {CONFIG} in it")
        try:
            self.about: dict[str, Any] = parse_json(file.read_text(encoding="utf-8"))
            schema = int(self.about["schema_version"])
            self.settings: dict[str, Any] = dict(self.about["settings"])
            self.request: dict[str, Any] = dict(self.about["request"])
        except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
            raise UserError(f"{file} cannot be read ({error}); restore it or start a new training") from None
        if schema > SCHEMA:
            raise UserError(
                f"{self.path} was written with training schema {schema}, newer than {SCHEMA} which this "
                "version reads; upgrade jitmem-lab to open it"
            )

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    def __repr__(self) -> str:
        return f"TrainRun({str(self.path)!r})"

    @property
    def config(self) -> TrainConfig:
        """The config that it was started with."""
        from .config import TrainConfig

        return TrainConfig.make(**self.request)

    def status(self) -> dict[str, Any]:
        """How the training stands; `state` is running only while its process lives, killed if it died.

        What is so only while it runs, `eta_seconds` and `phase`, is None afterwards.
        """
        living = ("running", "stopping")
        status = read_status(self.path, living)
        over = () if status.get("state") in living else {"eta_seconds", "phase"} & set(status)
        return status | dict.fromkeys(over)

    def checkpoint(self) -> int | None:
        """The step of the checkpoint that it would go on from; None before there is one."""
        newest = last_checkpoint(self.path / "checkpoints", remove=False)
        updates = self.request.get("updates")
        if newest is None:
            return None
        return int(newest.name.rpartition("-")[2]) // (updates if type(updates) is int and updates > 0 else 1)

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        """The readable lines of one of its JSONL files."""
        for line in read_lines(self.path / name):
            with contextlib.suppress(ValueError):
                yield read_line(name, line)

    def metrics(self) -> pd.DataFrame:
        """One row a step; `metrics.STEP_METRICS` describes each column (`jitmem train metrics` shows it).

        The reward is the mean of the batch, shares are from 0 to 1. There is a `kl` only if `beta` is above
        0, and the learning rate of the first update is 0 where there is a warm-up.
        """
        import pandas as pd

        rows = [line for line in self.lines("metrics.jsonl") if line.get("kind") == "step"]
        return pd.DataFrame(rows).drop(columns="kind", errors="ignore")

    def heldout(self) -> pd.DataFrame:
        """One row a held-out evaluation, see `metrics.HELDOUT_METRICS`."""
        import pandas as pd

        rows = [line for line in self.lines("metrics.jsonl") if line.get("kind") == "heldout"]
        return pd.DataFrame(rows).drop(columns="kind", errors="ignore")

    def heldout_runs(self) -> dict[int, Run]:
        """The run directories of the held-out evaluations by step."""
        found = {}
        for folder in (self.path / "heldout").glob("step-*"):
            match = re.fullmatch(r"step-(\d+)", folder.name)
            if match and (folder / "config.json").is_file():
                with contextlib.suppress(UserError):
                    found[int(match[1])] = Run(folder)
        return dict(sorted(found.items()))

    def prompts(self) -> list[dict[str, Any]]:
        """The tasks trained on: `task`, `messages` (the exact prompt), `recall` (its traces)."""
        return list(self.lines("prompts.jsonl"))

    def rollouts(self, step: int | None = None) -> list[dict[str, Any]]:
        """Payloads with reward and advantage, of one step or of all."""
        return [line for line in self.lines("rollouts.jsonl") if step is None or line.get("step") == step]

    def chosen(self) -> dict[str, Any] | None:
        """The chosen checkpoint: `step`, `success_rate`, `split`, `on_test`; None before there is one."""
        return read_object(self.path / "curator" / "chosen.json")

    @property
    def curator(self) -> str:
        """The chosen checkpoint as a model's name.

        Raises:
            UserError: There is none yet.
        """
        if self.chosen() is None:
            raise UserError(f"{self.path} has no chosen checkpoint yet; see its status")
        return f"hf:{self.path / 'curator'}"

    def cautions(self) -> list[str]:
        """What has to be told with this training's figures."""
        asked, chosen = self.request, self.chosen() or {}
        warnings = self.status().get("warnings")
        found = [str(words) for words in warnings] if isinstance(warnings, list) else []
        if chosen.get("on_test") or (asked.get("allow_test") and is_test_split(str(asked.get("heldout")))):
            found.append(
                f"its checkpoint was chosen on test split {asked.get('heldout')}: figures on it are too good"
            )
        if (finite(asked.get("top_p")) or 1.0) < 1:
            found.append(
                f"payloads were drawn with top_p={asked['top_p']}, which biases the importance ratio"
            )
        if asked.get("preset") in ("pocket", "smol"):
            found.append("small models: they show that training works, not what it does for large ones")
        if asked.get("bank") is None:
            found.append(
                "its bank holds solutions of the benchmark's own, not what the executor solved itself"
            )
        return found

    def summary(self) -> dict[str, Any]:
        """State, step, rewards, held-out success at the start and last, the chosen checkpoint, cautions.

        `checkpoint` is the step that it would go on from (None: it would begin again), `reward_first` and
        `reward_last` are means over the first and last `reward_steps` steps, `eta_seconds` is None unless it
        runs.
        """
        status, rows = self.status(), list(self.lines("metrics.jsonl"))
        steps = [row for row in rows if row.get("kind") == "step"]
        held = [row for row in rows if row.get("kind") == "heldout"]
        over = min(REWARD_STEPS, len(steps))
        return {
            "path": str(self.path),
            "state": status.get("state"),
            "error": status.get("error"),
            "step": steps[-1]["step"] if steps else 0,
            "steps": self.request.get("steps"),
            "checkpoint": self.checkpoint(),
            "eta_seconds": status.get("eta_seconds"),
            "reward_steps": over,
            "reward_first": _mean_reward(steps[:over]),
            "reward_last": _mean_reward(steps[len(steps) - over :]),
            "heldout_first": held[0].get("success_rate") if held else None,
            "heldout_last": held[-1].get("success_rate") if held else None,
            "chosen": self.chosen(),
            "cautions": self.cautions(),
        }


def _mean_reward(steps: Sequence[Mapping[str, Any]]) -> float | None:
    """The mean of the steps' rewards; None where there is none."""
    known = [row["reward"] for row in steps if row.get("reward") is not None]
    return sum(known) / len(known) if known else None


def list_trainings(folder: str | Path = "runs") -> list[TrainRun]:
    """The trainings at any depth below a folder, newest first; broken ones are left out."""
    found = []
    for file in Path(folder).rglob(CONFIG):
        with contextlib.suppress(UserError):
            found.append(TrainRun(file.parent))
    return sorted(found, key=lambda run: -(finite(run.about.get("created")) or 0))
