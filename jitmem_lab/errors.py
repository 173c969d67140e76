"""The three ways in which something ends without a result, and what was meant by a name that is unknown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class JitmemError(Exception):
    """Base of every error this package raises on purpose."""


class UserError(JitmemError):
    """Wrong input. The message is one sentence that says what to do; nothing was written."""


class InfrastructureError(JitmemError):
    """A timeout, a 429, a dead environment: neither success nor failure, owed again on resume."""


def did_you_mean(name: object, known: Iterable[str], otherwise: str = "") -> str:
    """The question "did you mean X?" for the known name that is nearest, `otherwise` when none is near."""
    near = difflib.get_close_matches(str(name), list(known), 1)
    return f"did you mean {near[0]}?" if near else otherwise
