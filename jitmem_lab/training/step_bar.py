"""The bar of a training: steps, the last reward, the last held-out success."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..progress import make_bar


class StepBar:
    """A bar over the steps of a training.

    Args:
        steps: Steps in all.
        done: Steps done already.
    """

    def __init__(self, steps: int, done: int = 0) -> None:
        self._bar = make_bar(steps, done, "step", seconds=30)

    def show(self, step: int, status: Mapping[str, Any]) -> None:
        """So many steps are done, with `reward` and `heldout` (0 to 1) as `status.json` has them."""
        shown = {"reward": status.get("reward"), "held-out": status.get("heldout")}
        told = {name: f"{value:.2f}" for name, value in shown.items() if value is not None}
        self._bar.set_postfix(told, refresh=False)
        self._bar.update(step - self._bar.n)

    def close(self) -> None:
        """End the bar."""
        self._bar.close()
