"""One evaluation from flat parameters: presets, wrong input, what is recorded, and running it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab import evaluation
from jitmem_lab.analysis import results_table
from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, evaluate, make_memory, rerun
from jitmem_lab.memories import NAMES, parameters
from jitmem_lab.models import load_model
from jitmem_lab.presets import AUTHORS_CODE, PAPER, PRESETS, SMALL, preset_values
from jitmem_lab.runs import Run, diff

from .doubles import ButtonBenchmark, RuleModel
from .writing import WordEmbedder

pytestmark = pytest.mark.unit

SECRET = "openai:http://anna:s3cr3tpass@models.example:8000/v1?api_key=s3cr3tquery#Qwen/Qwen3-8B"


class Roomy(RuleModel):
    """A rule model with room for the paper's payloads."""

    context = 32_768


@pytest.fixture
def buttons(monkeypatch: pytest.MonkeyPatch) -> list[ButtonBenchmark]:
    made: list[ButtonBenchmark] = []

    def load(name: str, split: str | None = None) -> ButtonBenchmark:
        made.append(ButtonBenchmark(12))
        return made[-1]

    monkeypatch.setattr(evaluation, "load_benchmark", load)
    return made


def run(out: Path, answering: RuleModel | None = None, **parameters: Any) -> Run:
    config = EvalConfig.make(**parameters)
    models = {
        spec: answering or Roomy()
        for spec in (config.model, config.curator_model, config.judge_model)
        if spec
    }
    return evaluate(config, out=out, progress=False, models=models)


# Presets


