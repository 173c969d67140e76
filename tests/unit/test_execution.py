"""The executor: what is in its prompts, what it may choose, and which actions count as invalid."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest

from jitmem_lab import prompts
from jitmem_lab.benchmarks.acting import NO_ACTION
from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.execution import Executor, plan_payload, without_thinking
from jitmem_lab.models.base import Reply
from jitmem_lab.records import Step, Task, Trajectory, Usage
from jitmem_lab.session import Session

from .desk import RULES, TOOLS, DeskBenchmark
from .doubles import RuleModel

pytestmark = pytest.mark.unit

TASK = Task(benchmark="b", split="s", task_id="t", description="heat an egg and put it in the bin")
ACTIONS = ("look", "go to desk 1", "open desk 1")


class World:
    """Says what was done to it; ends after `length` steps, or never."""

    def __init__(
        self, length: int = 99, admissible: Sequence[str] = ACTIONS, rewards: Sequence[Any] = ()
    ) -> None:
        self.length = length
        self.admissible = tuple(admissible)
        self.rewards = list(rewards)
        self.received: list[str] = []

    def reset(self) -> Observation:
        return Observation("A room.\n\nA desk 1.", self.admissible)

    def step(self, action: str) -> Observation:
        self.received.append(action)
        number = len(self.received)
        reward = self.rewards[number - 1] if self.rewards else 0.0
        done = number >= self.length
        return Observation(f"Outcome {number}.\n\nStill a desk.", self.admissible, reward, done, done)

    def close(self) -> None:
        pass


def scripted(*answers: str) -> RuleModel:
    """A model that gives these answers in turn, the last one for ever."""
    left = list(answers)
    return RuleModel(rule=lambda text, sampling: left.pop(0) if len(left) > 1 else left[0])


def play(model: Any, world: World, payload: str = "", **options: Any) -> tuple[Trajectory, Session]:
    session = Session()
    steps = options.pop("max_steps", 8)
    executor = Executor(model, **{"temperature": 0.0} | options)
    return executor.play(world, TASK, payload, session, max_steps=steps), session


# Prompts


@pytest.mark.parametrize("act", ["write", "choose"])
@pytest.mark.parametrize("history", [0, 1, 3, 5])
def test_the_task_and_the_payload_are_in_every_prompt_from_step_0_on(act: str, history: int) -> None:
    model = RuleModel(rule=lambda text, sampling: "<action>look</action>")
    play(model, World(), "Take {the} pan first.", act=act, history=history)
    assert len(model.prompts) == 8
    for prompt in model.prompts:
        assert TASK.description in prompt
        assert "Take {the} pan first." in prompt


@pytest.mark.parametrize(
    "text", ["-= Welcome =-\n\nA room.\n\nYour task is to: fly", "one line", "", "a\n\n\n\nb"]
)
def test_the_first_prompt_shows_the_whole_first_observation(text: str) -> None:
    executor = Executor(RuleModel())
    prompt = "\n".join(m.content for m in executor.messages(TASK, "", [], Observation(text, ACTIONS)))
    assert text in prompt
    assert TASK.description in prompt
    assert all(f"- {action}" in prompt for action in ACTIONS)


@pytest.mark.parametrize("history", [0, 1, 3, 5])
def test_the_window_of_a_written_prompt_holds_the_last_turns_under_their_own_numbers(history: int) -> None:
    model = scripted("<action>look</action>")
    play(model, World(), history=history)
    for taken, prompt in enumerate(model.prompts):
        turns = [int(n) for n in re.findall(r"\[Turn (\d+)\] You saw", prompt)]
        assert turns == list(range(max(1, taken - history + 1), taken + 1))[: history or 0]
        assert f"Turns taken so far: {taken}" in prompt
        assert prompt.count("You did: look") == len(turns)
        seen = {int(n) for n in re.findall(r"Outcome (\d+)", prompt)}
        assert seen == ({taken} if taken else set()) | {turn - 1 for turn in turns if turn > 1}


@pytest.mark.parametrize("history", [0, 1, 3, 5])
def test_the_window_of_a_choosing_prompt_lists_all_actions_and_the_last_outcomes(history: int) -> None:
    model = RuleModel()
    done, _ = play(model, World(), act="choose", history=history)
    for taken, prompt in enumerate(model.prompts):
        listed = re.findall(r"^(\d+)\. (.*)$", prompt, re.M)
        assert listed == [(str(n), done.steps[n - 1].action) for n in range(1, taken + 1)]
        assert prompt.endswith(f"\n{taken + 1}.")
        shown = [int(n) for n in re.findall(r"^   \(Outcome (\d+)\. Still a desk\.\)$", prompt, re.M)]
        assert shown == list(range(max(1, taken - history + 1), taken + 1))[: history or 0]


def test_long_observations_are_cut_in_prompts_and_whole_in_the_record() -> None:
    model = scripted("<action>look</action>")
    world = World(length=1)
    world.reset = lambda: Observation("x" * 50_000, ACTIONS)  # type: ignore[method-assign]
    done, _ = play(model, world, max_observation_chars=1000)
    assert len(done.steps[0].observation) == 50_000
    assert 900 < model.prompts[0].count("x") < 1100
    assert re.search(r"\d+ characters cut", model.prompts[0])
    play(model, world, max_observation_chars=None)
    assert model.prompts[-1].count("x") >= 50_000


def test_a_plan_as_payload_is_a_solved_example() -> None:
    assert plan_payload(TASK, ["look", "go to desk 1"]) == (
        f"Task: {TASK.description}\nSteps to do it:\n1. look\n2. go to desk 1"
    )


# Acting


def test_invalid_actions_are_counted_and_recorded_as_they_were() -> None:
    answers = [
        "I would look around.",  # no block
        "<action>fly</action>",  # not admissible
        "<action></action>",  # empty
        "<think><action>look</action></think>",  # only thought
        "<action>look</action>",
        "<action>fly</action> or rather <action>LOOK</action>",  # last one, other case
        "<think>a<think>b</think><action>fly</action></think><action>go  to desk 1</action>",
        "<action>open desk 1",  # cut off
    ]
    world = World()
    done, session = play(scripted(*answers), world)
    assert [step.valid for step in done.steps] == [False, False, False, False, True, True, True, False]
    assert done.invalid_actions == 5
    assert [step.raw for step in done.steps] == answers
    assert world.received == ["fly", "look", "look", "go to desk 1"], (
        "without a command the world is left alone"
    )
    assert done.steps[1].observation == NO_ACTION
    assert done.steps[4].observation == NO_ACTION
    assert done.outcome == "failure"
    assert len(session.calls) == 8


@pytest.mark.parametrize("barred", [0, 1, 2])
def test_the_last_actions_cannot_be_chosen_again(barred: int) -> None:
    done, session = play(RuleModel(), World(), act="choose", no_repeat=barred)
    taken = [step.action for step in done.steps]
    for number, call in enumerate(session.calls):
        last = set(taken[max(0, number - barred) : number])
        assert set(call.options) == set(ACTIONS) - last
        assert call.text == taken[number]
    if barred:
        assert all(a != b for a, b in itertools.pairwise(taken))
    assert done.invalid_actions == 0


def test_when_all_are_barred_all_may_be_chosen() -> None:
    done, session = play(RuleModel(), World(admissible=("a", "b")), act="choose", no_repeat=5)
    assert len(done.steps) == 8
    assert session.calls[0].options == ("a", "b")
    assert len(session.calls[1].options) == 1
    assert all(call.options == ("a", "b") for call in session.calls[2:])


def test_an_empty_admissible_list_asks_nobody_and_does_not_end_the_run() -> None:
    world = World(admissible=())
    done, session = play(RuleModel(), world, act="choose", no_repeat=2)
    assert session.calls == []
    assert world.received == []
    assert done.invalid_actions == len(done.steps) == 8
    done, _ = play(scripted("<action>look</action>"), World(length=3, admissible=()))
    assert done.invalid_actions == 3
    assert done.outcome == "success", "what isn't listed may work all the same"


def at_the_desk(*answers: str, user: Any = None) -> tuple[Trajectory, Any, Session]:
    """An episode of an open world, played by written actions."""
    bench, session = DeskBenchmark(1, user), Session()
    task, model = bench.tasks()[0], scripted(*answers)
    env = bench.make_env(task, session)
    done = Executor(model, temperature=0.0).play(env, task, "Be kind.", session, max_steps=len(answers))
    return done, env, session


def test_a_written_action_of_an_open_world_is_a_call_or_a_message_taken_as_it_stands() -> None:
    message = "Dear  Mia,\n\n  1. I found it.\n\t2. I refund it.\n\nGood bye"
    answers = [
        "I look.\n<action>\nfind(user='mia')\n</action>",
        f"<think>Tell her.</think><action>\n{message}\n</action>",
        '<action>{"name": "refund",\n "arguments": {"order": 7}}</action>',
        "<action>refund(order=7,\n  why='late')</action>",
        "No block at all: find(user='mia')",
        "<action> </action>",
        "<action>never closed",
        "<action>done()</action>",
    ]
    done, env, session = at_the_desk(*answers)
    written = ["find(user='mia')", message, '{"name": "refund",\n "arguments": {"order": 7}}']
    assert [step.action for step in done.steps] == [
        *written,
        "refund(order=7,\n  why='late')",
        "",
        "",
        "",
        "done()",
    ]
    assert env.received == [step.action for step in done.steps if step.action]
    assert [step.valid for step in done.steps] == [True, True, True, False, False, False, False, True]
    assert [step.speaker for step in done.steps] == ["", "tool", "", "tool", "tool", "", "", ""]
    assert [step.observation for step in done.steps[5:]] == [NO_ACTION] * 3
    assert (done.outcome, done.final_observation) == ("success", "Closed.")
    assert done.parts == {"DB": True}
    assert all(call.tools == () for call in session.calls)


def test_a_written_prompt_of_an_open_world_holds_rules_tools_and_advice_each_time() -> None:
    _, _, session = at_the_desk(*["<action>find(user='mia')</action>"] * 4)
    for call in session.calls:
        prompt = "\n".join(message.content for message in call.messages)
        assert RULES in prompt
        assert "Be kind." in prompt
        assert "A ticket: refund order 7." in prompt
        assert all(f"{tool['function']['name']}(" in prompt for tool in TOOLS)
        assert "refund(order: integer) - refund" in prompt


def test_a_written_message_reaches_the_user_whose_answer_is_the_next_observation() -> None:
    user = scripted("I am Mia.", "Order 7.", "Bye. ###STOP###")
    answers = ["<action>Which\norder?</action>", "<action>refund(order=7)</action>", "<action>Done.</action>"]
    done, _, session = at_the_desk(*answers, user=user)
    assert done.outcome == "success"
    assert [step.speaker for step in done.steps] == ["user", "user", "tool"]
    assert done.steps[1].observation == "Order 7."
    assert [call.role for call in session.calls] == ["user", "executor"] * 2 + ["executor", "user"]
    assert session.calls[2].messages[-1].content == "Which\norder?"


def test_no_repeat_does_nothing_when_writing() -> None:
    executor = Executor(RuleModel(), no_repeat=3)
    assert executor.settings()["no_repeat"] == 0
    done, _ = play(scripted("<action>look</action>"), World(), no_repeat=3)
    assert done.invalid_actions == 0


def test_an_episode_ends_when_won_or_at_the_limit() -> None:
    done, _ = play(scripted("<action>look</action>"), World(length=3))
    assert (done.outcome, len(done.steps)) == ("success", 3)
    assert done.final_observation == "Outcome 3.\n\nStill a desk."
    done, _ = play(scripted("<action>look</action>"), World(), max_steps=5)
    assert (done.outcome, len(done.steps)) == ("failure", 5)
    session = Session()
    executor = Executor(RuleModel(), max_steps=2, temperature=0.0)
    assert len(executor.play(World(), TASK, "", session, max_steps=30).steps) == 2
    over = World()
    over.reset = lambda: Observation("Done.", ACTIONS, 1.0, True, True)  # type: ignore[method-assign]
    done, session = play(RuleModel(), over)
    assert (done.outcome, done.steps, session.calls) == ("success", (), [])


@pytest.mark.parametrize("reward", [float("nan"), float("inf"), None, "NaN"])
def test_a_reward_that_is_no_number_is_unscored_and_survives_the_record(reward: Any) -> None:
    done, _ = play(scripted("<action>look</action>"), World(length=2, rewards=[reward, reward]))
    assert done.reward is None
    assert [step.reward for step in done.steps] == [None, None]
    again = Trajectory.from_line(done.to_line())
    assert again == done
    assert again.reward is None


def test_sampling_seeds_differ_by_step_and_are_recorded() -> None:
    done, session = play(scripted("<action>look</action>"), World(), temperature=1.0)
    seeds = [call.sampling.seed for call in session.calls]
    assert len(set(seeds)) == len(done.steps) == 8
    assert session.seeds == {f"act{n}": seed for n, seed in enumerate(seeds)}
    _, session = play(scripted("<action>look</action>"), World(), temperature=0.0)
    assert {call.sampling.seed for call in session.calls} == {None}


class Failing(RuleModel):
    """Fails at its third call, or gives no text then."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__(rule=lambda text, sampling: "<action>look</action>")
        self.error = error

    def chat(self, *args: Any, **kwargs: Any) -> Reply:
        reply = super().chat(*args, **kwargs)
        if len(self.prompts) < 3:
            return reply
        if self.error is not None:
            raise self.error
        return Reply(None, Usage(calls=1))  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [InfrastructureError("status 503"), None])
