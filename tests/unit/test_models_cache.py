"""The cache of answers and the replay of a run."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.models import load_model
from jitmem_lab.models.base import ChatModel, Choice, Reply
from jitmem_lab.models.cache import ask_key, cached
from jitmem_lab.models.replay import ReplayModel
from jitmem_lab.records import (
    Call,
    Episode,
    Message,
    Sampling,
    Task,
    Tool,
    ToolCall,
    Usage,
    content_hash,
    to_json,
)

pytestmark = pytest.mark.unit

ASK = [Message(role="user", content="hello \ud83d\x00")]
BOOK: Tool = {"type": "function", "function": {"name": "book", "parameters": {"type": "object"}}}
CALLED = Message(role="assistant", content="", tool_calls=(ToolCall(name="book", id="c1"),))


class Counting:
    """Numbers its answers."""

    name = "counting"
    context = 100
    takes_tools = True

    def __init__(self, version: int = 1, delay: float = 0.0) -> None:
        self.version, self.delay, self.calls, self.closed = version, delay, 0, False
        self.fail = False

    def _count(self) -> Usage:
        time.sleep(self.delay)
        self.calls += 1
        if self.fail:
            raise InfrastructureError("down")
        return Usage(calls=1, prompt_tokens=11, completion_tokens=2, seconds=0.5)

    def chat(
        self, messages: Sequence[Message], sampling: Sampling, sample: int = 0, tools: Sequence[Tool] = ()
    ) -> Reply:
        usage = self._count()
        called = tuple(ToolCall(name=tool["function"]["name"], arguments={"n": self.calls}) for tool in tools)
        return Reply(f"answer {self.calls} \ud83d", usage, "tool_calls" if tools else "length", called)

    def choose(self, messages: Sequence[Message], options: Sequence[str]) -> Choice:
        usage = self._count()
        return Choice(len(options) - 1, tuple(-float(n) for n in range(len(options), 0, -1)), usage)

    def count_tokens(self, text: str) -> int:
        return len(text)

    def identity(self) -> dict[str, Any]:
        return {"version": self.version}

    def close(self) -> None:
        self.closed = True


def test_a_repeated_question_is_answered_without_the_model(tmp_path: Path) -> None:
    inner = Counting()
    model = cached(inner, tmp_path / "deep" / "answers.sqlite")
    assert isinstance(model, ChatModel)
    first, again = model.chat(ASK, Sampling()), model.chat(ASK, Sampling())
    assert (first.text, first.finish) == (again.text, again.finish) == ("answer 1 \ud83d", "length")
    assert first.usage == Usage(calls=1, prompt_tokens=11, completion_tokens=2, seconds=0.5)
    assert again.usage == Usage(cached_calls=1, prompt_tokens=11, completion_tokens=2)
    one, two = model.choose(ASK, ["a", "b"]), model.choose(ASK, ["a", "b"])
    assert (one.index, one.scores) == (two.index, two.scores) == (1, (-2.0, -1.0))
    assert two.usage.calls == 0
    assert inner.calls == 2
    model.close()
    assert inner.closed
    later = cached(Counting(), tmp_path / "deep" / "answers.sqlite")
    assert later.chat(ASK, Sampling()).text == "answer 1 \ud83d"
    assert later.inner.calls == 0  # type: ignore[attr-defined]


def test_whatever_changes_an_answer_is_in_the_key(tmp_path: Path) -> None:
    inner = Counting()
    model = cached(inner, tmp_path / "a.sqlite")
    other_role = [Message(role="system", content=ASK[0].content)]
    asks: list[tuple[Any, ...]] = [
        (ASK, Sampling()),
        (ASK, Sampling(), 1),
        (other_role, Sampling()),
        (ASK * 2, Sampling()),
        *(
            (ASK, Sampling(**change))
            for change in (
                {"temperature": 0.1},
                {"top_p": 0.5},
                {"top_k": 3},
                {"max_tokens": 9},
                {"stop": ("x",)},
                {"seed": 1},
                {"thinking": False},
            )
        ),
    ]
    assert len({model.chat(*ask).text for ask in asks}) == len(asks) == inner.calls
    before = inner.calls
    for options in (["a", "b"], ["b", "a"], ["a"], ["ab"]):
        model.choose(ASK, options)
    assert inner.calls == before + 4
    inner.version = 2
    model.chat(ASK, Sampling())
    assert inner.calls == before + 5


def test_tools_and_calls_are_in_the_key_and_in_the_answer(tmp_path: Path) -> None:
    inner = Counting()
    model = cached(inner, tmp_path / "a.sqlite")
    other = {"type": "function", "function": {"name": "book", "parameters": {}}}
    answer = Message(role="tool", content="done", tool_call_id="c1")
    asks: list[tuple[Any, ...]] = [
        (ASK, Sampling(), 0),
        (ASK, Sampling(), 0, [BOOK]),
        (ASK, Sampling(), 0, [other]),
        (ASK, Sampling(), 0, [BOOK, BOOK]),
        ([*ASK, CALLED, answer], Sampling(), 0, [BOOK]),
        ([*ASK, CALLED.model_copy(update={"tool_calls": ()}), answer], Sampling(), 0, [BOOK]),
        ([*ASK, CALLED, answer.model_copy(update={"tool_call_id": "c2"})], Sampling(), 0, [BOOK]),
    ]
    first = [model.chat(*ask) for ask in asks]
    assert inner.calls == len(asks)
    for ask, reply in zip(asks, first, strict=True):
        again = model.chat(*ask)
        assert (again.text, again.finish, again.tool_calls) == (reply.text, reply.finish, reply.tool_calls)
        assert again.usage.cached_calls == 1
    assert first[1].tool_calls == (ToolCall(name="book", arguments={"n": 2}),)
    assert inner.calls == len(asks)


def test_questions_without_tools_keep_the_keys_and_answers_of_older_files(tmp_path: Path) -> None:
    asked = {
        "identity": {"version": 1},
        "messages": [["user", ASK[0].content]],
        "sampling": Sampling().model_dump(),
        "sample": 0,
    }
    key = content_hash(asked, 64)
    assert ask_key({"version": 1}, ASK, sampling=Sampling()) == key
    model = cached(Counting(), tmp_path / "a.sqlite")
    old = to_json({"text": "of old", "finish": "stop", "usage": Usage(calls=1).model_dump()})
    with sqlite3.connect(tmp_path / "a.sqlite") as base:
        base.execute("INSERT INTO answers VALUES (?, ?)", (key, old))
    assert model.chat(ASK, Sampling()) == Reply("of old", Usage(cached_calls=1), "stop", ())


def test_errors_are_not_kept(tmp_path: Path) -> None:
    inner = Counting()
    model = cached(inner, tmp_path / "a.sqlite")
    inner.fail = True
    for _ in range(2):
        with pytest.raises(InfrastructureError):
            model.chat(ASK, Sampling())
    inner.fail = False
    assert model.chat(ASK, Sampling()).text == "answer 3 \ud83d"


def test_threads_that_ask_the_same_at_once_ask_the_model_once(tmp_path: Path) -> None:
    inner = Counting(delay=0.1)
    model = cached(inner, tmp_path / "a.sqlite")
    texts: list[str] = []
    threads = [
        threading.Thread(target=lambda: texts.append(model.chat(ASK, Sampling()).text)) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert texts == ["answer 1 \ud83d"] * 8
    assert model._asking == {}


WRITER = """
import sys
from jitmem_lab.models.cache import cached
from jitmem_lab.records import Message, Sampling
from tests.unit.test_models_cache import Counting
model = cached(Counting(), sys.argv[1])
for n in range(60):
    model.chat([Message(role="user", content=str(n))], Sampling())
