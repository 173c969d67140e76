"""The training page in a real browser: groups, the URL, following, hostile payloads."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.unit.rivals import HOSTILE
from tests.unit.test_views_train import write_training

from .test_inspect import make_run, shows, unharmed

pytestmark = pytest.mark.ui


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("trainings")
    training = write_training(folder / "mine", payload=HOSTILE)
    (training.path / "heldout").mkdir()
    make_run(training.path / "heldout", "jitmem", 4).path.rename(training.path / "heldout" / "step-0000")
    return folder


@pytest.fixture(scope="module")
def root(runs, serve) -> str:
    parts = urlsplit(serve(runs))
    return f"{parts.scheme}://{parts.netloc}"


def groups(page, step: int, words: str) -> None:
    page.get_by_label("Step", exact=True).and_(page.locator("select")).wait_for()
    page.locator(".card").filter(has_text=f"{step} 1").first.wait_for()
    page.get_by_role("heading", name=words).wait_for()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_group_is_chosen_and_kept_in_the_url(root, visit, screenshot, scheme):
    page = visit(scheme).page
    page.goto(f"{root}/train")
    page.locator(".card").first.wait_for()
    assert page.locator(".card").count() == 3
    assert page.locator(".card.up").count() == 1
    page.locator(".plotly .xtick text").first.wait_for()
    unharmed(page)
    screenshot(page, "train")
    page.get_by_label("Step", exact=True).select_option("1")
    page.wait_for_url("**step=1**")
    groups(page, 1, "task 0")
    page.get_by_label("Task", exact=True).select_option(index=1)
    page.wait_for_url("**group=1**")
    groups(page, 1, "task 1")
    page.reload()
    groups(page, 1, "task 1")
    page.get_by_role("button", name="Newest").click()
    page.locator(".card").filter(has_text="3 1").first.wait_for()
    unharmed(page)


def test_a_held_out_payload_is_one_click_away(root, visit):
    page = visit().page
    page.goto(f"{root}/train?run=mine")
    page.get_by_role("link", name="each payload beside its traces").click()
    page.wait_for_url("**/inspect?**step-0000**")
    shows(page, 0)
    bar = page.get_by_role("navigation", name="Dashboards")
    bar.get_by_role("link", name="train").click()
    page.locator(".card").first.wait_for()


def test_a_training_is_followed(runs, root, visit):
    page = visit().page
    page.goto(f"{root}/train?run=mine")
    page.locator(".card").first.wait_for()
    file = runs / "mine" / "rollouts.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines() if '"step": 3' in line]
    with file.open("a") as more:
        more.write("".join(json.dumps(line | {"step": 4, "payload": "NEW 4 1"}) + "\n" for line in lines))
    page.locator(".card").filter(has_text="NEW 4 1").first.wait_for()
