"""The GraphChallenge's 'Theory' graphs (kind B1k): Kronecker products of stars, with hubs, and counts that are known exactly.

A star with m leaves has a loop on its centre, so its adjacency matrix has 2m + 1 entries, and the product of stars has their
product. It has one loop, on the centre of centres, which is dropped; of the others, one direction is kept. So there are
(Π(2m + 1) - 1) / 2 edges over Π(m + 1) vertices, and (Π(3m + 1) - 3 Π(m + 1) + 2) / 6 triangles.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from bigjoin.errors import GeneratorError
from bigjoin.generators.family import EdgeNumbers, Family, require


@dataclass(frozen=True)
class Theory(Family):
    """Every undirected edge once, from the smaller id to the larger; vertex 0, the centre of centres, is next to all others."""

    stars: tuple[int, ...]

    def __post_init__(self) -> None:
        require(bool(self.stars), "a Theory graph needs at least one star, for example 3-4-5")
        require(min(self.stars) >= 1, f"a star has at least one leaf, not {min(self.stars)}")
        require(self._entries < 1 << 63, f"the product of the stars {self._named()} has more than 2^63 edges")

    @classmethod
    def parse(cls, text: str) -> Theory:
        """Return the graph for the leaves of its stars, such as 3-4-5."""
        try:
            return cls(tuple(int(leaves) for leaves in text.split("-")))
        except ValueError:
            raise GeneratorError(f"stars are numbers of leaves such as 3-4-5, not {text!r}") from None

    @property
    def vertices(self) -> int:
        return prod(leaves + 1 for leaves in self.stars)

    @property
    def edge_count(self) -> int:
        return (self._entries - 1) // 2

    @property
    def _entries(self) -> int:
        return prod(2 * leaves + 1 for leaves in self.stars)

    def edges(self, chunk: int) -> tuple[EdgeNumbers, EdgeNumbers]:
        """Return the edges of a chunk, decoded from their numbers.

        A number has a digit for each star, which names an entry of the star's matrix: below m, from the centre to leaf
        digit + 1; m, the loop; above m, the same backwards. So swapping the ends of an edge mirrors its number, the loop of
        the product is in the middle, and the numbers below that are the edges that go to the larger id.
        """
        rest = self.numbers(chunk)
        src, dst = np.zeros_like(rest), np.zeros_like(rest)
        place = 1
        for leaves in reversed(self.stars):
            rest, digit = np.divmod(rest, 2 * leaves + 1)
            src += np.where(digit > leaves, 2 * leaves + 1 - digit, 0) * place
            dst += np.where(digit < leaves, digit + 1, 0) * place
            place *= leaves + 1
        return src, dst

    def describe(self) -> str:
        """Return the family and its parameters in a line."""
        return f"theory: Theory-{self._named()}-B1k"

    def _named(self) -> str:
        return "-".join(map(str, self.stars))
