"""An episode as three columns: everything of the record is there, nothing of it runs, and it stays small."""

from __future__ import annotations

import html
import json
import re
import time
from html.parser import HTMLParser

import pytest

from jitmem_lab.memories import NAMES
from jitmem_lab.records import (
    Call,
    Episode,
    Message,
    Recall,
    RetrievedTrace,
    Step,
    Task,
    ToolCall,
    Trajectory,
    Usage,
    Verdict,
)
from jitmem_lab.render import clean_text
from jitmem_lab.views import columns, style
from jitmem_lab.views.calls import by_step, prompt
from jitmem_lab.views.columns import episode_html, payload_text
from jitmem_lab.views.steps import limit_of

from . import memory_answers

pytestmark = pytest.mark.unit

HOSTILE = (
    "<img src=x onerror=alert(1)> </script><script>alert(1)</script> \"' $$x$$ [x](javascript:alert(1)) "
    "\x1b[31mred\x1b[0m \u202e \x00 \ud83d {{x}} </pre></details>"
)
NOTHING = Recall()
TASK = Task(benchmark="b", split="s", task_id="t", description="press red")


def call(text: str = "press red", sent: str = "Which one?", role: str = "executor", **more) -> Call:
    phase = {"executor": "act", "curator": "recall", "judge": "judge"}.get(role, "act")
    given = {"phase": phase, "messages": (Message(role="user", content=sent),), "text": text} | more
    return Call(role=role, model="m", **given)


def episode(
    *steps: Step, calls=(), task: Task = TASK, recall: Recall = NOTHING, verdict=None, **more
) -> Episode:
    trajectory = Trajectory(task=task, steps=steps, outcome="failure", reward=0.0, **more)
    judged = verdict or Verdict(success=False, source="environment")
    given = {"recall": recall, "trajectory": trajectory, "verdict": judged, "calls": tuple(calls)}
    return Episode(key="k", position=7, batch=0, task=task, outcome="failure", **given)


def step(observation: str = "A panel.", action: str = "press red", **more) -> Step:
    given = {"admissible": ("press red", "press blue"), "raw": action} | more
    return Step(observation=observation, action=action, **given)


