"""The model that is trained: where it is loaded from, and how it is saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import UserError
from ..models import check_spec
from ..models.hf import HfModel, weights_about
from .config import TrainConfig


def curator_path(spec: str) -> str:
    """The folder or id of a curator's weights.

    Raises:
        UserError: The name is of a model that can't be trained in this process.
    """
    kind, rest = check_spec(spec)
    if kind == "smol":
        from ..models import smol

        return str(smol.ensure())
    if kind == "pocket":
        from ..models.pocket import folder

        return str(folder(rest))
    if kind == "hf":
        return rest
    raise UserError(f"{spec} can't be trained: its weights are not in this process; give hf:PATH")


def load_curator(config: TrainConfig) -> tuple[Any, Any]:
    """Model and tokenizer, with float32 weights unless LoRA leaves them as they are.

    Raises:
        UserError: The model isn't there.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    path = curator_path(config.curator)
    half = config.dtype == "bfloat16" and config.lora > 0 and torch.cuda.is_available()
    try:
        tokenizer = AutoTokenizer.from_pretrained(path)
        dtype = torch.bfloat16 if half else torch.float32
        if (Path(path) / "adapter_config.json").is_file():
            from peft import AutoPeftModelForCausalLM

            model = AutoPeftModelForCausalLM.from_pretrained(path, dtype=dtype, is_trainable=True)
        else:
            model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
    except Exception as error:  # each library has its own for a file that is damaged
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise UserError(
            f"cannot load the curator {path!r}: {words[0][:300]}; give hf: and a folder that "
            "`save_pretrained` wrote, or an id in the transformers cache"
        ) from error
    return model, tokenizer


def curator_context(config: TrainConfig, model: Any) -> int:
    """Tokens that a prompt and its payload may have together."""
    own = int(getattr(model.config, "max_position_embeddings", 0) or 32_768)
    return min(own, config.max_prompt + config.max_completion)


def curator_facts(config: TrainConfig, model: Any) -> dict[str, Any]:
    """What identifies the weights that training begins with."""
    return weights_about(curator_path(config.curator), model) | {"dtype": config.dtype, "lora": config.lora}


def live_model(config: TrainConfig, model: Any, tokenizer: Any, **about: Any) -> HfModel:
    """The model that is trained, as it stands, as a chat model; `about` identifies it further."""
    step = about.get("step")
    return HfModel(
        config.curator,
        name=config.curator if step is None else f"{config.curator} after {step} steps",
        fast=False,
        context=curator_context(config, model),
        about={"model": config.curator} | about,
        loaded=(model, tokenizer),
        device=str(model.device),
    )


def saved(trainer: Any, folder: Path) -> None:
    """Save model and tokenizer so that `hf:FOLDER` loads them (of LoRA, the adapter and its base's name)."""
    trainer.save_model(str(folder))
    (folder / "training_args.bin").unlink(missing_ok=True)
