"""A write-time store as frames and HTML: every change with its episode, read without disturbing its run."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from jitmem_lab import cli
from jitmem_lab.errors import UserError
from jitmem_lab.item_frames import HISTORY, memory_frame, memory_html
from jitmem_lab.memories.items import Change, ItemStore
from jitmem_lab.runs import Run, RunLock

from . import writing
from .writing import WordEmbedder

pytestmark = pytest.mark.unit

EVIL = "<img src=x onerror=alert(1)> \x00\ud83d $$x$$ "


def answer(text: str) -> str:
    """A lesson of each odd room, none of an even one."""
    room = int(text.split("in room ")[1].split(".")[0])
    return f"Title: room {room}\nContent: {EVIL}" if room % 2 else "nothing"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return writing.streamed(tmp_path / "r", "reasoningbank", answer, 2, n=7, embedder=WordEmbedder())


def test_every_change_has_its_episode(run: Run) -> None:
    frame = run.items()
    assert tuple(frame.columns) == HISTORY
    assert list(frame["write"]) == [1, 2, 3, 4, 5, 6, 7]
    assert list(frame["position"]) == list(range(7))
    assert list(frame["op"]) == ["none", "insert"] * 3 + ["none"]
    assert list(frame["key"]) == [e.key for e in run.latest()]
    second = frame.iloc[1]
    assert (second["kind"], second["item"], second["before"]) == ("record", 1, None)
    assert second["after"]["items"] == [{"title": "room 1", "description": "", "content": EVIL.strip()}]
    assert frame.iloc[0]["note"]["why"] == "no item in the answer"


def test_edits_by_hand_are_seen_beside_the_episodes(run: Run) -> None:
    store = ItemStore(run.path / "bank.sqlite")
    store.apply(
        "hand", [Change("update", "record", {"query": "mine"}, 2), Change("delete", "record", item=1)]
    )
    store.undo(8)
    store.close()
    frame = run.items().tail(4)
    assert list(frame["op"]) == ["update", "delete", "insert", "update"]
    assert list(frame["key"]) == ["hand", "hand", "undo:8:9", "undo:8:9"]
    assert frame["position"].isna().all()
    assert (
        frame.iloc[0]["before"]
        == frame.iloc[3]["after"]
        == memory_frame(run)
        .iloc[1]
        .filter(like="data.")
        .rename(lambda name: name.removeprefix("data."))
        .to_dict()
    )
    assert list(memory_frame(run, at=8)["item"]) == [2, 3]
    assert memory_frame(run, at=8).iloc[0]["data.query"] == "mine"
    assert "mine" in memory_html(run, at=8)
    assert "update, hand" in memory_html(run)


def test_a_write_is_taken_back_by_a_command_and_the_run_tells_of_it(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["items", str(run.path), *args])
        return (int(stop.value.code or 0), *capsys.readouterr())

    code, out, _ = command()
    assert code == 0
    assert [line.split()[:2] for line in out.splitlines()[1:]] == [[str(n), "record"] for n in (1, 2, 3)]
    before = run.card().cautions
    code, out, _ = command("--undo", "4", "--json")
    shown = json.loads(out)
    assert (code, shown["undone"], shown["by"]) == (0, 4, 8)
    assert [row["item"] for row in shown["rows"]] == [1, 3] == list(run.memory()["item"])
    assert [row["item"] for row in json.loads(command("--at", "7", "--json")[1])["rows"]] == [1, 2, 3]
    assert run.undone() == [{"write": 4, "by": 8, "episodes": 7}]
    told = [said for said in run.card().cautions if said not in before]
    assert told == ["write 4 of memory was taken back by hand after 7 episodes"]
    assert "delete" in command("--history")[1].splitlines()[-1]
    assert len(run.provenances()) == 1
    assert run.undo_write(8) == 9
    assert list(run.memory()["item"]) == [1, 2, 3]
    again = writing.streamed(run.path, "reasoningbank", answer, 2, n=7, embedder=WordEmbedder())
    assert len(again.latest()) == 7
    assert [one["write"] for one in again.undone()] == [4, 8]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--undo", "99"], "there is no write 99; there are 1 to 7"),
        (["--at", "99"], "has writes 0"),
        (["--at", "1", "--undo", "1"], "give one of"),
        (["--undo", "0"], "0 is not in the range"),
    ],
)
def test_a_write_that_cannot_be_taken_back_leaves_the_run_as_it_is(
    run: Run, args: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        cli.main(["items", str(run.path), *args])
    assert stop.value.code == 2
    assert says in capsys.readouterr().err
    assert run.undone() == []
    assert len(run.items()) == 7


def test_nothing_is_taken_back_while_the_run_is_written(run: Run) -> None:
    lock = RunLock(run.path)
    lock.acquire()
    with pytest.raises(UserError, match="another process is writing"):
        run.undo_write(4)
    lock.release()
    assert len(run.items()) == 7


def test_the_items_that_stand(run: Run) -> None:
    frame = memory_frame(run)
    assert list(frame["item"]) == [1, 2, 3]
    assert list(frame["born"]) == list(frame["changed"]) == [2, 4, 6]
    assert list(frame["position"]) == [1, 3, 5]
    assert list(frame["data.task_id"]) == ["b1", "b3", "b5"]
    assert len(memory_frame(run, at=3)) == 1
    assert len(memory_frame(run, at=0)) == 0
    assert "position" in memory_frame(run, at=0).columns
    for at in (-1, 8):
        with pytest.raises(UserError, match="has writes 0"):
            memory_frame(run, at=at)


def test_a_table_for_a_notebook_is_no_danger_to_the_page(run: Run) -> None:
    page = memory_html(run)
    assert "<b>3 items</b> after 7 writes" in page
    assert "insert, episode 5" in page
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt; \\x00\\ud83d" in page
    page.encode()
    assert "<b>0 items</b> after 0 writes" in memory_html(run, at=0)


def test_only_the_newest_of_many_items_are_in_the_table(run: Run) -> None:
    store = ItemStore(run.path / "bank.sqlite")
    store.apply("many", [Change("insert", "rule", {"text": f"r{n}"}) for n in range(300)])
    store.close()
    page = memory_html(run)
    assert "<b>303 items</b> after 8 writes, the last 200 of them shown" in page
    assert page.count("<details>") == 200


def test_reading_changes_no_file_but_sqlites_own_beside_it(run: Run) -> None:
    def state() -> dict[str, str]:
        files = sorted(path for path in run.path.iterdir() if not path.name.endswith(("-shm", "-wal")))
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    before = state()
    run.items(), memory_frame(run), memory_html(run)
    assert state() == before
    store = ItemStore(run.path / "bank.sqlite", read_only=True)
    with pytest.raises(UserError, match="reading only"):
        store.apply("e", [Change("insert", "rule", {"text": "x"})])
    with pytest.raises(UserError, match="reading only"):
        store.undo(2)
    store.close()
    assert state() == before


def test_a_store_is_read_while_its_run_writes_it(run: Run) -> None:
    writer = ItemStore(run.path / "bank.sqlite")
    writer._db.execute("BEGIN IMMEDIATE")
    writer._db.execute("INSERT INTO item_writes VALUES (8, 'half', 'null')")
    assert len(run.items()) == 7
    assert len(memory_frame(run)) == 3
    writer._db.execute("ROLLBACK")
    writer.apply("whole", [Change("insert", "rule", {"text": "x"})])
    assert len(run.items()) == 8
    assert "<b>4 items</b>" in memory_html(run)
    writer.close()


def test_a_write_between_two_looks_is_left_out(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    look = ItemStore.items

    def busy(self: ItemStore, *options: object, **named: object) -> object:
        found = look(self, *options, **named)  # type: ignore[arg-type]
        writer = ItemStore(run.path / "bank.sqlite")
        writer.apply("meanwhile", [Change("update", "record", {"query": "late"}, 1)])
        writer.close()
        return found

    monkeypatch.setattr(ItemStore, "items", busy)
    assert "late" not in memory_html(run)
    assert list(memory_frame(run, at=7)["changed"]) == [2, 4, 6]


def test_a_run_without_items_says_so(tmp_path: Path) -> None:
    from jitmem_lab.execution import Executor
    from jitmem_lab.memories import load_memory
    from jitmem_lab.stream import run_stream

    from .doubles import ButtonBenchmark, RuleModel

    for name, options, says in (
        ("none", {}, "there is no bank"),
        ("raw", {"gate": "environment"}, "its memory writes none"),
    ):
        bench = ButtonBenchmark(2)
        executor = Executor(RuleModel(), temperature=1.0)
        memory = load_memory(name, **options)
        run = run_stream(bench, memory, executor, out=tmp_path / name, progress=False)
        with pytest.raises(UserError, match=says):
            run.items()
        with pytest.raises(UserError, match=says):
            memory_html(run)
        bank = run.path / "bank.sqlite"
        content = bank.read_bytes() if bank.exists() else None
        with pytest.raises(UserError, match=says):
            run.undo_write(1)
        assert (bank.read_bytes() if bank.exists() else None) == content


def test_who_wrote_is_said_in_words(run: Run) -> None:
    store = ItemStore(run.path / "bank.sqlite")
    store.apply("warm:0123abcd", [Change("insert", "record", {"query": "put <b>a mug</b>", "items": []})])
    store.apply("warm:4567", [Change("insert", "skill", {"name": "n", "task_ids": ["a", "b"]})])
    store.apply("warm:89", [Change("update", "skill", {"name": "n", "task_ids": ["a", "b", "c"]}, 5)])
    store.undo(10)
    store.close()
    page = memory_html(run)
    assert "insert, a demonstration of “put &lt;b&gt;a mug&lt;/b&gt;”" in page
    assert "update, a demonstration of “c”" in page
    assert "by hand: write 10 taken back" in page
    assert "insert, a demonstration<" in page, "of two tasks none is named"
    assert "warm:" not in page
    assert "undo:" not in page


def test_texts_are_shown_whole_where_asked_for_and_dead_ends_lead_on(
    run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            cli.main(["items", *args])
        return (int(stop.value.code or 0), *capsys.readouterr())

    store = ItemStore(run.path / "bank.sqlite")
    text = "word " * 60 + "end"
    store.apply("hand", [Change("insert", "record", {"query": "q", "items": [{"content": text}]})])
    store.close()
    code, out, error = command(str(run.path))
    assert code == 0
    assert "word end" not in out
    assert "--full" in error
    assert "word end" in command(str(run.path), "--full")[1]
    code, out, _ = command(str(run.path), "--item", "4")
    assert out.splitlines()[0].startswith("item 4  kind record")
    assert "word end" in out
    assert out.count("item ") == 1
    assert "op insert" in command(str(run.path), "--item", "4", "--history")[1]
    assert "there is no item 77" in command(str(run.path), "--item", "77")[2]
    code, _, error = command(str(run.path.parent))
    assert (code, f"give one of them, such as {run.path}" in error) == (2, True)
    config = run.path / "config.json"
    there = json.loads(config.read_text())
    for memory, says in (("none", "stores nothing; runs of reasoningbank"), ("jitmem", "shows its bank")):
        there["settings"]["memory"]["name"] = memory
        config.write_text(json.dumps(there))
        code, out, error = command(str(run.path))
        assert (code, out) == (2, "")
        assert says in error
    assert "runs of reasoningbank" in command(str(run.path.parent))[2]
