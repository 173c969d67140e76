"""TRL's GRPO trainer with our settings, watched: it learns as `trl.GRPOTrainer` does and is only measured."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from .config import TrainConfig
from .ranks import world

if TYPE_CHECKING:
    from pathlib import Path

NAMES = {
    "loss": "loss",
    "grad_norm": "gradient_norm",
    "learning_rate": "learning_rate",
    "kl": "kl",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clip_share",
    "completions/mean_length": "tokens",
    "ratio": "ratio",
    "ratio_max": "ratio_max",
    "vllm_ratio": "vllm_ratio",
    "sampling/sampling_logp_difference/mean": "vllm_logp_difference",
    "seconds/generate": "seconds_generate",
    "step_time": "step_time",
}
"""TRL's names of what is logged (1.16.0), and ours."""
DDP_SECONDS = 7_200
"""How long processes wait for each other: longer than the slowest batch of episodes."""


def grpo_arguments(config: TrainConfig, folder: Path, world: int = 1, cuda: bool = False) -> GRPOConfig:
    """TRL's arguments for a config.

    Args:
        config: The training.
        folder: Where checkpoints go.
        world: Processes that share the batch.
        cuda: Whether there is a GPU.

    Raises:
        ValueError: The batch can't be shared out among so many processes.
    """
    passes, rest = divmod(config.batch // config.updates, config.micro_batch * world)
    if rest or not passes:
        raise ValueError(
            f"{config.batch // config.updates} payloads an update can't be shared out among {world} "
            f"processes with {config.micro_batch} a pass"
        )
    if world > 1 and (config.batch // world) % config.group:
        raise ValueError(
            f"{config.prompts} groups can't be shared out among {world} processes without breaking some; "
            "take a multiple of them"
        )
    vllm: dict[str, Any] = {}
    if config.vllm != "off":
        vllm = {
            "use_vllm": True,
            "vllm_mode": config.vllm,
            "vllm_gpu_memory_utilization": config.vllm_memory,
            "vllm_max_model_length": config.max_prompt + config.max_completion,
            "vllm_server_base_url": config.vllm_server or None,
        }
    return GRPOConfig(
        output_dir=str(folder),
        max_steps=config.steps * config.updates,
        per_device_train_batch_size=config.micro_batch,
        gradient_accumulation_steps=passes,
        steps_per_generation=passes * config.updates,
        num_generations=config.group,
        num_iterations=1,
        learning_rate=config.learning_rate,
        lr_scheduler_type="constant_with_warmup",
        warmup_steps=config.warmup,
        weight_decay=config.weight_decay,
        optim="adamw_torch",
        max_grad_norm=1.0,
        beta=config.beta,
        use_bias_correction_kl=config.bias_correction_kl,
        epsilon=config.clip,
        scale_rewards=config.scale_rewards,
        loss_type=config.loss,
        temperature=config.temperature,
        top_p=config.top_p,
        top_k=0,
        max_completion_length=config.max_completion,
        chat_template_kwargs={"enable_thinking": False},
        bf16=config.dtype == "bfloat16" and cuda,
        use_cpu=not cuda,
        gradient_checkpointing=cuda and config.dtype == "bfloat16",
        logging_steps=config.updates,
        logging_first_step=False,
        save_strategy="steps",
        save_steps=config.save_every * config.updates,
        save_total_limit=config.keep,
        report_to="none",
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        shuffle_dataset=False,  # the rows are in the order of the steps
        ddp_timeout=DDP_SECONDS,
        seed=config.seed,
        **vllm,
    )


class CuratorTrainer(GRPOTrainer):
    """`trl.GRPOTrainer`, which also says how long it generates and how far the policy moved in a batch."""

    stops: tuple[str, ...] = ()
    """Texts that end a payload, as in an evaluation."""
    _seen: torch.Tensor | None = None

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        ids, logprobs = super()._generate_single_turn(*args, **kwargs)
        ends = [end_of(self.processing_class, one, self.stops) for one in ids]
        ids = [one[:end] for one, end in zip(ids, ends, strict=True)]
        if logprobs is not None:
            logprobs = [one[:end] for one, end in zip(logprobs, ends, strict=True)]
        return ids, logprobs

    def _generate(self, prompts: list[Any]) -> Any:
        begun = time.perf_counter()
        made = super()._generate(prompts)
        self._metrics["train" if self.model is not None and self.model.training else "eval"][
            "seconds/generate"
        ].append(time.perf_counter() - begun)
        return made

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        found = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        if torch.is_grad_enabled():
            self._seen = found[0].detach()
        return found

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> Any:
        loss = super()._compute_loss(model, inputs)
        old, now, mask = inputs.get("old_per_token_logps"), self._seen, inputs["completion_mask"].bool()
        mean = most = 1.0
        if old is not None and now is not None and bool(mask.any()):
            ratio = torch.exp(now - old)[mask]
            mean, most = float(ratio.mean()), float(ratio.max())
        sampled = inputs.get("sampling_per_token_logps")
        if sampled is not None and old is not None and bool(mask.any()):
            theirs = torch.exp(old - sampled)[mask]
            self._metrics["train"]["vllm_ratio"].append(float(torch.nanmean(theirs)))
        self._metrics["train"]["ratio"].append(mean)
        self._metrics["train"]["ratio_max"].append(most)
        self._seen = None
        return loss


def end_of(tokenizer: Any, ids: list[int], stops: tuple[str, ...]) -> int:
    """How many tokens belong to a payload: up to the one with which a stop text is complete."""
    if not stops:
        return len(ids)
    whole = tokenizer.decode(ids)
    if not any(stop in whole for stop in stops):
        return len(ids)
    low, high = 1, len(ids)
    while low < high:
        middle = (low + high) // 2
        text = tokenizer.decode(ids[:middle])
        low, high = (low, middle) if any(stop in text for stop in stops) else (middle + 1, high)
    return low


def renamed(logs: dict[str, Any]) -> dict[str, float | None]:
    """What TRL logged, under our names; what isn't finite is None."""
    found: dict[str, float | None] = {}
    for theirs, ours in NAMES.items():
        if theirs in logs:
            value = logs[theirs]
            finite = isinstance(value, int | float) and math.isfinite(value)
            found[ours] = float(value) if finite else None
    return found


def make_trainer(
    config: TrainConfig,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    rows: Any,
    reward: Any,
    folder: Path,
    callbacks: list[Any],
    stops: tuple[str, ...] = (),
    kind: type[GRPOTrainer] | None = None,
) -> Any:
    """The trainer of a config; `rows` is a dataset of `prompt` and `index`, as many as all steps take.

    `kind` is another class of trainer, to compare with, which knows of no `stops`.
    """
    cuda = torch.cuda.is_available()
    peft = None
    if config.lora and not hasattr(model, "peft_config"):  # else it goes on with the adapters it has
        from peft import LoraConfig

        peft = LoraConfig(
            r=config.lora, lora_alpha=2 * config.lora, target_modules="all-linear", task_type="CAUSAL_LM"
        )
    trainer: Any = (kind or CuratorTrainer)(
        model=model,
        reward_funcs=reward,
        args=grpo_arguments(config, folder, world(), cuda),
        train_dataset=rows,
        processing_class=tokenizer,
        callbacks=callbacks,
        peft_config=peft,
    )
    trainer.stops = stops
    trainer.remove_callback(PrinterCallback)  # its lines are in metrics.jsonl
    return trainer
