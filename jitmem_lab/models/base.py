"""The protocol of a chat model, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from ..errors import UserError
from ..records import Message, Sampling, Tool, ToolCall, Usage


class Reply(NamedTuple):
    """A written answer."""

    text: str
    """The answer, think blocks included."""
    usage: Usage
    """Tokens and seconds."""
    finish: str = "stop"
    """stop, length when the limit of tokens cut it, tool_calls when it calls tools."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tools that it calls, in order; arguments that are no JSON object come as `{"": the raw text}`."""


class Choice(NamedTuple):
    """A ranking of options."""

    index: int  # type: ignore[assignment]
    """The likeliest option (the first of equals)."""
    scores: tuple[float, ...]
    """Mean log-probability per token of each option, in the order given, rounded to 1e-6."""
    usage: Usage
    """Tokens and seconds."""


@runtime_checkable
class ChatModel(Protocol):
    """A language model. Safe to call from many threads at once.

    Both calls raise `InfrastructureError` once bounded retries are spent.
    """

    name: str
    """What the user asked for, e.g. `smol` or `openai:http://…#Qwen/Qwen3-8B`."""
    context: int
    """Context length in tokens."""
    takes_tools: bool
    """Whether `chat` may be given tools; a server that has none says so when it is asked."""

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        """Answer `messages`; a final assistant message is continued, not answered.

        Raises:
            UserError: `tools` are given to a model that takes none.
        """
        ...

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        """Rank non-empty `options` as continuations of `messages` by mean log-probability."""
        ...

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text`, an upper estimate where the tokenizer is unknown."""
        ...

    def identity(self) -> dict[str, Any]:
        """Everything about the model that changes an answer; no secrets. Enters cache keys and config."""
        ...

    def close(self) -> None:
        """Free what the model holds; calling it twice is fine."""
        ...


def refuse_tools(name: str, tools: Sequence[Tool]) -> None:
    """Raise `UserError` if `tools` are given to a model that takes none."""
    if tools:
        raise UserError(
            f'{name} calls no tools; use act="write" or act="choose", or a model behind a server '
            "(openai:BASE_URL#MODEL)"
        )
