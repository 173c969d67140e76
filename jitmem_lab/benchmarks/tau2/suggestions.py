"""Actions that are surely well-formed: calls whose arguments were seen under their own names."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from typing import Any

from ...records import Tool, ToolCall
from ...tool_calls import format_call

LIMIT = 60
"""Most actions listed at a time."""
_PER_TOOL = 6
_VALUES = 6
_PLAIN = (str, int, float)
_LIKE_A_VALUE = re.compile(r"[\d@_#]")
"""What tells a value in a sentence from its next word."""


class Suggestions:
    """What an agent could do next, as far as the texts it has seen tell.

    Args:
        tools: The agent's tools.
        always: Actions that are always possible, listed last.
    """

    def __init__(self, tools: Sequence[Tool], always: Sequence[str]) -> None:
        self._tools = [(tool["function"]["name"], _needed(tool)) for tool in tools]
        self._always = list(always)
        self._names = sorted({name for _, needed in self._tools for name in needed})
        self._seen: dict[str, list[Any]] = {name: [] for name in self._names}

    def read(self, text: str) -> None:
        """Take in what was shown: values under an argument's name in JSON, or behind it in a sentence."""
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict | list):
            self._walk(value)
            return
        for name in self._names:
            words = re.escape(name).replace("_", "[ _]")
            pattern = rf"\b{words}\b(?:\s*(?:is\b|are\b|=|:))*\s*['\"]?(#?\w[\w@.+-]*\w)"
            for found in re.finditer(pattern, text, re.I):
                if _LIKE_A_VALUE.search(found[1]):
                    self._add(name, found[1])

    def _walk(self, value: Any) -> None:
        if isinstance(value, list):
            for inner in value:
                self._walk(inner)
            return
        if not isinstance(value, dict):
            return
        for key, inner in value.items():
            if isinstance(inner, _PLAIN):
                self._add(key, inner)
            elif key.endswith("s"):
                # `line_ids: [...]` holds line_id; `orders: [...]` and the keys of `orders: {...}` order_id
                single = key[:-1]
                for one in inner if isinstance(inner, list | dict) else ():
                    if isinstance(one, str):
                        self._add(single if single.endswith("_id") else f"{single}_id", one)
            self._walk(inner)

    def _add(self, name: str, value: Any) -> None:
        values = self._seen.get(name)
        if values is not None and value not in values:
            values.append(value)

    def actions(self) -> list[str]:
        """At most `LIMIT` actions, tools in their own order, values in the order seen (the newest kept)."""
        found: list[str] = []
        for name, needed in self._tools:
            choices = [self._choices(argument, schema) for argument, schema in needed.items()]
            for values in itertools.islice(itertools.product(*choices), _PER_TOOL):
                arguments = dict(zip(needed, values, strict=True))
                found.append(format_call(ToolCall(name=name, arguments=arguments)))
        room = max(0, LIMIT - len(self._always))
        return list(dict.fromkeys([*found[:room], *self._always]))[:LIMIT]

    def _choices(self, argument: str, schema: dict[str, Any]) -> list[Any]:
        if schema["values"]:
            return list(schema["values"])
        return [value for value in self._seen[argument] if _is(value, schema["types"])][-_VALUES:]


def calls_without_search(tools: Sequence[Tool]) -> list[str]:
    """Calls of the tools that need no argument, or only ones with few values by their schema."""
    return Suggestions(tools, ()).actions()


def _needed(tool: Tool) -> dict[str, dict[str, Any]]:
    """Required arguments: values by the schema (enum, bool) and plain JSON types that fit."""
    schema = tool["function"].get("parameters") or {}
    known = schema.get("properties") or {}
    return {name: _kind(known.get(name, {}), schema) for name in schema.get("required", [])}


def _kind(about: dict[str, Any], whole: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in about:
        about = (whole.get("$defs") or {}).get(about["$ref"].rsplit("/", 1)[-1], {})
    if "anyOf" in about:
        kinds = [_kind(one, whole) for one in about["anyOf"]]
        values: list[Any] = next((kind["values"] for kind in kinds if kind["values"]), [])
        return {"values": values, "types": [name for kind in kinds for name in kind["types"]]}
    if "const" in about:
        return {"values": [about["const"]], "types": []}
    if about.get("type") == "boolean":
        return {"values": [True, False], "types": []}
    return {"values": list(about.get("enum") or []), "types": [about["type"]] if "type" in about else []}


def _is(value: Any, types: list[str]) -> bool:
    if isinstance(value, bool):
        return False
    fits: dict[str, tuple[type, ...]] = {"string": (str,), "integer": (int,), "number": (int, float)}
    return any(isinstance(value, fits.get(name, ())) for name in types)
