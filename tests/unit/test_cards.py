"""Run cards: where each value comes from, and what has to be told with the figures."""

from __future__ import annotations

from typing import Any

import pytest

from jitmem_lab.cards import Card, Row, card, cautions
from jitmem_lab.evaluation import EvalConfig
from jitmem_lab.memories.retrieving import CONTROLS

pytestmark = pytest.mark.unit


class FakeRun:
    def __init__(self, settings: dict[str, Any], request: dict[str, Any] | None = None) -> None:
        self.settings = settings
        self.config = {"request": request}
        self.owed = 0

    def status(self) -> dict[str, Any]:
        return {"owed": self.owed}

    def undone(self) -> list[dict[str, int]]:
        return []


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (
            {"benchmark": {"leaks": ["the key is the hidden scenario"]}},
            "leak: the key is the hidden scenario",
        ),
        ({"notes": ["a scripted user"]}, "a scripted user"),
        ({"memory": {"notes": ["recalls its own attempts"]}}, "recalls its own attempts"),
        ({"memory": {"name": "oracle"}}, "own solution"),
        ({"memory": {"gate": "partial"}}, "any reward above 0"),
        ({"memory": {"exclude_own": False}}, "leak: a task may retrieve its own"),
        *(({"memory": {"retrieval": how}}, f"control: {how} retrieval") for how in CONTROLS),
        ({"memory": {"payload_of": "another"}}, "control: the payload is made for another task"),
        ({"warm_start": {"count": 7}}, "7 solved demonstrations"),
    ],
)
def test_what_must_be_told(settings: dict[str, Any], says: str) -> None:
    (said,) = cautions(settings, {"notes": settings.pop("notes", [])})
    assert says in said


def test_demonstrations_of_played_tasks_are_told() -> None:
    (said,) = cautions({}, {"demonstrations_of_played_tasks": 3})
    assert "3 of these demonstrations are of tasks that are played" in said


def test_a_plain_run_has_nothing_to_tell() -> None:
    plain = {"benchmark": {"split": "valid_seen"}, "memory": {"gate": "judge", "exclude_own": True}}
    assert cautions(plain, {}) == []
    for retrieval in ("bm25", "dense", {"how": "dense"}):
        assert cautions({"memory": {"retrieval": retrieval, "payload_of": "own"}}, {}) == []
    assert cautions({}, {}) == []


def test_each_value_says_where_it_comes_from() -> None:
    config = EvalConfig.make(preset="authors-code", benchmark="tau2", split="airline", k=5)
    rows = {row.name: row for row in card(FakeRun({}, config.request())).rows}  # type: ignore[arg-type]
    assert rows["k"] == Row("k", 5, "chosen")
    assert rows["task_key"] == Row("task_key", "scenario", "preset authors-code")
    assert rows["max_steps"] == Row("max_steps", 200, "preset authors-code")
    assert rows["split"].origin == "chosen"
    assert rows["seed"] == Row("seed", 0, "default")
    assert rows["options"] == Row("options", {}, "default")


def test_owed_episodes_are_told() -> None:
    run = FakeRun({})
    run.owed = 2
    assert card(run).cautions == ("2 episodes are owed: run it again to play what is missing",)  # type: ignore[arg-type]


def test_a_run_without_a_request_has_no_rows() -> None:
    made = card(FakeRun({"benchmark": {"name": "buttons"}}))  # type: ignore[arg-type]
    assert made.rows == ()
    assert "buttons" in str(made)


def test_a_card_shows_cautions_and_is_no_danger_to_the_page() -> None:
    shown = Card("<b>t", ("<script>x",), (Row("prompt", "<img src=x>", "chosen"),))
    page = shown._repr_html_()
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;x" in page
    assert "  ! <script>x" in str(shown)
