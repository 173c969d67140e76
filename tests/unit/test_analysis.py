"""Figures recomputed by hand from the files, intervals against published values, and costs that add up."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitmem_lab.analysis import (
    episode_frame,
    results_table,
    summary_html,
    summary_rows,
    summary_text,
)
from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.compare_figures import BANDED, curve_figure
from jitmem_lab.curation import Curator
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.execution import Executor
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory
from jitmem_lab.records import Sampling, Task
from jitmem_lab.runs import Run, list_runs
from jitmem_lab.statistics import wilson
from jitmem_lab.stream import run_stream

from .doubles import ButtonBenchmark, ButtonEnv, Counting

pytestmark = pytest.mark.unit

ROLES = ("executor", "curator", "judge", "distiller")


def models(**rules: Any) -> dict[str, Counting]:
    rules = {"judge": lambda text, s: f'{{"success": {str(len(text) % 2 == 0).lower()}}}'} | rules
    return {role: Counting(role, rules.get(role)) for role in ROLES}


def stream(out: Path, by_role: dict[str, Counting], bench: Any = None, **options: Any) -> Run:
    memory = load_memory(
        "jitmem",
        **{"gate": "all+labels", "traces": "distilled", "on_empty": "call"} | options,
        curator=Curator(by_role["curator"]),
        distiller=by_role["distiller"],
    )
    return run_stream(
        bench or ButtonBenchmark(13),
        memory,
        Executor(by_role["executor"]),
        out=out,
        judge=Judge(by_role["judge"]),
        batch_size=4,
        concurrency=3,
        progress=False,
    )


# Intervals


@pytest.mark.parametrize(
    ("won", "n", "low", "high"),
    [
        # R. G. Newcombe, Statistics in Medicine 17 (1998), table I, method 3.
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        # L. D. Brown et al., Statistical Science 16 (2001): the limits of n = n follow by symmetry.
        (20, 20, 0.8389, 1.0),
        (5, 10, 0.2366, 0.7634),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_against_published_values(won: int, n: int, low: float, high: float) -> None:
    interval = wilson(won, n)
    assert interval.low == pytest.approx(low, abs=5e-5)
    assert interval.high == pytest.approx(high, abs=5e-5)


@given(st.integers(1, 2000), st.data())
def test_wilson_holds_the_share_is_symmetric_and_solves_its_equation(n: int, data: st.DataObject) -> None:
    won = data.draw(st.integers(0, n))
    low, high = wilson(won, n)
    assert 0 <= low <= won / n <= high <= 1
    other = wilson(n - won, n)
    assert (other.low, other.high) == (pytest.approx(1 - high), pytest.approx(1 - low))
    for p in (low, high):  # the limits are the shares that lie z standard errors from the one seen
        assert (won / n - p) ** 2 == pytest.approx(1.959964**2 * p * (1 - p) / n, abs=1e-12)


# Costs


def test_tokens_by_role_are_the_sums_of_what_the_stubs_counted(tmp_path: Path) -> None:
    by_role = models()
    run = stream(tmp_path / "r", by_role)
    summary = run.summary()
    assert set(summary["tokens"]) == set(ROLES)
    for role, model in by_role.items():
        spent = {"prompt": model.spent.prompt_tokens, "completion": model.spent.completion_tokens}
        assert summary["tokens"][role] == spent
        assert spent["prompt"] > 0
        assert summary["calls"][role] == model.spent.calls
    (row,) = summary_rows([run])
    for role, model in by_role.items():
        total = model.spent.prompt_tokens + model.spent.completion_tokens
        assert int(row[f"{role} tokens"].replace(",", "")) == total


def test_failed_attempts_and_late_verdicts_are_paid_for_too(tmp_path: Path) -> None:
    broken, down = {"b1", "b6"}, [True]

    def judge(text: str, sampling: Sampling) -> str:
        if down[0] and "room 4" in text:
            raise InfrastructureError("status 503")
        return '{"success": true}'

    by_role = models(judge=judge)
    bench = ButtonBenchmark(13, broken=lambda task: task.task_id in broken)
    run = stream(tmp_path / "r", by_role, bench)
    assert run.summary()["outcomes"]["error"] == 2
    before = run.summary()["tokens"]["curator"]["prompt"]
    broken.clear()
    down[0] = False
    run = stream(tmp_path / "r", by_role, bench)
    summary = run.summary()
    assert summary["outcomes"]["error"] == summary["owed"] == 0
    assert summary["tokens"]["curator"]["prompt"] > before, "curated again for the episodes owed"
    for role, model in by_role.items():
        assert summary["tokens"][role]["prompt"] == model.spent.prompt_tokens
        assert summary["tokens"][role]["completion"] == model.spent.completion_tokens


def test_cached_calls_are_counted_apart(tmp_path: Path) -> None:
    by_role = models()
    run = stream(tmp_path / "a", by_role)
    from jitmem_lab.models.replay import ReplayModel

    # Distillers are asked outside episodes, so a replay of the run's record does not know them.
    again = ReplayModel(str(run.path))
    replayed = dict.fromkeys(ROLES, again) | {"distiller": models()["distiller"]}
    second = stream(tmp_path / "b", replayed)  # type: ignore[arg-type]
    assert results_table(second.latest()) == results_table(run.latest())
    summary = second.summary()
    assert summary["calls"]["executor"] == 0
    assert summary["cached_calls"]["executor"] == run.summary()["calls"]["executor"]
    assert summary["tokens"]["executor"] == run.summary()["tokens"]["executor"]


# Summaries


class OddRewards(ButtonBenchmark):
    """Gives the rewards it is told to, whatever is pressed."""

    max_steps = 1

    def __init__(self, rewards: Sequence[Any]) -> None:
        super().__init__(len(rewards))
        self.rewards = rewards

    def make_env(self, task: Task, session: Any = None) -> ButtonEnv:
        env = super().make_env(task, session)
        reward = self.rewards[int(task.task_id[1:])]
        env.step = lambda action: Observation("Click.", ("press red",), reward, True, True)  # type: ignore
        return env


def test_unscored_episodes_enter_no_mean_and_are_counted_after_reload(tmp_path: Path) -> None:
    rewards = [1.0, float("nan"), 0.5, None, float("inf"), 0.0]
    stream(tmp_path / "r", models(), OddRewards(rewards))
    summary = Run(tmp_path / "r").summary()
    assert summary["unscored"] == 3
    assert summary["mean_reward"] == pytest.approx(0.5)
    assert summary["outcomes"]["success"] == 6
    frame = Run(tmp_path / "r").episodes()
    assert frame["reward"].isna().sum() == 3
    assert frame["reward"].mean() == pytest.approx(0.5)


def test_a_summary_is_what_the_file_says(tmp_path: Path) -> None:
    down = {"b2", "b9"}
    bench = ButtonBenchmark(13, broken=lambda task: task.task_id in down)
    summary = stream(tmp_path / "r", models(), bench).summary()

    lines = [json.loads(line) for line in (tmp_path / "r" / "episodes.jsonl").read_text().splitlines()]
    outcomes = Counter(line["outcome"] for line in lines)
    played = [line for line in lines if line["outcome"] != "error"]
    steps = [len(line["trajectory"]["steps"]) for line in played]
    invalid = sum(not step["valid"] for line in played for step in line["trajectory"]["steps"])
    pairs = Counter((line["verdict"]["success"], line["outcome"] == "success") for line in played)

    assert summary["outcomes"] == {name: outcomes[name] for name in ("success", "failure", "error")}
    assert outcomes["success"] > 0 < outcomes["failure"]
    assert summary["success_rate"] == outcomes["success"] / len(played)
    assert summary["success_interval"] == list(wilson(outcomes["success"], 11))
    assert (summary["tasks"], summary["owed"], summary["state"]) == (13, 2, "incomplete")
    assert summary["mean_steps"] == sum(steps) / len(steps)
    assert summary["invalid_actions"] == invalid
    assert summary["mean_reward"] == sum(line["trajectory"]["reward"] for line in played) / len(played)
    assert summary["judge"] == {
        "true_positive": pairs[True, True],
        "false_positive": pairs[True, False],
        "true_negative": pairs[False, False],
        "false_negative": pairs[False, True],
        "unknown": 0,
    }
    assert min(pairs.values()) > 0
    begun = min(line["started"] for line in lines)
    ended = max(line["started"] + line["seconds"] for line in lines)
    assert summary["wall_seconds"] == pytest.approx(ended - begun, abs=0.001)


def test_a_verdict_given_late_counts_and_one_never_given_is_unknown(tmp_path: Path) -> None:
    down = [True]

    def judge(text: str, sampling: Sampling) -> str:
        if down[0] or "room 2." in text:
            raise InfrastructureError("timeout")
        return '{"success": true}'

    by_role = models(judge=judge)
    run = stream(tmp_path / "r", by_role, ButtonBenchmark(6))
    assert run.summary()["judge"]["unknown"] == 6
    assert {e.verdict.success for e in run.latest()} == {None}
    down[0] = False
    run = stream(tmp_path / "r", by_role, ButtonBenchmark(6))
    judged = run.summary()["judge"]
    assert judged["unknown"] == 1
    assert judged["true_positive"] == run.summary()["outcomes"]["success"] - (
        run.episode(2).outcome == "success"
    )
    assert [e.verdict.success for e in run.latest()].count(True) == 5
    assert len(run.bank()) == 5, "an unknown one is not stored"


def test_a_run_with_nothing_in_it_has_a_summary(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(3, broken=lambda task: True))
    summary = run.summary()
    assert (summary["success_rate"], summary["mean_steps"], summary["mean_reward"]) == (None, None, None)
    assert summary["success_interval"] == [0.0, 1.0]
    assert "-" in summary_text([run])
    (tmp_path / "r" / "episodes.jsonl").unlink()
    assert Run(tmp_path / "r").summary()["wall_seconds"] is None
    assert len(Run(tmp_path / "r").episodes()) == 0
    assert summary_text([]) == "(no runs)"


def test_tables_escape_and_align(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(4))
    run.settings["memory"]["name"] = "<img src=x onerror=alert(1)>"
    assert "<img" not in summary_html([run])
    assert "&lt;img" in summary_html([run])
    text = summary_text([run, run])
    assert len({len(line) for line in text.splitlines()}) == 1


def test_the_results_table_is_csv_whatever_the_task_is_called(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(3))
    odd = [
        e.model_copy(update={"task": e.task.model_copy(update={"task_id": 'a,"b"\nc'})}) for e in run.latest()
    ]
    rows = list(csv.DictReader(io.StringIO(results_table(odd))))
    assert [row["task_id"] for row in rows] == ['a,"b"\nc'] * 3
    assert [row["outcome"] for row in rows] == [e.outcome for e in odd]
    frame = episode_frame(odd)
    assert list(frame["task_id"]) == ['a,"b"\nc'] * 3
    assert list(frame["steps"]) == [len(e.trajectory.steps) for e in odd]


def test_the_curve_leaves_errors_out_and_ends_at_the_success_rate(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(13, broken=lambda task: task.task_id == "b3"))
    figure = curve_figure([run])
    line = figure.data[-1]
    assert list(line.x) == list(range(1, 13))
    assert line.y[-1] == pytest.approx(100 * run.summary()["success_rate"])


# Broken run directories


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "null",
        '"x"',
        "{}",
        '{"schema_version": 1}',
        '{"schema_version": "x", "settings": {}}',
        '{"schema_version": 1, "settings": 3}',
        '{"schema_version": 1, "settings": {"memory": "raw"}}',
        '{"schema_version": 1, "settings": {"benchmark": null}}',
        '{"schema_version": 99, "settings": {}}',
        "\ud83d",
    ],
)
def test_a_broken_config_is_one_sentence_and_listed(tmp_path: Path, content: str) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError) as caught:
        Run(tmp_path / "r")
    assert "\n" not in str(caught.value)
    (row,) = list_runs(tmp_path)
    assert row["state"] == "broken"
    assert row["error"]


@pytest.mark.parametrize(
    "line",
    [b"\xff\xfe\n", b"[1]\n", b"3\n", b"null\n", b'{"key": 3}\n', b'{"x": 1}\n', b"\x00" * 50 + b"\n", b"\n"],
)
@pytest.mark.parametrize("name", ["episodes.jsonl", "writes.jsonl", "status.json"])
def test_damaged_lines_never_stop_a_reader_or_a_resume(tmp_path: Path, line: bytes, name: str) -> None:
    whole = stream(tmp_path / "r", models(), ButtonBenchmark(5))
    table = results_table(whole.latest())
    file = whole.path / name
    old = file.read_bytes()
    file.write_bytes(line if name == "status.json" else line + old)
    run = Run(whole.path)
    assert results_table(run.latest()) == table
    assert run.summary()["outcomes"] == whole.summary()["outcomes"]
    assert list_runs(tmp_path)[0]["path"] == str(whole.path)
    again = stream(tmp_path / "r", models(), ButtonBenchmark(5))
    assert results_table(again.latest()) == table
    assert again.status()["state"] == "completed"


def test_the_first_result_counts_and_an_error_only_where_there_is_no_result(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(4, broken=lambda task: task.task_id == "b3"))
    before = run.latest()
    assert [e.outcome == "error" for e in before] == [False, False, False, True]
    with (run.path / "episodes.jsonl").open("a") as file:
        for episode in before:
            second = {"outcome": "error", "error": "late", "trajectory": None}
            file.write(episode.model_copy(update=second).to_line() + "\n")
        other = "success" if before[0].outcome == "failure" else "failure"
        file.write(before[0].model_copy(update={"outcome": other}).to_line() + "\n")
    after = Run(run.path).latest()
    assert after[:3] == before[:3]
    assert after[3].error == "late"


def test_a_newer_episode_is_refused_not_skipped(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(2))
    file = run.path / "episodes.jsonl"
    lines = [json.loads(line) | {"schema_version": 99} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = file.read_bytes()
    with pytest.raises(UserError, match="upgrade"):
        Run(run.path).latest()
    with pytest.raises(UserError, match="upgrade"):
        stream(tmp_path / "r", models(), ButtonBenchmark(2))
    assert file.read_bytes() == before


@pytest.mark.parametrize("count", [1, BANDED, BANDED + 1])
def test_bands_stand_where_they_do_not_cover_each_other(tmp_path: Path, count: int) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(6))
    figure = curve_figure([run] * count)
    bands = [trace for trace in figure.data if trace.fill == "toself"]
    assert len(bands) == (count if count <= BANDED else 0)
    assert len(figure.data) - len(bands) == count


def test_curves_that_hide_each_other_are_dotted_and_say_so(tmp_path: Path) -> None:
    run = stream(tmp_path / "r", models(), ButtonBenchmark(6))
    lines = [trace for trace in curve_figure([run, run]).data if trace.fill != "toself"]
    name = run.settings["memory"]["name"]
    assert [line.name for line in lines] == [name, f"{name} (dots: the same as {name})"]
    assert [line.line.dash for line in lines] == ["solid", "dot"]
