"""jitmem: raw trajectories, curated at read time for the task at hand; the payload is thrown away.

Stores: Every trajectory that passes the gate, unabridged (but for the agent's thoughts); nothing is distilled
    on the way in. (`traces="distilled"` is the paper's ablation.)
Written: After each episode that the gate lets in; no model is called.
Found: By likeness of the task's sentence (BM25), the top k = 3; never a trajectory of the task's own id.
    `retrieval` has cosine of embeddings and the controls, as for `raw`.
Shown: A payload that a curator model writes for this very task out of the traces, once before the episode; it
    stands before every step and is kept nowhere but in the run's record.
Costs: One call of the curator before each episode, none when a trace is written; only the payload lengthens
    the executor's prompt. Dense retrieval embeds the task before an episode and each trace once.
Source: The JitMem paper: k = 3, the curator at temperature 0.6, top-p 0.95, top-k 20, without thinking; the
    gate is the executor's model as judge. The preset `authors-code` sets what its code does otherwise.
Chosen here: With nothing retrieved the curator is not asked (`on_empty="skip"`; the authors' code asks it).
    The longest payload isn't published (the preset takes 4,096 tokens, as the authors' code). With
    `payload_of="another"` the payload is that made for another task of the bank: the control for relevance.
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

    def compose(self, task: Task, recall: Recall, session: Session) -> Recall:
        """A payload written for `task` out of the retrieved traces."""
        if not recall.traces and self.on_empty == "skip" and self.retrieval != "empty":
            return recall.model_copy(
                update={"notes": recall.notes | {"curator": "not asked: nothing retrieved"}}
            )
        curated = self.curator.curate(task, recall.traces, session)
        return recall.model_copy(update={"payload": curated.payload, "traces": curated.traces})
