"""What became of a run's writes, and how a run's figures are told on a terminal and in a comparison."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jitmem_lab import cli
from jitmem_lab.analysis import readable, summary_rows
from jitmem_lab.compare_tables import coverage, rates
from jitmem_lab.comparison import Comparison, Group, Replicate
from jitmem_lab.runs import Run
from jitmem_lab.write_counts import WriteCounts, write_counts

from . import writing
from .writing import WordEmbedder

pytestmark = pytest.mark.unit


def line(key: str, **more: Any) -> dict[str, Any]:
    return {"key": key, "position": 0, "batch": 0, "calls": []} | more


def test_each_episode_counts_once_as_it_stands_last() -> None:
    refused = {"first": {"refused": ["a", "b"]}, "calls": [{"refused": "c"}, {"call": "insert"}]}
    lines = [
        line("warm"),
        line("a", change={"stored": True, "items": [{"op": "insert"}], "note": refused}),
        line("b", change={"stored": True, "items": [], "note": {"why": "no item in the answer"}}),
        line("c", change={"stored": False, "why": "judged a failure"}),
        line("d", error="InfrastructureError: gone"),
        line("e", error="InfrastructureError: gone"),
        line("e", change={"stored": True, "id": 7}),
        line("f", change={}),
    ]
    found = write_counts(SimpleNamespace(writes=lambda: lines))
    assert found == WriteCounts(changed=2, empty=1, kept_out=2, failed=1, refused=3)


def answer(text: str) -> str:
    """A lesson of each odd room and one without content, nothing of an even one."""
    room = int(text.split("in room ")[1].split(".")[0])
    return "Title: a\nContent: look\nTitle: empty\nContent:" if room % 2 else "nothing"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("runs") / "r"
    return writing.streamed(folder, "reasoningbank", answer, 2, n=7, embedder=WordEmbedder())


def test_a_run_tells_its_writes_in_figures_that_can_be_read(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    summary = run.summary()
    assert (summary["writes"]["changed"], summary["writes"]["empty"]) == (3, 4)
    assert summary["writes"]["refused"] == 3
    with pytest.raises(SystemExit):
        cli.main(["runs", "show", str(run.path)])
    shown = dict(row.split(None, 1) for row in capsys.readouterr().out.splitlines())
    assert shown["writes.empty"] == "4"
    assert shown["success_rate"] == f"{100 * summary['success_rate']:.1f} %"
    assert "success_interval (95 %, Wilson)" in readable(summary)
    assert len(shown["episode_seconds"]) <= 9
    with pytest.raises(SystemExit):
        cli.main(["runs", "show", str(run.path), "--json"])
    assert json.loads(capsys.readouterr().out)["success_rate"] == summary["success_rate"]
    (row,) = summary_rows([run])
    assert "95 % Wilson" in row


def test_a_comparison_counts_writes_and_names_its_intervals(run: Run) -> None:
    comparison = Comparison.read(run.path)
    (row,) = coverage(comparison).to_dict("records")
    names = ("writes", "empty writes", "refused parts", "failed writes")
    assert [row[name] for name in names] == [3, 4, 3, 0]
    (rate,) = rates(comparison, draws=50).to_dict("records")
    assert rate["interval by"] == ("Wilson" if rate["mean"] in (0, 1) else "bootstrap")


def test_systems_differ_in_demonstrations_and_trials() -> None:
    def group(memory: str, warm: int, trials: int) -> Group:
        settings = {"executor": {}, "benchmark": {}, "batch_size": 2, "warm_start": {"count": warm}}
        played = SimpleNamespace(settings=settings, config={"request": {"trials": trials}})
        return Group(memory, memory, "b", "s", "m", {Replicate(0, 0): played})

    raw = group("raw", 100, 1)
    assert group("memp", 10, 1).differs_in(raw) == ["warm_start"]
    assert group("memp", 100, 3).differs_in(raw) == ["trials"]
    assert group("none", 0, 1).differs_in(raw) == [], "it takes no demonstrations"


def test_a_variant_stands_in_the_table(run: Run, tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    for file in ("config.json", "episodes.jsonl", "writes.jsonl"):
        (tmp_path / "v" / file).write_bytes((run.path / file).read_bytes())
    config = json.loads((run.path / "config.json").read_text())
    (tmp_path / "v" / "config.json").write_text(json.dumps(config | {"request": {"variant": "port"}}))
    assert [row["variant"] for row in summary_rows([run, Run(tmp_path / "v")])] == ["-", "port"]
    assert "variant" not in summary_rows([run])[0]
