"""Graphs of distinct edges, as random as a permutation of all possible pairs: without skew, or with skew made to measure.

The paper (Section 3.4) names three sources of imbalance among workers that hash keys. `Hubs` has the first two: the owner of a
hub stores its list, as long as the graph has vertices, and a prefix of two hubs makes that many proposals, while all others
make few. `Funnel` is the paper's example of the third: every triangle goes through one vertex v*, so its owner is asked about
all of them. `Uniform` has no skew.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bigjoin.generators.draws import Permutation
from bigjoin.generators.family import EdgeNumbers, Family, require, require_edges, require_seed

MAX_VERTICES = 3_037_000_500
"""Beyond this, the number of a pair may need more than 63 bits."""


def ordered_pairs(numbers: EdgeNumbers, vertices: int) -> tuple[EdgeNumbers, EdgeNumbers]:
    """Return the pairs of distinct vertices that have these numbers: 0 up to n (n - 1) name the pairs of n, row by row."""
    src, dst = numbers // (vertices - 1), numbers % (vertices - 1)
    dst += dst >= src
    return src, dst


def require_vertices(vertices: int, *, least: int = 2, where: str) -> None:
    """Raise GeneratorError unless the pairs of so many vertices can be numbered."""
    require(least <= vertices <= MAX_VERTICES, f"{where} has from {least:,} to {MAX_VERTICES:,} vertices, not {vertices:,}")


@dataclass(frozen=True)
class Uniform(Family):
    """G(n, m): each edge as likely as any other; no loops, no duplicates, though an edge and its reverse may both be there."""

    vertices: int
    edge_count: int
    seed: int = 1

    def __post_init__(self) -> None:
        require_vertices(self.vertices, where="a uniform graph")
        require_edges(self.edge_count, most=self._pairs, where=f"a uniform graph of {self.vertices:,} vertices")
        require_seed(self.seed)

    @property
    def _pairs(self) -> int:
        return self.vertices * (self.vertices - 1)

    def edges(self, chunk: int) -> tuple[EdgeNumbers, EdgeNumbers]:
        """Return the edges of a chunk: the first places of a permutation of all possible edges, so that none comes twice."""
        return ordered_pairs(Permutation(self._pairs, self.seed)(self.numbers(chunk)), self.vertices)

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        return f"uniform: {self.vertices} vertices, {self.edge_count} edges, seed {self.seed}"


@dataclass(frozen=True)
class Hubs(Family):
    """Hubs with edges to every other vertex, and distinct random edges among the rest; the hubs are the smallest ids."""

    vertices: int
    edge_count: int
    hubs: int = 4
    seed: int = 1

    def __post_init__(self) -> None:
        require_vertices(self.vertices, where="a graph with hubs")
        require(1 <= self.hubs < self.vertices, f"there are from 1 to {self.vertices - 1:,} hubs, not {self.hubs:,}")
        where = f"a graph of {self.vertices:,} vertices, {self.hubs:,} of them hubs,"
        others = self.vertices - self.hubs
        require_edges(self.edge_count, least=self._spokes, most=self._spokes + others * (others - 1), where=where)
        require_seed(self.seed)

    @property
    def _spokes(self) -> int:
        return self.hubs * (self.vertices - 1)

    def edges(self, chunk: int) -> tuple[EdgeNumbers, EdgeNumbers]:
        """Return the edges of a chunk: the first are those of the hubs."""
        spoke, other = _split(self.numbers(chunk), self._spokes)
        spokes = ordered_pairs(spoke, self.vertices)
        if not other.size:
            return spokes
        others = self.vertices - self.hubs
        pairs = ordered_pairs(Permutation(others * (others - 1), self.seed)(other), others)
        return np.concatenate([spokes[0], pairs[0] + self.hubs]), np.concatenate([spokes[1], pairs[1] + self.hubs])

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        return f"skew: {self.hubs} hubs, {self.vertices} vertices, {self.edge_count} edges, seed {self.seed}"


@dataclass(frozen=True)
class Funnel(Family):
    """Sources → v* → sinks, and distinct random edges source → sink; v* is vertex 0, and half of the others are sources.

    Each random edge closes one triangle, and there are no others: edge_count - (vertices - 1). Joining edges pair by pair makes
    sources x sinks paths through v*, however few of them are closed.
    """

    vertices: int
    edge_count: int
    seed: int = 1

    def __post_init__(self) -> None:
        require_vertices(self.vertices, least=3, where="a funnel")
        spokes = self.vertices - 1
        where = f"a funnel of {self.vertices:,} vertices"
        require_edges(self.edge_count, least=spokes, most=spokes + self._sources * (spokes - self._sources), where=where)
        require_seed(self.seed)

    @property
    def _sources(self) -> int:
        return (self.vertices - 1) // 2

    def edges(self, chunk: int) -> tuple[EdgeNumbers, EdgeNumbers]:
        """Return the edges of a chunk: the first lead to v* and away from it, the rest past it."""
        spoke, past = _split(self.numbers(chunk), self.vertices - 1)
        away = spoke >= self._sources
        sinks = self.vertices - 1 - self._sources
        pair = Permutation(self._sources * sinks, self.seed)(past)
        src = np.concatenate([np.where(away, 0, spoke + 1), 1 + pair // sinks])
        dst = np.concatenate([np.where(away, spoke + 1, 0), 1 + self._sources + pair % sinks])
        return src, dst

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        return f"skew: funnel, {self.vertices} vertices, {self.edge_count} edges, seed {self.seed}"


def _split(numbers: EdgeNumbers, first: int) -> tuple[EdgeNumbers, EdgeNumbers]:
    """Return the numbers below `first`, and the others less `first`; numbers are sorted."""
    at = int(np.searchsorted(numbers, first))
    return numbers[:at], numbers[at:] - first
