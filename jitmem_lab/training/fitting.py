"""Fitting the pocket models from nothing: small transformers, on train games' walkthroughs only."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..benchmarks import load_benchmark
from ..data import alfworld_splits, find
from ..errors import UserError, did_you_mean
from .batches import COPY_RATE, Batch, Role, batches, copies
from .experts import Expert, Experts
from .lessons import block
from .presets import TRAINED_SPLITS
from .vocabulary import make_tokenizer
from .writing import words_of

CONTEXT = 1024
"""Tokens of context of each model."""


class Fit(NamedTuple):
    """How one of them is made."""

    role: Role
    """Whose lessons it learns from."""
    hidden: int
    """Width."""
    layers: int
    """Layers."""
    heads: int
    """Heads of attention."""
    inner: int
    """Width of the feed-forward part."""
    copying: int
    """Steps before `steps`, in which copying is all that is learned."""
    steps: int
    """Steps of fitting."""
    batch: int
    """Lessons a step."""
    learning_rate: float
    """Highest rate, after 50 steps; it falls to a twentieth along a cosine."""


FITS = {
    "executor": Fit("executor", 64, 3, 2, 160, 750, 2500, 10, 2e-3),
    "curator": Fit("curator", 64, 3, 4, 160, 0, 800, 10, 4e-3),
    "writer": Fit("writer", 64, 3, 4, 160, 800, 1000, 10, 3e-3),
    "executor2": Fit("executor", 48, 3, 2, 128, 750, 1500, 10, 2e-3),
}
"""Measured, see the model card. The curator is stopped early: it is to have something to learn."""
USUAL = ("executor", "curator", "writer")
"""What `fit_pocket` makes where nothing else is asked for."""


def fit_pocket(
    out: Path,
    *,
    names: Sequence[str] = USUAL,
    split: str | None = None,
    seed: int = 0,
    steps: int | None = None,
    threads: int = 0,
    on_step: Callable[[str, int, int, float], None] | None = None,
) -> dict[str, Any]:
    """Fit models into `out/NAME` each, with `fit.json` that says how.

    Args:
        out: The folder; made if missing.
        names: Which, by their names in `FITS`; none has a part in how another comes out.
        split: A train split; None takes `train` where there are data, else `generated_train`.
        seed: Root of every random choice.
        steps: Steps of each; None takes those of `FITS`.
        threads: Threads of the computation; 0 leaves the library's choice.
        on_step: Told of each step: name, step, steps, loss.

    Returns:
        What was done, by name.

    Raises:
        UserError: Unknown name, the split is none to fit on, or `out` can't be written.
    """
    import torch

    for name in names:
        if name not in FITS:
            raise UserError(f"there is no pocket model {name!r}; {did_you_mean(name, list(FITS))}")
    experts = experts_of(
        split or ("train" if "train" in alfworld_splits(find("alfworld")) else "generated_train")
    )
    if threads:
        torch.set_num_threads(threads)
    done: dict[str, Any] = {"split": experts.split, "seed": seed}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name in names:
            plan = FITS[name]
            if steps:
                plan = plan._replace(copying=min(plan.copying, steps), steps=steps)

            def tell(step: int, loss: float, name: str = name, plan: Fit = plan) -> None:
                if on_step is not None:
                    on_step(name, step, plan.copying + plan.steps, loss)

            done[name] = fit(plan, experts, out / name, seed=seed, on_step=tell)
        (out / "fit.json").write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{out} cannot be written: {error.strerror}; give another folder") from None
    return done


def experts_of(split: str) -> Experts:
    """The expert episodes of ALFWorld's train split.

    Raises:
        UserError: Another split (valid games are never fitted on), or its data are missing.
    """
    if split not in TRAINED_SPLITS:
        raise UserError(
            f"pocket models are fitted on {' or '.join(TRAINED_SPLITS)} only, not on {split!r}: other splits "
            "are there to test them"
        )
    bench: Any = load_benchmark("alfworld", split=split)
    try:
        return Experts(
            [
                Expert(task.task_id, task.description, str(task.meta["scene"]), tuple(bench.oracle(task)))
                for task in bench.tasks()
            ],
            names=_names(bench),
            split=split,
        )
    finally:
        bench.close()


def _names(bench: Any) -> list[str]:
    """Every kind of thing and place that the games' rules know, so that no game has words without a token."""
    problem = bench.game(bench.tasks(limit=1)[0]).problem
    return sorted({name.lower() for name in re.findall(r"([A-Za-z]+)Type - [or]type", problem)})


