"""One evaluation: a flat set of parameters in, a run directory out.

This is the unit of every sweep: notebooks, the demo and the command line all come through `evaluate`.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from .benchmarks import benchmark_parameters, default_split, load_benchmark
from .benchmarks.base import Benchmark
from .curation import Curator
from .embedding import Embedder, load_embedder
from .errors import UserError, did_you_mean
from .execution import Executor
from .judging import Judge
from .memories import NAMES, SHARED, UNTAUGHT, load_memory, parameters, systems_with, variants
from .memories.retrieving import Retrieval
from .models import load_model
from .models.base import ChatModel
from .presets import PRESETS, preset_values, values_of
from .prompts import prompt_for
from .records import Task, content_hash
from .runs import Run
from .stream import run_stream

MODELS = ("model", "curator_model", "judge_model", "user_model", "embedder")
"""Parameters that name a model."""


class EvalConfig(BaseModel):
    """What to run. Parameters left out take the preset's value; unknown ones are an error.

    See `presets` for the values of `paper`, `authors-code`, `small` and `pocket` and where they come from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=False, protected_namespaces=())

    preset: Literal["paper", "authors-code", "small", "pocket"] = "small"
    """Where parameters left out come from."""
    benchmark: str = "alfworld"
    """Benchmark to play."""
    split: str
    """Its split; left out or None, the benchmark's own default (one that needs no data)."""
    games: int | None = Field(None, ge=1)
    """Number of tasks from the start of the order; None takes all."""
    order: int | None = 0
    """Seed of the permutation of tasks; None keeps the data's order."""
    trials: int = Field(1, ge=1)
    """How often the stream goes through the tasks; what only helps a task's own later trials (reflexion)
    needs more than one."""
    memory: str = "jitmem"
    """Memory system, see `memories.NAMES`."""
    variant: str | None = None
    """A named set of the memory system's parameters, e.g. `port`; None: as published, and with the preset
    `small` the set for small models where the system has one."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the memory system by name, e.g. {"k": 5} for a system that writes items."""
    embedder: str = "wordllama"
    """Sentence embeddings for dense retrieval: wordllama, openai:URL#MODEL."""
    writer_temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    """Temperature of what a memory writes after an episode; None takes the system's own."""
    writer_max_tokens: int | None = Field(None, ge=1)
    """Longest text that a memory writes after an episode; None takes the system's own."""
    model: str = "smol"
    """The executor's model: smol, pocket, openai:URL#NAME, hf:PATH, replay:RUN."""
    curator_model: str | None = None
    """Model of the curator, and of what a memory writes after an episode (there its role is `distiller`);
    None takes the executor's."""
    judge_model: str | None = None
    """The judge's model; None takes the executor's (as in the paper)."""
    user_model: str | None = None
    """Model of τ²'s simulated user; None leaves it to a scripted user. Other benchmarks have no user."""
    task_key: Literal["told", "scenario"] = "told"
    """What retrieval compares in τ²: what the agent is told, or the user's hidden scenario (a leak)."""
    benchmark_options: dict[str, Any] = Field(default_factory=dict)
    """Further parameters of the benchmark's class by name, e.g. {"user_temperature": 0.5} in τ²."""
    act: Literal["write", "choose", "tools"]
    """Whether the executor writes its action, chooses it by likelihood, or calls the environment's tools."""
    executor_prompt: str | None = None
    """A shipped executor prompt by name, or an own one by path; None takes the benchmark's."""
    history: int = Field(ge=0)
    """Turns of history in the executor's prompt (with `tools` it sees them all)."""
    max_steps: int | None = Field(ge=1)
    """Limit of turns; None takes the benchmark's own."""
    no_repeat: int = Field(ge=0)
    """When choosing: the last so many actions can't be chosen again."""
    temperature: float = Field(ge=0, allow_inf_nan=False)
    """Executor temperature, when writing."""
    top_p: float = Field(1.0, gt=0, le=1)
    """Executor nucleus, when writing."""
    top_k: int = Field(0, ge=0)
    """Executor top-k, when writing; 0 keeps all."""
    max_tokens: int = Field(ge=1)
    """Longest executor answer, when writing."""
    thinking: bool | None = None
    """Whether the executor may think first; None leaves the server's default."""
    batch_size: int = Field(ge=1)
    """Tasks that share one snapshot of memory."""
    k: int = Field(ge=1)
    """Traces retrieved; systems that write items have a `k` of their own among their `options`."""
    gate: Literal["judge", "environment", "partial", "all+labels"]
    """What lets a trajectory into the bank."""
    retrieval: Retrieval = "bm25"
    """How traces are found: by words (bm25), by meaning (dense), or as a control (the others)."""
    payload_of: Literal["own", "another"] = "own"
    """For whom the payload is made; another task of the bank is a control."""
    traces: Literal["raw", "distilled"] = "raw"
    """What is kept of a trajectory."""
    trace_format: Literal["full", "actions"]
    """How a trace is written into a prompt."""
    exclude_own: bool = True
    """Whether a task may never retrieve a trajectory of its own task id."""
    tokenizer: str
    """Tokenizer of the index: words, whitespace, lower-whitespace."""
    idf: str = "okapi"
    """Idf of the index: okapi (as rank-bm25) or lucene."""
    warm_start: int = Field(ge=0)
    """Demonstrations of the train split put into the bank before the stream."""
    max_trace_tokens: int | None = Field(None, ge=0)
    """Tokens that all traces may take in the curator's prompt (with memory raw: in the executor's); None
    takes what the curator's context leaves (with raw: half the executor's, 24,000 at most)."""
    task_conditioned: bool = True
    """Whether the curator is told the task."""
    on_empty: Literal["skip", "call"]
    """Whether the curator is asked when nothing was retrieved."""
    curator_form: Literal["advice", "plan"]
    """How the curator is asked."""
    curator_prompt: str | None = None
    """A shipped curator prompt by name, or an own one by path."""
    curator_temperature: float = Field(ge=0, allow_inf_nan=False)
    """Curator temperature."""
    curator_top_p: float = Field(gt=0, le=1)
    """Curator nucleus."""
    curator_top_k: int = Field(ge=0)
    """Curator top-k; 0 keeps all."""
    curator_max_tokens: int = Field(ge=1)
    """Longest payload."""
    curator_thinking: bool | None = None
    """Whether the curator, and what a memory writes, may think first (the paper's curator may not); None
    leaves the server's default."""
    judge_form: Literal["json", "choose"]
    """How the judge is asked."""
    judge_max_tokens: int = Field(default=512, ge=1)
    """Longest written verdict."""
    judge_thinking: bool | None = None
    """Whether the judge may think first; None leaves the server's default."""
    seed: int = 0
    """Root of every random choice."""

    @classmethod
    def make(cls, **parameters: Any) -> EvalConfig:
        """A config from a preset and what differs from it.

        Raises:
            UserError: Unknown parameter, preset, memory or value, or parameters that don't go together.
        """
        from .retrieval import IDFS, TOKENIZERS

        for name in parameters:
            if name not in cls.model_fields:
                raise UserError(f"there is no parameter {name!r}; {_instead(name, parameters[name])}")
        preset = parameters.get("preset", cls.model_fields["preset"].default)
        _known("preset", preset, PRESETS)
        benchmark = str(parameters.get("benchmark", cls.model_fields["benchmark"].default))
        if parameters.get("split") is None:
            parameters["split"] = default_split(benchmark)
        memory = parameters.get("memory", cls.model_fields["memory"].default)
        _known("memory", memory, NAMES)
        if parameters.get("variant") is None:  # as with the split: None leaves it to the preset
            parameters.pop("variant", None)
        try:
            config = cls(**(preset_values(preset, benchmark, memory) | parameters))
        except ValidationError as error:
            first = error.errors()[0]
            where, given = str(first["loc"][0]), first["input"]
            if first["type"] == "literal_error":
                _known(where, given, get_args(cls.model_fields[where].annotation))
            raise UserError(f"{where}={given!r} is not possible: {first['msg'].lower()}") from None
        _known("tokenizer", config.tokenizer, TOKENIZERS)
        _known("idf", config.idf, IDFS)
        if config.traces == "distilled" and config.warm_start and config.memory in ("raw", "jitmem"):
            raise UserError("traces='distilled' needs warm_start=0, since demonstrations are not distilled")
        return config

    def request(self) -> dict[str, Any]:
        """All parameters as they are recorded: no user, password or query in a model's address."""
        recorded = self.model_dump()
        for name in MODELS:
            if recorded[name] is not None:
                recorded[name] = without_secrets(recorded[name])
        return recorded

    def folder(self, root: str | Path = "runs") -> Path:
        """The run directory that this config has by default: the same config always the same one."""
        digest = content_hash(self.request(), 8)
        name = self.benchmark.rpartition(":")[2]  # one's own comes as file.py:Class
        return Path(root) / f"{name}-{self.split}-{self.memory}-{digest}"


