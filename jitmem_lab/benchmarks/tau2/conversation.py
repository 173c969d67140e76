"""One episode of τ²: its own orchestrator, driven one action at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from tau2.config import DEFAULT_MAX_ERRORS, DEFAULT_MAX_STEPS
from tau2.data_model.message import AssistantMessage, ToolCall
from tau2.data_model.simulation import TerminationReason
from tau2.data_model.tasks import Task
from tau2.orchestrator.orchestrator import Orchestrator, Role
from tau2.registry import registry
from tau2.user.user_simulator import DummyUser

from ...records import Tool
from ...tool_calls import parse_call, tools_text
from . import script
from .gold import DONE, GOODBYE
from .grading import grade, premature
from .players import AskedUser, HandedAgent, HandedSoloAgent, ScriptedUser, tool_needs
from .suggestions import Suggestions, calls_without_search

QUESTIONS = ("Could you tell me more about it?", "Shall I go ahead?")
"""Messages that are always possible in talk."""
ONLY_CALLS = (
    "Nobody reads messages here. Act by one tool call, written like tool_name(argument=value), "
    f"and end with {DONE}."
)
EMPTY = "An empty message says nothing. Write to the user, or call a tool like tool_name(argument=value)."
NOTHING = "(It answered with no text.)"
OVER = "The episode has ended."
_CALL = re.compile(r"\s*(\w+)\s*\(.*\)\s*", re.S)


class Toolbox(NamedTuple):
    """A domain's tools in one mode; the same for all its tasks."""

    agent: tuple[Tool, ...]
    """The agent's tools as chat servers take them."""
    user: tuple[Tool, ...] | None
    """The user's own; None where it has none."""
    models: dict[str, Any]
    """Pydantic models of the agent's tools' arguments, by name."""


def toolbox(domain: str, solo: bool) -> Toolbox:
    """The tools of a domain."""
    environment = registry.get_env_constructor(domain)(solo_mode=solo)
    own = environment.get_tools()
    users = environment.get_user_tools() if environment.user_tools is not None else None
    if solo:
        own = [*own, *(users or [])]
        agent = HandedSoloAgent.__new__(HandedSoloAgent)
        agent.tools = own
        agent.add_stop_tool()  # τ²'s `done`
    schemas = tuple(tool.openai_schema for tool in own)
    shown = None if users is None or solo else tuple(tool.openai_schema for tool in users)
    return Toolbox(schemas, shown, {tool.name: tool.params for tool in own})


