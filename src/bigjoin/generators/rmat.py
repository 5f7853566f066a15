"""R-MAT, the stochastic Kronecker graph of the Graph500 benchmark: heavy tails, and hubs that know each other.

The adjacency matrix is cut into quadrants as often as ids have bits, and an edge falls into one of them each time, with
probabilities a (top left), b (top right), c (bottom left) and d (bottom right).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bigjoin.generators.draws import Permutation, stream
from bigjoin.generators.family import EdgeNumbers, Family, require, require_edges, require_seed

GRAPH500 = (0.57, 0.19, 0.19, 0.05)


@dataclass(frozen=True)
class Rmat(Family):
    """Edges as drawn: duplicates and loops included. Unless scrambled, small ids are the hubs."""

    scale: int
    edge_count: int
    seed: int = 1
    probabilities: tuple[float, float, float, float] = GRAPH500
    scramble: bool = True

    def __post_init__(self) -> None:
        require(1 <= self.scale <= 62, f"an R-MAT graph has 2^scale vertices, with a scale from 1 to 62, not {self.scale}")
        require_edges(self.edge_count, most=1 << 62, where="an R-MAT graph")
        require_seed(self.seed)
        sound = len(self.probabilities) == 4 and all(p >= 0 for p in self.probabilities)
        require(
            sound and abs(sum(self.probabilities) - 1) < 1e-6,
            f"four probabilities of an R-MAT graph add up to 1, as {_listed(GRAPH500)} do, not {_listed(self.probabilities)}",
        )

    @property
    def vertices(self) -> int:
        return 1 << self.scale

    def edges(self, chunk: int) -> tuple[EdgeNumbers, EdgeNumbers]:
        """Return the edges of a chunk, drawn bit by bit from the chunk's own stream."""
        size = self.size(chunk)
        words = stream(self.seed, chunk)
        a, b, c, _ = self.probabilities
        above_a, above_b, above_c = (round(p * 2**32) for p in (a, a + b, a + b + c))
        src, dst = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for _ in range(self.scale):
            draw = words.random_raw(-(-size // 2)).view(np.uint32)[:size]
            bottom = draw >= above_b
            right = ((draw >= above_a) & ~bottom) | (draw >= above_c)
            src <<= 1
            dst <<= 1
            src |= bottom
            dst |= right
        if not self.scramble:
            return src, dst
        rename = Permutation(self.vertices, self.seed)
        return rename(src), rename(dst)

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        ids = "scrambled" if self.scramble else "plain"
        quadrants = _listed(self.probabilities)
        return f"rmat: scale {self.scale}, {self.edge_count} edges, probabilities {quadrants}, {ids} ids, seed {self.seed}"


def _listed(numbers: tuple[float, ...]) -> str:
    return ",".join(f"{number:g}" for number in numbers)
