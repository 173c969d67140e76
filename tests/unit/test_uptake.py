"""What payload and traces share: exact runs, marks that match, and texts that say the same for long."""

from __future__ import annotations

import html
import random
import re
import time

import pytest

from jitmem_lab.render import clean_text
from jitmem_lab.views.uptake import COMPARED, marked, uptake

pytestmark = pytest.mark.unit

TRACE = "1. go to shelf 2\n2. take red mug 1 from shelf 2\n3. look\n4. move red mug 1 to desk 1"
HOSTILE = "go <b>to</b> shelf </script> \x1b[31mred\x1b[0m $$x$$ nul \x00 lone \ud83d bidi \u202e end"


def words(text: str, marks) -> list[str]:
    shown = clean_text(text, None)
    return [shown[mark.start : mark.end] for mark in marks]


def plain(text: str) -> str:
    return html.unescape(re.sub("<[^>]*>", "", text))


def test_runs_of_three_words_and_whole_action_lines():
    payload = "First GO TO  shelf 2!\n2) look\nThen take it: red mug 1, to desk 9. Look around; from shelf 3."
    both = uptake([payload], [TRACE])
    assert words(payload, both.payloads[0]) == ["GO TO  shelf 2", "look", "red mug 1, to desk"]
    assert words(TRACE, both.traces[0]) == ["go to shelf 2", "look", "red mug 1 to desk"]
    assert [mark.label for mark in both.payloads[0]] == ["1.1", "1.2", "1.3"]
    assert [mark.label for mark in both.traces[0]] == ["1.1", "1.2", "1.3"]
    assert (both.words, both.shared, both.by_trace) == (20, 10, (10,))
    assert both.share == pytest.approx(10 / 20)


@pytest.mark.parametrize(
    ("payload", "trace"),
    [
        ("go to", "1. go to bed"),
        (
            "mug 1\n3. go to bed",
            "2. take mug 1\n3. go to shelf",
        ),  # the end of one line, the beginning of another
        ("please look", "3. look"),  # part of a line
        ("", TRACE),
        (TRACE, ""),
        ("… !? ", "… !? "),
    ],
)
def test_less_is_not_shared(payload, trace):
    both = uptake([payload], [trace])
    assert both.shared == 0
    assert both.payloads == both.traces == ((),)


def test_nothing_to_compare():
    assert uptake([], []).share is None
    assert uptake([], [TRACE]).traces == ((),)
    assert uptake([TRACE], []).share == 0


def test_equal_words_count_however_they_are_written():
    assert uptake(["① ＧＯ to Straße"], ["x go to STRASSE"]).shared == 3
    assert uptake(["把土豆放进冰箱"], ["請把土豆放好"]).shared == 4


def test_words_of_several_traces_bear_the_mark_of_the_longer_passage():
    other = "1. go to shelf 2\n2. put red mug 1 down"
    payload = f"{TRACE}\n{other}"
    both = uptake([payload], [other, TRACE])
    labels = [mark.label for mark in both.payloads[0]]
    assert [label[0] for label in labels] == ["2"] * 4 + ["1"] * 2
    assert both.shared == both.words
    assert [mark.label for mark in both.traces[1]] == labels[:4]
    assert [mark.label for mark in both.traces[0]] == labels[4:]
    weak = uptake([TRACE], [TRACE, other]).traces[1]
    assert [mark.label for mark in weak] == ["", ""], "the payload's words are marked as the first trace's"


def test_the_same_words_bear_the_same_mark_wherever_they_stand():
    both = uptake(["go to shelf 2\nx\ngo to shelf 2"], [TRACE])
    assert [mark.label for mark in both.payloads[0]] == ["1.1", "1.1"]
    assert [mark.label for mark in both.traces[0]] == ["1.1"]


def test_what_is_said_again_is_taken_up_in_order():
    text = "\n".join(f"[Step {n}]\nSaw: It clicks.\nDid: press red" for n in range(1, 12))
    both = uptake([text], [text])
    labels = [mark.label for mark in both.payloads[0]]
    assert [mark.label for mark in both.traces[0]] == labels
    assert len(set(labels)) == len(labels) == 22
    assert words(text, both.payloads[0])[:2] == ["Saw: It clicks", "Did: press red"]


def test_several_payloads_are_apart():
    both = uptake(["take red", "mug 1 from shelf", "to desk 1"], [TRACE])
    assert [len(marks) for marks in both.payloads] == [0, 1, 1]


def test_coverage_is_that_of_all_shared_triples():
    rng = random.Random(3)
    for _ in range(60):
        payload, trace = (" ".join(rng.choices("abc", k=rng.randint(0, 40))) for _ in range(2))
        both = uptake([payload], [trace])
        p, t = payload.split(), trace.split()
        triples = {tuple(t[i : i + 3]) for i in range(len(t) - 2)}
        covered = {i + j for i in range(len(p) - 2) if tuple(p[i : i + 3]) in triples for j in range(3)}
        assert both.shared == len(covered)
        for mark in both.payloads[0]:
            assert payload[mark.start : mark.end] in trace
        assert {words(trace, [m])[0] for m in both.traces[0] if m.label} <= set(_substrings(payload))


def _substrings(text: str) -> set[str]:
    parts = text.split()
    return {" ".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, len(parts) + 1)}


def test_marks_are_set_on_the_text_and_each_piece_is_escaped():
    both = uptake([HOSTILE], [f"so {HOSTILE}"])
    shown = marked(HOSTILE, both.payloads[0], None)
    assert plain(shown) == clean_text(HOSTILE, None)
    assert re.findall("<[^>]*>", shown) == ['<mark class="hue0" data-n="1.1">', "</mark>"]
    shown.encode("utf-8")


def test_a_cut_text_says_how_much_is_missing():
    text = "go to shelf 2 " * 1000
    both = uptake([text], [text])
    shown = marked(text, both.payloads[0], 10)
    assert plain(shown) == clean_text(text, 10) == "go to shel… 13,990 more characters"
    assert plain(marked(text, both.payloads[0], None)) == text


@pytest.mark.parametrize(
    "text", ["go to shelf 2 " * 400_000, "\n".join(["a b c d"] * 300_000), "x" * 5_000_000]
)
def test_long_and_repeating_texts_stay_cheap(text):
    begun = time.process_time()
    both = uptake([text], [text] * 3)
    assert time.process_time() - begun < 5  # a tenth of it on a quiet machine
    assert both.cut
    assert len(text) > COMPARED
    assert plain(marked(text, both.payloads[0], 8000)) == clean_text(text, 8000)


def test_what_frames_a_payload_is_not_counted_and_a_trace_given_as_it_is_is_all_taken_up():
    from jitmem_lab.curation import HEADINGS

    trace = "1. go to shelf 1\n2. take mug 1 from shelf 1"
    for heading in HEADINGS.values():
        given = uptake([f"Task: put a mug on the desk.\n{heading}\n{trace}"], [trace])
        assert given.share == 1.0
        assert all(mark.start > len("Task: put a mug on the desk.") for mark in given.payloads[0])
    assert uptake(["Task: put a mug on the desk."], [trace]).share is None
