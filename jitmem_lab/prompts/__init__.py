"""Prompt templates: one plain-text file a role, versioned by content hash.

A file has sections that begin with a line `[[system]]`, `[[user]]` or `[[assistant]]`; `{name}` is
replaced by the caller's text in one pass, so that braces inside the inserted text mean nothing.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from ..errors import UserError, did_you_mean
from ..records import Message, content_hash

_FOLDER = Path(__file__).parent
_SECTION = re.compile(r"^\[\[(system|user|assistant)\]\][ \t]*(?:\n|\Z)", re.M)
_FIELD = re.compile(r"\{([a-z_]+)\}")


class Prompt(NamedTuple):
    """A template."""

    name: str
    """Its file's name without ending, or the path of a user's own file."""
    text: str
    """The whole file."""

    @property
    def hash(self) -> str:
        """Content hash, recorded with each run."""
        return content_hash(self.text)

    def messages(self, **fields: str) -> tuple[Message, ...]:
        """The messages with every field filled in; a missing field is a `UserError`."""
        parts = _SECTION.split(self.text)
        if len(parts) < 3:
            raise UserError(f"prompt {self.name} has no [[system]], [[user]] or [[assistant]] section")
        if parts[0].strip():
            raise UserError(
                f"prompt {self.name} begins with {parts[0].strip()[:40]!r}, which is in no section; its "
                "first line must be [[system]], [[user]] or [[assistant]]"
            )

        def fill(match: re.Match[str]) -> str:
            if match[1] not in fields:
                raise UserError(
                    f"prompt {self.name} uses {{{match[1]}}}, which is not given; it may use "
                    + ", ".join(f"{{{name}}}" for name in sorted(fields))
                )
            return fields[match[1]]

        pairs = zip(parts[1::2], parts[2::2], strict=True)
        return tuple(
            Message(role=cast(Any, role), content=_FIELD.sub(fill, body.rstrip("\n"))) for role, body in pairs
        )


@cache
def _shipped(name: str) -> str | None:
    file = _FOLDER / f"{name}.txt"
    return file.read_text(encoding="utf-8") if file.is_file() else None


def names() -> list[str]:
    """Names of the prompts that ship with the package."""
    return sorted(file.stem for file in _FOLDER.glob("*.txt"))


def prompt_for(role: str, benchmark: str) -> str:
    """Name of a role's prompt on a benchmark: the benchmark's own where one ships, else the general one."""
    own = f"{benchmark}_{role}"
    return own if re.fullmatch(r"[a-z0-9_]+", own) and _shipped(own) is not None else role


def load_prompt(name: str) -> Prompt:
    """A shipped prompt by name, or a user's own by path (ending in `.txt`)."""
    shipped = _shipped(name) if re.fullmatch(r"[a-z0-9_]+", name) else None
    if shipped is not None:
        return Prompt(name, shipped)
    if name.endswith(".txt"):
        try:
            return Prompt(name, Path(name).read_text(encoding="utf-8-sig"))
        except OSError as error:
            raise UserError(f"prompt file {name} cannot be read: {error.strerror}") from None
        except ValueError:
            raise UserError(f"prompt file {name} cannot be read: it is no UTF-8 text") from None
    raise UserError(
        f"there is no prompt {name!r}; {did_you_mean(name, names())} shipped are {', '.join(names())}; "
        "an own one is the path of a .txt file"
    )
