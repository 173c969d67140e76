"""A grid's cells, wrong input refused before anything runs, a sweep that is killed and goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab import cli, evaluation, sweep
from jitmem_lab.analysis import results_table
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.evaluation import EvalConfig, evaluate
from jitmem_lab.grids import Grid, duplicates
from jitmem_lab.runs import Run
from jitmem_lab.sweep import read_sweep, run_sweep
from jitmem_lab.sweeping import cells as sweep_cells

from .doubles import ButtonBenchmark, RuleModel

pytestmark = pytest.mark.unit
FIXED = {"games": 6, "batch_size": 2, "warm_start": 0}


class World:
    """Buttons instead of a benchmark and rule models instead of language models."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.loaded: list[str] = []
        self.models: list[RuleModel] = []
        self.closed = 0
        self.benches: list[ButtonBenchmark] = []
        self.broken: set[str] = set()
        patch.setattr(evaluation, "load_benchmark", self.bench)
        patch.setattr(sweep_cells, "load_model", self.model)

    def bench(self, name: str, split: str | None = None) -> ButtonBenchmark:
        if split == "missing":
            raise UserError("the data of split missing are not here")
        self.benches.append(ButtonBenchmark(12, broken=lambda task: task.task_id in self.broken))
        return self.benches[-1]

    def model(self, spec: str, **_: Any) -> RuleModel:
        self.loaded.append(spec)
        if spec == "hf:gone":
            raise UserError("there is no model in gone")
        made = RuleModel(spec)
        made.close = self.close  # type: ignore[method-assign]
        self.models.append(made)
        return made

    def close(self) -> None:
        self.closed += 1

    @property
    def asked(self) -> int:
        return sum(len(model.prompts) for model in self.models)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def go(out: Path, fixed: dict[str, Any] | None = None, **axes: list[Any]) -> sweep.Sweep:
    return run_sweep(Grid(FIXED | (fixed or {}), axes), out=out, progress=False)


# The grid


def test_cells_are_every_combination_named_by_what_varies() -> None:
    grid = Grid().with_pairs([("memory", "none,raw, jitmem"), ("order", "0,1"), ("games", "20")])
    cells = grid.cells()
    assert [cell.name for cell in cells] == [
        f"{memory}-order{order}" for memory in ("none", "raw", "jitmem") for order in (0, 1)
    ]
    assert cells[3].parameters == {"games": 20, "memory": "raw", "order": 1}
    assert cells[3].config == EvalConfig.make(memory="raw", order=1, games=20)


def test_texts_of_the_command_line_become_what_their_parameter_takes() -> None:
    pairs = [
        ("order", "none,3"),
        ("temperature", "0.5"),
        ("exclude_own", "false"),
        ("curator_model", "none"),
        ("memory", "reasoningbank"),
        ("options", '{"k": 2}'),
    ]
    first, second = Grid().with_pairs(pairs).cells()
    assert first.parameters == {
        "order": None,
        "temperature": 0.5,
        "exclude_own": False,
        "curator_model": None,
        "memory": "reasoningbank",
        "options": {"k": 2},
    }
    assert second.parameters["order"] == 3
    assert [first.name, second.name] == ["orderdefault", "order3"]


def test_a_grid_file_has_three_tables_and_the_command_line_goes_before_it(tmp_path: Path) -> None:
    text = "[fixed]\ngames = 4\n[grid]\norder = [0, 1]\n[rows.few]\nk = 1\n[rows.many]\nk = 5\ngames = 9\n"
    file = tmp_path / "grid.toml"
    file.write_text(text)
    grid = Grid.read(file)
    assert [(c.name, c.row, c.config.k, c.config.games) for c in grid.cells()] == [
        ("few-order0", "few", 1, 4),
        ("few-order1", "few", 1, 4),
        ("many-order0", "many", 5, 9),
        ("many-order1", "many", 5, 9),
    ]
    (tmp_path / "grid.json").write_text(json.dumps({"rows": {"few": {"k": 1}}, "grid": {"order": [2]}}))
    assert [c.name for c in Grid.read(tmp_path / "grid.json").cells()] == ["few-order2"]
    assert [c.config.order for c in grid.with_pairs([("order", "7")]).cells()] == [7, 7]


