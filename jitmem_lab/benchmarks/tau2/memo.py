"""What τ² does again for each environment, done once a worker: reading databases, hashing, checking tools.

It reads the whole file (airline: 7 MB) for each environment, three times an episode, and hashes all of it
at each grading. Here the tables of a large database hold shared rows; a row is copied when it is first
handed out, and rows that never were are hashed once. Rewards are the same: two databases' hashes are
equal exactly where τ²'s are.
"""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
from collections.abc import ItemsView, Iterator, ValuesView
from typing import Any

from pydantic import BaseModel


class Shared:
    """One database as it is in its file, to make environments' databases from."""

    def __init__(self, database: Any) -> None:
        self._database = database
        self._tables = _tables_only(database)
        self._packed: dict[str, dict[str, bytes]] = {name: {} for name in vars(database)}
        self._texts: dict[str, dict[str, str]] = {name: {} for name in vars(database)}

    def lend(self) -> Any:
        """A database of one's own; rows of large ones are copied when used."""
        if not self._tables:
            return copy.deepcopy(self._database)
        tables = {
            name: Table(rows, self._packed[name], self._texts[name])
            for name, rows in vars(self._database).items()
        }
        return self._database.model_copy(update=tables)


class Table(dict[str, Any]):
    """Shared rows by key; one that is handed out is first copied, so that nobody writes to the shared one.

    Args:
        shared: The rows.
        packed: Pickles of shared rows, from which copies are made; filled here.
        texts: What shared rows add to the hash; filled here.
    """

    def __init__(self, shared: dict[str, Any], packed: dict[str, bytes], texts: dict[str, str]) -> None:
        super().__init__(shared)
        self._lent = set(shared)
        self._packed = packed
        self._texts = texts

    def __getitem__(self, key: str) -> Any:
        row = super().__getitem__(key)
        if key in self._lent:
            if key not in self._packed:
                self._packed[key] = pickle.dumps(row, pickle.HIGHEST_PROTOCOL)
            row = pickle.loads(self._packed[key])
            self[key] = row
        return row

    def __setitem__(self, key: str, row: Any) -> None:
        self._lent.discard(key)
        super().__setitem__(key, row)

    def __delitem__(self, key: str) -> None:
        self._lent.discard(key)
        super().__delitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The row of `key`, or `default`."""
        return self[key] if key in self else default  # noqa: SIM401

    def __iter__(self) -> Iterator[str]:
        # with an own iterator `dict(table)` and `{**table}` come through __getitem__ too
        return super().__iter__()

    def values(self) -> ValuesView[Any]:  # type: ignore[override]
        """The rows, each copied as it is reached."""
        return ValuesView(self)

    def items(self) -> ItemsView[str, Any]:  # type: ignore[override]
        """Keys and rows, each copied as it is reached."""
        return ItemsView(self)

    def pop(self, key: str, *default: Any) -> Any:
        """Take a row out."""
        if key not in self:
            return super().pop(key, *default)
        row = self[key]
        del self[key]
        return row

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The row of `key`, put in if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, *more: Any, **named: Any) -> None:
        """Put rows in."""
        for key, row in dict(*more, **named).items():
            self[key] = row

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(dict.__getitem__(self, key), memo) for key in self}

    def copy(self) -> dict[str, Any]:
        """A plain dict of rows that are one's own."""
        return dict(self.items())

    def digest(self) -> str:
        """Hash of keys and rows, whatever their order."""
        parts = []
        for key in sorted(self):
            row = dict.__getitem__(self, key)
            if key not in self._lent:
                parts.append(_text(key, row))
                continue
            if key not in self._texts:
                self._texts[key] = _text(key, row)
            parts.append(self._texts[key])
        return hashlib.sha256(",".join(parts).encode()).hexdigest()


def _text(key: str, row: Any) -> str:
    value = row.model_dump() if isinstance(row, BaseModel) else row
    return json.dumps({key: value}, sort_keys=True, default=str)


def install() -> None:
    """Let τ² use all this; to be called once, after the package is loaded."""
    from tau2.environment.db import DB
    from tau2.environment.environment import Environment
    from tau2.environment.toolkit import ToolKitBase

    shared: dict[tuple[type, str], Shared] = {}
    checked: set[tuple[type, type]] = set()
    read, hash_of = DB.load.__func__, ToolKitBase.get_db_hash
    validate = Environment.validate_solo_mode

    def load(cls: type, path: Any) -> Any:
        key = (cls, str(path))
        if key not in shared:
            shared[key] = Shared(read(cls, path))
        return shared[key].lend()

    def get_db_hash(self: Any) -> str:
        tables = vars(self.db) if self.db is not None else {}
        if not tables or not all(isinstance(rows, Table) for rows in tables.values()):
            return str(hash_of(self))
        listed = "\n".join(f"{name} {rows.digest()}" for name, rows in sorted(tables.items()))
        return hashlib.sha256(listed.encode()).hexdigest()

    def validate_solo_mode(self: Any) -> None:
        kinds = (type(self.tools), type(self.user_tools))
        if kinds not in checked:
            validate(self)
        checked.add(kinds)

    DB.load = classmethod(load)
    ToolKitBase.get_db_hash = get_db_hash
    Environment.validate_solo_mode = validate_solo_mode


def _tables_only(database: Any) -> bool:
    """Whether every field is a dict of records, and so can be lent."""
    return all(
        isinstance(rows, dict) and all(isinstance(row, BaseModel) for row in rows.values())
        for rows in vars(database).values()
    )
