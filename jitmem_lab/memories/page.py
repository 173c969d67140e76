"""The page of memory systems: what each stores, when, how it is found and shown, out of their docstrings."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import textwrap
from typing import Any

from . import GIVEN, NAMES, SHARED, memory_class, parameters

LABELS = ("Stores", "Written", "Found", "Shown", "Costs", "Source", "Chosen here")
"""What the docstring of a system's module says, a paragraph each, behind its first line `name: sentence`."""
_LINE = re.compile(rf"^({'|'.join(LABELS)}):\s", re.M)
_SHORT = ("Stores", "Written", "Found", "Shown", "Costs")
_PAPER = re.compile(r"arxiv (\d{4}\.\d{5})", re.I)
_ENOUGH = 30


def pages(*names: str) -> list[dict[str, Any]]:
    """One row a system (all by default): `about`, the labelled paragraphs, `defaults` and `variants`.

    Raises:
        UserError: There is no such system.
    """
    return [_page(name) for name in names or NAMES]


def _page(name: str) -> dict[str, Any]:
    system = memory_class(name)
    doc = inspect.cleandoc(importlib.import_module(system.__module__).__doc__ or "")
    head, *parts = _LINE.split(doc)
    said = {label: _plain(text) for label, text in zip(parts[::2], parts[1::2], strict=True)}
    defaults = {key: p.default for key, p in parameters(name).items() if key not in (*GIVEN, "distiller")}
    return {
        "name": name,
        "about": _plain(head.partition(":")[2]),
        **{label.lower().replace(" ", "_"): said.get(label, "") for label in LABELS},
        "defaults": defaults,
        "given_by": {key: _given_by(name, key) for key in defaults},
        "variants": getattr(system, "VARIANTS", {}),
    }


def _given_by(name: str, key: str) -> str:
    """The run's parameter by which a system's own one is given, `options` for those it has alone."""
    return key if name in ("raw", "jitmem") else SHARED.get(key, "options")


def _plain(text: str) -> str:
    """A paragraph in one line, beginning with a capital."""
    line = " ".join(text.split())
    return line[:1].upper() + line[1:]


def text(name: str) -> str:
    """A system's whole page as text of 100 columns."""
    page = _page(name)
    lines = [textwrap.fill(f"{name}: {page['about']}", width=100, subsequent_indent="  ")]
    for label in LABELS:
        lines.append(_entry(label, page[label.lower().replace(" ", "_")]))
    if page["defaults"]:
        lines.append(_entry("Defaults", _values(page["defaults"])))
        lines.append(_entry("Given", _given(page["given_by"], page["defaults"])))
    lines += [_entry("Variant", f"{variant}: {_values(set_)}") for variant, set_ in page["variants"].items()]
    return "\n".join(lines)


def _given(by: dict[str, str], defaults: dict[str, Any]) -> str:
    """How a run is given each parameter."""
    same = [key for key, field in by.items() if field == key]
    renamed = [f"{key} as {field}" for key, field in by.items() if field not in (key, "options")]
    own = [key for key, field in by.items() if field == "options"]
    parts = [f"{', '.join(same)} by {'its' if len(same) == 1 else 'their'} own name"] if same else []
    parts += [", ".join(renamed)] if renamed else []
    if own:
        example = json.dumps({own[0]: defaults[own[0]]}, default=str)
        parts.append(f"{', '.join(own)} among the options, such as -p options '{example}'")
    return "; ".join(parts) + "."


def listed() -> str:
    """All systems, a line each."""
    abouts = ((page["name"], _beginning(page["about"])) for page in pages())
    lines = [f"{name:<15}{textwrap.shorten(about, 85, placeholder=' …')}" for name, about in abouts]
    return "\n".join(
        [*lines, "", "jitmem memories NAME shows the whole page of one: stored, written, found, defaults"]
    )


def _entry(label: str, paragraph: str) -> str:
    return textwrap.fill(
        paragraph,
        width=100,
        initial_indent=f"  {label:<13}",
        subsequent_indent=" " * 15,
        break_on_hyphens=False,
    )


def _values(values: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def markdown() -> str:
    """All systems as a Markdown table: the beginning of each paragraph, and a link to the paper."""
    rows = [["system", *map(str.lower, _SHORT)], ["---"] * (len(_SHORT) + 1)]
    for page in pages():
        paper = _PAPER.match(page["source"])
        link = f" [{paper[1]}](https://arxiv.org/abs/{paper[1]})" if paper else ""
        rows.append([f"`{page['name']}`{link}", *(_beginning(page[label.lower()]) for label in _SHORT)])
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)


def _beginning(paragraph: str) -> str:
    """A paragraph's first sentence, and those after it as long as it is short."""
    sentences = re.split(r"(?<=[.;])\s+(?=[^a-z])", paragraph)
    taken = sentences[0]
    for sentence in sentences[1:]:
        if len(taken) >= _ENOUGH:
            break
        taken += f" {sentence}"
    return taken.rstrip(";") + ("." if taken.endswith(";") else "")
