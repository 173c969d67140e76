"""How a kernel that we start packs its messages: a lone surrogate in an output cannot break the cell."""

from __future__ import annotations

from typing import Any

from jupyter_client.session import json_packer, json_unpacker

from ..render import SURROGATE


def pack(message: Any) -> bytes:
    """The message as JSON; Jupyter's own packer raises on a lone surrogate, this one writes `\\udXXX`."""
    try:
        return json_packer(message)
    except UnicodeEncodeError:
        return json_packer(visible(message))


def visible(value: Any) -> Any:
    """`value` with every lone surrogate in its texts written as a visible escape."""
    if isinstance(value, str):
        return SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", value)
    if isinstance(value, dict):
        return {visible(key): visible(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [visible(item) for item in value]
    return value


def unpack(data: str | bytes) -> Any:
    """A message from its JSON."""
    return json_unpacker(data)
