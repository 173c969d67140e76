"""Records as short text and as HTML that no trace can break."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from typing import Any

import pytest

from jitmem_lab.records import (
    Call,
    Episode,
    Message,
    Recall,
    Record,
    RetrievedTrace,
    Step,
    Task,
    Trajectory,
    Usage,
    Verdict,
)
from jitmem_lab.render import clean_text, escape, short_repr

pytestmark = pytest.mark.unit
HOSTILE = (
    "<img src=x onerror=document.title='pwned'> </script><script>alert(1)</script> </pre></code></div> "
    '$$\\frac{1}{0}$$ [x](javascript:alert(1)) " onmouseover="x \x1b[31mred\x1b[0m \x1b]0;title\x07 '
    "bad \ud83d nul \x00 sep \u2028 bidi \u202e zero\u200bwidth &amp; 把土豆加热 👩‍🔬"
)
SAFE = {"div", "b", "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "details", "summary"}


def episode(text: str = HOSTILE, steps: int = 3, traces: int = 2) -> Episode:
    task = Task(benchmark=text, split=text, task_id=text, description=text, task_type=text)
    trace = RetrievedTrace(
        trace_id=1, rank=1, score=-0.5, task_id=text, description=text, text=text, cut_chars=9
    )
    step = Step(observation=text, admissible=(text,), raw=text, action=f"go {text}", valid=False)
    return Episode(
        key="k",
        position=3,
        batch=0,
        task=task,
        recall=Recall(
            payload=text, traces=(trace,) * traces, query=text, notes={text: text}, self_excluded=1
        ),
        trajectory=Trajectory(
            task=task, steps=(step,) * steps, final_observation=text, reward=1.0, environment=text
        ),
        verdict=Verdict(success=True, source="judge", rationale=text),
        outcome="success",
        error=text,
        calls=(Call(role="curator", model=text, messages=(Message(role="user", content=text),), text=text),),
    )


class Tags(HTMLParser):
    """Collects tags and attributes, and whether they nest."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.outside = ""

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"code", "pre"} & set(self.open):
            self.outside += data


def records() -> list[Any]:
    whole = episode()
    assert whole.trajectory is not None
    named = Record.model_validate({HOSTILE.replace("\ud83d", ""): HOSTILE, "deep": {"a": [[[[[HOSTILE]]]]]}})
    return [
        whole,
        whole.trajectory,
        whole.recall,
        whole.task,
        whole.calls[0],
        whole.verdict,
        Usage(calls=3),
        named,
    ]


@pytest.mark.parametrize("record", records(), ids=lambda r: type(r).__name__)
def test_hostile_text_stays_text(record: Any) -> None:
    html = record._repr_html_()
    tags = Tags()
    tags.feed(html)
    tags.close()
    assert tags.open == []
    assert tags.tags <= SAFE
    assert tags.attributes <= {"class", "style", "open"}
    assert "$" not in tags.outside
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u202e\u200b\ud800-\udfff]", html)
    html.encode("utf-8")
    assert not re.search(r"background(-color)?:\s*(#|white|rgb\(2)", html)


def test_an_episode_shows_payload_beside_traces_and_every_step() -> None:
    html = episode("put a mug in the sink", steps=3)._repr_html_()
    assert html.index("Retrieved traces") < html.index("Payload") < html.index("observation")
    for part in (
        "success",
        "gate: success by judge",
        "position 3",
        "score -0.500",
        "not admissible",
        "1 model calls",
    ):
        assert part in html
    assert html.count("go put a mug in the sink") == 3


def test_huge_records_stay_small_and_fast() -> None:
    huge = "x" * 5_000_000
    big = episode(huge, steps=2000, traces=50)
    began = time.perf_counter()
    assert len(big._repr_html_()) < 120_000
    for text in (repr(big), str(big), f"{big}", repr(big.recall), repr(big.trajectory)):
        assert len(text) <= 2000
    assert time.perf_counter() - began < 1
    assert "4,998,500 more characters" in big.recall._repr_html_()
    assert "1960 steps left out" in big.trajectory._repr_html_()  # type: ignore[union-attr]


def test_reprs_can_be_printed_anywhere() -> None:
    for record in records():
        repr(record).encode("utf-8")
        assert "\x1b" not in repr(record)
    assert repr(Recall(payload="bad \ud83d \x00")).startswith(r"Recall(payload='bad \ud83d \x00'")
    assert repr(Usage(calls=2)) == (
        "Usage(calls=2, cached_calls=0, prompt_tokens=0, completion_tokens=0, seconds=0.0)"
    )


def test_records_made_without_validation_are_shown_too() -> None:
    assert "prompt_tokens" in Usage.model_construct(prompt_tokens=None)._repr_html_()


def test_fields_of_a_newer_writer_are_shown() -> None:
    verdict = Verdict.model_validate({"success": None, "source": "none", "mood": "<b>"})
    assert "mood" in verdict._repr_html_()
    assert "&lt;b&gt;" in verdict._repr_html_()
    assert "mood='<b>'" in repr(verdict)


def test_clean_text() -> None:
    assert clean_text("a\r\nb\tc") == "a\nb\tc"
    assert clean_text("\x1b[1;31mred\x1b[0m\x1b[2K") == "red"
    assert clean_text("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\") == "link"
    assert clean_text("\ud83d\x00\u202e\u2028") == r"\ud83d\x00\u202e\u2028"
    assert clean_text("把 👩‍🔬 é") == "把 👩‍🔬 é"
    assert clean_text("x" * 10, 4) == "xxxx… 6 more characters"
    assert clean_text("x" * 10, None) == "x" * 10
    assert clean_text(3.5) == "3.5"
    assert escape('<a href="x">\'&') == "&lt;a href=&quot;x&quot;&gt;&#x27;&amp;"


def test_short_repr_is_bounded_in_depth_and_width() -> None:
    nested: Any = []
    for _ in range(500):
        nested = [nested]
    assert len(short_repr(nested)) < 50
    assert short_repr([]) == "[]"
    assert short_repr((1,)) == "(1,)"
    assert short_repr({"a": 1}) == "{'a': 1}"
    assert short_repr(list(range(9))) == "[0, 1, 2, … 6 more]"
