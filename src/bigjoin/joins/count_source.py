"""Write a nest as the source of a function that counts: nested loops over sorted lists, with no allocation inside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from bigjoin.joins.bind import Binder
from bigjoin.joins.set_source import SetSource
from bigjoin.joins.source_text import Value
from bigjoin.joins.stages import BoundLoop
from bigjoin.query.nest import Nest

Sink = Callable[[list[str]], None]
"""What becomes of a product, given its factors."""


class CountSource(SetSource):
    """Writes the function that returns what a term's nest comes to for a range of the root's codes, perhaps modulo a prime."""

    def __init__(self, term: Nest, binder: Binder, *, modular: bool = False) -> None:
        super().__init__(term, binder)
        self.modular = modular
        self.entries: dict[int, int] = {}
        """What no entry of a counter can exceed."""
        self.sums: dict[int, int] = {}
        """What all entries of a counter together cannot exceed."""

    def counting(self) -> str:
        """Return the source of a function that returns a count."""
        self.line("total = 0")
        self.over_root(lambda factors: self.add("total", factors))
        self.line("return total")
        return self.source(["first", "last", "low", "high", "tally", "constants", *(["prime"] if self.modular else [])])

    def over_root(self, sink: Sink) -> None:
        root = self.root
        with self.scope():
            self.hoist(self.root.heads, -1)
            with self.marking(self.root.heads, -1, "last - first"):
                self.line("for n in range(first, last):")
                self.level += 1
                self.bind_root()
                self.body(root, sink)
                self.level -= 1

    def body(self, loop: BoundLoop, sink: Sink) -> None:
        """Write what happens to a value: conditions, weights, and everything inside."""
        level, x = self.level, f"x{loop.position}"
        self.open_all(self.conditions(loop))
        if self.filtered(loop):
            self.line(f"tally[{loop.number}] += 1")
        factors = []
        for number in loop.loop.weights:
            factors.append(self.name("f"))
            self.line(f"{factors[-1]} = int64(w{number}[{x}])")
            self.open(f"{factors[-1]} != 0")
        self.inside(loop, factors, sink)
        self.level = level

    def inside(self, loop: BoundLoop, factors: list[str], sink: Sink, only: BoundLoop | None = None) -> None:
        """Write the sets, marks and counters of the loops inside one, and then these loops."""
        depth = loop.depth
        spine = loop.inner[0] if loop.leads and only is None else None
        children = [child for child in loop.inner if child is not spine and not child.loop.cached] if only is None else [only]
        cached = [child for child in loop.inner if child.loop.cached] if only is None else []
        counters = loop.counters if only is None else []
        leaves = [child for child in children if child.is_counted]
        heads = [*([spine] if spine is not None else []), *(s for _, s in counters)]
        heads += [child for child in children if child not in leaves]
        level = self.level
        with self.scope():
            needed = {found for _, found in self.needed(heads, depth)}
            for leaf in leaves:
                if leaf.stages[-1][1] not in needed:
                    factors = [*factors, self.count(leaf)]
                    self.open(f"{factors[-1]} != 0")
            self.hoist(heads, depth)
            for leaf in leaves:
                if leaf.stages[-1][1] in needed:
                    factors = [*factors, self.count(leaf)]
                    self.open(f"{factors[-1]} != 0")
            iterations = next((self.value(head).size for head in heads if head.stages), "0")
            with self.marking(heads, depth, iterations):
                for number, head in counters:
                    self.fill(number, head)
                for child in cached:
                    factors = [*factors, self.cached(loop, child)]
                    self.open(f"{factors[-1]} != 0")
                for child in children:
                    if child not in leaves:
                        factors = [*factors, self.total(child)]
                        if child is not children[-1] or spine is not None:
                            self.open(f"{factors[-1]} != 0")
                if spine is None:
                    sink(factors)
                else:
                    self.over(spine, lambda more: sink([*factors, *more]))
            for number, _ in counters:
                self.line(f"for i{number} in range(reached{number}):")
                self.line(f"    w{number}[touched{number}[i{number}]] = 0")
        self.level = level

    def total(self, loop: BoundLoop) -> str:
        """Write a loop that adds up, and return the name of the sum."""
        total = self.name("t")
        self.line(f"{total} = 0")
        self.over(loop, lambda factors: self.add(total, factors))
        if loop.loop.discount:
            self.line(f"{total} -= min({total}, {loop.loop.discount})")
        return total

    def over(self, loop: BoundLoop, sink: Sink) -> None:
        """Write a loop over the extensions of its attribute."""
        level, p = self.level, self.name("p")
        if loop.stages:
            found = self.value(loop)
            start, stop = found.start, found.stop
            if loop.path == (self.root.position,) and self.seeds[1]:
                start, stop = f"max({start}, low)", f"min({stop}, high)"
            array = found.array
        else:
            number = loop.loop.weights[0]
            array, start, stop = f"touched{number}", "0", f"reached{number}"
        if not self.filtered(loop):
            self.line(f"tally[{loop.number}] += max(0, {stop} - {start})")
        self.line(f"for {p} in range({start}, {stop}):")
        self.level += 1
        self.line(f"x{loop.position} = int64({array}[{p}])")
        self.body(loop, sink)
        self.level = level

    def most(self, loop: BoundLoop, *, entry: bool = False) -> int:
        """Return what the sum of a loop cannot exceed, or what a spine adds to one entry of its counter."""
        if not loop.stages and loop.loop.weights:  # the values are the entries of a counter, whose sum is known
            first, *others = loop.loop.weights
            return self.sums[first] * self.most_inside(loop, others)
        if entry and loop.loop.collects is not None:
            return self.most_inside(loop, loop.loop.weights)
        # At most as many values as the shortest list can be long.
        lists = [part for _, found in loop.stages[-1:] for part in found.lists]
        values = min([self.lengths[part.trie] for part in lists] or [self.binder.size(loop.loop.attribute)])
        return max(1, values) * self.most_inside(loop, loop.loop.weights, entry=entry)

    def most_inside(self, loop: BoundLoop, weights: Sequence[int] = (), *, entry: bool = False) -> int:
        """Return what one value of a loop cannot exceed."""
        for number, spine in loop.counters:
            self.entries[number], self.sums[number] = self.most(spine, entry=True), self.most(spine)
        return prod(self.most(inner, entry=entry) for inner in loop.inner) * prod(self.entries[number] for number in weights)

    def fill(self, number: int, spine: BoundLoop) -> None:
        """Write the loops that fill a counter."""
        attribute = next(loop for loop in spine.loop.walk() if loop.collects == number).attribute
        x, size = f"x{self.binder.order.index(attribute)}", self.binder.size(attribute)
        fits = not self.modular and self.most(spine, entry=True) < 1 << 31
        self.arrays[f"w{number}"] = np.zeros(size, np.int32 if fits else np.int64)  # half the memory
        self.arrays[f"touched{number}"] = np.empty(size + 1, self.code_type)
        self.line(f"reached{number} = 0")

        def collect(factors: list[str]) -> None:
            # Without a branch, which would wait for the entry to come from memory and then often be foreseen wrongly.
            self.line(f"touched{number}[reached{number}] = {x}")
            self.line(f"reached{number} += w{number}[{x}] == 0")
            if self.modular:  # a sum that comes to zero stays a mark of having been reached
                self.line(f"w{number}[{x}] = (w{number}[{x}] + {self.product(factors)} + prime - 1) % prime + 1")
            else:
                self.line(f"w{number}[{x}] += {self.product(factors)}")

        self.over(spine, collect)

    def cached(self, loop: BoundLoop, child: BoundLoop) -> str:
        """Write a loop whose sum is kept for each code of the attribute around it."""
        total, x = self.name("t"), f"x{loop.position}"
        cache = f"cache{child.number}"
        # One more than the sum is kept: what was never counted is a zero, of which memory is made when it is asked for.
        self.arrays[cache] = np.zeros(self.binder.size(self.binder.order[loop.position]), np.int64)
        self.line(f"{total} = {cache}[{x}] - 1")
        self.line(f"if {total} < 0:")
        self.level += 1
        self.line(f"{total} = 0")
        self.inside(loop, [], lambda factors: self.line(f"{total} = {self.product(factors)}"), only=child)
        self.line(f"{cache}[{x}] = {total} + 1")
        self.level -= 1
        return total

    def count(self, leaf: BoundLoop) -> str:
        """Write the size of a leaf's set, without the set where that can be, and return its name."""
        n, want = self.name("c"), leaf.stages[-1][1]
        known = self.lookup(want)
        if known is not None:
            values = [known]
        elif want.without:
            values = [self.materialise(want, leaf)]
        else:
            values, _ = self.operands(want)
            self.tally_candidates(values, leaf)
        if leaf.path == (self.root.position,) and self.seeds[1]:
            start, stop = self.name("s"), self.name("e")
            self.line(f"{start} = max({values[0].start}, low)")
            self.line(f"{stop} = max({start}, min({values[0].stop}, high))")
            values = [Value(values[0].array, start, stop, values[0].marks)]
        if len(values) > 2:
            smaller = self.intersection(values)
            self.line(f"{n} = {smaller.size}")
            values = [smaller]
        else:
            self.line(f"{n} = {values[0].size}" if len(values) == 1 else f"{n} = count_common({self.pair(*values)})")
        others: list[str] = []
        for f in leaf.condition.filters:
            other = f"x{f.position}" if f.position is not None else self.constant(f.constant)
            held = [f"position_of({v.array}, {v.start}, {v.stop}, {other}) >= 0" for v in values]
            test = [f"{n} > 0", *(f"{other} != {earlier}" for earlier in others), *held]
            self.line(f"if {' and '.join(test)}:")
            self.line(f"    {n} -= 1")
            others.append(other)
        if leaf.loop.discount:
            self.line(f"{n} -= min({n}, {leaf.loop.discount})")
        self.line(f"tally[{leaf.number}] += {n}")
        return n

    def product(self, factors: list[str]) -> str:
        if not self.modular:
            return " * ".join(factors) or "1"
        product = "1"
        for i, factor in enumerate(factors):
            product = f"({factor} % prime)" if i == 0 else f"({product} * ({factor} % prime) % prime)"
        return product

    def add(self, total: str, factors: list[str]) -> None:
        amount = self.product(factors)
        self.line(f"{total} = ({total} + {amount}) % prime" if self.modular else f"{total} += {amount}")
