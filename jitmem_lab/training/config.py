"""What to train: one flat set of parameters, with presets, in the same manner as an evaluation's."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ..errors import UserError, did_you_mean
from ..evaluation import EvalConfig, without_secrets
from ..records import content_hash
from .presets import BY_BENCHMARK, PRESETS, TRAINED_SPLITS, is_test_split

FROM_TRAIN = "part"
"""`heldout="part"`: a part of the split trained on, which is kept out of training."""


OWN = {"preset", "benchmark", "split", "model", "curator_model", "seed", "curator_max_tokens"}
"""Parameters of `EvalConfig` that a training has itself."""
FIXED = {"memory", "exclude_own", "payload_of", "gate", "games", "order", "traces", "trials", "warm_start"}
"""Parameters of `EvalConfig` that are what training is about, or do nothing in it."""
OPERATIONAL = {"concurrency", "timeout", "keep", "micro_batch"}
"""Parameters that change no result (but float noise), and so may differ when a training goes on."""


class TrainConfig(BaseModel):
    """What to train. Parameters left out take the preset's value; unknown ones are an error.

    See `training.presets` for the values of `paper`, `authors-code`, `smol` and `pocket`, and their source.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), allow_inf_nan=False)

    preset: Literal["paper", "authors-code", "smol", "pocket"] = "pocket"
    """Where parameters left out come from."""
    benchmark: str = "alfworld"
    """Benchmark to train on; one whose tasks are known before their reset."""
    split: str
    """Split whose tasks are trained on; left out, the benchmark's train split of which there are data."""
    tasks: int | None = Field(ge=1)
    """Number of tasks trained on, drawn with the seed; None takes all that are left."""
    play: dict[str, Any] = Field(default_factory=dict)
    """What differs from the evaluation preset of the same name in how traces are found and shown, the curator
    is asked and the executor plays: parameters of `EvalConfig`, e.g. {"k": 5, "max_steps": 20}."""
    executor: str
    """The frozen executor's model, as in `EvalConfig.model`."""
    curator: str
    """The model that is trained: pocket:curator, smol, hf:PATH."""
    bank: str | None = None
    """A run, or a folder of runs, of the train split whose successes are the training bank (`jitmem bank`
    plays one); None takes demonstrations."""
    bank_size: int | None = Field(ge=1)
    """Most trajectories of the bank; None takes all of `bank`."""
    layout: Literal["one", "stores"]
    """`one`: every task retrieves from the whole bank (the paper). `stores`: each from a small store of its
    own, drawn from other tasks (the authors' code)."""
    store_size: int = Field(10, ge=1)
    """Trajectories in a task's own store."""
    empty_share: float = Field(0.0, ge=0, le=1)
    """Share of the stores that are left empty."""
    rate_low: float = Field(0.0, ge=0, le=1)
    """Tasks of a lower rate of success in `bank`'s runs are left out; above 0, also those never tried."""
    rate_high: float = Field(1.0, ge=0, le=1)
    """Tasks of a higher rate of success in `bank`'s runs are left out."""
    steps: int = Field(ge=1)
    """Steps: as many times is a batch of payloads written and played."""
    prompts: int = Field(ge=1)
    """Tasks in a step's batch."""
    group: int = Field(ge=2)
    """Payloads written for each."""
    updates: int = Field(ge=1)
    """Optimiser updates a step. One: strictly on-policy. 8 in the authors' code, where the mini-batch of 32
    counts payloads."""
    micro_batch: int = Field(ge=1)
    """Payloads in one forward pass; changes no result but float noise."""
    learning_rate: float = Field(gt=0)
    """Learning rate, constant after the warm-up."""
    warmup: int = Field(ge=0)
    """Optimiser updates over which the learning rate rises from 0: the very first one changes no weight."""
    weight_decay: float = Field(0.0, ge=0)
    """Weight decay of AdamW."""
    beta: float = Field(ge=0)
    """Weight of the KL term in the loss; 0 does without it, and KL is then not measured either."""
    bias_correction_kl: bool = False
    """Whether the KL term is weighed by the importance ratio (TRL's default, not the paper's)."""
    clip: float = Field(0.2, gt=0)
    """Clipping range of the importance ratio, on both sides."""
    scale_rewards: Literal["none", "group", "batch"] = "none"
    """What rewards are divided by, once the group's mean is taken off."""
    loss: Literal["dapo", "grpo", "dr_grpo", "bnpo"] = "dapo"
    """How the loss is averaged; dapo is the mean over a batch's tokens."""
    temperature: float = Field(1.0, gt=0)
    """Temperature of the payloads that are trained on."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Nucleus of the same; below 1 the importance ratio is biased, and the run's card says so."""
    max_prompt: int = Field(ge=16)
    """Longest prompt of the curator in tokens; longer traces lose their middle."""
    max_completion: int = Field(ge=1)
    """Longest payload in tokens."""
    lora: int = Field(ge=0)
    """Rank of LoRA adapters; 0 trains all weights."""
    dtype: Literal["float32", "bfloat16"]
    """Precision of the computation; weights that are trained stay float32."""
    vllm: Literal["off", "colocate", "server"] = "off"
    """Whether payloads are generated by vLLM, in this process or by a server."""
    vllm_server: str = ""
    """Address of that server, e.g. http://127.0.0.1:8001; another one than the executor's."""
    vllm_memory: float = Field(0.3, gt=0, le=1)
    """Share of the GPU's memory that vLLM takes in this process."""
    heldout: str | None = FROM_TRAIN
    """Where held-out tasks come from: `part` (a part of the split trained on that is kept out), another
    split, or None for none. Checkpoints are chosen on them."""
    heldout_games: int = Field(ge=1)
    """Number of held-out tasks."""
    heldout_every: int = Field(ge=0)
    """Steps between held-out evaluations; 0 evaluates before and after training only."""
    allow_test: bool = False
    """Whether held-out tasks may come from a test split; the run's card then says so."""
    save_every: int = Field(ge=1)
    """Steps between checkpoints, from which a run that was stopped goes on."""
    keep: int | None = Field(2, ge=1)
    """Checkpoints kept, newest first; None keeps all."""
    concurrency: int = Field(ge=1)
    """Episodes at once."""
    timeout: float = Field(60.0, gt=0)
    """Seconds after which a request to a served executor has failed."""
    seed: int = Field(0, ge=0, lt=2**32)
    """Root of every random choice."""

    @classmethod
    def make(cls, **parameters: Any) -> TrainConfig:
        """A config from a preset and what differs from it.

        Raises:
            UserError: Unknown parameter or preset, a value out of range, or values that don't go together.
        """
        for name in parameters:
            if name not in cls.model_fields:
                hint = did_you_mean(name, cls.model_fields, f"there are {', '.join(cls.model_fields)}")
                if name in EvalConfig.model_fields:
                    hint = f"it belongs to play: play={{{name!r}: …}}"
                raise UserError(f"there is no parameter {name!r}; {hint}")
        preset = parameters.get("preset", cls.model_fields["preset"].default)
        if not isinstance(preset, str) or preset not in PRESETS:
            raise UserError(f"there is no preset {preset!r}; there are {', '.join(PRESETS)}")
        values = PRESETS[preset] | BY_BENCHMARK.get(preset, {}).get(str(parameters.get("benchmark")), {})
        values = values | parameters
        if isinstance(parameters.get("play"), dict):
            values["play"] = PRESETS[preset].get("play", {}) | parameters["play"]
        if values.get("heldout") in ("none", "None"):  # a file of parameters has no other way to say it
            values["heldout"] = None
        if values.get("split") is None:
            values["split"] = _train_split(str(values.get("benchmark", "alfworld")))
        games = values.get("benchmark", "alfworld") == "alfworld" and values["split"] == "train"
        if preset == "pocket" and games:  # its curator has seen all of ALFWorld's train split
            values.setdefault("heldout", "valid_train")
        try:
            config = cls(**values)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UserError(
                f"{where}={repr(first['input'])[:200]} is not possible: {first['msg'].lower()}"
            ) from None
        config._check()
        return config

    def _check(self) -> None:
        """Raise `UserError` where values don't go together."""
        batch = self.prompts * self.group
        if batch % self.updates:
            raise UserError(f"{batch} payloads a step can't be shared out among {self.updates} updates")
        if (batch // self.updates) % self.micro_batch:
            raise UserError(
                f"micro_batch={self.micro_batch} doesn't divide the {batch // self.updates} payloads of an "
                "update; take a divisor"
            )
        if self.heldout_every % self.save_every:
            raise UserError(
                f"heldout_every={self.heldout_every} must be a multiple of save_every={self.save_every}, so "
                "that what is chosen can be gone back to"
            )
        if self.rate_low > self.rate_high:
            raise UserError("rate_low is above rate_high, so that no task is left")
        if (self.rate_low > 0 or self.rate_high < 1) and self.bank is None:
            raise UserError("rates of success are known from the bank's runs only: give bank=RUN")
        if self.vllm == "server" and not self.vllm_server:
            raise UserError("vllm='server' needs the server's address: vllm_server=http://HOST:PORT")
        if self.heldout == self.split:
            raise UserError(f"for held-out tasks of split {self.split} itself give heldout='{FROM_TRAIN}'")
        if (
            self.heldout not in (None, FROM_TRAIN)
            and is_test_split(str(self.heldout))
            and not self.allow_test
        ):
            raise UserError(
                f"{self.heldout} is a test split: a checkpoint chosen on it can't be reported on it. Take "
                f"another split, or allow_test=True, which the run's card will say"
            )
        if is_test_split(self.split):
            raise UserError(
                f"{self.split} is a test split; training needs {', '.join(TRAINED_SPLITS)} or such"
            )
        for spec in (self.executor, self.curator, self.vllm_server):
            if without_secrets(spec) != spec:
                raise UserError(
                    f"the address {without_secrets(spec)} is given with a user, password or query, which "
                    "would be written down; leave it out (the key comes from OPENAI_API_KEY)"
                )
        self.evaluation()

    def evaluation(self, **more: Any) -> EvalConfig:
        """How episodes are played in this training; `more` are further parameters of `EvalConfig`."""
        for name in sorted(OWN & set(self.play)):
            raise UserError(f"give {name} as a parameter of the training, not in play")
        for name in sorted(FIXED & set(self.play)):
            raise UserError(f"{name} can't be changed in a training; leave it out of play")
        base = {
            "preset": "small" if self.preset == "smol" else self.preset,
            "benchmark": self.benchmark,
            "split": self.split,
            "model": self.executor,
            "memory": "jitmem",
            "gate": "environment",
            "curator_max_tokens": self.max_completion,
        }
        return EvalConfig.make(**(base | self.play | more))

    def reported(self, **more: Any) -> EvalConfig:
        """How episodes are played where figures are reported: without what is so in training only."""
        only = PRESETS[self.preset].get("play", {})
        own = {name: value for name, value in self.play.items() if only.get(name) != value}
        return self.model_copy(update={"play": own}).evaluation(**more)

    def folder(self, root: str | Path = "runs") -> Path:
        """The run directory that this config has by default."""
        name = self.benchmark.rpartition(":")[2]
        return (
            Path(root) / f"train-{name}-{self.preset}-{content_hash(self.model_dump(exclude=OPERATIONAL), 8)}"
        )

    @property
    def batch(self) -> int:
        """Payloads written and played a step."""
        return self.prompts * self.group


def _train_split(benchmark: str) -> str:
    """The train split of which there are data here."""
    from .. import data

    if benchmark == "alfworld":
        return "train" if "train" in data.alfworld_splits(data.find("alfworld")) else "generated_train"
    if benchmark == "webshop":
        return "generated_train"
    raise UserError(f"say which split of {benchmark} is trained on: split=…")
