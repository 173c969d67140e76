"""How 20_evaluate makes its config of its parameters: options of its own or among the others."""

from __future__ import annotations

from typing import Any

import nbformat
import pytest

from jitmem_lab.notebooks import find_notebook

pytestmark = pytest.mark.unit


def made(**parameters: Any) -> Any:
    """The config that the notebook's first cells make."""
    cells = nbformat.read(find_notebook("20_evaluate"), as_version=4).cells
    first, second = [cell.source for cell in cells if cell.cell_type == "code"][:2]
    names: dict[str, Any] = {}
    exec(first, names)
    names |= parameters
    exec(second, names)
    return names["config"]


def test_options_may_stand_by_themselves_or_among_the_others() -> None:
    assert made(memory="expel").options == {}
    assert made(memory="expel", options={"max_rules": 5}).options == {"max_rules": 5}
    assert made(memory="expel", more={"options": {"max_rules": 5}}).options == {"max_rules": 5}
    assert made(k=7, gate="judge").k == 7
