"""What a notebook may be given: its parameters cell read, and values checked before anything starts.

The cell tagged `parameters` holds plain assignments (`k = 3  # traces retrieved`). The type of a
default, or an annotation, decides what is accepted. Papermill itself only logs an unknown name and
turns tuples, sets, numpy numbers, dates and paths into strings; here each becomes the right plain
value or one clear sentence.
"""

from __future__ import annotations

import ast
import datetime
import difflib
import io
import json
import math
import os
import tokenize
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import UserError

KINDS = ("bool", "int", "float", "str", "list", "tuple", "set", "dict")
WORDS = {
    "bool": "true or false",
    "int": "an integer",
    "float": "a number",
    "str": "a text",
    "list": "a list",
    "tuple": "a tuple",
    "set": "a set",
    "dict": "a dict",
    "any": "a plain value",
}
_MISSING: Any = object()


@dataclass(frozen=True)
class Parameter:
    """One assignment of a parameters cell."""

    name: str
    """Name that `-p` takes."""
    kind: str
    """bool, int, float, str, list, tuple, set, dict, or any when nothing tells."""
    default: Any
    """The default, or its source text when it is not a literal."""
    nullable: bool = False
    """Whether None is accepted."""
    comment: str = ""
    """The comment on its line."""

    def says(self) -> str:
        """The type in words, with the default."""
        default = repr(self.default)
        return f"{WORDS[self.kind]} (default {default if len(default) < 60 else default[:57] + '…'})"


def read_notebook(path: str | Path) -> Any:
    """The notebook at `path` as an nbformat node; `UserError` if it is not there or not a notebook."""
    from .quick import nbformat

    path = Path(path)
    if not path.is_file():
        raise UserError(f"there is no notebook {path}; give a path, or the name of a shipped notebook")
    try:
        notebook = nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
        nbformat.validate(notebook)
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path} is not a readable notebook ({reason}); save it again from Jupyter") from None
    return notebook


def read_parameters(path: str | Path) -> dict[str, Parameter]:
    """Parameters of the notebook at `path` by name, in the order of its parameters cell."""
    return notebook_parameters(read_notebook(path), str(path))


def notebook_parameters(notebook: Any, name: str = "the notebook") -> dict[str, Parameter]:
    """Parameters of a notebook node by name; `UserError` unless exactly one cell is tagged `parameters`."""
    cells = [c for c in notebook.cells if "parameters" in c.metadata.get("tags", [])]
    if len(cells) != 1:
        count = "no cell" if not cells else f"{len(cells)} cells"
        raise UserError(
            f"{name} has {count} tagged 'parameters'; tag exactly one cell that assigns the defaults"
        )
    source = cells[0].source
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:  # half a character, a NUL, nested too deep
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UserError(
            f"the parameters cell of {name} is not valid Python{where}; "
            "write one `name = default  # comment` a line"
        ) from None
    comments = _comments(source)
    found: dict[str, Parameter] = {}
    for node in tree.body:
        parameter = _parameter(node, comments)
        if parameter is not None:
            found[parameter.name] = parameter
    return found


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("# ").strip() for t in tokens if t.type == tokenize.COMMENT}


def _parameter(node: ast.stmt, comments: dict[int, str]) -> Parameter | None:
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, annotation = node.targets[0], None
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        target, annotation = node.target, node.annotation
    else:
        return None
    if not isinstance(target, ast.Name):
        return None
    assert node.value is not None
    default = _literal(node.value)
    if annotation is not None:
        kind, nullable = _annotated(annotation)
    else:
        kind = type(default).__name__ if type(default).__name__ in KINDS else "any"
        nullable = False
    if default is _MISSING:
        default = ast.unparse(node.value)
    comment = comments.get(node.end_lineno or node.lineno, "")
    return Parameter(target.id, kind, default, nullable or default is None, comment)


def _literal(node: ast.expr) -> Any:
    text = ast.unparse(node).replace('"', "'")
    if text in {f"float('{sign}{word}')" for sign in ("", "-") for word in ("nan", "inf")}:
        return float(text[7:-2])
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _MISSING


def _annotated(node: ast.expr) -> tuple[str, bool]:
    """Kind and whether None is allowed, of an annotation such as `int | None` or `list[str]`."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    nullable = "None" in text or "Optional" in text
    text = text.replace("Optional[", "").replace("typing.", "")
    names = [part.split("[")[0].strip(" ]").lower() for part in text.split("|")]
    kinds = [name for name in names if name in KINDS]
    return (kinds[0] if len(kinds) == 1 else "any"), nullable


def parse_pairs(
    parameters: Mapping[str, Parameter], pairs: Iterable[tuple[str, str]], name: str = "the notebook"
) -> dict[str, Any]:
    """Values from the command line, each read by the type of its parameter's default.

    Args:
        parameters: Parameters of the notebook.
        pairs: Names and texts, as `-p NAME VALUE` gave them.
        name: What to call the notebook in an error.

    Raises:
        UserError: An unknown name, a name given twice, or a text that is not of the type.
    """
    values: dict[str, Any] = {}
    for key, text in pairs:
        if key in values:
            raise UserError(f"parameter '{key}' was given twice; give it once")
        values[key] = _from_text(_known(parameters, key, name, text), text)
    return values


def check_values(
    parameters: Mapping[str, Parameter], values: Mapping[str, Any], name: str = "the notebook"
) -> dict[str, Any]:
    """Values from Python, converted to plain ones of the parameters' types.

    Tuples, sets, arrays, numpy scalars, paths and dates become what the default's type asks for.

    Raises:
        UserError: An unknown name, or a value that does not suit the type.
    """
    return {key: _suit(_known(parameters, key, name), value) for key, value in values.items()}


def _known(parameters: Mapping[str, Parameter], key: str, name: str, text: str | None = None) -> Parameter:
    if key in parameters:
        return parameters[key]
    if place := _belongs(parameters, str(key)):
        value = "…" if text is None else text if (value := _structured(text)) is _MISSING else value
        given = json.dumps({key: value}, ensure_ascii=False, default=str)
        raise UserError(f"{name} has no parameter '{key}' of its own; give it as -p {place} '{given}'")
    close = difflib.get_close_matches(str(key), parameters, n=1, cutoff=0.5)
    hint = f"did you mean '{close[0]}'? " if close else ""
    known = ", ".join(parameters) or "none"
    raise UserError(f"{name} has no parameter '{key}'; {hint}It takes: {known}")


def _belongs(parameters: Mapping[str, Parameter], key: str) -> str:
    """The parameter of an evaluation's notebook that holds another: `options` or `more`; else empty."""
    if {"options", "more"} <= set(parameters):
        from ..evaluation import EvalConfig
        from ..memories import systems_with

        if key in EvalConfig.model_fields:
            return "more"
        return "options" if systems_with(key) else ""
    return ""


