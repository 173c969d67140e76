"""What every benchmark must hold, as checks that fail with a sentence.

`check_contract(bench)` runs them all on any benchmark, one's own included. They play a handful of tasks each,
so that a pass is no proof, but what breaks a run is found in seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..base import Benchmark
from .playing import check_admissible, check_floors, check_observations, check_odd_text, check_oracle
from .processes import check_close, check_crash, check_determinism, check_isolation
from .saying import check_demonstrations, check_provenance, check_splits, check_tasks

Check = Callable[[Benchmark], str]
"""Raises `AssertionError` with a sentence where a benchmark breaks the rule; gives what was looked at."""

CHECKS: dict[str, Check] = {
    "tasks": check_tasks,
    "splits": check_splits,
    "provenance": check_provenance,
    "observations": check_observations,
    "oracle": check_oracle,
    "floors": check_floors,
    "admissible": check_admissible,
    "determinism": check_determinism,
    "isolation": check_isolation,
    "odd text": check_odd_text,
    "demonstrations": check_demonstrations,
    "worker death": check_crash,
    "close": check_close,
}
"""The checks by name, in the order in which they are run."""


def check_contract(bench: Benchmark) -> list[dict[str, Any]]:
    """Every check on one benchmark: `check` (name), `ok`, `detail` (what was seen, or what is wrong)."""
    rows = []
    for name, check in CHECKS.items():
        try:
            ok, detail = True, check(bench)
        except AssertionError as error:
            ok, detail = False, str(error)
        except Exception as error:
            ok, detail = False, f"{type(error).__name__}: {error}"
        rows.append({"check": name, "ok": ok, "detail": detail})
    return rows