def test_the_papers_values() -> None:
    """The published protocol; a change here changes what `paper` means."""
    assert PAPER == {
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


def test_presets_differ_by_what_they_are_for() -> None:
    """The authors' code by what it does otherwise; a small model chooses, continues and is no judge."""
    changed = {name for name in AUTHORS_CODE if PAPER.get(name) != AUTHORS_CODE[name]}
    assert changed == {"history", "on_empty", "gate", "task_key"}
    forms = {name: SMALL[name] for name in ("act", "curator_form", "judge_form", "gate")}
    assert forms == {"act": "choose", "curator_form": "plan", "judge_form": "choose", "gate": "environment"}
    assert SMALL["warm_start"] > 0, "alone it wins too few games to fill a bank"
    assert set(AUTHORS_CODE) == set(SMALL) == set(PAPER)


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_alone_makes_a_config_and_parameters_go_before_it(name: str) -> None:
    config = EvalConfig.make(preset=name)
    values = preset_values(name, "alfworld")
    assert {n: getattr(config, n) for n in values} == values
    changed = EvalConfig.make(preset=name, k=7)
    assert changed.k == 7
    assert changed.folder() != config.folder() == EvalConfig.make(preset=name).folder()


def test_presets_reach_the_run(tmp_path: Path, buttons: list[ButtonBenchmark]) -> None:
    paper, code = (run(tmp_path / p, preset=p, memory="jitmem", games=4) for p in ("paper", "authors-code"))
    found = {row["field"]: (row["a"], row["b"]) for row in diff(paper, code)}
    judge = {name: value for name, value in found.items() if name.split(".")[0] == "judge"}
    assert {name: found[name] for name in set(found) - set(judge)} == {
        "executor.history": (3, 5),
        "memory.on_empty": ("skip", "call"),
        "memory.gate": ("judge", "partial"),
    }
    assert judge
    assert all(theirs is None for _, theirs in judge.values())
    assert paper.settings["executor"]["sampling"]["temperature"] == 1.0
    assert paper.settings["memory"]["curator"]["sampling"]["top_k"] == 20


@pytest.mark.parametrize(
    ("preset", "benchmark", "differs"),
    [
        ("paper", "alfworld", {"max_steps": 30}),
        ("paper", "webshop", {"max_steps": 30, "thinking": False}),
        ("paper", "express", {}),
        ("paper", "tau2", {"act": "tools", "max_steps": 200, "batch_size": 5, "thinking": None}),
        ("small", "tau2", {"max_steps": 20, "batch_size": 5}),
        ("small", "webshop", {"max_steps": 15}),
        ("small", "express", {}),
    ],
)
def test_a_benchmark_changes_a_preset(preset: str, benchmark: str, differs: dict[str, Any]) -> None:
    values = preset_values(preset, benchmark)
    assert {n: v for n, v in values.items() if PRESETS[preset][n] != v} == differs


def test_one_parameter_changes_the_benchmark() -> None:
    splits = {name: EvalConfig.make(benchmark=name).split for name in ("alfworld", "webshop", "tau2")}
    assert splits == {
        "alfworld": "generated_test",
        "webshop": "generated_test",
        "tau2": "telecom_solo_small",
    }
    assert EvalConfig.make(benchmark="webshop", split=None) == EvalConfig.make(benchmark="webshop")


# Wrong input


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"gmaes": 3}, "no parameter 'gmaes'; did you mean games"),
        ({"zzz": 3}, "no parameter 'zzz'; there are preset, "),
        ({"preset": "papr"}, "no preset 'papr'; did you mean paper"),
        ({"preset": ["paper"]}, "no preset"),
        ({"preset": None}, "there are paper, authors-code, small"),
        ({"memory": "jitmen"}, "did you mean jitmem"),
        ({"act": "wirte"}, "no act 'wirte'; did you mean write"),
        ({"gate": "jugde"}, "did you mean judge"),
        ({"retrieval": "bm52"}, "did you mean bm25"),
        ({"on_empty": None}, "there are skip, call"),
        ({"tokenizer": "wrods"}, "did you mean words"),
        ({"idf": "lucenne"}, "did you mean lucene"),
        ({"k": "three"}, "k='three' is not possible"),
        ({"k": 0}, "k=0 is not possible"),
        ({"k": 2.5}, "k=2.5 is not possible"),
        ({"games": 0}, "games=0"),
        ({"games": -1}, "games=-1"),
        ({"batch_size": 0}, "batch_size=0"),
        ({"max_steps": 0}, "max_steps=0"),
        ({"history": -1}, "history=-1"),
        ({"temperature": -0.1}, "temperature=-0.1"),
        ({"temperature": float("nan")}, "temperature=nan"),
        ({"curator_top_p": 1.5}, "curator_top_p=1.5"),
        ({"warm_start": -3}, "warm_start=-3"),
        ({"model": None}, "model=None"),
        ({"traces": "distilled", "warm_start": 5}, "warm_start=0"),
    ],
)
def test_wrong_parameters_are_one_sentence(parameters: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        EvalConfig.make(**parameters)
    assert "\n" not in str(caught.value)


def test_wrong_names_further_on_leave_no_run_behind(tmp_path: Path, buttons: list[ButtonBenchmark]) -> None:
    out = tmp_path / "r"
    with pytest.raises(UserError, match="did you mean curator"):
        run(out, curator_prompt="curatr")
    with pytest.raises(UserError, match="lower curator_max_tokens"):
        run(out, RuleModel(), curator_max_tokens=10_000)
    with pytest.raises(UserError, match="unknown model"):
        evaluate(EvalConfig.make(model="smoll"), out=out, progress=False)
    assert not out.exists()


def test_an_unknown_benchmark_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"did you mean alfworld\?"):
        evaluate(EvalConfig.make(benchmark="alfwrld"), out=tmp_path / "r", progress=False)
    assert not (tmp_path / "r").exists()


# What is recorded, and running it again


PARAMETERS = {
    "memory": "jitmem",
    "games": 9,
    "batch_size": 4,
    "act": "write",
    "temperature": 1.0,
    "curator_form": "advice",
    "warm_start": 3,
    "seed": 3,
    "k": 2,
    "retrieval": "shuffled",
    "on_empty": "call",
}


def test_a_run_is_made_again_from_its_config(tmp_path: Path, buttons: list[ButtonBenchmark]) -> None:
    first = run(tmp_path / "a", **PARAMETERS)
    config = EvalConfig.make(**json.loads((tmp_path / "a" / "config.json").read_text())["request"])
    assert config == EvalConfig.make(**PARAMETERS)
    model = Roomy()
    again = rerun(tmp_path / "a", tmp_path / "b", models={"smol": model}, progress=False, concurrency=4)
    assert model.prompts
    assert results_table(again.latest()) == results_table(first.latest())
    assert again.settings == first.settings
    assert diff(first, again) == []