def test_a_failed_call_is_recorded_with_its_prompt_and_ends_the_episode(error: Exception | None) -> None:
    model, session = Failing(error), Session()
    with pytest.raises(InfrastructureError, match=r"503|no text"):
        Executor(model, temperature=0.0).play(World(), TASK, "", session)
    assert [call.finish for call in session.calls] == ["stop", "stop", "error"]
    assert session.calls[-1].messages[-1].content in model.prompts[-1]
    assert session.calls[-1].error
    assert session.calls[-1].text == ""


def test_the_bank_gets_raw_texts_without_thinking_and_nothing_else_changes() -> None:
    step = Step(
        observation="<think>o</think>",
        admissible=(),
        raw="<think>r</think><action>look</action>",
        action="look",
    )
    done = Trajectory(task=TASK, steps=(step,), final_observation="<think>f</think>")
    kept = without_thinking(done)
    assert kept.steps[0].raw == "<action>look</action>"
    assert kept.steps[0].model_copy(update={"raw": step.raw}) == step
    assert kept.model_copy(update={"steps": done.steps}) == done


@pytest.mark.parametrize(
    "options",
    [
        {"act": "wirte"},
        {"history": -1},
        {"no_repeat": -1},
        {"max_steps": 0},
        {"prompt": "alfworld_wirte"},
        {"prompt": "curator"},
        {"prompt": "executor_choose"},
        {"prompt": "executor_write", "act": "choose"},
        {"prompt": "executor_write", "act": "tools"},
        {"prompt": "executor_tools", "act": "choose"},
    ],
)
def test_wrong_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        Executor(RuleModel(), **options)


CONSTANT, OF_TASK, OF_STEP = (
    {"rules", "tools"},
    {"task", "advice"},
    {"turns", "history", "observation", "admissible"},
)


@pytest.mark.parametrize(
    "name", [name for name in prompts.names() if re.search("executor_(write|tools)", name)]
)
def test_what_stays_the_same_longest_stands_first_so_that_a_prefix_cache_can_reuse_it(name: str) -> None:
    """A benchmark's words, then the task's, then the step's."""
    text = prompts.load_prompt(name).text
    fields = re.findall(r"{([a-z_]+)}", text)
    rank = [
        next(n for n, kind in enumerate((CONSTANT, OF_TASK, OF_STEP)) if field in kind) for field in fields
    ]
    assert rank == sorted(rank)
    first_of_task = min(text.index(f"{{{field}}}") for field in fields if field in OF_TASK)
    assert len(text) - first_of_task < 520, "what holds for every task belongs before the first task"
