"""The curator's prompt and payload: fitted to the context, to the task, and free of think blocks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.curation import Curator
from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, make_curator, make_judge
from jitmem_lab.memories import load_memory
from jitmem_lab.prompts import load_prompt, names
from jitmem_lab.records import Episode, RetrievedTrace, Step, Task, Trajectory, Verdict
from jitmem_lab.session import Session

from .doubles import RuleModel

pytestmark = pytest.mark.unit


def task(number: int = 0, description: str = "") -> Task:
    text = description or f"put mug {number} in the fridge"
    return Task(benchmark="b", split="s", task_id=f"t{number}", description=text)


def trace(number: int, text: str, description: str = "") -> RetrievedTrace:
    return RetrievedTrace(
        trace_id=number,
        rank=number,
        score=1.0,
        task_id=f"t{number}",
        description=description or f"cool pan {number}",
        text=text,
    )


class Roomy(RuleModel):
    """A model of 32k tokens that answers with a fixed text."""

    context = 32_768

    def __init__(self, answer: str = "Look in the fridge.") -> None:
        super().__init__("roomy", rule=lambda text, sampling: answer)


def words(text: str) -> int:
    """A token count that no share of characters foretells."""
    return len(re.findall(r"\w+|[^\w\s]|\n", text))


def long_trajectory(number: int, tokens: int, model: Any) -> Trajectory:
    step = Step(observation="You see a cabinet 1, a desk 2.", admissible=("look",), action="look", raw="look")
    one = model.count_tokens(f"[Step 9999]\nSaw: {step.observation}\nDid: look\n")
    steps = (step,) * (tokens // one + 1)
    return Trajectory(task=task(number), steps=steps, outcome="success", reward=1.0)


@pytest.mark.parametrize(
    "count", [words, lambda text: len(text) // 4 + 1, len], ids=["words", "quarters", "bytes"]
)
def test_three_traces_of_60k_tokens_are_cut_to_a_32k_curator_and_the_cut_is_recorded(count: Any) -> None:
    model = Roomy()
    model.count_tokens = count  # type: ignore[method-assign]
    memory = load_memory("jitmem", curator=Curator(model, max_tokens=4096), gate="environment")
    memory.open(None)
    memory.warm([long_trajectory(n, 60_000, model) for n in (1, 2, 3)], Session())
    session = Session()
    recall = memory.recall(task(), memory.snapshot(), session)
    (call,) = session.calls
    sent = sum(count(message.content) for message in call.messages)
    assert sent + 4096 <= model.context
    assert sent > 0.85 * (model.context - 4096), "the room there is gets used"
    assert [t.trace_id for t in recall.traces] == [3, 2, 1]
    lengths = [len(t.text) for t in recall.traces]
    assert max(lengths) < 1.05 * min(lengths), "traces of the same size are cut alike"
    for shown in recall.traces:
        marks = re.findall(r"\[\.\.\. (\d+) characters cut \.\.\.\]", shown.text)
        assert [int(mark) for mark in marks] == [shown.cut_chars]
        assert shown.text in call.messages[-1].content
        assert "[Step 1]" in shown.text
    episode = Episode(key="k", position=0, batch=0, task=task(), recall=recall, outcome="failure")
    again = Episode.from_line(episode.to_line())
    assert [t.cut_chars for t in again.recall.traces] == [t.cut_chars for t in recall.traces]
    memory.close()


def test_a_short_trace_stays_whole_beside_long_ones() -> None:
    model = Roomy()
    texts = ["x " * 200_000, "1. go to fridge 1\n2. open fridge 1", "y " * 200_000]
    messages, curated = Curator(model).messages(task(), [trace(n, t) for n, t in enumerate(texts, 1)])
    assert [t.cut_chars > 0 for t in curated.traces] == [True, False, True]
    assert texts[1] in messages[-1].content


def test_a_limit_for_traces_below_the_context_is_kept() -> None:
    model = Roomy()
    curator = Curator(model, max_trace_tokens=300)
    _, curated = curator.messages(task(), [trace(n, "z " * 5_000) for n in (1, 2, 3)])
    assert sum(model.count_tokens(t.text) for t in curated.traces) <= 300
    assert all(t.cut_chars > 9_000 for t in curated.traces)


def test_long_task_sentences_of_traces_do_not_overflow_the_context() -> None:
    model = Roomy()
    traces = [trace(n, "a " * 60_000, description="word " * 30_000) for n in (1, 2, 3)]
    messages, _ = Curator(model).messages(task(), traces)
    assert sum(model.count_tokens(m.content) for m in messages) + 1024 <= model.context


def test_cuts_add_up_when_a_trace_was_cut_before() -> None:
    cut = trace(1, "b " * 100_000).model_copy(update={"cut_chars": 7})
    _, curated = Curator(Roomy()).messages(task(), [cut])
    (now,) = re.findall(r"\[\.\.\. (\d+) characters cut \.\.\.\]", curated.traces[0].text)
    assert curated.traces[0].cut_chars == int(now) + 7


def test_a_payload_that_leaves_no_room_for_a_prompt_is_refused() -> None:
    with pytest.raises(UserError, match="lower curator_max_tokens"):
        Curator(RuleModel(), max_tokens=RuleModel.context)


@pytest.mark.parametrize(
    ("answer", "payload"),
    [
        ("<think>secret</think>\n\nOpen it first.", "Open it first."),
        ("secret</think>Open it first.", "Open it first."),
        ("Open it first.<think>secret", "Open it first."),
        ("<think>secret <think>secret</think> secret</think>Open it first.", "Open it first."),
        ("<think>secret", ""),
        ("", ""),
    ],
)
def test_think_blocks_never_enter_a_payload_but_stay_in_the_record_of_the_call(
    answer: str, payload: str
) -> None:
    session = Session()
    curated = Curator(Roomy(answer)).curate(task(), [trace(1, "1. look")], session)
    assert curated.payload == payload
    assert session.calls[0].text == answer


def test_think_blocks_of_the_executor_are_neither_stored_nor_shown_to_the_next_curator() -> None:
    model = Roomy()
    memory = load_memory("jitmem", curator=Curator(model), gate="environment")
    memory.open(None)
    steps = tuple(
        Step(
            observation="A desk.",
            admissible=("look",),
            raw=f"<think>secret {n}</think><action>look</action>",
            action="look",
        )
        for n in range(3)
    )
    done = Trajectory(task=task(1), steps=steps, outcome="success", reward=1.0)
    episode = Episode(
        key="k",
        position=0,
        batch=0,
        task=task(1),
        trajectory=done,
        outcome="success",
        verdict=Verdict(success=True, source="environment"),
    )
    memory.remember(episode, Session())
    stored = memory.bank.get(1).trajectory
    assert [s.raw for s in stored.steps] == ["<action>look</action>"] * 3
    memory.recall(task(2), memory.snapshot(), Session())
    assert "A desk." in model.prompts[-1]
    assert "secret" not in model.prompts[-1]
    memory.close()


@pytest.mark.parametrize("form", ["advice", "plan"])
def test_only_a_task_conditioned_curator_is_told_the_task(form: str) -> None:
    sentence = "heat the very last egg"
    for conditioned in (True, False):
        curator = Curator(Roomy(), form=form, task_conditioned=conditioned)
        messages, _ = curator.messages(task(0, sentence), [trace(1, "1. look")])
        prompt = "\n".join(m.content for m in messages)
        assert (sentence in prompt) is conditioned
        assert "cool pan 1" in prompt
        payload = curator.curate(task(0, sentence), [trace(1, "1. look")], Session()).payload
        assert not (sentence in payload and not conditioned)
    assert "{" not in prompt


def test_a_plan_is_continued_from_its_first_number_and_the_payload_repeats_how_it_began() -> None:
    model = Roomy("go to fridge 1\n2. open fridge 1")
    curator = Curator(model, form="plan", temperature=0.0)
    curated = curator.curate(task(0, "heat\n\nan egg"), [trace(1, "1. look")], Session())
    assert model.prompts[0].endswith("Task: heat an egg\nSteps to do it:\n1.")
    assert curated.payload == "Task: heat an egg\nSteps to do it:\n1. go to fridge 1\n2. open fridge 1"
    assert curator.sampling.stop == ("\n\n",)


@pytest.mark.parametrize(
    ("holds", "plan", "advice"),
    [
        ("steps", "Steps to do it:", "What happened:"),
        ("attempt", "What was done:", "What happened:"),
        ("lessons", "Lessons:", "Lessons:"),
    ],
)
def test_a_trace_stands_under_what_it_is(holds: str, plan: str, advice: str) -> None:
    shown = trace(1, "1. look").model_copy(update={"holds": holds})
    for form, head in (("plan", plan), ("advice", advice)):
        messages, _ = Curator(Roomy(), form=form).messages(task(), [shown])
        assert f"Task: cool pan 1\n{head}\n1. look" in messages[-1].content


@pytest.mark.parametrize("form", ["advice", "plan"])
def test_without_traces_the_prompt_says_so(form: str) -> None:
    messages, curated = Curator(Roomy(), form=form).messages(task(), [])
    assert "(none)" in messages[-1].content
    assert curated.traces == ()


def test_seeds_follow_the_episode_and_are_recorded() -> None:
    curator, greedy = Curator(Roomy()), Curator(Roomy(), temperature=0.0)
    sessions = [Session(0, "a"), Session(0, "a"), Session(0, "b"), Session(1, "a")]
    for session in sessions:
        curator.curate(task(), [], session)
    seeds = [session.calls[0].sampling.seed for session in sessions]
    assert seeds[0] == seeds[1] == sessions[0].seeds["curator"]
    assert len(set(seeds)) == 3
    session = Session()
    greedy.curate(task(), [], session)
    assert session.calls[0].sampling.seed is None
    assert session.seeds == {}


def test_text_with_braces_is_put_in_as_it_is() -> None:
    messages, _ = Curator(Roomy()).messages(task(0, "sort {task} and {traces}"), [trace(1, "{task} {nope}")])
    assert "New task: sort {task} and {traces}" in messages[-1].content
    assert "{task} {nope}" in messages[-1].content


# Prompts


def test_an_own_prompt_is_taken_by_path(tmp_path: Path) -> None:
    own = tmp_path / "mine.txt"
    own.write_text("[[system]]\nBe brief.\n[[user]]\n{task}?\n\n{traces}\n", encoding="utf-8")
    curator = Curator(Roomy(), prompt=str(own))
    messages, _ = curator.messages(task(), [trace(1, "1. look")])
    assert [m.role for m in messages] == ["system", "user"]
    assert messages[0].content == "Be brief."
    assert messages[1].content.startswith("put mug 0 in the fridge?\n\nRecord 1")
    before = curator.settings()["prompt_hash"]
    own.write_text("[[user]]\n{task}\n{traces}\n", encoding="utf-8")
    assert Curator(Roomy(), prompt=str(own)).settings()["prompt_hash"] != before


@pytest.mark.parametrize(
    "text",
    ["\ufeff[[user]]\n{task}\n", "[[user]]  \n{task}", "\n\n[[user]]\n{task}\n", "[[user]]\r\n{task}\r\n"],
)
def test_editors_marks_around_a_prompt_do_no_harm(tmp_path: Path, text: str) -> None:
    own = tmp_path / "mine.txt"
    own.write_bytes(text.encode())
    messages, _ = Curator(Roomy(), prompt=str(own)).messages(task(), [])
    assert [(m.role, m.content) for m in messages] == [("user", "put mug 0 in the fridge")]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"[[user]]\n{task} {history}\n", r"uses \{history\}.*\{task\}, \{traces\}"),
        (b"just text", "no .*section"),
        (b"", "no .*section"),
        (b"[[sytem]]\nBe brief.\n[[user]]\n{task}", "in no section"),
        (b"[[user]]\n\xff\xfe", "no UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_broken_own_prompt_is_refused_before_anything_is_asked(
    tmp_path: Path, content: bytes | None, says: str
) -> None:
    own = tmp_path / "mine.txt"
    if content is not None:
        own.write_bytes(content)
    with pytest.raises(UserError, match=says):
        Curator(Roomy(), prompt=str(own))


@pytest.mark.parametrize(
    ("name", "says"),
    [("curatr", "did you mean curator"), ("zzz", "shipped are"), ("", "shipped are"), ("../x", "shipped")],
)
def test_an_unknown_prompt_is_refused(name: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        load_prompt(name)


def test_every_shipped_prompt_has_messages() -> None:
    general = {"task", "trace", "traces", "result", "records"}
    acting = {"advice", "turns", "history", "observation", "admissible", "steps", "rules", "tools"}
    systems = {"workflow", "skills", "plans", "memories", "judgement", "full", "events"}
    assert len(names()) >= 8
    for name in names():
        prompt = load_prompt(name)
        used = set(re.findall(r"\{([a-z_]+)\}", prompt.text))
        assert used <= general | acting | systems, f"{name} uses a field that nobody gives"
        assert prompt.messages(**dict.fromkeys(used, ""))


@pytest.mark.parametrize(
    ("parameters", "curator", "judge"),
    [
        ({"benchmark": "alfworld"}, "curator", "judge"),
        ({"benchmark": "webshop"}, "webshop_curator", "judge"),
        ({"benchmark": "tau2"}, "tau2_curator", "tau2_judge"),
        ({"benchmark": "tau2", "judge_form": "choose"}, "tau2_curator", "judge_choose"),
        ({"benchmark": "webshop", "curator_form": "plan"}, "curator_plan", "judge"),
        ({"benchmark": "webshop", "task_conditioned": False}, "curator_general", "judge"),
        ({"benchmark": "webshop", "curator_prompt": "curator"}, "curator", "judge"),
    ],
)
def test_a_benchmark_has_its_own_prompts_where_they_ship(
    parameters: dict[str, Any], curator: str, judge: str
) -> None:
    config = EvalConfig.make(**({"preset": "paper", "model": "replay:x"} | parameters))
    assert make_curator(config, Roomy()).prompt.name == curator
    assert make_judge(config, Roomy()).prompt.name == judge


def test_an_unknown_form_is_refused() -> None:
    with pytest.raises(UserError, match="advice, plan"):
        Curator(Roomy(), form="plans")  # type: ignore[arg-type]
