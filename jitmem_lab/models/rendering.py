"""From messages to the text a model reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ..errors import UserError
from ..records import Message


def clean_text(text: str) -> str:
    """`text` with lone surrogates shown as U+FFFD, since no tokenizer or server accepts them."""
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def render(tokenizer: Any, messages: Sequence[Message], thinking: bool | None = None) -> str:
    """The prompt text of `messages`.

    - A lone assistant message is the raw text to continue, with no chat template at all.
    - A final assistant message is the beginning of the answer: it follows the template's own opening of an
      answer, so that generation goes on behind it.
    - A tokenizer without a chat template gets `Role: content` paragraphs.

    Raises:
        UserError: No message, or the template refuses these roles.
    """
    if not messages:
        raise UserError("a model needs at least one message")
    if len(messages) == 1 and messages[0].role == "assistant":
        return clean_text(messages[0].content)
    begun = clean_text(messages[-1].content) if messages[-1].role == "assistant" else ""
    turns = messages[:-1] if messages[-1].role == "assistant" else messages
    chat = [{"role": turn.role, "content": clean_text(turn.content)} for turn in turns]
    if not getattr(tokenizer, "chat_template", None):
        lines = [f"{turn['role'].capitalize()}: {turn['content']}" for turn in chat]
        return "\n\n".join(
            [*lines, f"Assistant: {begun}".rstrip(" ") if not begun else f"Assistant: {begun}"]
        )
    extra = {} if thinking is None else {"enable_thinking": thinking}
    try:
        text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True, **extra)
    except Exception as error:  # jinja2 raises what the template's author chose
        roles = ", ".join(turn.role for turn in messages)
        raise UserError(f"the model's chat template refuses messages of roles {roles}: {error}") from error
    return str(text) + begun


def estimate_tokens(text: str) -> int:
    """An upper estimate for usual tokenizers: four letters, one digit or one sign a token."""
    pieces = re.findall(r"[A-Za-z]{1,4}|\d|\s(?=\d)|\n+|[ \t]{2,}|[!-/:-@\[-`{-~]|[^\x00-\x7f]", text)
    return sum(1 if piece.isascii() else 2 if ord(piece) < 0x10000 else 4 for piece in pieces)


def separator(prompt: str) -> str:
    """What stands between a prompt and an option: a space, unless the prompt ends with white space."""
    return "" if not prompt or prompt[-1].isspace() else " "
