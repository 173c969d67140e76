"""How large the study is: which models have which role, what is played, how long it takes."""

from __future__ import annotations

from typing import Any, NamedTuple


class World(NamedTuple):
    """What is played of one benchmark."""

    fixed: dict[str, Any]
    """Parameters of every run on it."""
    splits: tuple[str, ...]
    """Splits; of several, those that have no data are not taken where `either`."""
    orders: int
    """Orders of the parts that are played in all of them."""
    few: int = 1
    """Orders of the other parts."""
    few_games: int | None = None
    """Games of the other parts at most; None takes as many as in the first."""
    either: bool = False
    """Whether the splits are alternatives, the first with data being taken."""


class Size(NamedTuple):
    """A size of the study."""

    name: str
    """smoke, mini, overnight or paper."""
    says: str
    """For whom, and how long on what."""
    preset: str
    """Evaluation preset of every run."""
    roles: dict[str, str]
    """Models by role: executor, curator, writer, second, third, strong. `trained` and `refreshed` come from
    the training, unless they stand here. `ROLE-BENCHMARK` goes before `ROLE` on that benchmark."""
    worlds: dict[str, World]
    """Benchmarks."""
    training: dict[str, Any] | None
    """Parameters of `TrainConfig`; None trains nothing here."""
    refresh: dict[str, Any] | None
    """`games` and `steps` of the staged refresh; None does without."""
    leaves_out: dict[str, str]
    """Parts, rows (`part/row`) or a part's benchmarks (`part on benchmark`) that are not run, and why."""
    rows: dict[str, dict[str, Any]] = {}  # noqa: RUF012  (never written to)
    """Parameters of single rows, by `part/row`, that the size changes."""
    threats: tuple[str, ...] = ()
    """What weakens its figures, beside what the runs' cards say."""


_POCKET = {
    "executor": "pocket",
    "curator": "pocket:curator",
    "writer": "pocket:writer",
    "second": "pocket:executor2",
    "third": "smol",
}
_SMALL = (
    "the pocket executor was fitted on single payloads for the very room: several procedures, lessons, "
    "skills, workflows and rules are forms that it never saw, which may hold write-time systems and raw "
    "traces back",
    "pocket:writer, fitted on walkthroughs of the train split, copies weakly (its model card says how much)",
    "the curator was fitted on the train split before training, so that it knows where things often lie: "
    "compare its rows without traces (table 9) before anything is said for the bank",
    "one training, of one seed",
)
_NO_CHAT = "the pocket models read no instructions, so they cannot judge, distil or be asked in chat"
_THIRD = tuple(f"table_3/third: {row}" for row in ("none", "jitmem", "trained"))
_POCKET_OUT = {
    "table_2": "the pocket models know ALFWorld's words only",
    "table_1/jitmem strong": "there is no larger curator here",
    "table_9/judge": _NO_CHAT,
    "table_9/distilled": _NO_CHAT,
}

