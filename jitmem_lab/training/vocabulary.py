"""The pocket models' tokenizer: whole words, each with the space before it, so texts come back exactly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

NUMBERS = 60
"""Instance numbers, and numbers of steps, that have a token of their own."""
PAD, END, UNKNOWN = "<pad>", "<end>", "<unk>"
"""Padding, the end of what was written, and any word that is not in the vocabulary."""
_PIECE = r"\n+\d+\.|\n+| ?\w+| ?[^\w\s]|\s"
"""A step's number with the line break before it, other line breaks, words, signs."""


def pieces(text: str) -> list[str]:
    """The pieces of `text`; joined, they are the text."""
    import re

    return re.findall(_PIECE, text)


def make_tokenizer(texts: Iterable[str], names: Iterable[str] = ()) -> Any:
    """A tokenizer of transformers with every word of `texts`, every one of `names`, and the numbers.

    Words stand with the space before them. A word that begins a line has a token only if `texts` have it so.

    Args:
        texts: What the models are to read and write.
        names: Further words that may come up in a sentence.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    numbers = [str(number) for number in range(1, NUMBERS + 1)]
    known = {piece for text in texts for piece in pieces(text)}
    known |= {f" {name}" for name in [*names, *numbers]} | {f"\n{number}." for number in numbers}
    known |= {"\n", "\n\n"}
    vocabulary = {word: index for index, word in enumerate([PAD, END, UNKNOWN, *sorted(known)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECE), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
