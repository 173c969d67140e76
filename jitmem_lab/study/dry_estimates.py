"""What a run will ask of its models, as arithmetic: calls and tokens by role, a low and a high bound.

Nothing here was measured in a run. The low bound takes the paper's table 4 where it has the benchmark, else
the solution's length and the first prompt; the high bound lets every call reach every limit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from ..evaluation import EvalConfig
from ..memories import parameters
from ..published import GPT, find
from ..sweeping.check import Checked
from ..training.recipes import CURATOR_ANSWER, CURATOR_PROMPT

TRACE = CURATOR_PROMPT / 3
"""Tokens of one trace in a prompt: a third of what the recipes assume of a curator's prompt."""
VERDICT = 60.0
"""Tokens of a written verdict: one JSON object with a sentence or two; assumed."""
USER_PROMPT, USER_ANSWER = 2_000.0, 50.0
"""Tokens of a simulated user's prompt and answer in the low bound: assumed."""
USER_LIMIT = 4_096
"""Longest answer of a simulated user."""
DISTILLED = 512
"""Longest answer that distils a trace (`memories.raw`)."""
OBSERVATION = 8_000 / 4
"""Tokens of the longest observation in a prompt: cut at 8,000 characters, four a token."""
WRITES: dict[str, tuple[float, float]] = {
    "reasoningbank": (1, 1),
    "skillos": (1, 1),
    "awm": (0.5, 1),
    "memp": (0.5, 2),
    "expel": (0.5, 2),
    "reflexion": (0.5, 1),
    "memharness": (1, 1),
}
"""Calls of a memory's writer after an episode; 0.5 where only successes are written about, or failures."""
_LIKE = {
    "none": "No memory",
    "raw": "No memory",
    "oracle": "JitMem (trained)",
    "skillos": "SkillOS-base",
    "jitmem": "JitMem-base",
}
"""Rows of table 4 by memory; others are taken for ReasoningBank, and a trained curator has its own row."""


class Span(NamedTuple):
    """A low and a high bound."""

    low: float
    """What is likely at least."""
    high: float
    """With every limit reached."""


class Ground(NamedTuple):
    """What is known of a split before anything is asked."""

    opening: float
    """Tokens of an executor's first prompt without memory, at four characters each."""
    solution: float
    """Actions of the benchmark's own solution, mean of a few tasks."""
    source: str
    """Where both come from."""


class Asks(NamedTuple):
    """What one role asks of one model in one run."""

    role: str
    """executor, curator, judge, distiller (what a memory writes) or user."""
    model: str
    """The model's whole name."""
    calls: Span
    """Number of calls."""
    prompt: Span
    """Tokens read in all."""
    completion: Span
    """Tokens written in all."""
    need: Span
    """Tokens of one call, prompt and answer, the longest of a usual run and of all limits."""
    cut: bool
    """Whether a prompt that is too long is cut to the context, so that it is never refused."""
    how: str
    """The arithmetic."""


def estimate(
    config: EvalConfig,
    made: Checked,
    tasks: int,
    ground: Ground,
    row: str,
    context: Callable[[str], int],
) -> list[Asks]:
    """What a run asks, role by role.

    Args:
        config: The run.
        made: Its parts, around models that aren't loaded.
        tasks: Tasks of the stream.
        ground: What is known of its split.
        row: The row of table 4 that it is taken for, see `table_row`.
        context: Gives the context in tokens that a run goes by, of a model by name.
    """
    episodes = tasks * config.trials
    found = [_executor(config, made, episodes, ground, row, context(config.model))]
    writer = config.curator_model or config.model
    if config.memory == "jitmem":
        found.append(_curator(config, made, episodes, context(writer)))
    if made.judge is not None:
        judge = config.judge_model or config.model
        found.append(_judge(config, episodes, judge, context(judge)))
    if config.traces == "distilled" or "model" in parameters(config.memory):
        found.append(_writer(config, made, episodes, writer, context(writer)))
    if config.user_model is not None:
        found.append(_user(config, made, episodes, ground, context(config.user_model)))
    return found


def table_row(config: EvalConfig, trained: Collection[str]) -> str:
    """The row of table 4 that a run is taken for; `trained` are the models that are trained curators."""
    if config.memory == "jitmem" and config.curator_model in trained:
        return "JitMem (trained)"
    return _LIKE.get(config.memory, "ReasoningBank")


def limit_of(config: EvalConfig, made: Checked) -> int:
    """Turns of an episode at most."""
    return int(config.max_steps or made.benchmark.max_steps)


def _executor(
    config: EvalConfig, made: Checked, episodes: int, ground: Ground, row: str, context: int
) -> Asks:
    cells = {cell.metric: cell.mean for cell in find("4", GPT, "alfworld") if cell.row == row}
    read, written, steps = cells["input_k"], cells["output_k"], cells["steps"]
    each, most = written * 1000 / steps, limit_of(config, made)
    if config.benchmark == "alfworld":
        prompt = read * 1000 / steps
        how = f"low: {episodes:,} x table 4's {row!r} ({steps:g} steps, {read:g} K in, {written:g} K out)"
        how += f", {most} of its steps" if most < steps else ""
        steps = min(steps, most)
    else:
        payload, words = _usual_payload(config)
        steps, prompt = min(ground.solution, most), ground.opening + payload
        how = (
            f"low: {episodes:,} x {steps:g} actions of the solution x ({ground.opening:,.0f} first prompt"
            f"{words} in, {each:.0f} out as in table 4)"
        )
    bound = _longest_prompt(config, made, ground, context)
    held = min(bound, context - config.max_tokens)
    how += f"; high: {episodes:,} x {most} turns x ({held:,.0f} in, {config.max_tokens:,} out)"
    return Asks(
        "executor",
        config.model,
        Span(episodes * steps, episodes * most),
        Span(episodes * steps * prompt, episodes * most * held),
        Span(episodes * steps * each, episodes * most * config.max_tokens),
        Span(prompt + config.max_tokens, bound + config.max_tokens),
        config.act == "tools",
        how,
    )


