"""Write a nest as the source of a function that counts by groups: into an array by code, or as rows.

By code: at the loop of a key, and of each attribute that stands for it, what is inside (and beside the loops around it, if
these are a chain) is added to the entry of the loop's value. As rows: the loops of the keys are a chain, at the end of which
each binding of them is written with its count. As in a list, a function whose space is full notes where its chain stands.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from bigjoin.compiled.count_source import CountSource, Emit
from bigjoin.compiled.list_source import ListSource
from bigjoin.compiled.stages import BoundLoop
from bigjoin.joins.bind import Binder
from bigjoin.query.nest import Nest


class CodeCountSource(CountSource):
    """Writes the function that counts by code; if several attributes stand for the key, the nest is a chain."""

    def __init__(self, nest: Nest, binder: Binder, attributes: Collection[str], *, modular: bool = False) -> None:
        super().__init__(nest, binder, modular=modular)
        self.keys = _loops_of(attributes, self.loops)
        for loop in self.keys:
            loop.looped = True
        if len(self.keys) == 1:
            self.root.chain_to(self.keys[0])

    def function(self) -> str:
        """Return the source of the function."""
        self.line("total = 0")
        self.over_root(lambda factors: self.add("total" if len(self.keys) > 1 else self.entry(self.keys[0]), factors))
        self.line("return total")
        prime = ["prime"] if self.modular else []
        return self.module("first", "last", "low", "high", "tally", "constants", "counts", *prime)

    def entry(self, loop: BoundLoop) -> str:
        """Return the entry of a loop's value."""
        return f"counts[x{loop.position}]"

    def inside(self, loop: BoundLoop, factors: list[str], emit: Emit, cached: BoundLoop | None = None) -> None:
        """Write what is inside a loop, which several keys add to entries and to the sums of the loops around them."""

        def count(factors: list[str]) -> None:
            amount = self.let("amount", self.product(factors)) if factors else "1"
            self.add(self.entry(loop), [amount])
            emit([amount])

        super().inside(loop, factors, count if len(self.keys) > 1 and loop in self.keys else emit, cached)


class GroupRowSource(ListSource):
    """Writes the function that gives a row for each binding of the keys, if it has matches."""

    def __init__(self, nest: Nest, binder: Binder, attributes: Sequence[str], *, modular: bool = False) -> None:
        CountSource.__init__(self, nest, binder, modular=modular)
        self.keys = _loops_of(attributes, self.loops)
        self.attributes, self.tails = attributes, []
        self.last = max(self.keys, key=lambda loop: loop.depth)
        self.last.looped = True
        self.root.chain_to(self.last)

    def function(self) -> str:
        """Return the source of the function."""
        self.line("filled = 0")
        self.line("resuming = state[0] > 0")
        self.line("state[0] = 0")
        self.over_root(self.write_group)
        self.line("return filled")
        prime = ["prime"] if self.modular else []
        return self.module("first", "last", "low", "high", "tally", "constants", "out", "state", "counts", *prime)

    def first_place(self, loop: BoundLoop, start: str) -> str:
        """Return the place where a loop begins; one of the chain may go on."""
        return super().first_place(loop, start) if loop in self.keys else start

    def inside(self, loop: BoundLoop, factors: list[str], emit: Emit, cached: BoundLoop | None = None) -> None:
        """Write what is inside a loop; at the end of the chain, only if there is space for another row."""
        if loop is self.last and cached is None:
            self.line("resuming = False")
            self.stop_if_full()
        CountSource.inside(self, loop, factors, emit, cached)

    def write_group(self, factors: list[str]) -> None:
        """Write the row of a group, unless it has no matches."""
        amount = self.let("amount", self.product(factors))
        with self.block(f"if {amount} != 0:"):
            place = {loop.loop.attribute: loop.position for loop in self.keys}
            for row, attribute in enumerate(self.attributes):
                self.line(f"out[{row}, filled] = x{place[attribute]}")
            self.line(f"counts[filled] = {amount}")
            self.line("filled += 1")


def _loops_of(attributes: Collection[str], loops: Sequence[BoundLoop]) -> list[BoundLoop]:
    """Return the loops that bind some attributes, except where these are only added to a counter."""
    return [loop for loop in loops if loop.loop.attribute in attributes and loop.loop.collects is None]
