"""Write a nest as the source of one function: nested loops over sorted lists, with no allocation inside.

The source holds no text of a query, only its shape: attributes become x0, x1, ..., arrays and constants are arguments.
Whatever a set, a counter or a cache needs in memory is an argument too, made once for a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.dictionary import code_type
from bigjoin.index.trie import Trie
from bigjoin.join.bind import Binder, BoundExtender
from bigjoin.join.constraints import Filter
from bigjoin.join.stages import Bound, BoundLoop, List, SetOf, bind_nest
from bigjoin.kernels import compare
from bigjoin.kernels.walk import own_positions
from bigjoin.query.nest import Term

MARK = 8
"""A set is marked if it is at most so many times as long as the loop that will scan its marks."""

_OPERATORS = {
    compare.LESS: "<",
    compare.LESS_EQUAL: "<=",
    compare.GREATER: ">",
    compare.GREATER_EQUAL: ">=",
    compare.NOT_EQUAL: "!=",
    compare.EQUAL: "==",
}
_HEADER = """from numpy import int64

from bigjoin.kernels.jit import kernel
from bigjoin.kernels.lists import lower_bound
from bigjoin.kernels.sets import common, count_common, mark, position_of, without


@kernel
def run({arguments}):
"""

Sink = Callable[[list[str]], None]
"""What becomes of a product, given its factors."""


@dataclass(frozen=True, slots=True)
class Value:
    """A set in the generated code: array[start:stop], its marks, and whether it is marked."""

    array: str
    start: str
    stop: str
    marks: str
    marked: str = "False"

    @property
    def size(self) -> str:
        return f"{self.stop} - {self.start}"


class Generator:
    """Writes the function that counts, or lists, what a term's nest comes to for a range of the root's codes."""

    def __init__(self, term: Term, binder: Binder, *, modular: bool = False, factorized: bool = False) -> None:
        self.binder, self.modular, self.factorized = binder, modular, factorized
        self.active: list[tuple[Value, str, str]] = []
        self.root, self.tries, self.below = bind_nest(term, binder)
        self.loops = len(list(term.root.walk()))
        self.lines: list[str] = []
        self.level = 1
        self.names = 0
        self.arrays: dict[str, NDArray[Any]] = {}
        self.known: dict[tuple[int, int, str], str] = {}
        self.constants: list[int] = []
        self.scopes: list[dict[SetOf, Value]] = [{}]
        self.idle: dict[str, list[str]] = {"marks": [], "buffer": []}
        self.domain = max(binder.size(a) for a in term.attributes)
        self.code_type = code_type(self.domain)

    # -- the function

    def counting(self) -> str:
        """Return the source of a function that returns a count."""
        self.arrays["nothing"] = np.zeros(1, np.uint8)
        self.line("total = 0")
        self.over_root(lambda factors: self.add("total", factors))
        self.line("return total")
        return self.source(["first", "last", "low", "high", "tally", "constants", *(["prime"] if self.modular else [])])

    def listing(self) -> str:
        """Return the source of a function that writes prefixes, and lists for the tails inside the last loop of the chain.

        It stops when its space is full, with the place where it is to go on in `state`, and returns how many prefixes it wrote.
        """
        self.arrays["nothing"] = np.zeros(1, np.uint8)
        self.line("filled = 0")
        self.line("resuming = state[0] > 0")
        self.line("state[0] = 0")
        tails = self.tails
        for i, _ in enumerate(tails):
            self.line(f"used{i} = 0")
        with self.scope():
            self.hoist([self.root], -1)
            with self.marking([self.root], -1, "last - first"):
                self.line("for n in range(state[1] if resuming else first, last):")
                self.level += 1
                self.bind_root()
                self.row(self.root, ["n"])
                self.level -= 1
        self.line("return filled")
        spaces = [name for i, _ in enumerate(tails) for name in (f"lengths{i}", f"tail{i}")]
        return self.source(["first", "last", "low", "high", "tally", "constants", "out", "state", *spaces])

    @property
    def tails(self) -> list[BoundLoop]:
        """The loops that stand side by side at the end of the chain; none if each loop holds one other at most."""
        loop = self.root
        while len(loop.inner) == 1 and loop.inner[0].inner:
            loop = loop.inner[0]
        return loop.inner if len(loop.inner) > 1 or self.factorized else []

    def row(self, loop: BoundLoop, places: list[str]) -> None:
        """Write what becomes of a value in a chain: the loop inside it, or a row."""
        level = self.level
        for text in self.conditions(loop):
            self.open(text)
        tails = self.tails
        if not loop.inner or loop.inner is tails:
            self.line("resuming = False")
            self.write_row(loop, places, tails)
        else:
            child = loop.inner[0]
            with self.scope():
                self.hoist([child], loop.depth)
                found = self.value(child)
                with self.marking([child], loop.depth, found.size):
                    start, stop, p = found.start, found.stop, self.name("p")
                    if loop is self.root and self.seeds[1]:
                        start, stop = f"max({start}, low)", f"min({stop}, high)"
                    begin = self.name("b")
                    self.line(f"{begin} = state[{len(places) + 1}] if resuming else {start}")
                    self.line(f"for {p} in range({begin}, {stop}):")
                    self.level += 1
                    self.line(f"x{child.position} = int64({found.array}[{p}])")
                    self.row(child, [*places, p])
        self.level = level

    def write_row(self, loop: BoundLoop, places: list[str], tails: list[BoundLoop]) -> None:
        with self.scope():
            if tails:
                self.hoist(tails, loop.depth)
            full = ["filled == out.shape[1]"]
            full += [f"used{i} + {self.value(tail).size} > len(tail{i})" for i, tail in enumerate(tails)]
            self.line(f"if {' or '.join(full)}:")
            self.level += 1
            self.line("state[0] = 1")
            for i, place in enumerate(places):
                self.line(f"state[{i + 1}] = {place}")
            for found, marks, flag in self.active:
                self.line(f"if {flag}:")
                self.line(f"    mark({marks}, {found.array}, {found.start}, {found.stop}, 0)")
            self.line("return filled")
            self.level -= 1
            for i, tail in enumerate(tails):
                found, p = self.value(tail), self.name("p")
                self.line(f"begun{i} = used{i}")
                self.line(f"for {p} in range({found.start}, {found.stop}):")
                self.level += 1
                self.line(f"x{tail.position} = int64({found.array}[{p}])")
                level = self.level
                for text in self.conditions(tail):
                    self.open(text)
                self.line(f"tail{i}[used{i}] = x{tail.position}")
                self.line(f"used{i} += 1")
                self.level = level - 1
            if tails:
                self.line(f"if {' or '.join(f'used{i} == begun{i}' for i, _ in enumerate(tails))}:")
                for i, _ in enumerate(tails):
                    self.line(f"    used{i} = begun{i}")
                self.line("else:")
                self.level += 1
                for i, _ in enumerate(tails):
                    self.line(f"lengths{i}[filled] = used{i} - begun{i}")
            for k, position in enumerate((*loop.path, loop.position)):
                self.line(f"out[{k}, filled] = x{position}")
            self.line("filled += 1")

    def source(self, arguments: list[str]) -> str:
        return _HEADER.format(arguments=", ".join([*arguments, *self.arrays])) + "\n".join(self.lines) + "\n"

    @cached_property
    def seeds(self) -> tuple[Trie | None, bool]:
        """The trie whose first lists lead on from the root's codes, and whether a range may end within such a list."""
        children = [*(spine for _, spine in self.root.counters), *self.root.inner]
        lists = [part for child in children for _, found in child.stages for part in found.lists]
        keyed = [part for part in lists if part.key == (self.root.position,)]
        if not keyed:
            return None, False
        only = children[0].stages[-1][1] if len(children) == 1 and children[0].stages else SetOf()
        whole = only.lists == {keyed[0]} and not only.without and not self.root.stages and not children[0].loop.cached
        is_tail = self.factorized and children[0] in self.tails
        return self.tries.all[keyed[0].trie], whole and not is_tail

    def over_root(self, sink: Sink) -> None:
        root = self.root
        with self.scope():
            self.hoist([root], -1)
            with self.marking([root], -1, "last - first"):
                self.line("for n in range(first, last):")
                self.level += 1
                self.bind_root()
                self.body(root, sink)
                self.level -= 1

    def bind_root(self) -> None:
        root, x = self.root, f"x{self.root.position}"
        if not root.stages:
            trie, _ = self.seeds
            nodes = "n" if trie is None or trie.shards.count == 1 else f"{self.codes(trie)}[n]"
            self.line(f"{x} = int64({nodes})")
            return
        first, *others = sorted(root.stages[-1][1].lists, key=lambda part: len(self.tries.all[part.trie]))
        self.line(f"{x} = int64({self.array(self.tries.all[first.trie].values)}[n])")
        for part in others:
            values = self.array(self.tries.all[part.trie].values)
            self.open(f"position_of({values}, 0, len({values}), {x}) >= 0")

    # -- a loop

    def body(self, loop: BoundLoop, sink: Sink) -> None:
        """Write what happens to a value: conditions, weights, and everything inside."""
        level, x = self.level, f"x{loop.position}"
        for text in self.conditions(loop):
            self.open(text)
        if self.filtered(loop):
            self.line(f"tally[{loop.number}] += 1")
        factors = []
        for number in loop.loop.weights:
            factors.append(self.name("f"))
            self.line(f"{factors[-1]} = w{number}[{x}]")
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

    def fill(self, number: int, spine: BoundLoop) -> None:
        """Write the loops that fill a counter."""
        attribute = next(loop for loop in spine.loop.walk() if loop.collects == number).attribute
        x, size = f"x{self.binder.order.index(attribute)}", self.binder.size(attribute)
        self.arrays[f"w{number}"] = np.zeros(size, np.int64)
        self.arrays[f"touched{number}"] = np.empty(size, np.int64)
        self.line(f"reached{number} = 0")

        def collect(factors: list[str]) -> None:
            self.line(f"if w{number}[{x}] == 0:")
            self.line(f"    touched{number}[reached{number}] = {x}")
            self.line(f"    reached{number} += 1")
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

    # -- conditions

    def filtered(self, loop: BoundLoop) -> bool:
        """Tell whether values of a loop's set may be passed over."""
        condition, window = loop.condition, loop.condition.window
        by_window = not loop.stages and (window.below or window.above or window.equal or window.codes or window.empty)
        return bool(condition.filters or loop.checks or loop.loop.weights or by_window) or loop is self.root

    def conditions(self, loop: BoundLoop) -> list[str]:
        """Return what a value must satisfy beside lying in the set."""
        x = f"x{loop.position}"
        found = [self.comparison(f, x) for f in loop.condition.filters]
        for extender, wanted in loop.checks:
            found.append(f"({self.holds(extender)}) == {wanted}")
        if not loop.stages or loop is self.root:  # else the window has cut the set
            window = loop.condition.window
            found += [f"{x} < x{p}" for p in window.below] + [f"{x} > x{p}" for p in window.above]
            found += [f"{x} == x{p}" for p in window.equal] + [f"{x} == {self.constant(code)}" for code in window.codes]
            found += ["False"] * window.empty
        return found

    def comparison(self, f: Filter, x: str) -> str:
        left = x if f.by_code else f"int64({self.array(f.ranks)}[{x}])"
        if f.position is None:
            right = self.constant(f.constant)
        else:
            ranks = f.ranks if f.ranks_of_other is None else f.ranks_of_other
            right = f"int64({self.array(ranks)}[x{f.position}])" if len(ranks) else f"x{f.position}"
        return f"{left} {_OPERATORS[f.operator]} {right}"

    def holds(self, extender: BoundExtender) -> str:
        found = self.slice_of(List(self.tries.number(extender.trie), extender.key))
        return f"position_of({found.array}, {found.start}, {found.stop}, x{extender.value}) >= 0"

    # -- sets

    def needed(self, heads: Sequence[BoundLoop], depth: int) -> Iterator[tuple[BoundLoop, SetOf]]:
        """Give the sets that are known at a depth: those of the loops that run there, and parts of the sets of deeper ones."""
        for head in heads:
            for loop in head.walk():
                yield from ((loop, found) for at, found in loop.stages if at == depth)

    def hoist(self, heads: Sequence[BoundLoop], depth: int) -> None:
        """Write the sets that are known at a depth, and go on only if none is empty."""
        if heads and heads[0] is self.root:
            heads = [*self.root.inner, *(spine for _, spine in self.root.counters)]
        for loop, want in self.needed(heads, depth):
            if self.lookup(want) is None:
                tallied = loop if want is loop.stages[-1][1] else None
                found = self.materialise(want, tallied)
                self.scopes[-1][want] = found
                if depth >= 0:
                    self.open(f"{found.stop} > {found.start}")

    @contextmanager
    def marking(self, heads: Sequence[BoundLoop], depth: int, iterations: str) -> Iterator[None]:
        """Mark the sets of a depth that deeper lists are intersected with, while what is inside runs."""
        if heads and heads[0] is self.root:
            heads = [*self.root.inner, *(spine for _, spine in self.root.counters)]
        wanted: dict[SetOf, None] = {}
        for head in heads:
            for loop in head.walk():
                for (at, earlier), (_, later) in zip(loop.stages, loop.stages[1:], strict=False):
                    if at == depth and len(later.lists) > len(earlier.lists):
                        wanted[earlier] = None
        marked = []
        for want in wanted:
            found = self.lookup(want)
            if found is None or found.marked != "False":
                continue
            marks, flag = self.take("marks"), self.name("m")
            self.line(f"{flag} = {found.size} <= {MARK} * ({iterations})")
            self.line(f"if {flag}:")
            self.line(f"    mark({marks}, {found.array}, {found.start}, {found.stop}, 1)")
            self.scopes[-1][want] = Value(found.array, found.start, found.stop, marks, flag)
            marked.append((found, marks, flag))
        level = self.level
        self.active += marked
        yield
        del self.active[len(self.active) - len(marked) :]
        self.level = level
        for found, marks, flag in marked:
            self.line(f"if {flag}:")
            self.line(f"    mark({marks}, {found.array}, {found.start}, {found.stop}, 0)")
            self.idle["marks"].append(marks)

    def value(self, loop: BoundLoop) -> Value:
        """Return the set of a loop, which is known by now."""
        want = loop.stages[-1][1]
        found = self.lookup(want)
        if found is None:
            found = self.scopes[-1][want] = self.materialise(want, loop)
        return found

    def lookup(self, want: SetOf) -> Value | None:
        return next((scope[want] for scope in reversed(self.scopes) if want in scope), None)

    def base(self, want: SetOf) -> tuple[SetOf, Value] | None:
        """Return the smallest known set that the wanted one is a part of."""
        known = [(found, value) for scope in self.scopes for found, value in scope.items() if found.serves(want, self.below)]
        return max(known, key=lambda entry: (len(entry[0].lists), len(entry[0].without), len(entry[0].bounds)), default=None)

    def operands(self, want: SetOf) -> tuple[list[Value], list[List]]:
        """Write the slices that a set is the intersection of, and return them and the lists that are to be taken away."""
        base = self.base(want)
        have = base[0] if base else SetOf()
        values = [base[1]] if base else []
        new = sorted(want.lists - have.lists, key=lambda part: (part.trie, part.key))
        values += [self.cut(self.slice_of(part), part, want.bounds) for part in new]
        if not new and have.bounds != want.bounds:
            values = [self.cut(values[0], None, want.bounds - have.bounds)]
        return values, sorted(want.without - have.without, key=lambda part: (part.trie, part.key))

    def materialise(self, want: SetOf, loop: BoundLoop | None = None) -> Value:
        """Write the code that finds a set, and return where it is."""
        values, without = self.operands(want)
        self.tally_candidates(values, loop)
        found = values[0] if len(values) == 1 else self.intersection(values)
        for part in without:
            other, out, n = self.slice_of(part), self.take("buffer"), self.name("n")
            operands = f"{found.array}, {found.start}, {found.stop}, {other.array}, {other.start}, {other.stop}"
            self.line(f"{n} = without({operands}, {out})")
            found = self.buffered(out, n)
        return found

    def intersection(self, values: list[Value]) -> Value:
        """Write the intersection of two sets or more, the smallest first."""
        out, n = self.take("buffer"), self.name("n")
        if len(values) == 2:
            self.line(f"{n} = common({self.pair(*values)}, {out})")
            return self.buffered(out, n)
        spare = self.take("buffer")
        for i in self.by_smallest(values):
            rest = [values[i], *values[:i], *values[i + 1 :]]
            found = rest[0]
            for k, other in enumerate(rest[1:]):
                into = out if (len(rest) - k) % 2 == 0 else spare
                self.line(f"{n} = common({self.pair(found, other)}, {into})")
                found = self.buffered(into, n)
            self.level -= 1
        return self.buffered(out, n)

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

    def tally_candidates(self, values: list[Value], loop: BoundLoop | None) -> None:
        if loop is not None:
            sizes = [value.size for value in values]
            least = sizes[0] if len(sizes) == 1 else f"min({', '.join(sizes)})"
            self.line(f"tally[{self.loops + loop.number}] += {least}")

    def pair(self, a: Value, b: Value) -> str:
        """Return two sets as arguments; marks are those of the first."""
        if b.marked != "False":
            a, b = b, a
        return f"{a.array}, {a.start}, {a.stop}, {a.marks}, {a.marked}, {b.array}, {b.start}, {b.stop}"

    def by_smallest(self, values: list[Value]) -> Iterator[int]:
        """Open a branch for each set, taken where it is the smallest."""
        sizes = []
        for value in values:
            sizes.append(self.name("l"))
            self.line(f"{sizes[-1]} = {value.size}")
        for i, size in enumerate(sizes):
            least = " and ".join(f"{size} <= {other}" for k, other in enumerate(sizes) if k > i)
            self.line(f"if {least}:" if i == 0 else f"elif {least}:" if least else "else:")
            self.level += 1
            yield i

    def slice_of(self, part: List) -> Value:
        """Write where a list lies."""
        trie = self.tries.all[part.trie]
        start, stop = self.name("s"), self.name("e")
        values = self.array(trie.values)
        if not part.key:
            return Value(values, "0", f"len({values})", "nothing")
        node = f"x{part.key[0]}"
        if trie.shards.count > 1:
            node = f"{self.nodes(trie)}[{node}]"
        for depth, level in enumerate(trie.levels):
            offsets = self.array(level.offsets)
            if depth:
                found = self.name("q")
                above = self.array(trie.levels[depth - 1].values)
                self.line(f"{found} = position_of({above}, {start}, {stop}, x{part.key[depth]})")
                start, stop = self.name("s"), self.name("e")
                self.line(f"{start} = {offsets}[{found}] if {found} >= 0 else 0")
                self.line(f"{stop} = {offsets}[{found} + 1] if {found} >= 0 else 0")
            else:
                self.line(f"{start} = {offsets}[{node}]")
                self.line(f"{stop} = {offsets}[{node} + 1]")
        return Value(values, start, stop, "nothing")

    def cut(self, value: Value, part: List | None, bounds: frozenset[Bound]) -> Value:
        """Write a set's stretch within bounds."""
        start, stop = value.start, value.stop
        for bound in sorted(bounds, key=str):
            code = self.constant(bound.constant) if bound.position is None else f"x{bound.position}"
            if bound.op in ("<", "="):
                new = self.name("e")
                if (
                    bound.op == "<"
                    and part is not None
                    and part.key == (bound.position,)
                    and len(self.tries.all[part.trie].levels) == 1
                ):
                    self.line(f"{new} = min({stop}, {self.splits(self.tries.all[part.trie])}[{code}])")
                else:
                    beyond = code if bound.op == "<" else f"{code} + 1"
                    self.line(f"{new} = lower_bound({value.array}, {start}, {stop}, {beyond})")
                stop = new
            if bound.op in (">", "="):
                new = self.name("s")
                self.line(f"{new} = lower_bound({value.array}, {start}, {stop}, {code if bound.op == '=' else f'{code} + 1'})")
                start = new
        return Value(value.array, start, stop, "nothing")

    # -- arguments and text

    def array(self, array: NDArray[Any]) -> str:
        """Return the name of an array of the index, an argument."""
        key = (array.__array_interface__["data"][0], len(array), str(array.dtype))
        if key not in self.known:
            view = array.view()
            view.flags.writeable = False
            self.known[key] = f"a{len(self.known)}"
            self.arrays[self.known[key]] = view
        return self.known[key]

    def derived(self, trie: Trie, what: str, make: Callable[[], NDArray[Any]]) -> str:
        name = f"{what}{self.tries.number(trie)}"
        if name not in self.arrays:
            self.arrays[name] = make()
        return name

    def nodes(self, trie: Trie) -> str:
        """Return the array of the node of each code."""
        return self.derived(trie, "nodes", lambda: trie.shards.nodes(np.arange(len(trie.levels[0].offsets) - 1)))

    def codes(self, trie: Trie) -> str:
        """Return the array of the code of each node."""
        return self.derived(trie, "codes", lambda: trie.shards.codes(np.arange(len(trie.levels[0].offsets) - 1)))

    def splits(self, trie: Trie) -> str:
        """Return the array of where each code stands, or would stand, in its own list."""

        def make() -> NDArray[Any]:
            codes = np.arange(len(trie.offsets) - 1)
            found = np.empty(len(codes), np.int64)
            own_positions(trie.offsets, trie.values, trie.shards.nodes(codes), found)
            return found

        return self.derived(trie, "splits", make)

    def take(self, kind: str) -> str:
        """Return the name of scratch space: marks for every code, or a buffer for any list."""
        if self.idle[kind]:
            return self.idle[kind].pop()
        name = self.name(kind)
        if kind == "marks":
            self.arrays[name] = np.zeros(self.domain, np.uint8)
        else:
            self.arrays[name] = np.empty(self.longest, self.code_type)
            view = self.arrays[name].view()
            view.flags.writeable = False
            self.arrays[f"{name}r"] = view
        return name

    @cached_property
    def lengths(self) -> list[int]:
        """The length of the longest list of each trie."""
        return [int(np.diff(trie.offsets).max(initial=0)) for trie in self.tries.all]

    @property
    def longest(self) -> int:
        """The length of the longest list of all."""
        return max(self.lengths, default=0)

    def buffered(self, buffer: str, size: str) -> Value:
        return Value(f"{buffer}r", "0", size, "nothing")

    def constant(self, value: int) -> str:
        self.constants.append(value)
        return f"constants[{len(self.constants) - 1}]"

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

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Forget at its end the sets that are found within, and use their buffers again."""
        self.scopes.append({})
        taken = {name for name in self.arrays if name.startswith("buffer")} - set(self.idle["buffer"])
        yield
        self.scopes.pop()
        now = {name for name in self.arrays if name.startswith("buffer") and not name.endswith("r")}
        self.idle["buffer"] = sorted(now - taken)

    def open(self, condition: str) -> None:
        self.line(f"if {condition}:")
        self.level += 1

    def line(self, text: str) -> None:
        self.lines.append("    " * self.level + text)

    def name(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"