def _usual_payload(config: EvalConfig) -> tuple[float, str]:
    """Tokens that memory usually adds to an executor's prompt, and how they are told."""
    if config.memory in ("none", "oracle"):
        return 0.0, ""
    tokens = TRACE * config.k if config.memory == "raw" else CURATOR_ANSWER
    return tokens, f" + {tokens:,.0f} of memory"


def _longest_prompt(config: EvalConfig, made: Checked, ground: Ground, context: int) -> float:
    """Tokens of an executor's prompt with every part at its limit; with tools the conversation fills all."""
    if config.act == "tools":
        return float(context - config.max_tokens)
    return ground.opening + _longest_payload(config, made) + (config.history + 1) * OBSERVATION


def _longest_payload(config: EvalConfig, made: Checked) -> float:
    if config.memory == "jitmem":
        return float(config.curator_max_tokens)
    if config.memory == "raw":
        return float(made.memory.max_trace_tokens)
    if "model" not in parameters(config.memory):
        return 0.0
    if hasattr(made.memory, "budget"):
        return float(made.memory.budget)
    return float(made.memory.k * made.memory.sampling.max_tokens)


def _curator(config: EvalConfig, made: Checked, episodes: int, context: int) -> Asks:
    model, most = config.curator_model or config.model, config.curator_max_tokens
    asked = made.memory.curator
    empty = config.retrieval == "empty"
    always = empty or config.on_empty == "call" or config.warm_start > 0
    calls = episodes if always else max(0, episodes - config.batch_size)
    task = made.tasks[0].description
    frame = sum(len(one.content) for one in asked.prompt.messages(task=task, traces="")) / 4
    usual = frame + (0 if empty else TRACE * config.k)
    usual = min(usual, context - most)
    longest = frame if empty else float(context - most)
    if config.max_trace_tokens is not None:
        longest = min(longest, frame + config.max_trace_tokens)
    answer = min(CURATOR_ANSWER, most)
    return Asks(
        "curator",
        model,
        Span(calls, episodes),
        Span(calls * usual, episodes * longest),
        Span(calls * answer, episodes * most),
        Span(usual + most, longest + most),
        True,
        f"low: {calls:,} tasks that find traces x ({usual:,.0f} in: prompt, k = {0 if empty else config.k} "
        f"traces of {TRACE:,.0f}, {answer:g} out); high: {episodes:,} x ({longest:,.0f} in, {most:,} out)",
    )


def _judge(config: EvalConfig, episodes: int, model: str, context: int) -> Asks:
    most = config.judge_max_tokens
    return _whole_trace("judge", model, Span(episodes, episodes), VERDICT, most, context)


def _writer(config: EvalConfig, made: Checked, episodes: int, model: str, context: int) -> Asks:
    low, high = WRITES.get(config.memory, (0.5, 1))
    shown = config.warm_start if "model" in parameters(config.memory) else 0
    sampling = getattr(made.memory, "sampling", None)
    most = int(sampling.max_tokens) if sampling is not None else DISTILLED
    calls = Span(low * (episodes + shown), high * (episodes + shown))
    return _whole_trace("distiller", model, calls, CURATOR_ANSWER, most, context)


def _whole_trace(role: str, model: str, calls: Span, answer: float, most: int, context: int) -> Asks:
    """A role that reads a whole trace, cut to its context, and writes a little."""
    prompt, longest, answer = TRACE, float(context - most), min(answer, most)
    return Asks(
        role,
        model,
        calls,
        Span(calls.low * prompt, calls.high * longest),
        Span(calls.low * answer, calls.high * most),
        Span(prompt + most, longest + most),
        True,
        f"low: {calls.low:,g} x ({prompt:,.0f} in: one trace, {answer:g} out); "
        f"high: {calls.high:,g} x ({longest:,.0f} in, {most:,} out)",
    )


def _user(config: EvalConfig, made: Checked, episodes: int, ground: Ground, context: int) -> Asks:
    turns, most = max(2.0, ground.solution / 2), limit_of(config, made)
    longest = float(context - USER_LIMIT)
    return Asks(
        "user",
        str(config.user_model),
        Span(episodes * turns, episodes * most),
        Span(episodes * turns * USER_PROMPT, episodes * most * longest),
        Span(episodes * turns * USER_ANSWER, episodes * most * USER_LIMIT),
        Span(USER_PROMPT + USER_LIMIT, longest + USER_LIMIT),
        False,
        f"low: {episodes:,} x {turns:g} messages x ({USER_PROMPT:,.0f} in, {USER_ANSWER:g} out); "
        f"high: {episodes:,} x {most} x ({longest:,.0f} in, {USER_LIMIT:,} out)",
    )


def fit_of(asks: Asks, context: int | None) -> str:
    """Whether a role's calls fit its model's context."""
    if context is None:
        return "unknown"
    if asks.need.high <= context and asks.role != "user" and not asks.cut:
        return "fits"
    if asks.need.low > context:
        return "cut" if asks.cut else "too long"
    return "fits, long ones cut" if asks.cut else "fits, long ones may be refused"


def added(spans: Iterable[Span]) -> Span:
    """The sum of spans."""
    given = list(spans)
    return Span(sum(one.low for one in given), sum(one.high for one in given))
