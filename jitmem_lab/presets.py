"""Named sets of parameters, each value with where it comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

PAPER: dict[str, Any] = {
    "act": "write",
    "history": 3,
    "max_steps": None,
    "no_repeat": 0,
    "temperature": 1.0,
    "max_tokens": 4096,
    "batch_size": 10,
    "k": 3,
    "gate": "judge",
    "trace_format": "full",
    "curator_form": "advice",
    "curator_temperature": 0.6,
    "curator_top_p": 0.95,
    "curator_top_k": 20,
    "curator_max_tokens": 4096,
    "curator_thinking": False,
    "judge_form": "json",
    "judge_thinking": False,
    "thinking": True,
    "on_empty": "skip",
    "tokenizer": "whitespace",
    "warm_start": 0,
    "task_key": "told",
    "writer_temperature": None,
    "writer_max_tokens": None,
}
"""The published protocol (window 3, executor temperature 1.0 with 4,096 new tokens, k = 3, batches
of 10, curator sampling 0.6 / 0.95 / 20). Not published, so chosen here: the curator's token limit and the
tokenizer (as in the authors' code), no curator call on an empty bank, the judge at temperature 0 without
thinking. The executor thinks, as the paper's does on ALFWorld."""

AUTHORS_CODE: dict[str, Any] = PAPER | {
    "history": 5,
    "on_empty": "call",
    "gate": "partial",
    "task_key": "scenario",
}
"""As the authors' repositories run it: a window of 5, the curator asked on an empty bank too, any reward
above 0 taken for a success by the bank (so a partial WebShop score is one), and in τ² the user's hidden
scenario as retrieval key, which is a leak."""

SMALL: dict[str, Any] = PAPER | {
    "act": "choose",
    "history": 0,
    "no_repeat": 3,
    "temperature": 0.0,
    "gate": "environment",
    "trace_format": "actions",
    "curator_form": "plan",
    "curator_temperature": 0.0,
    "curator_top_p": 1.0,
    "curator_top_k": 0,
    "curator_max_tokens": 120,
    "curator_thinking": None,
    "judge_form": "choose",
    "judge_thinking": None,
    "thinking": None,
    "tokenizer": "words",
    "warm_start": 100,
    "writer_temperature": 0.0,
    "writer_max_tokens": 160,
}
"""For models of a few hundred million parameters: they choose among the admissible actions by likelihood,
curate by continuing a list, and start from a bank of demonstrations of the train split, since alone they
win too few games to fill one. The gate is the environment: such a model is no judge."""

POCKET: dict[str, Any] = SMALL | {
    "model": "pocket",
    "curator_model": "pocket:curator",  # a write-time memory's is WRITER
    "curator_max_tokens": 110,
    "curator_temperature": 0.6,
    "curator_top_p": 0.95,
    "curator_top_k": 20,
}
"""For the shipped miniature, fitted on ALFWorld only: as `small`, with models of its own, payloads drawn as
in the paper, and 20 turns, so that a payload may name several places to look in."""

WRITER, WRITING = "pocket:writer", ("reasoningbank", "skillos", "memp", "awm", "expel")
"""The miniature's writer, and the write-time memories whose prompts it was fitted on."""

PRESETS: dict[str, dict[str, Any]] = {
    "paper": PAPER,
    "authors-code": AUTHORS_CODE,
    "small": SMALL,
    "pocket": POCKET,
}
"""Presets by name."""

_PAPER: dict[str, dict[str, Any]] = {
    "alfworld": {"max_steps": 30},
    "webshop": {"max_steps": 30, "thinking": False},
    "tau2": {"act": "tools", "max_steps": 200, "batch_size": 5, "thinking": None},
}
BY_BENCHMARK: dict[str, dict[str, dict[str, Any]]] = {
    "paper": _PAPER,
    "authors-code": _PAPER,
    "small": {
        "alfworld": {"max_steps": 15},
        "webshop": {"max_steps": 15},
        "tau2": {"batch_size": 5, "max_steps": 20},
    },
    "pocket": {"alfworld": {"max_steps": 20}},
}
"""What a preset sets otherwise on one benchmark; a limit of turns that is None is the benchmark's own.
Published: 30 turns in ALFWorld and WebShop, 200 and batches of 5 in τ², no thinking in WebShop. τ²'s executor
calls tools and sees the whole conversation, as its official agent does."""


def preset_values(name: str, benchmark: str, memory: str = "none") -> dict[str, Any]:
    """The values of a preset on a benchmark, with a memory system.

    With `small` and `pocket`, a system's variant for small models is taken where it has one; one that asks a
    model about each demonstration gets 10 of them, since a small model takes ten seconds or more for each.
    `pocket` has a writer for most of them (`WRITING`), which takes less than a second: they get as many as
    the others. MemP and Reflexion are published with the environment's own word for success.
    """
    from .memories import parameters, variants

    own: dict[str, Any] = {}
    small = name in ("small", "pocket")
    if small and "small" in variants(memory):
        own["variant"] = "small"
    if name == "pocket" and memory in WRITING:
        own["curator_model"] = WRITER
    elif small and "model" in parameters(memory):
        own["warm_start"] = 10
    if memory in ("memp", "reflexion"):  # published so; the others' writer is told what a judge says
        own["gate"] = "environment"
    return PRESETS[name] | BY_BENCHMARK[name].get(benchmark, {}) | own


def values_of(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the preset of a recorded request gives; empty where the preset or the memory is not known here."""
    from .memories import SYSTEMS

    name, memory = request.get("preset"), request.get("memory")
    if name not in PRESETS or memory not in SYSTEMS:
        return {}
    return preset_values(str(name), str(request.get("benchmark")), str(memory))
