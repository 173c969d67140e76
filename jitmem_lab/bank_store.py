"""The bank's SQLite file: opening it with care, its tables, and how a trace is written into them."""

from __future__ import annotations

import contextlib
import json
import math
import sqlite3
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .errors import InfrastructureError, UserError
from .records import Trajectory, to_json

BANK_SCHEMA = 1
"""Version of the tables; a bank with a newer one is refused."""
FACTS = ("task_id", "task_type", "description", "steps", "outcome", "reward", "benchmark", "split", "source")
"""What is kept of each trajectory beside its body, so that listing a bank reads no body."""

_APPLICATION = 0x4A4D4C42
_WAIT = 30.0
_FORBIDDEN = (sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_AUTH)
_TABLES = (
    "CREATE TABLE about(name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE traces(id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, task TEXT NOT NULL, "
    "text TEXT NOT NULL, facts TEXT NOT NULL, labels TEXT NOT NULL, added REAL NOT NULL, "
    "chain BLOB NOT NULL)",
    "CREATE INDEX traces_by_task ON traces(task)",
    "CREATE TABLE bodies(id INTEGER PRIMARY KEY, trajectory BLOB NOT NULL)",
)


class Row(NamedTuple):
    """One trace as it is stored: text as ASCII JSON, since SQLite takes no lone surrogates."""

    key: str
    """The unique key."""
    task: str
    """The task id."""
    text: str
    """The text that retrieval compares."""
    facts: str
    """`FACTS` of the trajectory."""
    labels: str
    """The labels."""
    body: bytes
    """The whole trajectory, compressed."""


def encode(key: str, trajectory: Trajectory, labels: Mapping[str, Any]) -> Row:
    """What is stored of one trace; `UserError` if something in it isn't JSON."""
    task = trajectory.task
    facts = {
        "task_id": task.task_id,
        "task_type": task.task_type,
        "description": task.description,
        "steps": len(trajectory.steps),
        "outcome": trajectory.outcome,
        "reward": trajectory.reward,
        "benchmark": task.benchmark,
        "split": task.split,
        "source": trajectory.source,
    }
    try:
        return Row(
            key=json.dumps(key),
            task=json.dumps(task.task_id),
            text=json.dumps(task.retrieval_key),
            facts=to_json(facts),
            labels=to_json(_finite(dict(labels))),
            body=zlib.compress(trajectory.to_line().encode()),
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"the trace {key!r} holds a value that can't be written as JSON ({error}); nothing was stored"
        ) from error


def decode(body: bytes) -> Trajectory:
    """The trajectory of a stored body."""
    trajectory: Trajectory = Trajectory.from_line(zlib.decompress(body).decode())
    return trajectory


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


def open_store(path: Path | None, read_only: bool) -> sqlite3.Connection:
    """A connection to the bank at `path` (None: in memory), made into one if the file is missing or empty.

    Raises:
        UserError: For a missing folder or file, a file that isn't a bank (left untouched), a newer bank.
    """
    db = connect(path, read_only)
    try:
        if not _is_bank(db, path):
            if read_only:
                raise UserError(f"{path} is still empty; open it again once its run has begun")
            _create(db, path)
        if not read_only:
            db.execute("PRAGMA synchronous = FULL")
    except BaseException:
        db.close()
        raise
    return db


@contextlib.contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All statements inside, durably, or none."""
    # IMMEDIATE takes the write lock first; a read lock that wants to become one can fail without waiting.
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def explained(path: Path | None) -> Iterator[None]:
    """SQLite's errors turned into ours."""
    name = path or "in memory"
    try:
        yield
    except sqlite3.ProgrammingError as error:
        raise UserError(f"the bank {name} is closed ({error}); open it again") from error
    except (sqlite3.OperationalError, OSError) as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _FORBIDDEN or isinstance(error, PermissionError):
            raise UserError(f"the bank {name} can't be used ({error}); check its permissions") from error
        raise InfrastructureError(f"the bank {name} can't be used now: {error}") from error
    except sqlite3.DatabaseError as error:
        raise UserError(f"{name} is not a memory bank, or is damaged ({error}); give another path") from error


def _open(name: str, uri: bool = False) -> sqlite3.Connection:
    return sqlite3.connect(name, timeout=_WAIT, isolation_level=None, check_same_thread=False, uri=uri)


def connect(path: Path | None, read_only: bool) -> sqlite3.Connection:
    """A connection that a reader may hold beside a writer; `UserError` for a missing file or folder."""
    if path is None:
        return _open(":memory:")
    if path.is_dir():
        raise UserError(f"{path} is a folder; name the bank's file inside it")
    if not read_only:
        if not path.parent.is_dir():
            raise UserError(f"the folder {path.parent} of the bank does not exist; create it first")
        return _open(str(path))
    if not path.exists():
        raise UserError(f"there is no bank at {path}; check the path")
    uri = path.resolve().as_uri() + "?mode=ro"
    db = _open(uri, uri=True)
    try:
        db.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        db.close()
        # SQLite can't make its shared-memory file in a write-protected folder. Without a write-ahead log
        # nobody is writing, and the file can be read as it lies.
        if path.with_name(path.name + "-wal").exists():
            raise
        db = _open(uri + "&immutable=1", uri=True)
    except BaseException:
        db.close()
        raise
    return db


def _is_bank(db: sqlite3.Connection, path: Path | None) -> bool:
    """True for a bank that this version reads, False for an empty file; `UserError` otherwise."""
    # The tables first: another process makes tables and mark in one transaction, which may end in between.
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    application = db.execute("PRAGMA application_id").fetchone()[0]
    if not tables and application in (0, _APPLICATION):
        return False
    if application != _APPLICATION:
        raise UserError(f"{path} is not a memory bank; give another path")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > BANK_SCHEMA:
        raise UserError(
            f"{path} was written with bank schema {version}, newer than {BANK_SCHEMA} which this version "
            "reads; upgrade jitmem-lab to open it"
        )
    return True


def _create(db: sqlite3.Connection, path: Path | None) -> None:
    deadline = time.monotonic() + _WAIT
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:  # another process is at it; for this SQLite doesn't wait by itself
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    with transaction(db):
        if not _is_bank(db, path):
            for statement in _TABLES:
                db.execute(statement)
            db.execute("INSERT INTO about VALUES ('uid', ?)", (uuid.uuid4().hex,))
            db.execute(f"PRAGMA user_version = {BANK_SCHEMA}")
            db.execute(f"PRAGMA application_id = {_APPLICATION}")
