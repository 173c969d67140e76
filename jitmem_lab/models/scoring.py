"""Mean log-probability of options as continuations of a prompt: tokens, and the plain computation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .rendering import separator


def option_tokens(tokenizer: Any, prompt: str, options: Sequence[str], end: str = "") -> list[list[int]]:
    """Token ids of each option as it continues `prompt`, the same whatever the other options are.

    The prompt's own tokens stay as they are when it is read alone; an option is read together with the
    prompt's last line, so that a tokenizer which treats the start of a text specially doesn't do so in the
    middle of one.

    Args:
        tokenizer: A tokenizer of transformers.
        prompt: The rendered prompt.
        options: Texts to continue it with.
        end: Text that ends an option and counts in its mean, e.g. a newline.
    """
    tail = prompt[prompt.rfind("\n", 0, max(len(prompt) - 1, 0)) + 1 :]
    base = _encode(tokenizer, [tail])[0]
    joined = _encode(tokenizer, [tail + separator(prompt) + option + end for option in options])
    if all(ids[: len(base)] == base and len(ids) > len(base) for ids in joined):
        return [ids[len(base) :] for ids in joined]
    return _encode(tokenizer, [separator(prompt) + option + end for option in options])


def _encode(tokenizer: Any, texts: list[str]) -> list[list[int]]:
    found: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return found


def score_plain(model: Any, prompt: list[int], options: Sequence[Sequence[int]]) -> list[float]:
    """The reference: one prefill of the whole prompt, then one padded batch of all options on its cache.

    Works with any causal model of transformers.

    Returns:
        Mean log-probability per token of each option.
    """
    import torch
    from transformers import DynamicCache

    device = model.device
    with torch.inference_mode():
        cache = DynamicCache(config=model.config)
        ids = torch.tensor([prompt], device=device)
        first = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
        first = first.float().log_softmax(-1)
        longest = max(len(option) for option in options) - 1
        if longest:
            rows = [list(option[:-1]) + [0] * (longest - len(option) + 1) for option in options]
            cache.batch_repeat_interleave(len(options))
            hidden = model(torch.tensor(rows, device=device), past_key_values=cache, use_cache=True).logits
        scores = []
        for row, option in enumerate(options):
            total = float(first[option[0]])
            if len(option) > 1:
                later = hidden[row, : len(option) - 1].float().log_softmax(-1)
                total += float(later.gather(1, torch.tensor(option[1:], device=device)[:, None]).sum())
            scores.append(total / len(option))
    return scores
