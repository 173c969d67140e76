"""The commands that make a study's parts again."""

from __future__ import annotations

import json
import shlex
from typing import Any

from ..grids import Cell
from .plan import Plan


def study_command(plan: Plan) -> list[str]:
    """The command of the whole study, without where it goes."""
    words = ["jitmem", "study", "run", "--size", plan.size.name]
    for name, value in plan.asked.items():
        for one in value if isinstance(value, list) else [value]:
            parts = one if isinstance(one, tuple) else (one,)
            words += [f"--{name}", *(shlex.quote(str(part)) for part in parts)]
    return words


STUDY = "STUDY"
"""What stands in a command for the study's own folder."""


def cell_command(plan: Plan, cell: Cell) -> list[str]:
    """The command of one run, through notebook 20_evaluate; `STUDY` stands for the study's folder."""
    from ..notebooks import find_notebook, read_parameters

    known = set(read_parameters(find_notebook("20_evaluate")))
    words = ["jitmem", "run", "20_evaluate"]
    more: dict[str, Any] = {}
    here = f"{plan.out.resolve()}/"
    for name, value in cell.parameters.items():
        value = value.replace(here, f"{STUDY}/") if isinstance(value, str) else value
        if name in known and not isinstance(value, dict | list):
            words += ["-p", name, shlex.quote(str(value))]
        else:
            more[name] = value
    return [*words, "-p", "more", shlex.quote(json.dumps(more, sort_keys=True))] if more else words
