"""Write how a generated function finds sets: each at the depth of its stage, shared by loops, and marked where that pays off.

`stages.py` says which sets are known at which depth. Here they become slices of arrays: a list is a slice of a trie's values,
a bound moves one end of a slice, an intersection is written into a buffer and is a slice of that. This is the function that
counts the triangles of `stages.py`, without its tallies. a0 holds the values and a1 the offsets of the trie, and splits0[x] is
where the codes below x end in the list of x, so that this bound is looked up and not searched for.

    for n in range(first, last):
        if stopped[0] != 0:                                         # somebody cancelled the query, or its time is up
            return 0
        x0 = int64(n)
        start1 = a1[x0]                                             # the set A = N(x0) below x0
        stop2 = a1[x0 + 1]
        stop3 = min(stop2, splits0[x0])
        if stop3 > start1:
            is_marked4 = stop3 - start1 <= 8 * (stop3 - start1)
            if is_marked4:
                mark(marks0, a0, start1, stop3, 1)
            sum5 = 0
            for p1 in range(max(start1, low), min(stop3, high)):
                x1 = int64(a0[p1])
                start6 = a1[x1]                                     # N(x1) below x1
                stop7 = a1[x1 + 1]
                stop8 = min(stop7, splits0[x1])
                size9 = common(a0, start1, stop3, marks0, is_marked4, a0, start6, stop8, None, 0)
                if size9 != 0:
                    sum5 += size9
            total += sum5
            if is_marked4:
                mark(marks0, a0, start1, stop3, 0)

A set that lists of deeper loops are intersected with is *marked* while those loops run: a byte array holds a one at each of its
codes, so that an intersection is a scan of the other list. Marking costs as much as the set is long, so it is only done if the
set is at most MAX_MARKS_PER_ITERATION times as long as the loop that will use the marks, or later, once it is at most as many
times as long as the shorter lists of the intersections so far (`spent`); the function decides that as it runs.
`low` and `high` cut the list of a hub between two ranges of seeds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TypeVar

import numpy as np

from bigjoin.compiled.found_sets import BitSet, FoundSet, SetSlice, Settled
from bigjoin.compiled.predicate_source import PredicateSource, UnwrittenError
from bigjoin.compiled.source_text import SourceText
from bigjoin.compiled.stages import Bound, BoundLoop, CodeSet, ExtensionList
from bigjoin.compiled.universes import is_below_key
from bigjoin.index.trie import Trie
from bigjoin.joins.bounds_and_filters import Filter, RowFilter
from bigjoin.joins.extender import BoundExtender
from bigjoin.query.operators import BY_CODE

_Found = TypeVar("_Found", SetSlice, BitSet)

MAX_MARKS_PER_ITERATION = 8

MAX_CODES_PER_SEED = 64
"""Codes for each value of the root up to which it pays to look at all codes beforehand."""

_MOVED_ENDS = {"<": (("stop", ""),), ">": (("start", " + 1"),), "==": (("stop", " + 1"), ("start", ""))}
"""Which ends of a slice a bound moves, each to the first position that is not below the bound's code, or that code + 1."""


