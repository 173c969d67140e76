"""HTML of records in a notebook cell: escaped, and cut to a readable size."""

from __future__ import annotations


class RichRepr:
    """Mixin."""
