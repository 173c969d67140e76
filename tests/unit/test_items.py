"""The store of write-time items: snapshots, history, undo, and a write that is whole or not at all."""

from __future__ import annotations

import contextlib
import math
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.memories.items import Change, ItemStore

pytestmark = pytest.mark.unit


def insert(text: str) -> Change:
    return Change("insert", "rule", {"text": text})


def texts(store: ItemStore, at: int | None = None) -> list[str]:
    return [item.data["text"] for item in store.items("rule", at)]


@pytest.fixture
def store(tmp_path: Path) -> ItemStore:
    return ItemStore(tmp_path / "bank.sqlite")


def test_every_snapshot_stays_as_it_was(store: ItemStore) -> None:
    store.apply("e1", [insert("a"), insert("b")])
    store.apply("e2", [Change("update", "rule", {"text": "A"}, 1)])
    store.apply("e3", [Change("delete", "rule", item=2), insert("c")])
    assert store.version() == 3
    assert [texts(store, at) for at in range(4)] == [[], ["a", "b"], ["A", "b"], ["A", "c"]]
    born = {item.id: (item.born, item.changed) for item in store.items()}
    assert born == {1: (1, 2), 3: (3, 3)}


def test_the_same_key_twice_is_one_write(store: ItemStore) -> None:
    first = store.apply("e1", [insert("a"), insert("b")])
    assert store.apply("e1", [insert("other")]) == first == [1, 2]
    assert texts(store) == ["a", "b"]
    assert store.version() == 1


def test_a_write_that_fails_halfway_changes_nothing(store: ItemStore, tmp_path: Path) -> None:
    store.apply("e1", [insert("a")])
    with pytest.raises(UserError, match="no rule 9 to update"):
        store.apply("e2", [insert("b"), Change("update", "rule", {"text": "x"}, 9)])
    with pytest.raises(UserError, match="no skill 1 to delete"):
        store.apply("e2", [Change("delete", "skill", item=1)])
    assert texts(store) == ["a"]
    assert store.version() == 1
    store.close()
    again = ItemStore(tmp_path / "bank.sqlite")
    assert texts(again) == ["a"]
    again.apply("e2", [insert("b")])
    assert [item.id for item in again.items()] == [1, 2]


def test_history_says_who_wrote_what(store: ItemStore) -> None:
    store.apply("e1", [insert("a")], note={"refused": ["four items"]})
    store.apply("e2", [Change("update", "rule", {"text": "A"}, 1)])
    store.apply("e3", [Change("delete", "rule", item=1)])
    past = [(p.key, p.op, p.before, p.after) for p in store.history(1)]
    assert past == [
        ("e1", "insert", None, {"text": "a"}),
        ("e2", "update", {"text": "a"}, {"text": "A"}),
        ("e3", "delete", {"text": "A"}, None),
    ]
    assert store.writes()[0] == (1, "e1", {"refused": ["four items"]})


def test_undo_is_a_write_of_its_own(store: ItemStore) -> None:
    store.apply("e1", [insert("a"), insert("b")])
    store.apply("e2", [Change("update", "rule", {"text": "A"}, 1), Change("delete", "rule", item=2)])
    assert store.undo(2) == 3
    assert texts(store) == ["a", "b"]
    assert texts(store, 2) == ["A"]
    assert [past.op for past in store.history()][-2:] == ["insert", "update"]
    assert store.undo(3) == 4
    assert texts(store) == ["A"]


def test_undo_refuses_what_later_writes_stand_on(store: ItemStore) -> None:
    store.apply("e1", [insert("a")])
    store.apply("e2", [Change("update", "rule", {"text": "A"}, 1)])
    with pytest.raises(UserError, match="write 2 changed item 1 since"):
        store.undo(1)
    with pytest.raises(UserError, match="no write 7"):
        store.undo(7)
    assert texts(store) == ["A"]


