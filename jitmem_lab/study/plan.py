"""A study at a size as a list of runs: each asked for once, whichever tables it stands in."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from .. import data
from ..errors import UserError, did_you_mean
from ..evaluation import EvalConfig, without_secrets
from ..grids import Cell
from ..models import check_spec
from ..records import content_hash
from .parts import PARTS, Part, roles_of
from .sizes import SIZES, Size, World

TRAINING, REFRESH, RUNS = "training", "refresh", "runs"
"""Folders of the training, of its staged refresh and of the runs, in the study's own."""


class Planned(NamedTuple):
    """A part on one split."""

    part: Part
    """Which."""
    benchmark: str
    """What is played."""
    split: str
    """And of it."""
    rows: dict[str, list[str]]
    """Names of the cells of each row, by order."""


@dataclass(frozen=True)
class Plan:
    """Everything that a study runs."""

    size: Size
    """Its size."""
    out: Path
    """Its folder."""
    roles: dict[str, str]
    """Models by role."""
    parts: list[Planned]
    """What is shown."""
    all_cells: dict[str, Cell]
    """What is run, by name."""
    left_out: dict[str, str]
    """Parts and rows that are not run, and why."""
    notes: list[str] = field(default_factory=list)
    """What has to be told of the data."""
    asked: dict[str, Any] = field(default_factory=dict)
    """What was asked beside the size, as options of the command."""

    def cells(self) -> list[Cell]:
        """Every run, once."""
        return list(self.all_cells.values())

    @property
    def main(self) -> Planned | None:
        """Table 1, on the first benchmark that has it."""
        return next((planned for planned in self.parts if planned.part.name == "table_1"), None)

    @property
    def trains(self) -> bool:
        """Whether a curator is trained here."""
        return self.size.training is not None and self.roles.get("trained") == own_curator(self.out, TRAINING)

    @property
    def refreshes(self) -> bool:
        """Whether it is trained further here."""
        return self.trains and self.size.refresh is not None


def own_curator(out: Path, stage: str) -> str:
    """The curator that the study itself trains, as a model's name."""
    folder = out.resolve() / stage
    return f"hf:{folder / 'run' / 'curator' if stage == REFRESH else folder / 'curator'}"


def make_plan(
    size: str,
    out: str | Path,
    *,
    parts: Sequence[str] = (),
    roles: Mapping[str, str] | None = None,
    games: int | None = None,
    orders: int | None = None,
) -> Plan:
    """What a study of a size runs.

    Args:
        size: Name of one of `SIZES`.
        out: Its folder.
        parts: Names of `PARTS`; none takes all.
        roles: Models in place of the size's, by role.
        games: Tasks of every run at most; None leaves the size's.
        orders: Orders at most; None leaves the size's.

    Raises:
        UserError: An unknown size, part, role or model, a password in a model's address, no games or orders,
            or a folder that cannot be named.
    """
    if size not in SIZES:
        raise UserError(f"there is no size {size!r}; there are {', '.join(SIZES)}")
    for name in parts:
        if name not in PARTS:
            raise UserError(f"there is no part {name!r}; {did_you_mean(name, PARTS, ', '.join(PARTS))}")
    if (games is not None and games < 1) or (orders is not None and orders < 1):
        raise UserError("games and orders must be 1 or more")
    chosen, folder = SIZES[size], _nameable(Path(out))
    parts = list(dict.fromkeys(parts))
    models = _roles(chosen, folder, roles or {})
    asked: dict[str, Any] = {"part": parts} if parts else {}
    asked |= {"role": [(role, model) for role, model in roles.items()]} if roles else {}
    asked |= {name: value for name, value in (("games", games), ("orders", orders)) if value is not None}
    plan = Plan(chosen, folder, models, [], {}, {}, asked=asked)
    cells: dict[str, Cell] = {}
    look = functools.cache(_with_data)  # it takes a second
    for part in PARTS.values():  # of all of them, so that a run's name does not depend on which are asked for
        wanted = plan if not parts or part.name in parts else replace(plan, parts=[], left_out={}, notes=[])
        _add_part(wanted, part, games, orders, cells, look)
    by_name = {cell.name: cell for cell in cells.values()}
    names = [name for planned in plan.parts for own in planned.rows.values() for name in own]
    plan.all_cells.update({name: by_name[name] for name in names})
    return plan


def _add_part(
    plan: Plan,
    part: Part,
    games: int | None,
    orders: int | None,
    cells: dict[str, Cell],
    look: Callable[[str], set[str]],
) -> None:
    """A part on each of its benchmarks and splits, or why it is left out; `cells` by what they ask."""
    size = plan.size
    if part.name in size.leaves_out:
        plan.left_out[part.name] = size.leaves_out[part.name]
        return
    for benchmark in part.benchmarks:
        world = size.worlds.get(benchmark)
        key = f"{part.name} on {benchmark}"
        if world is None:
            plan.left_out[key] = "no model of this size plays it"
        elif key in size.leaves_out:
            plan.left_out[key] = size.leaves_out[key]
        else:
            for split in _splits(benchmark, world, plan, look):
                planned = _planned(plan, part, benchmark, split, world, games, orders, cells)
                if planned.rows:
                    plan.parts.append(planned)


