"""Write a chain of loops as the source of a function that picks matches by their numbers.

The loops are those of a count: the sizes of the last sets are added up, and no value of a set is looked at unless a wanted
match is among its own. `ranks` are the numbers of the wanted matches, from 0 in the order of the loops, and sorted. The
function writes each of them to a column of `out`, and returns how many it has found.
"""

from __future__ import annotations

from bigjoin.compiled.count_source import CountSource, Emit
from bigjoin.compiled.stages import BoundLoop
from bigjoin.joins.bind import Binder
from bigjoin.query.nest import Nest


class PickSource(CountSource):
    """Writes the function that picks."""

    def __init__(self, nest: Nest, binder: Binder) -> None:
        super().__init__(nest, binder)
        self.last = self.root
        while self.last.inner:
            assert len(self.last.inner) == 1, "loops that pick are a chain"
            self.last.chained = True
            self.last = self.last.inner[0]

    def function(self) -> str:
        """Return the source of the function."""
        self.line("passed = 0")
        self.line("filled = 0")
        self.line("wanted = ranks[0]")
        self.over_root(lambda _: self.pick())
        self.line("return filled")
        return self.module("first", "last", "low", "high", "tally", "constants", "ranks", "out")

    def inside(self, loop: BoundLoop, factors: list[str], emit: Emit, cached: BoundLoop | None = None) -> None:
        """Write the next loop of the chain; pass over the last one if only its size matters."""
        if loop is self.last:
            emit(factors)
            return
        child = loop.inner[0]
        if child is not self.last or not child.is_counted:
            super().inside(loop, factors, emit, cached)
            return
        with self.scope():
            size = self.size(child)
            with self.block(f"if passed + {size} <= wanted:"):
                self.line(f"passed += {size}")
            with self.block("else:"):
                super().inside(loop, factors, emit, cached)

    def pick(self) -> None:
        """Write what happens to a match: it is written if it is wanted, and after the last one the function ends."""
        with self.block("if passed == wanted:"):
            for row, position in enumerate((*self.last.path, self.last.position)):
                self.line(f"out[{row}, filled] = x{position}")
            self.line("filled += 1")
            with self.block("if filled == len(ranks):"):
                self.clear()
                self.line("return filled")
            self.line("wanted = ranks[filled]")
        self.line("passed += 1")