def test_names_that_no_folder_can_have_stay_two() -> None:
    specs = ["openai:http://127.0.0.1:8000/v1#a/b", "openai:http://127.0.0.1:8000/v1#a_b"]
    names = [cell.name for cell in Grid({}, {"model": specs}).cells()]
    assert len(set(names)) == 2
    assert all("/" not in name and "#" not in name and len(name) < 80 for name in names)


def test_every_cell_has_a_folder_of_its_own_whatever_its_name(tmp_path: Path) -> None:
    rows = {name: {"k": k} for k, name in enumerate(("notebooks", "sweep.json", "..", "a/b", "x" * 300), 1)}
    names = [cell.name for cell in Grid(rows=rows).cells()]
    long = {f"curator_{name}": ["a" * 90 + f"/{name}{n}" for n in (1, 2)] for name in ("model", "prompt")}
    long |= {f"{name}_model": ["b" * 90 + f"/{n}" for n in (1, 2)] for name in ("judge", "user")}
    long["executor_prompt"] = ["c" * 90 + f"/{n}" for n in (1, 2)]
    names += [cell.name for cell in Grid(axes=long).cells()]
    assert len(set(names)) == 5 + 32
    assert not set(names) & {"notebooks", "sweep.json"}
    for name in names:
        (tmp_path / name).mkdir()
    assert len(list(tmp_path.iterdir())) == 5 + 32


def test_a_grid_beyond_reason_is_one_sentence_and_told_at_once() -> None:
    axes = {name: list(range(1, 1001)) for name in ("order", "seed", "games")}
    with pytest.raises(UserError, match=r"1,000,000,000 cells, and 10,000 are the most"):
        Grid(axes=axes).cells()


@pytest.mark.parametrize("name", ["deep.json", "deep.toml"])
def test_a_grid_file_nested_beyond_reason_is_one_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(("[" if name.endswith("json") else "a = [") + "[" * 100_000)
    with pytest.raises(UserError, match="no readable grid"):
        Grid.read(tmp_path / name)
    with pytest.raises(UserError, match="options is no JSON"):
        Grid().with_pairs([("options", "[" * 100_000)])


@pytest.mark.parametrize(
    ("grid", "says"),
    [
        ({"fixed": {"memry": "raw"}}, "did you mean memory"),
        ({"grid": {"memory": ["rwa"]}}, "did you mean raw"),
        ({"grid": {"memory": []}}, "memory has no values"),
        ({"grid": {"memory": "raw"}}, "must be a list"),
        ({"fixed": {"k": 1}, "grid": {"k": [1, 2]}}, "k is given twice"),
        ({"rows": {"a": {"k": 1}}, "grid": {"k": [1, 2]}}, "k is given twice"),
        ({"grid": {"memory": ["raw", "raw"]}}, "two cells are the same"),
        ({"rows": {"a": {"k": 1}, "b": {"k": 1}}}, "two cells are the same: a and b"),
        ({"rows": {"a": 3}}, "rows.a"),
        ({"cells": {}}, "there are fixed, grid, rows"),
        ({"fixed": [1]}, "must be a table"),
        ({"fixed": {"k": 0}}, "k=0 is not possible"),
    ],
)
def test_a_wrong_grid_is_one_sentence(grid: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as caught:
        Grid.make(grid).cells()
    assert says in str(caught.value)


@pytest.mark.parametrize("text", ["", "a = [", "{", "\ud83d"])
def test_an_unreadable_grid_file_is_one_sentence(tmp_path: Path, text: str) -> None:
    for name in ("grid.toml", "grid.json"):
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    (tmp_path / "list.json").write_text("[]")
    for name in ("grid.json", "list.json", "missing.toml", *(["grid.toml"] if text else [])):
        with pytest.raises(UserError):
            Grid.read(tmp_path / name)


@pytest.mark.parametrize(
    ("pairs", "says"),
    [
        ([("k", "1"), ("k", "2")], "given twice"),
        ([("k", "1,,2")], "one value or more"),
        ([("k", "")], "one value or more"),
        ([("kk", "1")], "did you mean k"),
        ([("options", "{1}")], "no JSON"),
    ],
)
def test_wrong_pairs_are_one_sentence(pairs: list[tuple[str, str]], says: str) -> None:
    with pytest.raises(UserError, match=says):
        Grid().with_pairs(pairs)


def test_rows_that_ask_for_the_same_are_told() -> None:
    rows = {"jitmem": {}, "k=3": {"k": 3}, "k=1": {"k": 1}, "again": {"k": 1}}
    assert duplicates(rows, {"games": 2}) == {"k=3": "jitmem", "again": "k=1"}


# Refused before anything runs


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"model": "gpt"}, "unknown model 'gpt'"),
        ({"curator_model": "openai:"}, "unknown model"),
        ({"split": "missing"}, "the data of split missing"),
        ({"memory": "reasoningbank", "options": {"kk": 1}}, "no parameter 'kk'"),
        ({"memory": "reasoningbank", "variant": "prot"}, "no variant 'prot'"),
        ({"executor_prompt": "executor_rite"}, "there is no prompt"),
        ({"curator_prompt": "nothing.txt"}, "cannot be read"),
    ],
)
def test_what_cannot_run_is_refused_before_the_first_cell(
    tmp_path: Path, world: World, parameters: dict[str, Any], says: str
) -> None:
    grid = Grid(FIXED, {}, {"fine": {"memory": "none"}, "wrong": parameters})
    with pytest.raises(UserError, match=says):
        run_sweep(grid, out=tmp_path / "s", progress=False)
    assert not (tmp_path / "s").exists()
    assert not world.loaded


