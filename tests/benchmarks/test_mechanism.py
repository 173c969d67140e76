"""The paper's premise on real games with the embedded model: experience fitted to the task is what helps.

All four conditions over thirty games of 15 turns are `jitmem bench payload`; here fifteen games are played
for 10 turns, as with its walkthrough a game is won in 4 to 8 turns or not at all, and the two controls play
eight of them, with 30 train traces to choose from instead of 300.

Won of these fifteen: none 0, walkthrough 13, so the difference is 0.54 at least; of the eight: another
task's 1, raw 0, walkthrough 7. Of the thirty: none 2, walkthrough 25, and 0.54 too.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.bench import payload
from jitmem_lab.errors import UserError
from jitmem_lab.runs import Run

NEEDED = ("torch", "transformers", "textworld")
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason="needs the extras hf and alfworld"),
]
GAMES, FEW, TURNS = 15, 8, 10


def play(folder: Path, games: int, *names: str) -> dict[str, Any]:
    conditions = {name: {**payload.CONDITIONS[name], "max_steps": TURNS} for name in names}
    if "raw" in conditions:
        conditions["raw"]["warm_start"] = 30  # each has to be played first
    try:
        return payload.run(games=games, out=folder, concurrency=6, progress=False, conditions=conditions)
    except UserError as error:
        pytest.skip(f"the real games or the embedded model are not here: {error}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("mechanism")


@pytest.fixture(scope="module")
def fitted(folder) -> dict[str, Any]:
    return play(folder, GAMES, "none", "walkthrough")


def test_the_walkthrough_as_payload_wins_far_more_games_than_no_payload(fitted) -> None:
    assert (fitted["games"], fitted["split"]) == (GAMES, "valid_seen")
    low, high = fitted["difference_intervals"]["walkthrough"]
    assert low > 0.4, f"{GAMES} games of valid_seen: {fitted['won']}, difference {low:.2f} to {high:.2f}"


@pytest.mark.parametrize("condition", ["another", "raw"])
def test_what_is_not_fitted_to_the_task_comes_nowhere_near(fitted, folder, condition: str) -> None:
    """Neither another task's walkthrough nor the most similar trace; the room between is the curator's."""
    won = play(folder, FEW, condition)["won"][condition]
    episodes = sorted(Run(folder / "walkthrough").latest(), key=lambda episode: episode.position)[:FEW]
    best = sum(episode.outcome == "success" for episode in episodes)
    assert payload.difference_interval(won, best, FEW).low > 0, f"{condition} {won}, walkthrough {best}"