def _nameable(out: Path) -> Path:
    """The study's folder, once its whole path is one that files can hold."""
    try:
        str(out.resolve()).encode()
    except UnicodeEncodeError:
        why = "its path is no UTF-8 text"
    except (OSError, RuntimeError, ValueError) as error:  # no current folder, a loop of links, a NUL
        why = getattr(error, "strerror", None) or str(error)
    else:
        return out
    raise UserError(f"the folder {str(out)[:80]!r} cannot hold a study ({why}); choose another")


def _roles(size: Size, out: Path, given: Mapping[str, str]) -> dict[str, str]:
    known = {"executor", "curator", "writer", "trained", "refreshed", "strong", "second", "third"}
    known |= set(size.roles)
    for name, model in given.items():
        if name not in known:
            raise UserError(f"there is no role {name!r}; there are {', '.join(sorted(known))}")
        kind, _ = check_spec(model)
        if kind == "openai" and without_secrets(model) != model:
            raise UserError(
                f"the address {without_secrets(model)} is given with a user, password or query, which would "
                "be written down; leave it out (the key comes from OPENAI_API_KEY)"
            )
    own = {}
    if size.training is not None:
        own["trained"] = own_curator(out, TRAINING)
    if size.refresh is not None:
        own["refreshed"] = own_curator(out, REFRESH)
    return own | size.roles | dict(given)


def _splits(benchmark: str, world: World, plan: Plan, look: Callable[[str], set[str]]) -> list[str]:
    """The splits that are played; of alternatives one that was begun here, else the first with data."""
    if not world.either:
        return list(world.splits)
    begun = [split for split in world.splits if any((plan.out / RUNS).glob(f"{benchmark}-{split}-*"))]
    for split in begun or world.splits:
        if begun or split.startswith("generated") or split in look(benchmark):
            if split != world.splits[0]:
                note = (
                    f"{benchmark}: {split} is played, since the data of {world.splits[0]} were not found here"
                )
                plan.notes.extend([note] if note not in plan.notes else [])
            return [split]
    return []


def _with_data(benchmark: str) -> set[str]:
    """The splits of a benchmark whose data are here."""
    return {row["split"] for row in data.report() if row["benchmark"] == benchmark and row["found"]}


def _planned(
    plan: Plan,
    part: Part,
    benchmark: str,
    split: str,
    world: World,
    games: int | None,
    orders: int | None,
    cells: dict[str, Cell],
) -> Planned:
    """A part's cells on a split; those that another part has are taken from it."""
    count = world.orders if part.main else world.few
    few = {} if world.few_games is None else {"games": world.few_games}
    rows: dict[str, list[str]] = {}
    for label, asked in part.rows.items():
        key = f"{part.name}/{label}"
        if why := _why_not(plan, key, asked.parameters):
            plan.left_out[key] = why
            continue
        own = plan.size.rows.get(key, {})
        fixed = {"preset": plan.size.preset, "benchmark": benchmark, "split": split, "model": "@executor"}
        chosen = fixed | world.fixed | ({} if part.main else few) | asked.parameters | own
        chosen = {name: _resolved(value, plan.roles, benchmark) for name, value in chosen.items()}
        if games is not None:
            chosen["games"] = min(games, chosen.get("games") or games)
        for order in range(min(count, orders or count)):
            parameters = chosen | {"order": order}
            config = EvalConfig.make(**parameters)
            digest = content_hash(config.request())
            if digest not in cells:
                name = _name({cell.name for cell in cells.values()}, benchmark, split, label, order)
                cells[digest] = Cell(name, label, parameters, config)
            rows.setdefault(label, []).append(cells[digest].name)
    return Planned(part, benchmark, split, rows)


def _why_not(plan: Plan, key: str, parameters: Mapping[str, Any]) -> str:
    if key in plan.size.leaves_out:
        return plan.size.leaves_out[key]
    missing = sorted(roles_of(parameters) - set(plan.roles))
    return f"no model has the role {missing[0]}" if missing else ""


def _resolved(value: Any, roles: Mapping[str, str], benchmark: str) -> Any:
    """The model of a role, of its own on this benchmark where there is one; other values as they are."""
    if not isinstance(value, str) or not value.startswith("@"):
        return value
    return roles.get(f"{value[1:]}-{benchmark}") or roles[value[1:]]


def _name(taken: set[str], benchmark: str, split: str, label: str, order: int) -> str:
    """A folder's name for a cell."""
    plain = re.sub(r"[^A-Za-z0-9]+", "_", label).strip("_")
    name = f"{benchmark}-{split}-{plain}-order{order}"
    number = 2
    while name in taken:
        name = f"{benchmark}-{split}-{plain}{number}-order{order}"
        number += 1
    return name
