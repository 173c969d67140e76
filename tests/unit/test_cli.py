"""The command line: exit codes, one JSON object, one sentence on errors. No kernel is started here."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from jitmem_lab import cli
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.notebooks import NotebookError, find_notebook
from jitmem_lab.notebooks.outputs import OUTPUT_LIMIT, STREAM_LIMIT, BoundedStream, cut, tidy
from jitmem_lab.notebooks.parameters import check_values, notebook_parameters, parse_pairs, to_source

pytestmark = pytest.mark.unit
CELL = """k = 3  # traces retrieved
rate = 0.5
flag = False
name = "x"
models = ["smol"]
sizes = [1, 2]
options = {"a": 1}
pair = (1, 2)
seed: int | None = None
free = None
limit = float("inf")  # no limit
path = __import__("pathlib").Path("x")"""


def run(args: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        cli.main(args)
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


def notebook(*cells: str, tags: Sequence[str] = ("parameters",)) -> Any:
    return new_notebook(cells=[new_code_cell(cell, metadata={"tags": list(tags)}) for cell in cells])


@pytest.fixture
def book(tmp_path: Path) -> Path:
    path = tmp_path / "book.ipynb"
    nbformat.write(notebook(CELL), path)
    return path


# Parameters


def test_a_notebooks_parameters_are_listed_and_nothing_is_run(
    book: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(["run", str(book), "--parameters"], capsys)
    assert code == 0
    lines = [line.split(maxsplit=1) for line in out.splitlines()]
    assert ["k", "3 (int)"] in lines
    assert ["traces", "retrieved"] in lines
    assert ["seed", "None (int)"] in lines
    assert ["limit", "inf (float)"] in lines
    code, out, _ = run(["run", str(book), "--parameters", "--json"], capsys)
    rows = {row["name"]: row for row in json.loads(out)["rows"]}
    assert rows["k"]["comment"] == "traces retrieved"
    assert rows["options"]["default"] == {"a": 1}
    assert [path.name for path in book.parent.iterdir()] == ["book.ipynb"]
    code, out, _ = run(["run", "31_train_curator", "--parameters"], capsys)
    assert "Root of every random choice" in out
    _, out, _ = run(["run", "--help"], capsys)
    assert "jitmem run NOTEBOOK --parameters" in " ".join(out.split())


def test_the_parameters_cell_is_read_with_types_and_comments() -> None:
    parameters = notebook_parameters(notebook(CELL))
    kinds = {p.name: p.kind for p in parameters.values()}
    assert kinds == {
        "k": "int",
        "rate": "float",
        "flag": "bool",
        "name": "str",
        "models": "list",
        "sizes": "list",
        "options": "dict",
        "pair": "tuple",
        "seed": "int",
        "free": "any",
        "limit": "float",
        "path": "any",
    }
    assert parameters["k"].comment == "traces retrieved"
    assert parameters["seed"].nullable
    assert not parameters["k"].nullable


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("k", "7", 7),
        ("k", " -7 ", -7),
        ("rate", "2", 2.0),
        ("rate", "1e-3", 0.001),
        ("rate", "inf", float("inf")),
        ("flag", "True", True),
        ("flag", "false", False),
        ("name", "007", "007"),
        ("name", "none", "none"),
        ("name", '["a"]', '["a"]'),
        ("name", "", ""),
        ("models", '["a","b"]', ["a", "b"]),
        ("models", "['a', 'b']", ["a", "b"]),
        ("models", "[]", []),
        ("options", '{"a": [1, null]}', {"a": [1, None]}),
        ("pair", "[3, 4]", (3, 4)),
        ("seed", "none", None),
        ("seed", "4", 4),
        ("free", "[1]", [1]),
        ("free", "text", "text"),
    ],
)
def test_texts_are_read_by_the_type_of_the_default(name: str, text: str, value: Any) -> None:
    parsed = parse_pairs(notebook_parameters(notebook(CELL)), [(name, text)])[name]
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("k", "abc", "parameter 'k' takes an integer (default 3), not 'abc'"),
        ("k", "3.5", "takes an integer"),
        ("k", "", "takes an integer"),
        ("rate", "fast", "takes a number"),
        ("flag", "1", "takes true or false"),
        ("models", "smol", 'write it as \'["a", "b"]\''),
        ("models", "[1]", "its items are a text each"),
        ("sizes", "[0.5]", "its items are an integer each"),
        ("options", "[1]", "takes a dict"),
        ("seed", "x", "takes an integer"),
        ("sede", "1", "did you mean 'seed'"),
        ("zzzz", "1", "has no parameter 'zzzz'; It takes: k, rate"),
    ],
)
def test_unsuitable_texts_are_refused_in_a_sentence(name: str, text: str, says: str) -> None:
    with pytest.raises(UserError) as error:
        parse_pairs(notebook_parameters(notebook(CELL)), [(name, text)])
    assert says in str(error.value)


def test_a_parameter_given_twice_is_refused() -> None:
    with pytest.raises(UserError, match="given twice"):
        parse_pairs(notebook_parameters(notebook(CELL)), [("k", "1"), ("k", "2")])


def test_values_from_python_become_plain_ones() -> None:
    import datetime

    import numpy as np

    given = {
        "k": np.int64(4),
        "rate": np.float32(0.5),
        "flag": np.bool_(True),
        "name": Path("a/'b'"),
        "models": {"b", "a"},
        "sizes": np.arange(3),
        "options": {"x": (1, Path("p"))},
        "pair": [5, 6],
        "free": datetime.date(2026, 1, 2),
        "limit": float("nan"),
    }
    values = check_values(notebook_parameters(notebook(CELL)), given)
    assert repr(values) == repr(
        {
            "k": 4,
            "rate": 0.5,
            "flag": True,
            "name": "a/'b'",
            "models": ["a", "b"],
            "sizes": [0, 1, 2],
            "options": {"x": (1, "p")},
            "pair": (5, 6),
            "free": "2026-01-02",
            "limit": float("nan"),
        }
    )
    for value in values.values():
        assert repr(eval(to_source(value), {})) == repr(value)


@pytest.mark.parametrize("text", ['it\'s "so"\n\\', "\ud83d", "\x00\u2028", "{x}", '"""'])
def test_any_text_survives_injection(text: str) -> None:
    value = {"a": [text, {text}, (text,)], text: None}
    assert eval(to_source(value), {}) == value