def test_a_reader_opened_later_sees_the_same(tmp_path: Path) -> None:
    store = ItemStore(tmp_path / "s.sqlite")
    for number in range(150):
        store.apply(f"e{number}", [insert(f"t{number}")])
    other = ItemStore(tmp_path / "s.sqlite")
    for one in (store, other):
        for at in (150, 7, 0, 49, *range(149, 50, -1), 8):
            assert texts(one, at) == [f"t{i}" for i in range(at)]
        assert len(one._states) <= 33, "it must not keep every state that there ever was"


def test_a_long_stream_of_writes_holds_few_states(store: ItemStore) -> None:
    for number in range(100):
        store.apply(f"e{number}", [insert(f"t{number}")])
        if number % 10 == 9:
            store.undo(number + number // 10 + 1)
    assert len(store._states) <= 33
    assert len(texts(store)) == 90
    plan = store._all("EXPLAIN QUERY PLAN SELECT COALESCE(MAX(item), 0) + 1 FROM item_changes")
    assert "INDEX" in plan[0][-1], "the next item's number must not take a look at every change"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.tuples(st.sampled_from("iud"), st.integers(0, 5)), max_size=4), max_size=8))
def test_any_sequence_of_writes_replays_and_undoes(writes: list[list[tuple[str, int]]]) -> None:
    store = ItemStore(":memory:")
    model: dict[int, dict[str, Any]] = {}
    states = [dict(model)]
    count = 0
    for number, write in enumerate(writes):
        changes = []
        for op, pick in write:
            alive = sorted(model)
            if op == "i" or not alive:
                count += 1
                changes.append(Change("insert", "rule", {"text": f"{count}"}))
                model[count] = {"text": f"{count}"}
            elif op == "u":
                item = alive[pick % len(alive)]
                model[item] = {"text": f"{item}@{number}"}
                changes.append(Change("update", "rule", model[item], item))
            else:
                item = alive[pick % len(alive)]
                del model[item]
                changes.append(Change("delete", "rule", item=item))
        store.apply(f"e{number}", changes)
        states.append({k: dict(v) for k, v in model.items()})
    for at, state in enumerate(states):
        assert {item.id: item.data for item in store.items(at=at)} == state
    for write in range(len(writes), 0, -1):
        store.undo(write)
        assert {item.id: item.data for item in store.items()} == states[write - 1]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("not a database at all, but long enough to be looked at")
    with pytest.raises(UserError, match="can't be used"):
        ItemStore(tmp_path / "x")


def test_a_locked_file_is_an_infrastructure_error(tmp_path: Path) -> None:
    store = ItemStore(tmp_path / "s.sqlite")
    store._db.execute("PRAGMA busy_timeout = 50")
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InfrastructureError, match="locked"):
        store.apply("e1", [insert("a")])
    other.execute("ROLLBACK")
    assert store.apply("e1", [insert("a")]) == [1]


def test_a_database_of_something_else_is_left_as_it_is(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "mine.sqlite")) as db:
        db.execute("CREATE TABLE mine(a)")
    before = (tmp_path / "mine.sqlite").read_bytes()
    with pytest.raises(UserError, match="something else"):
        ItemStore(tmp_path / "mine.sqlite")
    assert (tmp_path / "mine.sqlite").read_bytes() == before


def test_what_is_kept_is_the_same_before_and_after_it_is_read_back(tmp_path: Path) -> None:
    store = ItemStore(tmp_path / "s.sqlite")
    store.apply("e1", [Change("insert", "rule", {"pair": (1, 2), "number": math.nan, "text": "\ud83d"})])
    assert store.items() == ItemStore(tmp_path / "s.sqlite").items()
    assert store.undo(1) == 2
    assert store.items() == []


def test_a_disk_that_is_full_is_an_infrastructure_error_and_changes_nothing(tmp_path: Path) -> None:
    store = ItemStore(tmp_path / "s.sqlite")
    store.apply("e1", [insert("a")])
    before = store.items()
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(InfrastructureError, match="full"):
        store.apply("e2", [insert("b" * 100_000)])
    assert store.items() == before
    store._db.execute(f"PRAGMA max_page_count = {pages + 1000}")
    assert store.apply("e2", [insert("b" * 100_000)]) == [2]
