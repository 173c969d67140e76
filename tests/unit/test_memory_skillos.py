"""Skills kept by a curator: its calls, what is refused, what is found and shown, history."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.memories import load_memory
from jitmem_lab.memories.skills import markdown
from jitmem_lab.models.base import Reply
from jitmem_lab.records import Message, Recall, Sampling, ToolCall, Usage
from jitmem_lab.session import Session
from jitmem_lab.tool_calls import format_call

from .doubles import RuleModel, demonstration
from .writing import (
    MALFORMED,
    TASKS,
    does_not_hang_on_concurrency,
    dump,
    episode,
    keeps_its_promises,
    notes,
    opened,
    sees_one_snapshot,
    stored,
)

pytestmark = pytest.mark.unit


def skill(
    name: str = "Panels", about: str = "Press the right button.", body: str = "# Workflow\n1. Look."
) -> str:
    return f"---\nname: {name}\ndescription: {about}\n---\n{body}"


def call(verb: str, **arguments: Any) -> str:
    return format_call(ToolCall(name=verb, arguments=arguments))


def insert(name: str, content: str | None = None) -> str:
    return call("insert", skill_name=name, content=content or skill(name))


def told(answer: str, folder: Path | None = None, **options: Any) -> tuple[Any, dict[str, Any]]:
    """A memory after one episode that was answered so, and what that write left."""
    memory = opened("skillos", lambda text: answer, folder, **options)
    change = memory.remember(episode(0), Session())
    return memory, change["note"]


def names(memory: Any) -> list[str]:
    return [data["name"] for data in stored(memory)]


# The protocol


def test_a_curator_inserts_updates_and_deletes_and_all_of_it_can_be_seen_and_undone() -> None:
    answers = iter(
        [
            "It looked first.\n" + insert("Look first") + "\n" + insert("Press"),
            call("update", skill_name="Press", new_name="Press gently", new_content=skill("P", "Softly.")),
            call("delete", skill_name="Look first"),
            "The library is right as it is.",
        ]
    )
    memory = opened("skillos", lambda text: next(answers))
    for number, won in enumerate((True, False, True, True)):
        memory.remember(episode(number, won=won), Session())
    assert names(memory) == ["Press gently"]
    assert stored(memory)[0] == {
        "name": "Press gently",
        "description": "Softly.",
        "body": "# Workflow\n1. Look.",
        "task_ids": ["b0", "b1"],
    }
    past = [(p.key, p.op, (p.before or p.after)["name"]) for p in memory.store.history()]
    assert past == [
        ("key0.0", "insert", "Look first"),
        ("key0.0", "insert", "Press"),
        ("key1.0", "update", "Press"),
        ("key2.0", "delete", "Look first"),
    ]
    assert [note["valid"] for note in notes(memory).values()] == [1.0, 1.0, 1.0, None]
    first, second, third, last = memory.model.prompts
    assert "(none yet)" in first
    assert "Result: success" in first
    assert TASKS[0].description in first
    assert "Did: press red" in first
    assert "Result: failure" in second
    assert skill("Press") in second
    assert "name: Press gently" in third
    assert "Look first" not in last
    memory.store.undo(3)
    assert names(memory) == ["Look first", "Press gently"]
    memory.store.undo(2)
    assert names(memory) == ["Look first", "Press"]


def test_each_call_sees_those_before_it() -> None:
    answer = "\n".join(
        [
            insert("A"),
            insert("A"),
            call("update", skill_name="A", new_name="B"),
            call("delete", skill_name="A"),
            insert("A", skill("A", "Another one.")),
            call("delete", skill_name="B"),
        ]
    )
    memory, note = told(answer)
    assert [data["description"] for data in stored(memory)] == ["Another one."]
    assert [record.get("refused", "") for record in note["calls"]] == [
        "",
        "there is a skill of this name already",
        "",
        "there is no skill of this name",
        "",
        "",
    ]
    assert note["valid"] == 0.6667
    assert [past.op for past in memory.store.history()] == ["insert"], "what came and went leaves no item"


def test_a_neighbour_in_the_batch_sees_what_was_just_inserted() -> None:
    memory = opened("skillos", lambda text: insert("Panels"))
    recall = memory.recall(TASKS[1], memory.snapshot(), Session())
    for number in (0, 1):
        memory.remember(episode(number).model_copy(update={"recall": recall}), Session())
    assert "name: Panels" in memory.model.prompts[1]
    assert names(memory) == ["Panels"]


@pytest.mark.parametrize(
    "written",
    [
        insert("Panels"),
        f'insert(skill_name="Panels", content="""{skill()}\n""")',
        json.dumps([{"name": "insert", "arguments": {"skill_name": "Panels", "content": skill()}}]),
        f'new_skill_insert(skill_name="Panels", content="""{skill()}""")',
        call("insert_skill", skill_name=" Panels\n", content=skill("another name")),
        insert("Panels", skill().replace("\n", "\r\n")),
        insert("Panels", f"\n\n{skill(about=chr(34) + 'Press the right button.' + chr(34))}\n"),
        insert("Panels", skill(about=">\n  Press the\n  right button.")),
    ],
)
def test_one_skill_however_it_is_written(written: str) -> None:
    memory, note = told(f"<think>{insert('Thought only')}</think>I see.\n\n{written}")
    assert [markdown(data) for data in stored(memory)] == [skill()]
    assert note["valid"] == 1.0


# What is refused

GOOD = insert("Good")


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (insert("There"), "of this name already"),
        (call("update", skill_name="Gone", new_content=skill()), "no skill of this name"),
        (call("delete", skill_name="Gone"), "no skill of this name"),
        (call("update", skill_name="There"), "neither a new name nor new content"),
        (call("update", skill_name="There", new_name="", new_content=None), "neither a new name nor"),
        (call("update", skill_name="There", new_name="Other"), "another skill of the new name"),
        (call("update", skill_name="There", new_content="no front matter"), "front matter"),
        (call("insert", skill_name="New"), "front matter"),
        (call("insert", content=skill()), "1 to 120 characters"),
        (call("insert", skill_name="N" * 121, content=skill()), "1 to 120 characters"),
        (call("insert", skill_name=["New"], content=skill()), "as text"),
        (call("insert", skill_name="New", content=skill(), tags="a"), "insert takes skill_name, content"),
        (call("delete", skill_name="There", content="x"), "delete takes skill_name"),
        ('insert("New", "text")', "can't be read"),
        ('insert(skill_name="New", content="press the "red" one")', "can't be read"),
        (json.dumps({"name": "rename", "arguments": {}}), "no call rename"),
        (insert("New", "# Workflow\n1. Look."), "does not begin with a front matter"),
        (insert("New", "---\nname: New\ndescription: d"), "does not begin with a front matter"),
        (insert("New", f"Here it is:\n{skill()}"), "does not begin with a front matter"),
        (insert("New", skill() + "\n\n" + skill("Two")), "second front matter"),
        (insert("New", skill(body=skill("Two"))), "second front matter"),
        (insert("New", "---\nname: New\n---\nbody"), "name and description, and no others"),
        (insert("New", skill(about="d\ntags: [x]")), "name and description, and no others"),
        (insert("New", skill(about="d\nname: New")), "each field once"),
        (insert("New", skill(about="d\njust words")), "each line is"),
        (insert("New", skill(about="")), "must not be empty"),
        (insert("New", skill(body="  \n")), "must not be empty"),
        (insert("New", skill(body="x" * 50_000)), "too long; 8000"),
    ],
)
def test_a_bad_call_is_refused_and_the_others_count(bad: str, why: str) -> None:
    memory = opened("skillos", lambda text: "")
    memory.model.rule = lambda text, sampling: f"{insert('There')}\n{insert('Other')}"
    memory.remember(episode(0), Session())
    memory.model.rule = lambda text, sampling: f"{insert('Before')}\n{bad}\n{GOOD}"
    note = memory.remember(episode(1), Session())["note"]
    assert names(memory) == ["There", "Other", "Before", "Good"]
    assert why in note["calls"][1]["refused"]
    assert len(note["calls"][1]["call"]) <= 200
    assert note["valid"] == 0.6667


@pytest.mark.parametrize("answer", MALFORMED)
def test_an_answer_without_calls_changes_nothing_and_is_a_write(answer: str) -> None:
    memory, note = told(answer)
    assert stored(memory) == []
    assert note == {"calls": [], "valid": None}
    assert memory.snapshot() == 1
    assert memory.recall(TASKS[1], 1, Session()).payload == ""


def test_an_answer_that_ends_in_the_middle_keeps_what_was_whole() -> None:
    for torn in (insert("Torn")[:-20], json.dumps({"name": "insert", "arguments": {"content": "x"}})[:-8]):
        memory, note = told(f"{insert('Whole')}\n{torn}")
        assert names(memory) == ["Whole"]
        assert note["valid"] == 0.5


def test_odd_characters_are_stored_and_shown_as_they_are(tmp_path: Path) -> None:
    content = skill("x", "with \x00 and 土豆.", "odd \ud83d \u2028 <think>no</think> {task}")
    for answer in (
        insert("Odd \ud83d", content),
        f'insert(skill_name="Odd \ud83d", content="""{content}""")',
    ):
        folder = tmp_path / str(len(answer))
        folder.mkdir()
        memory, note = told(answer.replace("<think>no</think> ", ""), folder)
        assert note["valid"] == 1.0
        memory.close()
        memory.open(folder)
        recall = memory.recall(TASKS[1], 1, Session())
        assert recall.payload == content.replace("name: x", "name: Odd \ud83d").replace(
            "<think>no</think> ", ""
        )
        assert Recall.from_line(recall.to_line()) == recall
        memory.remember(episode(2), Session())
        memory.close()


# What is found and shown


def test_the_most_relevant_skills_by_name_and_description() -> None:
    kinds = ["panel", "kettle", "lamp", "door", "room", "button", "egg"]
    answer = "\n".join(insert(kind, skill(kind, f"About the {kind}.", "panel button room")) for kind in kinds)
    for options, k in (({}, 5), ({"variant": "port"}, 3), ({"variant": "port", "k": 2}, 2)):
        memory, _ = told(answer, **options)
        recall = memory.recall(TASKS[1], 1, Session())
        assert [trace.rank for trace in recall.traces] == list(range(1, k + 1))
        assert {trace.description for trace in recall.traces[:3]} <= {"panel", "room", "button"}
        assert recall.payload == "\n\n".join(trace.text for trace in recall.traces)
        assert recall.payload.startswith("---\nname: ")
        assert (recall.query, recall.bank_size) == (TASKS[1].description, len(kinds))


def test_nothing_of_the_own_task_is_shown_whoever_inserted_it() -> None:
    answers = iter(
        [insert("A"), call("update", skill_name="A", new_content=skill("A", "Edited.")) + insert("B")]
    )
    memory = opened("skillos", lambda text: next(answers))
    memory.remember(episode(0), Session())
    memory.remember(episode(1), Session())
    excluded = [memory.recall(TASKS[number], 2, Session()).self_excluded for number in (0, 1, 2)]
    assert excluded == [1, 2, 0]
    assert "Edited." not in memory.recall(TASKS[1], 2, Session()).payload
    allowed = opened("skillos", lambda text: insert("A"), exclude_own=False)
    allowed.remember(episode(0), Session())
    assert allowed.recall(TASKS[0], 1, Session()).payload


def test_long_skills_and_a_long_episode_fit_the_curators_context() -> None:
    memory = opened(
        "skillos", lambda text: "\n".join(insert(f"S{n}", skill(body="y" * 7_000)) for n in range(5))
    )
    memory.model.context = 4096
    memory = load_memory("skillos", model=memory.model)
    memory.open(None)
    memory.remember(episode(0), Session())
    memory.remember(episode(1, steps=3_000), Session())
    assert len(stored(memory)) == 5
    prompt = memory.model.prompts[1]
    assert memory.sampling.max_tokens == 2048
    assert memory.model.count_tokens(prompt) + memory.sampling.max_tokens <= 4096
    assert "characters cut" in prompt
    assert "A panel, look 0." in prompt


def test_a_warm_start_curates_each_demonstration_once() -> None:
    memory = opened("skillos", lambda text: insert(hashlib.sha256(text.encode()).hexdigest()[:6]))
    demonstrations = [demonstration(task) for task in TASKS[:3]]
    for _ in range(2):
        memory.warm(demonstrations, Session())
    assert len(names(memory)) == memory.snapshot() == len(memory.model.prompts) == 3


# Real tool calls


class ToolModel(RuleModel):
    """Answers with the tool calls that it was made with."""

    def __init__(self, calls: Sequence[ToolCall] = (), text: str = "") -> None:
        super().__init__("tools")
        self.context = 32_768
        self.reply = Reply(text, Usage(calls=1), "tool_calls", tuple(calls))
        self.offered: list[Any] = []

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Any] = ()
    ) -> Reply:
        self.offered.append(tools)
        return self.reply


def test_real_tool_calls() -> None:
    calls = [
        ToolCall(name="insert", arguments={"skill_name": "A", "content": skill("A")}),
        ToolCall(name="insert", arguments={"": '{"skill_name": "torn'}),
        ToolCall(name="lookup", arguments={}),
        ToolCall(name="", arguments={}),
        ToolCall(name="skill_update", arguments={"skill_name": "A", "new_name": "B", "new_content": None}),
    ]
    model = ToolModel(calls, text=insert("Written beside"))
    memory = load_memory("skillos", model=model, calls="tools")
    memory.open(None)
    session = Session()
    note = memory.remember(episode(0), session)["note"]
    assert names(memory) == ["B"]
    assert note["valid"] == 0.4
    assert [tool["function"]["name"] for tool in model.offered[0]] == ["insert", "update", "delete"]
    assert [tool["function"]["parameters"]["required"] for tool in model.offered[0]] == [
        ["skill_name", "content"],
        ["skill_name"],
        ["skill_name"],
    ]
    assert (session.calls[0].role, session.calls[0].tools) == ("distiller", ("insert", "update", "delete"))


def test_a_model_that_is_offered_tools_may_write_its_calls() -> None:
    memory = load_memory("skillos", model=ToolModel(text=insert("A")), calls="tools")
    memory.open(None)
    memory.remember(episode(0), Session())
    assert names(memory) == ["A"]


def test_tools_need_a_model_that_calls_them() -> None:
    bare = RuleModel()
    bare.takes_tools = False
    for options in ({"model": bare}, {"model": RuleModel(), "form": "continue"}):
        with pytest.raises(UserError, match="calls='text'"):
            load_memory("skillos", calls="tools", **options)


# Small models

WRITTEN = (
    " Press a button\ndescription: When a panel has buttons.\n---\n1. look at the panel\n2. press the one"
)


def test_a_small_model_goes_on_with_one_skill_after_a_success() -> None:
    memory = opened("skillos", lambda text: WRITTEN, variant="small")
    assert memory.remember(episode(0, won=False), Session())["note"]["why"]
    assert memory.model.prompts == []
    memory.remember(episode(1), Session())
    assert memory.model.prompts[0].endswith(
        "1. press red\n2. press red\nThe skill that this teaches:\n---\nname:"
    )
    assert [markdown(data) for data in stored(memory)] == [f"---\nname:{WRITTEN}"]
    again = memory.remember(episode(2), Session())["note"]
    assert again == {
        "calls": [{"call": "insert", "refused": "there is a skill of this name already"}],
        "valid": 0.0,
    }


@pytest.mark.parametrize(
    "answer",
    [
        *MALFORMED,
        " lend a thing\ndescription: When something is to be lent to someone.\n---\n1. walk to the desk",
        " Press\n1. press",
        " Press\ndescription: Press.\n---\n",
    ],
)
def test_a_small_model_that_writes_no_skill_or_repeats_the_example(answer: str) -> None:
    memory = opened("skillos", lambda text: answer, variant="small")
    note = memory.remember(episode(0), Session())["note"]
    assert stored(memory) == []
    assert note["calls"][0]["refused"]


def test_wrong_parameters() -> None:
    with pytest.raises(UserError, match="'text' or 'tools'"):
        load_memory("skillos", model=RuleModel(), calls="xml")
    with pytest.raises(UserError, match="needs a model"):
        load_memory("skillos")


def test_the_published_defaults_and_the_ports() -> None:
    settings = load_memory("skillos", model=ToolModel()).settings()
    assert (settings["k"], settings["gate"], settings["calls"]) == (5, "judge", "text")
    assert (settings["sampling"]["temperature"], settings["sampling"]["max_tokens"]) == (1.0, 4096)
    port = load_memory("skillos", model=ToolModel(), variant="port").settings()
    assert (port["k"], port["gate"], port["sampling"]["temperature"]) == (3, "judge", 0.7)
    assert port["sampling"]["max_tokens"] == 4096
    small = load_memory("skillos", model=ToolModel(), variant="small").settings()
    assert (small["k"], small["trace_format"], list(small["prompts"])) == (
        3,
        "actions",
        ["skillos_text_continue"],
    )
    other = load_memory("skillos", model=ToolModel(), calls="tools").settings()
    assert settings["prompts"].keys() != other["prompts"].keys()


# What every system keeps


def curate(text: str) -> str:
    """Calls that follow from the prompt: mostly an insert, an update or deletion of a skill that it shows."""
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
    shown = re.findall(r"^---\nname: (\w+)\n", text.rpartition("Skills that bear")[2], re.M)
    room = re.findall(r"panel \d", text)[-1]
    answer = insert(f"s{digest[:6]}", skill("s", f"press the right button of {room}"))
    if shown and digest[6] in "0123":
        answer += "\n" + call("delete", skill_name=shown[0])
    if shown and digest[6] in "4567":
        answer += "\n" + call("update", skill_name=shown[-1], new_content=skill("s", f"{room} {digest[:4]}"))
    return answer + ("\n" + call("delete", skill_name="never there") if digest[7] in "01234" else "")


def test_promises(tmp_path: Path) -> None:
    keeps_its_promises("skillos", curate, tmp_path)


def test_snapshots() -> None:
    sees_one_snapshot("skillos", curate)


def test_concurrency(tmp_path: Path) -> None:
    run = does_not_hang_on_concurrency("skillos", curate, tmp_path, trials=2)
    ops = [line for line in dump(run.path) if "'delete'" in line or "'update'" in line]
    assert len(ops) > 5, "the world must edit, or this shows nothing"
    for shown in run.latest():
        own = [trace for trace in shown.recall.traces if trace.task_id == shown.task.task_id]
        assert own == []
    assert any(shown.recall.self_excluded for shown in run.latest())
