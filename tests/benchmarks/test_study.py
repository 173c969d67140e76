"""A whole study at size smoke with the pocket models; killed twice, it ends in the same report."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from jitmem_lab.study.plan import RUNS, make_plan
from jitmem_lab.study.running import read_study, run_study

pytest.importorskip("alfworld", reason="needs the extra alfworld")
pytest.importorskip("trl", reason="needs the extra train")
pytestmark = pytest.mark.benchmarks
ASKED = {"parts": ["table_1"], "orders": 1, "games": 2}
WORDS = ["--part", "table_1", "--orders", "1", "--games", "2", "--no-pages"]


def files(report: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(report.parent.iterdir())}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    plan = make_plan("smoke", tmp_path_factory.mktemp("whole") / "s", **ASKED)  # type: ignore[arg-type]
    return run_study(plan, pages=False, progress=False)


def test_the_report_opens_alone_and_leads_to_every_run(whole: Path) -> None:
    page = re.sub(r"(?s)<script.*?</script>", "", whole.read_text(encoding="utf-8"))
    assert not re.search(r'(src|href)="(https?:)?//', page)
    assert len((whole.parent / "solutions_alfworld_generated_test.csv").read_text().splitlines()) > 1
    led = {(whole.parent / href).resolve() for href in re.findall(r'href="(\.\./[^"]*)"', page)}
    assert led
    assert all(folder.is_dir() for folder in led)
    assert {file.parent for file in (whole.parents[1] / RUNS).glob("*/config.json")} <= led
    status = read_study(whole.parents[1])
    assert status["state"] == "completed"
    assert list(status["steps"]) == ["training", "runs", "report"]


def test_its_rates_are_those_of_the_episodes(whole: Path) -> None:
    lines = (whole.parent / "table_1_alfworld_generated_test.csv").read_text().splitlines()
    names = lines[0].split(",")
    for line in lines[1:]:
        row = dict(zip(names, line.split(","), strict=False))
        folder = f"alfworld-generated_test-{row['row'].replace(' ', '_')}-order0"
        episodes = (whole.parents[1] / RUNS / folder / "episodes.jsonl").read_text().splitlines()
        won = [json.loads(episode)["outcome"] == "success" for episode in episodes]
        assert float(row["SR"]) == pytest.approx(100 * sum(won) / len(won), abs=0.05)


def killed(out: Path, when: Callable[[], bool]) -> None:
    """Run the study's command and kill it as soon as something is so."""
    command = [sys.executable, "-m", "jitmem_lab.cli", "study", "run", "--size", "smoke", "-o", str(out)]
    with subprocess.Popen([*command, *WORDS], stderr=subprocess.PIPE, text=True) as process:
        limit = time.monotonic() + 300
        while not when():
            assert time.monotonic() < limit
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    assert read_study(out)["state"] == "killed"


def test_killed_twice_it_ends_in_the_same_report(whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "s"

    def trained_a_step() -> bool:
        file = out / "training" / "metrics.jsonl"
        return (file.is_file() and '"kind": "step"' in file.read_text()) or (out / RUNS).is_dir()

    def two_played() -> bool:
        return sum(file.stat().st_size > 0 for file in (out / RUNS).glob("*/episodes.jsonl")) >= 3

    killed(out, trained_a_step)
    killed(out, two_played)
    plan = make_plan("smoke", out, **ASKED)  # type: ignore[arg-type]
    page = run_study(plan, pages=False, progress=False)
    assert read_study(out)["state"] == "completed"
    assert files(page) == files(whole)
