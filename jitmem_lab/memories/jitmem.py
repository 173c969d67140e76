"""`jitmem`: raw trajectories, curated at read time for the task at hand; the payload is thrown away.

Retrieval, gate and bank are those of `raw`; between retrieval and executor stands the curator.
"""

from __future__ import annotations

from typing import Any, Literal

from ..curation import Curator
from ..errors import UserError
from ..models.base import ChatModel
from ..records import Recall, Task
from ..session import Session
from .raw import RawMemory

OnEmpty = Literal["skip", "call"]
"""What happens when nothing was retrieved. The paper does not say; the authors' evaluation sweeps call."""


class JitMemory(RawMemory):
    """JitMem: retrieve, curate for this task, execute, let the gate decide.

    Args:
        curator: Writes the payload.
        on_empty: Whether the curator is asked when there is no trace (with `retrieval="empty"` it always is).
        options: As for `RawMemory`, but `max_trace_tokens` is the curator's.
    """

    name = "jitmem"
    WITHOUT = ("max_trace_tokens",)

    def __init__(self, *, curator: Curator | ChatModel, on_empty: OnEmpty = "skip", **options: Any) -> None:
        super().__init__(**options)
        if on_empty not in ("skip", "call"):
            raise UserError(f"on_empty must be skip or call, not {on_empty!r}")
        self.curator = curator if isinstance(curator, Curator) else Curator(curator)
        self.on_empty = on_empty

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers."""
        settings = super().settings() | {"curator": self.curator.settings(), "on_empty": self.on_empty}
        del settings["max_trace_tokens"]
        return settings

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """A payload written for this task out of the retrieved traces."""
        recall = self.retrieve(task, snapshot, session)
        if not recall.traces and self.on_empty == "skip" and self.retrieval != "empty":
            return recall.model_copy(
                update={"notes": recall.notes | {"curator": "not asked: nothing retrieved"}}
            )
        curated = self.curator.curate(task, recall.traces, session)
        return recall.model_copy(update={"payload": curated.payload, "traces": curated.traces})
