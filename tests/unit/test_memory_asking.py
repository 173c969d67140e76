"""MemHarness step by step: the agent asks its memory, weighs what comes and rebuilds it."""

from __future__ import annotations

from typing import Any

import pytest

from jitmem_lab.benchmarks.base import Observation
from jitmem_lab.errors import InfrastructureError
from jitmem_lab.records import Step
from jitmem_lab.session import Session

from .stepwise import NOW, Script, asking, learned, opened, shown, walked
from .writing import MALFORMED, TASKS, episode

pytestmark = pytest.mark.unit

# Step by step


def test_the_agent_asks_weighs_and_rebuilds() -> None:
    script = Script(
        query="I am stuck. <query>which button\nto press</query>", learn=learned("Read the labels.")
    )
    memory = opened(script)
    memory.remember(episode(0, won=False), Session())
    session = Session(0, "key")
    session.phase = "act"
    companion = asking(memory)
    assert companion.advise(walked(3), NOW, session) == "Press gently."
    (query,), (rebuild,) = script.of("query"), script.of("rebuild")
    for prompt in (query, rebuild):
        assert TASKS[20].description in prompt
        assert "You saw: Look 1.\nYou did: act 1\nYou saw: Look 2.\nYou did: act 2" in prompt
        assert "Look 0." not in prompt, "two turns of history"
        assert "What you see now:\nA panel." in prompt
    assert "Memory 1, from an episode that failed\nSituation: At a panel.\nRead the labels." in rebuild
    made = [(call.role, call.phase) for call in session.calls]
    assert made == [("curator", "act"), ("embedder", "act"), ("curator", "act")]
    assert session.calls[1].messages[0].content == "which button to press"
    assert companion.notes() == {"steps": [{"step": 3, "query": "which button to press", "shown": [1]}]}


@pytest.mark.parametrize(
    ("answer", "query"),
    [
        ("<query>a</query><query>b</query>", "a"),
        ("<QUERY> a </QUERY>", "a"),
        ("<query>a, and then it was cut", "a, and then it was cut"),
        ("<query>" + "word " * 9000 + "</query>", ("word " * 240).strip()),
        ("<query>\x00 \ud83d</query>", "\x00 \ud83d"),
        ("NO", ""),
        ("I know what to do: press red.", ""),
        ("<query></query>", ""),
        ("<query>  \n </query>", ""),
        ("query: a", ""),
        ("<think><query>a</query></think>", ""),
        ("<think>hm</think><query>a</query>", "a"),
        *[(answer, "") for answer in MALFORMED],
    ],
)
def test_no_query_no_memory_at_this_step(answer: str, query: str) -> None:
    script = Script(query=answer)
    memory = opened(script)
    memory.remember(episode(0), Session())
    companion = asking(memory)
    assert companion.advise([], NOW, Session()) == ("Press gently." if query else "")
    assert companion.notes()["steps"] == [{"step": 0, "query": query, "shown": [1] if query else []}]
    assert len(script.of("rebuild")) == bool(query)


@pytest.mark.parametrize(
    ("answer", "payload"),
    [
        ("Press red, then stop.", "Press red, then stop."),
        ("<think>It fits.</think>\nPress red.", "Press red."),
        ("None of the blue ones.", "None of the blue ones."),
        ("NONE", ""),
        (" none. ", ""),
        ("**NONE**", ""),
        ("<NONE>", ""),
        ("NONE: the memories speak of\nother rooms.", ""),
        ("", ""),
        ("<think>I never stop", ""),
    ],
)
def test_memories_can_be_rejected(answer: str, payload: str) -> None:
    memory = opened(Script(rebuild=answer))
    memory.remember(episode(0), Session())
    companion = asking(memory)
    assert companion.advise([], NOW, Session()) == payload
    assert companion.notes()["steps"][0]["shown"] == [1], "shown and rejected is shown"


def test_an_empty_memory_is_not_asked() -> None:
    script = Script()
    memory = opened(script)
    companion = asking(memory)
    assert [companion.advise(walked(n), NOW, Session()) for n in range(3)] == [""] * 3
    memory.remember(episode(0), Session())
    own = asking(memory, TASKS[0])
    assert own.advise([], NOW, Session()) == "", "nothing but what the own task wrote"
    assert (script.of("query"), own.notes(), companion.notes()) == ([], {"steps": []}, {"steps": []})
    assert memory.recall(TASKS[0], 1, Session()).self_excluded == 1
    memory.exclude_own = False
    assert asking(memory, TASKS[0]).advise([], NOW, Session()) == "Press gently."