class Conversation:
    """An episode.

    Args:
        domain: airline, retail, telecom or mock.
        solo: Whether the agent works alone.
        task: τ²'s task.
        tools: The domain's tools.
        asked: Whether the user's words come from outside, by `user_says`; else the script speaks.
    """

    def __init__(self, domain: str, solo: bool, task: Task, tools: Toolbox, asked: bool) -> None:
        self._domain = domain
        self._solo = solo
        self._task = task
        self._tools = tools
        self._asked = asked
        self._final: dict[str, Any] | None = None

    def reset(self) -> dict[str, Any]:
        """Start over; an observation as a dict, or what the user's model is to be asked."""
        environment = registry.get_env_constructor(self._domain)(solo_mode=self._solo)
        policy = environment.get_policy()
        self._agent: Any
        if self._solo:
            self._agent = HandedSoloAgent([], policy, self._task)
        else:
            self._agent = HandedAgent([], policy)
        self._user = self._make_user()
        self._orchestrator = Orchestrator(
            domain=self._domain,
            agent=self._agent,
            user=self._user,
            environment=environment,
            task=self._task,
            max_steps=DEFAULT_MAX_STEPS,
            max_errors=DEFAULT_MAX_ERRORS,
            solo_mode=self._solo,
        )
        self._calls = 0
        self._last: Any = None
        self._final = None
        self._suggest = Suggestions(self._tools.agent, self._always())
        self._first: dict[str, Any] | None = {"rules": policy + self._manner(), "tools": self._tools.agent}
        if self._solo:
            # τ² asks a solo agent for its first action already while it initialises
            self._started = False
            return self._show(self._task.ticket or "", "", task=self._task.ticket or "")
        self._start()
        return self._flow()

    def _start(self) -> None:
        self._orchestrator.initialize()
        self._started = True

    def _make_user(self) -> Any:
        if self._solo:
            return DummyUser()
        if self._asked:
            tools = None if self._tools.user is None else list(self._tools.user)
            return AskedUser(tools=tools, instructions=str(self._task.user_scenario))
        instructions = self._task.user_scenario.instructions
        told = instructions if isinstance(instructions, str) else instructions.model_dump()
        return ScriptedUser(told, tool_needs(self._tools.user or ()))

    def _always(self) -> list[str]:
        if self._solo:
            return [DONE]
        own = [] if self._asked else calls_without_search(self._tools.user or ())
        return [*(script.request(call) for call in own), *QUESTIONS, GOODBYE]

    def _manner(self) -> str:
        if self._solo or self._asked or not self._tools.user:
            return ""
        return script.manner(tools_text(self._tools.user).splitlines())

    def step(self, action: str) -> dict[str, Any]:
        """Take the agent's action."""
        if self._final is not None:
            return self._final | {"text": OVER, "speaker": "", "accepted": False}
        refusal = self._hand(action)
        if refusal:
            return self._show(refusal, "", accepted=False)
        if not self._started:
            self._start()
        return self._flow()

    def user_says(self, text: str, calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Take what the user's model answered."""
        self._user.hand(text, calls)
        return self._flow()

    def close(self) -> None:
        """Nothing outside memory is held."""

    def _hand(self, action: str) -> str:
        """Give the agent's action to the orchestrator, or say why it is none."""
        call = parse_call(action)
        if call is None:
            shaped = _CALL.fullmatch(action)
            if shaped and shaped[1] in self._tools.models:
                return f"That call can't be read. {self._form(shaped[1])}"
            if self._solo:
                return ONLY_CALLS
            if not action.strip():
                return EMPTY
            self._last = None
            self._agent.handed = AssistantMessage(role="assistant", content=action, cost=0.0)
            return ""
        try:
            json.dumps(call.arguments, allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return (
                "Arguments must be JSON: text, finite numbers, true, false, null, lists and objects of them. "
                + self._form(call.name)
            )
        if self._solo and call.name == "done":
            self._last = None
            stop = HandedSoloAgent.STOP_TOKEN
            self._agent.handed = AssistantMessage(role="assistant", content=stop, cost=0.0)
            return ""
        self._calls += 1
        self._last = ToolCall(id=f"call_{self._calls}", name=call.name, arguments=call.arguments)
        self._agent.handed = AssistantMessage(role="assistant", tool_calls=[self._last], cost=0.0)
        return ""

    def _form(self, name: str) -> str:
        known = [tool for tool in self._tools.agent if tool["function"]["name"] == name]
        form = tools_text(known).split(" - ")[0] if known else "tool_name(argument: value)"
        return f"Arguments are written by name: {form}"

    def _flow(self) -> dict[str, Any]:
        """Let the conversation go on until somebody outside is to act, or it ends."""
        run = self._orchestrator
        while not run.done:
            if run.to_role == Role.AGENT and self._agent.handed is None:
                return self._turn()
            if run.to_role == Role.USER and self._asked and self._user.handed is None:
                messages = self._user.prompt(run.message, run.user_state)
                return {"ask": {"messages": messages, "tools": self._tools.user or ()}}
            run.step()
            self._limit()
        return self._end()

    def _limit(self) -> None:
        """τ²'s limits, where its own loop checks them."""
        run = self._orchestrator
        if run.to_role == Role.ENV:
            return
        if run.step_count >= run.max_steps:
            run.done, run.termination_reason = True, TerminationReason.MAX_STEPS
        if run.num_errors >= run.max_errors:
            run.done, run.termination_reason = True, TerminationReason.TOO_MANY_ERRORS

    def _turn(self) -> dict[str, Any]:
        """What the agent is shown when it is to act."""
        message = self._orchestrator.message
        text = str(message.content or "")
        if message.role == "tool":
            return self._show(text, "tool", accepted=self._taken(message))
        if self._first is None:
            return self._show(text, "user")
        history = self._orchestrator.trajectory[:-1]
        before = [_line(one) for one in history] if len(history) > 1 else []
        shown = "\n".join(["What was said before:", *before, "", text]) if before else text
        return self._show(shown, "user", task=text)

    def _taken(self, message: Any) -> bool:
        """Whether the tool layer took the last call: no error, or the domain's own about fit arguments."""
        if not message.error:
            return True
        model = self._tools.models.get(self._last.name)
        if model is None or not set(self._last.arguments) <= set(model.model_fields):
            return False
        try:
            model.model_validate_json(json.dumps(self._last.arguments), strict=True)
        except ValueError:
            return False
        return True

    def _show(self, text: str, speaker: str, **more: Any) -> dict[str, Any]:
        self._suggest.read(text)
        text = text if text.strip() else NOTHING
        first, self._first = self._first or {}, None
        seen = {"text": text, "speaker": speaker, "admissible": self._suggest.actions(), "open": True}
        return seen | first | more

    def _end(self) -> dict[str, Any]:
        run = self._orchestrator
        reason = run.termination_reason
        message = run.message
        if reason == TerminationReason.AGENT_STOP:
            text, speaker = "The agent has ended the task.", ""
        else:
            # several tool results at once come without a text or a role of their own
            text, speaker = str(getattr(message, "content", "") or ""), getattr(message, "role", "assistant")
            if speaker == "assistant":
                text, speaker = "", ""
        if premature(reason):
            text = f"{text}\n\nThe episode was ended: {reason.value}.".strip()
        graded = grade(self._domain, self._solo, self._task, list(run.trajectory), reason)
        first, self._first = self._first or {}, None
        self._final = {
            "text": text,
            "speaker": speaker,
            "admissible": [],
            "done": True,
            "open": True,
        } | graded
        task = {"task": text} if first and not self._solo else {}
        return self._final | first | task


def _line(message: Any) -> str:
    calls = (
        ", ".join(f"{call.name}({json.dumps(call.arguments)})" for call in message.tool_calls or ())
        if message.role != "tool"
        else ""
    )
    who = {"assistant": "agent"}.get(message.role, message.role)
    return f"{who}: {message.content or calls}"
