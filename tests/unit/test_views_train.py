"""The training page: hostile payloads, torn files, the selection."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("panel")

from jitmem_lab.training.figures import PANELS, training_figure
from jitmem_lab.training.runs import TrainRun
from jitmem_lab.views import TrainView
from jitmem_lab.views.navigation import Navigation
from tests.unit.rivals import HOSTILE

pytestmark = pytest.mark.unit


def write_training(path: Path, steps: int = 3, payload: str = "1. press red", **request: Any) -> TrainRun:
    """A training's directory as `train` leaves it, with two groups of three payloads a step."""
    path.mkdir(parents=True)
    asked = {"preset": "pocket", "steps": 5, "prompts": 2, "group": 3, "seed": 0} | request
    about = {"schema_version": 1, "created": 1.0, "settings": {}, "request": asked}
    (path / "train.json").write_text(json.dumps(about))
    (path / "status.json").write_text(json.dumps({"state": "completed", "warnings": ["nothing was learnt"]}))
    trace = {"rank": 1, "score": 1.5, "description": payload, "text": payload}
    prompts = [
        {"task": {"description": f"task {n} {payload}"}, "recall": {"traces": [trace]}} for n in range(2)
    ]
    (path / "prompts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in prompts))
    first = {"kind": "heldout", "step": 0, "won": 1, "games": 8, "success_rate": 0.125}
    metrics: list[dict[str, Any]] = [first | {"run": "heldout/step-0000"}]
    rollouts = []
    for step in range(1, steps + 1):
        metrics.append({"kind": "step", "step": step, "reward": step / 10, "kl": None, "tokens": 5.0})
        for group in range(2):
            for n in range(3):
                line = {
                    "step": step,
                    "group": group,
                    "prompt": group,
                    "description": f"task {group}",
                    "payload": f"{payload} {step} {n}",
                    "reward": None if n == 2 else float(n),
                    "advantage": 0.0 if n == 2 else n - 0.5,
                    "outcome": "error" if n == 2 else "success" if n else "failure",
                    "error": payload if n == 2 else None,
                    "actions": [payload],
                    "tokens": 5,
                }
                rollouts.append(line)
    (path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in metrics))
    (path / "rollouts.jsonl").write_text("".join(json.dumps(one) + "\n" for one in rollouts))
    return TrainRun(path)


def html(view: TrainView) -> str:
    return "".join(str(pane.object) for pane in (view._standing, view._tables, view._cards, view._note))


def test_the_head_says_why_the_first_learning_rate_is_zero(tmp_path: Path) -> None:
    write_training(tmp_path / "warm", learning_rate=5e-4, warmup=3)
    write_training(tmp_path / "cold", learning_rate=5e-4, warmup=0)
    shown = TrainView(tmp_path / "warm")._standing.object
    assert "learning rate 0.0005 (rising from 0 over the first 3 updates)" in shown
    assert "rising" not in TrainView(tmp_path / "cold")._standing.object


def test_a_group_shows_each_payload_with_what_it_was_worth(tmp_path: Path) -> None:
    write_training(tmp_path / "one")
    view = TrainView(tmp_path)
    assert (view.run, view.step, view.group) == ("one", 3, 0)
    shown = html(view)
    assert (
        shown.index("advantage <b>+0.50")
        < shown.index("advantage <b>+0.00")
        < shown.index("advantage <b>-0.50")
    )
    for words in (
        "1. press red 3 0",
        "1. press red 3 1",
        "nothing was learnt",
        "12.5 %",
        "trace 1, score 1.50",
    ):
        assert words in shown
    view.step = 1
    assert "1. press red 1 0" in html(view)
    view.group = 1
    assert "task 1" in html(view)
    view._choose_step(None)
    assert view.step == 3


def test_hostile_payloads_are_text(tmp_path: Path) -> None:
    write_training(tmp_path / "one", payload=HOSTILE)
    shown = html(TrainView(tmp_path))
    assert "<img" not in shown
    assert "<script" not in shown.lower()
    assert 'href="javascript' not in shown
    shown.encode()


def test_it_follows_a_training_and_stays_where_one_looks(tmp_path: Path) -> None:
    run = write_training(tmp_path / "one", steps=1)
    view = TrainView(tmp_path)
    assert view.step == 1
    more = [json.loads(line) | {"step": 2} for line in (run.path / "rollouts.jsonl").read_text().splitlines()]
    with (run.path / "rollouts.jsonl").open("a") as file:
        file.write("".join(json.dumps(one) + "\n" for one in more))
    view.tick()
    assert view.step == 2
    view.step = 1
    with (run.path / "rollouts.jsonl").open("a") as file:
        file.write("".join(json.dumps(one | {"step": 3}) + "\n" for one in more))
    view.tick()
    assert view.step == 1
    assert 3 in view.param.step.objects


@pytest.mark.parametrize(
    ("search", "step", "group"),
    [
        ("?run=one&step=2&group=1", 2, 1),
        ("?run=one&step=99", 3, 0),
        ("?run=one&group=7", 3, 0),
        ("?step=x", 3, 0),
    ],
)
def test_the_url_holds_the_selection(search: str, step: int, group: int, tmp_path: Path) -> None:
    write_training(tmp_path / "one")
    write_training(tmp_path / "two")

    class Location(SimpleNamespace):
        search = ""

    place = Location(search=search)
    view = TrainView(tmp_path, location=place, **({} if "run" in search else {"run": "one"}))
    assert (view.run, view.step, view.group) == ("one", step, group)
    view.step = 1
    assert "step=1" in place.search


def test_broken_directories_are_a_sentence_in_place(tmp_path: Path) -> None:
    assert "there is no training" in html(TrainView(tmp_path))
    run = write_training(tmp_path / "one")
    view = TrainView(tmp_path)
    with (run.path / "rollouts.jsonl").open("a") as file:
        file.write('{"step": 4}\n[]\n{"step": "x", "group": 0, "prompt": 0, "reward": 1}\n{"torn')
    view.tick()
    assert view.step == 3
    for file in run.path.iterdir():
        file.unlink()
    run.path.rmdir()
    view.reload()
    assert "holds no training" in html(view) or "no longer there" in html(view)
    write_training(tmp_path / "two")
    (tmp_path / "two" / "train.json").write_text("{")
    assert "there is no training" in html(TrainView(tmp_path))
    write_training(tmp_path / "three", steps=0)
    (tmp_path / "three" / "prompts.jsonl").unlink()
    assert "No payload has been played yet" in html(TrainView(tmp_path / "three"))


def test_the_figure_has_a_panel_for_each_title_and_leaves_out_what_is_unknown(tmp_path: Path) -> None:
    figure = training_figure(write_training(tmp_path / "one"))
    titles = [annotation.text for annotation in figure.layout.annotations]
    assert titles[:6] == list(PANELS)
    assert "not computed" in titles[6]
    names = {trace.name for trace in figure.data}
    assert "turns (right axis)" not in names
    assert list(next(t for t in figure.data if t.name == "reward").y) == [0.1, 0.2, 0.3]


def test_the_bar_takes_no_training_to_pages_of_runs() -> None:
    bar = Navigation(
        "train", ("inspect", "train"), SimpleNamespace(search="?run=mine&theme=dark", param=_Watched())
    )
    assert 'href="inspect?theme=dark"' in bar._pane.object
    assert 'href="train?run=mine&amp;theme=dark"' in bar._pane.object


class _Watched:
    def watch(self, *_: Any) -> None:
        pass