def test_a_second_run_of_the_same_config_calls_no_model(
    tmp_path: Path, buttons: list[ButtonBenchmark]
) -> None:
    first = run(tmp_path / "r", **PARAMETERS)
    before = {f.name: f.read_bytes() for f in (tmp_path / "r").glob("*.json*") if f.name != "status.json"}
    model = Roomy()
    again = run(tmp_path / "r", model, **PARAMETERS)
    assert model.prompts == []
    assert buttons[-1].opened == 0
    assert results_table(again.latest()) == results_table(first.latest())
    for name, content in before.items():
        assert (tmp_path / "r" / name).read_bytes() == content


@pytest.mark.parametrize("memory", ["raw", "jitmem"])
def test_a_config_with_dense_retrieval_or_a_payload_for_another_task(
    tmp_path: Path, buttons: list[ButtonBenchmark], monkeypatch: pytest.MonkeyPatch, memory: str
) -> None:
    embedder = WordEmbedder()
    monkeypatch.setattr(evaluation, "load_embedder", lambda spec, **_: {"words": embedder}[spec])
    parameters = PARAMETERS | {"memory": memory, "retrieval": "dense", "payload_of": "another"}
    done = run(tmp_path / "r", **parameters, embedder="words")
    kept = done.settings["memory"]
    assert (kept["retrieval"], kept["embedder"]) == ("dense", embedder.identity())
    assert kept["payload_of"] == "another"
    seen = done.latest()
    assert all(e.recall.payload and e.recall.notes["payload_of"] != e.task.task_id for e in seen)
    assert [c.phase for e in seen for c in e.calls if c.role == "embedder"] == ["recall"] * len(seen)
    plain = run(tmp_path / "p", **PARAMETERS | {"memory": memory, "retrieval": "bm25"}).settings["memory"]
    assert "embedder" not in plain
    assert "payload_of" not in plain


def test_another_config_is_not_written_over_a_run(tmp_path: Path, buttons: list[ButtonBenchmark]) -> None:
    run(tmp_path / "r", **PARAMETERS)
    with pytest.raises(UserError, match=r"memory\.k"):
        run(tmp_path / "r", **PARAMETERS | {"k": 5})


