"""A cache of answers: one SQLite file, keyed by everything that changes an answer."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import InfrastructureError, UserError
from ..records import Message, Sampling, ToolCall, Usage, content_hash, to_json
from .base import ChatModel, Choice, Reply, Tool

VERSION = 1
"""Version of the file's layout."""


def ask_key(
    identity: Any,
    messages: Sequence[Message],
    *,
    sampling: Sampling | None = None,
    sample: int = 0,
    options: Sequence[str] | None = None,
    tools: Sequence[Any] = (),
) -> str:
    """Hash of a question: of a written answer (`sampling`, `sample`, `tools`) or of a choice (`options`)."""
    asked: dict[str, Any] = {"identity": identity, "messages": [_asked(message) for message in messages]}
    if tools:
        asked["tools"] = list(tools)
    if options is None:
        asked |= {"sampling": None if sampling is None else sampling.model_dump(), "sample": sample}
    else:
        asked["options"] = list(options)
    return content_hash(asked, 64)


def _asked(message: Message) -> list[Any]:
    """A message in a key; what only tool calls have is left out elsewhere, so that old keys hold."""
    plain = [message.role, message.content]
    if not message.tool_calls and not message.tool_call_id:
        return plain
    return [*plain, [call.model_dump() for call in message.tool_calls], message.tool_call_id]


def cached(model: ChatModel, path: str | Path) -> CachedModel:
    """`model` with the cache file at `path` in front of it (made if missing)."""
    return CachedModel(model, Path(path))


class CachedModel:
    """A model that asks only what it hasn't been asked before.

    The key covers the model's identity, the messages with their tool calls, and the sampling with its sample
    index and the tools' schemas (or the options). Errors are never kept. Several threads and processes may
    share a file; threads that ask the same question at once ask the model once. An answer from the cache has
    `calls=0`, `cached_calls=1` and the tokens of the first time.

    Raises:
        UserError: The file can't be opened or isn't such a cache.
    """

    def __init__(self, model: ChatModel, path: Path) -> None:
        self.inner = model
        self.name = model.name
        self.context = model.context
        self.takes_tools = model.takes_tools
        self._path = path
        self._lock = threading.Lock()
        self._asking: dict[str, tuple[threading.Lock, int]] = {}
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._base = sqlite3.connect(path, timeout=60.0, check_same_thread=False, isolation_level=None)
            found = self._base.execute("PRAGMA user_version").fetchone()[0]
            if found > VERSION:
                raise UserError(
                    f"{path} is a cache of a newer version ({found}); upgrade jitmem-lab or remove it"
                )
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT NOT NULL)"
            )
            self._base.execute(f"PRAGMA user_version={VERSION}")
        except (OSError, sqlite3.Error) as error:
            raise UserError(
                f"{path} can't be used as a cache ({error}); name another file or remove it"
            ) from error

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        """The kept answer, else the model's, which is then kept."""

        def ask() -> dict[str, Any]:
            reply = self.inner.chat(messages, sampling, sample, tools)
            kept: dict[str, Any] = {"text": reply.text, "finish": reply.finish}
            if reply.tool_calls:
                kept["tool_calls"] = [call.model_dump() for call in reply.tool_calls]
            return kept | {"usage": reply.usage.model_dump()}

        key = ask_key(self.inner.identity(), messages, sampling=sampling, sample=sample, tools=tools)
        answer, usage = self._answer(key, ask)
        return Reply(answer["text"], usage, answer["finish"], _calls(answer))

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        """The kept ranking, else the model's, which is then kept."""

        def ask() -> dict[str, Any]:
            choice = self.inner.choose(messages, options)
            return {"index": choice.index, "scores": choice.scores, "usage": choice.usage.model_dump()}

        answer, usage = self._answer(ask_key(self.inner.identity(), messages, options=options), ask)
        return Choice(answer["index"], tuple(answer["scores"]), usage)

    def count_tokens(self, text: str) -> int:
        """The model's own count."""
        return self.inner.count_tokens(text)

    def identity(self) -> dict[str, Any]:
        """The model's own identity: a cache changes no answer."""
        return self.inner.identity()

    def close(self) -> None:
        """Close the model and the file."""
        self.inner.close()
        with self._lock:
            self._base.close()

    def _answer(self, key: str, ask: Callable[[], dict[str, Any]]) -> tuple[dict[str, Any], Usage]:
        with self._alone(key):
            kept = self._run("SELECT answer FROM answers WHERE key = ?", (key,))
            # A damaged answer is asked for again and replaced.
            with contextlib.suppress(ValueError, KeyError, TypeError):
                if kept:
                    answer = json.loads(kept[0][0])
                    usage = Usage.model_validate(answer["usage"])
                    _calls(answer)
                    if "text" in answer or {"index", "scores"} <= set(answer):
                        return answer, usage.model_copy(
                            update={"calls": 0, "cached_calls": 1, "seconds": 0.0}
                        )
            answer = ask()
            put = "INSERT OR REPLACE" if kept else "INSERT OR IGNORE"
            self._run(f"{put} INTO answers VALUES (?, ?)", (key, to_json(answer)))
            return answer, Usage.model_validate(answer["usage"])

    def _run(self, statement: str, values: tuple[str, ...]) -> list[Any]:
        with self._lock:
            try:
                return self._base.execute(statement, values).fetchall()
            except sqlite3.Error as error:
                raise InfrastructureError(f"the cache {self._path} failed: {error}") from error

    @contextlib.contextmanager
    def _alone(self, key: str) -> Iterator[None]:
        """No other thread asks the same question meanwhile."""
        with self._lock:
            mine, waiting = self._asking.get(key, (threading.Lock(), 0))
            self._asking[key] = (mine, waiting + 1)
        try:
            with mine:
                yield
        finally:
            with self._lock:
                mine, waiting = self._asking.pop(key)
                if waiting > 1:
                    self._asking[key] = (mine, waiting - 1)


def _calls(answer: dict[str, Any]) -> tuple[ToolCall, ...]:
    return tuple(ToolCall.model_validate(call) for call in answer.get("tool_calls", ()))
