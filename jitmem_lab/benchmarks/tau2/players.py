"""The parties of τ²'s orchestrator: an agent that says what it is handed, a script, and an asked user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tau2.agent.base import LocalAgent
from tau2.agent.llm_agent import LLMSoloAgent
from tau2.data_model.message import AssistantMessage, MultiToolMessage, ToolCall, UserMessage
from tau2.user.base import BaseUser, UserState
from tau2.user.user_simulator import UserSimulator

from ...records import Tool
from ...tool_calls import format_call
from . import script


class HandedAgent(LocalAgent):
    """Says the message that it is handed next."""

    handed: AssistantMessage | None = None

    def get_init_state(self, message_history: Any = None) -> Any:
        """The agent remembers nothing: its model does, in the parent process."""
        return None

    def generate_next_message(self, message: Any, state: Any) -> tuple[AssistantMessage, Any]:
        """The message that was handed over."""
        said, self.handed = self.handed, None
        return said, state


class HandedSoloAgent(LLMSoloAgent):
    """The same without a user; τ² takes only its own solo agent or a subclass of it there."""

    handed: AssistantMessage | None = None
    get_init_state = HandedAgent.get_init_state
    generate_next_message = HandedAgent.generate_next_message


class ScriptedUser(BaseUser):
    """The user of `script`; it needs no model."""

    def __init__(self, instructions: Any, needs: dict[str, bool]) -> None:
        super().__init__()
        self._opening = script.opening(instructions)
        self._needs = needs
        self._begun = False
        self._asked: list[ToolCall] = []
        self._count = 0

    @classmethod
    def is_stop(cls, message: UserMessage) -> bool:
        """Whether the message ends the conversation."""
        return bool(UserSimulator.is_stop(message))

    def get_init_state(self, message_history: Any = None) -> UserState:
        """The script keeps no messages."""
        return UserState(system_messages=[], messages=[])

    def generate_next_message(self, message: Any, state: Any) -> tuple[UserMessage, Any]:
        """What the script says, or the calls that it makes first."""
        return self._next(message), state

    def _next(self, message: Any) -> UserMessage:
        if not self._begun:
            self._begun = True
            return _said(self._opening)
        if self._asked:
            answers = message.tool_messages if isinstance(message, MultiToolMessage) else [message]
            shown = [str(answer.content or "") for answer in answers]
            done = [format_call(call) for call in self._asked]
            self._asked = []
            return _said(script.report(list(zip(done, shown, strict=True))))
        text = str(message.content or "")
        calls, unclear = script.asked_calls(text, self._needs)
        if not calls:
            return _said(script.answer(text, unclear))
        for call in calls:
            self._count += 1
            made = ToolCall(
                id=f"user_{self._count}", name=call.name, arguments=call.arguments, requestor="user"
            )
            self._asked.append(made)
        return UserMessage(role="user", tool_calls=list(self._asked), cost=0.0)


class AskedUser(UserSimulator):
    """τ²'s own simulated user, whose model is asked elsewhere: it says the answer that it is handed."""

    handed: UserMessage | None = None
    _count = 0

    def prompt(self, message: Any, state: UserState) -> list[dict[str, Any]]:
        """What τ² would send to the user's model now, roles flipped."""
        seen = UserState(system_messages=state.system_messages, messages=[*state.messages, *_each(message)])
        return [_plain(one) for one in [*seen.system_messages, *seen.flip_roles()]]

    def hand(self, text: str, calls: Sequence[dict[str, Any]]) -> None:
        """Take in what the model answered."""
        made = []
        for call in calls:
            self._count += 1
            call_id = call.get("id") or f"user_{self._count}"
            made.append(
                ToolCall(id=call_id, name=call["name"], arguments=call["arguments"], requestor="user")
            )
        self.handed = UserMessage(role="user", content=text or None, tool_calls=made or None, cost=0.0)

    def _generate_next_message(self, message: Any, state: UserState) -> tuple[UserMessage | None, UserState]:
        state.messages.extend(_each(message))
        said, self.handed = self.handed, None
        state.messages.append(said)
        return said, state


def _said(text: str) -> UserMessage:
    return UserMessage(role="user", content=text, cost=0.0)


def _each(message: Any) -> list[Any]:
    return list(message.tool_messages) if isinstance(message, MultiToolMessage) else [message]


def _plain(message: Any) -> dict[str, Any]:
    calls = getattr(message, "tool_calls", None) or []
    return {
        "role": message.role,
        "content": message.content or "",
        "tool_calls": [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in calls],
        "tool_call_id": message.id if message.role == "tool" else "",
    }


def tool_needs(tools: Sequence[Tool]) -> dict[str, bool]:
    """Names of tools, and whether each needs arguments."""
    return {
        tool["function"]["name"]: bool((tool["function"].get("parameters") or {}).get("required"))
        for tool in tools
    }
