"""The training bank: both layouts, what is held out, and rates of success from several tries."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import make_benchmark
from jitmem_lab.training import TrainConfig, play_bank
from jitmem_lab.training import bank as bank_module
from jitmem_lab.training.bank import TrainingBank, successes
from tests.unit.stub_server import stub_server, thinking
from tests.unit.training import small_config

pytestmark = pytest.mark.unit


@contextlib.contextmanager
def opened(config: TrainConfig) -> Iterator[TrainingBank]:
    bench = make_benchmark(config.evaluation(), lambda spec: pytest.fail(f"asked for {spec}"))
    with contextlib.closing(bench), contextlib.closing(TrainingBank(config, bench)) as bank:
        yield bank


def config(**more: Any) -> TrainConfig:
    return small_config("http://127.0.0.1:9/v1", Path("nowhere"), **more)


@pytest.mark.parametrize("layout", ["one", "stores"])
def test_no_task_sees_its_own_trajectory_nor_a_held_out_one(layout: str) -> None:
    asked = config(layout=layout, heldout="part", heldout_games=6, bank_size=None, tasks=None, play={"k": 3})
    with opened(asked) as bank:
        away = {task.task_id for task in bank.tasks.heldout}
        assert len(away) == 6
        assert len(bank.trajectories) == 34
        for task in bank.tasks.trained:
            shown = {trace.task_id for trace in bank.recall(task).traces}
            assert shown
            assert not shown & (away | {task.task_id})


def test_each_task_has_a_store_of_its_own_and_a_share_has_none() -> None:
    asked = {"layout": "stores", "store_size": 3, "bank_size": None, "tasks": None, "play": {"k": 3}}
    with opened(config(**asked)) as bank, opened(config(**asked)) as again:
        stores = [{t.task_id for t in bank.recall(task).traces} for task in bank.tasks.trained]
        assert all(len(store) <= 3 for store in stores)
        assert len({frozenset(store) for store in stores}) > 20
        assert stores == [{t.task_id for t in again.recall(task).traces} for task in again.tasks.trained]
        assert bank.facts()["layout"] == "stores"
    with opened(config(**asked, empty_share=0.5)) as bank:
        empty = sum(not bank.recall(task).traces for task in bank.tasks.trained)
        assert 8 < empty < 32  # of 40
    with opened(config(**asked, empty_share=1.0)) as bank:
        assert not any(bank.recall(task).traces for task in bank.tasks.trained)


def test_tasks_are_picked_by_their_rate_in_several_tries(tmp_path: Path) -> None:
    tried: dict[str, int] = {}

    def half(body: dict[str, Any]) -> str:
        """Knows red; guesses green rightly every other time; never knows the rest."""
        sentence = body["messages"][-1]["content"].partition("task: press the ")[2].splitlines()[0]
        tried[sentence] = tried.get(sentence, 0) + 1
        colour = sentence.split()[0]
        right = colour == "red" or (colour == "green" and tried[sentence] % 2)
        return f"<action>press {colour if right else 'nothing'}</action>"

    with stub_server(thinking(half)) as server:
        asked = small_config(
            server.url, Path("nowhere"), bank_size=None, tasks=None, play={"act": "write", "max_steps": 1}
        )
        run = play_bank(asked, tmp_path / "bank", games=12, tries=4, concurrency=1, progress=False)
    kept, rates = successes([run])
    assert len(rates) == 12
    assert {rate.tries for rate in rates.values()} == {4}
    assert all(trajectory.outcome == "success" for trajectory in kept)
    colours = {t.task.task_id: t.task.description.split()[2] for t in kept}
    assert set(colours.values()) == {"red", "green"}
    assert all(rates[task_id].share == 1.0 for task_id, colour in colours.items() if colour == "red")
    middling = {task_id for task_id, rate in rates.items() if 0.1 < rate.share < 0.9}
    assert middling
    with opened(asked.model_copy(update={"bank": str(run.path), "rate_low": 0.1, "rate_high": 0.9})) as bank:
        picked = bank.tasks.trained
        assert {task.task_id for task in picked} == middling
        assert len(bank.trajectories) == len(kept)
    with (
        pytest.raises(UserError, match="widen rate_low to rate_high"),
        opened(asked.model_copy(update={"bank": str(run.path), "rate_low": 0.99, "rate_high": 0.995})),
    ):
        pass


def test_a_bank_is_played_with_the_trainings_seed_and_as_many_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[Any, dict[str, Any]]] = []
    monkeypatch.setattr(bank_module, "evaluate", lambda config, **more: asked.append((config, more)))
    play_bank(config(seed=5, concurrency=7, timeout=9.0), tmp_path / "bank", games=3)
    play_bank(config(), tmp_path / "bank", games=3, concurrency=1)
    (first, more), (_, fewer) = asked
    assert (first.seed, first.order, more["concurrency"], more["timeout"]) == (5, 5, 7, 9.0)
    assert fewer["concurrency"] == 1
