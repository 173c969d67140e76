"""A grid of evaluations: which parameters vary, what is fixed, and the cells that come of it.

A grid file (TOML or JSON) has up to three tables: `fixed` holds parameters of every cell, `grid` lists of
values, of which each combination is a cell, and `rows` named sets of parameters, each combined with all
of `grid`. All names are parameters of `evaluation.EvalConfig`.
"""

from __future__ import annotations

import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import UserError
from .evaluation import MODELS, EvalConfig, without_secrets
from .records import content_hash

ITSELF = ("memory", "benchmark", "split", "preset", "variant")
"""Parameters whose values stand in a cell's name without the parameter's own."""
_PARTS = ("fixed", "grid", "rows")
MOST_CELLS = 10_000
"""Cells of a grid; more are a mistake."""
_TAKEN = ("notebooks", "sweep.json")
"""What a sweep's folder holds beside its runs."""
_LONGEST = 200


@dataclass(frozen=True)
class Cell:
    """One run of a grid."""

    name: str
    """Its name, and that of its folder."""
    row: str
    """The named row that it belongs to; empty without rows."""
    parameters: dict[str, Any]
    """What was asked for, without what a preset adds."""
    config: EvalConfig
    """The whole config."""


@dataclass(frozen=True)
class Grid:
    """What varies and what doesn't."""

    fixed: dict[str, Any] = field(default_factory=dict)
    """Parameters of every cell."""
    axes: dict[str, list[Any]] = field(default_factory=dict)
    """Values of each parameter that varies; the first varies slowest."""
    rows: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Named sets of parameters; each goes before `fixed`, and is combined with all of `axes`."""

    @classmethod
    def make(cls, value: Mapping[str, Any], where: str = "the grid") -> Grid:
        """A grid from its tables `fixed`, `grid` and `rows`.

        Raises:
            UserError: An unknown table, or one of another shape.
        """
        for name, part in value.items():
            if name not in _PARTS:
                raise UserError(f"{where} has a table {name!r}; there are {', '.join(_PARTS)}")
            if not isinstance(part, Mapping):
                raise UserError(f"{name} of {where} must be a table of names and values")
        axes: dict[str, list[Any]] = {}
        for name, values in value.get("grid", {}).items():
            if not isinstance(values, list | tuple):
                raise UserError(f"grid.{name} of {where} must be a list; one value goes into fixed")
            axes[name] = list(values)
        rows = dict(value.get("rows", {}))
        for name, parameters in rows.items():
            if not isinstance(parameters, Mapping):
                raise UserError(f"rows.{name} of {where} must be a table of parameters")
        return cls(dict(value.get("fixed", {})), axes, {name: dict(p) for name, p in rows.items()})

    @classmethod
    def read(cls, path: str | Path) -> Grid:
        """The grid in a TOML or JSON file.

        Raises:
            UserError: No such file, or no grid in it.
        """
        file = Path(path)
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise UserError(f"the grid {file} cannot be read ({error.strerror}); check the path") from None
        except ValueError:
            raise UserError(f"the grid {file} cannot be read: it is no UTF-8 text") from None
        try:
            value = json.loads(text) if file.suffix == ".json" else tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file} is no readable grid: {error}") from None
        if not isinstance(value, dict):
            raise UserError(f"{file} holds no tables; a grid has {', '.join(_PARTS)}")
        return cls.make(value, str(file))

    def with_pairs(self, pairs: Iterable[tuple[str, str]]) -> Grid:
        """This grid with names and texts of a command line: several values with commas make an axis.

        Raises:
            UserError: An unknown name, one given twice, or no value.
        """
        fixed, axes, seen = dict(self.fixed), dict(self.axes), set()
        for name, text in pairs:
            if name in seen:
                raise UserError(f"parameter {name!r} was given twice; give its values once, with commas")
            seen.add(name)
            values = _values(name, text)
            fixed.pop(name, None)
            if len(values) == 1 and name not in self.axes:
                fixed[name] = values[0]
            else:
                axes[name] = values
        return Grid(fixed, axes, self.rows)

    def cells(self) -> list[Cell]:
        """Every cell, all parameters checked.

        Raises:
            UserError: Unknown or impossible parameters, one that is given in two places, two cells alike, or
                more than `MOST_CELLS`.
        """
        self._check()
        found: dict[str, Cell] = {}
        alike: dict[str, str] = {}
        for row, own in (self.rows or {"": {}}).items():
            for values in itertools.product(*self.axes.values()):
                varied = dict(zip(self.axes, values, strict=True))
                chosen = self.fixed | own | varied
                config = EvalConfig.make(**chosen)
                parameters = {name: getattr(config, name) for name in chosen}
                parts = [_slug(row)] if row else []
                parts += [_slug(_worded(name, parameters[name])) for name in self.axes]
                name = _folder("-".join(parts) or config.memory)
                digest = content_hash(config.request())
                if name in found or digest in alike:
                    raise UserError(f"two cells are the same: {alike.get(digest, name)} and {name}; drop one")
                alike[digest] = name
                found[name] = Cell(name, row, parameters, config)
        return list(found.values())

    def _check(self) -> None:
        for name, values in self.axes.items():
            if not values:
                raise UserError(f"{name} has no values; give one or more")
            places = [part for part in (self.fixed, *self.rows.values()) if name in part]
            if places:
                raise UserError(f"{name} is given twice, with one value and with several; keep one of them")
        count = math.prod(map(len, self.axes.values())) * max(1, len(self.rows))
        if count > MOST_CELLS:
            raise UserError(
                f"the grid has {count:,} cells, and {MOST_CELLS:,} are the most; vary less at once"
            )


def _values(name: str, text: str) -> list[Any]:
    """The values of one parameter of a command line."""
    if name not in EvalConfig.model_fields:
        EvalConfig.make(**{name: text})  # says which name is near
    nullable = type(None) in getattr(EvalConfig.model_fields[name].annotation, "__args__", ())
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{name} is no JSON: {error}") from None
        return value if isinstance(value, list) else [value]
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise UserError(f"{name} takes one value or more, with commas, not {text!r}")
    return [None if nullable and part.lower() in ("none", "null") else part for part in parts]


def _worded(name: str, value: Any) -> str:
    value = without_secrets(value) if name in MODELS and isinstance(value, str) else value
    text = "default" if value is None else json.dumps(value) if isinstance(value, dict) else str(value)
    return text if name in ITSELF else f"{name}{text}"


def _slug(text: str) -> str:
    """`text` as part of a folder's name; a changed one gets a hash, so that two stay two."""
    plain = re.sub(r"[^A-Za-z0-9._+=]+", "_", text).strip("._")[:48]
    return plain if plain == text else f"{plain}_{content_hash(text, 4)}"


def _folder(name: str) -> str:
    """A cell's name as one that a folder can have, beside what else a sweep's folder holds."""
    if len(name) <= _LONGEST and name not in _TAKEN:
        return name
    return f"{name[:_LONGEST]}_{content_hash(name, 8)}"


def duplicates(rows: Mapping[str, Mapping[str, Any]], fixed: Mapping[str, Any]) -> dict[str, str]:
    """Rows that ask for the same as an earlier one, by name, with that one's name."""
    first: dict[str, str] = {}
    found: dict[str, str] = {}
    for name, parameters in rows.items():
        digest = content_hash(EvalConfig.make(**(dict(fixed) | dict(parameters))).request())
        if digest in first:
            found[name] = first[digest]
        first.setdefault(digest, name)
    return found


__all__: Sequence[str] = ("Cell", "Grid", "duplicates")
