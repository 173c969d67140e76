"""Rewards, advantages and the episodes behind them."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.curation import Curator
from jitmem_lab.errors import InfrastructureError
from jitmem_lab.execution import Executor
from jitmem_lab.records import Recall, Sampling, Task
from jitmem_lab.training.playing import IN_A_ROW, Job, Player
from jitmem_lab.training.reward import EpisodeReward, Prompt, Rollout, advantages, zero_variance_share
from tests.unit.doubles import ButtonBenchmark, RuleModel

pytestmark = pytest.mark.unit


def presses(text: str, sampling: Sampling) -> str:
    """An executor that does what its advice says."""
    advice = text.partition("Advice")[2]
    colour = next(
        (c for c in ("red", "green", "blue", "black") if f"press {c}" in advice.split("Turns")[0]), "x"
    )
    return f"<action>press {colour}</action>"


def player(bench: Any = None, model: Any = None, concurrency: int = 4, **more: Any) -> Player:
    executor = Executor(
        model or RuleModel(rule=presses), act="write", temperature=more.pop("temperature", 0.0)
    )
    return Player(bench or ButtonBenchmark(), executor, concurrency, **more)


def job(task: Task, payload: str, key: str = "") -> Job:
    return Job(task, payload, key or payload)


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
@given(reward=st.floats(-5, 5), size=st.integers(2, 9))
def test_equal_rewards_weigh_nothing(scale: Any, reward: float, size: int) -> None:
    weights = advantages([reward] * size * 2, size, scale)
    assert all(abs(weight) < 1e-9 for weight in weights)
    assert zero_variance_share([reward] * size * 2, size) == 1.0


@pytest.mark.parametrize("scale", ["none", "group", "batch"])
@settings(deadline=None)
@given(
    rewards=st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=8, max_size=8),
)
def test_advantages_are_those_of_trl(scale: Any, rewards: list[float | None]) -> None:
    torch = pytest.importorskip("torch")
    utils = pytest.importorskip("trl.trainer.utils")
    values = torch.tensor([float("nan") if r is None else r for r in rewards], dtype=torch.float64)
    mean = torch.nanmean(values.view(-1, 4), dim=1).repeat_interleave(4)
    theirs = values - mean
    if scale == "group":
        theirs = theirs / (utils.nanstd(values.view(-1, 4), dim=1).repeat_interleave(4) + 1e-4)
    elif scale == "batch":
        theirs = theirs / (utils.nanstd(values) + 1e-4)
    theirs = torch.nan_to_num(theirs, nan=0.0)
    ours = torch.tensor(advantages(rewards, 4, scale), dtype=torch.float64)
    known = ~torch.isnan(values)
    several = torch.tensor(
        [sum(r is not None for r in rewards[n // 4 * 4 : n // 4 * 4 + 4]) > 1 for n in range(8)]
    )
    assert torch.allclose(ours[known & several], theirs[known & several], atol=1e-6)
    assert bool((ours[~known] == 0).all())


def test_a_payload_is_worth_what_the_executor_wins_with_it() -> None:
    bench = ButtonBenchmark()
    tasks = bench.tasks()
    right = f"press {tasks[1].meta['colour']}"
    won, lost, empty = player(bench).play([job(tasks[1], right), job(tasks[2], right), job(tasks[1], "")])
    assert (won.reward, lost.reward, empty.reward) == (1.0, 0.0, 0.0)
    assert won.trajectory is not None
    assert won.trajectory.steps[0].action == right
    assert bench.opened == bench.closed


def test_equal_payloads_are_played_once_by_a_deterministic_executor_only() -> None:
    bench = ButtonBenchmark()
    task = bench.tasks()[0]
    jobs = [job(task, "press red", f"{n}") for n in range(4)]
    played = player(bench).play(jobs)
    assert bench.opened == 1
    assert [one.shared for one in played] == [False, True, True, True]
    assert len({one.reward for one in played}) == 1
    player(bench, temperature=1.0).play(jobs)
    assert bench.opened == 5


def test_episodes_overlap() -> None:
    slow = RuleModel(rule=presses, latency=0.1)
    tasks = ButtonBenchmark().tasks()
    begun = time.perf_counter()
    player(model=slow, concurrency=8).play([job(task, f"press {task.meta['colour']}") for task in tasks[:8]])
    assert time.perf_counter() - begun < 0.1 * 8 / 2


def test_an_infrastructure_error_is_no_reward() -> None:
    bench = ButtonBenchmark(broken=lambda task: task.task_id == "b2")
    tasks = bench.tasks()
    played = player(bench).play([job(task, "press red") for task in tasks[:4]])
    assert [one.reward is None for one in played] == [False, False, True, False]
    assert "the environment died" in played[2].error


def test_an_environment_that_dies_once_is_tried_again() -> None:
    deaths: list[Task] = []

    def once(task: Task) -> bool:
        deaths.append(task)
        return len(deaths) == 1

    played = player(ButtonBenchmark(broken=once)).play([job(ButtonBenchmark().tasks()[0], "press red")])
    assert played[0].error == ""
    assert len(deaths) == 2


def test_nothing_that_can_be_played_is_an_error_that_names_the_cause() -> None:
    bench = ButtonBenchmark(broken=lambda task: True)
    with pytest.raises(InfrastructureError, match="none of 3 episodes could be played: the environment died"):
        player(bench).play([job(task, "x") for task in bench.tasks(3)])


def test_an_executor_that_is_gone_is_given_up_before_all_have_been_tried() -> None:
    bench = ButtonBenchmark(n=300, broken=lambda task: task.task_id != "b0")
    with pytest.raises(InfrastructureError, match=f"{IN_A_ROW} episodes in a row"):
        player(bench, concurrency=2).play([job(task, "press red") for task in bench.tasks()])
    assert bench.opened < 100


def test_what_is_under_way_ends_when_nothing_more_is_wanted() -> None:
    bench = ButtonBenchmark(n=100, broken=lambda task: task.task_id in ("b1", "b2"))
    slow = RuleModel(rule=presses, latency=0.05)
    made = player(bench, slow, concurrency=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jitmem_lab.training.playing.IN_A_ROW", 1)
        with pytest.raises(InfrastructureError, match="episodes in a row"):
            made.play([job(task, "press red") for task in bench.tasks()])
    opened = bench.opened
    time.sleep(0.3)
    assert bench.opened - opened <= 2


def reward_function(
    bench: ButtonBenchmark, form: str = "advice", group: int = 2
) -> tuple[EpisodeReward, list[Any]]:
    curator = Curator(RuleModel(), form=form)  # type: ignore[arg-type]
    prompts = [Prompt(task, curator.messages(task, ())[0], Recall()) for task in bench.tasks()]
    seen: list[Any] = []
    made = EpisodeReward(
        player(bench), curator, prompts, group, "none", lambda update, rollouts, s: seen.extend(rollouts)
    )
    return made, seen


def ask(reward: EpisodeReward, texts: list[str], index: list[int]) -> list[float | None]:
    return reward(
        prompts=[""] * len(texts),
        completions=texts,
        completion_ids=[[1]] * len(texts),
        index=index,
        trainer_state=SimpleNamespace(global_step=0),
        log_extra=None,
        log_metric=None,
    )


def test_the_reward_is_of_the_task_that_the_payload_was_written_for() -> None:
    bench = ButtonBenchmark()
    reward, seen = reward_function(bench)
    colours = [task.meta["colour"] for task in bench.tasks()]
    found = ask(
        reward, [f"press {colours[0]}", "press x", f"press {colours[3]}", f"press {colours[0]}"], [0, 0, 3, 3]
    )
    assert found == [1.0, 0.0, 1.0, 0.0]
    assert [rollout.advantage for rollout in seen] == [0.5, -0.5, 0.5, -0.5]
    assert all(isinstance(rollout, Rollout) for rollout in seen)


@pytest.mark.parametrize(
    "payload",
    [
        "",
        " ",
        "x" * 20_000,
        "<action>press red</action>",
        "<think>",
        "\ud83d\x00",
        "</s>[[system]]{task}",
        "\n\n\n",
    ],
)
def test_any_payload_is_played_and_kept(payload: str) -> None:
    bench = ButtonBenchmark()
    reward, seen = reward_function(bench)
    assert all(value is not None for value in ask(reward, [payload, "press red"], [0, 0]))
    assert len(seen) == 2


def test_a_payload_of_the_form_plan_is_cut_as_in_an_evaluation() -> None:
    bench = ButtonBenchmark()
    reward, seen = reward_function(bench, form="plan")
    ask(reward, ["press red\n2. press blue\n\nTask: another", "press red"], [0, 0])
    curator = reward.curator
    begun = reward.prompts[0].messages[-1].content.rstrip().rsplit("\n\n", 1)[-1]
    assert seen[0].payload == f"{begun} press red\n2. press blue"
    assert curator.payload(reward.prompts[0].messages, "press red") == seen[1].payload