@pytest.mark.parametrize(
    "given",
    [
        {"k": 3.0},
        {"k": True},
        {"k": "3"},
        {"k": None},
        {"rate": "0.5"},
        {"flag": 1},
        {"name": 5},
        {"name": b"raw"},
        {"options": {1: "a"}},
        {"free": object()},
        {"models": "smol"},
        {"sede": 1},
    ],
)
def test_unsuitable_values_from_python_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="parameter '"):
        check_values(notebook_parameters(notebook(CELL)), given)


def test_none_or_two_parameters_cells_and_broken_ones_are_refused() -> None:
    with pytest.raises(UserError, match="no cell tagged"):
        notebook_parameters(notebook("k = 3", tags=[]))
    with pytest.raises(UserError, match="2 cells tagged"):
        notebook_parameters(notebook("k = 3", "k = 4"))
    with pytest.raises(UserError, match="not valid Python"):
        notebook_parameters(notebook("k = = 3"))


# Outputs


def test_a_stream_shows_what_a_terminal_would() -> None:
    stream = BoundedStream()
    for text in ("start\n", *(f"\r{i}%" for i in range(101)), "\ndone\n"):
        stream.feed(text)
    assert stream.text() == "start\n100%\ndone\n"
    stream.feed("\n\n\x1b[A\rup")
    assert stream.text().endswith("done\n\nup\n")


def test_a_flood_keeps_its_beginning_and_its_end() -> None:
    stream = BoundedStream()
    for i in range(100_000):
        stream.feed(f"line {i}\n")
    text = stream.text()
    assert text.startswith("line 0\n")
    assert text.endswith("line 99999\n")
    assert "characters left out" in text
    assert len(text) < STREAM_LIMIT + 100
    long = BoundedStream()
    long.feed("a" * 3_000_000)
    long.feed("z")
    assert long.text().endswith("az")
    assert len(long.text()) < STREAM_LIMIT + 100


def test_nothing_is_lost_below_the_limit() -> None:
    stream = BoundedStream()
    text = "".join(f"{i:03d}\n" for i in range(4000))
    for start in range(0, len(text), 7):
        stream.feed(text[start : start + 7])
    assert stream.text() == text
    assert cut(cut("x" * 99_999)) == cut("x" * 99_999)


def test_an_executed_notebook_becomes_valid_strict_json() -> None:
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "gone"}}
    node = notebook("1")
    node.cells[0].outputs = [
        nbformat.v4.new_output("display_data", data=view),
        nbformat.v4.new_output("stream", text="bad \ud83d"),
    ]
    node.metadata.widgets = {"application/vnd.jupyter.widget-state+json": {"version_major": 2}}
    node.metadata.papermill = {"parameters": {"x": float("nan")}}
    tidy(node)
    assert "widgets" not in node.metadata
    assert list(node.cells[0].outputs[0].data) == ["text/plain"]
    json.loads(json.dumps(node, allow_nan=False))
    nbformat.writes(node).encode()
    assert OUTPUT_LIMIT >= 10


