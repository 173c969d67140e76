"""Any OpenAI-compatible server (vLLM, llama.cpp, hosted): bounded retries, and no key in any text."""

from __future__ import annotations

import functools
import logging
import re
import threading
import time
from collections.abc import Sequence
from typing import Any

from ..errors import InfrastructureError, UserError
from ..records import Message, Sampling, Usage
from . import wire
from .base import Choice, Reply, Tool
from .endpoint import Endpoint
from .rendering import clean_text, estimate_tokens, separator
from .retrying import Again, retry_after, retrying

log = logging.getLogger(__name__)

DEFAULT_CONTEXT = 32768
"""Context length assumed when neither the user nor the server says one."""
LONGEST_TIMEOUT = 1e6
"""Seconds; sockets take no infinite timeout."""
_PASSING = frozenset({408, 409, 425, 429})
"""Statuses below 500 that are worth another try."""
_DROPPABLE = ("temperature", "top_p", "top_k", "seed", "stop", "chat_template_kwargs", "tool_choice")
"""Settings that some servers refuse; a refused one is left out from then on."""


class ServedModel:
    """A model behind an OpenAI-compatible server.

    Args:
        rest: `BASE_URL#MODEL`, see `endpoint.Endpoint`.
        concurrency: Most requests at a time.
        timeout: Seconds one request may take.
        retries: Most further tries after a failure that may pass.
        max_wait: Most seconds waited between the tries of one call.
        backoff: Scale of the waits in seconds.
        context: Context length in tokens; 0 asks the server and falls back to 32768.
        end: Text that ends each option of a choice and counts in its mean.
    """

    takes_tools = True

    def __init__(
        self,
        rest: str,
        *,
        concurrency: int = 8,
        timeout: float = 120.0,
        retries: int = 5,
        max_wait: float = 300.0,
        backoff: float = 0.5,
        context: int = 0,
        end: str = "",
    ) -> None:
        if concurrency < 1 or retries < 0 or not 0 < timeout <= LONGEST_TIMEOUT:
            raise UserError(
                "concurrency must be at least 1, retries at least 0, and timeout above 0 and at most "
                f"{LONGEST_TIMEOUT:g} s"
            )
        self._at = Endpoint.parse(rest)
        self.name = self._at.name
        self._client = self._at.client(timeout)
        self._slots = threading.BoundedSemaphore(concurrency)
        self._stop = threading.Event()
        self._retries, self._max_wait, self._backoff = retries, max_wait, backoff
        self._timeout, self._end = timeout, end
        self._limit_name = "max_tokens"
        self._dropped: set[str] = set()
        self.context = context or self._ask_context() or DEFAULT_CONTEXT

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        """Answer `messages`; a final assistant message is continued, a lone one is raw text to continue.

        Raises:
            UserError: The server refuses the request, or `tools`.
        """
        began = time.monotonic()
        if not messages:
            raise UserError("a model needs at least one message")
        settings = wire.settings(sampling, sample)
        if len(messages) == 1 and messages[0].role == "assistant":
            path, body = "/completions", {"prompt": clean_text(messages[0].content), **settings}
            body.pop("chat_template_kwargs", None)
        else:
            path = "/chat/completions"
            body = {"messages": wire.turns(messages), **settings, **wire.offered(tools)}
            if messages[-1].role == "assistant":
                body |= {"continue_final_message": True, "add_generation_prompt": False}
        reply = self._call(path, body, functools.partial(wire.read_reply, tools=bool(tools)))
        text = reply.text
        cuts = [text.find(stop) for stop in sampling.stop if stop in text]
        usage = reply.usage.model_copy(update={"seconds": time.monotonic() - began})
        return Reply(text[: min(cuts)] if cuts else text, usage, reply.finish, reply.tool_calls)

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        """Rank `options` by the log-probabilities that the server gives for a prompt's own tokens.

        Raises:
            UserError: The server doesn't give them.
        """
        began = time.monotonic()
        if not options or not all(options):
            raise UserError("a choice needs at least one option, and none may be empty")
        if len(messages) != 1 or messages[0].role != "assistant":
            raise UserError(
                "a served model ranks options only behind raw text (one assistant message); "
                'use act="write" with chat prompts'
            )
        prompt = clean_text(messages[0].content)
        texts = [prompt + separator(prompt) + clean_text(option) + self._end for option in options]
        body = {"prompt": texts, "echo": True, "logprobs": 1, "max_tokens": 1, "temperature": 0.0}

        def read(answer: dict[str, Any]) -> tuple[list[tuple[float, int]], Usage]:
            ranked = sorted(wire.choices(answer), key=lambda choice: choice.get("index", 0))
            if len(ranked) != len(texts):
                raise Again(f"{len(ranked)} choices came back for {len(texts)} prompts")
            means = [_option_mean(c, len(prompt), len(t)) for c, t in zip(ranked, texts, strict=True)]
            return means, wire.usage(answer)

        try:
            means, usage = self._call("/completions", body, read)
        except _NoLogprobsError as error:
            raise UserError(
                f"{self.name} gives no log-probabilities of a prompt's tokens (echo with logprobs), which "
                'choosing by likelihood needs; use act="write"'
            ) from error
        scores = tuple(round(mean, 6) for mean, _ in means)
        usage = usage.model_copy(
            update={"completion_tokens": sum(n for _, n in means), "seconds": time.monotonic() - began}
        )
        return Choice(max(range(len(scores)), key=scores.__getitem__), scores, usage)

    def count_tokens(self, text: str) -> int:
        """An upper estimate, since the server's tokenizer isn't there."""
        return estimate_tokens(text)

    def identity(self) -> dict[str, Any]:
        """Server, model and the form of choices; no key."""
        return {"backend": "openai", "url": self._at.url, "model": self._at.model, "end": self._end}

    def close(self) -> None:
        """End the waits of calls in flight and close the connections."""
        self._stop.set()
        self._client.close()

    def _ask_context(self) -> int:
        """The context length that vLLM lists with its models; 0 if the server doesn't say or isn't there."""
        import httpx

        try:
            quick = self._client.with_options(timeout=min(5.0, self._timeout))
            listed = quick.get("/models", cast_to=httpx.Response).json().get("data", [])
            return next((int(m["max_model_len"]) for m in listed if m.get("id") == self._at.model), 0)
        except Exception:  # a help only: the calls themselves report what is wrong with the server
            return 0

    def _call(self, path: str, body: dict[str, Any], read: Any) -> Any:
        return retrying(
            lambda: self._attempt(path, body, read),
            server=self.name,
            retries=self._retries,
            max_wait=self._max_wait,
            backoff=self._backoff,
            stop=self._stop,
        )

    def _attempt(self, path: str, body: dict[str, Any], read: Any) -> Any:
        """One try; what a server refuses for good is tried again at once without it, once a setting."""
        import httpx
        import openai

        while True:
            sent = {key: value for key, value in body.items() if key not in self._dropped}
            if "max_tokens" in sent and self._limit_name != "max_tokens" and path == "/chat/completions":
                sent[self._limit_name] = sent.pop("max_tokens")
            try:
                with self._slots:
                    raw = self._client.post(
                        path, body={"model": self._at.model, **sent}, cast_to=httpx.Response
                    )
                return read(wire.parse_body(raw))
            except openai.APITimeoutError as error:
                raise Again(f"no answer within {self._timeout:g} s") from error
            except openai.APIConnectionError as error:
                cause = error.__cause__ or error
                raise Again(self._at.hide(f"connection failed ({type(cause).__name__}: {cause})")) from None
            except openai.APIStatusError as error:
                words = self._at.hide(wire.error_text(error.response.text, error.message))
                if error.status_code == 400 and self._adapt(words, sent):
                    continue
                after = retry_after(error.response.headers)
                raise self._judge(error.status_code, words, after, "tools" in sent) from None
            except wire.BodyError as error:
                words = self._at.hide(str(error))
                if error.status == 400 and self._adapt(words, sent):
                    continue
                raise self._judge(error.status, words, None, "tools" in sent) from None
            except RuntimeError as error:  # httpx refuses to send on a closed client
                if self._stop.is_set():
                    raise InfrastructureError(f"{self.name} was closed; load it again") from None
                raise Again(self._at.hide(f"{type(error).__name__}: {error}")) from None

    def _adapt(self, words: str, sent: dict[str, Any]) -> bool:
        """Whether the refusal names a setting that can be left out or renamed (remembered from then on)."""
        if "max_completion_tokens" in words and "max_tokens" in sent:
            self._limit_name = "max_completion_tokens"
            return True
        if not re.search(
            r"unsupported|not support|unrecognized|unknown|unexpected|not permitted", words, re.I
        ):
            return False
        refused = [name for name in _DROPPABLE if name in sent and re.search(rf"\b{name}\b", words)]
        for name in refused:
            log.warning("%s refuses the setting %s; it is left out from now on", self.name, name)
            self._dropped.add(name)
        return bool(refused)

    def _judge(self, status: int, words: str, after: float | None, tools: bool) -> Exception:
        if tools and wire.refuses_tools(status, words) and not _TOO_LONG.search(words):
            return UserError(
                f"{self.name} takes no tools (status {status}: {words}); start the server with tool calling "
                '(vLLM: --enable-auto-tool-choice --tool-call-parser; llama.cpp: --jinja) or use act="write"'
            )
        if status in _PASSING or status >= 500:
            return Again(f"status {status}: {words}", after)
        if status == 400 and _TOO_LONG.search(words):
            return InfrastructureError(f"{self.name} finds the prompt too long: {words}")
        hint = {
            401: f"; set {self._at.variable} or OPENAI_API_KEY to a key of this server",
            404: "; check the address (it usually ends in /v1) and the model's name",
        }.get(status, "")
        return UserError(f"{self.name} refuses the request (status {status}): {words}{hint}")


_TOO_LONG = re.compile(r"context.?length|maximum context|max_model_len|too (long|large)", re.I)


class _NoLogprobsError(Exception):
    """The answer lacks what a choice needs."""


def _option_mean(choice: dict[str, Any], start: int, end: int) -> tuple[float, int]:
    """Mean log-probability of the tokens that begin from `start` up to `end` characters, and their number."""
    given = choice.get("logprobs") or {}
    offsets, values = given.get("text_offset"), given.get("token_logprobs")
    if not offsets or not values or len(offsets) != len(values) or offsets[0] >= start:
        raise _NoLogprobsError
    inside = [v for at, v in zip(offsets, values, strict=True) if start <= at < end]
    if not inside or any(value is None for value in inside):
        raise _NoLogprobsError
    return sum(inside) / len(inside), len(inside)
