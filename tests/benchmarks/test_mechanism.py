"""The paper's premise on real games with the embedded model: experience fitted to the task is what helps."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from jitmem_lab.bench import payload
from jitmem_lab.errors import UserError

NEEDED = ("torch", "transformers", "textworld")
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason="needs the extras hf and alfworld"),
]
GAMES = 30


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> dict:
    folder: Path = tmp_path_factory.mktemp("mechanism")
    try:
        return payload.run(games=GAMES, split="valid_seen", out=folder, concurrency=6, progress=False)
    except UserError as error:
        pytest.skip(f"the real games or the embedded model are not here: {error}")


def test_the_walkthrough_as_payload_wins_far_more_games_than_no_payload(played) -> None:
    assert played["games"] == GAMES
    low, high = played["difference_intervals"]["walkthrough"]
    assert low > 0.4, f"30 games of valid_seen: {played['won']}, difference {low:.2f} to {high:.2f}"


def test_another_tasks_walkthrough_does_not(played) -> None:
    assert not played["clearly_more"]["another"], f"30 games of valid_seen: {played['won']}"


@pytest.mark.parametrize("condition", ["another", "raw"])
def test_what_is_not_fitted_to_the_task_comes_nowhere_near(played, condition: str) -> None:
    """Neither another task's walkthrough nor the most similar trace; the room between is the curator's."""
    high = played["difference_intervals"][condition][1]
    assert high < played["difference_intervals"]["walkthrough"][0], f"{condition}: {played['won']}"
