"""The bank on disk: nothing lost, nothing doubled, readers beside a writer, faults answered (about 15 s)."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from jitmem_lab import bank as bank_module
from jitmem_lab.bank import MemoryBank
from jitmem_lab.bench.texts import texts
from jitmem_lab.errors import InfrastructureError, UserError
from jitmem_lab.records import Step, Task, Trajectory

pytestmark = pytest.mark.unit
ROOT = Path(__file__).resolve().parents[2]


def trajectory(number, description="put a mug in sink", **fields):
    task = Task(benchmark="test", split="train", task_id=f"task-{number}", description=description)
    step = Step(observation="You see nothing.", admissible=("look", "go to sink 1"), action="look")
    return Trajectory(**{"task": task, "steps": (step,), "outcome": "success", "reward": 1.0, **fields})


def fill(bank, descriptions):
    return bank.append([(f"key-{n}", trajectory(n, text), {"n": n}) for n, text in enumerate(descriptions)])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "bank.sqlite"


def test_traces_come_back_as_they_went_in(path):
    odd = 'bad \ud83d, NUL \0, line\u2028separator, <think>no</think>, "quotes" \\ 把土豆加热 \x1b[31m'
    step = Step(observation=odd, admissible=(odd,), raw=odd, action=odd)
    kept = trajectory(1, odd, steps=(step,), final_observation=odd, novel_field={"x": [1, None]})
    with MemoryBank(path) as bank:
        assert bank.append([(odd, kept, {"verdict": True, "note": odd, "nan": float("nan")})]) == [1]
        assert bank.search(odd, 1, exclude_task="task-2").hits[0].id == 1
        assert bank.search(odd, 1, exclude_task="task-1") == ((), 1)
    with MemoryBank(path, read_only=True) as bank:
        stored = bank.get(1)
        assert (stored.id, stored.key, stored.trajectory) == (1, odd, kept)
        assert stored.labels == {"verdict": True, "note": odd, "nan": None}
        frame = bank.frame()
        assert frame.description[0] == odd
        assert frame.label_verdict[0]


def test_a_key_is_stored_once(path):
    with MemoryBank(path) as bank:
        first = bank.append([("a", trajectory(1), {}), ("b", trajectory(2), {}), ("a", trajectory(3), {})])
        again = bank.append([("b", trajectory(9), {}), ("c", trajectory(4), {})])
        assert (first, again, len(bank), bank.snapshot()) == ([1, 2, 1], [2, 3], 3, 3)
        assert bank.get(2).trajectory.task.task_id == "task-2"
        assert bank.append([]) == []


def test_all_of_an_append_or_nothing(path):
    with MemoryBank(path) as bank:
        fill(bank, ["one"])
        endless: dict[str, object] = {}
        endless["again"] = endless
        with pytest.raises(UserError, match="nothing was stored"):
            bank.append([("x", trajectory(5), {}), ("y", trajectory(6), endless)])
        assert len(bank) == 1


def test_the_empty_bank_answers(path):
    for bank in (MemoryBank(), MemoryBank(path)):
        with bank:
            assert len(bank) == bank.snapshot() == bank.refresh() == 0
            assert bank.search("anything", 3) == ((), 0)
            assert bank.explain("anything") == []
            assert list(bank.frame().columns)[:3] == ["id", "key", "task_id"]
            with pytest.raises(UserError, match="no trace 1"):
                bank.get(1)
            fill(bank, [""])
            assert [h.id for h in bank.search("anything", 3).hits] == [1]
            assert [h.id for h in bank.search("", 3, snapshot=0).hits] == []


@pytest.mark.parametrize("k", [0, 1, 3, 50])
def test_more_asked_than_there_is(k):
    with MemoryBank() as bank:
        fill(bank, ["put a mug in sink", "heat an egg", "cool a pan"])
        assert len(bank.search("heat", k).hits) == min(k, 3)


def test_a_snapshot_ranks_as_if_nothing_had_come_after(path):
    documents = list(texts("alfworld", 60))
    with MemoryBank(path) as bank:
        fill(bank, documents)
        for size in (1, 2, 7, 30, 60):
            with MemoryBank() as small:
                fill(small, documents[:size])
                for query in documents[::9]:
                    assert bank.search(query, 4, snapshot=size) == small.search(query, 4)


def test_batch_mates_with_the_same_task_do_not_see_each_other():
    with MemoryBank() as bank:
        fill(bank, ["heat an egg", "put a mug in sink", "cool a pan"])
        snapshot = bank.snapshot()
        before = bank.search("find two pens", 3, snapshot=snapshot)
        bank.append([("mate", trajectory(50, "find two pens"), {})])
        assert bank.search("find two pens", 3, snapshot=snapshot) == before
        assert bank.search("find two pens", 3).hits[0].id == 4


def test_own_traces_are_left_out_and_counted():
    with MemoryBank(idf="lucene") as bank:
        own = [(f"own-{n}", trajectory(1, "put a mug in sink"), {}) for n in range(4)]
        bank.append([*own[:2], ("x", trajectory(2, "put a cup in sink"), {}), *own[2:]])
        bank.append([("y", trajectory(3, "heat an egg"), {})])
        found = bank.search("put a mug in sink", 3, exclude_task="task-1")
        assert [h.id for h in found.hits] == [3, 6]
        assert found.excluded == 3
        assert bank.search("put a mug in sink", 3, exclude_task="task-1", snapshot=1) == ((), 1)
        assert bank.search("heat an egg", 1, exclude_task="task-1").excluded == 0


@pytest.mark.parametrize(("k", "snapshot"), [(-1, None), (3, -1), (3, 2)])
def test_impossible_searches_are_refused(k, snapshot):
    with MemoryBank() as bank:
        fill(bank, ["one"])
        with pytest.raises(UserError):
            bank.search("one", k, snapshot=snapshot)


def test_settings_say_what_changes_a_ranking():
    with MemoryBank(tokenizer="whitespace", idf="lucene") as bank:
        assert bank.settings() == {
            "tokenizer": "whitespace",
            "idf": "lucene",
            "k1": 1.5,
            "b": 0.75,
            "epsilon": 0.25,
            "ties": "newer first",
        }


# Faults of the file


def test_wrong_files_are_refused_and_left_as_they_were(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, but somebody's notes\n" * 100)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE recipes(name)")
    db.close()
    for file in (text, other):
        before = file.read_bytes()
        for read_only in (False, True):
            with pytest.raises(UserError, match="not a memory bank"):
                MemoryBank(file, read_only=read_only)
        assert file.read_bytes() == before
    with pytest.raises(UserError, match="is a folder"):
        MemoryBank(tmp_path)
    with pytest.raises(UserError, match="create it first"):
        MemoryBank(tmp_path / "missing" / "bank.sqlite")
    with pytest.raises(UserError, match="there is no bank"):
        MemoryBank(tmp_path / "none.sqlite", read_only=True)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["notes.txt", "other.sqlite"]


def test_a_newer_bank_is_refused(path):
    MemoryBank(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    with pytest.raises(UserError, match="upgrade jitmem-lab"):
        MemoryBank(path)


def test_reading_only_never_writes(path):
    with MemoryBank(path) as bank:
        fill(bank, ["put a mug in sink"])
    with MemoryBank(path, read_only=True) as bank:
        assert len(bank.search("mug", 3).hits) == 1
        for write in (lambda: bank.append([("k", trajectory(1), {})]), bank.save_index):
            with pytest.raises(UserError, match="reading only"):
                write()
    path.write_bytes(b"")
    with pytest.raises(UserError, match="still empty"):
        MemoryBank(path, read_only=True)


def test_a_write_protected_copy_can_be_read(path):
    with MemoryBank(path) as bank:
        fill(bank, ["put a mug in sink"])
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        with MemoryBank(path, read_only=True) as bank:
            assert len(bank.search("mug", 3).hits) == 1
    finally:
        path.parent.chmod(0o755)


def test_a_closed_bank_says_so(path):
    bank = MemoryBank(path)
    bank.close()
    bank.close()
    with pytest.raises(UserError, match="closed"):
        len(bank)


def test_a_locked_bank_is_an_infrastructure_error(path, monkeypatch):
    monkeypatch.setattr("jitmem_lab.bank_store._WAIT", 0.1)
    with MemoryBank(path) as bank:
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("BEGIN IMMEDIATE")
        with pytest.raises(InfrastructureError, match="locked"):
            fill(bank, ["one"])
        holder.execute("ROLLBACK")
        holder.close()
        assert fill(bank, ["one"]) == [1]


# The saved index


def saved(path, count=300):
    documents = list(texts("webshop", count))
    with MemoryBank(path) as bank:
        fill(bank, documents)
        return documents, bank.save_index()


def expected(documents, query):
    with MemoryBank() as bank:
        fill(bank, documents)
        return bank.search(query, 5)


def opened_from_file(path):
    """Whether opening took the saved index rather than building one."""
    with MemoryBank(path) as bank:
        bank.refresh()
        return bank._saved > 0


def test_a_saved_index_is_taken_and_followed_up(path):
    documents, _ = saved(path)
    assert opened_from_file(path)
    with MemoryBank(path) as bank:
        bank.append([("new", trajectory(900, "zebra lamp"), {})])
    with MemoryBank(path) as bank:
        for query in ("zebra", documents[5]):
            assert bank.search(query, 5) == expected([*documents, "zebra lamp"], query)
        assert bank._saved == 300


def test_a_bad_saved_index_is_never_believed(path, tmp_path):
    documents, index = saved(path)
    good = index.read_bytes()
    wanted = expected(documents, documents[5])

    def check():
        assert not opened_from_file(path)
        with MemoryBank(path) as bank:
            assert bank.search(documents[5], 5) == wanted

    rng = random.Random(0)
    flipped = bytearray(good)
    flipped[rng.randrange(len(good) // 2)] ^= 0xFF
    for bad in (b"", b"junk", good[: len(good) // 2], bytes(flipped)):
        index.write_bytes(bad)
        check()
    index.write_bytes(good)
    assert opened_from_file(path)
    # Another bank's index, of the same size.
    other = tmp_path / "other.sqlite"
    with MemoryBank(other) as bank:
        fill(bank, reversed(documents))
        index.write_bytes(bank.save_index().read_bytes())
    check()
    # This bank's index, but the bank has since been put back to an earlier copy and gone another way.
    index.write_bytes(good)
    with sqlite3.connect(path) as db:
        db.execute("DELETE FROM traces WHERE id > 200")
        db.execute("DELETE FROM bodies WHERE id > 200")
    db.close()
    documents = documents[:200] + [f"other {n}" for n in range(100)]
    wanted = expected(documents, documents[5])
    with MemoryBank(path) as bank:
        bank.append([(f"else-{n}", trajectory(n, f"other {n}"), {}) for n in range(100)])
    check()


def test_the_index_of_another_tokenizer_is_not_taken(path):
    documents, _ = saved(path)
    with MemoryBank(path, tokenizer="whitespace") as bank:
        bank.refresh()
        assert bank._saved == 0
        with MemoryBank(tokenizer="whitespace") as fresh:
            fill(fresh, documents)
            assert bank.search(documents[5], 5) == fresh.search(documents[5], 5)


def test_a_large_bank_saves_its_index_when_it_closes(path, monkeypatch):
    monkeypatch.setattr(bank_module, "_AUTOSAVE", 100)
    with MemoryBank(path) as bank:
        fill(bank, texts("alfworld", 120))
        bank.search("mug", 1)
    assert opened_from_file(path)


def test_an_interrupt_while_indexing_does_not_spoil_the_index(path, monkeypatch):
    documents = list(texts("alfworld", 50))
    with MemoryBank(path) as bank:
        fill(bank, documents[:40])
        bank.search("mug", 1)

        def interrupted(texts):
            next(iter(texts))
            raise KeyboardInterrupt

        monkeypatch.setattr(bank._index, "extend", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fill(bank, documents)
        assert bank.search(documents[45], 5) == expected(documents, documents[45])


# Several at once

_WRITER = textwrap.dedent(
    """
    import sys
    from jitmem_lab.bank import MemoryBank
    from jitmem_lab.records import Task, Trajectory

    path, prefix, batch = sys.argv[1], sys.argv[2], int(sys.argv[3])
    bank = MemoryBank(path)
    number = 0
    while number < int(sys.argv[4]):
        items = []
        for _ in range(batch):
            key, text = f"{prefix}-{number}", f"{prefix} word{number % 7}"
            task = Task(benchmark="t", split="s", task_id=key, description=text)
            items.append((key, Trajectory(task=task), {}))
            number += 1
        bank.append(items)
        print(number, flush=True)
    bank.close()
    """
)


def start_writer(path, prefix, batch=3, count=10**9):
    return subprocess.Popen(
        [sys.executable, "-c", _WRITER, str(path), prefix, str(batch), str(count)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def test_killed_writers_lose_nothing_that_was_acknowledged(path):
    rng = random.Random(0)
    acknowledged = []
    for round_ in range(6):
        writer = start_writer(path, f"r{round_}")
        try:
            said = [writer.stdout.readline() for _ in range(rng.randint(1, 8))]
            time.sleep(rng.random() * 0.01)
        finally:
            writer.send_signal(signal.SIGKILL)
            said += writer.communicate(timeout=60)[0].splitlines(keepends=True)
        last = [int(line) for line in said if line.endswith("\n")][-1]
        acknowledged += [f"r{round_}-{n}" for n in range(last)]
        with MemoryBank(path) as bank:
            keys = [bank.get(n).key for n in range(1, len(bank) + 1)]
            assert len(set(keys)) == len(keys)
            assert set(acknowledged) <= set(keys)
            # A batch is there whole or not at all.
            assert len(keys) % 3 == 0
            assert list(bank.frame().id) == list(range(1, len(keys) + 1))
            # What the dead writer may have stored before it could say so is appended again: nothing doubles.
            again = [(key, bank.get(n).trajectory, {}) for n, key in enumerate(keys[-5:], len(keys) - 4)]
            assert bank.append(again) == list(range(len(keys) - 4, len(keys) + 1))
            assert bank.search("r0 word3", 2).hits


def test_readers_follow_a_writer_in_another_process(path):
    MemoryBank(path).close()
    reader = MemoryBank(path, read_only=True)
    writer = start_writer(path, "w", batch=4, count=200)
    seen = [0]
    try:
        for line in writer.stdout:
            hits = reader.search("w word3", 1000).hits
            assert len(hits) >= int(line)
            assert sorted(h.id for h in hits) == list(range(1, len(hits) + 1))
            assert reader.search("w word3", 2, snapshot=4) == reader.search("w word3", 2, snapshot=4)
            seen.append(len(hits))
        assert writer.wait(timeout=60) == 0
    finally:
        writer.kill()
        writer.stdout.close()
        writer.wait()
    assert seen == sorted(seen)
    assert reader.refresh() == len(reader) == 200
    with MemoryBank(path) as fresh:
        assert reader.search("w word3", 9) == fresh.search("w word3", 9)
    reader.close()


def test_two_writers_take_turns(path):
    writers = [start_writer(path, prefix, batch=2, count=60) for prefix in "ab"]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    with MemoryBank(path) as bank:
        keys = {bank.get(n).key for n in range(1, 121)}
        assert len(bank) == len(keys) == 120


def test_threads_search_while_one_appends(path):
    documents = list(texts("alfworld", 120))
    errors = []
    with MemoryBank(path) as bank:
        fill(bank, documents[:50])
        fixed = {query: bank.search(query, 3, snapshot=50) for query in documents[:10]}
        done = threading.Event()

        def search():
            try:
                while not done.is_set():
                    for query, hits in fixed.items():
                        assert bank.search(query, 3, snapshot=50) == hits
                        assert bank.get(hits.hits[0].id).id == hits.hits[0].id
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=search) for _ in range(4)]
        for thread in threads:
            thread.start()
        for n, text in enumerate(documents[50:], 50):
            bank.append([(f"key-{n}", trajectory(n, text), {})])
        done.set()
        for thread in threads:
            thread.join()
        assert not errors
        assert bank.search(documents[110], 5) == expected(documents, documents[110])


def test_the_file_holds_no_pickle_and_its_text_is_json(path):
    with MemoryBank(path) as bank:
        fill(bank, ["put a mug in sink"])
    db = sqlite3.connect(path)
    key, text, labels = db.execute("SELECT key, text, labels FROM traces").fetchone()
    db.close()
    assert [json.loads(value) for value in (key, text, labels)] == ["key-0", "put a mug in sink", {"n": 0}]