def test_a_folder_that_holds_another_run_or_sweep_is_refused(tmp_path: Path, world: World) -> None:
    go(tmp_path / "s", memory=["none"])
    before = (tmp_path / "s" / "none" / "config.json").read_bytes()
    with pytest.raises(UserError, match=r"holds a run of other settings \(\w+: .* there, .* now"):
        go(tmp_path / "s", {"games": 7}, memory=["none"])
    assert (tmp_path / "s" / "none" / "config.json").read_bytes() == before
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be made"):
        go(tmp_path / "file", memory=["none"])
    lock = sweep.RunLock(tmp_path / "s")
    lock.acquire()
    with pytest.raises(UserError, match="another process"):
        go(tmp_path / "s", memory=["none"])
    lock.release()


def test_a_run_of_before_a_parameter_came_holds_the_cell_of_its_default(tmp_path: Path, world: World) -> None:
    """Parameters come with versions: an older run is that of their defaults, and of nothing else."""
    go(tmp_path / "s", memory=["raw"])
    config = tmp_path / "s" / "raw" / "config.json"
    recorded = json.loads(config.read_text())
    for name in ("payload_of", "trials", "idf"):
        del recorded["request"][name]
    config.write_text(json.dumps(recorded))
    asked = world.asked
    both = go(tmp_path / "s", {"memory": "raw"}, payload_of=["own", "another"])
    assert [place.folder.name for place in both.places] == ["raw", "payload_of-another"] or [
        place.folder for place in both.places
    ] == [tmp_path / "s" / "raw", tmp_path / "s" / both.places[1].cell.name]
    assert len({place.folder for place in both.places}) == 2
    assert world.asked > asked, "the second cell was played"


# Running


def test_each_cell_is_what_evaluate_runs_with_one_model_for_all(tmp_path: Path, world: World) -> None:
    done = go(tmp_path / "s", memory=["none", "raw", "jitmem"], order=[0, 1])
    assert world.loaded == ["smol"]
    assert world.closed == 1
    assert all(bench.opened == bench.closed for bench in world.benches)
    assert not done.failed()
    assert sorted(done.runs()) == sorted(cell.name for cell in (p.cell for p in done.places))
    for name, run in done.runs().items():
        memory, _, order = name.partition("-order")
        config = EvalConfig.make(memory=memory, order=int(order), **FIXED)
        alone = evaluate(config, out=tmp_path / name, progress=False, models={"smol": RuleModel("smol")})
        assert results_table(alone.latest()) == results_table(run.latest())
    for line in ("jitmem-order1", "raw-order0"):
        assert line in done.text()
    status = read_sweep(tmp_path / "s")
    assert (status["state"], status["done"], status["total"]) == ("completed", 36, 36)
    assert [cell["state"] for cell in status["cells"]] == ["completed"] * 6


