"""The explorer: tries, what is saved of them, and that nothing is left open."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab import evaluation
from jitmem_lab.bank import MemoryBank
from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.comparison import Comparison
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.evaluation import EvalConfig, evaluate
from jitmem_lab.execution import Executor
from jitmem_lab.explore import Attempt, Explorer
from jitmem_lab.memories import load_memory
from jitmem_lab.records import Sampling, Task
from jitmem_lab.runs import Run, list_runs
from jitmem_lab.stream import run_stream
from jitmem_lab.views import explorer as view
from jitmem_lab.views.comparing import read_side
from jitmem_lab.views.reading import EpisodeIndex

from .doubles import COLOURS, ButtonBenchmark, ButtonEnv, RuleModel

pytestmark = pytest.mark.unit

HOSTILE = (
    "<img src=x onerror=alert(1)></section></script> $$x$$ \x1b[31m \u202e \x00 \ud83d [x](javascript:y)"
)


class Model(RuleModel):
    """Curates by the records that it is shown, and tells whether it was closed."""

    context = 32_768

    def __init__(self, rule: Callable[[str, Sampling], str] | None = None) -> None:
        super().__init__(rule=rule or self.answer)
        self.closed = 0

    @staticmethod
    def answer(text: str, sampling: Sampling) -> str:
        if "Record 1" in text:
            return f"Of {text.count('Record ')} records: press what the first pressed. {HOSTILE}"
        return f"<action>press {COLOURS[len(text) % 4]}</action>"

    def close(self) -> None:
        self.closed += 1


class Bench(ButtonBenchmark):
    """Counts how often it was closed."""

    shut = 0

    def close(self) -> None:
        self.shut += 1


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    made = Bench(12)
    monkeypatch.setattr(evaluation, "load_benchmark", lambda name, split=None, **options: made)
    return made


def explore(run: Any = None, model: Any = None, **parameters: Any) -> Explorer:
    chosen = {} if run is not None else {"preset": "paper", "split": "all", "warm_start": 12}
    return Explorer(run, model=model or Model(), **(chosen | parameters))


def evaluated(folder: Path, memory: str = "jitmem", **parameters: Any) -> Run:
    """A run of the button world by `evaluate`."""
    asked = {"preset": "paper", "split": "all", "games": 6, "gate": "environment", "warm_start": 4}
    config = EvalConfig.make(memory=memory, **(asked | parameters))
    return evaluate(config, out=folder, progress=False, models={"smol": Model()})


# Tries


def test_tries_are_compared_by_outcome_score_steps_and_tokens(bench: Bench) -> None:
    with explore() as lab:
        tries = [lab.curate(k=3), lab.curate(k=1), lab.payload(""), lab.oracle_payload()]
        assert lab.compare()["result"].tolist() == ["not played"] * 4
        for attempt in tries:
            lab.play(attempt)
        frame = lab.compare()
        assert frame["try"].tolist() == [1, 2, 3, 4]
        assert frame["k"].tolist()[:2] == [3, 1]
        assert frame["how"].tolist() == ["curated", "curated", "no payload", "the walkthrough"]
        for row, attempt in zip(frame.to_dict("records"), tries, strict=True):
            played = attempt.trajectory
            assert played is not None
            assert (row["outcome"], row["score"], row["steps"]) == (
                played.outcome,
                played.reward,
                len(played.steps),
            )
            assert row["tokens"] == sum(
                c.usage.prompt_tokens + c.usage.completion_tokens for c in attempt.calls
            )
        assert lab.compare(2)["try"].tolist() == [3, 4]
        assert [attempt.score for attempt in tries] == frame["score"].tolist()
        assert tries[0].prompt().count("Record ") == 3


def test_a_try_is_what_the_stream_would_play(bench: Bench, tmp_path: Path) -> None:
    run = evaluated(tmp_path / "run", games=1)
    (episode,) = run.latest()
    with explore(preset="paper", games=1, gate="environment", warm_start=4) as lab:
        attempt = lab.play(lab.curate())
        mine = attempt.episode()
    assert mine.recall == episode.recall
    assert mine.trajectory is not None
    assert episode.trajectory is not None
    assert mine.trajectory.hash == episode.trajectory.hash
    assert mine.key == episode.key
    assert mine.seeds == episode.seeds
    assert [call.messages for call in mine.calls] == [call.messages for call in episode.calls]


def test_traces_may_be_picked_by_hand(bench: Bench) -> None:
    with explore() as lab:
        best = [trace.trace_id for trace in lab.traces(12).traces]
        assert len(best) == 11, "the task's own trace is not among them"
        chosen = [best[10], best[4]]
        attempt = lab.curate(traces=chosen)
        assert [trace.trace_id for trace in attempt.recall.traces] == [best[4], best[10]]
        assert [trace.rank for trace in attempt.recall.traces] == [5, 11]
        assert attempt.settings["traces"] == sorted(chosen)
        own = next(number for number in range(1, 13) if number not in best)
        for wrong in (own, 99):
            with pytest.raises(UserError, match=f"trace {wrong} is not to be had"):
                lab.curate(traces=[wrong])
        assert lab.look(pick=chosen).recall.traces == lab.traces(pick=chosen).traces
        assert len(lab.attempts) == 1, "looking is no try"


def test_an_edited_prompt_is_sent_and_a_bad_one_refused(bench: Bench) -> None:
    with explore() as lab:
        edited = lab.prompt().replace("{traces}", "From other rooms:\n{traces}")
        assert "From other rooms:" in lab.curate(prompt=edited).prompt()
        with pytest.raises(UserError, match=r"\{nothing\}"):
            lab.curate(prompt="[[user]]\n{nothing}")
        with pytest.raises(UserError, match="no parameter of the curator"):
            lab.curate(history=3)
        assert len(lab.attempts) == 1


def test_another_model_may_be_tried(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Model] = []

    def load(spec: str) -> Model:
        loaded.append(Model(lambda text, _: "Payload of another." if "Record 1" in text else "press red"))
        return loaded[-1]

    monkeypatch.setattr("jitmem_lab.explore.load_model", load)
    given = Model()
    with explore(model=given) as lab:
        attempt = lab.play(lab.curate(model="hf:other"))
        assert attempt.recall.payload == "Payload of another."
        assert attempt.settings["model"] == "hf:other"
        lab.play(lab.payload("", model="hf:other"))
        assert len(loaded) == 1
    assert [model.closed for model in loaded] == [1]
    assert given.closed == 0, "a model that was given stays open"


# Failures


def test_a_failed_episode_is_no_result_and_can_be_played_again(bench: Bench, tmp_path: Path) -> None:
    with explore() as lab:
        attempt = lab.play(lab.curate())
        bench.broken = lambda task: True
        with pytest.raises(InfrastructureError, match="the environment died"):
            lab.play(attempt)
        assert attempt.result == "not played"
        assert attempt.score is None
        with pytest.raises(UserError, match="try 1 was not played yet"):
            lab.save(attempt, tmp_path)
        assert list(tmp_path.iterdir()) == []
        bench.broken = lambda task: False
        lab.play(attempt)
        assert len([call for call in attempt.calls if call.role == "curator"]) == 1
        played = attempt.trajectory
        assert played is not None
        assert len([call for call in attempt.calls if call.phase == "act"]) == len(played.steps)
    assert bench.opened == bench.closed == 3


def test_nothing_to_play_or_save_is_said(bench: Bench) -> None:
    with explore() as lab:
        for verb in (lab.play, lab.save):
            with pytest.raises(UserError, match="call curate"):
                verb()


# Nothing is left open


def test_closing_leaves_nothing_behind(bench: Bench, tmp_path: Path) -> None:
    model = Model()
    lab = explore(model=model)
    attempt = lab.play(lab.curate())
    folder = lab.searched.path
    assert (folder / "bank.sqlite").exists()
    lab.close()
    lab.close()
    assert not folder.exists()
    assert (bench.shut, model.closed) == (1, 0)
    assert bench.opened == bench.closed
    for late in (lab.curate, lab.traces, lambda: lab.play(attempt), lambda: lab.pick(1), lab.look):
        with pytest.raises(UserError, match="this explorer is closed"):
            late()
    with pytest.raises(UserError, match="closed"):
        lab.save(attempt, tmp_path)
    assert "Of 3 records" in attempt._repr_html_(), "what was tried can still be looked at"


def test_a_start_that_fails_leaves_nothing_open(bench: Bench, tmp_path: Path) -> None:
    run = evaluated(tmp_path / "none", memory="none")
    shut = bench.shut
    with pytest.raises(UserError, match=r"no bank of trajectories.*memory raw or jitmem"):
        explore(run)
    assert bench.shut == shut + 1
    bench.n = 0
    with pytest.raises(UserError, match="has no tasks"):
        explore()
    assert bench.shut == shut + 2


def test_what_cannot_be_explored_is_said(bench: Bench, tmp_path: Path) -> None:
    bare = run_stream(
        bench, load_memory("raw", gate="environment"), Executor(Model()), out=tmp_path / "a", progress=False
    )
    with pytest.raises(UserError, match="records no request"):
        explore(bare)
    with pytest.raises(UserError, match="leave out payload_of, and memory"):
        explore(memory="raw")


# Saved as runs


def saved_tries(folder: Path) -> tuple[list[Attempt], list[Run]]:
    with explore() as lab:
        tries = [
            lab.curate(k=3),
            lab.curate(k=1),
            lab.curate(traces=[4, 7]),
            lab.payload(""),
            lab.payload("press red"),
            lab.oracle_payload(),
        ]
        return tries, [lab.save(lab.play(attempt), folder) for attempt in tries]


def test_each_way_is_a_run_with_true_settings(bench: Bench, tmp_path: Path) -> None:
    tries, runs = saved_tries(tmp_path)
    assert len({run.path for run in runs}) == 6
    names = [run.settings["memory"]["name"] for run in runs]
    assert names == [*["jitmem-by-hand"] * 3, "none-by-hand", "written-by-hand", "oracle-by-hand"]
    assert [run.settings["memory"].get("k") for run in runs] == [3, 1, 2, None, None, None]
    for attempt, run in zip(tries, runs, strict=True):
        (episode,) = run.latest()
        assert episode.recall == attempt.recall
        assert episode.trajectory == attempt.trajectory
        assert list(episode.calls) == attempt.calls
        assert (episode.verdict.source, episode.verdict.success) == ("none", None)
        assert run.settings["made"] == "by hand, in the explorer"
        assert run.card().cautions[0].startswith("made by hand in the explorer")
        assert run.status()["state"] == "completed"
        summary = run.summary()
        assert (summary["tasks"], summary["owed"]) == (1, 0)
        index = EpisodeIndex(run)
        index.refresh()
        assert index.load(0) == episode
        assert read_side(run.name, run.path).rows[0].task.task_id == "b0"
    said = ["\n".join(run.card().cautions) for run in runs]
    assert "12 solved demonstrations" in said[0]
    assert "picked by hand" in said[2]
    assert "written by hand" in said[4]
    assert "a control: the payload is the benchmark's own solution" in said[5]
    with runs[0].bank() as bank:
        assert len(bank) == 12
    assert not (runs[3].path / "bank.sqlite").exists()


def test_tries_made_alike_go_together_and_a_task_tried_again_is_a_further_trial(
    bench: Bench, tmp_path: Path
) -> None:
    for _ in range(2):  # two explorers, one after the other
        with explore() as lab:
            for row in (0, 3, 0):
                lab.pick(row)
                attempt = lab.play(lab.curate())
                run = lab.save(attempt, tmp_path)
                assert attempt.saved == run.path
                assert lab.save(attempt, tmp_path).path == run.path, "a second time saves nothing"
    assert [row["path"] for row in list_runs(tmp_path)] == [str(run.path)]
    episodes = run.latest()
    assert [(e.position, e.task.task_id, e.trial) for e in episodes] == [
        (0, "b0", 0),
        (1, "b3", 0),
        (2, "b0", 1),
        (3, "b0", 2),
        (4, "b3", 1),
        (5, "b0", 3),
    ]
    assert len({e.key for e in episodes}) == 6
    assert [write["change"]["stored"] for write in run.writes()] == [False] * 6
    assert run.status()["done"] == 6


def test_no_evaluation_takes_it_for_its_own(bench: Bench, tmp_path: Path) -> None:
    run = evaluated(tmp_path / "runs" / "jitmem")
    with explore(run) as lab:
        saved = lab.save(lab.play(lab.curate()), tmp_path / "runs" / "explored")
    assert saved.config["request"] is None
    groups = Comparison.read(tmp_path / "runs").groups
    assert sorted(group.label for group in groups) == ["jitmem", "jitmem-by-hand"]
    memory = load_memory("raw", gate="environment")
    with pytest.raises(UserError, match="holds a run of other settings"):
        run_stream(bench, memory, Executor(Model()), out=saved.path, progress=False)
    assert saved.summary()["tasks"] == 1


def test_a_run_is_explored_with_its_bank_and_settings(bench: Bench, tmp_path: Path) -> None:
    run = evaluated(tmp_path / "jitmem", k=2)
    before = {file.name: file.read_bytes() for file in run.path.iterdir() if file.suffix == ".jsonl"}
    with explore(run) as lab:
        with run.bank() as bank:
            assert len(lab.memory.bank) == len(bank)
            assert lab.memory.bank.tasks() == bank.tasks()
        assert len(lab.known_tasks) == 6
        attempt = lab.play(lab.curate())
        assert len(attempt.recall.traces) == 2
        saved = lab.save(attempt, tmp_path / "explored")
    assert any("the bank is that of run jitmem" in caution for caution in saved.card().cautions)
    assert {name: (run.path / name).read_bytes() for name in before} == before
    with explore(saved) as again:  # and what was saved is explored in its turn
        assert (again.config.k, again.config.gate) == (2, "environment")
        assert len(again.known_tasks) == 6
        assert again.curate().recall.traces == attempt.recall.traces


def test_a_bank_is_copied_while_it_is_written(bench: Bench, tmp_path: Path) -> None:
    run = evaluated(tmp_path / "jitmem")
    with MemoryBank(run.path / "bank.sqlite", tokenizer="whitespace") as writer, explore(run) as lab:
        size = len(lab.memory.bank)
        first = lab.memory.bank.get(1)
        writer.append([("later", first.trajectory, {})])
        assert len(lab.memory.bank) == size
        assert lab.traces().bank_size == size


def test_a_folder_that_cannot_be_written_to_is_said(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with explore() as lab:
        attempt = lab.play(lab.curate())
        with pytest.raises(UserError, match="choose another"):
            lab.save(attempt, file)
        assert attempt.saved is None
        lab.save(attempt, tmp_path / "there")


class Telling(Bench):
    """Tells a task's sentence at its reset only."""

    tells_at_reset = True

    def make_env(self, task: Task, session: Any = None) -> ButtonEnv:
        made = super().make_env(task)
        reset = made.reset
        made.reset = lambda: Observation(*reset()[:2], task=f"The user says: {task.task_id}")  # type: ignore[method-assign]
        return made