def _refuse(parameter: Parameter, value: Any, reason: str = "") -> UserError:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "…"
    return UserError(
        f"parameter '{parameter.name}' takes {parameter.says()}, not {shown}{f': {reason}' if reason else ''}"
    )


def _from_text(parameter: Parameter, text: str) -> Any:
    kind, word = parameter.kind, text.strip()
    if parameter.nullable and word.lower() in {"none", "null"}:
        return None
    if kind == "str":
        return text
    if kind == "bool":
        if word.lower() not in {"true", "false"}:
            raise _refuse(parameter, text)
        return word.lower() == "true"
    if kind in {"int", "float"}:
        try:
            return int(word) if kind == "int" else float(word)
        except ValueError:
            raise _refuse(parameter, text) from None
    value = _structured(word)
    if kind == "any":
        return text if value is _MISSING else value
    if value is _MISSING or not isinstance(value, dict if kind == "dict" else (list, tuple, set)):
        example = "'{\"a\": 1}'" if kind == "dict" else '\'["a", "b"]\''
        raise _refuse(parameter, text, f"write it as {example}")
    return _suit(parameter, value)


def _structured(text: str) -> Any:
    """A JSON value or a Python literal; `_MISSING` if it is neither."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _MISSING


def _suit(parameter: Parameter, value: Any) -> Any:
    try:
        plain = _plain(value)
    except UserError as error:
        raise UserError(f"parameter '{parameter.name}' {error}") from None
    kind = parameter.kind
    if plain is None:
        if parameter.nullable:
            return None
        raise _refuse(parameter, value)
    if kind == "any":
        return plain
    if kind in {"list", "tuple", "set"}:
        if not isinstance(plain, list | tuple | set):
            raise _refuse(parameter, value)
        items = _in_order(plain)
        _check_items(parameter, items, value)
        return {"list": list, "tuple": tuple, "set": set}[kind](items)
    suited = _scalar(kind, plain)
    if suited is _MISSING:
        raise _refuse(parameter, value)
    return suited


def _scalar(kind: str, value: Any) -> Any:
    """`value` as `kind`, an int for a float included; `_MISSING` if it is something else."""
    if kind == "float" and type(value) is int:
        return float(value)
    return value if type(value).__name__ == kind else _MISSING


def _check_items(parameter: Parameter, items: list[Any], value: Any) -> None:
    """Items of a list of numbers or texts must be such themselves."""
    default = parameter.default
    if not isinstance(default, list | tuple | set) or not default:
        return
    kinds = {type(item).__name__ for item in default}
    kind = kinds.pop() if len(kinds) == 1 else "any"
    if kind not in {"bool", "int", "float", "str"}:
        return
    for index, item in enumerate(items):
        items[index] = _scalar(kind, item)
        if items[index] is _MISSING:
            raise _refuse(parameter, value, f"its items are {WORDS[kind]} each")


def _in_order(items: Iterable[Any]) -> list[Any]:
    """A set sorted where it can be, so that equal calls inject equal code."""
    if isinstance(items, set):
        return sorted(items, key=lambda item: (type(item).__name__, repr(item)))
    return list(items)


def _plain(value: Any) -> Any:
    """`value` made of None, bool, int, float, str, list, tuple, set and dict with text keys only."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, list | tuple):
        items = [_plain(item) for item in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, set | frozenset):
        return {_plain(item) for item in value}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise UserError("was given a dict whose keys are not all texts; make them texts")
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, os.PathLike) and isinstance(os.fspath(value), str):
        return os.fspath(value)
    if isinstance(value, str):  # a subclass, whose own __str__ may say something else
        return "".join([value])
    if isinstance(value, int | float):
        return int(value) if isinstance(value, int) else float(value)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):
        return _plain(value.tolist())
    raise UserError(
        f"was given a {type(value).__name__}, which a notebook cannot take; "
        "pass texts, numbers, lists or dicts"
    )


def to_source(value: Any) -> str:
    """Python source of a plain value; unlike `repr`, right for NaN and infinities too."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"float('{value}')"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {to_source(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple | set):
        inner = ", ".join(to_source(item) for item in _in_order(value))
        if isinstance(value, tuple):
            return f"({inner},)" if value else "()"
        if isinstance(value, set):
            return "{" + inner + "}" if value else "set()"
        return f"[{inner}]"
    return ascii(value)