@pytest.mark.parametrize("request_", [None, {}, {"k": 3, "from_the_future": 1}])
def test_a_run_without_a_usable_request_is_refused(
    tmp_path: Path, buttons: list[ButtonBenchmark], request_: Any
) -> None:
    made = run(tmp_path / "a", games=2, memory="none")
    file = made.path / "config.json"
    file.write_text(json.dumps(made.config | {"request": request_}))
    with pytest.raises(UserError, match=r"request|from_the_future"):
        rerun(made.path, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_an_own_prompt_is_recorded_by_its_content(tmp_path: Path, buttons: list[ButtonBenchmark]) -> None:
    own = tmp_path / "own.txt"
    own.write_text("[[user]]\nFor {task} read {traces}\n")
    run(tmp_path / "r", **PARAMETERS | {"curator_prompt": str(own)})
    own.write_text("[[user]]\nRead {traces}\n")
    with pytest.raises(UserError, match="prompt_hash"):
        run(tmp_path / "r", **PARAMETERS | {"curator_prompt": str(own)})


def test_no_secret_reaches_a_file(
    tmp_path: Path, buttons: list[ButtonBenchmark], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-s3cr3tkey")
    parameters = PARAMETERS | {"model": SECRET, "curator_model": SECRET.replace("Qwen3-8B", "x")}
    made = run(tmp_path / "r", gate="judge", judge_form="json", judge_model=SECRET, **parameters)
    for file in made.path.rglob("*"):
        assert b"s3cr3t" not in file.read_bytes(), file
    assert made.config["request"]["model"] == "openai:http://models.example:8000/v1#Qwen/Qwen3-8B"
    assert made.config["request"]["curator_model"].endswith("#Qwen/x")
    other = SECRET.replace("s3cr3tpass", "another")
    assert EvalConfig.make(model=SECRET).folder() == EvalConfig.make(model=other).folder()


@pytest.mark.parametrize(
    ("spec", "recorded"),
    [
        ("smol", "smol"),
        ("hf:/models/a@b#c", "hf:/models/a@b#c"),
        ("replay:runs/x", "replay:runs/x"),
        ("openai:#gpt", "openai:#gpt"),
        ("openai:http://h/v1#a@b?c", "openai:http://h/v1#a@b?c"),
        ("openai:http://u:p@h/v1#m", "openai:http://h/v1#m"),
        ("openai:http://u:p%40@h:1/v1#m", "openai:http://h:1/v1#m"),
        ("openai:http://u:p@q@h/v1#m", "openai:http://h/v1#m"),
        ("openai:http://token@h#m", "openai:http://h#m"),
        ("openai:http://h/v1?key=p&x=u:p@z#m", "openai:http://h/v1#m"),
    ],
)
def test_what_is_recorded_of_a_models_name(spec: str, recorded: str) -> None:
    assert EvalConfig.make(model=spec).request()["model"] == recorded


def test_a_served_models_identity_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-s3cr3tkey")
    model = load_model(SECRET.replace("models.example:8000", "127.0.0.1:9"), timeout=1, retries=0)
    try:
        assert "s3cr3t" not in json.dumps(model.identity())
        assert "s3cr3t" not in model.name
        assert "s3cr3t" not in repr(model)
    finally:
        model.close()


# Parts


def test_every_switch_reaches_the_memory() -> None:
    switches = {
        "k": 5,
        "gate": "all+labels",
        "retrieval": "empty",
        "traces": "distilled",
        "trace_format": "full",
        "exclude_own": False,
        "on_empty": "call",
    }
    config = EvalConfig.make(
        memory="jitmem",
        warm_start=0,
        idf="lucene",
        tokenizer="whitespace",
        task_conditioned=False,
        curator_form="advice",
        curator_temperature=0.5,
        curator_top_p=0.9,
        curator_top_k=4,
        curator_max_tokens=99,
        max_trace_tokens=1234,
        **switches,
    )
    settings = make_memory(config, RuleModel, ButtonBenchmark()).settings()
    assert {name: settings[name] for name in switches} == switches
    assert settings["index"] == {"tokenizer": "whitespace", "idf": "lucene"}
    assert settings["distiller"]["model"] == {"name": "smol"}
    curator = settings["curator"]
    assert (curator["prompt"], curator["task_conditioned"]) == ("curator_general", False)
    assert curator["max_trace_tokens"] == 1234
    drawn = curator["sampling"]
    assert [drawn[n] for n in ("temperature", "top_p", "top_k", "max_tokens")] == [0.5, 0.9, 4, 99]


@pytest.mark.parametrize(("given", "used"), [(None, 2048), (500, 500), (0, 0)])
def test_raw_traces_leave_room_in_the_executors_context(given: int | None, used: int) -> None:
    config = EvalConfig.make(memory="raw", max_trace_tokens=given)
    assert make_memory(config, RuleModel, ButtonBenchmark()).settings()["max_trace_tokens"] == used


def test_roles_may_have_models_of_their_own(tmp_path: Path, buttons: list[ButtonBenchmark]) -> None:
    models = {name: Roomy(name) for name in ("e", "c", "j")}
    config = EvalConfig.make(
        **PARAMETERS, model="e", curator_model="c", judge_model="j", gate="judge", judge_form="json"
    )
    made = evaluate(config, out=tmp_path / "r", models=dict(models), progress=False)
    used = {(call.role, call.model) for episode in made.latest() for call in episode.calls}
    assert used == {("executor", "e"), ("curator", "c"), ("judge", "j")}


def test_the_small_preset_takes_a_systems_set_for_small_models() -> None:
    assert EvalConfig.make(memory="awm").variant == "small"
    starts = {name: EvalConfig.make(memory=name).warm_start for name in NAMES}
    writing = {name for name in NAMES if "model" in parameters(name)}
    assert {name for name, start in starts.items() if start == 10} == writing
    assert {start for name, start in starts.items() if name not in writing} == {100}
    assert EvalConfig.make(memory="awm", preset="paper").variant is None
    assert EvalConfig.make(memory="skillos", variant="port").variant == "port"
    assert EvalConfig.make(memory="jitmem").variant is None
    assert EvalConfig.make(**EvalConfig.make(memory="memp").request()) == EvalConfig.make(memory="memp")


def test_a_parameter_of_a_memorys_own_says_where_it_goes() -> None:
    with pytest.raises(UserError) as wrong:
        EvalConfig.make(memory="expel", max_rules=5)
    assert "it is expel's own" in str(wrong.value)
    assert """-p options '{"max_rules": 5}'""" in str(wrong.value)
    with pytest.raises(UserError, match="did you mean games"):
        EvalConfig.make(gamse=5)
