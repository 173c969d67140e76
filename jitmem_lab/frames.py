"""Frames of texts that may hold anything: where pyarrow is installed, pandas would refuse lone surrogates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def frame(rows: Any, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """`pandas.DataFrame(rows, columns=columns)`, its texts kept as Python's own strings.

    Models write half of a surrogate pair now and then; Arrow's strings are UTF-8, which cannot hold one.
    """
    import pandas as pd

    with pd.option_context("mode.string_storage", "python"):
        return pd.DataFrame(rows, columns=None if columns is None else list(columns))
