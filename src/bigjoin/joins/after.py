"""Which tuples of a delta come after the seed's tuple, for delta queries that distinguish updates by their order.

Tuples are ordered by their columns; in a symmetric relation the smaller code of the pair comes first. In a sorted list whose
other columns are bound, the values that make a later tuple are therefore a suffix: all codes from some bound on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes

BEYOND_ALL_CODES = "(1 << 62)"
"""A bound above every code, in generated source."""


@dataclass(frozen=True, slots=True)
class After:
    """Compares the tuple of a list's value with the seed's tuple."""

    seed: tuple[int, ...]
    """The positions of the seed's tuple in a prefix."""
    known: tuple[tuple[int, int], ...]
    """The columns of the other tuple that are bound, each with its position in a prefix."""
    column: int
    """The column that the list's values are in."""
    symmetric: bool

    def lower(self, prefixes: Codes) -> Codes:
        """Return for each prefix the smallest code that makes a later tuple."""
        one = prefixes.dtype.type(1)
        far = np.iinfo(prefixes.dtype).max
        seed = [prefixes[p] for p in self.seed]
        known = {column: prefixes[p] for column, p in self.known}
        if self.symmetric:
            low, high = np.minimum(seed[0], seed[1]), np.maximum(seed[0], seed[1])
            seed[:2] = low, high
            if self.column < 2:
                other = known[1 - self.column]
                behind = np.where(other > high, low, low + one)
                return np.where(other < low, far, np.where(other == low, high + one, behind)).astype(prefixes.dtype)
            known[0], known[1] = np.minimum(known[0], known[1]), np.maximum(known[0], known[1])
        beyond: NDArray[np.bool_] = np.zeros(prefixes.shape[1], np.bool_)
        for c in reversed(range(self.column + 1, len(seed))):
            beyond = (known[c] > seed[c]) | ((known[c] == seed[c]) & beyond)
        bound: Codes = np.where(beyond, seed[self.column], seed[self.column] + one)
        for c in reversed(range(self.column)):
            bound = np.where(known[c] > seed[c], 0, np.where(known[c] < seed[c], far, bound))
        return bound.astype(prefixes.dtype)

    def source(self) -> str:
        """Return `lower` as an expression for generated source, where x0, x1, ... are the attributes by position."""
        seed = [f"x{p}" for p in self.seed]
        known = {column: f"x{p}" for column, p in self.known}
        if self.symmetric:
            low, high = f"min({seed[0]}, {seed[1]})", f"max({seed[0]}, {seed[1]})"
            seed[:2] = low, high
            if self.column < 2:
                other = known[1 - self.column]
                behind = f"({low} if {other} > {high} else {low} + 1)"
                return f"({BEYOND_ALL_CODES} if {other} < {low} else ({high} + 1 if {other} == {low} else {behind}))"
            known[0], known[1] = f"min({known[0]}, {known[1]})", f"max({known[0]}, {known[1]})"
        beyond = "False"
        for c in reversed(range(self.column + 1, len(seed))):
            beyond = f"({known[c]} > {seed[c]} or ({known[c]} == {seed[c]} and {beyond}))"
        bound = f"({seed[self.column]} if {beyond} else {seed[self.column]} + 1)"
        for c in reversed(range(self.column)):
            bound = f"(0 if {known[c]} > {seed[c]} else ({BEYOND_ALL_CODES} if {known[c]} < {seed[c]} else {bound}))"
        return bound
