"""The parent's side of a conversation: it asks the user's model where the user is simulated by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import InfrastructureError
from ...models.base import ChatModel
from ...parsing import strip_thinking
from ...records import Message, Sampling, Tool, ToolCall
from ...session import Session
from ..pooled import PooledEnv
from ..workers import WorkerPool

ATTEMPTS = 4
"""Times that a user's model may be asked for one answer: empty ones are asked for again, as τ² does."""


class ModelUser:
    """A user that a chat model plays.

    Args:
        model: The model; it must take tools where the domain gives the user some.
        session: Records its calls under the role `user`, and gives its seeds.
        temperature: 0.0 in τ².
        max_tokens: Longest answer.
    """

    def __init__(
        self, model: ChatModel, session: Session, temperature: float = 0.0, max_tokens: int = 4096
    ) -> None:
        self._model = model
        self._session = session
        self._sampling = Sampling(temperature=temperature, max_tokens=max_tokens)
        self.turns = 0

    def answer(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[Tool]
    ) -> tuple[str, list[dict[str, Any]]]:
        """Text without think blocks, and calls, of the user's next turn.

        Raises:
            InfrastructureError: The model's server failed, or it gave nothing `ATTEMPTS` times.
            UserError: The model takes no tools and the user has some.
        """
        sampling = self._sampling
        if sampling.temperature > 0:
            sampling = sampling.model_copy(update={"seed": self._session.seed(f"user{self.turns}")})
        self.turns += 1
        asked = [_message(one) for one in messages]
        for sample in range(ATTEMPTS):
            reply = self._session.reply("user", self._model, asked, sampling, sample, tools)
            text = strip_thinking(reply.text)
            if text or reply.tool_calls:
                return text, [call.model_dump() for call in reply.tool_calls]
        raise InfrastructureError(f"the user's model {self._model.name} answered nothing {ATTEMPTS} times")


def _message(given: dict[str, Any]) -> Message:
    calls = tuple(ToolCall(**call) for call in given["tool_calls"])
    return Message(
        role=given["role"], content=given["content"], tool_calls=calls, tool_call_id=given["tool_call_id"]
    )


class Tau2Env(PooledEnv):
    """One conversation in a worker process.

    Args:
        pool: The workers.
        spec: What the host's `open` is given.
        user: Makes the user that a model plays, anew for each reset; None for any other.
    """

    def __init__(self, pool: WorkerPool, spec: dict[str, Any], user: Callable[[], ModelUser] | None) -> None:
        super().__init__(pool, lambda: spec)
        self._make_user = user
        self._user: ModelUser | None = None

    def call(self, method: str, *args: Any) -> Any:
        """The answer of a method of the conversation; the user's model is asked as often as it takes."""
        if method == "reset" and self._make_user is not None:
            self._user = self._make_user()
        answer = super().call(method, *args)
        while isinstance(answer, dict) and "ask" in answer:
            assert self._user is not None
            ask = answer["ask"]
            answer = super().call("user_says", *self._user.answer(ask["messages"], ask["tools"]))
        return answer
