"""Models that a study asks over the wire: how long their contexts are, and how their servers are started."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ..errors import UserError, did_you_mean
from ..evaluation import EvalConfig
from ..models.endpoint import Endpoint
from ..models.served import DEFAULT_CONTEXT
from ..sweeping.check import model_names
from ..training.recipe_commands import LOCAL

SERVED = "openai:"
"""How the name of a served model begins."""
_QWEN = "Qwen/Qwen3-8B"
_PUBLISHED = "40,960 as its config says, and as the paper serves it with vLLM"
_TRAINED = f"trained from {_QWEN}: {_PUBLISHED}"


class Context(NamedTuple):
    """How much a model reads and writes in one call."""

    tokens: int | None
    """Prompt and answer together; None where it is not known."""
    source: str
    """Where the number comes from."""
    used: int = DEFAULT_CONTEXT
    """What a run cuts to: vLLM tells its length, of a server that tells none this much is assumed."""


KNOWN: dict[str, Context] = {
    _QWEN: Context(40_960, _PUBLISHED, 40_960),
    **{
        f"jitmem-curator{place}{stage}": Context(40_960, _TRAINED, 40_960)
        for place in ("", "-webshop")
        for stage in ("", "-refreshed")
    },
}
"""Contexts by the model's name on its server; of hosted models none is written down here."""
UNKNOWN = Context(None, f"unknown (--context); a run cuts to {DEFAULT_CONTEXT:,} where the server tells none")
LOADED = Context(None, "the model's own, known once it is loaded")
_CHECKPOINTS = {
    "jitmem-curator": "CURATOR",
    "jitmem-curator-refreshed": "REFRESHED_CURATOR",
    "jitmem-curator-webshop": "WEBSHOP_CURATOR",
    "jitmem-curator-webshop-refreshed": "WEBSHOP_REFRESHED_CURATOR",
}
"""Placeholders of folders that trainings leave, by the name under which they are served."""


def short(spec: str) -> str:
    """A model's name on its server; other names as they are."""
    return spec.partition("#")[2] if spec.startswith(SERVED) else spec


def contexts(given: Iterable[tuple[str, int]], models: Iterable[str]) -> dict[str, Context]:
    """Contexts by model, those given before those known.

    Args:
        given: Names (whole or as on the server) with their tokens.
        models: The models' whole names.

    Raises:
        UserError: A name that no model of the study has, or a length below 1.
    """
    names = sorted(set(models))
    own = dict(given)
    for name, tokens in own.items():
        if name not in {*names, *map(short, names)}:
            known = sorted({short(spec) for spec in names})
            hint = did_you_mean(name, known, f"there are {', '.join(known)}")
            raise UserError(f"--context: the study asks no model {name!r}; {hint}")
        if tokens < 1:
            raise UserError(f"--context of {name} must be 1 or more, not {tokens}")
    return {spec: _context(spec, own.get(spec) or own.get(short(spec))) for spec in names}


def _context(spec: str, given: int | None) -> Context:
    """A model's context; whatever is given of a hosted one, a run goes by what servers tell."""
    if given is None:
        return KNOWN.get(short(spec), UNKNOWN) if spec.startswith(SERVED) else LOADED
    if hosted(spec):
        source = f"given; hosted servers tell none, so a run cuts to {DEFAULT_CONTEXT:,}"
        return Context(given, source, min(given, DEFAULT_CONTEXT))
    return Context(given, "given", given)


def hosted(spec: str) -> bool:
    """Whether somebody else runs the model's server."""
    parts = urlsplit(spec.removeprefix(SERVED).partition("#")[0])
    return spec.startswith(SERVED) and parts.hostname not in LOCAL and parts.scheme != "http"


def servers(
    configs: Iterable[EvalConfig], lengths: Mapping[str, Context], copies: int
) -> list[dict[str, Any]]:
    """One row a served model: what it does, and what starts its server.

    Args:
        configs: All runs.
        lengths: Contexts by model.
        copies: Copies of an executor behind one address.
    """
    uses: dict[str, set[str]] = {}
    tools, thinks = set(), set()
    for config in configs:
        for spec in model_names(config):
            uses.setdefault(spec, set()).update(roles_of_model(config, spec))
        if config.act == "tools":
            tools.add(config.model)
            if config.thinking:
                thinks.add(config.model)
        if config.user_model:
            tools.add(config.user_model)
    return [
        {"model": short(spec), "for": ", ".join(sorted(uses[spec])), "context": lengths[spec].tokens}
        | {
            "start": _start(
                spec, lengths[spec], spec in tools, spec in thinks, copies if "executor" in uses[spec] else 1
            )
        }
        for spec in sorted(uses)
        if spec.startswith(SERVED)
    ]


def roles_of_model(config: EvalConfig, spec: str) -> set[str]:
    """What a model does in a run, at most."""
    named = {
        "executor": config.model,
        "curator or writer": config.curator_model or config.model,
        "judge": config.judge_model or config.model,
        "user": config.user_model,
    }
    if config.memory in ("none", "raw", "oracle"):
        del named["curator or writer"]
    return {role for role, model in named.items() if model == spec}


def _start(spec: str, context: Context, tools: bool, thinks: bool, copies: int) -> str:
    """The command of a server of one's own, or which key a hosted one takes."""
    at = Endpoint.parse(spec.removeprefix(SERVED))
    if hosted(spec):
        return f"hosted: a key in {at.variable} or OPENAI_API_KEY"
    words = ["jitmem", "serve-model", _CHECKPOINTS.get(at.model, at.model)]
    words += ["--name", at.model] if at.model in _CHECKPOINTS else []
    words += ["--port", str(urlsplit(at.url).port or 80)]
    words += [] if context.tokens is None else ["--max-model-len", str(context.tokens)]
    words += ["--tool-parser", "hermes" if tools else "none"]
    behind = ["--data-parallel-size", str(copies)] if copies > 1 else []
    # think blocks are read from the text; only calls of tools must not be looked for in them
    behind += ["--reasoning-parser", "qwen3"] if thinks else []
    return shlex.join([*words, *(["--", *behind] if behind else [])])
