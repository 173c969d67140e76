"""nbformat without what takes most of its start: a grammar of international addresses.

jsonschema builds that grammar (package rfc3987-syntax, 3 s of computing) wherever the package is installed,
for a check of addresses that no notebook's schema asks for, and does without it where it is not. Here it is
not found while jsonschema is first imported.
"""

from __future__ import annotations

import sys
from typing import Any, cast

_GRAMMAR = "rfc3987_syntax"

if "jsonschema" not in sys.modules and _GRAMMAR not in sys.modules:
    sys.modules[_GRAMMAR] = cast(Any, None)
    try:
        import jsonschema  # noqa: F401
    finally:
        del sys.modules[_GRAMMAR]

import nbformat  # noqa: E402

__all__ = ["nbformat"]