def evaluate(
    config: EvalConfig,
    *,
    out: str | Path | None = None,
    concurrency: int = 2,
    cache: str | Path | None = None,
    timeout: float = 120.0,
    progress: bool = True,
    models: dict[str, ChatModel] | None = None,
    benchmark: Benchmark | None = None,
) -> Run:
    """Run (or resume, or merely reopen) one evaluation.

    Args:
        config: What to run.
        out: The run directory; None takes `config.folder()`.
        concurrency: Episodes at once. Changes no result, for models in process up to float noise.
        cache: SQLite file of model answers, shared between runs; None for none.
        timeout: Seconds after which a model call counts as failed.
        progress: Whether to draw a bar.
        models: Models already loaded, by spec; they are left open.
        benchmark: The config's benchmark, already made; it is left open.

    Raises:
        UserError: Wrong parameters, missing data, or `out` holds another run.
    """
    own: dict[str, ChatModel] = {}

    def model(spec: str) -> ChatModel:
        if models and spec in models:
            return models[spec]
        if spec not in own:
            own[spec] = load_model(
                spec, cache=None if cache is None else Path(cache), concurrency=concurrency, timeout=timeout
            )
        return own[spec]

    def embedder(spec: str) -> Embedder:
        loaded = load_embedder(spec, timeout=timeout)
        stack.callback(loaded.close)
        return loaded

    with contextlib.ExitStack() as stack:
        stack.callback(lambda: _close(own))
        bench = benchmark or stack.enter_context(contextlib.closing(make_benchmark(config, model)))
        tasks = stream_tasks(config, bench)
        executor = make_executor(config, model(config.model))
        memory = make_memory(config, model, bench, embedder)
        judge = make_judge(config, model(config.judge_model or config.model)) if memory.needs_judge else None
        warm = (
            bench.demonstrations(config.warm_start, config.seed)
            if config.warm_start and config.memory not in UNTAUGHT
            else []
        )
        return run_stream(
            bench,
            memory,
            executor,
            out=config.folder() if out is None else out,
            tasks=tasks,
            judge=judge,
            warm_start=warm,
            batch_size=config.batch_size,
            concurrency=concurrency,
            seed=config.seed,
            request=config.request(),
            progress=progress,
        )


