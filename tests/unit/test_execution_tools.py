"""The executor that calls tools: its conversation, odd calls, long conversations, and whole runs."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jitmem_lab.benchmarks.acting import NO_ACTION
from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.errors import UserError
from jitmem_lab.execution import Executor, without_thinking
from jitmem_lab.execution_tools import (
    NO_ANSWER,
    actions,
    conversation,
    fitted,
    prompt_tokens,
    token_scale,
)
from jitmem_lab.memories import load_memory
from jitmem_lab.models import load_model
from jitmem_lab.models.base import ChatModel, Reply
from jitmem_lab.records import Call, Message, Step, ToolCall, Trajectory, Usage
from jitmem_lab.runs import Run
from jitmem_lab.session import Session
from jitmem_lab.stream import run_stream

from .desk import RULES, STOP, TOOLS, DeskBenchmark
from .doubles import RuleModel
from .stub_server import Brain, Say, StubServer, by_model, calling, conversing, stub_server, thinking

pytestmark = pytest.mark.unit

USER = conversing("I am Mia. Refund my order.", f"Thanks. {STOP}")
# Arguments in another order than a record keeps them.
AGENT = conversing(
    calling(("find", {"user": "mia"}), text="<think>Who?</think>I look."),
    calling(("refund", {"order": 7}), ("dump", {"size": 3, "again": 1})),
    "It is refunded.\n\nAnything else?",
)


@pytest.fixture
def served() -> Iterator[Callable[..., Any]]:
    """Gives a server that plays agent and user, and models on it by name."""
    opened: list[Any] = []

    def start(agent: Brain = AGENT, user: Brain = USER) -> tuple[StubServer, Callable[..., ChatModel]]:
        held = stub_server(thinking(by_model(agent=agent, user=user)))
        opened.append(held)
        server = held.__enter__()

        def model(name: str, **options: Any) -> ChatModel:
            settings = {"backoff": 0.01, "context": 8000, "timeout": 5.0, "retries": 2} | options
            return load_model(f"openai:{server.url}#{name}", **settings)

        return server, model

    yield start
    for held in opened:
        held.__exit__(None, None, None)


def play(
    model: ChatModel, user: ChatModel | None = None, payload: str = "", **options: Any
) -> tuple[Trajectory, Session]:
    bench, session = DeskBenchmark(1, user), Session()
    task = bench.tasks()[0]
    executor = Executor(model, act="tools", **{"temperature": 0.0, "max_tokens": 100} | options)
    return executor.play(bench.make_env(task, session), task, payload, session, max_steps=8), session


def asked(session: Session) -> list[Call]:
    return [call for call in session.calls if call.role == "executor"]


def check_order(messages: list[Message] | tuple[Message, ...]) -> None:
    """What every server and template takes: each call is answered at once, and somebody else speaks last."""
    assert [message.role for message in messages[:2]] == ["system", "user"]
    assert messages[-1].role != "assistant"
    ids = [call.id for message in messages for call in message.tool_calls]
    assert len(ids) == len(set(ids))
    assert all(re.fullmatch("[a-z0-9]{9}", identifier) for identifier in ids)
    for before, message in itertools.pairwise(messages):
        if message.role == "tool":
            assert [call.id for call in before.tool_calls] == [message.tool_call_id]
        else:
            assert not before.tool_calls
        assert message.role != before.role or message.role == "user"
        assert message.role != "assistant" or message.content or message.tool_calls


# One episode


def test_an_episode_with_a_user_model_is_played_through_tool_calls(served: Any) -> None:
    server, model = served()
    done, session = play(model("agent"), model("user"))
    assert (done.outcome, done.reward, done.parts) == ("success", 1.0, {"DB": True})
    assert done.task.description == "I am Mia. Refund my order."
    assert [step.action for step in done.steps] == [
        'find(user="mia")',
        "refund(order=7)",
        "dump(again=1, size=3)",
        "It is refunded.\n\nAnything else?",
    ]
    assert [step.speaker for step in done.steps] == ["user", "tool", "tool", "tool"]
    assert [step.valid for step in done.steps] == [True, True, False, True]
    raws = [step.raw for step in done.steps]
    assert json.loads(raws[0]) == {
        "text": "<think>Who?</think>I look.",
        "tool_calls": [{"name": "find", "arguments": {"user": "mia"}}],
    }
    assert [call["name"] for call in json.loads(raws[1])["tool_calls"]] == ["refund", "dump"]
    assert raws[2:] == ["", done.steps[3].action], "one reply, two steps"
    calls = asked(session)
    assert len(calls) == 3
    assert {call.tools for call in calls} == {("find", "refund", "dump")}
    assert [[one.name for one in call.tool_calls] for call in calls] == [["find"], ["refund", "dump"], []]
    assert [call.finish for call in calls] == ["tool_calls", "tool_calls", "stop"]
    assert all(tuple(request[1].get("tools", ())) in (TOOLS, ()) for request in server.requests)
    usage = {
        role: Usage.total(c.usage for c in session.calls if c.role == role) for role in ("executor", "user")
    }
    assert (usage["executor"].calls, usage["user"].calls) == (3, 2)
    for role, name in (("executor", "agent"), ("user", "user")):
        bodies = [body for _, body, _ in server.requests if body["model"] == name]
        counted = sum(len(json.dumps([body["messages"], body.get("tools", [])])) // 4 for body in bodies)
        assert usage[role].prompt_tokens == counted


def test_the_whole_conversation_is_in_every_prompt_and_thinking_is_not(served: Any) -> None:
    _, model = served()
    done, session = play(model("agent"), model("user"), payload="Look {first}.", history=0)
    first, second, third = (call.messages for call in asked(session))
    for messages in (first, second, third):
        check_order(messages)
        assert messages[0].content.count("Look {first}.") == 1
        assert messages[0].content.index(RULES) < messages[0].content.index("Look {first}.")
        assert done.task.description in messages[0].content
        assert messages[1] == Message(role="user", content="I am Mia. Refund my order.")
        assert "Who?" not in "".join(message.content for message in messages)
    assert [len(first), len(second), len(third)] == [2, 4, 8]
    assert third[:4] == second
    assert third[2].content == "I look."
    assert [message.role for message in third[2:]] == ["assistant", "tool"] * 3
    assert third[5].content == '{"refund": "ok"}'
    assert third[7].content == "Error: no such call as dump"


def test_without_a_user_the_task_is_the_first_message(served: Any) -> None:
    _, model = served(agent=conversing(calling(("refund", {"order": 7})), calling(("done", {}))))
    done, session = play(model("agent"))
    assert done.outcome == "success"
    assert asked(session)[1].messages[1].content == "A ticket: refund order 7."
    check_order(asked(session)[1].messages)


def bad_call(arguments: Any, name: Any = "refund", **other: Any) -> dict[str, Any]:
    call = {"id": "same", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": None, "tool_calls": [call | other]}


TWICE = {"role": "assistant", "content": None, "tool_calls": bad_call('{"order": 7}')["tool_calls"] * 2}


@pytest.mark.parametrize(
    ("bad", "action", "seen", "role"),
    [
        (
            bad_call('{"order": 7'),
            '{"name": "refund", "arguments": {"": "{\\"order\\": 7"}}',
            "Error",
            "tool",
        ),
        (bad_call("[7]"), '{"name": "refund", "arguments": {"": "[7]"}}', "Error", "tool"),
        (bad_call('{"class": 7}'), '{"name": "refund", "arguments": {"class": 7}}', "Error", "tool"),
        (bad_call("{}", name="fly"), "fly()", "Error: no such call as fly", "tool"),
        (bad_call("{}", name="a b"), '{"name": "a b", "arguments": {}}', "Error: no such call", "tool"),
        (bad_call("{}", name=""), "", NO_ACTION, "user"),
        (bad_call("{}", name=" "), "", NO_ACTION, "user"),
        ({"content": None, "tool_calls": None, "refusal": "No."}, "No.", "Nobody listens.", "user"),
        ({"content": "", "tool_calls": []}, "", NO_ACTION, "user"),
        ({"content": "<think>hm", "tool_calls": None}, "", NO_ACTION, "user"),
        ({"content": 'refund(order="x")'}, 'refund(order="x")', '{"refund": "ok"}', "tool"),
        (TWICE, "refund(order=7)", '{"refund": "ok"}', "tool"),
    ],
)
def test_odd_answers_are_recorded_answered_and_played_on(
    served: Any, bad: dict[str, Any], action: str, seen: str, role: str
) -> None:
    _, model = served(agent=conversing(bad, calling(("find", {"user": "mia"})), calling(("done", {}))))
    done, session = play(model("agent"))
    assert done.final_observation == "Closed."
    assert done.steps[0].action == action
    assert done.steps[0].valid == (not seen.startswith(("Error", NO_ACTION)))
    messages = asked(session)[1].messages
    check_order(messages)
    assert messages[3].role == role
    assert messages[3].content.startswith(seen)
    if not action:
        assert messages[2].content == NO_ANSWER
    for call in session.calls:
        assert Call.from_line(call.to_line()) == call


@pytest.mark.parametrize("bad", [Say(status=429), Say(status=500), Say(seconds=1.5), Say(raw=b"{")])
def test_a_server_that_fails_in_between_costs_a_try_and_no_step(served: Any, bad: Say) -> None:
    failing = [bad]

    def agent(body: dict[str, Any]) -> Any:
        said = sum(message["role"] == "assistant" for message in body["messages"])
        return failing.pop() if said and failing else AGENT(body)

    server, model = served(agent=agent)
    done, session = play(model("agent", timeout=0.5), model("user"))
    assert done.outcome == "success"
    assert len(asked(session)) == 3
    bodies = [body for _, body, _ in server.requests if body["model"] == "agent"]
    assert len(bodies) == 4
    assert bodies[1] == bodies[2], "only the call that failed is made again"


def test_a_step_limit_ends_an_answer_of_several_calls(served: Any) -> None:
    many = calling(*[("find", {"user": str(n)}) for n in range(20)])
    _, model = served(agent=conversing(many))
    done, session = play(model("agent"), max_steps=5)
    assert [step.action for step in done.steps] == [f'find(user="{n}")' for n in range(5)]
    assert (done.outcome, len(asked(session))) == ("failure", 1)


def test_long_tool_results_are_cut_in_prompts_and_whole_in_the_record(served: Any) -> None:
    _, model = served(agent=conversing(calling(("dump", {"size": 50_000})), calling(("done", {}))))
    done, session = play(model("agent", context=100_000), max_observation_chars=1000)
    assert len(done.steps[1].observation) == 50_000
    shown = asked(session)[1].messages[-1]
    assert shown.role == "tool"
    assert len(shown.content) < 1100
    assert "49040 characters cut" in shown.content


# Conversations that are too long

ACTIONS = st.sampled_from(
    ["", "Hello.", "find(user='a')", '{"name": "class x", "arguments": {"": "{"}}', STOP]
)
TEXTS = st.sampled_from(["", "short", "long " * 200, "\ud83d" * 50])
STEP = st.builds(
    lambda text, action, speaker, raw: Step(
        observation=text, admissible=(), action=action, speaker=speaker, raw=raw
    ),
    TEXTS,
    ACTIONS,
    st.sampled_from(["user", "tool", ""]),
    st.sampled_from(["", "{", '{"text": "<think>a</think>b", "tool_calls": []}']),
)
SYSTEM = Message(role="system", content="Be good. " * 20)


def quarter(text: str) -> int:
    return len(text) // 4


@given(st.lists(STEP, max_size=12), TEXTS, st.sampled_from(["user", "tool", ""]), st.integers(-50, 4000))
def test_any_episode_gives_a_conversation_that_servers_take(
    past: list[Step], text: str, speaker: str, budget: int
) -> None:
    whole = conversation(SYSTEM, past, Observation(text, (), speaker=speaker), lambda shown: shown)
    check_order(whole)
    assert sum(message.role == "assistant" for message in whole) == len(past)
    cut = fitted(whole, TOOLS, budget, quarter)
    check_order(cut)
    assert cut[0] == SYSTEM
    if prompt_tokens(whole, TOOLS, quarter) <= budget:
        assert cut == tuple(whole)
    if budget > 800:
        assert prompt_tokens(cut, TOOLS, quarter) <= budget


def long_past(turns: int, size: int = 2000) -> list[Step]:
    first = Step(observation="Help me.", admissible=(), action="find(user='0')", speaker="user")
    more = [
        Step(observation=f"{n}:" + "r" * size, admissible=(), action=f"find(user='{n}')", speaker="tool")
        for n in range(1, turns)
    ]
    return [first, *more]


def test_the_oldest_results_are_cut_first_and_no_more_than_needed() -> None:
    whole = conversation(SYSTEM, long_past(10), Observation("now " * 100, (), speaker="tool"), str)
    size = prompt_tokens(whole, TOOLS, quarter)
    for budget, wanted in ((size, 0), (size - 1, 1), (size - 700, 2), (size - 3000, 8)):
        cut = fitted(whole, TOOLS, budget, quarter)
        short = [n for n, (a, b) in enumerate(zip(whole, cut, strict=True)) if a.content != b.content]
        results = [n for n, message in enumerate(whole) if message.role == "tool"]
        assert short == results[:wanted]
        assert all("characters cut" in cut[n].content for n in short)
        assert prompt_tokens(cut, TOOLS, quarter) <= budget
    assert cut[-1] == whole[-1]


def test_then_the_oldest_turns_go_which_is_told_and_last_the_observation() -> None:
    whole = conversation(SYSTEM, long_past(40, 300), Observation("now " * 100, (), speaker="tool"), str)
    size = prompt_tokens(whole, TOOLS, quarter)
    cut = fitted(whole, TOOLS, size // 2, quarter)
    check_order(cut)
    left_out = (len(whole) - len(cut)) // 2
    assert left_out > 10
    assert cut[1].content.startswith("Help me.")
    assert f"{left_out} earlier turns are left out" in cut[1].content
    assert cut[2:] == tuple(whole[2 + 2 * left_out :])
    least = fitted(whole, TOOLS, 0, quarter)
    check_order(least)
    assert len(least) == 4
    assert least[0] == SYSTEM
    long = conversation(SYSTEM, long_past(1), Observation("now " * 2000, (), speaker="tool"), str)
    shown = fitted(long, TOOLS, prompt_tokens(long, TOOLS, quarter) - 1000, quarter)[-1].content
    assert 3000 < len(shown) < 4100
    assert shown.startswith("now now")


def test_a_long_episode_stays_within_the_models_context_by_the_servers_count(served: Any) -> None:
    _, model = served(agent=lambda body: calling(("dump", {"size": 4000})))
    done, session = play(model("agent", context=4000), max_observation_chars=None)
    assert len(done.steps) == 8
    sizes = [call.usage.prompt_tokens for call in asked(session)]
    assert max(sizes) <= 3900
    assert max(sizes) > 2500, "no more is cut than the server's count asks for"
    assert all(len(step.observation) == 4000 for step in done.steps[1:])


def test_the_servers_own_count_corrects_the_estimate() -> None:
    messages = (Message(role="user", content="x" * 4000),)
    call = Call(role="executor", model="m", messages=messages, usage=Usage(prompt_tokens=700))
    user = call.model_copy(update={"role": "user", "usage": Usage(prompt_tokens=5)})
    failed = call.model_copy(update={"usage": Usage()})
    assert token_scale([], (), quarter) == token_scale([user, failed], (), quarter) == 1.0
    assert token_scale([call, user, failed], (), quarter) == pytest.approx(1.02 * 700 / 1008)
    low = call.model_copy(update={"usage": Usage(prompt_tokens=7)})
    high = call.model_copy(update={"usage": Usage(prompt_tokens=9000)})
    assert (token_scale([low], (), quarter), token_scale([high], (), quarter)) == (0.5, 1.0)


# Whole runs


def stream(path: Path, agent: ChatModel, user: ChatModel, n: int = 4, **options: Any) -> Run:
    executor = Executor(agent, act="tools", temperature=1.0, max_tokens=100)
    memory = load_memory("raw", k=1, gate="environment", max_trace_tokens=500)
    settings = {"batch_size": 2, "progress": False} | options
    return run_stream(DeskBenchmark(n, user), memory, executor, out=path, **settings)


def played(run: Run) -> list[tuple[str, str]]:
    return [(e.key, e.trajectory.hash) for e in run.latest() if e.trajectory is not None]


def seeded(body: dict[str, Any]) -> Any:
    """Plays as `AGENT` does, in words that hang on the seed and the whole prompt."""
    answer = AGENT(body)
    if isinstance(answer, str):
        return f"{answer} {body['seed']} {len(json.dumps(body['messages']))}"
    return answer


def test_a_run_with_tool_calls_is_replayed_to_the_same_episodes_without_a_model(
    served: Any, tmp_path: Path
) -> None:
    server, model = served(agent=seeded)
    live = stream(tmp_path / "live", model("agent"), model("user"))
    assert len(played(live)) == 4
    assert live.summary()["success_rate"] == 1.0
    before = len(server.requests)
    replay = load_model(f"replay:{tmp_path / 'live'}", context=8000)
    again = stream(tmp_path / "again", replay, replay)
    assert played(again) == played(live)
    assert len(server.requests) == before
    for one, other in zip(live.latest(), again.latest(), strict=True):
        assert [c.messages for c in one.calls] == [c.messages for c in other.calls]
        assert [c.tool_calls for c in one.calls] == [c.tool_calls for c in other.calls]
        assert {role: u.prompt_tokens for role, u in one.usage().items()} == {
            role: u.prompt_tokens for role, u in other.usage().items()
        }
        assert set(one.usage()) == {"executor", "user"}


def test_a_run_with_tool_calls_is_resumed_to_the_same_episodes(served: Any, tmp_path: Path) -> None:
    server, model = served(agent=seeded)
    agent, user = model("agent"), model("user")
    whole = stream(tmp_path / "whole", agent, user)
    file = tmp_path / "whole" / "episodes.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:-1]) + lines[-1][:-200])
    expected, before = played(Run(whole.path)), len(server.requests)
    assert len(expected) == 3
    resumed = stream(tmp_path / "whole", agent, user)
    assert len(server.requests) - before == 5, "one episode: three answers of the agent, two of the user"
    other = stream(tmp_path / "other", agent, user, concurrency=1)
    assert played(resumed) == played(other)
    assert set(expected) < set(played(resumed))


def test_a_cache_answers_a_second_run_with_the_same_calls(served: Any, tmp_path: Path) -> None:
    server, model = served(agent=seeded)
    runs = []
    for name in ("one", "two"):
        agent = model("agent", cache=tmp_path / "answers.sqlite")
        user = model("user", cache=tmp_path / "answers.sqlite")
        runs.append(stream(tmp_path / name, agent, user))
        agent.close()
        user.close()
    assert played(runs[0]) == played(runs[1])
    assert len(server.requests) == 4 * 5
    usage = Usage.total(u for e in runs[1].latest() for u in e.usage().values())
    assert (usage.calls, usage.cached_calls) == (0, 20)


# Settings


def test_whatever_changes_an_episode_is_in_the_settings() -> None:
    base = Executor(RuleModel(), act="tools").settings()
    assert base["act"] == "tools"
    assert base["prompt"] == "executor_tools"
    assert base["history"] is None
    for change in ({"temperature": 0.3}, {"max_tokens": 7}, {"max_observation_chars": 9}, {"max_steps": 4}):
        assert Executor(RuleModel(), act="tools", **change).settings() != base
    assert Executor(RuleModel(), act="tools", history=9).settings() == base


def test_wrong_prompts_and_worlds_without_tools_are_refused(tmp_path: Path) -> None:
    for text in ("[[system]]\n{rules}\n[[user]]\n{task}", "[[user]]\n{task}", "[[system]]\n{admissible}"):
        (tmp_path / "own.txt").write_text(text)
        with pytest.raises(UserError):
            Executor(RuleModel(), act="tools", prompt=str(tmp_path / "own.txt"))
    (tmp_path / "own.txt").write_text("[[system]]\n{advice}{task}")
    executor = Executor(RuleModel(), act="tools", prompt=str(tmp_path / "own.txt"))
    bench = DeskBenchmark(1)
    task = bench.tasks()[0]
    bare = bench.make_env(task).reset()._replace(tools=())
    with pytest.raises(UserError, match='desk offers no tools to call; use act="write"'):
        executor.play(bench.make_env(task), task, "", Session(), first=bare)


def test_a_reply_is_read_as_its_calls_or_its_text() -> None:
    usage = Usage()
    assert actions(Reply("<think>a</think> Hi. ", usage)) == [("<think>a</think> Hi. ", "Hi.")]
    odd = ToolCall(name=" f ", arguments={"b": float("nan"), "a": 1}, id="x")
    ((raw, action),) = actions(Reply("", usage, "tool_calls", (odd,)))
    assert action == 'f(a=1, b="NaN")'
    assert json.loads(raw) == {"text": "", "tool_calls": [{"name": "f", "arguments": {"a": 1, "b": "NaN"}}]}


def test_the_bank_gets_replies_with_calls_without_their_thinking() -> None:
    reply = Reply("<think>a</think>b", Usage(), "tool_calls", (ToolCall(name="f"),))
    ((raw, action),) = actions(reply)
    step = Step(observation="o", admissible=(), raw=raw, action=action)
    kept = without_thinking(Trajectory(task=DeskBenchmark().tasks()[0], steps=(step,)))
    assert json.loads(kept.steps[0].raw) == {"text": "b", "tool_calls": [{"name": "f", "arguments": {}}]}
    assert kept.steps[0].action == "f()"
