"""A study run dry: what is estimated against hand arithmetic, what is told of runs that are not possible."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab import data, evaluation
from jitmem_lab.cli import _run
from jitmem_lab.errors import UserError
from jitmem_lab.published import CELLS
from jitmem_lab.study import dry
from jitmem_lab.study.dry_batches import batch_of, kinds
from jitmem_lab.study.dry_servers import contexts, servers
from jitmem_lab.study.plan import make_plan
from jitmem_lab.sweeping import cells as sweep_cells

from .compared import Model, World
from .stub_server import Say, stub_server

pytestmark = pytest.mark.unit
QWEN = "openai:http://127.0.0.1:8000/v1#Qwen/Qwen3-8B"
EMBEDS = "some systems find by meaning, which needs the extra `dense`"
GPT = "openai:https://api.openai.com/v1#gpt-5.4"


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    """Button worlds in place of benchmarks; WebShop's full set is missing."""

    def bench(name: str, split: str | None = None, **_: Any) -> World:
        return World(name, str(split), 30, set(), name == "webshop")

    rows = [{"benchmark": "webshop", "split": "full_test", "found": False, "note": "get it"}]
    monkeypatch.setattr(evaluation, "load_benchmark", bench)
    monkeypatch.setattr(data, "report", lambda: rows)


def run(*options: str) -> int:
    return _run(["study", "dry", *options])


def test_every_run_of_the_papers_size_is_possible(world: None, tmp_path: Path) -> None:
    pytest.importorskip("tokenizers", reason=EMBEDS)
    plan = make_plan("paper", tmp_path)
    found = dry.run_dry(plan)
    assert found["failed"] == []
    assert len(found["cells"]) == len(plan.all_cells)
    states = {(cell["split"], cell["state"], cell["tasks"]) for cell in found["cells"]}
    assert states == {
        ("alfworld valid_seen", "ok", 30),
        ("webshop full_test", "data missing", 500),
        *((f"tau2 {domain}", "ok", 30) for domain in ("airline", "retail", "telecom")),
    }
    assert all(row["verdict"] != "too long" for row in found["roles"])
    assert sum(row["runs"] for row in found["parts"]) == len(plan.all_cells)
    for name in ("calls", "prompt", "completion"):
        for end in (0, 1):
            models, parts = (sum(row[name][end] for row in found[of]) for of in ("models", "parts"))
            assert models == pytest.approx(parts, rel=1e-6)
    for cell in found["cells"]:
        for role in cell["roles"]:
            assert all(role[name][0] <= role[name][1] for name in ("calls", "prompt", "completion")), role


def test_tokens_by_hand(world: None, tmp_path: Path) -> None:
    plan = make_plan("paper", tmp_path, parts=["table_8"], orders=1)
    found = dry.run_dry(plan)
    cell = next(one for one in found["cells"] if one["cell"] == "alfworld-valid_seen-jitmem_trained-order0")
    executor, curator, judge = cell["roles"]
    # table 4, trained: 9.8 K read and .87 K written a task in 11.6 steps
    assert executor["calls"] == [pytest.approx(30 * 11.6), 30 * 30]
    assert executor["prompt"][0] == pytest.approx(30 * 9800)
    assert executor["completion"] == [pytest.approx(30 * 870), 30 * 30 * 4096]
    # the first ten tasks find nothing; 4,096 tokens of 40,960 are kept for the payload
    assert curator["calls"] == [20, 30]
    assert curator["model"] == "jitmem-curator"
    assert curator["completion"] == [20 * 500, 30 * 4096]
    assert curator["prompt"][1] == 30 * (40_960 - 4096)
    assert curator["prompt"][0] > 20 * 6000
    assert judge["calls"] == [30, 30]
    assert judge["completion"] == [30 * 60, 30 * 512]
    shop = next(one for one in found["cells"] if one["cell"].startswith("webshop-full_test-jitmem_trained"))
    assert shop["roles"][0]["calls"] == [500 * 1, 500 * 30]  # the world's solution is one action
    assert "data missing: get it" in shop["says"]


