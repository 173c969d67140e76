"""The page of memory systems, out of their docstrings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from jitmem_lab import cli
from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig
from jitmem_lab.memories import NAMES, parameters
from jitmem_lab.memories.page import LABELS, markdown, pages, text

pytestmark = pytest.mark.unit

README = Path(__file__).parents[2] / "README.md"


@pytest.mark.parametrize("name", NAMES)
def test_every_system_says_all_there_is_to_say(name: str) -> None:
    (page,) = pages(name)
    assert page["name"] == name
    for label in ("About", *LABELS):
        said = page[label.lower().replace(" ", "_")]
        assert said, f"{label}: is missing from the docstring of memories/{name}.py"
        assert said.endswith((".", ".)")), f"{label}: does not end in a full stop"
        assert "\n" not in said
    own = parameters(name)
    assert all(own[key].default == value for key, value in page["defaults"].items())
    shown = text(name)
    assert max(map(len, shown.splitlines())) <= 100
    words = shown.split()
    assert all(word in words for label in LABELS for word in page[label.lower().replace(" ", "_")].split())
    assert all(f"{key}=" in shown for key in page["defaults"])
    for key, field in page["given_by"].items():
        assert field == "options" or field in EvalConfig.model_fields, key
        assert key in shown
    assert all(f"{variant}:" in shown for variant in page["variants"])


def test_the_table_has_a_row_for_each_system() -> None:
    head, line, *rows = markdown().splitlines()
    columns = [len(re.findall(r"(?<!\\)\|", row)) for row in (head, line, *rows)]
    assert set(columns) == {columns[0]}
    assert [row.split("`")[1] for row in rows] == list(NAMES)
    papers = [re.findall(r"\[(\d{4}\.\d{5})\]\(https://arxiv\.org/abs/\1\)", row) for row in rows]
    assert papers[NAMES.index("awm")] == ["2409.07429"]
    assert papers[NAMES.index("none")] == []


def test_the_readme_shows_this_table() -> None:
    readme = README.read_text(encoding="utf-8")
    between = re.search(r"<!-- memories -->\n(.*?)\n<!-- /memories -->", readme, re.S)
    assert between is not None, "the README has no lines <!-- memories --> and <!-- /memories -->"
    assert between[1].strip() == markdown(), "put the output of memories.page.markdown() between them"


def test_the_command_line_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    def run(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["memories", *args])
        return (int(stop.value.code or 0), *capsys.readouterr())

    code, out, _ = run()
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()[: len(NAMES)]] == list(NAMES)
    assert max(map(len, out.splitlines())) <= 100
    assert len(out.splitlines()) == len(NAMES) + 2
    code, out, _ = run("raw", "expel")
    assert out.strip() == "\n\n".join(map(text, ("raw", "expel")))
    code, out, _ = run("awm", "--json")
    assert json.loads(out)["rows"] == json.loads(json.dumps(pages("awm")))
    code, out, error = run("skilos")
    assert (code, out) == (2, "")
    assert "did you mean skillos" in error
    assert len(error.splitlines()) == 1


def test_an_unknown_system_is_refused() -> None:
    with pytest.raises(UserError, match="did you mean expel"):
        pages("raw", "expell")


def test_a_page_names_the_runs_parameter_behind_each_default() -> None:
    shown = " ".join(text("expel").split())
    assert "temperature as writer_temperature" in shown
    assert "thinking as curator_thinking" in shown
    assert "max_rules" in shown.partition("among the options")[0].rpartition(";")[2]
    assert "among the options" not in text("raw")
    (page,) = pages("reflexion")
    example = {"memory": "reflexion", "options": {"k": page["defaults"]["k"]}}
    assert EvalConfig.make(**example).options == {"k": 3}
