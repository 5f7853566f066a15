"""G(n, m): so many distinct edges, each possible one as likely as any other; the graph without skew."""

from __future__ import annotations

from dataclasses import dataclass

from bigjoin.generators.draws import Permutation
from bigjoin.generators.family import Family, Numbers, require_edges, require_seed
from bigjoin.generators.pairs import ordered_pairs, require_vertices


@dataclass(frozen=True)
class Uniform(Family):
    """A simple directed graph: no loops, no duplicates, though an edge and its reverse may both be there."""

    vertices: int
    edge_count: int
    seed: int = 1

    def __post_init__(self) -> None:
        require_vertices(self.vertices, least=2, where="a uniform graph")
        require_edges(self.edge_count, most=self._pairs, where=f"a uniform graph of {self.vertices:,} vertices")
        require_seed(self.seed)

    @property
    def _pairs(self) -> int:
        return self.vertices * (self.vertices - 1)

    def edges(self, chunk: int) -> tuple[Numbers, Numbers]:
        """Return the edges of a chunk: the first places of a permutation of all possible edges, so that none comes twice."""
        return ordered_pairs(Permutation(self._pairs, self.seed)(self.numbers(chunk)), self.vertices)

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        return f"uniform: {self.vertices} vertices, {self.edge_count} edges, seed {self.seed}"
