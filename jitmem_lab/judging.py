"""The gate: did the executor finish its task? Asked of a model, or taken from the environment."""

from __future__ import annotations

from typing import Any, Literal, get_args

from .errors import UserError
from .models.base import ChatModel
from .parsing import parse_json_object
from .prompts import load_prompt
from .records import Sampling, Trajectory, Verdict
from .session import Session
from .traces import fit, trace_text

JudgeForm = Literal["json", "choose"]
"""`json`: a written verdict. `choose`: the likelier of yes and no, for small models."""


class Judge:
    """A model as judge (paper: the executor's own model).

    An answer without a usable boolean `success` gives a verdict of None: the trajectory is not stored.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        prompt: str | None = None,
        form: JudgeForm = "json",
        max_tokens: int = 512,
        temperature: float = 0.0,
        thinking: bool | None = None,
    ) -> None:
        if form not in get_args(JudgeForm):
            raise UserError(f"form must be one of {', '.join(get_args(JudgeForm))}, not {form!r}")
        self.model = model
        self.form = form
        self.prompt = load_prompt(prompt or ("judge_choose" if form == "choose" else "judge"))
        self.prompt.messages(task="", trace="")
        self.sampling = Sampling(temperature=temperature, max_tokens=max_tokens, thinking=thinking)

    def settings(self) -> dict[str, Any]:
        """Everything that changes a verdict."""
        return {
            "model": self.model.identity(),
            "context": self.model.context,
            "prompt": self.prompt.name,
            "prompt_hash": self.prompt.hash,
            "form": self.form,
            "sampling": self.sampling.model_dump(),
        }

    def verdict(self, trajectory: Trajectory, session: Session) -> Verdict:
        """The model's verdict on a whole trajectory.

        Raises:
            InfrastructureError: The model's server failed.
        """
        goal = trajectory.task.description
        frame = sum(self.model.count_tokens(m.content) for m in self.prompt.messages(task=goal, trace=""))
        budget = self.model.context - self.sampling.max_tokens - frame - 64
        text, _ = fit([trace_text(trajectory)], budget, self.model.count_tokens)[0]
        messages = self.prompt.messages(task=goal, trace=text)
        if self.form == "choose":
            choice = session.choose("judge", self.model, messages, ("yes", "no"))
            return Verdict(success=choice.index == 0, source="judge")
        sampling = self.sampling
        if sampling.temperature > 0:
            sampling = sampling.model_copy(update={"seed": session.seed("judge")})
        raw = session.chat("judge", self.model, messages, sampling)
        answer = parse_json_object(raw) or {}
        success = answer.get("success")
        if not isinstance(success, bool):
            return Verdict(success=None, source="judge", rationale=f"unusable answer: {raw[:500]}")
        return Verdict(success=success, source="judge", rationale=str(answer.get("rationale", "")))


def environment_verdict(trajectory: Trajectory) -> Verdict:
    """The environment's own word as verdict."""
    return Verdict(success=trajectory.outcome == "success", source="environment")
