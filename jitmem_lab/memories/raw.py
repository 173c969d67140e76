"""`raw`: a bank of whole trajectories, the top-k of them shown to the executor as they are.

The control that the paper lacks: JitMem without its curator. (Evo-Memory, arXiv 2511.20857, calls it ExpRAG.)
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ..bank import MemoryBank, StoredTrace
from ..errors import UserError
from ..execution import without_thinking
from ..models.base import ChatModel
from ..parsing import strip_thinking
from ..prompts import load_prompt
from ..records import Episode, Recall, RetrievedTrace, Sampling, Task, Trajectory
from ..retrieval import BM25Index
from ..session import Session
from ..traces import TraceFormat, fit, trace_text
from .base import Companion, Gate, decide

Retrieval = Literal["bm25", "shuffled", "empty"]
"""`shuffled`: k random traces, the control for relevance. `empty`: none, the control for the bank."""
Traces = Literal["raw", "distilled"]
"""`distilled`: a trajectory is turned at write time into at most three lessons; those are shown instead."""


class RawMemory:
    """A bank of trajectories, retrieved by BM25 over task descriptions.

    Stores whole trajectories that pass the gate; nothing is distilled unless `traces="distilled"`.

    Args:
        k: Traces retrieved (paper: 3).
        gate: What lets a trajectory in (paper: the judge's verdict).
        retrieval: How traces are found.
        traces: What is kept of a trajectory (`distilled` is the paper's ablation, table 9).
        trace_format: How a trajectory is written into a prompt.
        exclude_own: A task never retrieves a trajectory of its own task id; how often it would is counted.
        tokenizer, idf: Settings of the index, see `bank.MemoryBank`.
        max_trace_tokens: Tokens (roughly, at 3 characters each) that all traces together may take in the
            executor's prompt; None never cuts. Longer ones lose their middle, and the cut is recorded.
        distiller: The model that distils; needed for `traces="distilled"`.
    """

    name = "raw"

    def __init__(
        self,
        *,
        k: int = 3,
        gate: Gate = "judge",
        retrieval: Retrieval = "bm25",
        traces: Traces = "raw",
        trace_format: TraceFormat = "full",
        exclude_own: bool = True,
        tokenizer: str = "words",
        idf: str = "okapi",
        max_trace_tokens: int | None = 24_000,
        distiller: ChatModel | None = None,
    ) -> None:
        for name, value, allowed in (
            ("gate", gate, get_args(Gate)),
            ("retrieval", retrieval, get_args(Retrieval)),
            ("traces", traces, get_args(Traces)),
            ("trace_format", trace_format, get_args(TraceFormat)),
        ):
            if value not in allowed:
                raise UserError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise UserError(f"k must be 1 or more, not {k!r}; for no traces use retrieval='empty'")
        BM25Index(tokenizer, idf)
        if traces == "distilled" and distiller is None:
            raise UserError("traces='distilled' needs a distiller model")
        self.k = k
        self.gate = gate
        self.retrieval = retrieval
        self.traces = traces
        self.trace_format: TraceFormat = trace_format
        self.exclude_own = exclude_own
        self.max_trace_tokens = max_trace_tokens
        self.distiller = distiller
        self._tokenizer = tokenizer
        self._idf = idf
        self._bank: MemoryBank | None = None

    @property
    def needs_judge(self) -> bool:
        """Whether a model's verdict decides or labels."""
        return self.gate in ("judge", "all+labels")

    @property
    def bank(self) -> MemoryBank:
        """The open bank."""
        if self._bank is None:
            raise UserError("this memory is not open: call open(folder) first, or run it in a stream")
        return self._bank

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers."""
        distil = load_prompt("distill")
        return {
            "name": self.name,
            "k": self.k,
            "gate": self.gate,
            "retrieval": self.retrieval,
            "traces": self.traces,
            "trace_format": self.trace_format,
            "exclude_own": self.exclude_own,
            "max_trace_tokens": self.max_trace_tokens,
            "index": {"tokenizer": self._tokenizer, "idf": self._idf},
            "distiller": None
            if self.distiller is None or self.traces == "raw"
            else {
                "model": self.distiller.identity(),
                "context": self.distiller.context,
                "prompt": distil.name,
                "prompt_hash": distil.hash,
            },
        }

    def open(self, folder: Path | None) -> None:
        """Open or create `bank.sqlite` in the run directory."""
        path = ":memory:" if folder is None else folder / "bank.sqlite"
        self._bank = MemoryBank(path, tokenizer=self._tokenizer, idf=self._idf)

    def warm(self, trajectories: Sequence[Trajectory], session: Session) -> None:
        """Put demonstrations into the bank, in the order given."""
        if self.traces == "distilled":
            raise UserError("warm_start goes with traces='raw': demonstrations are not distilled")
        self.bank.append([(f"warm:{t.hash}", t, {"success": True, "warm": True}) for t in trajectories])

    def snapshot(self) -> int:
        """Number of traces in the bank."""
        return self.bank.snapshot()

    def retrieve(self, task: Task, snapshot: int, session: Session, k: int | None = None) -> Recall:
        """The traces for `task`, with no payload yet; `k` overrides the memory's own."""
        k = k or self.k
        own = task.task_id if self.exclude_own else None
        query = task.retrieval_key
        if self.retrieval == "empty":
            return Recall(query=query, bank_size=snapshot, notes={"retrieval": "empty"})
        if self.retrieval == "shuffled":
            order = list(range(1, snapshot + 1))
            random.Random(session.seed("retrieval")).shuffle(order)
            pairs: list[tuple[StoredTrace, float]] = []
            excluded = 0
            for number in order:
                stored = self.bank.get(number)
                if stored.trajectory.task.task_id == own:
                    excluded += 1
                else:
                    pairs.append((stored, 0.0))
                if len(pairs) == k:
                    break
        else:
            found = self.bank.search(query, k, snapshot=snapshot, exclude_task=own)
            pairs = [(self.bank.get(hit.id), hit.score) for hit in found.hits]
            excluded = found.excluded
        traces = tuple(
            RetrievedTrace(
                trace_id=stored.id,
                rank=rank,
                score=score,
                task_id=stored.trajectory.task.task_id,
                description=stored.trajectory.task.description,
                text=self._text(stored.trajectory, stored.labels),
            )
            for rank, (stored, score) in enumerate(pairs, 1)
        )
        return Recall(query=query, bank_size=snapshot, traces=traces, self_excluded=excluded)

    def _text(self, trajectory: Trajectory, labels: dict[str, Any]) -> str:
        label = bool(labels.get("success")) if self.gate == "all+labels" else None
        if "lessons" in labels:
            return str(labels["lessons"])
        return trace_text(trajectory, self.trace_format, label)

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """The top-k traces as they are, best first."""
        recall = self.retrieve(task, snapshot, session)
        budget = 10**9 if self.max_trace_tokens is None else self.max_trace_tokens
        cut = fit([t.text for t in recall.traces], budget, lambda text: len(text) // 3)
        traces = tuple(
            trace.model_copy(update={"text": text, "cut_chars": lost})
            for trace, (text, lost) in zip(recall.traces, cut, strict=True)
        )
        blocks = [f"Task: {trace.description}\nSteps to do it:\n{trace.text}" for trace in traces]
        return recall.model_copy(update={"traces": traces, "payload": "\n\n".join(blocks)})

    def companion(self, task: Task, snapshot: int, recall: Recall) -> Companion | None:
        """Nothing is given step by step."""
        return None

    def remember(self, episode: Episode, session: Session) -> dict[str, Any]:
        """Append the trajectory if the gate lets it in."""
        trajectory = episode.trajectory
        if trajectory is None or episode.outcome == "error":
            return {"stored": False, "why": "no finished trajectory"}
        success = decide(self.gate, episode)
        if success is None:
            return {"stored": False, "why": "no usable verdict"}
        if not success and self.gate != "all+labels":
            return {"stored": False, "why": "judged a failure" if self.needs_judge else "failed"}
        labels: dict[str, Any] = {"success": success, "gate": self.gate, "reward": trajectory.reward}
        if self.traces == "distilled":
            labels["lessons"] = self._distil(trajectory, success, session)
        return {
            "stored": True,
            "id": self.bank.append([(episode.key, without_thinking(trajectory), labels)])[0],
        }

    def _distil(self, trajectory: Trajectory, success: bool, session: Session) -> str:
        model = self.distiller
        assert model is not None
        prompt = load_prompt("distill")
        fields = {"task": trajectory.task.description, "result": "success" if success else "failure"}
        sampling = Sampling(temperature=0.0, max_tokens=512)
        frame = sum(model.count_tokens(m.content) for m in prompt.messages(**fields, trace=""))
        budget = model.context - sampling.max_tokens - frame - 64
        text = fit([trace_text(trajectory)], budget, model.count_tokens)[0].text
        return strip_thinking(
            session.chat("distiller", model, prompt.messages(**fields, trace=text), sampling)
        )

    def close(self) -> None:
        """Close the bank."""
        if self._bank is not None:
            self._bank.close()
            self._bank = None
