"""The three columns in a real browser: what is folded unfolds, marks match, both themes can be read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jitmem_lab.curation import Curator
from jitmem_lab.execution import Executor
from jitmem_lab.memories import load_memory
from jitmem_lab.records import Step, Task, Trajectory
from jitmem_lab.runs import Run
from jitmem_lab.stream import run_stream
from jitmem_lab.views.columns import STYLE, episode_html

from ..unit import memory_answers
from ..unit.doubles import ButtonBenchmark, RuleModel, demonstration

pytestmark = pytest.mark.ui

WALL = "WebShop [SEP] Instruction: [SEP] buy <i>red</i> socks [SEP] " + " [SEP] ".join(
    f"B{n:07d} [SEP] Socks no. {n} [SEP] ${n}.50" for n in range(40)
)


def curated(text: str, sampling) -> str:
    """A payload that takes up of the first trace, an action otherwise."""
    if "Record" in text:
        seen = text.partition("Did: ")[2].splitlines()[0]
        return f"1. Look at the panel.\n2. {seen}\n3. Saw: A panel with buttons, then stop."
    return f"I think so. <action>press {('red', 'green', 'blue', 'pink')[len(text) % 4]}</action>"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    """Real runs, and one whose record is rewritten to be of other benchmarks."""
    folder, model = tmp_path_factory.mktemp("runs"), RuleModel(rule=curated)
    model.context = 32_768
    bench = ButtonBenchmark(8)
    run = run_stream(
        bench,
        load_memory("jitmem", curator=Curator(model), gate="environment"),
        Executor(model, temperature=1.0),
        out=folder / "jitmem",
        batch_size=2,
        warm_start=[demonstration(task) for task in bench.tasks()[:5]],
        progress=False,
    )
    for name in ("memharness", "skillos", "expel"):
        memory_answers.streamed(memory_answers.build(name), folder / name)
    rewrite(run, folder / "others")
    return folder


def rewrite(run: Run, folder: Path) -> None:
    """Two episodes as WebShop and τ² record them."""
    folder.mkdir()
    (folder / "config.json").write_bytes((run.path / "config.json").read_bytes())
    found = json.dumps({"name": "Mia", "orders": [{"id": n, "status": "sent"} for n in range(12)]})
    shop = [
        Step(observation=WALL, admissible=("click[b1]",), raw="click[b1]", action="click[b1]"),
        Step(observation="Socks [SEP] Price: $1", admissible=(), raw="hm", action="click[no]", valid=False),
    ]
    talk = [
        Step(observation="Where is my money?", admissible=(), action='find(user="mia")', speaker="user"),
        Step(
            observation=found,
            admissible=(),
            speaker="tool",
            action=f'refund(order=7, why="{"broken " * 30}")',
        ),
        Step(observation="Refunded.", admissible=(), speaker="tool", action="It is on its way. " * 20),
    ]
    checks = {"DB": 1.0, "COMMUNICATE": 0.0, "checks": {"COMMUNICATE": [1, 2]}, "termination": "user_stop"}
    worth = {"r_type": 1.0, "r_att": 0.5, "w_att": 0.5, "r_price": True, "w_price": 0.5}
    lines = []
    for place, (name, steps, parts) in enumerate((("webshop", shop, worth), ("tau2", talk, checks))):
        task = Task(benchmark=name, split="test", task_id=f"t{place}", description=f"a task of {name}")
        played = Trajectory(task=task, steps=tuple(steps), outcome="failure", reward=0.5, parts=parts)
        given = {"task": task, "trajectory": played, "key": f"k{place}", "position": place, "calls": ()}
        lines.append(run.latest()[-1].model_copy(update=given).to_line())
    (folder / "episodes.jsonl").write_text("".join(f"{line}\n" for line in lines))


THEME = """:root { color-scheme: light dark; --background-text-color: light-dark(#1d2126, #e4e7eb) }
body { background: light-dark(#ffffff, #16191d); margin: 10px }"""


@pytest.fixture
def opened(runs, visit, tmp_path):
    """Opens an episode's columns by themselves, within a shadow root as dashboards have them."""

    def new(name: str, position: int, scheme: str = "light", **options):
        run = Run(runs / name)
        html = episode_html(run.episode(position), run=run, **options)
        inside = f'<template shadowrootmode="open"><style>{STYLE}</style>{html}</template>'
        file = tmp_path / f"{name}-{position}-{scheme}.html"
        file.write_text(
            f'<!doctype html><meta charset="utf-8"><style>{THEME}</style><div>{inside}</div>', "utf-8"
        )
        page = visit(scheme).page
        page.goto(file.as_uri())
        page.locator(f'.episode-column[data-position="{position}"]').wait_for()
        return page

    return new


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_traces_explain_themselves_and_marks_match(runs, opened, screenshot, scheme):
    episode = Run(runs / "jitmem").episode(7)
    page = opened("jitmem", 7, scheme)
    first = page.locator(".trace").first
    added = [float(word.split()[1]) for word in first.locator(".word").all_inner_texts()]
    assert sum(added) == pytest.approx(episode.recall.traces[0].score, abs=0.06)
    payload = page.locator(".payload mark.hue0")
    label = payload.first.get_attribute("data-n")
    same = first.locator(f'mark[data-n="{label}"]').first
    assert same.inner_text().lower() == payload.first.inner_text().lower()
    assert page.get_by_text("no proof of use").is_visible()
    second = page.locator(".trace").nth(1)
    assert not second.locator("pre").is_visible()
    second.locator("summary").focus()
    page.keyboard.press("Enter")
    second.locator("pre").wait_for()
    copied = page.locator("pre.payload").evaluate(
        "node => { const s = getSelection(); s.selectAllChildren(node); return s.toString() }"
    )
    assert copied.strip() == episode.recall.payload.strip(), "labels of marks are not copied"
    screenshot(page, scheme)


def test_the_step_asked_for_is_whole_and_open(runs, opened, screenshot):
    episode = Run(runs / "jitmem").episode(7)
    page = opened("jitmem", 7, step=0)
    sent = page.locator('[data-step="0"] details', has_text="prompt as sent").locator("pre").first
    sent.wait_for()
    asked = next(call for call in episode.calls if call.role == "executor")
    assert sent.inner_text().split() == asked.messages[0].content.split()
    other = page.locator('[data-step="1"] details', has_text="prompt as sent")
    assert not other.locator("pre").first.is_visible()
    other.locator("summary").click()
    other.locator("pre").first.wait_for()
    refused = page.locator(".refused").first
    assert refused.get_by_text("not admissible").is_visible()
    screenshot(page, "step")


@pytest.mark.parametrize(
    ("run", "words"), [("memharness", "Payload 1"), ("skillos", "skill"), ("expel", "trial")]
)
def test_what_is_written_reads_well(opened, screenshot, run, words):
    page = opened(run, 15, "dark" if run == "skillos" else "light")
    assert page.locator(".columns").get_by_text(words).first.is_visible()
    if run != "memharness":
        page.locator(".trace").first.locator("summary").click()
    assert page.get_by_text("after episode").count()
    screenshot(page, "page")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_shops_and_talks_read_well(opened, screenshot, scheme):
    page = opened("others", 0, scheme)
    wall = page.locator('[data-step="0"] details', has_text="a line for each").first
    wall.locator("summary").click()
    assert "Instruction:\nbuy <i>red</i> socks\nB0000000" in wall.locator("pre").inner_text()
    assert page.get_by_text("price within the limit").is_visible()
    screenshot(page, f"shop-{scheme}")
    page = opened("others", 1, scheme)
    assert page.get_by_text("the user says").is_visible()
    assert page.get_by_text("1 of 2 checks met").is_visible()
    page.get_by_text("JSON, laid out").click()
    screenshot(page, f"talk-{scheme}")
