"""ReasoningBank: items from success and failure, found by the task, read from whatever a model writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jitmem_lab.errors import UserError
from jitmem_lab.evaluation import EvalConfig, make_memory
from jitmem_lab.memories import load_memory
from jitmem_lab.memories.reasoningbank import INSTRUCTION, memory_items
from jitmem_lab.session import Session

from . import writing
from .doubles import ButtonBenchmark, RuleModel, demonstration
from .writing import MALFORMED, TASKS, WordEmbedder, episode, notes, stored

pytestmark = pytest.mark.unit

MARKDOWN = """I think the agent looked first.

# Memory Item 1
## Title Look before you press
## Description When a panel has several buttons.
## Content Read every label. Then press
the one that the task names.

# Memory Item 2
## Title: Stop after the click
## Description: When it clicked.
## Content: Nothing more is needed."""
PLAIN = """Title: Look before you press
Description: When a panel has several buttons.
Content: Read every label. Then press the one that the task names.

Title: Stop after the click
Description: When it clicked.
Content: Nothing more is needed."""
LISTED = """**Memory Items**
1. **Title:** Look before you press
   - **Description:** When a panel has several buttons.
   - **Content**: Read every label. Then press the one that the task names.
2. **Title:** Stop after the click
   * Description: When it clicked.
   * Content: Nothing more is needed."""
HEADED = """```markdown
# Memory Item 1: Look before you press
## Description
When a panel has several buttons.

## Content

Read every label. Then press the one that the task names.

I hope that helps.
# Memory Item 2
### TITLE
Stop after the click
### DESCRIPTION
When it clicked.
### CONTENT
Nothing more is needed.
```"""


def opened(answer: str = PLAIN, folder: Path | None = None, **options: Any) -> Any:
    options.setdefault("embedder", WordEmbedder())
    return writing.opened("reasoningbank", lambda text: answer, folder, **options)


# What is written


@pytest.mark.parametrize("answer", [MARKDOWN, PLAIN, LISTED, HEADED])
def test_items_are_read_from_the_forms_that_models_write(answer: str) -> None:
    kept, refused = memory_items(answer)
    assert kept == [
        {
            "title": "Look before you press",
            "description": "When a panel has several buttons.",
            "content": "Read every label. Then press the one that the task names.",
        },
        {
            "title": "Stop after the click",
            "description": "When it clicked.",
            "content": "Nothing more is needed.",
        },
    ]
    assert refused == []


def numbered(*names: str) -> str:
    return "\n".join(f"Title: {name}\nContent: about {name}" for name in names)


@pytest.mark.parametrize(
    ("answer", "titles", "refused"),
    [
        (numbered("a", "b", "c"), ["a", "b", "c"], []),
        (numbered("a", "b", "c", "d"), ["a", "b", "c"], ["item 4 (d): more than 3"]),
        (numbered("a", "A", "b", "c"), ["a", "b", "c"], ["item 2 (A): repeats an item before it"]),
        ("Title: a\nContent: x\nTitle: b\nContent: X", ["a"], ["item 2 (b): repeats an item before it"]),
        ("Title: a\nTitle: b\nContent: x", ["b"], []),
        ("Title: a\nDescription: x", [], ["item 1 (a): no content"]),
        ("Content: only this", [""], []),
        ("Description: d\nContent: c", [""], []),
        ("Title: a\nContent: one\nContent is king\n\nContent matters", ["a"], []),
        ("# Memory Item 1\n# Memory Item 2\n## Title a\n## Content c", ["a"], []),
        ("# Memory Item 7 ##Title a\n## Content c", ["a"], []),
        ("Memory items are useful.\nTitles matter.", [], []),
        *[(answer, [], []) for answer in MALFORMED[2:]],
    ],
)
def test_what_is_kept_and_what_is_refused(answer: str, titles: list[str], refused: list[str]) -> None:
    kept, why = memory_items(answer)
    assert [item["title"] for item in kept] == titles
    assert why == refused


def test_a_field_ends_at_a_blank_line_and_has_a_longest() -> None:
    (item,), _ = memory_items("Title: " + "t" * 900 + "\nContent: one\ntwo\n\nthree\nDescription: d")
    assert item == {"title": "t" * 200, "description": "d", "content": "one two"}
    (item,), _ = memory_items("Content: " + "c" * 50_000)
    assert len(item["content"]) == 2000


