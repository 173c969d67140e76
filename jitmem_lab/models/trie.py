"""The options of a choice as a prefix tree, so that each shared beginning is computed once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Trie:
    """Interior nodes of the tree of options, parents before children; leaves need no forward pass.

    Row 0 stands for the end of the prompt; node `i` (from 0) is row `i + 1`.
    """

    tokens: list[int]
    """Token id of each interior node."""
    parents: list[int]
    """Row of each interior node's parent."""
    depths: list[int]
    """Distance of each interior node from the end of the prompt, from 1."""
    edges: list[tuple[int, int]]
    """Distinct (row, next token) pairs whose log-probability is needed."""
    paths: list[list[int]]
    """For each option, the indices into `edges` that it sums up."""

    @classmethod
    def build(cls, options: Sequence[Sequence[int]]) -> Trie:
        """The tree of `options`, each a non-empty list of token ids."""
        rows: dict[tuple[int, int], int] = {}
        edges: dict[tuple[int, int], int] = {}
        tokens: list[int] = []
        parents: list[int] = []
        depths: list[int] = []
        paths: list[list[int]] = []
        for option in options:
            row, path = 0, []
            for depth, token in enumerate(option, 1):
                edge = (row, token)
                path.append(edges.setdefault(edge, len(edges)))
                if depth == len(option):
                    break
                if edge not in rows:
                    tokens.append(token)
                    parents.append(row)
                    depths.append(depth)
                    rows[edge] = len(tokens)
                row = rows[edge]
            paths.append(path)
        return cls(tokens, parents, depths, list(edges), paths)

    def ancestors(self) -> list[list[int]]:
        """For each interior node, the indices of the interior nodes that it sees, itself last."""
        seen: list[list[int]] = []
        for node, parent in enumerate(self.parents):
            seen.append([*(seen[parent - 1] if parent else []), node])
        return seen

    def means(self, logprobs: Sequence[float]) -> list[float]:
        """Mean log-probability per token of each option, given that of each edge."""
        return [sum(logprobs[edge] for edge in path) / len(path) for path in self.paths]

    def interior(self, option: int) -> list[int]:
        """Indices of the interior nodes on the way to `option`."""
        row_of = {edge: node + 1 for node, edge in enumerate(zip(self.parents, self.tokens, strict=True))}
        return [row_of[self.edges[edge]] - 1 for edge in self.paths[option][:-1]]
