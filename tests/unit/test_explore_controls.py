"""The explorer's controls, pressed as a browser presses them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.explore import Explorer
from jitmem_lab.runs import list_runs
from jitmem_lab.views.explorer import Controls

from .test_explore import Bench, Model, bench, explore

pytest.importorskip("ipywidgets")
pytestmark = pytest.mark.unit
__all__ = ["bench"]


class Handle:
    """Takes what is shown in the cell."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def update(self, cell: Any) -> None:
        self.pages.append(cell._repr_html_())


@pytest.fixture
def lab(bench: Bench) -> Iterator[Explorer]:
    with explore(model=Model()) as made:
        yield made


@pytest.fixture
def controls(lab: Explorer, tmp_path: Path) -> Controls:
    made = Controls(lab, str(tmp_path / "explored"))
    made._handles = [Handle(), Handle()]
    return made


def said(controls: Controls) -> str:
    return str(controls.said.value)


def press(controls: Controls, name: str) -> str:
    controls.buttons[name].click()
    return said(controls)


def test_from_the_task_to_a_saved_run(controls: Controls, lab: Explorer) -> None:
    controls.task.value = 3
    assert "3 traces; Curate makes a payload" in said(controls)
    assert lab.task.task_id == "b3"
    assert "try 1: curated, k=3" in press(controls, "Curate")
    unplayed = controls._handles[0].pages[-1]
    assert "payload-column" in unplayed
    assert "episode-column" not in unplayed, "nothing of a try that was not played is called an error"
    assert "badge error" not in unplayed
    controls.k.value = 1
    assert "1 trace;" in said(controls)
    assert "k=1" in press(controls, "Curate")
    told: list[str] = []
    controls.said.observe(lambda change: told.append(change["new"]), "value")
    assert "after" in press(controls, "Play")
    assert lab.attempts[1].result in said(controls)
    assert any("Playing try 2, step 1: press " in line for line in told), "how far it is, is told on the way"
    controls.tried.value = 1
    assert "try 1: " in press(controls, "Play")
    assert lab.attempts[0].trajectory is not None
    shown, compared = (handle.pages[-1] for handle in controls._handles)
    assert "try 1: curated" in shown
    assert "episode-column" in shown
    assert "try 2" not in compared, "what is chosen is set beside what came before it"
    assert "jitmem serve" in press(controls, "Save")
    assert len(list_runs(controls.out)) == 1


def test_payloads_without_a_curator_and_traces_by_their_ids(controls: Controls, lab: Explorer) -> None:
    press(controls, "No payload")
    press(controls, "Walkthrough")
    controls.traces.value = "4, 7"
    press(controls, "Curate")
    assert [attempt.settings["how"] for attempt in lab.attempts] == [
        "no payload",
        "the walkthrough",
        "curated",
    ]
    assert {trace.trace_id for trace in lab.attempts[2].recall.traces} == {4, 7}
    assert [number for _, number in controls.tried.options] == [3, 2, 1]


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("traces", "4, x", "traces are told by their ids"),
        ("traces", "99", "trace 99 is not to be had"),
        ("prompt", "curatr", "there is no prompt"),
        ("model", "smoll", "unknown model"),
    ],
)
def test_what_goes_wrong_is_told_in_place(
    controls: Controls, lab: Explorer, name: str, value: str, says: str
) -> None:
    getattr(controls, name).value = value
    assert says in press(controls, "Curate")
    assert lab.attempts == []
    assert not any(button.disabled for button in controls.buttons.values())


def test_failures_are_told_in_place_and_the_try_stays(
    controls: Controls, bench: Bench, lab: Explorer
) -> None:
    assert "there is no try yet" in press(controls, "Play")
    press(controls, "Curate")
    assert "was not played yet; play it first" in press(controls, "Save")
    bench.broken = lambda task: True
    assert "the environment died" in press(controls, "Play")
    bench.broken = lambda task: False
    assert "after" in press(controls, "Play")

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    lab.play = interrupted  # type: ignore[method-assign, assignment]
    assert "stopped; nothing of it was kept" in press(controls, "Play")


def test_the_controls_are_locked_while_a_model_works(controls: Controls, lab: Explorer) -> None:
    seen: list[bool] = []
    model = lab._models["smol"]
    model.rule = lambda text, _: seen.append(controls.buttons["Play"].disabled) or "A payload."  # type: ignore[attr-defined, func-returns-value]
    press(controls, "Curate")
    assert seen == [True]
    assert not controls.buttons["Play"].disabled


def test_close_ends_all_and_says_so(controls: Controls, lab: Explorer) -> None:
    press(controls, "Curate")
    assert "environments ended, models freed" in press(controls, "Close")
    assert lab.closed
    assert all(button.disabled for button in controls.buttons.values())
    assert not controls.tried.disabled, "what was tried can still be looked at"


def test_tries_of_other_cells_are_offered_and_nothing_is_kept_in_widgets(
    bench: Bench, lab: Explorer, capsys: pytest.CaptureFixture[str]
) -> None:
    attempt = lab.play(lab.curate())
    made = Controls(lab)
    made._ipython_display_()
    assert "VBox" in capsys.readouterr().out
    assert [number for _, number in made.tried.options] == [attempt.number]
    state = str([widget.get_state() for widget in (made.task, made.tried, made.said, *made.buttons.values())])
    assert attempt.recall.payload[:30] not in state
    assert len(state) < 20_000
