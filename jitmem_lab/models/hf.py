"""transformers in process: one worker thread owns the model and serves whatever is waiting in batches."""

from __future__ import annotations

import hashlib
import os
import queue
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as WaitTimeout
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import InfrastructureError, JitmemError, UserError
from ..records import Message, Sampling, Usage
from .base import Choice, Reply, Tool, refuse_tools
from .decoding import Row, generate
from .llama import LlamaRanker, Ranking, supports
from .rendering import clean_text, render
from .scoring import option_tokens, score_plain


class _Ask(NamedTuple):
    """A request on its way to the worker."""

    prompt: list[int]
    row: Row | None
    options: list[list[int]] | None
    done: Future[Any]


class HfModel:
    """A causal language model of transformers in this process.

    Requests of concurrent threads are collected by one worker thread and computed in batches. An answer
    depends on its own prompt and seed; batch mates change it by float noise only.

    Args:
        path: A local folder, or an id in the user's transformers cache or on the hub.
        name: What to call the model; `hf:PATH` if empty.
        dtype: `float32`, `bfloat16` or `float16`; empty picks bfloat16 on a GPU or on a CPU that computes in
            it, else float32.
        device: `cpu`, `cuda`, …; empty picks the GPU if there is one.
        threads: Threads of the computation on a CPU; 0 leaves the library's choice.
        max_batch: Most requests computed together.
        fast: Whether choices reuse prefixes and share a tree of options where the model allows it; False is
            the plain reference computation.
        end: Text that ends each option of a choice and counts in its mean.
        context: Context length in tokens; 0 takes the model's own.
        patience: Seconds after which a waiting caller gets `InfrastructureError`.
        about: Facts that identify the model better than its path does.
        loaded: Model and tokenizer that are in memory already, to be used where they are; `path` then only
            names them. The model is put into evaluation mode.

    Raises:
        UserError: The model isn't found or an option isn't valid.
    """

    takes_tools = False

    def __init__(
        self,
        path: str,
        *,
        name: str = "",
        dtype: str = "",
        device: str = "",
        threads: int = 0,
        max_batch: int = 16,
        fast: bool = True,
        end: str = "",
        context: int = 0,
        patience: float = 3600.0,
        about: dict[str, Any] | None = None,
        loaded: tuple[Any, Any] | None = None,
    ) -> None:
        _let_idle_threads_sleep()
        try:
            import torch
            import transformers
            from safetensors import SafetensorError
        except ImportError as error:
            raise UserError(
                f"models in process need the `hf` extra ({error.name} is missing); "
                "run: pip install 'jitmem-lab[hf]'"
            ) from error
        if threads < 0:
            raise UserError("threads must be 0 (the library's choice) or more")
        self.name = name or f"hf:{path}"
        self._device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        dtypes = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
        self._dtype = dtype or _best_dtype(self._device)
        if self._dtype not in dtypes:
            raise UserError(f"dtype must be one of {', '.join(dtypes)}, not {dtype!r}")
        transformers.utils.logging.disable_progress_bar()
        try:
            self.tokenizer: Any
            self.model: Any
            if loaded is not None:
                self.model, self.tokenizer = loaded
            else:
                self.tokenizer = transformers.AutoTokenizer.from_pretrained(path)
                self.model = transformers.AutoModelForCausalLM.from_pretrained(
                    path, dtype=dtypes[self._dtype]
                )
        except (OSError, ValueError, KeyError, SafetensorError) as error:  # the last two: a damaged file
            words = str(error).strip().splitlines() or [type(error).__name__]
            raise UserError(
                f"cannot load the model {path!r}: {words[0][:300]}; give a folder that `save_pretrained` "
                "wrote, or an id that is in the transformers cache or reachable on the hub"
            ) from error
        self.model.eval()
        if self._device != "cpu" and loaded is None:
            self.model = self.model.to(self._device)
        self.context = context or int(getattr(self.model.config, "max_position_embeddings", 0) or 32768)
        self._about = about or weights_about(path, self.model)
        self._ranker = LlamaRanker(self.model) if fast and supports(self.model) else None
        self._ends = _end_tokens(self.model, self.tokenizer)
        self._end, self._threads, self._max_batch, self._patience = end, threads, max(1, max_batch), patience
        self._queue: queue.SimpleQueue[_Ask | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._closed = False
        self._worker = threading.Thread(target=self._serve, name=f"model {self.name}", daemon=True)
        self._worker.start()

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        """Answer `messages`; a final assistant message is continued, a lone one is raw text to continue."""
        refuse_tools(self.name, tools)
        began = time.monotonic()
        prompt = self._prompt(messages, sampling.thinking)
        if len(prompt) + sampling.max_tokens > self.context:
            raise InfrastructureError(
                f"the prompt has {len(prompt)} tokens and the answer may have {sampling.max_tokens}, "
                f"together more than the {self.context} tokens of context of {self.name}; "
                "cut the prompt or lower max_tokens"
            )
        row = Row(prompt, sampling, sample)
        if sampling.max_tokens < 1:
            raise UserError("max_tokens must be at least 1")
        self._wait(_Ask(prompt, row, None, Future()))
        usage = Usage(
            calls=1,
            prompt_tokens=len(prompt),
            completion_tokens=len(row.tokens),
            seconds=time.monotonic() - began,
        )
        return Reply(row.text, usage, row.finish)

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        """Rank `options` as continuations of `messages` by mean log-probability per token."""
        began = time.monotonic()
        if not options or not all(options):
            raise UserError("a choice needs at least one option, and none may be empty")
        text = render(self.tokenizer, messages)
        prompt = self._encode(text, raw=_is_raw(messages))
        tokens = option_tokens(self.tokenizer, text, [clean_text(option) for option in options], self._end)
        longest = len(prompt) + max(len(ids) for ids in tokens)
        if longest > self.context:
            raise InfrastructureError(
                f"the prompt and its longest option have {longest} tokens, more than the {self.context} "
                f"tokens of context of {self.name}; cut the prompt"
            )
        means = self._wait(_Ask(prompt, None, tokens, Future()))
        scores = tuple(round(mean, 6) for mean in means)
        usage = Usage(
            calls=1,
            prompt_tokens=len(prompt),
            completion_tokens=sum(map(len, tokens)),
            seconds=time.monotonic() - began,
        )
        return Choice(max(range(len(scores)), key=scores.__getitem__), scores, usage)

    def count_tokens(self, text: str) -> int:
        """Number of tokens of `text`."""
        return len(self.tokenizer(clean_text(text), add_special_tokens=False)["input_ids"])

    def identity(self) -> dict[str, Any]:
        """Weights, precision, device and the form of choices."""
        return {
            "backend": "hf",
            **self._about,
            "dtype": self._dtype,
            "device": self._device,
            "end": self._end,
        }

    def close(self) -> None:
        """Stop the worker and free the weights."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        if threading.current_thread() is not self._worker:
            self._worker.join(timeout=60)
        self.model = self._ranker = None

    def _encode(self, text: str, raw: bool) -> list[int]:
        ids: list[int] = self.tokenizer(text, add_special_tokens=raw)["input_ids"]
        if not ids:
            raise UserError("the prompt is empty; give the model some text")
        return ids

    def _prompt(self, messages: Sequence[Message], thinking: bool | None = None) -> list[int]:
        return self._encode(render(self.tokenizer, messages, thinking), raw=_is_raw(messages))

    def _wait(self, ask: _Ask) -> Any:
        with self._lock:
            if self._closed:
                raise InfrastructureError(f"{self.name} was closed; load it again")
            self._queue.put(ask)
        try:
            return ask.done.result(timeout=self._patience)
        except WaitTimeout:
            ask.done.cancel()
            raise InfrastructureError(f"{self.name} gave no answer within {self._patience:.0f} s") from None

    def _serve(self) -> None:
        if self._threads:
            import torch

            torch.set_num_threads(self._threads)
        serving = True
        while serving:
            batch = [self._queue.get()]
            while not self._queue.empty():
                batch.append(self._queue.get())
            serving = None not in batch
            live = [ask for ask in batch if ask is not None and ask.done.set_running_or_notify_cancel()]
            choices = [ask for ask in live if ask.row is None]
            written = [ask for ask in live if ask.row is not None]
            for kind in (choices, written):
                for start in range(0, len(kind), self._max_batch):
                    self._attempt(kind[start : start + self._max_batch])

    def _attempt(self, asks: list[_Ask]) -> None:
        """Compute one batch of one kind; whatever goes wrong reaches every caller in it."""
        rows = [ask.row for ask in asks if ask.row is not None]
        try:
            if rows:
                generate(self.model, self.tokenizer, rows, self._ends)
                results: list[Any] = [None] * len(asks)
            elif self._ranker is not None:
                results = self._ranker.rank([Ranking(ask.prompt, ask.options or []) for ask in asks])
            else:
                results = [score_plain(self.model, ask.prompt, ask.options or []) for ask in asks]
            for ask, result in zip(asks, results, strict=True):
                ask.done.set_result(result)
        except BaseException as error:
            for ask in asks:
                if not ask.done.done():
                    ask.done.set_exception(_as_ours(self.name, error))


def _let_idle_threads_sleep() -> None:
    """Idle OpenMP threads spin shortly and then sleep, unless the user has said otherwise.

    Where environments share the cores with the model, GNU OpenMP's default (spinning for milliseconds at each
    barrier) makes a decision several times slower: measured on 2 busy cores, 2 threads, a median above 4 s
    against 0.6 s. On quiet cores a short spin is as fast. It works only before torch is first imported.
    """
    if "torch" not in sys.modules and "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def _as_ours(name: str, error: BaseException) -> JitmemError:
    if isinstance(error, JitmemError):
        return error
    ours = InfrastructureError(f"{name} failed: {type(error).__name__}: {error}")
    ours.__cause__ = error
    return ours


def _is_raw(messages: Sequence[Message]) -> bool:
    return len(messages) == 1 and messages[0].role == "assistant"


def _best_dtype(device: str) -> str:
    import torch

    if device.startswith("cuda"):
        return "bfloat16"
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    fast = any(bool(check()) for name in checks if (check := getattr(torch.cpu, name, None)))
    return "bfloat16" if device == "cpu" and fast else "float32"


def _end_tokens(model: Any, tokenizer: Any) -> frozenset[int]:
    ends: set[int] = set()
    for value in (model.generation_config.eos_token_id, model.config.eos_token_id, tokenizer.eos_token_id):
        if value is not None:
            ends.update(value if isinstance(value, list | tuple) else [value])
    known = tokenizer.get_vocab()
    ends.update(known[word] for word in ("<|im_end|>", "<|eot_id|>", "<end_of_turn>") if word in known)
    return frozenset(int(end) for end in ends)


def weights_about(path: str, model: Any) -> dict[str, Any]:
    """What identifies the weights: a digest of a folder's files (size, head, tail), or an id's commit."""
    folder = Path(path)
    if not folder.is_dir():
        return {"model": path, "revision": getattr(model.config, "_commit_hash", None)}
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.suffix in {".json", ".safetensors", ".bin", ".model", ".jinja", ".txt"}:
            size = file.stat().st_size
            with file.open("rb") as handle:
                head = handle.read(1 << 16)
                handle.seek(max(0, size - (1 << 16)))
                digest.update(f"{file.name} {size}".encode() + head + handle.read())
    return {"model": folder.name, "weights": digest.hexdigest()[:16]}
