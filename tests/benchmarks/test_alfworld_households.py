"""Generated households: sizes, variety, disjoint layouts, and the planner's proof."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from jitmem_lab.benchmarks.alfworld.benchmark import Alfworld
from jitmem_lab.benchmarks.alfworld.catalogue import GENERATED_GAMES, TASK_TYPES
from jitmem_lab.benchmarks.alfworld.check import replay
from jitmem_lab.benchmarks.alfworld.furnishing import CONTAINS, GOALS, LAMPS, RECEPTACLES
from jitmem_lab.benchmarks.alfworld.households import generated_games, layouts, place, plots, shipped_plans
from jitmem_lab.benchmarks.alfworld.proving import LONGEST, SHORTEST, prove

pytestmark = pytest.mark.benchmarks
pytest.importorskip("alfworld")
pytest.importorskip("textworld")


@pytest.mark.parametrize("split", list(GENERATED_GAMES))
def test_types_are_balanced_and_no_game_equals_another(split):
    games = list(generated_games(split))
    assert len(games) == GENERATED_GAMES[split]
    assert set(Counter(game.task_type for game in games).values()) == {len(games) // 6}
    assert {game.task_type for game in games} == set(TASK_TYPES)
    assert all(SHORTEST <= len(game.walkthrough) <= LONGEST for game in games)


def test_no_two_games_of_any_split_are_equal():
    games = [game for split in GENERATED_GAMES for game in generated_games(split)]
    assert len({game.game_id for game in games}) == len(games) == 210
    assert len({game.sha for game in games}) == len(games)


def test_test_layouts_are_not_in_train():
    def rooms(split):
        return {plot.layout.receptacles for plot in plots(split)}

    assert not rooms("generated_test") & rooms("generated_train")
    assert not rooms("generated_test") & rooms("generated_seen")
    assert rooms("generated_seen") <= rooms("generated_train")
    every = [
        layout.receptacles for test in (False, True) for made in layouts(test).values() for layout in made
    ]
    assert len(set(every)) == len(every)


def test_seen_games_repeat_goals_of_train_with_things_elsewhere_in_part():
    def kind(plot):
        return plot.task_type, plot.thing, plot.target, plot.layout.name

    train = {kind(plot): plot for plot in plots("generated_train")}
    repeated = [plot for plot in plots("generated_seen") if kind(plot) in train]
    assert len(repeated) >= 15
    for plot in repeated:
        here, there = place(plot, 0), place(train[kind(plot)], 0)
        same = sum(a == b for a, b in zip(here, there, strict=True))
        assert 0 < same < len(here)


def test_similar_goals_recur_over_train_layouts_and_most_test_goals_are_known():
    goals = Counter((plot.task_type, plot.thing, plot.target) for plot in plots("generated_train"))
    assert sum(count >= 2 for count in goals.values()) > len(goals) / 2
    asked = {(plot.task_type, plot.thing, plot.target) for plot in plots("generated_test")}
    assert len(asked & set(goals)) > len(asked) * 0.8


def test_goals_can_be_met_in_every_room_of_their_kind():
    for by_room in GOALS.values():
        for room, goals in by_room.items():
            for goal in goals:
                thing, target = goal.split()
                if target in LAMPS:
                    assert target in CONTAINS[room]
                else:
                    assert target in CONTAINS[room][thing].split()
                    assert RECEPTACLES[room][target][0] >= 1


def test_generation_is_the_same_each_time_and_as_proven():
    first = [game.sha for game in generated_games("generated_test")]
    assert first == [game.sha for game in generated_games("generated_test")]
    assert all(len(row) == 3 for rows in shipped_plans().values() for row in rows)


def test_all_sixty_test_games_are_solved_by_their_oracle():
    with Alfworld("generated_test", workers=2) as bench, ThreadPoolExecutor(2) as threads:
        sizes = []

        def solve(task):
            env = bench.make_env(task)
            try:
                shown = replay(env, bench.oracle(task))
            finally:
                env.close()
            sizes.extend(len(seen.admissible) for seen in shown)
            return not shown[0].success and shown[-1].success

        assert all(threads.map(solve, bench.tasks()))
    assert min(sizes) >= 12
    assert max(sizes) <= 65


def test_a_sample_is_proven_again_by_the_planner():
    proof = prove(3, seed=7, workers=2)
    assert proof == {"games": 3, "planned": 3, "solved": 3, "failed": []}
