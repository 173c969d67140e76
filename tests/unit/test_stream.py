"""The streaming loop: snapshots, outcomes, resume, interruption; the same results however it was run."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jitmem_lab.analysis import results_table
from jitmem_lab.curation import Curator
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.execution import Executor
from jitmem_lab.files import read_lines
from jitmem_lab.judging import Judge
from jitmem_lab.memories import load_memory
from jitmem_lab.memories.raw import RawMemory
from jitmem_lab.records import Message
from jitmem_lab.runs import Run, diff, list_runs
from jitmem_lab.stream import plan, run_stream

from .doubles import ButtonBenchmark, RuleModel, demonstration

pytestmark = pytest.mark.unit


def stream(
    out, *, bench=None, memory="jitmem", n=12, concurrency=1, batch_size=5, seed=0, model=None, **options
):
    model = model or RuleModel()
    bench = bench or ButtonBenchmark(n)
    judge = options.pop("judge", None)
    warm = options.pop("warm", ())
    options.setdefault("gate", "environment") if memory != "none" else None
    if memory == "jitmem":
        options.setdefault("curator", Curator(model))
    return run_stream(
        bench,
        load_memory(memory, **options),
        Executor(model, temperature=1.0),
        out=out,
        batch_size=batch_size,
        concurrency=concurrency,
        seed=seed,
        judge=judge,
        warm_start=warm,
        progress=False,
    )


@pytest.mark.parametrize("memory", ["none", "raw", "jitmem"])
def test_concurrency_changes_nothing(tmp_path, memory):
    tables = [
        results_table(stream(tmp_path / f"c{c}", memory=memory, concurrency=c, n=23).latest()) for c in (1, 8)
    ]
    assert tables[0] == tables[1]
    assert tables[0].count("success") > 3, "the world must let some episodes win, or this shows nothing"


def test_seed_changes_results(tmp_path):
    a, b = (results_table(stream(tmp_path / str(s), seed=s, n=20).latest()) for s in (0, 1))
    assert a != b


def test_batch_sees_one_snapshot_and_order_of_writes_is_task_order(tmp_path):
    run = stream(
        tmp_path / "r",
        n=20,
        batch_size=5,
        concurrency=8,
        gate="all+labels",
        judge=Judge(RuleModel(rule=lambda text, _: '{"success": true, "rationale": "x"}')),
    )
    sizes = {}
    for episode in run.latest():
        sizes.setdefault(episode.batch, set()).add(episode.recall.bank_size)
    assert sizes == {0: {0}, 1: {5}, 2: {10}, 3: {15}}
    bank = run.bank()
    stored = [bank.get(n).trajectory.task.task_id for n in range(1, 21)]
    assert stored == [f"b{i}" for i in range(20)]


def test_a_task_twice_in_one_batch_does_not_see_its_twin(tmp_path):
    bench = ButtonBenchmark(4)
    tasks = bench.tasks() + bench.tasks()
    assert len({slot.key for slot in plan(tasks, 8)}) == 8
    run = run_stream(
        bench,
        load_memory("raw", gate="environment", exclude_own=False),
        Executor(RuleModel(), temperature=1.0),
        out=tmp_path / "r",
        tasks=tasks,
        batch_size=8,
        concurrency=4,
        progress=False,
    )
    assert all(not episode.recall.traces for episode in run.latest())
    assert len(run.latest()) == 8


def test_what_a_warm_start_costs_is_written_call_by_call(tmp_path, monkeypatch):
    written, model = [], RuleModel()

    def warm(self, trajectories, session):
        for _ in trajectories:
            session.choose("curator", model, [Message(role="user", content="x")], ["a", "b"])
            written.append(len(list(read_lines(tmp_path / "r" / "writes.jsonl"))))

    monkeypatch.setattr(RawMemory, "warm", warm)
    stream(tmp_path / "r", memory="raw", warm=[demonstration(task) for task in ButtonBenchmark(3).tasks()])
    assert written == [1, 2, 3]  # a kill at any moment loses none of them


def test_own_task_is_excluded_and_counted(tmp_path):
    bench = ButtonBenchmark(4)
    warm = [demonstration(task) for task in bench.tasks()]
    run = stream(tmp_path / "r", bench=bench, memory="raw", warm=warm, batch_size=4)
    for episode in run.latest():
        assert episode.task.task_id not in {trace.task_id for trace in episode.recall.traces}
        assert episode.recall.self_excluded == 1
    open_run = stream(
        tmp_path / "open", bench=bench, memory="raw", warm=warm, batch_size=4, exclude_own=False
    )
    assert all(e.recall.traces[0].task_id == e.task.task_id for e in open_run.latest())


def test_the_task_and_payload_are_in_every_prompt(tmp_path):
    model = RuleModel(
        rule=lambda text, s: "advice: PAYLOAD" if "briefing" in text else "<action>press red</action>"
    )
    run = stream(tmp_path / "r", model=model, n=8, batch_size=2, on_empty="call")
    for episode in run.latest():
        acting = [call for call in episode.calls if call.role == "executor"]
        assert acting
        for call in acting:
            text = "\n".join(message.content for message in call.messages)
            assert episode.task.description in text
            assert "advice: PAYLOAD" in text


def test_errors_are_owed_and_nothing_of_them_is_stored(tmp_path):
    down = {"b2", "b7"}
    bench = ButtonBenchmark(12, broken=lambda task: task.task_id in down)
    run = stream(tmp_path / "r", bench=bench, memory="raw", gate="all+labels", judge=yes_judge())
    summary = run.summary()
    assert summary["outcomes"]["error"] == 2
    assert summary["owed"] == 2
    assert run.status()["state"] == "incomplete"
    assert len(run.bank()) == 10
    down.clear()
    bench.opened = 0
    run = stream(tmp_path / "r", bench=bench, memory="raw", gate="all+labels", judge=yes_judge())
    assert bench.opened == 2, "resume runs exactly what is owed"
    assert run.status()["state"] == "completed"
    assert len(run.bank()) == 12
    retried = {e.task.task_id: e for e in run.latest()}
    assert retried["b2"].recall.bank_size == 0, "a retried task sees the snapshot of its own batch"


def yes_judge():
    return Judge(RuleModel("judge", rule=lambda text, _: '{"success": true}'))


def test_every_environment_is_closed(tmp_path):
    bench = ButtonBenchmark(9, broken=lambda task: task.task_id == "b3")
    stream(tmp_path / "r", bench=bench, concurrency=4)
    assert bench.opened == bench.closed == 9


@pytest.mark.parametrize(
    "answer", ["", "YES, but…", "I refuse.", '{"success": "yes"}', "{broken", '[{"success": true}]'[:10]]
)
def test_unusable_verdicts_are_unknown_and_not_stored(tmp_path, answer):
    judge = Judge(RuleModel("judge", rule=lambda text, _: answer))
    run = stream(tmp_path / "r", memory="raw", gate="judge", judge=judge, n=4)
    assert all(e.verdict.success is None for e in run.latest())
    assert run.summary()["judge"]["unknown"] == 4
    assert len(run.bank()) == 0


def test_a_judge_out_of_reach_costs_no_episode(tmp_path):
    down = [True]

    def rule(text, sampling):
        if down[0]:
            raise InfrastructureError("503")
        return '{"success": true}'

    model = RuleModel()
    judge = Judge(RuleModel("judge", rule=rule))
    run = stream(tmp_path / "r", memory="raw", gate="judge", judge=judge, n=4, model=model)
    assert run.status()["state"] == "incomplete"
    assert len(run.bank()) == 0
    before = len(model.prompts)
    down[0] = False
    run = stream(tmp_path / "r", memory="raw", gate="judge", judge=judge, n=4, model=model)
    assert len(model.prompts) == before, "no episode is played again"
    assert len(run.bank()) == 4
    assert run.status()["state"] == "completed"


def test_another_run_is_not_written_over(tmp_path):
    stream(tmp_path / "r", memory="raw", k=3)
    before = (tmp_path / "r" / "config.json").read_bytes()
    with pytest.raises(UserError, match=r"memory\.k"):
        stream(tmp_path / "r", memory="raw", k=5)
    assert (tmp_path / "r" / "config.json").read_bytes() == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("x")
    with pytest.raises(UserError, match="holds no run"):
        stream(tmp_path / "mine")


@pytest.mark.parametrize("out", ["file", "file/under", "nul\0", "z" * 300])
def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path, out):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="choose another"):
        stream(tmp_path / out, n=1)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_run_whose_bank_was_lost_is_not_continued(tmp_path):
    run = stream(tmp_path / "r", memory="raw", n=12)
    assert len(run.bank()) > 0
    for file in run.path.glob("bank.sqlite*"):
        file.unlink()
    lines = (run.path / "episodes.jsonl").read_bytes().splitlines(keepends=True)
    (run.path / "episodes.jsonl").write_bytes(b"".join(lines[:-3]))
    with pytest.raises(UserError, match="put the lost bank"):
        stream(tmp_path / "r", memory="raw", n=12)
    assert (run.path / "episodes.jsonl").read_bytes() == b"".join(lines[:-3])


def test_what_differs_between_two_runs(tmp_path):
    a = stream(tmp_path / "a", memory="raw", k=3)
    b = stream(tmp_path / "b", memory="raw", k=5, seed=4)
    found = {row["field"]: (row["a"], row["b"]) for row in diff(a, b)}
    assert found["memory.k"] == (3, 5)
    assert found["seed"] == (0, 4)
    assert not any("hash" in name for name in found)


def test_odd_text_survives(tmp_path):
    run = stream(tmp_path / "r", n=3)
    assert any("\ud83d" in e.trajectory.final_observation for e in run.latest())
    assert (tmp_path / "r" / "episodes.jsonl").read_bytes().isascii()


@pytest.mark.parametrize("tear", [b'{"key": "torn', b"\xff\xfe", b"not json\n", b'{"foreign": 1}\n', b"\n"])
def test_torn_or_foreign_lines_are_owed_never_a_crash(tmp_path, tear):
    whole = results_table(stream(tmp_path / "whole", n=9).latest())
    stream(tmp_path / "r", n=9)
    file = tmp_path / "r" / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + tear)
    run = stream(tmp_path / "r", n=9)
    assert results_table(run.latest()) == whole
    assert run.status()["state"] == "completed"


def test_newer_and_broken_directories(tmp_path):
    run = stream(tmp_path / "r", n=2)
    config = json.loads((run.path / "config.json").read_text())
    (run.path / "config.json").write_text(json.dumps(config | {"schema_version": 99}))
    with pytest.raises(UserError, match="upgrade"):
        Run(run.path)
    (run.path / "config.json").write_text("{")
    with pytest.raises(UserError, match="cannot be read"):
        Run(run.path)
    assert list_runs(tmp_path)[0]["state"] == "broken"
    with pytest.raises(UserError, match="no run directory"):
        Run(tmp_path / "nowhere")


CHILD = """
import sys
sys.path.insert(0, {tests!r})
from unit.test_stream import stream
from unit.doubles import RuleModel, ButtonBenchmark
stream({out!r}, memory="raw", n=60, batch_size=7, concurrency=4, model=RuleModel(latency=0.004))
"""


def test_kill_at_twenty_random_moments(tmp_path):
    tests = str(Path(__file__).parent.parent)
    whole = stream(tmp_path / "whole", memory="raw", n=60, batch_size=7)
    out = tmp_path / "killed"
    script = CHILD.format(tests=tests, out=str(out))
    rng = random.Random(5)
    kills = 0
    attempts = 0
    while attempts < 60:
        attempts += 1
        child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
        if kills < 20:
            size, begun = _size(out), time.monotonic()
            while _size(out) == size and child.poll() is None and time.monotonic() - begun < 20:
                time.sleep(0.001)
            time.sleep(rng.random() * 0.02)
            if child.poll() is None:
                os.kill(child.pid, signal.SIGKILL)
                kills += 1
                child.communicate()
                assert Run(out).status()["state"] in ("killed", "new")
                continue
        errors = child.communicate()[1].decode()
        assert child.returncode == 0, errors
        if Run(out).status()["state"] == "completed":
            break
    run = Run(out)
    assert kills == 20, f"only {kills} kills hit a living run"
    assert results_table(run.latest()) == results_table(whole.latest())
    keys = [json.loads(line)["key"] for line in read_lines(out / "episodes.jsonl")]
    assert len(keys) == len(set(keys)) == 60
    stored, expected = run.bank(), whole.bank()
    assert [stored.get(n).key for n in range(1, len(stored) + 1)] == [
        expected.get(n).key for n in range(1, len(expected) + 1)
    ]
    assert attempts > 20


def _size(out: Path) -> int:
    return sum(f.stat().st_size for f in (out / "episodes.jsonl", out / "writes.jsonl") if f.exists())


def test_interrupt_leaves_a_clean_directory(tmp_path):
    out = tmp_path / "r"
    script = CHILD.format(tests=str(Path(__file__).parent.parent), out=str(out)).replace("0.004", "0.05")
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    while _size(out) == 0 and child.poll() is None:
        time.sleep(0.01)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=20)
    assert child.returncode != 0
    assert Run(out).status()["state"] == "interrupted"
    run = stream(out, memory="raw", n=60, batch_size=7)
    assert results_table(run.latest()) == results_table(
        stream(tmp_path / "w", memory="raw", n=60, batch_size=7).latest()
    )


def test_two_writers_are_refused(tmp_path):
    from jitmem_lab.runs import RunLock

    stream(tmp_path / "r", n=2)
    lock = RunLock(tmp_path / "r")
    lock.acquire()
    try:
        with pytest.raises(UserError, match="another process"):
            stream(tmp_path / "r", n=2)
    finally:
        lock.release()


def test_a_folder_that_takes_no_lock_is_one_sentence(tmp_path):
    from jitmem_lab.runs import RunLock

    stream(tmp_path / "r", n=2)
    (tmp_path / "r" / ".lock").unlink()
    (tmp_path / "r" / ".lock").mkdir()  # as a write-protected folder does, to the super-user too
    with pytest.raises(UserError, match="cannot be written to"):
        RunLock(tmp_path / "r").acquire()
    with pytest.raises(UserError, match="cannot be written to"):
        stream(tmp_path / "r", n=2)


def test_interrupt_does_not_wait_for_a_server_that_asks_to_wait(tmp_path):
    script = f"""
