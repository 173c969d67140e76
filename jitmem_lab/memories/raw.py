"""raw: whole trajectories, the most similar ones shown as they are.

Stores: Every trajectory that passes the gate, unabridged (but for the agent's thoughts). With
    `traces="distilled"` it is searched in the same way, but shown are at most three lessons drawn from it.
Written: After each episode that the gate lets in; no model is called, unless traces are distilled.
Found: By likeness of the task's sentence (BM25), the top k = 3; never a trajectory of the task's own id.
    `retrieval` has cosine of embeddings and the controls: only the task's own type, only other types, what is
    found for another task, random traces, none.
Shown: As they are, best first, before every step. Together they take at most `max_trace_tokens`; longer ones
    lose their middle.
Costs: No model call; the traces lengthen the executor's prompt at every step. Dense retrieval embeds the task
    before an episode and each trace once, distilled traces take one call each when they are written.
Source: The control that the JitMem paper lacks: JitMem without its curator, with the paper's k and gate.
    Evo-Memory (arXiv 2511.20857) calls it ExpRAG. Distilled traces are the paper's ablation (table 9).
Chosen here: 24,000 tokens at most for all traces. A trajectory goes in front of the executor as steps seen
    and done (`trace_format="full"`); the small model is shown the actions only. With `payload_of="another"`
    what is given was found for another task of the bank: the control for relevance.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from ..bank import MemoryBank
from ..curation import HEADINGS
from ..embedding import Embedder
from ..errors import UserError
from ..execution import without_thinking
from ..models.base import ChatModel
from ..parsing import strip_thinking
from ..prompts import load_prompt
from ..records import Episode, Recall, RetrievedTrace, Sampling, Task, Trajectory
from ..session import Session
from ..traces import TraceFormat, fit, trace_text
from .base import Companion, Gate, asks_judge, decide
from .retrieving import CONTROLS, NO_OTHER, TYPED, Retrieval, Retriever

Traces = Literal["raw", "distilled"]
"""`distilled`: a trajectory is turned at write time into at most three lessons; those are shown instead."""
PayloadOf = Literal["own", "another"]
"""For whom the payload is made. `another`: for another task of the bank, the control for relevance."""


class RawMemory:
    """A bank of trajectories, retrieved by their task's sentence.

    Args:
        k: Traces retrieved (paper: 3).
        gate: What lets a trajectory in (paper: the judge's verdict).
        retrieval: How traces are found, see `retrieving.Retrieval`.
        embedder: For `retrieval="dense"`.
        payload_of: For whom the payload is made.
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
        embedder: Embedder | None = None,
        payload_of: PayloadOf = "own",
    ) -> None:
        for name, value, allowed in (
            ("gate", gate, get_args(Gate)),
            ("traces", traces, get_args(Traces)),
            ("trace_format", trace_format, get_args(TraceFormat)),
            ("payload_of", payload_of, get_args(PayloadOf)),
        ):
            if value not in allowed:
                raise UserError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise UserError(f"k must be 1 or more, not {k!r}; for no traces use retrieval='empty'")
        self.retriever = Retriever(retrieval, embedder, tokenizer, idf)
        if payload_of == "another" and retrieval in CONTROLS and retrieval not in TYPED:
            raise UserError(f"payload_of='another' and retrieval={retrieval!r} are two controls; take one")
        if traces == "distilled" and distiller is None:
            raise UserError("traces='distilled' needs a distiller model")
        self.k = k
        self.gate = gate
        self.retrieval = retrieval
        self.payload_of = payload_of
        self.traces = traces
        self.trace_format: TraceFormat = trace_format
        self.exclude_own = exclude_own
        self.max_trace_tokens = max_trace_tokens
        self.distiller = distiller
        self._bank: MemoryBank | None = None

    @property
    def needs_judge(self) -> bool:
        """Whether a model's verdict decides or labels."""
        return asks_judge(self.gate)

    @property
    def bank(self) -> MemoryBank:
        """The open bank."""
        if self._bank is None:
            raise UserError("this memory is not open: call open(folder) first, or run it in a stream")
        return self._bank

    def settings(self) -> dict[str, Any]:
        """Everything that changes what it recalls or remembers."""
        distil = load_prompt("distill")
        labelled = {"heading": HEADINGS["attempt"]} if self.gate == "all+labels" else {}
        return {
            "name": self.name,
            "k": self.k,
            "gate": self.gate,
            **({} if self.payload_of == "own" else {"payload_of": self.payload_of}),
            "traces": self.traces,
            **({"heading": HEADINGS["lessons"]} if self.traces == "distilled" else labelled),
            "trace_format": self.trace_format,
            "exclude_own": self.exclude_own,
            "max_trace_tokens": self.max_trace_tokens,
            **self.retriever.settings(),
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
        self._bank = MemoryBank(path, **self.retriever.index)
        self.retriever.open(self._bank)

    def warm(self, trajectories: Sequence[Trajectory], session: Session) -> None:
        """Put demonstrations into the bank, in the order given."""
        if self.traces == "distilled":
            raise UserError("warm_start goes with traces='raw': demonstrations are not distilled")
        self.retriever.learn([t.task.retrieval_key for t in trajectories], session)
        self.bank.append([(f"warm:{t.hash}", t, {"success": True, "warm": True}) for t in trajectories])

    def snapshot(self) -> int:
        """Number of traces in the bank."""
        return self.bank.snapshot()

    def retrieve(
        self,
        task: Task,
        snapshot: int,
        session: Session,
        k: int | None = None,
        asking: Task | None = None,
    ) -> Recall:
        """The traces for `task`, with no payload yet; `k` overrides the memory's own.

        `asking` is the task at hand, where that is another one; traces of both are left out then.
        """
        own = (asking or task).task_id if self.exclude_own else None
        other = task.task_id if self.exclude_own and asking is not None else None
        if k is not None and k < 1:
            raise UserError(f"k must be 1 or more, not {k}; a run without traces is retrieval='empty'")
        found = self.retriever.find(task, k or self.k, snapshot, session, own, other)
        pairs = [(self.bank.get(hit.id), hit.score) for hit in found.hits]
        traces = tuple(
            RetrievedTrace(
                trace_id=stored.id,
                rank=rank,
                score=score,
                task_id=stored.trajectory.task.task_id,
                description=stored.trajectory.task.description,
                **self._told(stored.trajectory, stored.labels),
            )
            for rank, (stored, score) in enumerate(pairs, 1)
        )
        return Recall(
            query=found.query,
            bank_size=snapshot,
            traces=traces,
            self_excluded=found.excluded,
            notes=found.notes,
        )

    def _told(self, trajectory: Trajectory, labels: dict[str, Any]) -> dict[str, Any]:
        """A trace's text, and what it holds."""
        if "lessons" in labels:
            return {"text": str(labels["lessons"]), "holds": "lessons"}
        label = bool(labels.get("success")) if self.gate == "all+labels" else None
        return {
            "text": trace_text(trajectory, self.trace_format, label),
            "holds": "steps" if label is None else "attempt",
        }

    def recall(self, task: Task, snapshot: int, session: Session) -> Recall:
        """A payload out of the retrieved traces."""
        if self.payload_of == "own":
            return self.compose(task, self.retrieve(task, snapshot, session), session)
        drawn = self.retriever.another(snapshot, session, "payload", task)
        if drawn is None:
            notes = {"payload_of": None, "why": NO_OTHER}
            return Recall(query=task.retrieval_key, bank_size=snapshot, notes=notes)
        other = self.bank.get(drawn.id).trajectory.task
        found = self.retrieve(other, snapshot, session, asking=task)
        found = found.model_copy(update={"notes": found.notes | {"payload_of": other.task_id}})
        return self.compose(other, found, session)

    def compose(self, task: Task, recall: Recall, session: Session) -> Recall:
        """The traces as they are, best first, as a payload for `task`."""
        budget = 10**9 if self.max_trace_tokens is None else self.max_trace_tokens
        cut = fit([t.text for t in recall.traces], budget, lambda text: len(text) // 3)
        traces = tuple(
            trace.model_copy(update={"text": text, "cut_chars": lost})
            for trace, (text, lost) in zip(recall.traces, cut, strict=True)
        )
        blocks = [f"Task: {trace.description}\n{HEADINGS[trace.holds]}\n{trace.text}" for trace in traces]
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
        self.retriever.learn([trajectory.task.retrieval_key], session)
        kept = without_thinking(trajectory)
        return {"stored": True, "id": self.bank.append([(episode.key, kept, labels)])[0]}

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
        self.retriever.close()
        if self._bank is not None:
            self._bank.close()
            self._bank = None
