"""Games of one split: read from either data layout, kept in a small indexed store in the user's cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import lzma
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from ...data import DataSource, cache_dir
from ...errors import UserError
from .catalogue import LEAD

_FORMAT = 1
_TASK_MARK = "@@TASK@@"


class Game(NamedTuple):
    """One game, whole."""

    game_id: str
    """`task/trial`, the same in both layouts."""
    task_type: str
    """One of the six types."""
    goal: str
    """The task sentence, without its lead."""
    scene: str
    """The room's name or number."""
    domain: str
    """PDDL domain text."""
    grammar: str
    """Text grammar, with the task sentence in it."""
    problem: str
    """PDDL problem text."""
    walkthrough: list[str]
    """Actions that solve it."""

    @property
    def sha(self) -> str:
        """Content hash of what is played, 16 hex digits."""
        text = "\0".join((self.domain, self.grammar, self.problem))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


class Entry(NamedTuple):
    """What is known of a game without opening it."""

    game_id: str
    task_type: str
    goal: str
    scene: str
    sha: str


def read_games(source: DataSource, split: str) -> Iterator[Game]:
    """Games of a real split, in the order of their ids."""
    if source.kind == "packed":
        yield from _packed(source, split)
    else:
        yield from _downloaded(source, split)


def _packed(source: DataSource, split: str) -> Iterator[Game]:
    assert source.path is not None
    domain = (source.path / "alfred.domain.pddl").read_text(encoding="utf-8")
    grammar = (source.path / "alfred.grammar.twl2").read_text(encoding="utf-8")
    path = source.path / f"{split}.jsonl.xz"
    try:
        with lzma.open(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                if not row["solvable"]:
                    continue
                yield Game(
                    f"{row['task']}/{row['trial']}",
                    row["task_type"],
                    row["goal"].removeprefix(LEAD),
                    str(row["scene_num"]),
                    domain,
                    grammar.replace(_TASK_MARK, row["goal"]),
                    row["pddl_problem"],
                    row["walkthrough"],
                )
    except (OSError, EOFError, lzma.LZMAError, ValueError, KeyError) as error:
        raise UserError(f"{path} can't be read ({error!r}); copy it again from its source") from None


def _downloaded(source: DataSource, split: str) -> Iterator[Game]:
    assert source.path is not None
    root = source.path / "json_2.1.1" / split
    for path in sorted(root.glob("*/*/game.tw-pddl")):
        task, trial = path.parts[-3:-1]
        if "movable" in task or "Sliced" in task:  # left out by ALFWorld itself
            continue
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            if not data.get("solvable"):
                continue
            sentence = next(line for line in data["grammar"].splitlines() if LEAD in line)
            goal = json.loads("{" + sentence.strip() + "}")["rhs"].removeprefix(LEAD)
            game = Game(
                f"{task}/{trial}",
                _task_type(path.with_name("traj_data.json"), task),
                goal,
                task.rsplit("-", 1)[-1],
                data["pddl_domain"],
                data["grammar"],
                data["pddl_problem"],
                data.get("walkthrough") or [],
            )
        except (OSError, ValueError, KeyError, StopIteration) as error:
            raise UserError(f"{path} can't be read ({error!r}); run alfworld-download again") from None
        yield game


def _task_type(meta: Path, folder: str) -> str:
    with contextlib.suppress(OSError, ValueError, KeyError):
        return str(json.loads(meta.read_text(encoding="utf-8"))["task_type"])
    return folder.split("-", 1)[0]


def fingerprint(source: DataSource, split: str) -> str:
    """Short hash that changes when the files of a real split change."""
    assert source.path is not None
    digest = hashlib.sha256(f"{_FORMAT}:{source.kind}:{split}".encode())
    if source.kind == "packed":
        for name in (f"{split}.jsonl.xz", "alfred.domain.pddl", "alfred.grammar.twl2"):
            digest.update((source.path / name).read_bytes())
    else:
        for path in sorted((source.path / "json_2.1.1" / split).glob("*/*/game.tw-pddl")):
            stat = path.stat()
            digest.update(f"{path}:{stat.st_size}:{stat.st_mtime_ns}".encode())
    return digest.hexdigest()[:16]


class Store:
    """Games of one split, indexed by id and compressed, in one file of the user's cache.

    Built once for each state of the data (by content or file dates), with one atomic rename; kept in
    memory where the cache can't be written.
    """

    def __init__(self, key: str, games: Iterable[Game]) -> None:
        self._lock = threading.Lock()
        self._db = _open(key, games)
        rows = self._db.execute("SELECT id, type, goal, scene, sha FROM games ORDER BY place")
        self.entries = [Entry(*row) for row in rows]
        self._places = {entry.game_id: place for place, entry in enumerate(self.entries)}
        joined = "\n".join(f"{entry.game_id} {entry.sha}" for entry in self.entries)
        self.content_hash = hashlib.sha256(joined.encode()).hexdigest()[:16]

    def __contains__(self, game_id: str) -> bool:
        return game_id in self._places

    def game(self, game_id: str) -> Game:
        """The whole game; `UserError` when the split has none of that id."""
        if game_id not in self._places:
            raise UserError(f"no game {game_id!r} here; take tasks from the benchmark's own tasks()")
        with self._lock:
            query = "SELECT body, domain, type, goal, scene FROM games WHERE place = ?"
            body, domain, kind, goal, scene = self._db.execute(query, (self._places[game_id],)).fetchone()
            (text,) = self._db.execute("SELECT body FROM texts WHERE id = ?", (domain,)).fetchone()
        grammar, problem, walkthrough = json.loads(zlib.decompress(body))
        return Game(game_id, kind, goal, scene, text, grammar, problem, walkthrough)

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _open(key: str, games: Iterable[Game]) -> sqlite3.Connection:
    path = cache_dir() / "alfworld" / f"{key}.sqlite"
    with contextlib.suppress(sqlite3.DatabaseError):
        if path.is_file():
            db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
            if db.execute("SELECT value FROM meta WHERE name = 'complete'").fetchone():
                return db
            db.close()
    scratch = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        target = str(scratch)
        scratch.touch()
    except OSError:
        target = ":memory:"
    db = sqlite3.connect(target, check_same_thread=False)
    try:
        _fill(db, games)
        if target != ":memory:":
            db.close()
            scratch.replace(path)
            db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
    finally:
        with contextlib.suppress(OSError):
            scratch.unlink(missing_ok=True)
    return db


def _fill(db: sqlite3.Connection, games: Iterable[Game]) -> None:
    db.executescript(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT);"
        "CREATE TABLE texts (id INTEGER PRIMARY KEY, body TEXT UNIQUE);"
        "CREATE TABLE games (place INTEGER PRIMARY KEY, id TEXT UNIQUE, type TEXT, goal TEXT, scene TEXT,"
        " sha TEXT, domain INTEGER, body BLOB);"
    )
    domains: dict[str, int] = {}
    for place, game in enumerate(games):
        domain = domains.setdefault(game.domain, len(domains))
        body = zlib.compress(json.dumps([game.grammar, game.problem, game.walkthrough]).encode(), 1)
        row = (place, game.game_id, game.task_type, game.goal, game.scene, game.sha, domain, body)
        db.execute("INSERT INTO games VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    db.executemany("INSERT INTO texts VALUES (?, ?)", [(number, text) for text, number in domains.items()])
    db.execute("INSERT INTO meta VALUES ('complete', '1')")
    db.commit()


def real_store(source: DataSource, split: str) -> Store:
    """The store of a real split."""
    return Store(f"{split}-{fingerprint(source, split)}", read_games(source, split))
