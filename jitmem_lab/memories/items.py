"""Items that a write-time memory keeps (insights, skills, rules, workflows), with their whole history.

One table of writes (which episode, when in order) and one of changes (insert, update, delete; what stood
there before and after). The state after any write follows from the changes alone, so a recall sees exactly
the snapshot of its batch, an edit or a deletion can be looked at afterwards, and undone.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..bank_store import connect, explained
from ..errors import InfrastructureError, UserError
from ..records import to_json

Op = Literal["insert", "update", "delete"]

_LAYOUT = """
CREATE TABLE IF NOT EXISTS item_writes (
    number INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, note TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS item_changes (
    id INTEGER PRIMARY KEY, write INTEGER NOT NULL REFERENCES item_writes(number), op TEXT NOT NULL,
    item INTEGER NOT NULL, kind TEXT NOT NULL, before TEXT, after TEXT);
CREATE INDEX IF NOT EXISTS item_changes_by_item ON item_changes(item);
"""
_KEPT = 32
"""States kept in memory beside the empty one: those asked for last. Others are made anew from the changes."""


class Item(NamedTuple):
    """One kept item."""

    id: int
    """Its number, from 1 in order of insertion; never used again."""
    kind: str
    """What it is: insight, skill, rule, workflow, …"""
    data: dict[str, Any]
    """Its fields (JSON only)."""
    born: int
    """The write that inserted it."""
    changed: int
    """The write that last changed it."""


class Change(NamedTuple):
    """One edit to be applied."""

    op: Op
    """What to do."""
    kind: str
    """What it is done to."""
    data: dict[str, Any] | None = None
    """The new fields, whole; None for a deletion."""
    item: int | None = None
    """The item to update or delete; None for an insertion."""


class Past(NamedTuple):
    """One edit as it was applied."""

    write: int
    """Number of the write."""
    key: str
    """Key of the episode whose write it was."""
    op: Op
    """What was done."""
    item: int
    """To which item."""
    kind: str
    """Its kind."""
    before: dict[str, Any] | None
    """Its fields before; None for an insertion."""
    after: dict[str, Any] | None
    """Its fields after; None for a deletion."""


class ItemStore:
    """The items of a memory in one SQLite file, which may be the bank's too.

    Args:
        path: The file, or `:memory:`.
        read_only: Read an existing store, also while its run writes it.

    Raises:
        UserError: The file can't be used, or is to be read and holds no items.
    """

    def __init__(self, path: str | Path, read_only: bool = False) -> None:
        self._lock = threading.RLock()
        self._read_only = read_only
        self._states: dict[int, dict[int, Item]] = {0: {}}
        if read_only:
            with explained(Path(path)):
                self._db = connect(Path(path), read_only=True)
            if not self._all("SELECT 1 FROM sqlite_master WHERE name = 'item_changes'"):
                self._db.close()
                raise UserError(f"{path} holds no items: its memory writes none")
            return
        try:
            self._db = sqlite3.connect(path, timeout=60.0, check_same_thread=False, isolation_level=None)
            if self._foreign():
                self._db.close()
                raise UserError(f"{path} is a database of something else; give another path")
            if str(path) != ":memory:":
                self._db.execute("PRAGMA journal_mode=WAL")
                self._db.execute("PRAGMA synchronous=FULL")
            self._db.executescript(_LAYOUT)
        except sqlite3.Error as error:
            raise UserError(f"{path} can't be used as a store of items ({error})") from None

    def _foreign(self) -> bool:
        """Whether the file holds tables, but neither items nor a bank."""
        tables = {row[0] for row in self._db.execute("SELECT name FROM sqlite_master")}
        return bool(tables) and not tables & {"item_changes", "traces"}

    def apply(self, key: str, changes: Sequence[Change], note: Any = None) -> list[int]:
        """Apply the changes of one write, all or none; a key that was applied before changes nothing.

        Args:
            key: The episode's key.
            changes: In order; each sees those before it.
            note: Anything worth keeping with the write (what was refused and why), JSON only.

        Returns:
            The item of each change; of the first application if there was one before.

        Raises:
            UserError: A change of an item that isn't there; nothing was written then.
        """
        with self._lock, self._transaction():
            known = self._all("SELECT number FROM item_writes WHERE key = ?", key)
            if known:
                rows = self._all("SELECT item FROM item_changes WHERE write = ? ORDER BY id", known[0][0])
                return [row[0] for row in rows]
            number = self._latest() + 1
            state = dict(self._state(number - 1))
            self._all("INSERT INTO item_writes VALUES (?, ?, ?)", number, key, to_json(note))
            done = [self._one(state, number, change) for change in changes]
            self._keep(number, state)
            return done

    def _one(self, state: dict[int, Item], number: int, change: Change) -> int:
        if change.op == "insert":
            item = self._all("SELECT COALESCE(MAX(item), 0) + 1 FROM item_changes")[0][0]
        elif change.item in state and state[change.item].kind == change.kind:
            item = change.item
        else:
            raise UserError(f"there is no {change.kind} {change.item} to {change.op}")
        before = state.get(item)
        data = None if change.data is None else json.loads(to_json(change.data))  # as it will be read back
        _advance(state, number, change.op, item, change.kind, data)
        after = state.get(item)
        self._all(
            "INSERT INTO item_changes (write, op, item, kind, before, after) VALUES (?, ?, ?, ?, ?, ?)",
            number,
            change.op,
            item,
            change.kind,
            None if before is None else to_json(before.data),
            None if after is None else to_json(after.data),
        )
        return int(item)

    def written(self, key: str) -> bool:
        """Whether the write of an episode was applied."""
        with self._lock:
            return bool(self._all("SELECT 1 FROM item_writes WHERE key = ?", key))

    def version(self) -> int:
        """The number of the last write: a token for the present state."""
        with self._lock:
            return self._latest()

    def items(self, kind: str | None = None, at: int | None = None) -> list[Item]:
        """The items after write `at` (None: now), in order of insertion."""
        with self._lock:
            state = self._state(self._latest() if at is None else at)
            return [item for _, item in sorted(state.items()) if kind is None or item.kind == kind]

    def history(self, item: int | None = None) -> list[Past]:
        """Every change in order, or those of one item: who wrote what after which episode."""
        query = (
            "SELECT write, key, op, item, kind, before, after FROM item_changes JOIN item_writes ON "
            "write = number" + (" WHERE item = ?" if item is not None else "") + " ORDER BY id"
        )
        with self._lock:
            rows = self._all(query, *([] if item is None else [item]))
        return [
            Past(*row[:5], *(None if text is None else json.loads(text) for text in row[5:])) for row in rows
        ]

    def writes(self) -> list[tuple[int, str, Any]]:
        """Number, episode key and note of every write, in order."""
        with self._lock:
            rows = self._all("SELECT number, key, note FROM item_writes ORDER BY number")
        return [(number, key, json.loads(note)) for number, key, note in rows]

    def undo(self, write: int) -> int:
        """Take back one write by a new one that does the opposite; the history keeps both.

        Returns:
            The number of the new write.

        Raises:
            UserError: There is no such write, or one of its items is not as it left it.
        """
        with self._lock:
            every = self.history()
            done = [past for past in every if past.write == write]
            if not any(row[0] == write for row in self._all("SELECT number FROM item_writes")):
                raise UserError(f"there is no write {write}; there are 1 to {self._latest()}")
            now = {item.id: item.data for item in self.items()}
            left = {past.item: past.after for past in done}  # as this write left each item
            later = [past for past in every if past.write > write]
            for item, data in left.items():
                if now.get(item) != data:
                    last = max(past.write for past in later if past.item == item)
                    raise UserError(f"write {last} changed item {item} since; undo that one first")
            number = self._latest() + 1
            with self._transaction():
                state = dict(self._state(number - 1))
                self._all(
                    "INSERT INTO item_writes VALUES (?, ?, ?)", number, f"undo:{write}:{number}", "null"
                )
                for past in reversed(done):
                    self._back(state, number, past)
                self._keep(number, state)
            return number

    def _back(self, state: dict[int, Item], number: int, past: Past) -> None:
        op: Op = {"insert": "delete", "delete": "insert", "update": "update"}[past.op]  # type: ignore[assignment]
        _advance(state, number, op, past.item, past.kind, past.before)
        texts = [None if data is None else to_json(data) for data in (past.after, past.before)]
        self._all(
            "INSERT INTO item_changes (write, op, item, kind, before, after) VALUES (?, ?, ?, ?, ?, ?)",
            number,
            op,
            past.item,
            past.kind,
            *texts,
        )

    def close(self) -> None:
        """Close the file; calling it twice is fine."""
        with self._lock:
            self._db.close()

    def _latest(self) -> int:
        return int(self._all("SELECT COALESCE(MAX(number), 0) FROM item_writes")[0][0])

    def _state(self, at: int) -> dict[int, Item]:
        """The items after write `at`, from the nearest earlier state that is known."""
        state = self._states.get(at)
        if state is None:
            base = max(number for number in self._states if number < at)
            state = dict(self._states[base])
            rows = self._all(
                "SELECT write, op, item, kind, after FROM item_changes WHERE write > ? AND write <= ? "
                "ORDER BY id",
                base,
                at,
            )
            for write, op, item, kind, after in rows:
                _advance(state, write, op, item, kind, None if after is None else json.loads(after))
        return self._keep(at, state)

    def _keep(self, at: int, state: dict[int, Item]) -> dict[int, Item]:
        """The state, known from now on as the one asked for last; those asked for long ago are forgotten."""
        self._states.pop(at, None)
        self._states[at] = state
        for number in list(self._states)[:-_KEPT]:
            if number:
                del self._states[number]
        return state

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._read_only:
            raise UserError("this store is open for reading only; open it without read_only to change it")
        self._all("BEGIN IMMEDIATE")
        try:
            yield
            self._all("COMMIT")
        except BaseException:
            for number in [number for number in self._states if number > 0]:
                del self._states[number]
            if self._db.in_transaction:  # a full disk has ended it already
                self._db.execute("ROLLBACK")
            raise

    def _all(self, statement: str, *values: Any) -> list[Any]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise InfrastructureError(f"the store of items failed: {error}") from error


def _advance(
    state: dict[int, Item], write: int, op: str, item: int, kind: str, data: dict[str, Any] | None
) -> None:
    """Apply one change to a state."""
    if op == "delete":
        del state[item]
    else:
        born = state[item].born if item in state else write
        state[item] = Item(item, kind, dict(data or {}), born, write)
