"""A brain for a stub server that answers every prompt of a study, and refuses what hosted models refuse."""

from __future__ import annotations

import re
from typing import Any

from jitmem_lab.prompts import load_prompt

from .memory_answers import ANSWERS, answer
from .stub_server import Say, calling

HOSTED = "gpt-5.4"
"""The model that refuses `max_tokens`, and every temperature but its own."""
CURATORS = ("curator", "curator_general", "webshop_curator", "tau2_curator")
"""Prompts of curators."""


def studied(body: dict[str, Any]) -> dict[str, Any] | str | Say:
    """The answer to any request of a study."""
    return refusal(body) or said(body)


def refusal(body: dict[str, Any]) -> Say | None:
    """What a hosted model refuses, in its words."""
    if body["model"] != HOSTED:
        return None
    if "max_tokens" in body:
        use = "Use 'max_completion_tokens' instead."
        return Say(f"Unsupported parameter: 'max_tokens' is not supported with this model. {use}", status=400)
    if body.get("temperature", 1) != 1:
        only = "Only the default (1) value is supported."
        return Say(
            f"Unsupported value: 'temperature' does not support it with this model. {only}", status=400
        )
    if "chat_template_kwargs" in body or "top_k" in body:
        name = "top_k" if "top_k" in body else "chat_template_kwargs"
        return Say(f"Unrecognized request argument supplied: {name}", status=400)
    return None


def said(body: dict[str, Any]) -> dict[str, Any] | str | Say:
    """An action, a call, a user's words, a verdict, a payload, or what a memory writes."""
    messages = body["messages"]
    text = "\n".join(str(message["content"] or "") for message in messages)
    if "You are a customer service agent and solve" in text:
        spoken = sum(message["role"] == "assistant" for message in messages)
        return "What is your user id?" if not spoken else called(body["tools"])
    if '{"success": true or false' in text:
        return '```json\n{"success": true, "rationale": "It is done.", "evidence_step": 1}\n```'
    if "<action>" in messages[-1]["content"]:
        options = re.findall(r"^- (.+)$", messages[-1]["content"], re.MULTILINE)
        return f"<think>Hm.</think>I try it. <action>{options[-1] if options else 'look'}</action>"
    if any(own(name) in text for name in ANSWERS):
        return answer(text)
    if own("distill") in text:
        return "Title: Look\nDescription: When things are hidden.\nContent: Open what is closed."
    if "# User Simulation Guidelines" in text:
        return "I want to cancel my booking; my id is mia_li_3668."
    if any(own(name) in text for name in CURATORS):
        return "Look in the drawers first; then put it where it belongs."
    return Say(f"the test has no answer to {text[:200]!r}", status=400)


def own(name: str) -> str:
    """The words of a prompt's own by which it is recognised."""
    return load_prompt(name).text.partition("[[user]]")[0].removeprefix("[[system]]").strip()


def called(tools: list[dict[str, Any]]) -> dict[str, Any]:
    """A call of the first tool, each of its texts made up."""
    function = tools[0]["function"]
    needed = function.get("parameters", {}).get("required", [])
    return calling((function["name"], dict.fromkeys(needed, "mia_li_3668")))
