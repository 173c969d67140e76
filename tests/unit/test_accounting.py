"""Costs by role, phase and stage against what the stubs counted, prices, reusable beginnings of prompts."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.accounting import Account, Place, account, cost_rows, ledger, per_task, read_prices
from jitmem_lab.compare_tables import cost_table
from jitmem_lab.comparison import Comparison
from jitmem_lab.curation import Curator
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.execution import Executor
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory
from jitmem_lab.models.cache import cached
from jitmem_lab.prompt_prefixes import prefix_rows, prefix_share, prompt_text
from jitmem_lab.records import Call, Sampling, Usage, to_json
from jitmem_lab.runs import Run
from jitmem_lab.stream import run_stream

from .doubles import ButtonBenchmark, Counting

pytestmark = pytest.mark.unit
ROLES = ("executor", "curator", "judge", "distiller")


def stream(out: Path, models: dict[str, Any], bench: ButtonBenchmark | None = None) -> Run:
    memory = load_memory(
        "jitmem",
        gate="all+labels",
        traces="distilled",
        on_empty="call",
        curator=Curator(models["curator"]),
        distiller=models["distiller"],
    )
    return run_stream(
        bench or ButtonBenchmark(13),
        memory,
        Executor(models["executor"]),
        out=out,
        judge=Judge(models["judge"]),
        batch_size=4,
        concurrency=3,
        progress=False,
    )


def models() -> dict[str, Counting]:
    verdict = {"judge": lambda text, sampling: '{"success": true}'}
    return {role: Counting(role, verdict.get(role)) for role in ROLES}


# By role, phase and stage


def test_every_token_is_in_one_row_of_role_and_phase(tmp_path: Path) -> None:
    by_role = models()
    run = stream(tmp_path / "r", by_role)
    rows = cost_rows(account(run))
    assert [(r["stage"], r["role"], r["phase"]) for r in rows] == [
        ("episode", "curator", "recall"),
        ("episode", "executor", "act"),
        ("episode", "judge", "judge"),
        ("write", "distiller", "write"),
    ]
    for row in rows:
        spent = by_role[row["role"]].spent
        assert row["model"] == row["role"]
        assert (row["calls"], row["prompt_tokens"]) == (spent.calls, spent.prompt_tokens)
        assert (row["completion_tokens"], row["cached_calls"]) == (spent.completion_tokens, 0)
        assert row["price"] is row["paid"] is None


def test_lost_attempts_late_verdicts_and_the_warm_start_are_told_apart(tmp_path: Path) -> None:
    by_role = models()
    down, broken = [True], {"b1", "b6"}

    def judge(text: str, sampling: Sampling) -> str:
        if down[0] and "room 4" in text:
            raise InfrastructureError("status 503")
        return '{"success": true}'

    def late(text: str, sampling: Sampling) -> str:
        if down[0] and "room 5" in text:
            raise InfrastructureError("status 503")
        return "<action>press red</action>"

    by_role["judge"].rule, by_role["executor"].rule = judge, late
    bench = ButtonBenchmark(13, broken=lambda task: task.task_id in broken)
    stream(tmp_path / "r", by_role, bench)
    down[0] = False
    broken.clear()
    run = stream(tmp_path / "r", by_role, bench)
    warm = Call(
        role="distiller", phase="write", model="distiller", messages=(), usage=Usage(prompt_tokens=70)
    )
    with (run.path / "writes.jsonl").open("a") as file:
        file.write(to_json({"key": "warm", "calls": [warm.model_dump()]}) + "\n")
    stages = [entry.stage for entry in ledger(run)]
    assert stages[0] == "warm"
    lost = [e.call for e in ledger(run) if e.stage == "lost"]
    assert {"room 5" in prompt_text(call) for call in lost if call.role != "judge"} == {True}
    assert {call.role for call in lost} == {"curator", "executor", "judge"}
    judged = [r for r in cost_rows(account(run)) if r["role"] == "judge"]
    assert {r["phase"] for r in judged} == {"judge"}
    assert [(r["stage"], r["calls"]) for r in judged] == [("episode", 12), ("lost", 0), ("write", 1)]
    assert sum(r["calls"] for r in judged) == by_role["judge"].spent.calls == 13
    assert ("warm", "distiller", "write") in {
        (r["stage"], r["role"], r["phase"]) for r in cost_rows(account(run))
    }
    figures = per_task(account(run))
    assert figures["warm_k"] == 0.07
    assert figures["lost_k"] == pytest.approx(
        sum(c.usage.prompt_tokens + c.usage.completion_tokens for c in lost) / 1000
    )
    total = sum(m.spent.prompt_tokens for m in by_role.values()) - sum(c.usage.prompt_tokens for c in lost)
    assert figures["all_input_k"] * 13 * 1000 == pytest.approx(total)


def test_what_a_failed_write_cost_is_lost_and_in_no_tasks_figures(tmp_path: Path) -> None:
    by_role, down = models(), [True]

    def judge(text: str, sampling: Sampling) -> str:
        if down[0]:
            raise InfrastructureError("status 503")
        return '{"success": true}'

    def distiller(text: str, sampling: Sampling) -> str:
        if down[0] and text in said:
            raise InfrastructureError("status 503")
        said.append(text)
        return "Look first."

    said: list[str] = []
    by_role["judge"].rule, by_role["distiller"].rule = judge, distiller
    stream(tmp_path / "r", by_role, ButtonBenchmark(3))  # nothing is written: there is no verdict
    down[0] = False
    run = stream(tmp_path / "r", by_role, ButtonBenchmark(3))
    whole = per_task(account(run))
    lines = [json.loads(line) for line in (run.path / "writes.jsonl").read_text().splitlines()]
    assert [bool(line.get("error")) for line in lines] == [True] * 3 + [False] * 3
    spent = by_role["distiller"].spent
    lines[0]["calls"] = lines[-1]["calls"]  # as if the store had failed after the answers
    (run.path / "writes.jsonl").write_text("".join(to_json(line) + "\n" for line in lines))
    figures = per_task(account(run))
    paid = [call["usage"] for call in lines[0]["calls"]]
    assert spent.calls == 3
    assert figures["lost_k"] == sum(u["prompt_tokens"] + u["completion_tokens"] for u in paid) / 1000 > 0
    assert figures | {"lost_k": 0} == whole | {"lost_k": 0}


def test_per_task_is_the_mean_over_finished_episodes(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(13, broken=lambda task: task.task_id == "b2"))
    episodes = [json.loads(line) for line in (run.path / "episodes.jsonl").read_text().splitlines()]
    finished = [e for e in episodes if e["outcome"] != "error"]
    assert len(finished) == 12
    acted = [c["usage"] for e in finished for c in e["calls"] if c["role"] == "executor"]
    figures = per_task(account(run))
    assert account(run).episodes == 12
    assert figures["executor_input_k"] == pytest.approx(sum(u["prompt_tokens"] for u in acted) / 12000)
    assert figures["executor_output_k"] == pytest.approx(sum(u["completion_tokens"] for u in acted) / 12000)
    assert figures["steps"] == sum(len(e["trajectory"]["steps"]) for e in finished) / 12
    assert figures["all_input_k"] > figures["executor_input_k"]
    assert figures["price"] is None


def test_a_run_without_episodes_has_no_figures(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(2, broken=lambda task: True))
    figures = per_task(account(run), read_prices({"executor": {"prompt": 1, "completion": 1}}))
    assert account(run).episodes == 0
    assert figures["steps"] is figures["executor_input_k"] is figures["price"] is None


def test_who_was_asked_is_told_where_no_episode_finished(tmp_path: Path) -> None:
    by_role = models()

    def executor(text: str, sampling: Sampling) -> str:
        raise InfrastructureError("status 503")

    by_role["executor"].rule = executor
    run = stream(tmp_path / "r", by_role, ButtonBenchmark(2))
    frame = cost_table(Comparison.of({"mine": [run]}))
    assert frame[["stage", "role"]].to_numpy().tolist() == [["lost", "curator"], ["lost", "executor"]]
    assert frame[["calls", "prompt_tokens", "price"]].isna().to_numpy().all()


def test_answers_from_a_cache_count_as_tokens_but_are_not_paid(tmp_path: Path) -> None:
    prices = read_prices({role: {"prompt": 2.0, "completion": 8.0} for role in ROLES})

    def run(name: str) -> Run:
        by_role = {role: cached(model, tmp_path / "answers.sqlite") for role, model in models().items()}
        made = stream(tmp_path / name, by_role)
        for model in by_role.values():
            model.close()
        return made

    first, second = cost_rows(account(run("a")), prices), cost_rows(account(run("b")), prices)
    for before, after in zip(first, second, strict=True):
        assert after["calls"] == after["cached_calls"] == before["calls"] > before["cached_calls"]
        assert after["paid"] == 0
        assert after["price"] == pytest.approx(before["price"])
        tokens = before["prompt_tokens"] * 2 + before["completion_tokens"] * 8
        assert before["price"] == pytest.approx(tokens / 1e6)
        assert 0 < before["paid"] <= before["price"]


# Prices


def spent(**asked: int) -> Account:
    """An account of one episode: so many tokens read of each model."""
    names = {"served": "openai:http://127.0.0.1:8000/v1#Qwen/Qwen3-8B", "hf": "hf:/models/x"}
    usage = {
        Place(
            "episode",
            "embedder" if name == "wordllama" else "executor",
            "act",
            names.get(name, name),
            cached=name == "cached",
        ): Usage(calls=1, prompt_tokens=tokens)
        for name, tokens in asked.items()
    }
    return Account(usage, episodes=1, steps=1)


PRICED = {"Qwen/Qwen3-8B": {"prompt": 0.2, "completion": 0.6}}


def test_a_model_is_priced_by_its_whole_name_or_by_what_follows_the_mark(tmp_path: Path) -> None:
    file = tmp_path / "prices.json"
    file.write_text(json.dumps(PRICED | {"smol": {"prompt": 0, "completion": 0}}))
    prices = read_prices(file)
    assert per_task(spent(served=10**6), prices)["price"] == pytest.approx(0.2)
    assert per_task(spent(smol=10**6), prices)["price"] == 0.0
    assert per_task(spent(served=1, other=1), prices)["price"] is None, "a price for a part would mislead"
    assert per_task(spent(served=10**6, other=0), prices)["price"] == pytest.approx(0.2)
    assert read_prices("") == read_prices(None) == {}


def test_a_model_in_the_process_without_a_price_leaves_a_servers_price_as_it_is() -> None:
    prices = read_prices(PRICED)
    for local in ("wordllama", "smol", "hf"):
        found = spent(**{"served": 10**6, local: 10**6})
        assert per_task(found, prices)["price"] == pytest.approx(0.2)
        assert [row["price"] for row in cost_rows(found, prices)].count(None) == 1
        assert per_task(spent(**{local: 10**6}), prices)["price"] is None, "nothing in it has a price"
    assert per_task(spent(smol=0), prices)["price"] == 0.0


def test_what_embedders_read_is_no_token_of_a_model_that_writes() -> None:
    found = per_task(spent(served=3000, wordllama=500))
    assert (found["all_input_k"], found["embedded_k"], found["calls"]) == (3.0, 0.5, 1)


@pytest.mark.parametrize(
    "table",
    [
        {"m": 3},
        {"m": {"prompt": 1}},
        {"m": {"prompt": 1, "completion": -1}},
        {"m": {"prompt": "1", "completion": 1}},
        {"m": {"prompt": float("nan"), "completion": 1}},
        {"m": {"prompt": True, "completion": 1}},
        {"m": {"prompt": 1, "completion": 1, "cache": 1}},
    ],
)
def test_a_wrong_price_is_one_sentence(table: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="price of m must be two numbers"):
        read_prices(table)


@pytest.mark.parametrize("text", ["", "[1]", "{", None])
def test_an_unreadable_price_file_is_one_sentence(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "p.json").write_text(text)
    with pytest.raises(UserError, match="prices"):
        read_prices(tmp_path / "p.json")


# Reusable beginnings


def longest_common(prompts: list[str]) -> int:
    """By the definition: the longest beginning that any earlier prompt has too."""

    def common(old: str, new: str) -> int:
        return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))))

    return sum(max((common(old, new) for old in prompts[:i]), default=0) for i, new in enumerate(prompts))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text("ab\ud83d", max_size=12), max_size=12))
def test_one_character_a_block_is_the_longest_common_beginning(prompts: list[str]) -> None:
    found = prefix_share(prompts, block=1)
    assert found.reusable == longest_common(prompts)
    assert found.characters == sum(map(len, prompts))
    assert found.prompts == len(prompts)
    whole = prefix_share(prompts, block=4)
    assert whole.reusable % 4 == 0
    assert found.reusable - 4 * len(prompts) <= whole.reusable <= found.reusable


def test_the_share_of_nothing_is_zero() -> None:
    assert prefix_share([]).share == 0
    assert prefix_share([""]).share == 0
    assert prefix_share(["x" * 640] * 2).share == 0.5


def test_blocks_are_known_by_all_that_stands_before_them() -> None:
    a, b, c = "a" * 64, "b" * 64, "c" * 64
    assert prefix_share([a + b, c + b]).reusable == 0
    assert prefix_share([a + b, a + c, a + b + c]).reusable == 64 + 128


def test_the_rows_of_a_run_share_one_cache_a_model(tmp_path: Path) -> None:
    by_role = models()
    run = stream(tmp_path / "r", by_role)
    rows = prefix_rows(run)
    assert [row["role"] for row in rows if row["role"] != "all"] == [
        "curator",
        "distiller",
        "executor",
        "judge",
    ]
    for row in rows:
        prompts = [prompt_text(e.call) for e in ledger(run) if e.call.model == row["model"]]
        assert row["prompts"] == len(prompts)
        assert row["reusable"] == prefix_share(prompts).reusable
        assert 0 < row["share"] < 1
    for model in by_role.values():
        model.name = "one"
    run = stream(tmp_path / "one", by_role)
    (whole,) = [row for row in prefix_rows(run) if row["role"] == "all"]
    assert whole["reusable"] == sum(row["reusable"] for row in prefix_rows(run) if row["role"] != "all")
    assert whole["characters"] == sum(len(prompt_text(e.call)) for e in ledger(run))
