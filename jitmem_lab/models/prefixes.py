"""Attention keys and values of earlier prompts, kept so that the next step reads only what is new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

GROW = 256
"""Buffers grow in steps of so many tokens."""


class Prefix:
    """Keys and values of one token sequence, with room to append.

    Args:
        layers, heads, dim: Shape of the model's key-value cache.
        device: Where it lives.
    """

    def __init__(self, layers: int, heads: int, dim: int, device: Any) -> None:
        import torch

        self.tokens: list[int] = []
        self.keys = torch.empty(layers, heads, 0, dim, device=device)
        self.values = torch.empty(layers, heads, 0, dim, device=device)

    @property
    def capacity(self) -> int:
        """Tokens that fit without growing."""
        return int(self.keys.shape[2])

    def reserve(self, count: int) -> None:
        """Make room for `count` tokens in all."""
        if count > self.capacity:
            self._resize(-(-count // GROW) * GROW)

    def branch(self, count: int) -> Prefix:
        """A copy of the first `count` tokens."""
        layers, heads, _, dim = self.keys.shape
        copy = Prefix(layers, heads, dim, self.keys.device)
        copy.reserve(count)
        copy.keys[:, :, :count] = self.keys[:, :, :count]
        copy.values[:, :, :count] = self.values[:, :, :count]
        copy.tokens = self.tokens[:count]
        return copy

    def keep(self, start: int, rows: Sequence[int]) -> None:
        """Move the entries at `rows` to `start`, `start + 1`, …; the rest from `start` on is meaningless."""
        end = start + len(rows)
        self.keys[:, :, start:end] = self.keys[:, :, list(rows)]
        self.values[:, :, start:end] = self.values[:, :, list(rows)]

    def _resize(self, capacity: int) -> None:
        used = len(self.tokens)
        for name in ("keys", "values"):
            old = getattr(self, name)
            new = old.new_empty(old.shape[0], old.shape[1], capacity, old.shape[3])
            new[:, :, :used] = old[:, :, :used]
            setattr(self, name, new)


class PrefixCache:
    """The most recently used prefixes, at most `budget` tokens of room in all. One thread uses it."""

    def __init__(self, layers: int, heads: int, dim: int, device: Any, budget: int) -> None:
        self._shape = (layers, heads, dim, device)
        self._budget = budget
        self._entries: list[Prefix] = []
        self._room = 0

    def take(self, tokens: list[int]) -> Prefix:
        """A prefix holding the longest known beginning of `tokens`, at most all but the last one.

        The caller owns it until `give`. An entry of which more than half is of use is taken as it is, any
        other is copied, so that episodes which share only a beginning don't rob each other.
        """
        best: Prefix | None = None
        common = 0
        for entry in reversed(self._entries):  # hundreds with a small model; most are told by their head
            if common < len(tokens) and entry.tokens[: common + 1] == tokens[: common + 1]:
                best, common = entry, common_length(entry.tokens, tokens)
        common = min(common, len(tokens) - 1)
        if best is None or common == 0:
            return Prefix(*self._shape)
        if 2 * common < len(best.tokens):
            return best.branch(common)
        self._entries.remove(best)
        self._room -= best.capacity
        del best.tokens[common:]
        return best

    def give(self, prefix: Prefix) -> None:
        """Put a prefix (back) as the most recent one."""
        self._entries.append(prefix)
        self._room += prefix.capacity
        while self._room > self._budget and len(self._entries) > 1:
            self._room -= self._entries.pop(0).capacity


def common_length(left: list[int], right: list[int]) -> int:
    """Length of the longest common beginning."""
    low, high = 0, min(len(left), len(right))
    while low < high:  # equal beginnings of slices compare in C
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
