"""What τ² itself takes for the solution of a task, as actions of our agent."""

from __future__ import annotations

from ...records import ToolCall
from ...tool_calls import format_call
from .script import request
from .tasks import RawTask

GOODBYE = "That is all. Goodbye."
"""The agent's last message to a scripted user, who then ends the conversation."""
DONE = "done()"
"""The action that ends an episode without a user."""


def gold_actions(raw: RawTask, solo: bool, whole: bool = True) -> list[str]:
    """Actions that solve the task; in talk, the scripted user is asked for what only a user can do.

    Args:
        raw: The task as in τ²'s file.
        solo: Whether the agent works alone.
        whole: False leaves the last gold call out and tells the user nothing; no action at all comes
            back where there is no gold call to leave out.
    """
    criteria = raw.get("evaluation_criteria") or {}
    calls = list(criteria.get("actions") or [])
    told = [] if solo else list(criteria.get("communicate_info") or [])
    if not whole:
        if not calls:
            return []
        calls, told = calls[:-1], []
    texts = []
    for call in calls:
        text = format_call(ToolCall(name=call["name"], arguments=call.get("arguments") or {}))
        texts.append(request(text) if call.get("requestor") == "user" and not solo else text)
    if solo:
        return [*texts, DONE]
    return [*texts, " ".join([*(f"{fact}." for fact in told), GOODBYE])]