def test_complete_cells_are_left_as_they_are_and_found_under_any_name(tmp_path: Path, world: World) -> None:
    go(tmp_path / "s", memory=["none", "raw"])
    asked = world.asked
    files = {p: p.read_bytes() for p in (tmp_path / "s").glob("*/episodes.jsonl")}
    again = go(tmp_path / "s", memory=["none", "raw"], order=[0, 1])
    assert [place.folder.name for place in again.places] == ["none", "none-order1", "raw", "raw-order1"]
    assert {p: p.read_bytes() for p in files} == files
    assert world.asked > asked
    asked = world.asked
    again = go(tmp_path / "s", memory=["none", "raw"], order=[0, 1])
    assert world.asked == asked
    assert len(world.loaded) == 2, "nothing is loaded where nothing is owed"
    assert not again.failed()


def test_a_failing_cell_stops_no_other_and_is_owed(tmp_path: Path, world: World) -> None:
    rows = {"gone": {"model": "hf:gone"}, "fine": {"memory": "raw"}, "last": {"memory": "none"}}
    done = run_sweep(Grid(FIXED, {}, rows), out=tmp_path / "s", progress=False)
    assert [place.state for place in done.places] == ["failed", "completed", "completed"]
    assert "no model in gone" in (done.places[0].error or "")
    assert "1 of 3 cells are not complete" in done.text()
    assert read_sweep(tmp_path / "s")["state"] == "failed"