def test_success_and_failure_have_a_prompt_each_with_the_judges_words() -> None:
    memory = opened(MARKDOWN)
    session = Session()
    change = memory.remember(episode(0, won=True, rationale="The light went on."), session)
    memory.remember(episode(1, won=False, rationale="It never clicked."), session)
    won, lost = memory.model.prompts
    assert "The agent succeeded" in won
    assert "The light went on." in won
    assert "The agent failed" in lost
    assert "It never clicked." in lost
    for number, prompt in enumerate((won, lost)):
        assert TASKS[number].description in prompt
        assert "A panel, look 1." in prompt
    assert {call.role for call in session.calls} == {"distiller", "embedder"}
    assert change["items"] == [{"op": "insert", "kind": "record", "item": 1}]
    first, second = stored(memory)
    assert (first["task_id"], first["query"], first["success"]) == ("b0", TASKS[0].description, True)
    assert len(first["items"]) == 2
    assert second["success"] is False


def test_published_values_are_the_defaults_and_the_port_is_a_variant() -> None:
    settings = opened().settings()
    assert (settings["k"], settings["retrieval"]["how"]) == (1, "dense")
    assert settings["sampling"]["temperature"] == 1.0
    assert settings["instruction"] == INSTRUCTION
    assert set(settings["prompts"]) == {"reasoningbank_success", "reasoningbank_failure"}
    port = load_memory("reasoningbank", model=RuleModel(), variant="port").settings()
    assert port["retrieval"] == {"how": "bm25", "tokenizer": "whitespace", "idf": "okapi"}
    assert (port["k"], port["sampling"]["temperature"], port["sampling"]["max_tokens"]) == (3, 0.7, 1024)
    assert "instruction" not in port


