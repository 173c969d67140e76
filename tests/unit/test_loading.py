"""Benchmarks by name and from one's own file: what is refused, and how a class becomes its own host."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.benchmarks import benchmark_names, default_split, load_benchmark
from jitmem_lab.benchmarks.base import Benchmark
from jitmem_lab.benchmarks.loading import load_object
from jitmem_lab.benchmarks.pooled import PooledBenchmark
from jitmem_lab.benchmarks.workers import class_target
from jitmem_lab.errors import UserError

pytestmark = pytest.mark.unit
POOLED = """
from jitmem_lab.benchmarks.pooled import PooledBenchmark

class Mine(PooledBenchmark):
    name, version, splits = "mine", "1", ("train", "test")
    def __init__(self, split="test", size=3):
        self.size = size
        super().__init__(split)
    def load(self, split):
        return [self.task(split, str(n), f"Do {n}.", task_type="t") for n in range(self.size)]
    def oracle(self, task):
        return ["do"]
"""


@pytest.fixture
def own(tmp_path: Path) -> Any:
    def write(text: str, name: str = "Mine") -> str:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return f"{path}:{name}"

    return write


def test_names_and_default_splits_are_known_without_the_benchmarks() -> None:
    code = (
        "import sys; from jitmem_lab.benchmarks import benchmark_names, default_split;"
        "print([(n, default_split(n)) for n in benchmark_names()],"
        "sorted({'alfworld', 'textworld', 'spacy', 'tau2', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str([(name, default_split(name)) for name in benchmark_names()]) + " []"
    assert [default_split(name) for name in ("alfworld", "webshop", "tau2", "express")] == [
        "generated_test",
        "generated_test",
        "telecom_solo_small",
        "test",
    ]


def test_a_class_in_a_file_is_loaded_with_its_options(own: Any) -> None:
    made: Any = load_benchmark(own(POOLED))
    assert (made.name, made.split, made.size) == ("mine", "test", 3)
    made = load_benchmark(own(POOLED), split="train", size=1)
    assert [task.task_id for task in made.tasks()] == ["0"]
    (task,) = made.tasks()
    assert (task.benchmark, task.split, task.task_type) == ("mine", "train", "t")
    assert made.train_split == "train"
    assert made.spec(task) == task.model_dump()


def test_a_file_is_read_anew_each_time(own: Any) -> None:
    assert default_split(own(POOLED)) == "test"
    assert default_split(own(POOLED.replace('split="test"', 'split="train"'))) == "train"


def test_a_class_of_an_importable_module_is_loaded() -> None:
    target = "jitmem_lab.benchmarks.pooled:PooledBenchmark"
    assert load_object(target) is PooledBenchmark
    with pytest.raises(UserError, match="lacks load, oracle, version"):
        load_benchmark(target, split="test")


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        (POOLED, "Yours", r"has no class 'Yours'"),
        (POOLED.replace("split=", "part="), "Mine", "takes no argument 'split'"),
        (POOLED.replace("def oracle", "def orakel"), "Mine", "is no whole benchmark: it lacks oracle"),
        (POOLED.replace('"mine", "1"', '"mine"').replace("version, ", ""), "Mine", "lacks version"),
        ("Mine = 3", "Mine", "is of type int, and no class"),
        ("class Mine:\n    def __init__(self, split='x'): pass", "Mine", "lacks name, split, max_steps"),
        ("class Mine: (", "Mine", "importing .*mine.py failed: SyntaxError"),
        ("import absent_module", "Mine", "importing .* failed: No module named 'absent_module'"),
        ("1 / 0", "Mine", "failed: ZeroDivisionError"),
    ],
)
def test_what_is_no_benchmark_is_refused_in_a_sentence(own: Any, text: str, name: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load_benchmark(own(text, name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("absent.py:Mine", "there is no file absent.py"),
        ("absent:Mine", r"no module 'absent' can be imported; or give a path: my/file.py:Mine"),
        ("absent.inner:Mine", "no module 'absent.inner' can be imported"),
        (":Mine", "is not of the form"),
        ("json:", "is not of the form"),
        ("..json:Mine", "importing ..json failed"),
    ],
)
def test_what_is_not_there_is_said(target: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_benchmark(target)


def test_options_and_splits_of_ones_own_are_checked(own: Any) -> None:
    with pytest.raises(UserError, match=r"unknown option .*'sise'; did you mean size\?"):
        load_benchmark(own(POOLED), sise=2)
    with pytest.raises(UserError, match="mine has no split 'tset'; it has train, test"):
        load_benchmark(own(POOLED), split="tset")
    assert default_split(own(POOLED.replace('split="test"', "split"))) == "test", "the last of its splits"


def test_every_name_of_the_protocol_is_asked_for(own: Any) -> None:
    bare = "class Mine:\n    def __init__(self, split='x'): pass"
    with pytest.raises(UserError) as caught:
        load_benchmark(own(bare))
    wanted = {*Benchmark.__annotations__, *(name for name in vars(Benchmark) if name[0] != "_")}
    assert wanted >= {"version", "tasks", "make_env", "close", "noop"}
    assert all(name in str(caught.value) for name in wanted)


def test_a_class_in_a_notebook_can_be_no_host(own: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = load_object(own(POOLED))
    assert class_target(found) == own(POOLED)
    assert class_target(PooledBenchmark) == "jitmem_lab.benchmarks.pooled:PooledBenchmark"
    monkeypatch.delattr(sys.modules[found.__module__], "__file__")
    with pytest.raises(UserError, match="put Mine into a file"):
        found()