class SetSource(SourceText):
    """Writes the sets of loops, and the conditions that their values must satisfy besides."""

    tails: Sequence[BoundLoop] = ()
    """Loops whose values are written as whole lists; see `list_source.py`."""

    # The root

    @cached_property
    def seeds(self) -> tuple[Trie | None, bool]:
        """The trie whose first lists are read by the root's codes, and whether a range of seeds may end within such a list."""
        children = self.root.heads
        lists = [part for child in children for stage in child.stages for part in stage.codes.lists]
        keyed = [part for part in lists if part.key == (self.root.position,)]
        if not self.root.stages:  # it loops over codes, which have to be the nodes of the trie, or lead to them by arithmetic
            keyed = [part for part in keyed if self.nest.tries[part.trie].places is None]
        if not keyed:
            return None, False
        trie = self.nest.tries[keyed[0].trie]
        only = children[0].extensions if len(children) == 1 and children[0].stages else CodeSet()
        divisible = only.lists == {keyed[0]} and not only.without and not children[0].loop.cached
        every_key = not self.root.stages or self._lists_keys(trie)
        return trie, divisible and every_key and children[0] not in self.tails

    def _lists_keys(self, trie: Trie) -> bool:
        """Tell whether the root loops over the keys of a delta, and nothing else."""
        lists = [self.nest.tries[part.trie] for part in self.root.extensions.lists]
        return trie.keys is not None and len(lists) == 1 and np.array_equal(lists[0].values, trie.keys[1:])

    def bind_root(self) -> None:
        """Write the value of the root for number n of its codes."""
        x = f"x{self.root.position}"
        if not self.root.stages:
            trie, _ = self.seeds
            self.line(f"{x} = int64({'n' if trie is None or trie.shards.count == 1 else f'{self.codes(trie)}[n]'})")
            return
        tries = [self.nest.tries[number] for number in sorted(part.trie for part in self.root.extensions.lists)]
        first, *others = [self.array(trie.values) for trie in sorted(tries, key=len)]
        self.line(f"{x} = int64({first}[n])")
        for values in others:
            self.open(f"position_of({values}, 0, len({values}), {x}) >= 0")

    # What values must satisfy

    def is_filtered(self, loop: BoundLoop) -> bool:
        """Tell whether some values of a loop's set may be skipped."""
        by_bound = not loop.stages and loop.bounds
        conditions = loop.condition.filters or loop.condition.row_filters
        return bool(conditions or loop.checks or loop.loop.weights or by_bound) or loop is self.root

    def conditions(self, loop: BoundLoop) -> list[str]:
        """Return what a value must satisfy besides being in the set."""
        x = f"x{loop.position}"
        found = [self.comparison(f, x) for f in loop.condition.filters]
        found += [f"({self.holds(extender)}) == {wanted}" for extender, wanted in loop.checks]
        found += [self.predicate(f) for f in loop.condition.row_filters]
        if not loop.stages or loop is self.root:  # otherwise the bounds have cut the set
            found += [f"{x} {bound.op} {self.code_of(bound)}" for bound in loop.bounds]
        return found

    def predicate(self, f: RowFilter) -> str:
        """Return a predicate as an expression; if it cannot be written, the function will not be used."""
        try:
            return PredicateSource(f, self.array).condition(f.predicate.expression)
        except UnwrittenError:
            self.is_unwritten = True
            return "False"

    def comparison(self, f: Filter, x: str) -> str:
        """Return a filter as an expression."""
        left = x if f.by_code else f"int64({self.array(f.ranks)}[{x}])"
        if f.position is None:
            right = self.constant(f.constant)
        else:
            ranks = f.ranks if f.ranks_of_other is None else f.ranks_of_other
            right = f"int64({self.array(ranks)}[x{f.position}])" if len(ranks) else f"x{f.position}"
        compared = f"{left} {BY_CODE[f.operator].source} {right}"
        return f"({' or '.join([compared, *(f'x{a} != x{b}' for a, b in f.unless)])})" if f.unless else compared

    def holds(self, extender: BoundExtender) -> str:
        """Return as an expression whether a relation holds a tuple, all of which is bound."""
        return self.contains(self.slice_of(self.nest.list_of(extender)), f"x{extender.value}")

    def contains(self, found: FoundSet, code: str) -> str:
        """Return as an expression whether a set holds a code."""
        assert isinstance(found, SetSlice)
        return f"position_of({found.array}, {found.start}, {found.stop}, {code}) >= 0"

    def code_of(self, bound: Bound) -> str:
        """Return the code that a bound compares with."""
        return self.constant(bound.constant) if bound.position is None else f"x{bound.position}"

    # The sets of a depth

    def needed(self, heads: Sequence[BoundLoop], depth: int) -> Iterator[tuple[BoundLoop, CodeSet]]:
        """Give the sets that become known at a depth, for the loops that run there and for those within them."""
        for head in heads:
            for loop in head.walk():
                yield from ((loop, stage.codes) for stage in loop.stages if stage.depth == depth)

    def find_sets(self, heads: Sequence[BoundLoop], depth: int) -> None:
        """Write the sets that become known at a depth, and go on only if none of them is empty."""
        for loop, wanted in self.needed(heads, depth):
            if self.lookup(wanted) is None:
                found = self.scopes[-1][wanted] = self.materialise(wanted, loop if wanted is loop.extensions else None)
                if depth >= 0:
                    self.open(found.is_not_empty)

    @contextmanager
    def marking(self, heads: Sequence[BoundLoop], depth: int, iterations: str) -> Iterator[None]:
        """Mark the sets of a depth that deeper lists are intersected with, while the code written inside runs."""
        level, outer = self.level, len(self.clearing)
        pairs = [pair for head in heads for loop in head.walk() for pair in pairwise(loop.stages)]
        met_later = [
            stage for stage, later in pairs if len(later.codes.lists) > len(stage.codes.lists) and self.is_listed(later.codes)
        ]
        for codes in (stage.codes for stage in met_later if stage.depth == depth):
            found = self.lookup(codes)
            if isinstance(found, SetSlice) and found.marked == "False":
                marks = self.derived(f"marks{len(self.clearing)}", lambda: np.zeros(self.domain, np.uint8))
                flag = self.let("is_marked", f"{found.size} <= {MAX_MARKS_PER_ITERATION} * ({iterations})")
                spent = None if found.size == iterations else self.let("spent", "0")
                self.scopes[-1][codes] = replace(found, marks=marks, marked=flag, spent=spent)
                self.write_all(f"if {flag}:", f"    mark({marks}, {found.array}, {found.start}, {found.stop}, 1)")
                self.clearing.append((f"if {flag}:", f"    mark({marks}, {found.array}, {found.start}, {found.stop}, 0)"))
        yield
        self.level = level
        self.clear(outer)
        del self.clearing[outer:]

    def clear(self, outer: int = 0) -> None:
        """Write how all marks and places of this point are cleared, but for some outer ones."""
        for lines in self.clearing[outer:]:
            self.write_all(*lines)

    def is_listed(self, wanted: CodeSet) -> bool:  # noqa: ARG002
        """Tell whether a set is written as a list."""
        return True

    @contextmanager
    def each(self, loop: BoundLoop, found: FoundSet, begin: str) -> Iterator[None]:
        """Write a loop over the members of a set, from one that it begins with."""
        assert isinstance(found, SetSlice)
        with self.block(f"for p{loop.position} in range({begin}, {found.stop}):"):
            self.line(f"x{loop.position} = int64({found.array}[p{loop.position}])")
            yield

    # One set

    def set_of(self, loop: BoundLoop) -> FoundSet:
        """Return the set of a loop; write it unless that was done before."""
        found = self.lookup(loop.extensions)
        if found is None:
            found = self.scopes[-1][loop.extensions] = self.materialise(loop.extensions, loop)
        return found

    def lookup(self, wanted: CodeSet) -> FoundSet | None:
        """Return a set that was already written."""
        return next((scope[wanted] for scope in reversed(self.scopes) if wanted in scope), None)

    def smallest_known(
        self, wanted: CodeSet, kind: type[_Found], within: Settled | None = None
    ) -> tuple[CodeSet, _Found] | None:
        """Return the smallest set of a kind, and in a universe, already written that another one is a part of."""
        items = (item for scope in self.scopes for item in scope.items())
        holding = [(codes, found) for codes, found in items if codes.holds_all_of(wanted, self.nest.ordered)]
        known = [(codes, found) for codes, found in holding if isinstance(found, kind) and found.within == within]
        return max(known, key=lambda item: (len(item[0].lists), len(item[0].without), len(item[0].bounds)), default=None)

    def operands(self, wanted: CodeSet) -> tuple[list[SetSlice], list[ExtensionList]]:
        """Write the slices whose intersection is a set, and return them and the lists that must be subtracted.

        The first is the smallest set already written that the wanted one is a part of, if there is one.
        """
        base, found = self.smallest_known(wanted, SetSlice) or (CodeSet(), None)
        slices = [] if found is None else [found]
        new = sorted(wanted.lists - base.lists, key=lambda part: (part.trie, part.key))
        slices += [self.cut(self.slice_of(part), wanted.bounds, part) for part in new]
        if not new and base.bounds != wanted.bounds:
            slices = [self.cut(slices[0], wanted.bounds - base.bounds)]
        return slices, sorted(wanted.without - base.without, key=lambda part: (part.trie, part.key, repr(part.after)))

    def materialise(self, wanted: CodeSet, loop: BoundLoop | None) -> FoundSet:
        """Write the code that finds a set, and return where it is; `loop` is the one whose candidates these are."""
        slices, without = self.operands(wanted)
        self.tally_candidates(slices, loop)
        found = slices[0] if len(slices) == 1 else self.intersection(slices)
        for part in without:
            other, out = self.slice_of(part), self.buffer()
            operands = f"{found.array}, {found.start}, {found.stop}, {other.array}, {other.start}, {other.stop}"
            if part.after is None:
                found = SetSlice(f"{out}r", "0", self.let("size", f"without({operands}, {out}, 0)"))
                continue
            # Few keys have a list in a delta. For all others, the set is not copied.
            array, start = self.let("array", found.array), self.let("start", found.start)
            stop = self.let("stop", found.stop)
            with self.block(f"if {other.stop} > {other.start}:"):
                self.line(f"{start}, {stop} = 0, without({operands}, {out}, 0)")
                self.line(f"{array} = {out}r")
            found = SetSlice(array, start, stop)
        return found

    def intersection(self, slices: list[SetSlice]) -> SetSlice:
        """Write the intersection of two sets or more. Of more than two, the smallest is intersected with the others in turn."""
        out, n = self.buffer(), self.name("size")
        if len(slices) == 2:
            self.mark_late(slices)
            self.line(f"{n} = common({self.pair(*slices)}, {out}, 0)")
            return SetSlice(f"{out}r", "0", n)
        spare = self.buffer()
        sizes = [self.let("length", found.size) for found in slices]
        for i, size in enumerate(sizes):
            least = " and ".join(f"{size} <= {other}" for other in sizes[i + 1 :])
            with self.block("else:" if not least else f"elif {least}:" if i else f"if {least}:"):
                found, others = slices[i], slices[:i] + slices[i + 1 :]
                for k, other in enumerate(others, start=len(slices) % 2):  # by turns, so that the last result is in `out`
                    into = spare if k % 2 else out
                    self.line(f"{n} = common({self.pair(found, other)}, {into}, 0)")
                    found = SetSlice(f"{into}r", "0", n)
        return SetSlice(f"{out}r", "0", n)

    def mark_late(self, slices: list[SetSlice]) -> None:
        """Write that a set is marked as soon as its intersections have cost as much as marking it may."""
        for found in slices:
            if found.spent is not None:
                least = ", ".join(each.size for each in slices)
                with self.block(f"if not {found.marked}:"):
                    self.line(f"{found.spent} += min({least})")
                    with self.block(f"if {found.size} <= {MAX_MARKS_PER_ITERATION} * {found.spent}:"):
                        self.line(f"mark({found.marks}, {found.array}, {found.start}, {found.stop}, 1)")
                        self.line(f"{found.marked} = True")

    def tally_candidates(self, slices: list[SetSlice], loop: BoundLoop | None) -> None:
        """Write how candidates are counted: as many as the shortest list is long."""
        sizes = ", ".join(found.size for found in slices)
        self.tally_size(loop, sizes if len(slices) == 1 else f"min({sizes})")

    def tally_size(self, loop: BoundLoop | None, size: str) -> None:
        """Write how some candidates are counted; `loop` is the one that has them, if these are its own."""
        if loop is not None:
            self.line(f"tally[{len(self.loops) + loop.number}] += {size}")

    def pair(self, a: SetSlice, b: SetSlice) -> str:
        """Return two sets as the arguments of `common`, which uses the marks of the first."""
        if b.marked != "False":
            a, b = b, a
        return f"{a.array}, {a.start}, {a.stop}, {a.marks}, {a.marked}, {b.array}, {b.start}, {b.stop}"

    def slice_of(self, part: ExtensionList) -> SetSlice:
        """Write where a list lies."""
        trie = self.nest.tries[part.trie]
        values = self.array(trie.values)
        if not part.key:
            return SetSlice(values, "0", f"len({values})")
        node = f"x{part.key[0]}"
        if trie.shards.count > 1 or trie.places is not None:
            node = f"{self.nodes(trie)}[{node}]"
        start = stop = above = absent = ""
        for level, position in zip(trie.levels, part.key, strict=True):
            if above:
                node = self.let("node", f"position_of({above}, {start}, {stop}, x{position})")
                absent = f" if {node} >= 0 else 0"
            offsets, above = self.array(level.offsets), self.array(level.values)
            start = self.let("start", f"{offsets}[{node}]{absent}")
            stop = self.let("stop", f"{offsets}[{node} + 1]{absent}")
        if part.after is not None:
            start = self.let("start", f"lower_bound({values}, {start}, {stop}, {part.after.source()})")
        return SetSlice(values, start, stop)

    def cut(self, found: SetSlice, bounds: frozenset[Bound], part: ExtensionList | None = None) -> SetSlice:
        """Write the stretch of a set within bounds; `part` is the list, if the set is a whole one."""
        found = SetSlice(found.array, found.start, found.stop)
        for bound in sorted(bounds, key=str):
            code = self.code_of(bound)
            for end, more in _MOVED_ENDS[bound.op]:
                place = f"lower_bound({found.array}, {found.start}, {found.stop}, {code}{more})"
                if part is not None and bound.op == "<" and part.key == (bound.position,) and self.has_splits(part):
                    place = f"min({found.stop}, {self.splits(self.nest.tries[part.trie])}[{code}])"
                found = replace(found, **{end: self.let(end, place)})
        return found

    def longest_set(self, codes: CodeSet) -> int:
        """Return how many codes a set can have: as many as the shortest of its lists, or of their parts below their keys."""
        return min(self.longest_below(p.trie) if is_below_key(p, codes) else self.max_lengths[p.trie] for p in codes.lists)

    def longest_below(self, number: int) -> int:
        """Return the length of the longest part of a list below its own key, if the function knows where these parts end."""
        if number not in self.max_lengths_below:
            trie, splits = self.nest.tries[number], self.arrays.get(f"splits{number}")
            if splits is None:
                return self.max_lengths[number]
            starts = trie.offsets[trie.shards.nodes(np.arange(len(splits)))]
            self.max_lengths_below[number] = int((splits - starts).max(initial=0))
        return self.max_lengths_below[number]

    def has_splits(self, part: ExtensionList) -> bool:
        """Tell whether it is worth finding out where all codes stand in their own lists: those that do not change.

        It takes as long as there are codes, and must pay off: not if the root has few of them, such as seeds.
        """
        trie = self.nest.tries[part.trie]
        seeds = min((len(self.nest.tries[one.trie]) for stage in self.root.stages for one in stage.codes.lists), default=None)
        is_often_read = seeds is None or seeds * MAX_CODES_PER_SEED > trie.nodes_stored
        return len(trie.levels) == 1 and trie.places is None and is_often_read
