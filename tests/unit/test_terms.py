"""Why these traces, and where they come from: worked out of the run's own files, as they stood then."""

from __future__ import annotations

import shutil

import pytest

from jitmem_lab.memories import NAMES
from jitmem_lab.memories.items import Change, ItemStore
from jitmem_lab.records import Episode, Recall, Task
from jitmem_lab.runs import Run
from jitmem_lab.views import terms
from jitmem_lab.views.shown import shown
from jitmem_lab.views.terms import words_of

from . import memory_answers

pytestmark = pytest.mark.unit


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of a memory system, each task twice; made once."""
    made: dict[str, Run] = {}

    def get(name: str, **options) -> Run:
        label = name + "".join(map(str, options.values()))
        if label not in made:
            folder = tmp_path_factory.mktemp("runs") / label
            made[label] = memory_answers.streamed(memory_answers.build(name, **options), folder)
        return made[label]

    return get


def last(run: Run) -> Episode:
    return run.latest()[-1]


@pytest.mark.parametrize("idf", ["okapi", "lucene"])
@pytest.mark.parametrize("name", ["raw", "jitmem"])
def test_the_words_make_the_score(runs, name, idf):
    run = runs(name, idf=idf)
    with run.bank() as bank:
        texts = [set(one.text.replace(".", "").lower().split()) for one in bank.tasks()]
    seen = 0
    for episode in run.latest():
        recall = episode.recall
        words = words_of(run, recall)
        assert words.why == ""
        assert words.size == (recall.bank_size if recall.traces else 0)
        assert list(words.by_trace) == [trace.trace_id for trace in recall.traces]
        for trace in recall.traces:
            parts = words.by_trace[trace.trace_id]
            assert sum(word.adds for word in parts) == pytest.approx(trace.score, abs=1e-9)
            assert [word.text for word in parts] == list(dict.fromkeys(_words(recall.query)))
            assert all(bool(word.times) == (word.text in texts[trace.trace_id - 1]) for word in parts)
        for text, count in words.documents.items():
            assert count == sum(text in one for one in texts[: recall.bank_size]), "later traces don't count"
            seen += 1
    assert seen > 20


def _words(query: str) -> list[str]:
    return query.lower().replace(".", "").split()


@pytest.mark.parametrize("how", ["shuffled", "own_type", "other_type"])
def test_controls_by_words_are_explained_too(runs, how):
    run = runs("raw", retrieval=how)
    explained = [(episode.recall, words_of(run, episode.recall)) for episode in run.latest()]
    explained = [(recall, words) for recall, words in explained if recall.traces]
    assert explained
    for recall, words in explained:
        for trace in recall.traces:
            parts = words.by_trace[trace.trace_id]
            assert sum(word.adds for word in parts) == pytest.approx(trace.score, abs=1e-9)


def test_what_cannot_be_told_is_a_sentence(runs, tmp_path):
    for how, why in (("dense", terms.BY_MEANING), ("random", terms.AT_RANDOM)):
        run = runs("raw", retrieval=how)
        assert words_of(run, last(run).recall).why == why
    assert words_of(runs("none"), last(runs("none")).recall).why == ""
    assert "written items, found by meaning" in words_of(runs("memp"), last(runs("memp")).recall).why
    assert "found by their words" in words_of(runs("skillos"), last(runs("skillos")).recall).why
    run, recall = runs("raw"), last(runs("raw")).recall
    assert words_of(None, recall).why == terms.NOT_AT_HAND
    changed = recall.traces[0].model_copy(update={"score": recall.traces[0].score + 0.1})
    assert words_of(run, recall.model_copy(update={"traces": (changed,)})).why == terms.OTHER_SCORES
    unknown = recall.traces[0].model_copy(update={"trace_id": 999})
    assert words_of(run, recall.model_copy(update={"traces": (unknown,)})).why == terms.TOO_FAR
    never = recall.model_copy(update={"bank_size": 10_000})
    assert "never had a snapshot" in words_of(run, never).why
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    assert words_of(Run(copy), recall).by_trace
    other = tmp_path / "other"
    shutil.copytree(run.path, other)
    (other / "bank.sqlite").write_bytes(b"no bank at all, but as long as one" * 100)
    assert "cannot be told: " in words_of(Run(other), recall).why
    (copy / "bank.sqlite").unlink()
    assert "there is no bank" in words_of(Run(copy), recall).why
    assert [one.origin for one in shown(last(run), Run(copy))] == [()] * len(recall.traces)


def test_a_bank_is_opened_once_and_few_are_kept(runs):
    run = runs("raw")
    assert terms.open_bank(run) is terms.open_bank(Run(run.path))
    banks = [terms.open_bank(runs("raw", k=k)) for k in (1, 2, 3, 4, 5)]
    assert len(set(map(id, banks))) == 5
    assert len(banks[0]) > 0, "one that was put aside still serves whoever holds it"
    assert len(terms._BANKS._open) == terms._KEPT


@pytest.mark.parametrize("name", ["raw", "jitmem"])
def test_traces_say_which_episode_they_are_of(runs, name):
    run = runs(name)
    episodes = {episode.position: episode for episode in run.latest()}
    places = 0
    for episode in episodes.values():
        for one, trace in zip(shown(episode, run), episode.recall.traces, strict=True):
            assert (one.number, one.text, one.kind) == (trace.trace_id, trace.text, "trace")
            place = int(one.origin[0].removeprefix("from episode "))
            assert episodes[place].task.task_id == trace.task_id
            assert place < episode.batch * 5, "only what was written before the batch"
            places += 1
    assert places


@pytest.mark.parametrize("name", [name for name in NAMES if name not in ("none", "oracle", "raw", "jitmem")])
def test_items_say_what_they_are_and_who_wrote_them(runs, name):
    run = runs(name)
    told = [(episode, shown(episode, run)) for episode in run.latest()]
    told = [(episode, found) for episode, found in told if found]
    assert told, "every system shows something in the end"
    for episode, found in told:
        assert [one.rank for one in found] == list(range(1, len(found) + 1))
        for one in found:
            assert one.kind in {"record", "workflow", "plan", "skill", "procedure", "trial", "rule", "memory"}
            assert one.text
            assert one.title
            assert " after episode " in one.origin[0]
            assert int(one.origin[0].rpartition(" ")[2]) < episode.batch * 5
            assert ("by" in one.origin[0]) is (one.kind != "trial")
        if episode.recall.payload and name not in ("expel", "jitmem"):
            assert any(one.text.splitlines()[-1] in episode.recall.payload for one in found)


def test_items_are_told_as_they_were_then(runs, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(runs("awm").path, copy)
    run = Run(copy)
    before = shown(last(run), run)
    store = ItemStore(copy / "bank.sqlite")
    for one in store.items():
        store.apply(f"hand{one.id}", [Change("delete", one.kind, item=one.id)])
    store.close()
    assert shown(last(run), run) == before


def test_hostile_notes_and_files_break_nothing(runs, tmp_path):
    run = runs("awm")
    task = Task(benchmark="b", split="s", task_id="t", description="d")
    for notes in (
        {"rules": "abc", "plans": None},
        {"steps": [{}, 3]},
        {"workflows": 3, "left_out": 7},
        {"rules": [1, "x", None, 10**30, -1]},
    ):
        recall = Recall(notes=notes, bank_size=10**6)
        episode = Episode(key="k", position=0, batch=0, task=task, outcome="error", recall=recall)
        assert isinstance(shown(episode, run), tuple)
    copy = tmp_path / "copy"
    shutil.copytree(run.path, copy)
    (copy / "writes.jsonl").write_bytes(b"")
    assert all("episode " in one.origin[0] for one in shown(last(run), Run(copy)))
