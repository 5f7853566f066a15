"""Skew made to measure: graphs that give most of the work to one worker of a join that hashes keys.

The paper (Section 3.4) names three sources of imbalance. `Hubs` has the first two: whoever owns a hub stores its list, as long
as the graph has vertices, and a prefix of two hubs makes that many proposals, while all others make few. `Funnel` is the
paper's example of the third: every triangle goes through one vertex v*, so whoever owns v* is asked about all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bigjoin.generators.draws import Permutation
from bigjoin.generators.family import Family, Numbers, require, require_edges, require_seed
from bigjoin.generators.pairs import ordered_pairs, require_vertices


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
        most = spokes + self._sources * self._sinks
        require_edges(self.edge_count, least=spokes, most=most, where=f"a funnel of {self.vertices:,} vertices")
        require_seed(self.seed)

    @property
    def _sources(self) -> int:
        return (self.vertices - 1) // 2

    @property
    def _sinks(self) -> int:
        return self.vertices - 1 - self._sources

    def edges(self, chunk: int) -> tuple[Numbers, Numbers]:
        """Return the edges of a chunk: the first lead to v* and away from it, the rest past it."""
        numbers = self.numbers(chunk)
        spoke, past = _split(numbers, self.vertices - 1)
        away = spoke >= self._sources
        pair = Permutation(self._sources * self._sinks, self.seed)(past)
        src = np.concatenate([np.where(away, 0, spoke + 1), 1 + pair // self._sinks])
        dst = np.concatenate([np.where(away, spoke + 1, 0), 1 + self._sources + pair % self._sinks])
        return src, dst

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        return f"skew: funnel, {self.vertices} vertices, {self.edge_count} edges, seed {self.seed}"


@dataclass(frozen=True)
class Hubs(Family):
    """Hubs with edges to every other vertex, and distinct random edges among the rest; the hubs are the smallest ids."""

    vertices: int
    edge_count: int
    hubs: int = 4
    seed: int = 1

    def __post_init__(self) -> None:
        require_vertices(self.vertices, least=2, where="a graph with hubs")
        require(1 <= self.hubs < self.vertices, f"there are from 1 to {self.vertices - 1:,} hubs, not {self.hubs:,}")
        where = f"a graph of {self.vertices:,} vertices, {self.hubs:,} of them hubs,"
        require_edges(self.edge_count, least=self._spokes, most=self._spokes + self._pairs, where=where)
        require_seed(self.seed)

    @property
    def _spokes(self) -> int:
        return self.hubs * (self.vertices - 1)

    @property
    def _pairs(self) -> int:
        others = self.vertices - self.hubs
        return others * (others - 1)

    def edges(self, chunk: int) -> tuple[Numbers, Numbers]:
        """Return the edges of a chunk: the first are those of the hubs."""
        spoke, other = _split(self.numbers(chunk), self._spokes)
        src, dst = ordered_pairs(spoke, self.vertices)
        if not other.size:
            return src, dst
        pair = Permutation(self._pairs, self.seed)(other)
        others = ordered_pairs(pair, self.vertices - self.hubs)
        return np.concatenate([src, others[0] + self.hubs]), np.concatenate([dst, others[1] + self.hubs])

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        return f"skew: {self.hubs} hubs, {self.vertices} vertices, {self.edge_count} edges, seed {self.seed}"


def _split(numbers: Numbers, first: int) -> tuple[Numbers, Numbers]:
    """Return the numbers below `first`, and the others less `first`; numbers are sorted."""
    at = int(np.searchsorted(numbers, first))
    return numbers[:at], numbers[at:] - first
