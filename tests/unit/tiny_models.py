"""Language models of a few thousand weights, made on the spot: for training's tests."""

from __future__ import annotations

from pathlib import Path

from tests.unit.panels import COLOURS

WORDS = (
    "Task: press the button of panel Steps to do it: 1. 2. none [pad] [end] [unk] " + " ".join(COLOURS)
).split()


def tiny_model(folder: Path, seed: int = 0, layers: int = 2, width: int = 32) -> Path:
    """A random Llama that reads and writes the words of the world of panels, saved into `folder`."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = dict.fromkeys([*WORDS, *map(str, range(10))])
    raw = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, unk_token="[unk]"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    raw.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="[unk]", pad_token="[pad]", eos_token="[end]"
    )
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(words),
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=layers,
        num_attention_heads=2,
        max_position_embeddings=512,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
