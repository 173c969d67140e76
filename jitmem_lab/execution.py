"""The executor: a frozen model that plays one episode, shown the payload at every step."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from .benchmarks.acting import act, finished
from .benchmarks.base import Env, Observation, told
from .errors import UserError
from .execution_tools import actions, conversation, fitted, raw_without_thinking, token_scale
from .models.base import ChatModel
from .parsing import parse_action
from .prompts import load_prompt
from .records import Message, Sampling, Step, Task, Trajectory
from .session import Session
from .tool_calls import tools_text
from .traces import cut_middle

if TYPE_CHECKING:
    from .memories.base import Companion

Act = Literal["write", "choose", "tools"]
"""`write`: the model writes the action. `choose`: it ranks the admissible ones by likelihood. `tools`: it
calls the environment's tools or writes a message."""

_FIELDS = {
    "write": ("task", "advice", "turns", "history", "observation", "admissible", "rules", "tools"),
    "choose": ("task", "advice", "steps"),
    "tools": ("task", "advice", "rules"),
}
"""What a prompt of each kind may use."""


class Executor:
    """Plays episodes with a frozen model.

    Args:
        model: Any chat model; `choose` needs one that scores options, `tools` one that calls tools.
        act: Writing the action (large models), choosing it (small models), or calling tools.
        history: Number of last turns shown with their observation (paper: 3; authors' code: 5). When
            choosing, every action taken is listed and `history` of them come with what was seen after. When
            calling tools, the whole conversation is shown, see `execution_tools.fitted` for what is cut.
        max_steps: Limit of turns (paper: 30; 200 in τ²); None takes the benchmark's.
        no_repeat: When choosing, the last so many actions can't be chosen again (0 in the paper's setting).
        temperature: 1.0 in the paper; 0 takes the likeliest. Choosing always takes the likeliest.
        top_p, top_k, max_tokens, thinking: Sampling of written answers and calls.
        prompt: A shipped prompt by name, or an own one by path; None takes `executor_` and `act`. When
            calling tools, it is one system section, which the conversation follows.
        max_observation_chars: Longer observations are cut in prompts (never in the record); None never cuts.
    """

    def __init__(
        self,
        model: ChatModel,
        *,
        act: Act = "write",
        history: int = 3,
        max_steps: int | None = None,
        no_repeat: int = 0,
        temperature: float = 1.0,
        top_p: float = 1.0,
        top_k: int = 0,
        max_tokens: int = 4096,
        thinking: bool | None = None,
        prompt: str | None = None,
        max_observation_chars: int | None = 8000,
    ) -> None:
        if act not in get_args(Act):
            raise UserError(f"act must be 'write', 'choose' or 'tools', not {act!r}")
        if history < 0 or no_repeat < 0 or (max_steps is not None and max_steps < 1):
            raise UserError("history and no_repeat must be 0 or more, and max_steps 1 or more")
        self.model = model
        self.act = act
        self.history = history
        self.max_steps = max_steps
        self.no_repeat = no_repeat if act == "choose" else 0
        self.prompt = load_prompt(prompt or f"executor_{act}")
        sections = [message.role for message in self.prompt.messages(**dict.fromkeys(_FIELDS[act], ""))]
        if act == "tools" and sections != ["system"]:
            raise UserError(
                f"prompt {self.prompt.name} has the sections {', '.join(sections)}; calling tools needs one "
                "[[system]] section only, which the conversation follows"
            )
        self.max_observation_chars = max_observation_chars
        # A conversation is counted anew at each step, which takes tens of milliseconds at 200 turns.
        self._count = functools.lru_cache(maxsize=8192)(model.count_tokens)
        self.sampling = Sampling(
            temperature=temperature, top_p=top_p, top_k=top_k, max_tokens=max_tokens, thinking=thinking
        )

    def settings(self) -> dict[str, Any]:
        """Everything that changes an episode."""
        return {
            "model": self.model.identity(),
            "act": self.act,
            "history": None if self.act == "tools" else self.history,
            "max_steps": self.max_steps,
            "no_repeat": self.no_repeat,
            "prompt": self.prompt.name,
            "prompt_hash": self.prompt.hash,
            "max_observation_chars": self.max_observation_chars,
            "sampling": None if self.act == "choose" else self.sampling.model_dump(),
        }

    def messages(
        self,
        task: Task,
        payload: str,
        past: Sequence[Step],
        now: Observation,
        first: Observation | None = None,
        scale: float = 1.0,
    ) -> tuple[Message, ...]:
        """The exact prompt of one step; the task is in it from the first step on.

        `first` is what the reset showed: standing rules and tools are told from it. `scale` is that of
        `execution_tools.token_scale`.
        """
        first = first or now
        told_advice = f"\nAdvice from earlier experience with such tasks:\n{payload}\n" if payload else ""
        if self.act == "choose":
            return self.prompt.messages(
                task=task.description,
                advice=f"{payload}\n\n" if payload else "",
                steps=self._numbered(past, now),
            )
        if self.act == "tools":
            (system,) = self.prompt.messages(task=task.description, advice=told_advice, rules=first.rules)
            system = system.model_copy(update={"content": system.content.strip()})
            context = self.model.context
            budget = max(context - self.sampling.max_tokens, context // 2)
            whole = conversation(system, past, now, self._shown)
            return fitted(whole, first.tools, budget / scale, self._count)
        return self.prompt.messages(
            task=task.description,
            advice=told_advice,
            turns=str(len(past)),
            history=self._recent(past),
            observation=self._shown(now.text),
            admissible="\n".join(f"- {option}" for option in now.admissible),
            rules=first.rules,
            tools=tools_text(first.tools),
        )

    def _shown(self, text: str) -> str:
        return (
            text if self.max_observation_chars is None else cut_middle(text, self.max_observation_chars).text
        )

    def _recent(self, past: Sequence[Step]) -> str:
        if not past or not self.history:
            return ""
        recent = past[-self.history :]
        first = len(past) - len(recent) + 1
        lines = ["The last of them:"]
        for number, step in enumerate(recent, first):
            lines += [
                f"[Turn {number}] You saw: {self._shown(step.observation)}",
                f"You did: {step.action or '-'}",
            ]
        return "\n".join(lines)

    def _numbered(self, past: Sequence[Step], now: Observation) -> str:
        seen = [step.observation for step in past[1:]] + [now.text]
        lines = []
        for number, step in enumerate(past, 1):
            lines.append(f"{number}. {step.action}")
            if len(past) - number < self.history:
                lines.append(f"   ({' '.join(self._shown(seen[number - 1]).split())})")
        lines.append(f"{len(past) + 1}.")
        return "\n".join(lines)

    def play(
        self,
        env: Env,
        task: Task,
        payload: str,
        session: Session,
        *,
        max_steps: int = 30,
        environment: str = "",
        first: Observation | None = None,
        companion: Companion | None = None,
        on_step: Callable[[Step], None] | None = None,
    ) -> Trajectory:
        """One whole episode.

        Args:
            first: What the reset showed, if the environment was reset already.
            companion: Memory that gives a payload of its own at each step; it stands instead of `payload`.

        Raises:
            InfrastructureError: The model's server or the environment failed; nothing counts then.
            UserError: Tools are to be called where the environment or the model has none.
        """
        now = first = first or env.reset()
        if self.act == "tools" and not first.tools:
            raise UserError(f'{task.benchmark} offers no tools to call; use act="write" or act="choose"')
        task = told(task, first)
        past: list[Step] = []
        limit = self.max_steps or max_steps
        while not now.done and len(past) < limit:
            session.check()
            given = companion.advise(past, now, session) if companion else payload
            for raw, action in self._decide(task, given, past, now, first, session):
                step, now = act(env, now, raw, action)
                if companion:
                    step = step.model_copy(update={"payload": given})
                past.append(step)
                if on_step is not None:
                    on_step(step)
                if now.done or len(past) >= limit:
                    break
        return finished(task, past, now, environment)

    def _decide(
        self,
        task: Task,
        payload: str,
        past: Sequence[Step],
        now: Observation,
        first: Observation,
        session: Session,
    ) -> list[tuple[str, str]]:
        """What the model wrote and the action in it: one pair, or one a call where it calls several tools."""
        scale = token_scale(session.calls, first.tools, self._count) if self.act == "tools" else 1.0
        messages = self.messages(task, payload, past, now, first, scale)
        if self.act == "choose":
            barred = {step.action for step in past[-self.no_repeat :]} if self.no_repeat else set()
            options = [option for option in now.admissible if option not in barred] or list(now.admissible)
            if not options:
                return [("", "")]
            choice = session.choose("executor", self.model, messages, options)
            return [(options[choice.index], options[choice.index])]
        sampling = self.sampling
        if sampling.temperature > 0:
            sampling = sampling.model_copy(update={"seed": session.seed(f"act{len(past)}")})
        if self.act == "tools":
            return actions(session.reply("executor", self.model, messages, sampling, tools=first.tools))
        raw = session.chat("executor", self.model, messages, sampling)
        return [(raw, parse_action(raw, verbatim=now.open))]


def plan_payload(task: Task, actions: Sequence[str]) -> str:
    """A list of actions as payload, in the form that a small model continues best: a solved example."""
    steps = "\n".join(f"{number}. {action}" for number, action in enumerate(actions, 1))
    return f"Task: {task.description}\nSteps to do it:\n{steps}"


def without_thinking(trajectory: Trajectory) -> Trajectory:
    """The trajectory as the bank keeps it: think blocks removed from the raw texts."""
    steps = tuple(
        step.model_copy(update={"raw": raw_without_thinking(step.raw)}) for step in trajectory.steps
    )
    return trajectory.model_copy(update={"steps": steps})