def fit(
    plan: Fit,
    experts: Experts,
    out: Path,
    *,
    seed: int = 0,
    on_step: Callable[[int, float], None] | None = None,
) -> dict[str, Any]:
    """Fit one model and write it to the folder `out`, as `save_pretrained` does, in float16.

    Args:
        plan: What to make.
        experts: What to learn from.
        out: A folder; made if missing.
        seed: Root of every random choice. On one machine, with as many threads, it gives the same weights.
        on_step: Told of each step and its loss (mean nats a token of what is to be written).

    Returns:
        What was done: steps, seconds, loss, parameters.
    """
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()

    texts = [block(one.goal, one.actions) + "\n\nTask:" for one in experts.episodes]
    texts += words_of(experts) if plan.role == "writer" else []
    tokenizer = make_tokenizer([*texts, "(none)"], experts.names)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=plan.hidden,
            intermediate_size=plan.inner,
            num_hidden_layers=plan.layers,
            num_attention_heads=plan.heads,
            num_key_value_heads=plan.heads,
            max_position_embeddings=CONTEXT,
            tie_word_embeddings=True,
            initializer_range=0.05,
            pad_token_id=tokenizer.pad_token_id,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
        )
    )
    began, seen = time.monotonic(), 0.0
    if plan.copying:
        drawn = copies(plan.role, experts, tokenizer, seed)
        seen = _learn(model, plan.copying, drawn, COPY_RATE, False, 0, on_step)
    drawn = batches(plan.role, plan.batch, experts, tokenizer, seed)
    seen = _learn(model, plan.steps, drawn, plan.learning_rate, True, plan.copying, on_step)
    out.mkdir(parents=True, exist_ok=True)
    model.half().save_pretrained(out)
    tokenizer.save_pretrained(out)
    return {
        **plan._asdict(),
        "seed": seed,
        "episodes": len(experts.episodes),
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "loss": round(seen, 4),
        "seconds": round(time.monotonic() - began, 1),
    }


def _learn(
    model: Any,
    steps: int,
    drawn: Iterator[Batch],
    learning_rate: float,
    falling: bool,
    before: int,
    on_step: Callable[[int, float], None] | None,
) -> float:
    """One stage of a fit; the loss at its end, in mean nats a token of what is to be written."""
    import torch
    from torch.nn.functional import cross_entropy

    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.05)
    seen = 0.0
    for step, batch in zip(range(steps), drawn, strict=False):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * _rate(step, steps, falling)
        ids, weights = torch.tensor(batch.ids), torch.tensor(batch.weights)[:, 1:]
        logits = model(input_ids=ids).logits[:, :-1]
        losses = cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view_as(weights)
        loss = (losses * weights).sum() / weights.sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        written = torch.tensor(batch.written)[:, 1:] * weights
        now = float((losses.detach() * written).sum() / written.sum())
        seen = now if not step else 0.98 * seen + 0.02 * now
        if on_step is not None:
            on_step(before + step + 1, seen)
    return seen


def _rate(step: int, steps: int, falling: bool = True) -> float:
    """Share of the highest learning rate."""
    warm = min(50, max(1, steps // 10))
    if not falling:
        return min(1.0, (step + 1) / warm)
    return min(1.0, (step + 1) / warm) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / steps)))
