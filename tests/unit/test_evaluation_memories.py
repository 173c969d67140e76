"""What a config gives to memories that write items, and how often it goes through the tasks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab import evaluation
from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, evaluate, make_memory
from jitmem_lab.grids import Grid
from jitmem_lab.memories import NAMES, parameters, variants
from jitmem_lab.sweeping.check import check_cells

from .doubles import ButtonBenchmark, RuleModel
from .writing import WordEmbedder

pytestmark = pytest.mark.unit
WRITING = [name for name in NAMES if "model" in parameters(name)]


@pytest.fixture
def embedders(monkeypatch: pytest.MonkeyPatch) -> list[WordEmbedder]:
    """Buttons to play, and the embedders that were loaded, each of which notes that it was closed."""
    made: list[WordEmbedder] = []

    def load(spec: str, **_: Any) -> WordEmbedder:
        made.append(WordEmbedder())
        made[-1].closed = 0  # type: ignore[attr-defined]
        made[-1].close = lambda one=made[-1]: setattr(one, "closed", one.closed + 1)  # type: ignore
        return made[-1]

    monkeypatch.setattr(evaluation, "load_embedder", load)
    monkeypatch.setattr("jitmem_lab.sweeping.check.load_embedder", load)
    monkeypatch.setattr(evaluation, "load_benchmark", lambda name, split=None: ButtonBenchmark(4))
    return made


def settings(**parameters: Any) -> dict[str, Any]:
    embedder = WordEmbedder()
    config = EvalConfig.make(**parameters)
    return dict(make_memory(config, RuleModel, ButtonBenchmark(), lambda spec: embedder).settings())


@pytest.mark.parametrize("name", WRITING)
@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("k", 5),
        ("retrieval", "random"),
        ("tokenizer", "whitespace"),
        ("idf", "lucene"),
        ("traces", "distilled"),
    ],
)
def test_what_only_raw_traces_go_by_is_refused_elsewhere(name: str, parameter: str, value: Any) -> None:
    config = EvalConfig.make(memory=name, **{parameter: value})
    with pytest.raises(UserError, match=f"memory {name} does not go by {parameter}"):
        make_memory(config, RuleModel, ButtonBenchmark(), lambda spec: WordEmbedder())


def test_the_refusal_names_the_option_where_there_is_one() -> None:
    with pytest.raises(UserError, match=r"options=\{'k'"):
        settings(memory="reasoningbank", k=5)
    assert settings(memory="reasoningbank", options={"k": 5})["k"] == 5


@pytest.mark.parametrize("preset", ["paper", "authors-code", "small"])
@pytest.mark.parametrize(("name", "variant"), [(name, v) for name in WRITING for v in variants(name)])
def test_a_variant_goes_before_the_preset(preset: str, name: str, variant: str) -> None:
    kept = settings(memory=name, preset=preset, variant=variant)
    if isinstance(kept.get("retrieval"), dict):
        kept["retrieval"] = kept["retrieval"]["how"]
    wanted = {n: v for n, v in variants(name)[variant].items() if n in kept}
    assert wanted
    assert {n: kept[n] for n in wanted} == wanted
    sampling = kept.get("sampling") or kept
    for own in ("temperature", "max_tokens"):
        if own in variants(name)[variant] and own in sampling:
            assert sampling[own] == variants(name)[variant][own]


def test_what_was_asked_for_goes_before_the_variant() -> None:
    kept = settings(memory="reasoningbank", variant="port", writer_temperature=0.3, writer_max_tokens=77)
    sampling = kept.get("sampling") or kept
    assert (sampling["temperature"], sampling["max_tokens"]) == (0.3, 77)


@pytest.mark.parametrize("preset", ["paper", "authors-code"])
def test_the_published_signal_of_success_is_taken(preset: str) -> None:
    gates = {name: settings(memory=name, preset=preset)["gate"] for name in WRITING}
    usual = EvalConfig.make(preset=preset).gate
    assert {name for name, gate in gates.items() if gate != usual} == {"memp", "reflexion"}
    assert gates["memp"] == gates["reflexion"] == "environment"
    assert settings(memory="memp", preset=preset, gate="judge")["gate"] == "judge"


def test_an_embedder_is_closed_with_the_run_and_shared_by_a_sweeps_check(
    tmp_path: Path, embedders: list[WordEmbedder]
) -> None:
    config = EvalConfig.make(memory="reasoningbank", games=2, warm_start=0)
    evaluate(config, out=tmp_path / "r", models={"smol": RuleModel()}, progress=False)
    assert [one.closed for one in embedders] == [1]  # type: ignore[attr-defined]
    embedders.clear()
    check_cells(Grid({}, {"memory": ["reasoningbank", "memp", "expel"]}).cells())
    assert [one.closed for one in embedders] == [1]  # type: ignore[attr-defined]


def test_trials_go_through_the_tasks_again_and_reflexion_uses_them(
    tmp_path: Path, embedders: list[WordEmbedder]
) -> None:
    asked: dict[str, Any] = {"games": 3, "trials": 3, "batch_size": 3, "no_repeat": 0, "max_steps": 1}
    config = EvalConfig.make(memory="reflexion", **asked)
    model = RuleModel(rule=lambda text, sampling: "Plan: press what the lamp says first.")
    run = evaluate(config, out=tmp_path / "r", models={"smol": model}, progress=False)
    seen = run.latest()
    assert Counter(e.trial for e in seen) == {0: 3, 1: 3, 2: 3}
    assert [e.task.task_id for e in seen[:3]] == [e.task.task_id for e in seen[3:6]]
    failed = {e.task.task_id for e in seen[:3] if e.outcome == "failure"}
    assert failed, "without a failure nothing is reflected on"
    assert all(not e.recall.payload for e in seen[:3])
    assert {e.task.task_id for e in seen[3:6] if e.recall.payload} == failed
    assert check_cells(Grid(asked, {"memory": ["reflexion"]}).cells()) == {"reflexion": 9}


def test_a_batch_never_holds_two_trials_of_a_task(tmp_path: Path, embedders: list[WordEmbedder]) -> None:
    config = EvalConfig.make(memory="reflexion", games=3, trials=2, batch_size=4)
    with pytest.raises(UserError, match="give batch_size=3 or less"):
        evaluate(config, out=tmp_path / "r", models={"smol": RuleModel()}, progress=False)
    with pytest.raises(UserError, match="give batch_size=3 or less"):
        check_cells(Grid({"games": 3, "trials": 2, "batch_size": 4}, {"memory": ["none"]}).cells())
    assert not (tmp_path / "r").exists()


def test_an_embedders_address_is_recorded_without_secrets() -> None:
    config = EvalConfig.make(embedder="openai:http://anna:s3cr3t@h:1/v1?key=s3cr3t#m")
    assert config.request()["embedder"] == "openai:http://h:1/v1#m"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "asked", [{"options": {"bogus": 1}}, {"variant": "prot"}, {"options": {"k": 5, "bogus": 1}}]
)
def test_no_memory_passes_over_what_it_is_asked_for(
    name: str, asked: dict[str, Any], embedders: list[WordEmbedder]
) -> None:
    with pytest.raises(UserError, match=r"prot|bogus|takes no options|no parameter 'k'"):
        settings(memory=name, **asked)


@pytest.mark.parametrize("name", ["raw", "jitmem"])
def test_what_is_a_parameter_of_the_run_is_no_option(name: str) -> None:
    with pytest.raises(UserError, match="give k as a parameter of the run"):
        settings(memory=name, options={"k": 5})
    assert settings(memory=name, k=5)["k"] == 5