def test_a_run_can_ask_for_the_port() -> None:
    def writer(spec: str) -> RuleModel:
        model = RuleModel(spec)
        model.context = 32_768
        return model

    for preset, gate in (("small", "environment"), ("paper", "judge")):
        config = EvalConfig.make(memory="reasoningbank", variant="port", preset=preset, model="replay:x")
        settings = make_memory(config, writer, ButtonBenchmark()).settings()
        assert (settings["retrieval"]["how"], settings["gate"]) == ("bm25", gate)
        assert (settings["sampling"]["temperature"], settings["sampling"]["max_tokens"]) == (0.7, 1024)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"k": 11}, "shows 10 records at most"),
        ({"k": 0}, "k must be 1 or more"),
        ({"embedder": None}, "needs an embedder"),
        ({"retrieval": "telepathy"}, "bm25, dense"),
        ({"variant": "prot"}, "did you mean port"),
    ],
)
def test_wrong_input_is_one_sentence(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as caught:
        load_memory("reasoningbank", **{"model": RuleModel(), "embedder": WordEmbedder()} | options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("answer", MALFORMED)
def test_an_answer_without_an_item_is_a_write_with_a_note(answer: str) -> None:
    memory = opened(answer)
    change = memory.remember(episode(0), Session())
    assert change["stored"] is True
    assert change["items"] == []
    assert change["note"]["why"] == "no item in the answer"
    assert (memory.snapshot(), stored(memory)) == (1, [])
    assert memory.recall(TASKS[1], 1, Session()).payload == ""
    assert notes(memory)["key0.0"] == change["note"]


def test_odd_text_is_stored_and_shown_as_it_is() -> None:
    memory = opened(
        "<think>Title: no\nContent: no</think>Title: \x00 bad \ud83d\nContent: {task} \\ [[user]]"
    )
    memory.remember(episode(0, rationale="\ud83d" + "long " * 5000), Session())
    payload = memory.recall(TASKS[1], 1, Session()).payload
    assert payload == "Title: \x00 bad \ud83d\nContent: {task} \\ [[user]]"
    assert len(memory.model.prompts[0]) < 6000, "the judge's words are cut"


def test_the_prompts_own_words_are_no_lesson() -> None:
    from jitmem_lab.prompts import load_prompt

    form = load_prompt("reasoningbank_success").text
    parroted = form[form.index("# Memory Item 1") : form.index("[[user]]")]
    memory = opened(parroted + "# Memory Item 2\n## Title: Real\n## Content: One to three looks are enough.")
    change = memory.remember(episode(0), Session())
    assert change["note"]["refused"] == ["item 1 (a few words that name the idea): copied from the prompt"]
    assert [item["title"] for item in stored(memory)[0]["items"]] == ["Real"]
    torn = parroted[: parroted.index(", and why it works")]
    assert opened(torn).remember(episode(0), Session())["items"] == []


def test_a_small_model_continues_a_text() -> None:
    def answer(text: str) -> str:
        assert text.endswith("Result: success\nLesson for other tasks:\nTitle:")
        assert "A panel" not in text, "only actions"
        assert "1. press red\n2. press red" in text
        return " Press twice\nDescription: With panels.\nContent: One press is never enough."

    memory = writing.opened("reasoningbank", answer, variant="small", embedder=WordEmbedder())
    session = Session()
    memory.remember(episode(0), session)
    assert session.calls[0].sampling.stop == ("\n\n",)
    assert stored(memory)[0]["items"] == [
        {"title": "Press twice", "description": "With panels.", "content": "One press is never enough."}
    ]
    lost: list[str] = []
    memory.model.rule = lambda text, sampling: lost.append(text) or "Ask\nContent: Ask for its place first,"
    memory.remember(episode(1, won=False), Session())
    assert lost[0].endswith("Result: failure\nLesson for other tasks:\nTitle:")
    assert len(stored(memory)[-1]["items"]) == 1, "those words are the other prompt's"
    assert set(memory.settings()["prompts"]) == {
        "reasoningbank_success_continue",
        "reasoningbank_failure_continue",
    }
    with pytest.raises(UserError, match="form must be one of ask, continue"):
        load_memory("reasoningbank", model=RuleModel(), embedder=WordEmbedder(), form="sing")


def test_a_refused_item_is_noted_with_the_write() -> None:
    memory = opened(numbered("a", "b", "c", "d"))
    change = memory.remember(episode(0), Session())
    assert change["note"] == {"refused": ["item 4 (d): more than 3"]}
    assert len(stored(memory)[0]["items"]) == 3


# What is found


def taught(**options: Any) -> Any:
    """Twelve records whose only item names their task."""

    def answer(text: str) -> str:
        task = text.split("Task: ")[1].splitlines()[0]
        return f"Title: of {task}\nContent: about {task}"

    options.setdefault("embedder", WordEmbedder())
    memory = writing.opened("reasoningbank", answer, **options)
    for number in range(12):
        memory.remember(episode(number, won=number % 2 == 0), Session(0, f"k{number}"))
    return memory


def test_the_most_similar_record_is_shown_whole() -> None:
    memory = taught(instruction="")
    recall = memory.recall(TASKS[17], memory.snapshot(), Session())
    (trace,) = recall.traces
    assert trace.description.startswith("press the right button of panel 2 in room ")
    assert (
        recall.payload == trace.text == f"Title: of {trace.description}\nContent: about {trace.description}"
    )
    assert trace.score > 0.5
    assert recall.query == TASKS[17].description


def test_the_query_alone_stands_behind_the_instruction() -> None:
    embedder = WordEmbedder()
    memory = taught(embedder=embedder)
    assert embedder.texts == [task.description for task in TASKS[:12]]
    memory.recall(TASKS[17], memory.snapshot(), Session())
    assert embedder.texts[12:] == [f"Instruct: {INSTRUCTION}\nQuery: {TASKS[17].description}"]
    bare = taught(embedder=embedder, instruction="")
    bare.recall(TASKS[17], bare.snapshot(), Session())
    assert embedder.texts[-1] == TASKS[17].description


def test_the_port_shows_three_records() -> None:
    memory = taught(variant="port", embedder=None)
    recall = memory.recall(TASKS[17], memory.snapshot(), Session())
    assert len(recall.traces) == 3
    assert {t.description.split(" in ")[0] for t in recall.traces[:2]} == {
        "press the right button of panel 2"
    }
    assert recall.payload.split("\n\n") == [trace.text for trace in recall.traces]


@pytest.mark.parametrize("exclude", [True, False])
def test_nothing_of_the_tasks_own_run_unless_asked_for(exclude: bool) -> None:
    memory = taught(exclude_own=exclude)
    recall = memory.recall(TASKS[3], memory.snapshot(), Session())
    assert (recall.traces[0].task_id == "b3") is (not exclude)
    assert recall.self_excluded == exclude


def test_demonstrations_are_read_as_successes() -> None:
    memory = opened()
    memory.warm([demonstration(TASKS[0])], Session())
    memory.warm([demonstration(TASKS[0])], Session())
    assert "The agent succeeded" in memory.model.prompts[0]
    assert "(nothing)" in memory.model.prompts[0], "no judge spoke"
    assert len(memory.model.prompts) == memory.snapshot() == 1


# What every memory keeps


@pytest.mark.parametrize("how", ["dense", "bm25"])
def test_promises(tmp_path: Path, how: str) -> None:
    options = {"retrieval": how, "embedder": WordEmbedder()}
    writing.keeps_its_promises("reasoningbank", lambda text: PLAIN, tmp_path, **options)
    writing.sees_one_snapshot("reasoningbank", lambda text: PLAIN, **options)


@pytest.mark.parametrize("how", ["dense", "bm25"])
def test_a_run_does_not_depend_on_concurrency(tmp_path: Path, how: str) -> None:
    options = {"retrieval": how, "embedder": WordEmbedder()}
    run = writing.does_not_hang_on_concurrency("reasoningbank", lambda text: MARKDOWN, tmp_path, **options)
    assert len(run.items()) == 23
