"""The curator: retrieved traces and the task at hand in, a short payload for this task out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

from .errors import UserError
from .models.base import ChatModel
from .parsing import strip_thinking
from .prompts import load_prompt
from .records import Message, RetrievedTrace, Sampling, Task
from .session import Session
from .traces import cut_middle, fit

CuratorForm = Literal["advice", "plan"]
"""`advice`: a briefing asked for in chat. `plan`: a numbered list to be continued, for small models."""


HEADINGS = {"steps": "Steps to do it:", "attempt": "What was done:", "lessons": "Lessons:"}
"""What stands above a trace, by what it holds (`RetrievedTrace.holds`)."""
_LONGEST_SENTENCE = 2000
"""Characters of a trace's task sentence that are shown."""


class Curated(NamedTuple):
    """What the curator gave."""

    payload: str
    """The payload, think blocks removed."""
    traces: tuple[RetrievedTrace, ...]
    """The traces as shown to the curator, cuts counted."""


class Curator:
    """Writes the payload.

    Args:
        model: Any chat model.
        prompt: Name of a shipped prompt or path of an own one; None takes the form's own. It may use
            `{task}` and `{traces}`.
        form: How the model is asked.
        task_conditioned: Off, the curator isn't told the task (paper, table 9).
        max_tokens: Longest payload. The paper does not state its value at evaluation.
        temperature, top_p, top_k: The paper samples its curator at 0.6, 0.95, 20.
        max_trace_tokens: Tokens that all traces together may take; None takes what the context leaves.
            Longer traces lose their middle, and the cut is recorded.

    Raises:
        UserError: Unknown form or prompt, a prompt with other fields, or `max_tokens` beyond the context.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompt: str | None = None,
        form: CuratorForm = "advice",
        task_conditioned: bool = True,
        max_tokens: int = 1024,
        temperature: float = 0.6,
        top_p: float = 0.95,
        top_k: int = 20,
        thinking: bool | None = None,
        max_trace_tokens: int | None = None,
    ) -> None:
        self.model = model
        if form not in get_args(CuratorForm):
            raise UserError(f"form must be one of {', '.join(get_args(CuratorForm))}, not {form!r}")
        if max_tokens >= model.context:
            raise UserError(
                f"a payload of {max_tokens} tokens leaves no room for a prompt in {model.name}'s context "
                f"({model.context} tokens); lower curator_max_tokens"
            )
        general = "" if task_conditioned else "_general"
        self.prompt = load_prompt(prompt or ("curator_plan" if form == "plan" else f"curator{general}"))
        self.prompt.messages(task="", traces="")
        self.form = form
        self.task_conditioned = task_conditioned
        self.max_trace_tokens = max_trace_tokens
        self.sampling = Sampling(
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            max_tokens=max_tokens,
            thinking=thinking,
            stop=("\n\n",) if form == "plan" else (),
        )

    def settings(self) -> dict[str, Any]:
        """Everything that changes a payload."""
        return {
            "model": self.model.identity(),
            "context": self.model.context,
            "prompt": self.prompt.name,
            "prompt_hash": self.prompt.hash,
            "form": self.form,
            "task_conditioned": self.task_conditioned,
            "max_trace_tokens": self.max_trace_tokens,
            "sampling": self.sampling.model_dump(),
        }

    def messages(self, task: Task, traces: Sequence[RetrievedTrace]) -> tuple[tuple[Message, ...], Curated]:
        """The exact prompt, with the traces cut to what the model's context holds."""
        goal = task.description if self.task_conditioned else "(not told)"
        if self.form == "plan":  # one line, since a blank one ends what is to be continued
            goal = " ".join(goal.split())
        frame = sum(self.model.count_tokens(m.content) for m in self.prompt.messages(task=goal, traces=""))
        heads = [self._head(number, trace) for number, trace in enumerate(traces, 1)]
        spare = self.model.context - self.sampling.max_tokens - frame - 64
        spare -= sum(self.model.count_tokens(head) + 4 for head in heads)
        budget = spare if self.max_trace_tokens is None else min(spare, self.max_trace_tokens)
        cut = fit([trace.text for trace in traces], budget, self.model.count_tokens)
        shown = tuple(
            trace.model_copy(update={"text": text, "cut_chars": trace.cut_chars + lost})
            for trace, (text, lost) in zip(traces, cut, strict=True)
        )
        blocks = [f"{head}\n{trace.text}" for head, trace in zip(heads, shown, strict=True)]
        text = "\n\n".join(blocks) or "(none)"
        return self.prompt.messages(task=goal, traces=text), Curated("", shown)

    def _head(self, number: int, trace: RetrievedTrace) -> str:
        sentence = cut_middle(trace.description, _LONGEST_SENTENCE).text
        if self.form == "plan":
            return f"Task: {sentence}\n{HEADINGS[trace.holds]}"
        happened = HEADINGS["lessons"] if trace.holds == "lessons" else "What happened:"
        return f"Record {number}\nTask: {sentence}\n{happened}"

    def curate(
        self, task: Task, traces: Sequence[RetrievedTrace], session: Session, sample: int = 0
    ) -> Curated:
        """One payload for `task`; one model call.

        Raises:
            InfrastructureError: The model's server failed.
        """
        messages, curated = self.messages(task, traces)
        sampling = self.sampling
        if sampling.temperature > 0:
            sampling = sampling.model_copy(update={"seed": session.seed("curator")})
        raw = session.chat("curator", self.model, messages, sampling, sample)
        return curated._replace(payload=self.payload(messages, raw))

    def payload(self, messages: Sequence[Message], raw: str) -> str:
        """The payload in what a model wrote: up to the first stop text, without think blocks."""
        for stop in self.sampling.stop:
            raw = raw.partition(stop)[0]
        payload = strip_thinking(raw)
        return self.plan_text(messages, payload) if self.form == "plan" and payload else payload

    @staticmethod
    def plan_text(messages: Sequence[Message], payload: str) -> str:
        """The block that the prompt began (task, heading, first number) and how the model went on."""
        begun = messages[-1].content.rstrip().rsplit("\n\n", 1)[-1]
        return f"{begun} {payload}"