# Commands


def test_help_is_fast_and_light() -> None:
    code = (
        "import sys, time; t = time.perf_counter(); from jitmem_lab import cli; cli._run(['--help']);"
        "heavy = {'torch', 'panel', 'pandas', 'numpy', 'numba', 'papermill', 'nbformat', 'pydantic', 'spacy',"
        "'tau2', 'textworld', 'textworld_express', 'tqdm'} & set(sys.modules);"
        "print(time.perf_counter() - t, sorted(heavy), file=sys.stderr)"
    )
    times = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        times.append(time.perf_counter() - began)
        assert done.stderr.split(maxsplit=1)[1].strip() == "[]"
        assert float(done.stderr.split()[0]) < 2
    assert "Usage: jitmem" in done.stdout
    assert min(times) < 1  # 0.2 s on a quiet machine


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["dta"], "No such command 'dta'"),
        (["runs", "show", "absent"], "there is no run directory absent"),
        (["runs", "list", "absent"], "there is no folder absent"),
        (["runs", "diff", "a"], "Missing argument"),
        (["run", "absent.ipynb"], "there is no notebook 'absent.ipynb'"),
        (["bench", "retrieval", "--sizes", "many"], "--sizes takes whole numbers"),
        (["bench", "retrieval", "--corpus", "nothing", "--sizes", "10"], "nothing"),
        (["bench", "retrieval", "--sizes", ","], "--sizes takes one value or more"),
        (["bench", "retrieval", "--corpus", ""], "--corpus takes one value or more"),
        (["bench", "alfworld", "--split", " "], "--split takes one value or more"),
        (["bench", "alfworld", "--games", "0"], "Invalid value for '--games'"),
        (["bench", "env", "--benchmark", "alfwrld"], "did you mean alfworld? known are alfworld, express"),
        (["bench", "env", "--benchmark", ","], "--benchmark takes one value or more"),
        (["bench", "env", "--episodes", "0"], "Invalid value for '--episodes'"),
        (["floors", "alfwrld"], "unknown benchmark 'alfwrld'; did you mean alfworld"),
        (["floors", "alfworld", "--split", "tset"], "alfworld has no split 'tset'; it has train"),
        (["floors", "alfworld", "--games", "0"], "Invalid value for '--games'"),
        (["floors", "absent.py:Mine"], "there is no file absent.py"),
        (["check", "contract", "absent:Mine"], "no module 'absent' can be imported; or give a path"),
        (["check", "contract", "json:JSONDecoder"], "takes no argument 'split'"),
        (["check", "contract"], "Missing argument 'BENCHMARK'"),
        (["check", "webshop", "--oracles", "absent"], "there is no folder absent"),
        (["check", "webshop"], "Missing option '--oracles'"),
        (["bench", "stream", "--latency", "nan"], "--latency"),
        (["bench", "stream", "--latency", "inf"], "--latency"),
        (["run", "20", "--timeout", "nan"], "--timeout"),
        (["run", "20", "--timeout", "0"], "--timeout"),
        (["models", "fetch", "gpt"], "there is nothing to fetch for model 'gpt'"),
        (["data", "--jsn"], "No such option"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_2(
    args: list[str], says: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(args, capsys)
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert says in err
    assert "Traceback" not in err
    assert list(tmp_path.iterdir()) == []


def test_run_refuses_before_anything_starts(
    book: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.chdir(book.parent)
    for pairs, says in (
        (["-p", "k", "abc"], "takes an integer"),
        (["-p", "sede", "1"], "did you mean 'seed'"),
        (["-k", "gpu"], "no kernel 'gpu'"),
        (["-o", "book.ipynb"], "would replace the notebook"),
        (["-o", "out.html"], "ends in .ipynb"),
    ):
        code, out, err = run(["run", "book.ipynb", *pairs], capsys)
        assert (code, out) == (2, "")
        assert says in err
    assert [p.name for p in book.parent.iterdir()] == ["book.ipynb"]


def test_run_passes_typed_values_and_prints_the_output(
    book: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    seen: dict[str, Any] = {}

    def stub(path: Path, parameters: dict[str, Any], **options: Any) -> Path:
        seen.update(path=path, parameters=parameters, **options)
        print("noise")
        return Path("out.ipynb")

    monkeypatch.setattr("jitmem_lab.notebooks.run_notebook", stub)
    monkeypatch.setattr(
        "jitmem_lab.notebooks.read_status", lambda path: {"state": "completed", "output": str(path)}
    )
    args = ["run", str(book), "-p", "k", "-3", "-p", "name", "1", "-p", "models", '["a"]', "-k", "python3"]
    code, out, err = run([*args, "--json"], capsys)
    assert code == 0
    assert json.loads(out) == {"state": "completed", "output": "out.ipynb"}
    assert "noise" in err
    assert seen["parameters"] == {"k": -3, "name": "1", "models": ["a"]}
    assert seen["kernel"] == "python3"
    assert run(args, capsys)[1] == "out.ipynb\n"
    printed = nbformat.v4.new_output("stream", text="files: 3\n")
    cells = [nbformat.v4.new_code_cell("1"), nbformat.v4.new_code_cell("2", outputs=[printed])]
    made = book.parent / "made.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), made)
    monkeypatch.setattr("jitmem_lab.notebooks.read_status", lambda path: {"output": str(made)})
    _, out, err = run(args, capsys)
    assert (out, err.splitlines()[-1]) == (f"{made}\n", "files: 3")
    monkeypatch.setattr("jitmem_lab.notebooks.export.to_html", lambda path: made.with_suffix(".html"))
    assert run([*args, "--html"], capsys)[1].splitlines() == [str(made), str(made.with_suffix(".html"))]


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (UserError("do this"), 2, "error: do this\n"),
        (InfrastructureError("its kernel died"), 3, "error: its kernel died\n"),
        (NotebookError("ZeroDivisionError \x1b[31m\ud83d"), 1, "error: ZeroDivisionError \\ud83d\n"),
        (KeyboardInterrupt(), 130, "interrupted; what was finished is kept\n"),
        (KeyboardInterrupt("interrupted (cell 3)"), 130, "interrupted (cell 3)\n"),
    ],
)
def test_exit_codes(
    error: BaseException,
    code: int,
    says: str,
    book: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr("jitmem_lab.notebooks.run_notebook", fail)
    got, out, err = run(["run", str(book), "--json"], capsys)
    assert (got, out, err.lstrip("\n")) == (code, "", says)


def test_listings_print_one_json_object(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["--version"], capsys) == (0, "0.1.0\n", "")
    for args, key in ((["data"], "rows"), (["runs", "list"], "rows"), (["models"], "forms")):
        code, out, err = run([*args, "--json"], capsys)
        assert (code, err) == (0, "")
        assert out.count("\n") == 1
        assert key in json.loads(out)
        code, out, _ = run(args, capsys)
        assert code == 0
        assert not out.startswith("{")


def test_a_broken_run_directory_is_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, config in (("torn", '{"schema'), ("newer", '{"schema_version": 99, "settings": {}}')):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.json").write_text(config)
        code, out, err = run(["runs", "show", name, "--json"], capsys)
        assert (code, out, err.count("\n")) == (2, "", 1)
    code, out, _ = run(["runs", "list", "--json"], capsys)
    assert code == 0
    assert {row["state"] for row in json.loads(out)["rows"]} == {"broken"}


def test_what_child_processes_print_stays_out_of_the_json(tmp_path: Path) -> None:
    code = (
        "import os; from jitmem_lab import cli, data;"
        "data.report = lambda: os.system('echo noise') or print('more') or [];"
        "cli.main(['data', '--json'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == '{"rows": []}\n'
    assert "noise" in done.stderr
    assert "more" in done.stderr


def test_shipped_notebooks_are_found_by_number_and_name(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notebooks").mkdir()
    for name in ("97_one", "98_two", "98_three"):
        nbformat.write(notebook("k = 3"), tmp_path / "notebooks" / f"{name}.ipynb")
    for name in ("97", "one", "97_one", "97_one.ipynb"):
        assert find_notebook(name).name == "97_one.ipynb"
    with pytest.raises(UserError, match=r"several notebooks fit '98'.*98_three, 98_two"):
        find_notebook("98")
    with pytest.raises(UserError, match=r"there is no notebook '97_on'.*97_one"):
        find_notebook("97_on")


FLOORS = {
    "benchmark": "toy",
    "split": "test",
    "games": 4,
    "noop": {"success": 0.0, "reward": 0.125, "won": 0, "n": 4},
    "random": {"success": 0.5, "reward": 0.5, "won": 2, "n": 4},
    "oracle": {"success": 1.0, "reward": 1.0, "won": 4, "n": 4},
    "seconds": 0.1,
}


@pytest.fixture
def toy(tmp_path: Path) -> str:
    """A benchmark without an environment, by its file."""
    path = tmp_path / "toy.py"
    lines = "class Toy:\n    def __init__(self, split='test'): self.split, self.name = split, 'toy'\n"
    names = ("tasks", "make_env", "oracle", "demonstrations", "provenance", "close")
    lines += "".join(f"    def {name}(self, *_): pass\n" for name in names)
    path.write_text(lines + "    version = max_steps = noop = splits = tells_at_reset = None\n")
    return f"{path}:Toy"


def test_floors_are_printed_with_intervals(
    toy: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    seen: list[Any] = []
    monkeypatch.setattr("jitmem_lab.benchmarks.floors.floors", lambda *given: seen.append(given) or FLOORS)
    code, out, _ = run(["floors", toy, "--games", "4", "--seed", "3", "--json"], capsys)
    assert (code, json.loads(out)) == (0, FLOORS)
    assert (seen[0][0].split, *seen[0][1:]) == ("test", 4, 3)
    code, out, _ = run(["floors", toy, "--split", "train"], capsys)
    assert seen[1][0].split == "train"
    assert out.splitlines() == [
        "toy test: 4 tasks, 0.1 s",
        "policy  success  95 % interval   mean reward  won",
        "noop    0.000    0.000 to 0.490  0.125        0 of 4",
        "random  0.500    0.150 to 0.850  0.500        2 of 4",
        "oracle  1.000    0.510 to 1.000  1.000        4 of 4",
    ]


@pytest.mark.parametrize("ok", [True, False])
def test_a_broken_contract_is_exit_1(
    ok: bool, toy: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    rows = [{"check": "tasks", "ok": True, "detail": "4"}, {"check": "close", "ok": ok, "detail": "said"}]
    monkeypatch.setattr("jitmem_lab.benchmarks.contract.check_contract", lambda bench: rows)
    code, out, _ = run(["check", "contract", toy, "--json"], capsys)
    assert code == (0 if ok else 1)
    assert json.loads(out) == {"benchmark": "toy", "split": "test", "ok": ok, "rows": rows}
    code, out, _ = run(["check", "contract", toy], capsys)
    assert code == (0 if ok else 1)
    assert out.splitlines()[-1] == f"toy test: the contract {'holds' if ok else 'is broken'}"
    assert f"close  {'ok' if ok else 'FAILED'}" in out


def test_recorded_oracles_are_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    stub = SimpleNamespace(check_oracles=lambda path: {"folder": str(path)})
    monkeypatch.setitem(sys.modules, "jitmem_lab.benchmarks.webshop.check", stub)
    code, out, _ = run(["check", "webshop", "--oracles", str(tmp_path), "--json"], capsys)
    assert (code, json.loads(out)) == (0, {"folder": str(tmp_path)})


def test_environments_are_timed(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    row = {
        "benchmark": "webshop",
        "split": "x",
        "reset_ms_p50": 1.0,
        "step_ms_p50": 0.5,
        "episodes_per_s": 9.0,
    }
    asked: list[Any] = []

    def stub(benchmarks: Any, episodes: int, progress: Any) -> dict[str, Any]:
        asked.append((benchmarks, episodes))
        progress("webshop x …")
        return {"rows": [row]}

    monkeypatch.setattr("jitmem_lab.bench.environments.run", stub)
    code, out, err = run(["bench", "env", "--json"], capsys)
    assert (code, json.loads(out), err) == (0, {"rows": [row]}, "webshop x …\n")
    code, out, _ = run(["bench", "env", "--benchmark", "webshop, alfworld", "--episodes", "2"], capsys)
    assert asked == [(None, 10), (("webshop", "alfworld"), 2)]
    assert "0.5" in out


def test_tables_are_aligned_and_clean() -> None:
    text = cli.table([{"a": 1, "b": "x\x1b[31m\ny"}, {"a": None, "c": "\ud83d" * 3}], "none")
    assert text.splitlines() == ["a  b    c", "1  x y", "        " + "\\ud83d" * 3]
    assert cli.table([], "none") == "none"


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("max_rules", "5", """-p options '{"max_rules": 5}'"""),
        ("writer_temperature", "0.5", """-p more '{"writer_temperature": 0.5}'"""),
        ("retrieval", "dense", """-p more '{"retrieval": "dense"}'"""),
        ("gamse", "5", "did you mean 'games'"),
    ],
)
def test_a_parameter_in_the_wrong_place_says_where_it_goes(name, value, says, capsys) -> None:
    code, out, err = run(["run", "20_evaluate", "-p", name, value], capsys)
    assert (code, out) == (2, "")
    assert says in err
