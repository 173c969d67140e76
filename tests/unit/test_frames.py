"""Frames hold any text, also where pyarrow would have strings be UTF-8."""

from __future__ import annotations

import pytest

from jitmem_lab.frames import frame

pytestmark = pytest.mark.unit


def test_a_frame_holds_half_a_surrogate_pair() -> None:
    found = frame([{"text": "half \ud83d", "n": 1}, {"text": None, "n": 2}]).sort_values("n", ascending=False)
    assert found["text"].iloc[1] == "half \ud83d"
    assert found["text"].isna().tolist() == [True, False]
    assert found["text"].array.dtype.storage == "python"
    assert list(frame([], ("a", "b")).columns) == ["a", "b"]
