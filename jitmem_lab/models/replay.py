"""Answers from an earlier run's record: no model is called at all."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UserError
from ..records import Call, Message, Sampling, Usage, content_hash
from .base import Choice, Reply, Tool
from .cache import ask_key
from .rendering import estimate_tokens


class ReplayModel:
    """Answers every question as it was answered in a run, whichever model and role it was asked of.

    Questions match on messages, sampling, sample index and the tools' names, or on messages and options. Of
    several equal questions the first answer counts. Failed calls are not in it.

    Args:
        path: The run directory.
        context: Context length in tokens; give that of the run's model if traces or
            conversations were cut to it.

    Raises:
        UserError: There is no such run, or it holds no model call.
    """

    takes_tools = True

    def __init__(self, path: str, *, context: int = 32768) -> None:
        from ..runs import open_run

        self.name = f"replay:{path}"
        self.context = context
        self._calls: dict[str, Call] = {}
        run = open_run(Path(path))
        written = (Call.model_validate(call) for line in run.writes() for call in line.get("calls", []))
        for call in itertools.chain(*(episode.calls for episode in run.iter_episodes()), written):
            if call.error is None:
                self._calls.setdefault(_key(call), call)
        if not self._calls:
            raise UserError(f"run {path} holds no answered model call; replay a run that has some")
        self._digest = content_hash(sorted((key, *_said(call)) for key, call in self._calls.items()))

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        """The recorded answer."""
        names = [str(tool["function"]["name"]) for tool in tools]
        key = ask_key(None, messages, sampling=sampling, sample=sample, tools=names)
        call = self._find(key, messages, "answer")
        return Reply(call.text, _kept(call), call.finish, call.tool_calls)

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        """The recorded ranking."""
        call = self._find(ask_key(None, messages, options=options), messages, f"choice of {len(options)}")
        scores = call.scores or ()
        return Choice(list(options).index(call.text), scores, _kept(call))

    def count_tokens(self, text: str) -> int:
        """An upper estimate, since the run's tokenizer isn't there."""
        return estimate_tokens(text)

    def identity(self) -> dict[str, Any]:
        """The recorded answers' own hash, wherever the run directory lies."""
        return {"backend": "replay", "answers": self._digest}

    def close(self) -> None:
        """Forget the answers."""
        self._calls = {}

    def _find(self, key: str, messages: Sequence[Message], kind: str) -> Call:
        call = self._calls.get(key)
        if call is None:
            end = " ".join(messages[-1].content.split())[-120:] if messages else ""
            raise UserError(
                f"{self.name} has no {kind} for the prompt that ends {end!r}; replay needs the "
                "run's own settings, tasks and seed"
            )
        return call


def _key(call: Call) -> str:
    return ask_key(
        None,
        call.messages,
        sampling=call.sampling,
        sample=call.sample,
        options=call.options,
        tools=call.tools,
    )


def _said(call: Call) -> tuple[Any, ...]:
    tools = [tool.model_dump() for tool in call.tool_calls]
    return (call.text, tools) if tools else (call.text,)


def _kept(call: Call) -> Usage:
    return call.usage.model_copy(update={"calls": 0, "cached_calls": 1, "seconds": 0.0})