import sys, threading, _thread
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from unit.test_stream import stream
from unit.doubles import RuleModel
from jitmem_lab.models.retrying import Again, retrying
def busy(text, sampling):
    def attempt():
        raise Again("429", after=25.0)
    return retrying(attempt, server="stub")
stream({str(tmp_path / "r")!r}, memory="raw", n=4, concurrency=2, model=RuleModel(rule=busy))
"""
    child = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE)
    while not (tmp_path / "r" / "status.json").exists() and child.poll() is None:
        time.sleep(0.05)
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=15)
    assert Run(tmp_path / "r").status()["state"] == "interrupted"


def test_a_kill_before_the_config_needs_no_repair(tmp_path):
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / ".config.json.x1").write_text("{")
    assert stream(tmp_path / "r", n=2).status()["state"] == "completed"


def test_a_prompt_too_long_costs_one_episode_not_the_run(tmp_path):
    def rule(text, sampling):
        if "room 3." in text:
            raise InfrastructureError("the prompt has 9999 tokens, more than the context")
        return "<action>press red</action>"

    run = stream(tmp_path / "r", memory="none", n=6, model=RuleModel(rule=rule))
    assert run.summary()["outcomes"]["error"] == 1
    assert run.summary()["owed"] == 1


def test_resuming_elsewhere_is_recorded(tmp_path, monkeypatch):
    run = stream(tmp_path / "r", n=2)
    stream(tmp_path / "r", n=2)
    assert len(run.provenances()) == 1
    monkeypatch.setattr("jitmem_lab.stream.provenance", lambda: {"packages": {"torch": "9"}})
    stream(tmp_path / "r", n=2)
    assert run.provenances()[-1] == {"packages": {"torch": "9"}}
    other = stream(tmp_path / "other", n=2)
    assert not diff(run, other)


def test_two_starters_of_one_new_folder_cannot_mix_their_configs(tmp_path):
    from jitmem_lab.runs import RunLock

    (tmp_path / "r").mkdir()
    lock = RunLock(tmp_path / "r")
    lock.acquire()
    try:
        with pytest.raises(UserError, match="another process"):
            stream(tmp_path / "r", n=2)
    finally:
        lock.release()
    assert not (tmp_path / "r" / "config.json").exists()


@pytest.mark.parametrize("bad", ["BUSY", "FAULT", "EMPTY_CHOICE", "NO_CONTENT", "TRUNCATED"])
def test_a_server_that_fails_and_recovers(tmp_path, bad):
    from jitmem_lab.models import load_model

    from . import stub_server
    from .stub_server import Say

    say = {
        "BUSY": Say("slow down", status=429, headers={"Retry-After": "0"}),
        "FAULT": Say("oops", status=500),
    }.get(bad) or getattr(stub_server, bad)
    broken = [True]

    def script(path, body, number):
        text = json.dumps(body)
        if broken[0] and ("room 1." in text or "room 4." in text):
            return say
        return Say("<action>press red</action>")

    with stub_server.stub_server(script) as server:

        def play():
            model = load_model(f"openai:{server.url}#stub", retries=1, timeout=5)
            try:
                return stream(
                    tmp_path / "r",
                    memory="raw",
                    gate="all+labels",
                    judge=yes_judge(),
                    n=6,
                    model=model,
                    concurrency=3,
                )
            finally:
                model.close()

        run = play()
        assert {e.task.task_id for e in run.latest() if e.outcome == "error"} == {"b1", "b4"}
        assert len(run.bank()) == 4
        sent = sum("room 1." in json.dumps(body) for _, body, _ in server.requests)
        assert sent <= 4, "retries are bounded"
        broken[0] = False
        before = len(server.requests)
        run = play()
    assert run.status()["state"] == "completed"
    assert len(run.bank()) == 6
    later = [json.dumps(body) for path, body, _ in server.requests[before:] if "completions" in path]
    assert later
    assert all("room 1." in text or "room 4." in text for text in later), "resume asks for what is owed only"


class Teller(ButtonBenchmark):
    """A world whose tasks are told by the reset: what is listed says nothing."""

    tells_at_reset = True

    def tasks(self, limit=None, order=None):
        return [
            task.model_copy(update={"description": f"(told later) {task.task_id}"})
            for task in super().tasks(limit, order)
        ]

    def make_env(self, task, session=None):
        env = super().make_env(task, session)
        shown, seen = env.reset, f"press {task.meta['colour']} now"
        env.reset = lambda: shown()._replace(task=seen)
        return env


def test_a_task_told_by_the_reset_is_what_memory_model_and_record_see(tmp_path):
    model = RuleModel()
    bench = Teller(12)
    run = stream(tmp_path / "r", bench=bench, model=model, n=12, batch_size=2)
    episodes = list(run.latest())
    listed = {task.task_id: task for task in bench.tasks()}
    for episode in episodes:
        sentence = f"press {listed[episode.task.task_id].meta['colour']} now"
        assert episode.task.description == sentence
        assert episode.recall.query == sentence
        assert episode.trajectory.task.description == sentence
    assert any(trace.description.endswith(" now") for e in episodes for trace in e.recall.traces)
    assert not any("task: (told later)" in prompt for prompt in model.prompts)
    assert any("task: press red now" in prompt for prompt in model.prompts)
    asked = len(model.prompts)
    stream(tmp_path / "r", bench=bench, model=model, n=12, batch_size=2)
    assert len(model.prompts) == asked, "a resumed run knows its episodes again"


def test_a_hidden_key_stays_the_key_when_the_reset_tells_the_task(tmp_path):
    class Hidden(Teller):
        def tasks(self, limit=None, order=None):
            return [t.model_copy(update={"key": f"secret {t.task_id}"}) for t in super().tasks(limit, order)]

    run = stream(tmp_path / "r", bench=Hidden(4), memory="raw", n=4)
    assert {e.recall.query for e in run.latest()} == {f"secret b{i}" for i in range(4)}


def test_each_call_says_in_which_phase_it_was_made(tmp_path):
    rule = lambda text, _: '{"success": true}' if "Did the agent" in text else "<action>press red</action>"  # noqa: E731
    model = RuleModel(rule=rule)
    run = stream(tmp_path / "r", n=6, batch_size=2, model=model, gate="judge", judge=Judge(model))
    pairs = {(call.role, call.phase) for episode in run.latest() for call in episode.calls}
    assert pairs == {("curator", "recall"), ("executor", "act"), ("judge", "judge")}
    episode = next(e for e in run.latest() if e.recall.payload)
    phases = episode.usage(by="phase")
    assert set(phases) == {"recall", "act", "judge"}
    assert sum(u.calls for u in phases.values()) == sum(u.calls for u in episode.usage().values())


def test_after_an_outage_the_resumed_run_is_an_undisturbed_one(tmp_path):
    """A server that was down for a while costs nothing but time, if no episode ended meanwhile."""
    down = ButtonBenchmark(20, broken=lambda task: True)
    stream(tmp_path / "r", bench=down, memory="raw", batch_size=4)
    resumed = stream(tmp_path / "r", bench=ButtonBenchmark(20), memory="raw", batch_size=4)
    fresh = stream(tmp_path / "f", bench=ButtonBenchmark(20), memory="raw", batch_size=4)
    snapshots = [sorted({e.snapshot for e in run.latest()}) for run in (resumed, fresh)]
    assert snapshots[0] == snapshots[1]
    assert snapshots[0][-1] > 0
    assert results_table(resumed.latest()) == results_table(fresh.latest())