def test_a_model_that_breaks_is_loaded_anew_for_the_next_cell(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def breaks(*args: Any, **options: Any) -> Run:
        calls.append(args)
        if len(calls) == 1:
            raise RuntimeError("out of memory")
        return evaluate(*args, **options)

    monkeypatch.setattr(sweep_cells, "evaluate", breaks)
    done = go(tmp_path / "s", memory=["none", "raw"])
    assert [place.state for place in done.places] == ["failed", "completed"]
    assert world.loaded == ["smol", "smol"]
    assert world.closed == 2


def test_episodes_that_ended_in_errors_are_owed_and_played_next_time(tmp_path: Path, world: World) -> None:
    world.broken.add("b3")
    done = go(tmp_path / "s", memory=["none", "raw"])
    assert [place.state for place in done.places] == ["incomplete", "incomplete"]
    assert all("owed" in (place.error or "") for place in done.failed())
    world.broken.clear()
    done = go(tmp_path / "s", memory=["none", "raw"])
    assert not done.failed()
    for run in done.runs().values():
        counts = Counter(e.key for e in run.iter_episodes() if e.outcome != "error")
        assert sorted(counts.values()) == [1] * 6


def test_an_interrupted_sweep_goes_on(tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def stops(spec: str, **_: Any) -> RuleModel:
        made = world.model(spec)

        def rule(text: str, sampling: Any) -> str:
            return "press red"

        choose = made.choose

        def counted(messages: Any, options: Any) -> Any:
            if len(made.prompts) > 25:
                raise KeyboardInterrupt
            return choose(messages, options)

        made.rule, made.choose = rule, counted  # type: ignore[method-assign]
        return made

    monkeypatch.setattr(sweep_cells, "load_model", stops)
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "s", memory=["none", "raw", "jitmem"])
    status = read_sweep(tmp_path / "s")
    assert status["state"] == "interrupted"
    assert 0 < status["done"] < 18
    monkeypatch.setattr(sweep_cells, "load_model", world.model)
    done = go(tmp_path / "s", memory=["none", "raw", "jitmem"])
    assert not done.failed()
    whole = go(tmp_path / "whole", memory=["none", "raw", "jitmem"])
    for name, run in done.runs().items():
        assert results_table(run.latest()) == results_table(whole.runs()[name].latest())


KILLED = """
import sys
from jitmem_lab import evaluation, sweep
from jitmem_lab.sweeping import cells as sweep_cells
from jitmem_lab.grids import Grid
from tests.unit.doubles import ButtonBenchmark, RuleModel

evaluation.load_benchmark = lambda name, split=None: ButtonBenchmark(12)
sweep_cells.load_model = lambda spec, **_: RuleModel(spec, latency=float(sys.argv[2]))
fixed = {"games": 6, "batch_size": 2, "warm_start": 0}
grid = Grid(fixed, {"memory": ["none", "raw", "jitmem"]})
done = sweep.run_sweep(grid, out=sys.argv[1])
print(done.text())
"""


def test_a_killed_sweep_goes_on_without_a_repeated_episode(tmp_path: Path, world: World) -> None:
    out = tmp_path / "s"
    root = Path(__file__).parents[2]

    def command(latency: float) -> list[str]:
        return [sys.executable, "-c", KILLED, str(out), str(latency)]

    with subprocess.Popen(command(0.05), cwd=root, stderr=subprocess.DEVNULL) as process:
        second = out / "raw" / "episodes.jsonl"
        for _ in range(600):
            if second.exists() and second.read_bytes().count(b"\n") >= 2:
                break
            time.sleep(0.05)
        assert read_sweep(out)["state"] == "running"
        os.kill(process.pid, signal.SIGKILL)
    assert read_sweep(out)["state"] == "killed"
    before = {p: p.read_bytes() for p in out.glob("*/episodes.jsonl")}
    assert 1 <= len(before) < 3
    done = subprocess.run(command(0), cwd=root, capture_output=True, text=True, timeout=120, check=True)
    assert "none: " not in done.stderr, "a complete cell is not run again"
    assert "[3/3] jitmem: completed, 6 of 6 episodes" in done.stderr
    assert "100%" in done.stderr
    whole = go(tmp_path / "whole", memory=["none", "raw", "jitmem"])
    for name, reference in whole.runs().items():
        run = Run(out / name)
        assert Counter(e.key for e in run.iter_episodes()).most_common(1)[0][1] == 1
        assert results_table(run.latest()) == results_table(reference.latest())
    for path, content in before.items():
        whole_lines = content[: content.rfind(b"\n") + 1]
        assert path.read_bytes().startswith(whole_lines), "what was played is kept as it was"


# The command line


def command(args: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(["sweep", *args])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def test_the_command_prints_a_table_and_a_list_of_failures(
    tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "grid.json"
    file.write_text(json.dumps({"fixed": FIXED, "rows": {"fine": {}, "bad": {"model": "hf:gone"}}}))
    out = tmp_path / "s"
    code, shown, err = command([str(file), "-p", "memory", "none,raw", "-o", str(out)], capsys)
    assert code == 1
    assert "2 of 4 cells are not complete" in shown
    assert "bad-raw: UserError: there is no model in gone" in shown
    assert "fine-raw" in shown
    assert "[4/4] bad-raw: failed" in err
    code, shown, _ = command([str(file), "-p", "memory", "none,raw", "-o", str(out), "--json"], capsys)
    assert code == 1
    status = json.loads(shown)
    assert [cell["state"] for cell in status["cells"]] == ["completed", "completed", "failed", "failed"]


@pytest.mark.parametrize(
    "args", [[], ["missing.toml"], ["-p", "memory", "rwa"], ["-p", "memory", "raw", "--concurrency", "0"]]
)
def test_wrong_input_is_exit_code_2(
    args: list[str], tmp_path: Path, world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code, shown, err = command([*args, "-o", str(tmp_path / "s")], capsys)
    assert code == 2
    assert not shown
    assert err.startswith("error: ")
    assert not (tmp_path / "s").exists()


def test_an_infrastructure_failure_of_one_cell_is_no_failed_episode(
    tmp_path: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: Any, **__: Any) -> Run:
        raise InfrastructureError("the server is down")

    monkeypatch.setattr(sweep_cells, "evaluate", down)
    done = go(tmp_path / "s", memory=["none"])
    assert done.places[0].error == "InfrastructureError: the server is down"
    assert done.text().startswith("(no runs)")


def test_a_status_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there is no sweep"):
        read_sweep(tmp_path)
    for text in ("", "[]", "{}"):
        (tmp_path / "sweep.json").write_text(text)
        with pytest.raises(UserError, match="not the status of a sweep"):
            read_sweep(tmp_path)