@pytest.mark.parametrize(("every", "asked"), [(1, [0, 1, 2, 3, 7]), (2, [0, 2, 7]), (4, [0, 7]), (99, [0])])
def test_memory_is_asked_every_so_many_turns_and_stands_until_then(every: int, asked: list[int]) -> None:
    said = iter(range(99))
    memory = opened(Script(rebuild=lambda _: f"Do {next(said)}."), every=every)
    memory.remember(episode(0), Session())
    companion = asking(memory)
    given = [companion.advise(walked(n), NOW, Session()) for n in (0, 1, 2, 3, 7)]
    assert [step["step"] for step in companion.notes()["steps"]] == asked
    turns = (0, 1, 2, 3, 7)
    assert given == [f"Do {sum(at <= turn for at in asked) - 1}." for turn in turns]


def test_the_three_nearest_without_near_duplicates() -> None:
    texts = iter(
        ["press the red one now", "press the red one today", "open a door", "count to ten", "sing aloud"]
    )
    script = Script(query="<query>press the red one</query>", learn=lambda _: learned(next(texts)))
    memory = opened(script, duplicate=0.99)
    for number in range(5):
        memory.remember(episode(number), Session())
    memory.duplicate = None
    first = asking(memory)
    first.advise([], NOW, Session())
    assert first.notes()["steps"][0]["shown"][:2] == [2, 1]
    memory.duplicate = 0.75
    second = asking(memory)
    second.advise([], NOW, Session())
    found = second.notes()["steps"][0]["shown"]
    assert found[0] == 2
    assert len(found) == 3
    assert 1 not in found


def test_prompts_fit_the_context_whatever_is_in_them() -> None:
    script = Script(learn=learned("x " * 5000))
    memory = opened(script, step_tokens=100)
    for number in range(3):
        memory.remember(episode(number), Session())
    memory.model.context = 1500
    long = TASKS[20].model_copy(update={"description": "task " * 5000})
    past = [Step(observation="seen " * 5000, admissible=(), action="x")] * 3
    session = Session()
    asking(memory, long).advise(past, Observation("now " * 9000, ()), session)
    calls = [call for call in session.calls if call.role == "curator"]
    assert len(calls) == 2
    for call in calls:
        size = sum(memory.model.count_tokens(message.content) for message in call.messages)
        assert size + 100 <= 1500
        assert call.sampling is not None
        assert call.sampling.max_tokens == 100


def test_seeds_differ_by_step_and_are_the_same_again() -> None:
    memory = opened()
    memory.remember(episode(0), Session())
    seeds = []
    for _ in range(2):
        session = Session(3, "key")
        companion = asking(memory)
        for n in range(3):
            companion.advise(walked(n), NOW, session)
        seeds.append([c.sampling.seed for c in session.calls if c.role == "curator" and c.sampling])
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 6


def test_an_earlier_snapshot_gives_what_it_gave_then() -> None:
    texts = (f"advice number{n} press" for n in range(99))
    memory = opened(Script(learn=lambda _: learned(next(texts))), duplicate=None)
    seen: dict[int, Any] = {}
    for number in range(30):
        memory.remember(shown(number, 1), Session())
        if number + 1 in (1, 3, 30):
            companion = asking(memory, TASKS[35])
            companion.advise([], NOW, Session())
            seen[number + 1] = companion.notes()
    for at, notes in seen.items():
        again = asking(memory, TASKS[35], at)
        again.advise([], NOW, Session())
        assert again.notes() == notes
        assert [one.born for one in again.items] == list(range(1, at + 1))
    assert seen[30] != seen[3]


def test_a_server_that_fails_is_no_empty_memory() -> None:
    def down(_: str) -> str:
        raise InfrastructureError("timeout")

    for failing in ("query", "rebuild"):
        memory = opened(Script(**{failing: down}))
        memory.remember(episode(0), Session())
        with pytest.raises(InfrastructureError):
            asking(memory).advise([], NOW, Session())


def test_small_models_continue_a_text_instead() -> None:
    script = Script(query=" press it.\nand more", rebuild=" press blue\n4. stop")
    memory = opened(script, variant="small", trace_format="actions", temperature=0.0)
    memory.remember(episode(0), Session())
    session = Session()
    task = TASKS[20].model_copy(update={"description": "press\n\nit"})
    odd = [*walked(1), Step(observation="x", admissible=(), action="say\n\nthis")]
    payload = asking(memory, task).advise(odd, NOW, session)
    assert payload == "Task: press it\nSteps to do it:\n1. act 0\n2. say this\n3. press blue\n4. stop"
    (query,), (rebuild,) = script.of("query"), script.of("rebuild")
    assert rebuild.startswith(
        f"Task: {TASKS[0].description}\nSteps to do it:\n1. press red\n2. press red\n\n"
    )
    assert query.rstrip().endswith("how to")
    stops = [call.sampling.stop for call in session.calls if call.role == "curator" and call.sampling]
    assert stops == [("\n",), ("\n\n",)]
    empty = opened(Script(rebuild="  "), variant="small")
    empty.remember(episode(0), Session())
    assert asking(empty).advise([], NOW, Session()) == ""