print(model.inner.calls)
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    file = str(tmp_path / "a.sqlite")
    root = Path(__file__).parents[2]
    runs = [
        subprocess.Popen([sys.executable, "-c", WRITER, file], cwd=root, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    asked = [int(run.communicate(timeout=60)[0]) for run in runs]
    assert all(run.returncode == 0 for run in runs)
    assert sum(asked) >= 60
    with sqlite3.connect(file) as base:
        assert base.execute("SELECT count(*) FROM answers").fetchone()[0] == 60


def test_a_file_that_is_no_cache_is_refused_and_left_alone(tmp_path: Path) -> None:
    junk = tmp_path / "junk.sqlite"
    junk.write_text("not a database, " * 100)
    with pytest.raises(UserError, match="cache"):
        cached(Counting(), junk)
    assert junk.read_text().startswith("not a database")
    newer = tmp_path / "newer.sqlite"
    with sqlite3.connect(newer) as base:
        base.execute("PRAGMA user_version=99")
    with pytest.raises(UserError, match="newer"):
        cached(Counting(), newer)
    with pytest.raises(UserError):
        cached(Counting(), tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        '{"text": "an',
        "[]",
        "{}",
        '{"usage": {}}',
        "3",
        '{"text": "", "finish": "stop", "usage": {}, "tool_calls": [{}]}',
        '{"text": "", "finish": "stop", "usage": {}, "tool_calls": 3}',
    ],
)
def test_a_damaged_answer_is_asked_for_again_and_replaced(tmp_path: Path, damage: str) -> None:
    model, file = Counting(), tmp_path / "cache.sqlite"
    front = cached(model, file)
    front.chat(ASK, Sampling())
    with sqlite3.connect(file) as base:
        base.execute("UPDATE answers SET answer = ?", (damage,))
    assert front.chat(ASK, Sampling()).text.startswith("answer 2")
    assert front.chat(ASK, Sampling()).text.startswith("answer 2")
    assert model.calls == 2


def write_run(folder: Path, calls: Sequence[Call]) -> None:
    folder.mkdir()
    task = Task(benchmark="toy", split="s", task_id="1", description="d")
    episode = Episode(key="k", position=0, batch=0, task=task, outcome="success", calls=tuple(calls))
    (folder / "episodes.jsonl").write_text(episode.to_line() + '\n{"torn', encoding="ascii")
    (folder / "config.json").write_text(json.dumps({"schema_version": 1, "settings": {}}))


def test_a_run_answers_as_it_did(tmp_path: Path) -> None:
    usage = Usage(calls=1, prompt_tokens=5, completion_tokens=4, seconds=3)
    sampling = Sampling(temperature=1.0, seed=3)
    written = Call(
        role="curator",
        model="m",
        messages=tuple(ASK),
        sampling=sampling,
        sample=2,
        text="t\ud83d",
        usage=usage,
    )
    failed = written.model_copy(update={"error": "down", "text": "", "sample": 0})
    chosen = Call(
        role="executor", model="m", messages=tuple(ASK), options=("a", "b"), text="b", scores=(-2.0, -1.0)
    )
    write_run(tmp_path / "run", [failed, written, chosen])
    model = load_model(f"replay:{tmp_path / 'run'}")
    assert isinstance(model, ReplayModel)
    reply = model.chat(ASK, sampling, 2)
    assert reply == Reply("t\ud83d", Usage(cached_calls=1, prompt_tokens=5, completion_tokens=4), "stop")
    choice = model.choose(ASK, ["a", "b"])
    assert (choice.index, choice.scores, choice.usage.calls) == (1, (-2.0, -1.0), 0)
    for ask in (lambda: model.chat(ASK, sampling), lambda: model.choose(ASK, ["b", "a"])):
        with pytest.raises(UserError, match="hello"):
            ask()
    assert model.identity() == load_model(f"replay:{tmp_path / 'run'}").identity()
    json.dumps(model.identity())


def test_a_run_calls_tools_as_it_did(tmp_path: Path) -> None:
    calls = (ToolCall(name="book", arguments={"b": 1, "a": "\ud83d"}, id="x"), ToolCall(name="look"))
    common = {"role": "executor", "model": "m", "sampling": Sampling(), "tools": ("book",)}
    first = Call(messages=tuple(ASK), tool_calls=calls, finish="tool_calls", **common)  # type: ignore[arg-type]
    answer = Message(role="tool", content="done", tool_call_id="c1")
    second = Call(messages=(*ASK, CALLED, answer), text="bye", **common)  # type: ignore[arg-type]
    write_run(tmp_path / "run", [first, second])
    model = ReplayModel(str(tmp_path / "run"))
    reply = model.chat(ASK, Sampling(), 0, [BOOK])
    assert (reply.text, reply.finish, reply.tool_calls) == ("", "tool_calls", calls)
    assert model.chat([*ASK, CALLED, answer], Sampling(), 0, [BOOK]).text == "bye"
    for ask in ((ASK, Sampling()), ([*ASK, CALLED, ASK[0]], Sampling(), 0, [BOOK])):
        with pytest.raises(UserError, match="replay needs"):
            model.chat(*ask)
    other = first.model_copy(update={"tool_calls": calls[:1]})
    write_run(tmp_path / "other", [other, second])
    assert ReplayModel(str(tmp_path / "other")).identity() != model.identity()


def test_a_missing_or_empty_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        load_model(f"replay:{tmp_path / 'none'}")
    write_run(tmp_path / "empty", [])
    with pytest.raises(UserError, match="no answered model call"):
        load_model(f"replay:{tmp_path / 'empty'}")


@pytest.mark.parametrize(
    "spec", ["", "gpt", "smol:x", "hf:", "openai:", "replay:", "http://u:secret9@h/v1?k=secret9"]
)
def test_an_unknown_form_lists_the_forms_and_hides_secrets(spec: str) -> None:
    with pytest.raises(UserError, match="openai:BASE_URL#MODEL") as caught:
        load_model(spec)
    assert "secret9" not in str(caught.value)


def test_an_unknown_setting_is_named() -> None:
    with pytest.raises(UserError, match="colour"):
        load_model("openai:http://127.0.0.1:9/v1#m", colour=1)
