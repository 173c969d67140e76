"""What the study asks: the paper's tables and our controls, each as rows of few parameters.

A value that begins with `@` is a role (`@trained`, `@second`): which model has it, the size says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ..ablations import ROWS as ABLATIONS


class Asked(NamedTuple):
    """One row of a part."""

    parameters: dict[str, Any]
    """Parameters of `EvalConfig`, beside what the size fixes."""
    published: str = ""
    """The paper's name of the row that may stand beside."""


class Part(NamedTuple):
    """A table or figure."""

    name: str
    """Name of its files and parameters."""
    title: str
    """Its heading."""
    source: str
    """Where the paper has it, or that it hasn't."""
    says: str
    """What it shows, and how it is read."""
    rows: dict[str, Asked]
    """Rows by label."""
    base: str = "none"
    """The row that the others are compared with."""
    benchmarks: tuple[str, ...] = ("alfworld",)
    """Where it is played."""
    main: bool = False
    """Whether it is played in all orders of the size; others in the first ones only."""


NONE = Asked({"memory": "none"}, "No memory")
RAW = Asked({"memory": "raw", "k": 1})
UNTRAINED = Asked({"memory": "jitmem", "curator_model": "@curator"}, "JitMem-base (Qwen)")
TRAINED = Asked({"memory": "jitmem", "curator_model": "@trained"}, "JitMem (trained Qwen)")
STRONG = Asked({"memory": "jitmem", "curator_model": "@strong"})
ORACLE = Asked({"memory": "oracle"})
WRITTEN: dict[str, Asked] = {
    "reasoningbank": Asked({"memory": "reasoningbank", "curator_model": "@writer"}, "ReasoningBank (Qwen)"),
    "memp": Asked({"memory": "memp", "curator_model": "@writer"}, "MemP (Qwen)"),
    "skillos": Asked({"memory": "skillos", "curator_model": "@writer"}, "SkillOS-base (Qwen)"),
    "awm": Asked({"memory": "awm", "curator_model": "@writer"}),
    "expel": Asked({"memory": "expel", "curator_model": "@writer"}),
}
"""Systems that write before the next task is known."""


def _ablation(*names: str) -> dict[str, Asked]:
    """Rows of the ablations, with the untrained curator; the paper's rows of trained ones are no company."""
    return {
        name: Asked(
            {"memory": "jitmem", "curator_model": "@curator"} | ABLATIONS[name].parameters,
            ABLATIONS[name].published if "untrained" in ABLATIONS[name].published else "",
        )
        for name in names
    }


_BOTH = ("alfworld", "webshop")
_TRAINED = TRAINED.parameters

PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        Part(
            "table_1",
            "Every memory on the same tasks",
            "table 1",
            "Success over the stream, mean over orders. The paper's ordering is trained JitMem, JitMem, the "
            "best write-time system, none.",
            {
                "none": NONE,
                **WRITTEN,
                "jitmem": UNTRAINED,
                "jitmem trained": TRAINED,
                "jitmem strong": STRONG,
            },
            benchmarks=_BOTH,
            main=True,
        ),
        Part(
            "table_2",
            "Conversations with a user and tools",
            "table 2",
            "Success by domain; nothing is trained here, as in the paper.",
            {
                "none": Asked(NONE.parameters),
                "reasoningbank": WRITTEN["reasoningbank"]._replace(published="ReasoningBank-gpt"),
                "skillos": WRITTEN["skillos"]._replace(published="SkillOS-gpt"),
                "jitmem": UNTRAINED._replace(published="JitMem-base (Qwen)"),
                "jitmem strong": STRONG._replace(published="JitMem-gpt"),
            },
            benchmarks=("tau2",),
            main=True,
        ),
        Part(
            "table_3",
            "A curator trained with one executor, used by another",
            "table 3",
            "The curator was trained on the first executor's reward; here others act on its payloads. Each "
            "executor is compared with itself.",
            {
                "second: none": Asked({"memory": "none", "model": "@second"}),
                "second: jitmem": Asked(
                    UNTRAINED.parameters | {"model": "@second"}, "JitMem-base (untrained)"
                ),
                "second: trained": Asked(_TRAINED | {"model": "@second"}, "trained with Qwen3-8B executor"),
                "third: none": Asked({"memory": "none", "model": "@third"}),
                "third: jitmem": Asked(UNTRAINED.parameters | {"model": "@third"}),
                "third: trained": Asked(_TRAINED | {"model": "@third"}),
            },
            base="jitmem",
        ),
        Part(
            "table_5",
            "What the bank begins with, and a refreshed one",
            "table 5",
            "The trained curator from an empty bank and from demonstrations; and trained further over a bank "
            "that was rebuilt with it.",
            {
                "trained, cold": Asked(_TRAINED | {"warm_start": 0}, "JitMem (trained)"),
                "trained, warm": Asked(_TRAINED | {"warm_start": 100}, "warm start of 100"),
                "refreshed, cold": Asked(
                    _TRAINED | {"warm_start": 0, "curator_model": "@refreshed"}, "staged refresh"
                ),
            },
            base="trained, cold",
            benchmarks=_BOTH,
        ),
        Part(
            "table_8",
            "How many traces",
            "table 8",
            "The trained curator with one, three and five traces.",
            {
                "k = 1": Asked(_TRAINED | {"k": 1}),
                "k = 3": Asked(_TRAINED | {"k": 3}, "JitMem (trained), k = 3"),
                "k = 5": Asked(_TRAINED | {"k": 5}, "JitMem (trained), k = 5"),
            },
            base="k = 3",
            benchmarks=_BOTH,
        ),
        Part(
            "table_9",
            "Ablations",
            "table 9",
            "The untrained curator with one thing changed, and the trained one without traces. In the paper "
            "most of these rows are curators that were trained so; here the change comes after training.",
            {
                "jitmem": Asked(UNTRAINED.parameters),
                **_ablation("judge", "all+labels", "distilled", "untold", "empty"),
                "trained, empty": Asked(
                    _TRAINED | {"retrieval": "empty"}, "trained without retrieved traces"
                ),
            },
            base="jitmem",
        ),
        Part(
            "controls",
            "Controls and floors",
            "not in the paper",
            "Whether it is the payload for this very task that helps: traces without a curator, traces of "
            "other tasks, a payload made for another task, and the benchmark's own solution as ceiling.",
            {
                "none": Asked(NONE.parameters),
                "raw, k = 1": RAW,
                "raw, k = 3": Asked({"memory": "raw", "k": 3}),
                "oracle": ORACLE,
                **_ablation("another", "random", "shuffled", "own_type", "other_type"),
            },
        ),
    )
}
"""Tables by name. Table 4 (efficiency) and the figures are read off table 1's runs and the training."""


def roles_of(parameters: Mapping[str, Any]) -> set[str]:
    """The roles that a row names."""
    return {value[1:] for value in parameters.values() if isinstance(value, str) and value.startswith("@")}
