"""One episode's conversation with its models: every call recorded, every seed derived."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .errors import InfrastructureError
from .models.base import ChatModel, Choice, Reply
from .models.retrying import STOP
from .records import Call, Message, Phase, Role, Sampling, Tool, content_hash

if TYPE_CHECKING:
    from .embedding import Embedder, Vectors


class Interrupted(InfrastructureError):
    """The run was asked to stop; the episode is owed again and leaves no line."""


class Session:
    """Records the calls of one episode and derives its seeds.

    Args:
        seed: The run's seed.
        key: The episode's key; with the seed it fixes every random choice, whatever the order of finishing.
        stop: Set when the run is interrupted; the next call then raises `Interrupted`.
        on_call: Told of each call as it ends (progress, token counters).
    """

    def __init__(
        self,
        seed: int = 0,
        key: str = "",
        stop: threading.Event | None = None,
        on_call: Callable[[Call], None] | None = None,
    ) -> None:
        self.seed_root = seed
        self.key = key
        self.calls: list[Call] = []
        self.seeds: dict[str, int] = {}
        self._stop = stop
        self._on_call = on_call
        self.phase: Phase = ""
        """When the calls that follow are made; recorded with each."""

    def seed(self, name: str) -> int:
        """A 31-bit seed for one named use, the same in every run of the same seed and episode."""
        value = int(content_hash([self.seed_root, self.key, name], 12), 16) & 0x7FFFFFFF
        self.seeds[name] = value
        return value

    @contextlib.contextmanager
    def _stoppable(self) -> Iterator[None]:
        """Let the model's waits end when the run is interrupted, and say so then."""
        token = STOP.set(self._stop)
        try:
            yield
        except InfrastructureError:
            self.check()
            raise
        finally:
            STOP.reset(token)

    def check(self) -> None:
        """Raise `Interrupted` if the run was asked to stop."""
        if self._stop is not None and self._stop.is_set():
            raise Interrupted("the run was interrupted")

    def chat(
        self, role: Role, model: ChatModel, messages: Sequence[Message], sampling: Sampling, sample: int = 0
    ) -> str:
        """A written answer's text; the call is recorded, a failed one too."""
        return self.reply(role, model, messages, sampling, sample).text

    def reply(
        self,
        role: Role,
        model: ChatModel,
        messages: Sequence[Message],
        sampling: Sampling,
        sample: int = 0,
        tools: Sequence[Tool] = (),
    ) -> Reply:
        """A written answer with the tools that it calls; the call is recorded, a failed one too."""
        self.check()
        base = Call(
            role=role,
            phase=self.phase,
            model=model.name,
            messages=tuple(messages),
            sampling=sampling,
            sample=sample,
            tools=tuple(str(tool["function"]["name"]) for tool in tools),
        )
        try:
            with self._stoppable():
                reply = model.chat(messages, sampling, sample, tools)
            if not isinstance(reply.text, str):
                raise InfrastructureError(f"{model.name} gave no text")
        except InfrastructureError as error:
            self._add(base.model_copy(update={"error": str(error), "finish": "error"}))
            raise
        given = {"text": reply.text, "finish": reply.finish, "usage": reply.usage}
        self._add(base.model_copy(update=given | {"tool_calls": reply.tool_calls}))
        return reply

    def choose(
        self, role: Role, model: ChatModel, messages: Sequence[Message], options: Sequence[str]
    ) -> Choice:
        """A ranking of options; the call is recorded, a failed one too."""
        self.check()
        base = Call(
            role=role,
            phase=self.phase,
            model=model.name,
            messages=tuple(messages),
            options=tuple(options),
        )
        try:
            with self._stoppable():
                choice = model.choose(messages, options)
        except InfrastructureError as error:
            self._add(base.model_copy(update={"error": str(error), "finish": "error"}))
            raise
        update = {
            "text": options[choice.index],
            "scores": choice.scores,
            "finish": "choice",
            "usage": choice.usage,
        }
        self._add(base.model_copy(update=update))
        return choice

    def embed(self, model: Embedder, texts: Sequence[str]) -> Vectors:
        """One vector a text, of length 1; the call is recorded, a failed one too."""
        self.check()
        words = tuple(Message(role="user", content=text) for text in texts)
        base = Call(role="embedder", phase=self.phase, model=model.name, messages=words)
        try:
            with self._stoppable():
                given = model.embed(texts)
            if len(given.vectors) != len(texts):
                raise InfrastructureError(
                    f"{model.name} gave {len(given.vectors)} vectors for {len(texts)} texts"
                )
        except InfrastructureError as error:
            self._add(base.model_copy(update={"error": str(error), "finish": "error"}))
            raise
        self._add(base.model_copy(update={"usage": given.usage}))
        return given.vectors

    def _add(self, call: Call) -> None:
        self.calls.append(call)
        if self._on_call is not None:
            self._on_call(call)
