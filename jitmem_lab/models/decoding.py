"""Batched sampling from a transformers model, each row with a generator of its own."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..records import Sampling, content_hash


@dataclass
class Row:
    """One answer being written."""

    prompt: list[int]
    """Token ids to continue."""
    sampling: Sampling
    """How to draw."""
    sample: int = 0
    """Index among several answers to the same prompt; mixed into the seed."""
    tokens: list[int] = field(default_factory=list)
    """Token ids written so far, the ending one included."""
    text: str = ""
    """The answer once finished."""
    finish: str = ""
    """stop or length once finished."""


def row_seed(sampling: Sampling, sample: int) -> int:
    """Seed of one row's generator: fixed by seed and sample index, fresh if there is no seed."""
    if sampling.seed is None:
        return random.SystemRandom().getrandbits(62)
    return int(content_hash([sampling.seed, sample], 15), 16)


def generate(model: Any, tokenizer: Any, rows: Sequence[Row], ends: frozenset[int]) -> None:
    """Write all `rows` to their end, in one left-padded batch.

    What a row draws depends on its own seed only; its batch mates change its logits by float noise at most
    (about 1e-5), which greedy decoding survives unless two tokens are that close.

    Args:
        model: A causal language model of transformers, in evaluation mode.
        tokenizer: Its tokenizer.
        rows: Answers to write; their `tokens`, `text` and `finish` are filled in.
        ends: Token ids that end an answer.
    """
    import torch

    device = model.device
    generators = [torch.Generator().manual_seed(row_seed(row.sampling, row.sample)) for row in rows]
    length = max(len(row.prompt) for row in rows)
    pads = [length - len(row.prompt) for row in rows]
    ids = torch.tensor([[0] * pad + row.prompt for pad, row in zip(pads, rows, strict=True)], device=device)
    mask = torch.tensor([[0] * pad + [1] * len(row.prompt) for pad, row in zip(pads, rows, strict=True)]).to(
        device
    )
    active = list(range(len(rows)))
    cache = None
    with torch.inference_mode():
        while active:
            positions = (mask.cumsum(-1) - 1).clamp(min=0)[:, -ids.shape[1] :]
            out = model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            )
            cache, logits = out.past_key_values, out.logits[:, -1].float().cpu()
            going = []
            for place, index in enumerate(active):
                row = rows[index]
                row.tokens.append(_draw(logits[place], row.sampling, generators[index]))
                _finish(tokenizer, row, ends)
                if not row.finish:
                    going.append(place)
            if len(going) < len(active):
                keep = torch.tensor(going, dtype=torch.long, device=device)
                active = [active[place] for place in going]
                mask = mask[keep]
                if active:
                    cache.batch_select_indices(keep)
            ids = torch.tensor([[rows[index].tokens[-1]] for index in active], device=device)
            mask = torch.cat([mask, mask.new_ones(len(active), 1)], dim=1)


def _draw(logits: Any, sampling: Sampling, generator: Any) -> int:
    import torch

    if sampling.temperature <= 0:
        return int(logits.argmax())
    logits = logits / sampling.temperature
    if 0 < sampling.top_k < len(logits):
        logits = logits.masked_fill(logits < logits.topk(sampling.top_k).values[-1], float("-inf"))
    chances = logits.softmax(-1)
    if sampling.top_p < 1:
        sorted_chances, order = chances.sort(descending=True, stable=True)
        before = sorted_chances.cumsum(-1) - sorted_chances
        chances[order[before >= max(sampling.top_p, 1e-9)]] = 0
    return int(torch.multinomial(chances, 1, generator=generator))


def _finish(tokenizer: Any, row: Row, ends: frozenset[int]) -> None:
    sampling = row.sampling
    ended = row.tokens[-1] in ends
    if sampling.stop and not ended:
        # A stop text spans at most as many tokens as it has bytes; look at the tail only.
        span = max(len(stop.encode()) for stop in sampling.stop) + 4
        tail = decode(tokenizer, row.tokens[-span:])
        ended = any(stop in tail for stop in sampling.stop)
    if ended:
        row.finish = "stop"
    elif len(row.tokens) >= sampling.max_tokens:
        row.finish = "length"
    else:
        return
    written = row.tokens[:-1] if row.tokens[-1] in ends else row.tokens
    row.text = decode(tokenizer, written)
    cuts = [row.text.find(stop) for stop in sampling.stop if stop in row.text]
    if cuts:
        row.text = row.text[: min(cuts)]


def decode(tokenizer: Any, ids: Sequence[int]) -> str:
    """Text of `ids` without special tokens."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False))