def _close(models: dict[str, ChatModel]) -> None:
    for model in models.values():
        model.close()


def stream_tasks(config: EvalConfig, bench: Benchmark) -> list[Task]:
    """The tasks of a config in order, once a trial.

    Raises:
        UserError: There are none, or one batch would hold a task's next trial beside the one before.
    """
    tasks = bench.tasks(limit=config.games, order=config.order)
    if not tasks:
        raise UserError(f"split {config.split} of {config.benchmark} has no tasks")
    if config.trials > 1 and config.batch_size > len(tasks):
        raise UserError(
            f"a batch of {config.batch_size} holds several trials of {len(tasks)} tasks, none of which sees "
            f"what the one before taught; give batch_size={len(tasks)} or less"
        )
    return tasks * config.trials


def benchmark_key(config: EvalConfig) -> tuple[str, ...]:
    """What two configs share that can be played on one benchmark object."""
    names = ("benchmark", "split", "task_key", "user_model", "benchmark_options")
    return tuple(str(getattr(config, name)) for name in names)


def make_benchmark(config: EvalConfig, model: Any) -> Benchmark:
    """The benchmark of a config; `model` gives a chat model by spec."""
    taken = benchmark_parameters(config.benchmark)
    options = dict(config.benchmark_options)
    if config.user_model is not None:
        if "user_model" not in taken:
            raise UserError(f"benchmark {config.benchmark} has no simulated user; leave user_model out")
        options["user_model"] = model(config.user_model)
    if "task_key" in taken:
        options["task_key"] = config.task_key
    elif config.task_key != values_of(config.request())["task_key"]:
        raise UserError(f"benchmark {config.benchmark} has no hidden scenario; leave task_key out")
    return load_benchmark(config.benchmark, split=config.split, **options)