SMOKE = Size(
    "smoke",
    "minutes: whether all of it works; its figures mean nothing",
    "pocket",
    _POCKET,
    {"alfworld": World({"games": 3, "batch_size": 2, "warm_start": 4}, ("generated_test",), 2)},
    {
        "preset": "pocket",
        "split": "generated_train",
        "tasks": 8,
        "bank_size": 6,
        "steps": 2,
        "prompts": 2,
        "group": 2,
        "micro_batch": 4,
        "heldout_games": 2,
        "heldout_every": 2,
        "save_every": 2,
        "warmup": 1,
    },
    None,
    _POCKET_OUT | dict.fromkeys((*_THIRD, "table_5/refreshed, cold"), "too slow for a smoke test"),
    {"table_5/trained, warm": {"warm_start": 6}},
    _SMALL,
)
MINI = Size(
    "mini",
    "two cores: pocket models, ALFWorld's own games where found; about an hour",
    "pocket",
    _POCKET,
    {"alfworld": World({"warm_start": 100}, ("valid_seen", "generated_test"), 3, 1, 60, either=True)},
    {"preset": "pocket"},
    {"games": 100, "steps": 6},
    _POCKET_OUT,
    {row: {"games": 10} for row in _THIRD},
    _SMALL,
)
_SMOL = {"executor": "smol", "curator": "smol", "writer": "smol", "second": "pocket"}
OVERNIGHT = Size(
    "overnight",
    "two cores: the embedded instruct model does everything; meant for a night, not timed yet",
    "small",
    _SMOL,
    {
        "alfworld": World({"games": 30}, ("valid_seen", "generated_test"), 3, either=True),
        "webshop": World({"games": 20}, ("small_test", "generated_test"), 1, either=True),
        "tau2": World({"games": 10}, ("telecom_solo_small",), 1),
    },
    {"preset": "smol"},
    None,
    {
        "table_1/jitmem strong": "there is no larger curator here",
        "table_2/jitmem strong": "there is no larger curator here",
        "table_5/refreshed, cold": "a second night",
        "table_5 on webshop": "no curator is trained on it in one night",
        "table_8 on webshop": "no curator is trained on it in one night",
        **dict.fromkeys(_THIRD, "there is no third executor here"),
    },
)
_QWEN = "openai:http://127.0.0.1:8000/v1#Qwen/Qwen3-8B"
_GPT = "openai:https://api.openai.com/v1#gpt-5.4"
_HOSTED_ACTS: dict[str, Any] = {"thinking": None, "judge_thinking": None, "judge_max_tokens": 4096}
"""A hosted executor, which judges too: it takes no switch for thinking, and what it thinks counts as written,
so a verdict of 512 tokens may be left empty."""
_HOSTED_CURATES: dict[str, Any] = {
    "curator_temperature": 1.0,
    "curator_top_p": 1.0,
    "curator_top_k": 0,
    "curator_thinking": None,
    "curator_max_tokens": 8192,
}
"""Published: hosted curators at temperature 1. Thinking counts: 8,192 tokens as in the authors' code."""
_HOSTED_WRITES: dict[str, Any] = {
    "curator_model": "@strong",
    "curator_thinking": None,
    "writer_max_tokens": 8192,
}
"""A hosted model writes, as in the paper's table 2."""
PAPER = Size(
    "paper",
    "served models on GPUs, by `jitmem train recipes`; tokens, price and hours by `jitmem study dry`",
    "paper",
    {
        "executor": _QWEN,
        "curator": _QWEN,
        "writer": _QWEN,
        "trained": "openai:http://127.0.0.1:8001/v1#jitmem-curator",
        "refreshed": "openai:http://127.0.0.1:8002/v1#jitmem-curator-refreshed",
        "trained-webshop": "openai:http://127.0.0.1:8003/v1#jitmem-curator-webshop",
        "refreshed-webshop": "openai:http://127.0.0.1:8004/v1#jitmem-curator-webshop-refreshed",
        "strong": _GPT,
        "second": _GPT,
        "third": "openai:https://generativelanguage.googleapis.com/v1beta/openai#gemini-2.5-pro",
    },
    {
        "alfworld": World({}, ("valid_seen",), 3, 3),
        "webshop": World({"games": 500}, ("full_test",), 3, 3),
        "tau2": World(
            {"model": "@second", "user_model": _GPT} | _HOSTED_ACTS, ("airline", "retail", "telecom"), 4
        ),
    },
    {"preset": "paper"},
    {"games": None, "steps": 50},
    {},
    {
        "table_1/jitmem strong": _HOSTED_CURATES,
        "table_2/jitmem strong": _HOSTED_CURATES,
        "table_2/reasoningbank": _HOSTED_WRITES,
        "table_2/skillos": _HOSTED_WRITES,
        **{
            f"table_3/{executor}: {row}": _HOSTED_ACTS
            for executor in ("second", "third")
            for row in ("none", "jitmem", "trained")
        },
    },
)
SIZES: dict[str, Size] = {size.name: size for size in (SMOKE, MINI, OVERNIGHT, PAPER)}
"""Sizes by name."""
