"""Tool calls as text: `book(user_id="mia", bags=2)`, the form in which an action and a trace hold them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Sequence
from typing import Any

from .records import Call, Message, Tool, ToolCall

MOST_LEVELS = 320
"""Levels of lists and objects that an argument may have: deeper ones break those that read them."""
_HEAD = re.compile(r"\s*[A-Za-z_]\w*\s*\(")
_NAMES = {"true": True, "false": False, "null": None, "NaN": float("nan"), "Infinity": float("inf")}


def format_call(call: ToolCall) -> str:
    """One call on one line; `parse_call` reads it back to the same name and arguments.

    `name(argument=value, …)`, or where that can't be written (a name that is no identifier, an argument
    called `class`) the JSON form.
    """
    arguments = ", ".join(f"{name}={_literal(value)}" for name, value in call.arguments.items())
    plain = f"{call.name}({arguments})"
    if _same(parse_call(plain), call):
        return plain
    return json.dumps({"name": call.name, "arguments": call.arguments}, ensure_ascii=False)


def _same(one: ToolCall | None, other: ToolCall) -> bool:
    """Equal with types and order: 1, 1.0 and true are three values, and NaN equals itself."""
    if one is None:
        return False
    first, second = ([call.name, call.arguments] for call in (one, other))
    return json.dumps(first, ensure_ascii=False) == json.dumps(second, ensure_ascii=False)


def _literal(value: Any) -> str:
    if isinstance(value, str):
        plain = json.dumps(value, ensure_ascii=False)
        return repr(value) if re.search("[\ud800-\udfff]", value) else plain
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_literal(key)}: {_literal(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_literal(inner) for inner in value) + "]"
    return repr(value) if value == value and abs(value or 0) != float("inf") else json.dumps(value)


def parse_call(text: str) -> ToolCall | None:
    """The call that `text` is: `name(argument=value, …)` or `{"name": …, "arguments": {…}}`; None if neither.

    Values are literals that JSON can hold, JSON's own `true`, `false` and `null` among them. Positional
    arguments are no call.
    """
    stripped = text.strip()
    if stripped.startswith("{"):
        return _from_json(stripped)
    if not _HEAD.match(stripped) or len(stripped) > 100_000:
        return None
    try:
        tree = ast.parse(stripped, mode="eval").body
        if not isinstance(tree, ast.Call) or not isinstance(tree.func, ast.Name) or tree.args:
            return None
        if any(keyword.arg is None for keyword in tree.keywords):
            return None
        given = {
            str(keyword.arg): ast.literal_eval(_Names().visit(keyword.value)) for keyword in tree.keywords
        }
        arguments = json.loads(json.dumps(given, ensure_ascii=False))
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        return None
    return None if too_deep(arguments) else ToolCall(name=tree.func.id, arguments=arguments)


def too_deep(value: Any, limit: int = MOST_LEVELS) -> bool:
    """Whether lists and objects stand in each other more than `limit` levels deep."""
    level = [value]
    for _ in range(limit + 1):
        level = [one for one in level if isinstance(one, dict | list)]
        if not level:
            return False
        level = [inner for one in level for inner in (one.values() if isinstance(one, dict) else one)]
    return True


class _Names(ast.NodeTransformer):
    """JSON's names for literals, as Python's."""

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.Constant(_NAMES[node.id]) if node.id in _NAMES else node


def _from_json(text: str) -> ToolCall | None:
    try:
        given = json.loads(text)
        arguments = given.get("arguments", {})
        if isinstance(arguments, str):
            arguments = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return None
    name = given.get("name")
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None
    return None if too_deep(arguments) else ToolCall(name=name, arguments=arguments)


def message_text(message: Message) -> str:
    """A message as a reader sees it: its words, then the tools that it calls."""
    return "\n".join(filter(None, [message.content, *map(format_call, message.tool_calls)]))


def answer_text(call: Call) -> str:
    """What a model answered, as a reader sees it: its words, then the tools that it calls."""
    return "\n".join(filter(None, [call.text, *map(format_call, call.tool_calls)]))


def tools_text(tools: Sequence[Tool]) -> str:
    """Tools for the prompt of a model that knows no tool calls, one a line: call, then what it does."""
    return "\n".join(_signature(tool["function"]) for tool in tools)


def _signature(function: dict[str, Any]) -> str:
    schema = function.get("parameters") or {}
    needed = set(schema.get("required", []))
    shown = [
        f"{name}: {_type(about)}" + ("" if name in needed else " (may be left out)")
        for name, about in (schema.get("properties") or {}).items()
    ]
    what = " ".join(str(function.get("description") or "").split())
    return f"{function['name']}({', '.join(shown)}) - {what}".removesuffix(" - ")


def _type(about: dict[str, Any]) -> str:
    if "enum" in about:
        return " or ".join(json.dumps(value) for value in about["enum"])
    if "anyOf" in about:
        return " or ".join(_type(one) for one in about["anyOf"])
    if about.get("type") == "array":
        return f"list of {_type(about.get('items') or {})}"
    return str(about.get("type", "any"))