def test_prices_and_hours(world: None, tmp_path: Path) -> None:
    plan = make_plan("paper", tmp_path, parts=["table_3"], orders=1)
    prices = {"gpt-5.4": {"prompt": 2.0, "completion": 10.0}}
    found = dry.run_dry(plan, prices=prices, tokens_per_second=1000.0)
    models = {row["model"]: row for row in found["models"]}
    gpt, own = models["gpt-5.4"], models["jitmem-curator"]
    for end in (0, 1):
        dollars = (2 * gpt["prompt"][end] + 10 * gpt["completion"][end]) / 1e6
        assert gpt["price"][end] == pytest.approx(dollars, abs=0.01)
        seconds = (own["completion"][end] + own["prompt"][end] * 2200 / 9000) / 1000
        assert own["hours"][end] == pytest.approx(seconds / 3600, abs=0.01)
    assert (gpt["hours"], own["price"]) == (None, None)
    parts = {row["part"]: row["price"] for row in found["parts"]}
    assert parts == {"table_3": None}  # other models of it have none


def test_a_run_that_is_not_possible_is_told_with_it(
    world: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tokenizers", reason=EMBEDS)
    where = ("--size", "paper", "-o", str(tmp_path / "s"), "--part", "table_1", "--orders", "1")
    assert run(*where, "--role", "strong", "nonsense:model", "--json") == 2
    assert "nonsense" in capsys.readouterr().err
    assert run(*where, "--context", "Qwen/Qwen3-8B", "4096") == 1
    text = capsys.readouterr().out
    assert "leaves no room" in text
    assert run(*where) == 0
    text = capsys.readouterr().out
    assert "--max-model-len 40960 --tool-parser none -- --data-parallel-size 4" in text
    assert "data missing: get it" in text
    assert not (tmp_path / "s").exists()
    assert run(*where, "--tokens-per-second", "0") == 2
    assert run(*where, "--context", "qwen", "4096") == 2


def test_contexts_and_what_a_run_goes_by() -> None:
    found = contexts([("gpt-5.4", 100_000)], [QWEN, GPT, "smol", "openai:http://127.0.0.1:1/v1#x"])
    assert (found[QWEN].tokens, found[QWEN].used) == (40_960, 40_960)
    assert (found[GPT].tokens, found[GPT].used) == (100_000, 32_768)
    assert found["smol"].tokens is found["openai:http://127.0.0.1:1/v1#x"].tokens is None
    assert contexts([(QWEN, 9000)], [QWEN])[QWEN].used == 9000
    with pytest.raises(UserError, match="must be 1 or more"):
        contexts([(QWEN, 0)], [QWEN])


@pytest.mark.parametrize(
    ("thinking", "behind"),
    [(None, ""), (False, ""), (True, " --reasoning-parser qwen3")],
)
def test_a_model_that_calls_tools_is_served_with_a_parser(thinking: bool | None, behind: str) -> None:
    config = evaluation.EvalConfig.make(
        preset="paper", benchmark="tau2", split="airline", memory="none", model=QWEN, thinking=thinking
    )
    (row,) = servers([config], contexts([], [QWEN]), 2)
    assert row["for"] == "executor, judge"
    assert row["start"] == (
        "jitmem serve-model Qwen/Qwen3-8B --port 8000 --max-model-len 40960 --tool-parser hermes "
        f"-- --data-parallel-size 2{behind}"
    )


def test_kinds_and_their_batches(tmp_path: Path) -> None:
    cells = make_plan("paper", tmp_path).cells()
    chosen = kinds([(cell, None) for cell in cells])
    assert len({cell.row for cell, _ in chosen}) == len({cell.row for cell in cells})
    assert {cell.config.order for cell, _ in chosen} == {0}
    warm = next(cell for cell, _ in chosen if cell.config.warm_start)
    request = batch_of(warm, "http://127.0.0.1:9/v1", 4, 3, "generated_test")
    config = evaluation.EvalConfig.make(**request)
    assert (config.games, config.batch_size, config.max_steps, config.warm_start) == (4, 3, 4, 2)
    assert config.model == "openai:http://127.0.0.1:9/v1#Qwen/Qwen3-8B"
    assert config.curator_model == "openai:http://127.0.0.1:9/v1#jitmem-curator"
    assert (config.split, config.on_empty) == ("generated_test", "call")


def test_a_server_that_refuses_is_told_for_each_batch(
    world: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ("--size", "paper", "-o", str(tmp_path / "s"), "--part", "table_8", "--batch", "1")
    with stub_server(Say("no such model", status=404)) as server:
        assert run(*where, "--server", server.url, "--batches", str(tmp_path / "b"), "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert len(found["batches"]) == len(found["failed"]) == 6
    assert all("no such model" in row["error"] for row in found["batches"])
    assert run(*where, "--server", "http://127.0.0.1:1/v1#x") == 2
    assert run(*where, "--server", "nowhere") == 2


def test_batches_are_played_with_the_models_by_their_names(
    world: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def load(spec: str, **_: Any) -> Model:
        asked.append(spec)
        return Model(spec)

    monkeypatch.setattr(sweep_cells, "load_model", load)
    plan = make_plan("paper", tmp_path, parts=["table_8"])
    found = dry.run_dry(plan, server="http://127.0.0.1:9/v1", batch=2, out=tmp_path / "b")
    assert found["failed"] == []
    assert {spec.partition("#")[0] for spec in asked} == {"openai:http://127.0.0.1:9/v1"}
    assert [row["episodes"] for row in found["batches"]] == [3] * 6
    assert {row["split"] for row in found["batches"]} == {"valid_seen", "generated_test"}
    assert all("curator 3" in row["asked"] for row in found["batches"])


def test_the_papers_size_asks_as_published(tmp_path: Path) -> None:
    plan = make_plan("paper", tmp_path)
    by_label = {(cell.row, cell.config.benchmark): cell.config for cell in plan.cells()}
    for config in by_label.values():
        if config.memory == "jitmem":
            drawn = (config.curator_temperature, config.curator_top_p, config.curator_top_k)
            assert drawn == ((1.0, 1.0, 0) if config.curator_model == GPT else (0.6, 0.95, 20))
        if config.model.startswith("openai:https:"):
            assert config.thinking is config.judge_thinking is None
    assert {c.model for c in by_label.values() if c.benchmark == "tau2"} == {GPT}
    assert by_label["skillos", "tau2"].curator_model == GPT
    assert by_label["skillos", "webshop"].curator_model == QWEN
    trained = [by_label["jitmem trained", place].curator_model for place in ("alfworld", "webshop")]
    assert [str(name).partition("#")[2] for name in trained] == ["jitmem-curator", "jitmem-curator-webshop"]
    printed = {(cell.table, cell.benchmark, cell.row) for cell in CELLS}
    for planned in plan.parts:
        number = planned.part.source.removeprefix("table ")
        if number in "258":  # tables of one benchmark
            place = "tau2" if number == "2" else "webshop"
            rows = {row.published for row in planned.part.rows.values() if row.published}
            known = {row for table, benchmark, row in printed if (table, benchmark) == (number, place)}
            assert rows - {"No memory"} <= known  # of table 2 that row is not known


def test_a_role_of_one_benchmark_can_be_given(tmp_path: Path) -> None:
    own = {"trained-webshop": "smol", "trained": "pocket:curator"}
    plan = make_plan("paper", tmp_path, parts=["table_8"], roles=own)
    found = {(cell.config.benchmark, cell.config.curator_model) for cell in plan.cells()}
    assert found == {("alfworld", "pocket:curator"), ("webshop", "smol")}
    with pytest.raises(UserError, match="no role 'trained-tau2'"):
        make_plan("paper", tmp_path, roles={"trained-tau2": "smol"})
