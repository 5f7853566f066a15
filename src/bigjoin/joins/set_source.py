"""How a generated function finds sets: each at the depth where it is known, shared, marked while deeper lists are scanned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

import numpy as np

from bigjoin.index.trie import Trie
from bigjoin.joins.bind import Binder, BoundExtender
from bigjoin.joins.constraints import Filter
from bigjoin.joins.source_text import SourceText, Value
from bigjoin.joins.stages import Bound, BoundLoop, List, SetOf
from bigjoin.query.nest import Nest
from bigjoin.query.operators import BY_CODE

MARK = 8
"""A set is marked if it is at most so many times as long as the loop that will scan its marks."""


class SetSource(SourceText):
    """What counting and listing share: the root, the sets of loops, and what values must satisfy beside."""

    def __init__(self, term: Nest, binder: Binder) -> None:
        super().__init__(term, binder)
        self.active: list[tuple[Value, str, str]] = []
        """What is marked at this point, with its marks and whether it is."""

    @property
    def tails(self) -> list[BoundLoop]:
        """Loops whose values are given as lists: none, where matches are counted or listed one by one."""
        return []

    @cached_property
    def seeds(self) -> tuple[Trie | None, bool]:
        """The trie whose first lists lead on from the root's codes, and whether a range may end within such a list."""
        children = self.root.heads
        lists = [part for child in children for _, found in child.stages for part in found.lists]
        keyed = [part for part in lists if part.key == (self.root.position,)]
        if not keyed:
            return None, False
        trie = self.tries.all[keyed[0].trie]
        only = children[0].stages[-1][1] if len(children) == 1 and children[0].stages else SetOf()
        whole = only.lists == {keyed[0]} and not only.without and not children[0].loop.cached
        every_key = not self.root.stages or self._lists_keys(trie)
        return trie, whole and every_key and children[0] not in self.tails

    def _lists_keys(self, trie: Trie) -> bool:
        """Tell whether the root runs over the keys of a delta, and nothing else."""
        lists = [self.tries.all[part.trie] for part in self.root.stages[-1][1].lists]
        return trie.keys is not None and len(lists) == 1 and np.array_equal(lists[0].values, trie.keys[1:])

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
        return f"{left} {BY_CODE[f.operator].source} {right}"

    def holds(self, extender: BoundExtender) -> str:
        found = self.slice_of(List(self.tries.number(extender.trie), extender.key, extender.after))
        return f"position_of({found.array}, {found.start}, {found.stop}, x{extender.value}) >= 0"

    def needed(self, heads: Sequence[BoundLoop], depth: int) -> Iterator[tuple[BoundLoop, SetOf]]:
        """Give the sets that are known at a depth: those of the loops that run there, and parts of the sets of deeper ones."""
        for head in heads:
            for loop in head.walk():
                yield from ((loop, found) for at, found in loop.stages if at == depth)

    def hoist(self, heads: Sequence[BoundLoop], depth: int) -> None:
        """Write the sets that are known at a depth, and go on only if none is empty."""
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
        return values, sorted(want.without - have.without, key=lambda part: (part.trie, part.key, repr(part.after)))

    def materialise(self, want: SetOf, loop: BoundLoop | None = None) -> Value:
        """Write the code that finds a set, and return where it is."""
        values, without = self.operands(want)
        self.tally_candidates(values, loop)
        found = values[0] if len(values) == 1 else self.intersection(values)
        for part in without:
            other, out, n = self.slice_of(part), self.take("buffer"), self.name("n")
            operands = f"{found.array}, {found.start}, {found.stop}, {other.array}, {other.start}, {other.stop}"
            if part.after is None:
                self.line(f"{n} = without({operands}, {out})")
                found = self.buffered(out, n)
                continue
            # Of few keys is anything in a delta: then the set is copied, and not otherwise.
            array, start, stop = self.name("v"), self.name("s"), self.name("e")
            self.line(f"{array}, {start}, {stop} = {found.array}, {found.start}, {found.stop}")
            self.line(f"if {other.stop} > {other.start}:")
            self.line(f"    {start}, {stop} = 0, without({operands}, {out})")
            self.line(f"    {array} = {out}r")
            found = Value(array, start, stop, "nothing")
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
        if trie.shards.count > 1 or trie.places is not None:
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
        if part.after is not None:
            behind = self.name("s")
            self.line(f"{behind} = lower_bound({values}, {start}, {stop}, {part.after.source()})")
            start = behind
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
                    and self.tries.all[part.trie].places is None
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

    def buffered(self, buffer: str, size: str) -> Value:
        return Value(f"{buffer}r", "0", size, "nothing")