class Reader(HTMLParser):
    """What a browser would make of a page: its tags, their attributes, and its text by column."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, str] = {}
        self.open: list[str] = []
        self.column = ""
        self.feed(page)
        self.close()
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "section":
            self.column = dict(attrs)["class"].split()[1].removesuffix("-column")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag == "section":
            self.column = ""

    def handle_data(self, data):
        self.text[self.column] = self.text.get(self.column, "") + data


def read(page: str) -> Reader:
    page.encode("utf-8")
    seen = Reader(page)
    assert {tag for tag, _ in seen.tags} <= {
        *("div", "section", "h1", "h2", "h3", "span", "code", "pre", "details", "summary", "mark"),
        *("table", "thead", "tbody", "tr", "th", "td"),
    }
    for _, attributes in seen.tags:
        assert set(attributes) <= {
            *("class", "style", "open", "tabindex", "aria-label", "data-position", "data-step", "data-n"),
        }
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\ud800-\udfff]", page)
    return seen


def test_names_are_found_where_others_look_for_them():
    for name in ("STYLE", "TEXT_LIMIT", "SHORT", "page", "note"):
        assert getattr(columns, name) is getattr(style, name)


@pytest.mark.parametrize("name", NAMES)
def test_every_memory_system_reads_well(name, tmp_path):
    run = memory_answers.streamed(memory_answers.build(name), tmp_path / name)
    for done in run.latest():
        shown = read(episode_html(done, run=run))
        assert [a["data-position"] for t, a in shown.tags if t == "section"] == [str(done.position)] * 3
        page = episode_html(done, run=run)
        assert page.count("prompt as sent") == len(done.calls), "each call once"
        assert page == episode_html(done, run=run)
        given = {step.payload for step in done.trajectory.steps} - {""} or {done.recall.payload} - {""}
        for payload in given:
            assert clean_text(payload, None) in shown.text["payload"]
        for trace in done.recall.traces:
            assert clean_text(trace.text, None) in shown.text["traces"]
            assert f"score {trace.score:.3f}" in shown.text["traces"]
        assert shown.text["episode"].count("→ ") == len(done.trajectory.steps)
        read(episode_html(done))
        read(episode_html(done, full=True, run=run, step=0))


def test_without_a_snapshot_items_are_not_told_as_of_a_guessed_write(tmp_path):
    run = memory_answers.streamed(memory_answers.build("skillos"), tmp_path / "skillos")
    known = run.latest()[-1]
    unknown = known.model_copy(update={"snapshot": None})
    assert f"after {known.snapshot} writes" in episode_html(known, run=run)
    page = episode_html(unknown, run=run)
    assert "writes" not in page.partition("</h2>")[0]
    assert "written by" not in page, "nobody knows as of which write"


def hostile() -> Episode:
    trace = RetrievedTrace(
        trace_id=1, rank=1, score=1.0, task_id=HOSTILE, description=HOSTILE, text=f"{HOSTILE} the end"
    )
    recall = Recall(
        payload=HOSTILE,
        traces=(trace,),
        query=HOSTILE,
        notes={
            HOSTILE: HOSTILE,
            "l": [HOSTILE],
            "d": [{HOSTILE: [HOSTILE]}],
            "deep": {"a": {"b": {"c": {}}}},
        },
    )
    calls = [
        call(HOSTILE, HOSTILE, role, error=HOSTILE, finish=HOSTILE, options=(HOSTILE,), scores=(-1.0,))
        for role in ("curator", "executor", "judge", "user", "embedder", "distiller")
    ]
    taken = Step(
        observation=HOSTILE,
        admissible=(HOSTILE,),
        raw=HOSTILE,
        action=HOSTILE,
        valid=False,
        speaker=HOSTILE,
        payload=HOSTILE,
    )
    task = Task(benchmark=HOSTILE, split=HOSTILE, task_id=HOSTILE, description=HOSTILE, task_type=HOSTILE)
    verdict = Verdict(success=None, source="judge", rationale=HOSTILE)
    parts = {HOSTILE: HOSTILE, "checks": {HOSTILE: [HOSTILE, HOSTILE]}, "x": [HOSTILE, {HOSTILE: HOSTILE}]}
    made = episode(taken, calls=calls, task=task, recall=recall, verdict=verdict, parts=parts)
    return made.model_copy(update={"error": HOSTILE})


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("chosen", [None, 0, 5])
def test_hostile_texts_are_text(full, chosen):
    shown = read(episode_html(hostile(), full, step=chosen))
    for column in ("traces", "payload", "episode"):
        assert "<img src=x onerror=alert(1)> </script><script>alert(1)</script>" in shown.text[column]
    assert "\\u202e \\x00 \\ud83d" in shown.text["payload"]


def test_an_episode_that_never_began_and_one_without_a_verdict():
    never = Episode(key="k", position=0, batch=0, task=TASK, outcome="error", error="the server is down")
    shown = read(episode_html(never))
    assert "the episode did not end" in shown.text["episode"]
    assert "the server is down" in shown.text["episode"]
    assert "no payload" in shown.text["payload"]
    assert "no traces were retrieved" in shown.text["traces"]
    read(episode_html(episode()))


def test_steps_show_what_was_seen_asked_and_done():
    chosen = call("press red", options=("press blue", "press red"), scores=(-2.0, -0.5))
    written = call("I think so. <action>press</action>", "A long way.\nWhat now?")
    done = episode(
        step(),
        step("Nothing.", "press", raw="I think so. <action>press</action>", valid=False),
        step("x" * 900, ""),
        calls=[chosen, written],
        final_observation="It is over.",
    )
    page = episode_html(done)
    text = read(page).text["episode"]
    assert "2 options, likeliest first" in text
    assert text.index("-0.500  press red") < text.index("-2.000  press blue")
    assert "I think so. <action>press</action>" in text
    assert "What now?" in text
    assert text.count("not admissible") == 2, "in the head and at the step"
    assert page.count("refused") == 1
    assert "no action found" in text
    assert "900 characters" in text
    assert "It is over." in text
    assert [part[:4] for part in text.split("step ")[1:4]] == ["0A p", "1Not", "2xxx"]


def test_only_the_step_asked_for_is_whole_and_open():
    calls = [call(sent=f"{n}" * 20_000) for n in range(3)]
    done = episode(*(step("o" * 20_000) for _ in range(3)), calls=calls)
    page = episode_html(done, step=1)
    assert "1" * 20_000 in page
    assert "0" * 20_000 not in page
    assert page.count("o" * 20_000) == 1
    assert page.count("<details open>") == 2, "its prompt, and what was seen"
    assert "0" * 20_000 in episode_html(done, full=True)


def test_a_prompt_tells_what_it_shares_with_the_one_before():
    rules = "\n".join(f"Rule {n}: be careful with this." for n in range(40))
    first = call(sent=f"{rules}\nYou saw: a")
    second = call(sent=f"{rules}\nYou saw: b")
    text = read(prompt(second, 8000, ("at step 0", first))).text[""]
    assert f"after {len(rules) + 1:,} characters that are the same as at step 0" in text
    assert text.endswith("You saw: b")
    assert "Rule 3" not in text
    assert rules in read(prompt(second, None, ("at step 0", first))).text[""]
    assert rules in read(prompt(first, 8000)).text[""]
    short = read(prompt(call(sent="ab"), 8000, ("at step 0", call(sent="ac")))).text[""]
    assert short.endswith("ab")


def test_a_conversation_tells_which_messages_it_shares():
    system = Message(role="system", content="Policy. " * 200)
    asked = Message(role="user", content="Help me.")
    looked = Message(
        role="assistant", content="", tool_calls=(ToolCall(name="find", arguments={"user": "mia"}),)
    )
    answer = Message(role="tool", content='{"found": 1}')
    first = call(messages=(system, asked))
    second = call(messages=(system, asked, looked, answer), tools=("find", "refund"))
    text = read(prompt(second, 8000, ("at step 0", first))).text[""]
    assert "the first 2 messages, 1,608 characters: the same as at step 0" in text
    assert 'find(user="mia")' in text
    assert "Policy." not in text
    assert "findrefund" not in text


def test_calls_find_their_steps():
    asks, rebuilds = (call("q", role="curator", phase="act") for _ in range(2))
    user = call("Hello", role="user")
    tools = call("", tool_calls=(ToolCall(name="a"), ToolCall(name="b")))
    silent = call("")
    done = [step(), step(raw='{"text": "", "tool_calls": [1, 2]}'), step(raw=""), step(raw=""), step(raw="")]
    first = call("press red")
    by, left = by_step(done, [call(role="curator"), user, asks, rebuilds, first, tools, silent])
    assert [one.decided for one in by] == [first, tools, silent, None, None]
    assert by[0].before == (user, asks, rebuilds)
    assert left == []
    by, left = by_step(done[:1], [first, user, call("more")])
    assert [one.role for one in left] == ["user", "executor"]


def test_a_shops_walls_are_lines_and_the_reward_is_a_table():
    wall = "WebShop [SEP] Instruction: [SEP] buy <i>socks</i> [SEP] " + " [SEP] ".join(
        f"A{n}" for n in range(90)
    )
    parts = {
        "r_type": 1.0,
        "r_att": 0.5,
        "w_att": 0.25,
        "r_option": 1.0,
        "w_option": 0.5,
        "r_price": True,
        "w_price": 0.25,
    }
    task = TASK.model_copy(update={"benchmark": "webshop"})
    text = read(episode_html(episode(step(wall), task=task, parts=parts))).text["episode"]
    assert "WebShop\nInstruction:\nbuy <i>socks</i>\nA0\nA1" in text
    assert "a line for each [SEP]" in text
    assert "attributes0.5weight 0.25" in text
    assert "price within the limityesweight 0.25" in text
    other = read(episode_html(episode(step(wall), parts=parts))).text["episode"]
    assert "WebShop [SEP] Instruction:" in other


def test_a_talk_has_its_speakers_its_calls_and_its_checks():
    long = 'refund(order=7, why="' + "it broke " * 30 + '", lines=[1, 2])'
    found = json.dumps({"user": {"name": "Mia", "orders": [1, 2, 3], "note": "n" * 400}})
    done = episode(
        step("Where is my money?", 'find(user="mia")', speaker="user"),
        step(found, long, speaker="tool"),
        step("It was refunded.", "You have your money. " * 20, speaker="tool"),
        parts={
            "termination": "user_stop",
            "basis": ["DB", "COMMUNICATE"],
            "DB": 1.0,
            "COMMUNICATE": 0.0,
            "checks": {"COMMUNICATE": [1, 2]},
        },
        calls=[call("Where?", role="user"), call('find(user="mia")')],
    )
    text = read(episode_html(done)).text["episode"]
    assert "the user says" in text
    assert "the tool answers" in text
    assert '→ find(user="mia")' in text
    assert '→ refund   order = 7\n  why = "it broke' in text
    assert '"user": {\n  "name": "Mia"' in text
    assert "JSON, laid out" in text
    assert "COMMUNICATE01 of 2 checks met" in text
    assert "countsDB, COMMUNICATE" in text
    assert "the simulated user's model" in text


def test_payloads_of_single_steps_are_told_with_their_steps():
    recall = Recall(
        notes={"steps": [{"step": 0, "query": "how", "shown": [3, 1]}, {"step": 3, "query": "", "shown": []}]}
    )
    given = ("", "press gently", "press gently", "press hard", "press gently")
    ask = call("<query>how</query>", role="curator", phase="act")
    done = episode(*(step(payload=text) for text in given), recall=recall, calls=[ask, call()])
    shown = read(episode_html(done))
    assert "Payload 1 steps 1 to 2, 4press gently" in shown.text["payload"]
    assert "Payload 2 step 3press hard" in shown.text["payload"]
    assert "before step 0: curator call" in shown.text["payload"]
    assert "stepqueryshown0how3, 1" in shown.text["payload"]
    assert "with payload 1" in shown.text["episode"]
    assert "with payload 2" in shown.text["episode"]


def test_marks_match_between_trace_and_payload():
    trace = RetrievedTrace(
        trace_id=4,
        rank=1,
        score=2.0,
        task_id="t",
        description="d",
        text="1. go to shelf 2\n2. look",
        cut_chars=12,
    )
    recall = Recall(payload="Go to shelf 2 & look there.", traces=(trace,), bank_size=9, self_excluded=2)
    page = episode_html(episode(recall=recall))
    assert '<mark class="hue0" data-n="1.1">go to shelf 2</mark>' in page
    assert '<mark class="hue0" data-n="1.1">Go to shelf 2</mark> &amp; look' in page
    text = read(page).text
    assert "67 % of its words stand in what was shown" in text["payload"]
    assert "a match of texts, no proof of use" in text["payload"]
    assert "67 % of the payload" in text["traces"]
    assert "12 characters cut to fit the prompt" in text["traces"]
    assert "2 of this very task left out" in text["traces"]
    without = read(episode_html(episode(recall=recall.model_copy(update={"payload": "Nothing alike."}))))
    assert "no proof" not in without.text["payload"]
    assert "0 % of its words" in without.text["payload"]


def large(steps: int, size: int) -> Episode:
    """An episode whose prompts are long, and share all but their last turns, as real ones do."""
    rules = " ".join(f"rule{n}" for n in range(size // 8))
    admissible = tuple(f"go to place {n}" for n in range(40))
    taken = [
        step(f"You see {n} " + "a thing, " * 60, f"go to place {n % 40}", admissible=admissible)
        for n in range(steps)
    ]
    told = [" ".join(one.observation for one in taken[max(0, n - 3) : n]) for n in range(steps)]
    calls = [
        call(
            one.action,
            f"{rules}\n{text}\n{one.observation}",
            usage=Usage(calls=1),
            options=admissible,
            scores=(-1.0,) * 40,
        )
        for one, text in zip(taken, told, strict=True)
    ]
    traces = tuple(
        RetrievedTrace(
            trace_id=n,
            rank=n,
            score=1.0,
            task_id="t",
            description="d",
            text=" ".join(f"w{n * i % 997}" for i in range(4000)),
        )
        for n in (1, 2, 3)
    )
    recall = Recall(payload=" ".join(f"w{2 * i % 997}" for i in range(2000)), traces=traces, bank_size=3)
    return episode(*taken, calls=[call(role="curator", sent=rules), *calls], recall=recall)


def test_long_prompts_make_neither_a_long_page_nor_a_slow_one():
    done = large(50, 20_000)
    assert sum(len(one.messages[0].content) for one in done.calls) > 900_000
    times = []
    for _ in range(3):
        begun = time.process_time()
        page = episode_html(done)
        times.append(time.process_time() - begun)
    assert len(page.encode()) < 350_000
    assert min(times) < 0.3  # a third of it on a quiet machine
    assert len(html.unescape(episode_html(done, full=True))) > 1_000_000


def test_a_huge_observation_is_cheap():
    huge = '{"a": "' + "wall [SEP] " * 500_000 + '"}'
    task = TASK.model_copy(update={"benchmark": "webshop"})
    calls = [call(sent=huge), call(sent=huge + "!")]
    recall = Recall(
        payload=huge,
        traces=(RetrievedTrace(trace_id=1, rank=1, score=1.0, task_id="t", description=huge, text=huge),),
    )
    done = episode(
        step(huge, speaker="tool"),
        step(huge, huge),
        task=task,
        calls=calls,
        recall=recall,
        final_observation=huge,
    )
    begun = time.process_time()
    page = episode_html(done)
    assert time.process_time() - begun < 1.5  # a tenth of it on a quiet machine
    assert len(page) < 120_000
    assert "more characters" in page


def test_many_steps_share_the_room():
    assert limit_of(0) == limit_of(10) == style.TEXT_LIMIT
    assert limit_of(50) == 2400
    assert limit_of(10_000) == 800


def test_payloads_of_single_steps_are_one_text_where_there_is_room_for_one(tmp_path):
    run = memory_answers.streamed(memory_answers.build("memharness"), tmp_path / "memharness")
    done = next(e for e in run.latest() if any(step.payload for step in e.trajectory.steps))
    text = payload_text(done)
    assert all(step.payload in text for step in done.trajectory.steps)
    assert text.startswith("(step")
    whole = episode(recall=Recall(payload="one for all"))
    assert payload_text(whole) == "one for all"
