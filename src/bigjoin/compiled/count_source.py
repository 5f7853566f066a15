"""Write a nest as the source of a function that counts: nested loops that add up products, with no allocation inside.

The function returns what the nest comes to for a range of the root's codes. It also adds to `tally`, at the number of each
loop, how many values the loop went through, and behind those, loop by loop again, how many candidates it had.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import comb, prod

import numpy as np

from bigjoin.compiled.found_sets import FoundSet, SetSlice
from bigjoin.compiled.row_source import RowSource
from bigjoin.compiled.stages import BoundLoop
from bigjoin.joins.bind import Binder
from bigjoin.query.nest import Nest

_CACHE = "cache"
"""How the names of arrays begin that keep a sum for each code."""

Emit = Callable[[list[str]], None]
"""Writes what happens to a product, given its factors, at the innermost loop of a chain."""


class CountSource(RowSource):
    """Writes the function that counts, modulo a prime that it is given if `modular`."""

    def __init__(self, nest: Nest, binder: Binder, *, modular: bool = False) -> None:
        super().__init__(nest, binder)
        self.modular = modular
        self.max_entries: dict[int, int] = {}
        """What no entry of a counter can exceed."""
        self.max_sums: dict[int, int] = {}
        """What all entries of a counter together cannot exceed."""
        self.filled: list[int] = []
        """The counters that have entries at this point."""

    def function(self) -> str:
        """Return the source of the function."""
        self.line("total = 0")
        self.over_root(lambda factors: self.add("total", factors))
        self.line("return total")
        return self.module("first", "last", "low", "high", "tally", "constants", *(["prime"] if self.modular else []))

    def forget_sums(self) -> None:
        """Begin with sums that are kept for codes anew: they are those of one function, of one prime and of one version."""
        for name, array in self.arrays.items():
            if name.startswith(_CACHE):
                self.arrays[name] = np.zeros_like(array)

    # Loops

    def over_root(self, emit: Emit) -> None:
        """Write the outermost loop."""
        with self.scope():
            self.find_sets(self.root.heads, -1)
            begin = self.first_place(self.root, "first")
            with self.marking(self.root.heads, -1, "last - first"), self.block(f"for n in range({begin}, last):"):
                self.end_if_stopped(self.root)
                self.bind_root()
                self.for_value(self.root, emit)

    def over(self, loop: BoundLoop, emit: Emit) -> None:
        """Write a loop over the extensions of its attribute, or over the entries of a counter."""
        found: FoundSet
        if loop.stages:
            found = self.within_range(loop, self.set_of(loop))
        else:
            number = loop.loop.weights[0]
            found = SetSlice(f"touched{number}", "0", f"reached{number}")
        if not self.is_filtered(loop):
            self.tally_values(loop, f"max(0, {found.size})")
        with self.each(loop, found, self.first_place(loop, found.begin)):
            self.end_if_stopped(loop)
            self.for_value(loop, emit)

    def end_if_stopped(self, loop: BoundLoop) -> None:
        """Write the end of a query that is stopped, in the root and in loops around loops; what it returns is not read."""
        if loop is self.root or loop.counters or any(not child.is_counted for child in loop.inner):
            self.line("if stopped[0] != 0:")
            self.line("    return 0")

    def first_place(self, loop: BoundLoop, start: str) -> str:  # noqa: ARG002
        """Return the place where a loop begins."""
        return start

    def tally_values(self, loop: BoundLoop, number: str) -> None:
        """Write how the values of a loop are counted."""
        self.line(f"tally[{loop.number}] += {number}")

    def within_range(self, loop: BoundLoop, found: FoundSet) -> FoundSet:
        """Return the part of a set that belongs to the range of seeds, if a range may end within the set."""
        if loop.path != (self.root.position,) or not self.seeds[1]:
            return found
        assert isinstance(found, SetSlice)
        return SetSlice(found.array, f"max({found.start}, low)", f"min({found.stop}, high)")

    def for_value(self, loop: BoundLoop, emit: Emit) -> None:
        """Write what happens to a value: its conditions, its weights, and everything inside the loop."""
        self.open(*self.conditions(loop))
        if self.is_filtered(loop):
            self.tally_values(loop, "1")
        factors = []
        for number in loop.loop.weights:
            factors.append(self.let("weight", f"int64(w{number}[x{loop.position}])"))
            self.open(f"{factors[-1]} != 0")
        self.inside(loop, factors, emit)

    def inside(self, loop: BoundLoop, factors: list[str], emit: Emit, cached: BoundLoop | None = None) -> None:
        """Write what is inside a loop: sizes of sets, counters, sums of loops, and last the rest of its chain or the product.

        Given a cached child, write that alone. What is likely to be zero comes early, since a product of zero ends the work.
        """
        chain = loop.inner[:1] if loop.chained and cached is None else []
        children = [cached] if cached is not None else loop.inner[len(chain) :]
        counters = loop.counters if cached is None else []
        kept = [child for child in children if child.loop.cached and child is not cached]
        leaves = [child for child in children if child.is_counted and child not in kept]
        summed = [child for child in children if child not in kept and child not in leaves]
        heads = [*chain, *(first for _, first in counters), *summed]
        factors = list(factors)

        def multiply(factor: str) -> None:
            factors.append(factor)
            self.open(f"{factor} != 0")

        with self.scope():
            needed = {codes for _, codes in self.needed(heads, loop.depth)}
            for leaf in leaves:
                if leaf.extensions not in needed:
                    multiply(self.size(leaf))
            self.find_sets(heads, loop.depth)
            for leaf in leaves:
                if leaf.extensions in needed:
                    multiply(self.size(leaf))
            iterations = next((self.set_of(head).size for head in heads if head.stages), "0")
            with self.marking(heads, loop.depth, iterations):
                for number, first in counters:
                    self.fill(number, first)
                    self.filled.append(number)
                for child in kept:
                    multiply(self.cached_sum(loop, child))
                for child in summed:
                    if chain or child is not summed[-1]:
                        multiply(self.sum(child))
                    else:
                        factors.append(self.sum(child))
                for child in chain:
                    self.over(child, lambda more: emit([*factors, *more]))
                if not chain:
                    emit(factors)
            for number, _ in counters:
                self.filled.remove(number)
                self.clear_counter(number)

    # Numbers

    def sum(self, loop: BoundLoop) -> str:
        """Write a loop that adds up, and return the name of the sum."""
        total = self.let("sum", "0")
        self.over(loop, lambda factors: self.add(total, factors))
        self.subtract_discount(total, loop)
        return total

    def cached_sum(self, loop: BoundLoop, child: BoundLoop) -> str:
        """Write a loop whose sum is kept for each code of the attribute around it, and return the name of the sum."""
        x, size = f"x{loop.position}", self.room[self.binder.order[loop.position]]
        # Sums are kept plus one. A zero means not counted yet, and zeroed memory costs nothing until it is touched.
        cache = self.derived(f"{_CACHE}{child.number}", lambda: np.zeros(size, np.int64))
        total = self.let("sum", f"{cache}[{x}] - 1")
        with self.block(f"if {total} < 0:"):
            self.line(f"{total} = 0")
            self.inside(loop, [], lambda factors: self.line(f"{total} = {self.product(factors)}"), cached=child)
            self.line(f"{cache}[{x}] = {total} + 1")
        return total

    def size(self, leaf: BoundLoop) -> str:
        """Write the size of a leaf's set, without writing the set where that is possible, and return its name."""
        found = self.sets_of(leaf)
        match found:
            case [SetSlice() as a, SetSlice() as b]:
                self.mark_late([a, b])
                size = self.let("size", f"common({self.pair(a, b)}, None, 0)")
            case [one]:
                size = self.let("size", one.size)
        others: list[str] = []
        for f in leaf.condition.filters:  # all of them say that a code differs from another
            other = f"x{f.position}" if f.position is not None else self.constant(f.constant)
            is_new = [f"{other} != {earlier}" for earlier in others]
            self.line(f"if {' and '.join([f'{size} > 0', *is_new, *(self.contains(one, other) for one in found)])}:")
            self.line(f"    {size} -= 1")
            others.append(other)
        self.subtract_discount(size, leaf)
        self.tally_values(leaf, size)
        return size

    def sets_of(self, leaf: BoundLoop) -> Sequence[FoundSet]:
        """Write one set or two lists whose intersection is a leaf's set; what only has to be counted may have no members."""
        wanted = leaf.extensions
        known = self.lookup(wanted)
        if known is None and not self.is_listed(wanted):
            return [self.as_bits(wanted, leaf, counted=not leaf.condition.filters)]
        if known is None and wanted.without:
            known = self.materialise(wanted, leaf)
        if known is not None:
            return [self.cut_to_range(leaf, known)]
        slices, _ = self.operands(wanted)
        self.tally_candidates(slices, leaf)
        if len(slices) == 1:
            return [self.cut_to_range(leaf, slices[0])]
        return slices if len(slices) == 2 else [self.intersection(slices)]

    def cut_to_range(self, leaf: BoundLoop, found: FoundSet) -> FoundSet:
        """Write the part of a leaf's set that belongs to the range of seeds."""
        part = self.within_range(leaf, found)
        if part == found or not isinstance(part, SetSlice):
            return found
        start = self.let("start", part.start)
        return SetSlice(part.array, start, self.let("stop", f"max({start}, {part.stop})"))

    def subtract_discount(self, total: str, loop: BoundLoop) -> None:
        """Write how values are left out that attributes of other loops have taken."""
        if loop.loop.discount:
            self.line(f"{total} -= min({total}, {loop.loop.discount})")

    def fill(self, number: int, first: BoundLoop) -> None:
        """Write the chain of loops that fills a counter."""
        last = next(loop for loop in first.everything() if loop.loop.collects == number)
        x, size = f"x{last.position}", self.room[last.loop.attribute]
        is_narrow = not self.modular and self.most(first, entry=True) < 1 << 31  # half the memory
        self.arrays[f"w{number}"] = np.zeros(size, np.int32 if is_narrow else np.int64)
        self.arrays[f"touched{number}"] = np.empty(size + 1, self.code_type)
        self.line(f"reached{number} = 0")

        def collect(factors: list[str]) -> None:
            # Without a branch: it would wait for the entry to arrive from memory, and often be mispredicted.
            self.line(f"touched{number}[reached{number}] = {x}")
            self.line(f"reached{number} += w{number}[{x}] == 0")
            if self.modular:  # from 1 to prime: a zero would mean that the value was not reached
                self.line(f"w{number}[{x}] = (w{number}[{x}] + {self.product(factors)} + prime - 1) % prime + 1")
            else:
                self.line(f"w{number}[{x}] += {self.product(factors)}")

        self.over(first, collect)

    def clear_counter(self, number: int) -> None:
        """Write how the entries of a counter are set to zero again."""
        self.line(f"for i{number} in range(reached{number}):")
        self.line(f"    w{number}[touched{number}[i{number}]] = 0")

    def product(self, factors: list[str]) -> str:
        """Return a product as an expression."""
        if not self.modular:
            return " * ".join(factors) or "1"
        remainders = [f"({factor} % prime)" for factor in factors] or ["1"]
        return reduce(lambda product, factor: f"({product} * {factor} % prime)", remainders)

    def add(self, total: str, factors: list[str]) -> None:
        """Write the addition of a product."""
        amount = self.product(factors)
        self.line(f"{total} = ({total} + {amount}) % prime" if self.modular else f"{total} += {amount}")

    # Bounds on these numbers

    def most(self, loop: BoundLoop, *, entry: bool = False) -> int:
        """Return what the sum of a loop cannot exceed, or what a chain adds to one entry of its counter."""
        if not loop.stages and loop.loop.weights:  # the values are the entries of a counter, and their sum is known
            first, *others = loop.loop.weights
            return self.max_sums[first] * self.most_inside(loop, others)
        if entry and loop.loop.collects is not None:
            return self.most_inside(loop, loop.loop.weights)
        values = self.longest_set(loop.extensions) if loop.stages else self.room[loop.loop.attribute]
        if entry:
            return max(1, values) * self.most_inside(loop, loop.loop.weights, entry=True)
        chosen = self.descending(loop)  # each a smaller code than the one before, from a set of so many
        return max(1, comb(values, len(chosen))) * self.most_inside(chosen[-1], chosen[-1].loop.weights)

    def descending(self, loop: BoundLoop) -> list[BoundLoop]:
        """Return a loop and those within each other in it whose values are ever smaller members of its set, as in a clique."""
        found = [loop]
        while len(children := found[-1].inner) == 1 and not (found[-1].counters or found[-1].loop.weights):
            child, ordered = children[0], self.nest.ordered
            is_below = (child.position, found[-1].position) in ordered
            if not (loop.stages and child.stages and is_below and loop.extensions.holds_all_of(child.extensions, ordered)):
                break
            found.append(child)
        return found

    def most_inside(self, loop: BoundLoop, weights: Sequence[int] = (), *, entry: bool = False) -> int:
        """Return what one value of a loop cannot exceed."""
        for number, first in loop.counters:
            self.max_entries[number], self.max_sums[number] = self.most(first, entry=True), self.most(first)
        return prod(self.most(child, entry=entry) for child in loop.inner) * prod(self.max_entries[n] for n in weights)
