"""Skills as Markdown files with a front matter, and the calls that edit a shelf of them."""

from __future__ import annotations

import re
from typing import Any

from ..records import Tool, ToolCall
from .items import Change

LONGEST = 8_000
"""Characters that a skill's description and body may have together."""
NAMES = {
    **{name: name for name in ("insert", "update", "delete")},
    **{"new_skill_insert": "insert", "skill_update": "update", "skill_delete": "delete"},
    **{"insert_skill": "insert", "update_skill": "update", "delete_skill": "delete"},
}
"""The calls by every name that the paper gives them."""
_ARGUMENTS = {
    "insert": {"skill_name": "name of the new skill", "content": "the whole Markdown file"},
    "update": {
        "skill_name": "name of the skill as it is now",
        "new_name": "its new name, if it gets one",
        "new_content": "the whole new Markdown file, if it changes",
    },
    "delete": {"skill_name": "name of the skill"},
}
_WHAT = {
    "insert": "Add a skill that isn't there yet.",
    "update": "Rename a skill, or put new content in place of its old one.",
    "delete": "Remove a skill that is wrong or that another one covers.",
}
_FRONT = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n(.*))?\Z", re.S | re.M)
_SECOND = re.compile(r"^---[ \t]*\n\s*(?:name|description)[ \t]*:", re.M)


Shelf = dict[str, tuple[int, dict[str, Any]]]
"""Skills by name: item number (0 for one that is new) and fields."""


class Refused(ValueError):
    """A call that can't be carried out; its message says why."""


def tools() -> list[Tool]:
    """The calls as tools that a model can be offered."""
    return [_tool(name) for name in _ARGUMENTS]


def _tool(name: str) -> Tool:
    fields = {field: {"type": "string", "description": about} for field, about in _ARGUMENTS[name].items()}
    needed = [field for field in fields if not field.startswith("new_")]
    schema = {"type": "object", "properties": fields, "required": needed}
    return {
        "type": "function",
        "function": {"name": name, "description": _WHAT[name], "parameters": schema},
    }


def apply(shelf: Shelf, call: ToolCall | None, task_id: str) -> tuple[str, str]:
    """Carry out one call on the shelf; what was done to which skill.

    Raises:
        Refused: It can't be; the shelf is as it was.
    """
    if call is None:
        raise Refused("it can't be read as a call")
    verb = NAMES.get(call.name)
    if verb is None:
        raise Refused(f"there is no call {call.name[:80]}")
    given = {name: value for name, value in call.arguments.items() if value not in (None, "")}
    for name, value in given.items():
        if name not in _ARGUMENTS[verb] or not isinstance(value, str):
            raise Refused(f"{verb} takes {', '.join(_ARGUMENTS[verb])}, as text")
    name = _plain_name(given.get("skill_name", ""))
    if verb == "insert":
        if name in shelf:
            raise Refused("there is a skill of this name already")
        shelf[name] = (0, skill_of(given.get("content", ""), name) | {"task_ids": [task_id]})
        return verb, name
    if name not in shelf:
        raise Refused("there is no skill of this name")
    if verb == "delete":
        del shelf[name]
        return verb, name
    item, old = shelf[name]
    wanted = _plain_name(given["new_name"]) if "new_name" in given else name
    if wanted != name and wanted in shelf:
        raise Refused("there is another skill of the new name already")
    if len(given) == 1:
        raise Refused("neither a new name nor new content is given")
    new = skill_of(given["new_content"], wanted) if "new_content" in given else old | {"name": wanted}
    del shelf[name]
    shelf[wanted] = (item, new | {"task_ids": list(dict.fromkeys([*old["task_ids"], task_id]))})
    return verb, wanted


def _plain_name(text: str) -> str:
    name = " ".join(text.split())
    if not name or len(name) > 120:
        raise Refused("a skill's name has 1 to 120 characters")
    return name


def skill_of(content: str, name: str) -> dict[str, Any]:
    """A skill's fields out of its Markdown.

    Raises:
        Refused: It has not exactly one front matter of name and description, or no body, or it is too long.
    """
    if len(content) > LONGEST:
        raise Refused(f"content of {len(content)} characters is too long; {LONGEST} are allowed")
    match = _FRONT.fullmatch(content.replace("\r\n", "\n").strip())
    if match is None:
        raise Refused("the content does not begin with a front matter between two lines ---")
    fields: dict[str, str] = {}
    last = ""
    for line in match[1].splitlines():
        key, colon, value = line.partition(":")
        if line[:1].isspace() and last:
            fields[last] = f"{fields[last]} {line.strip()}".strip()
        elif line.strip():
            last = key.strip()
            if not colon or last in fields:
                raise Refused("the front matter can't be read: each line is `field: text`, each field once")
            fields[last] = value.strip()
    if set(fields) != {"name", "description"}:
        raise Refused("the front matter must have the fields name and description, and no others")
    plain = {key: _unquoted(value) for key, value in fields.items()}
    body = (match[2] or "").strip()
    if not plain["name"] or not plain["description"] or not body:
        raise Refused("name, description and body must not be empty")
    if _SECOND.search(body):
        raise Refused("there is a second front matter; each skill needs a call of its own")
    return {"name": name, "description": plain["description"], "body": body}


def _unquoted(value: str) -> str:
    value = re.sub(r"^[>|][+-]?\s+", "", value)
    inner = value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value
    return inner.strip()


def markdown(skill: dict[str, Any]) -> str:
    """A skill as a Markdown file."""
    return f"---\nname: {skill['name']}\ndescription: {skill['description']}\n---\n{skill['body']}"


def changes(before: Shelf, after: Shelf) -> list[Change]:
    """What all calls together come to."""
    left = {item: data for item, data in after.values() if item}
    gone = [Change("delete", "skill", item=item) for item, _ in before.values() if item not in left]
    edited = [
        Change("update", "skill", left[item], item)
        for item, data in before.values()
        if item in left and left[item] != data
    ]
    return gone + edited + [Change("insert", "skill", data) for item, data in after.values() if not item]