def make_memory(
    config: EvalConfig,
    model: Any,
    benchmark: Benchmark,
    embedder: Callable[[str], Embedder] = load_embedder,
) -> Any:
    """The memory system of a config; `model` gives a chat model by spec, `embedder` an embedder."""
    if config.memory not in ("raw", "jitmem"):
        return _written_memory(config, model, benchmark, embedder)
    for name in config.options:
        own = f"give {name} as a parameter of the run" if name in EvalConfig.model_fields else "leave it out"
        raise UserError(f"memory {config.memory} takes no options, such as {name!r}; {own}")
    options: dict[str, Any] = {
        "variant": config.variant,
        "k": config.k,
        "gate": config.gate,
        "retrieval": config.retrieval,
        "payload_of": config.payload_of,
        "traces": config.traces,
        "trace_format": config.trace_format,
        "exclude_own": config.exclude_own,
        "tokenizer": config.tokenizer,
        "idf": config.idf,
    }
    if config.retrieval == "dense":
        options["embedder"] = embedder(config.embedder)
    curator_model = config.curator_model or config.model
    if config.traces == "distilled":
        options["distiller"] = model(curator_model)
    if config.memory == "raw":
        limit = config.max_trace_tokens
        if limit is None:
            limit = min(24_000, model(config.model).context // 2)
        return load_memory("raw", max_trace_tokens=limit, **options)
    return load_memory(
        "jitmem", curator=make_curator(config, model(curator_model)), on_empty=config.on_empty, **options
    )


_OF_TRACES = ("k", "retrieval", "payload_of", "traces", "tokenizer", "idf", "task_conditioned")
"""What only memories of raw traces go by."""


def _written_memory(
    config: EvalConfig, model: Any, benchmark: Benchmark, embedder: Callable[[str], Embedder]
) -> Any:
    """A system with parameters of its own: it is given what it takes of the config's, then its options.

    What a variant sets goes before what the preset sets, and after what was asked for otherwise. Of the
    parameters of the curator only its model and thinking apply.
    """
    taken = parameters(config.memory)
    usual = values_of(config.request())

    def asked(name: str) -> bool:
        return bool(getattr(config, name) != usual.get(name, EvalConfig.model_fields[name].default))

    for name in _OF_TRACES if "model" in taken else ():
        if asked(name):
            own = f"; its own is given as options={{{name!r}: …}}" if name in taken else ""
            raise UserError(f"memory {config.memory} does not go by {name}, leave it out{own}")
    options: dict[str, Any] = {"benchmark": benchmark, "variant": config.variant}
    if "model" in taken:
        options["model"] = model(config.curator_model or config.model)
    variant = variants(config.memory).get(config.variant or "", {})
    for name, field in SHARED.items():
        value = getattr(config, field)
        if name in taken and value is not None and (name not in variant or asked(field)):
            options[name] = value
    how = (variant | config.options).get(
        "retrieval", taken["retrieval"].default if "retrieval" in taken else None
    )
    if how == "dense":
        options["embedder"] = embedder(config.embedder)
    return load_memory(config.memory, **(options | config.options))


def make_executor(config: EvalConfig, model: ChatModel) -> Executor:
    """The executor of a config."""
    return Executor(
        model,
        act=config.act,
        prompt=config.executor_prompt or prompt_for(f"executor_{config.act}", config.benchmark),
        history=config.history,
        max_steps=config.max_steps,
        no_repeat=config.no_repeat,
        temperature=0.0 if config.act == "choose" else config.temperature,
        top_p=config.top_p,
        top_k=config.top_k,
        max_tokens=config.max_tokens,
        thinking=config.thinking,
    )


def make_judge(config: EvalConfig, model: ChatModel) -> Judge:
    """The judge of a config."""
    return Judge(
        model,
        prompt=prompt_for("judge", config.benchmark) if config.judge_form == "json" else None,
        form=config.judge_form,
        max_tokens=config.judge_max_tokens,
        thinking=config.judge_thinking,
    )


def make_curator(config: EvalConfig, model: ChatModel) -> Curator:
    """The curator of a config."""
    prompt = config.curator_prompt
    if prompt is None and config.curator_form == "advice" and config.task_conditioned:
        prompt = prompt_for("curator", config.benchmark)
    return Curator(
        model,
        prompt=prompt,
        form=config.curator_form,
        task_conditioned=config.task_conditioned,
        max_tokens=config.curator_max_tokens,
        temperature=config.curator_temperature,
        top_p=config.curator_top_p,
        top_k=config.curator_top_k,
        thinking=config.curator_thinking,
        max_trace_tokens=config.max_trace_tokens,
    )


def _instead(name: str, value: Any) -> str:
    """What to give instead of a parameter that a run doesn't have; a system's own is among its options."""
    if systems := systems_with(name):
        given = json.dumps({name: value}, default=str)
        return f"it is {' and '.join(systems)}'s own: give options={given} (-p options '{given}')"
    return did_you_mean(name, EvalConfig.model_fields, f"there are {', '.join(EvalConfig.model_fields)}")


def _known(what: str, value: Any, known: Iterable[str]) -> None:
    """Raise `UserError` unless `value` is one of `known`."""
    names = list(known)
    if value not in names:
        hint = " ".join(filter(None, (did_you_mean(value, names), f"there are {', '.join(names)}")))
        raise UserError(f"there is no {what} {value!r}; {hint}")


def without_secrets(spec: str) -> str:
    """A model's name without user, password or query in its address."""
    address, mark, rest = spec.partition("#")
    return re.sub(r"//[^/]*@", "//", address).partition("?")[0] + mark + rest


def rerun(run: str | Path | Run, out: str | Path, **operation: Any) -> Run:
    """Run again what an earlier run directory records, into a new one.

    Raises:
        UserError: The run was not made by `evaluate`, or its config no longer fits this version.
    """
    earlier = run if isinstance(run, Run) else Run(run)
    request = earlier.config.get("request")
    if not request:
        raise UserError(f"{earlier.path} records no request; it was made by run_stream directly")
    return evaluate(EvalConfig.make(**request), out=out, **operation)
