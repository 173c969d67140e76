"""Names of runs cut to what tells them apart, for places without room for all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 20
"""Characters of a name that a narrow column shows."""
_PARTS = re.compile(r"[/_\s.-]*[^/_\s.-]+")


def short_names(names: Sequence[str], longest: int = LONGEST) -> dict[str, str]:
    """What tells each of some different names from the others, by name, and more of it where there is room.

    All are shown whole if all fit. Else what all begin with is left out; else only as many parts behind it
    are kept as are needed; else the middle is cut, and where even that leaves two alike, they are numbered.
    """
    names = list(dict.fromkeys(names))
    if len(names) < 2:
        return {name: _cut(name, longest) for name in names}
    parts = [_PARTS.findall(name) or [name] for name in names]
    shared = 0
    while all(len(p) > shared + 1 and p[shared] == parts[0][shared] for p in parts):
        shared += 1
    while shared and not all(re.search(r"[^\W\d]", "".join(p[shared:])) for p in parts):
        shared -= 1  # a number alone doesn't say of what
    tails = [p[shared:] for p in parts]
    tries = [names, [_joined(tail) for tail in tails]]
    for count in range(1, max(map(len, tails), default=0)):
        tries.append([_joined(tail[:count]) for tail in tails])
    apart = [found for found in tries if len(set(found)) == len(names)]
    fits = [found for found in apart if all(len(text) <= longest for text in found)]
    if fits:  # the first two say most; of the others the one with fewest parts
        best = next((found for found in tries[:2] if found in fits), fits[0])
        return dict(zip(names, best, strict=True))
    nearest = min(apart, key=lambda found: max(map(len, found)))
    cut = [_cut(text, longest) for text in nearest]
    if len(set(cut)) < len(cut):
        cut = [f"{number} {_cut(text, longest - 3)}" for number, text in enumerate(nearest, 1)]
    return dict(zip(names, cut, strict=True))


def _joined(parts: Sequence[str]) -> str:
    return "".join(parts).lstrip("/_ .-") or "".join(parts)


def _cut(text: str, longest: int) -> str:
    """A text with its middle left out if it is too long."""
    if len(text) <= longest:
        return text
    end = longest // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"
