"""Classes by name: `module:Name`, or `path/to/file.py:Name` for a file that no package holds."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import UserError


def load_object(target: str) -> Any:
    """What `module:Name` or `path/to/file.py:Name` names; a file is executed anew each time.

    Raises:
        UserError: There is no such module, file or name, or importing it fails.
    """
    where, _, name = target.rpartition(":")
    if not where or not name:
        raise UserError(f"{target!r} is not of the form module:Name or path/to/file.py:Name")
    try:
        module = _from_file(Path(where)) if where.endswith(".py") else importlib.import_module(where)
    except UserError:
        raise
    except ModuleNotFoundError as error:
        if error.name and (where == error.name or where.startswith(f"{error.name}.")):
            raise UserError(
                f"no module {where!r} can be imported; or give a path: my/file.py:{name}"
            ) from error
        raise UserError(f"importing {where} failed: {error}") from error
    except Exception as error:
        raise UserError(f"importing {where} failed: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        raise UserError(f"{where} has no class {name!r}")
    return getattr(module, name)


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(f"own_{path.stem}", path.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look their module up by name
    spec.loader.exec_module(module)
    return module


def benchmark_class(target: str) -> Any:
    """One's own benchmark class; `UserError` also where it leaves out what `PooledBenchmark` asks for."""
    from .pooled import PooledBenchmark

    found = load_object(target)
    if not inspect.isclass(found):
        raise UserError(f"{target} is of type {type(found).__name__}, and no class")
    if issubclass(found, PooledBenchmark):
        owed = ("load", "oracle", "version")
        same = [name for name in owed if getattr(found, name) is getattr(PooledBenchmark, name)]
        _refuse(target, same)
    if "split" not in inspect.signature(found).parameters:
        raise UserError(f"{target} takes no argument 'split'; a benchmark's class is given its split")
    return found


def check_complete(made: Any, target: str) -> None:
    """`UserError` unless `made` has every name of the protocol `jitmem_lab.benchmarks.base.Benchmark`."""
    from .base import Benchmark

    public = (name for name in vars(Benchmark) if not name.startswith("_"))
    wanted = dict.fromkeys([*Benchmark.__annotations__, *public])
    absent = object()
    _refuse(target, [name for name in wanted if inspect.getattr_static(made, name, absent) is absent])


def _refuse(target: str, missing: list[str]) -> None:
    if missing:
        raise UserError(
            f"{target} is no whole benchmark: it lacks {', '.join(missing)} "
            "(see jitmem_lab.benchmarks.base.Benchmark)"
        )
