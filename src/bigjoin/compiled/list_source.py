"""Write a chain of loops as the source of a function that lists matches: rows, or prefixes with the lists of their tails.

The loops are those of a count, but the innermost one writes a row instead of adding to a sum. *Tails* are loops side by side
inside the last loop of the chain. For each value of that loop, each tail gives a list, and a match is any choice of one value
from each list.

The function returns how many rows it wrote. When its space is full, it sets state[0] and notes in state[1:] where each loop of
the chain stands; the next call goes on there.
"""

from __future__ import annotations

from bigjoin.compiled.count_source import CountSource, Emit
from bigjoin.compiled.stages import BoundLoop
from bigjoin.joins.bind import Binder
from bigjoin.query.nest import Nest


class ListSource(CountSource):
    """Writes the function that lists; if `factorized`, a last loop that stands alone is a tail too."""

    def __init__(self, nest: Nest, binder: Binder, *, factorized: bool = False) -> None:
        super().__init__(nest, binder)
        self.last = self.root
        while len(self.last.inner) == 1 and (self.last.inner[0].inner or not factorized):
            self.last.chained = True
            self.last = self.last.inner[0]
        self.tails = self.last.inner

    def function(self) -> str:
        """Return the source of the function."""
        self.line("filled = 0")
        self.line("resuming = state[0] > 0")
        self.line("state[0] = 0")
        for i, _ in enumerate(self.tails):
            self.line(f"used{i} = 0")
        self.over_root(lambda _: self.write_row())
        self.line("return filled")
        spaces = [name for i, _ in enumerate(self.tails) for name in (f"lengths{i}", f"tail{i}")]
        return self.module("first", "last", "low", "high", "tally", "constants", "out", "state", *spaces)

    def first_place(self, loop: BoundLoop, start: str) -> str:
        """Return the place where a loop begins, or goes on."""
        return self.let("begin", f"state[{loop.depth + 1}] if resuming else {start}")

    def tally_values(self, loop: BoundLoop, number: str) -> None:
        """Write nothing: rows are counted as they are returned, and an addition for each would cost a quarter of the time."""

    def inside(self, loop: BoundLoop, factors: list[str], emit: Emit, cached: BoundLoop | None = None) -> None:
        """Write what is inside a loop: the next one, or a row at the end of the chain."""
        if loop is self.last:
            emit(factors)
        else:
            super().inside(loop, factors, emit, cached)

    def write_row(self) -> None:
        """Write the row of a prefix, with the values of its tails, if there is space for it and no tail is empty."""
        self.line("resuming = False")
        with self.scope():
            self.find_sets(self.tails, self.last.depth)
            self.stop_if_full()
            for i, tail in enumerate(self.tails):
                found, x = self.set_of(tail), f"x{tail.position}"
                self.line(f"begun{i} = used{i}")
                with self.each(tail, found, found.begin):
                    self.open(*self.conditions(tail))
                    self.line(f"tail{i}[used{i}] = {x}")
                    self.line(f"used{i} += 1")
            if self.tails:
                with self.block(f"if {' or '.join(f'used{i} == begun{i}' for i, _ in enumerate(self.tails))}:"):
                    for i, _ in enumerate(self.tails):
                        self.line(f"used{i} = begun{i}")
                self.line("else:")
                self.level += 1
            for i, _ in enumerate(self.tails):
                self.line(f"lengths{i}[filled] = used{i} - begun{i}")
            for row, position in enumerate((*self.last.path, self.last.position)):
                self.line(f"out[{row}, filled] = x{position}")
            self.line("filled += 1")

    def stop_if_full(self) -> None:
        """Write the end of a call that has no space for another row: note where each loop stands, and clear all marks."""
        full = [f"used{i} + {self.set_of(tail).size} > len(tail{i})" for i, tail in enumerate(self.tails)]
        with self.block(f"if {' or '.join(['filled == out.shape[1]', *full])}:"):
            self.line("state[0] = 1")
            for i, place in enumerate(["n", *(f"p{position}" for position in (*self.last.path, self.last.position)[1:])]):
                self.line(f"state[{i + 1}] = {place}")
            self.clear()
            for number in self.filled:
                self.clear_counter(number)
            self.line("return filled")
