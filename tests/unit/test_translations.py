"""Translated games are kept from run to run, and a cache that fails costs nothing but time."""

from __future__ import annotations

import pickle
import zlib
from pathlib import Path

import pytest

from jitmem_lab.benchmarks.alfworld.translations import kept


class Translator:
    """Counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def __call__(self, domain: str, problem: str) -> tuple[str, str]:
        self.asked.append((domain, problem))
        return (domain.upper(), problem.upper())


def test_kept_in_memory_and_on_disk(tmp_path: Path) -> None:
    first, second = Translator(), Translator()
    one = kept(first, tmp_path / "games")
    assert one("a", "b") == one("a", "b") == ("A", "B")
    assert one("ab", "") == ("AB", "")
    assert first.asked == [("a", "b"), ("ab", "")]
    assert kept(second, tmp_path / "games")("a", "b") == ("A", "B")
    assert second.asked == []
    assert len(list((tmp_path / "games").iterdir())) == 2


def test_the_oldest_leaves_memory_first() -> None:
    asked = Translator()
    some = kept(asked, None, games=2)
    for problem in ("x", "y", "x", "z", "x", "y"):
        some("d", problem)
    assert [problem for _, problem in asked.asked] == ["x", "y", "z", "y"]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"not compressed",
        zlib.compress(b"no pickle"),
        zlib.compress(pickle.dumps(("A", "B")))[:-5],
        zlib.compress(b"cno_such_module\nThing\n."),
        zlib.compress(pickle.dumps({"task": "A"})),
        zlib.compress(pickle.dumps("AB")),
        zlib.compress(pickle.dumps(("A", "B", "C"))),
        zlib.compress(pickle.dumps((None, "B"))),
        zlib.compress(pickle.dumps(("A", 5))),
    ],
    ids=[
        "empty",
        "text",
        "no pickle",
        "torn",
        "of another version",
        "a dict",
        "a text alone",
        "three parts",
        "no task",
        "no text",
    ],
)
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: bytes) -> None:
    kept(Translator(), tmp_path)("a", "b")
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage)
    asked = Translator()
    assert kept(asked, tmp_path)("a", "b") == ("A", "B")
    assert len(asked.asked) == 1
    again = Translator()
    assert kept(again, tmp_path)("a", "b") == ("A", "B")
    assert again.asked == []


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    asked = Translator()
    assert kept(asked, tmp_path / "file" / "games")("a", "b") == ("A", "B")
    assert len(asked.asked) == 1


def test_what_cannot_be_translated_is_not_kept(tmp_path: Path) -> None:
    def broken(domain: str, problem: str) -> None:
        raise ValueError("no such thing")

    with pytest.raises(ValueError, match="no such thing"):
        kept(broken, tmp_path)("a", "b")
    assert list(tmp_path.iterdir()) == []