def test_a_sentence_told_at_the_reset_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = Telling(6)
    monkeypatch.setattr(evaluation, "load_benchmark", lambda name, split=None, **options: made)
    with explore(warm_start=6) as lab:
        assert lab.task.description == "The user says: b0"
        lab.pick("b2")
        attempt = lab.play(lab.curate())
        assert lab.save(attempt, tmp_path).latest()[0].task.description == "The user says: b2"
    assert made.opened == made.closed == 3


# What is shown


def test_a_try_is_shown_as_text_and_as_far_as_it_has_come(bench: Bench) -> None:
    with explore() as lab:
        looked, attempt = lab.look(), lab.curate()
        pages = [looked._repr_html_(), attempt._repr_html_(), lab.play(attempt)._repr_html_()]
        other = lab.play(lab.payload(HOSTILE))
        pages.append(view.compare_tries(lab.attempts)._repr_html_())
    names = ("traces", "payload", "episode")
    columns = [[f'class="column {name}-column"' in page for name in names] for page in pages[:3]]
    assert columns == [[True, False, False], [True, True, False], [True, True, True]]
    assert "did not end" not in pages[1]
    for page in pages:
        assert page.count("<div") == page.count("</div>")
        assert "<img" not in page
        assert "</script>" not in page
        assert not {"\x1b", "\u202e", "\x00", "\ud83d"} & set(page)
    assert "&lt;img src=x" in pages[3]
    assert "payload: try 1 → try 2" in pages[3]
    assert repr(view.compare_tries([other])) == f"try 2: by hand: {other.result}"
    assert repr(other) == f"Attempt(2, by hand: {other.result})"


def test_the_last_try_is_set_beside_the_three_before_it(bench: Bench) -> None:
    with explore() as lab:
        for k in (1, 2, 3, 4, 5):
            lab.curate(k=k)
        page = view.compare_tries(lab.attempts)._repr_html_()
        assert [f"try {n} → try 5" in page for n in (1, 2, 3, 4)] == [False, True, True, True]
        assert "no try yet" in view.compare_tries([])._repr_html_()
        none = [lab.payload(""), lab.payload("")]
        assert "none in either" in view.compare_tries(none)._repr_html_()


def test_the_view_loads_no_model_code() -> None:
    code = (
        "import sys, jitmem_lab.views.explorer\n"
        "models = ('torch', 'transformers', 'openai', 'jitmem_lab.models', 'ipywidgets', 'panel')\n"
        "print([name for name in sys.modules if name.startswith(models)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
