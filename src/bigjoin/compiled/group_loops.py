"""Execute nests as compiled loops that count by groups.

Counts are exact. What 64 bits may not hold is counted modulo several primes, and put together group by group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from bigjoin.compiled.code_ranges import code_cuts, ranges_of_codes
from bigjoin.compiled.group_rows import GroupCounts, GroupRows, same_groups
from bigjoin.compiled.group_source import CodeCountSource, GroupRowSource
from bigjoin.compiled.loops import MAX_INT64_COUNT, Compiled, bounds_on_count, is_shared, primes
from bigjoin.joins.bind import Binder, ReadableIndex
from bigjoin.joins.match_rows import Range
from bigjoin.query.groups import GroupTerm
from bigjoin.query.query import Atom, Query
from bigjoin.query.statistics import Statistics

COUNT_BYTES = 3 * 8
"""Bytes of memory for a count by code: of one term, times what it is added, and the sum."""

WIDE_COUNT_BYTES = 3 * (8 + 40)
"""The same for counts that do not fit into 64 bits, which are Python's integers."""


class CodeCounting(Compiled):
    """A term bound to an index and compiled to count by the codes of one key."""

    def __init__(self, term: GroupTerm, query: Query, index: ReadableIndex) -> None:
        self.term, self.binder = term, Binder(query, term.nest.attributes, index)
        generator = CodeCountSource(term.nest, self.binder, term.keys)
        super().__init__(generator)
        self.size = self.binder.size(term.keys[0])
        per_code, _ = bounds_on_count(self.generator, term.nest, self.binder)
        self.bound = _most_in_entry(term, generator, self.binder)
        self.is_wide = max(per_code, self.bound) >= MAX_INT64_COUNT

    @property
    def scratch_bytes(self) -> int:
        """The most memory that arrays take, those of counts by code included."""
        return super().scratch_bytes + self.size * (WIDE_COUNT_BYTES if self.is_wide else COUNT_BYTES)

    def count(self, ranges: Iterable[Range], progress: Callable[[int], None] = lambda _: None) -> GroupCounts:
        """Return the count of each code in some ranges of seeds."""
        mine = list(ranges)
        if not self.is_wide:
            return self._counts(self, mine, progress)
        known = _Remainders(self.bound)
        for prime in known.primes():
            modular = Compiled(CodeCountSource(self.term.nest, self.binder, self.term.keys, modular=True))
            known.add(self._counts(modular, mine, lambda _: None, prime), prime)
        progress(len(mine))
        return known.total

    def _counts(
        self, compiled: Compiled, ranges: Iterable[Range], progress: Callable[[int], None], *prime: int
    ) -> NDArray[np.int64]:
        counts = np.zeros(self.size, np.int64)
        function = compiled._function(counts, *prime)
        for bounds in ranges:
            function(*bounds)
            progress(1)
        return counts


class GroupListing(Compiled):
    """A term bound to an index and compiled to give a row for each binding of several keys."""

    def __init__(self, term: GroupTerm, query: Query, index: ReadableIndex) -> None:
        self.term, self.binder = term, Binder(query, term.nest.attributes, index)
        super().__init__(GroupRowSource(term.nest, self.binder, term.keys))
        self.bound, _ = bounds_on_count(self.generator, term.nest, self.binder)
        self.is_wide = self.bound >= MAX_INT64_COUNT

    def rows(self, ranges: Iterable[Range], size: int) -> Iterator[GroupRows]:
        """Give the groups of ranges of seeds, at most `size` at a time; the next rows overwrite them. A group has one row."""
        if not self.is_wide:
            yield from self._rows(ranges, size, self)
            return
        for bounds in ranges:
            yield from self._by_primes(bounds, size)

    def _by_primes(self, bounds: Range, size: int) -> Iterator[GroupRows]:
        found, known = [], _Remainders(self.bound)
        for prime in known.primes():
            modular = Compiled(GroupRowSource(self.term.nest, self.binder, self.term.keys, modular=True))
            for rows in self._rows([bounds], size, modular, prime):
                found.append((prime, GroupRows(rows.keys.copy(), rows.counts.copy())))
        if found:
            keys = np.concatenate([rows.keys for _, rows in found], axis=1)
            order, group = same_groups(keys)
            start, groups = 0, int(group.max()) + 1
            remainders = {prime: np.zeros(groups, np.int64) for prime in known.primes()}
            for prime, rows in found:
                remainders[prime][group[start : start + len(rows)]] = rows.counts
                start += len(rows)
            for prime, each in remainders.items():
                known.add(each, prime)
            yield GroupRows(keys[:, order], known.total)

    def _rows(self, ranges: Iterable[Range], size: int, compiled: Compiled, *prime: int) -> Iterator[GroupRows]:
        out = np.empty((len(self.term.keys), size), self.generator.code_type)
        state, counts = np.zeros(len(self.term.keys) + 2, np.int64), np.empty(size, np.int64)
        function = compiled._function(out, state, counts, *prime)
        for bounds in ranges:
            state[0] = 0
            while True:
                if filled := function(*bounds):
                    yield GroupRows(out[:, :filled], counts[:filled])
                if not state[0]:
                    break

    def code_cuts(self, parts: int) -> NDArray[np.int64]:
        """Return codes of the root, from 0 to their number, between which there is about equal work."""
        return code_cuts(self.generator, parts)

    def ranges_of_codes(self, first: int, last: int) -> list[Range]:
        """Return the ranges of seeds whose code is at least `first` and below `last`."""
        return ranges_of_codes(self.generator, first, last)


class _Remainders:
    """Counts that are put together from their remainders modulo primes."""

    def __init__(self, bound: int) -> None:
        self.bound, self.product = bound, 1
        self.total: GroupCounts = np.zeros(0, object)

    def primes(self) -> Iterator[int]:
        """Give primes until their product exceeds the bound on the counts."""
        product = 1
        for prime in primes():
            yield prime
            product *= prime
            if product > self.bound:
                return

    def add(self, remainders: NDArray[np.int64], prime: int) -> None:
        """Take the remainders modulo a further prime into account."""
        if self.product == 1:
            self.total = np.zeros(len(remainders), object)
        inverse = pow(self.product, -1, prime)
        changed = np.flatnonzero((self.total % prime).astype(np.int64) != remainders)
        total = self.total[changed]
        self.total[changed] = total + self.product * ((remainders[changed].astype(object) - total) * inverse % prime)
        self.product *= prime


def _most_in_entry(term: GroupTerm, generator: CodeCountSource, binder: Binder) -> int:
    """Return what no entry of an array of counts by code can exceed."""
    per_code, whole = bounds_on_count(generator, term.nest, binder)
    if term.keys == (term.nest.root.attribute,):
        return per_code
    if is_shared(term.nest):
        return whole
    return sum(min(whole, _most_with(attribute, term, binder)) for attribute in term.keys)


def _most_with(attribute: str, term: GroupTerm, binder: Binder) -> int:
    """Return what the matches with one value of an attribute cannot exceed: the product of the longest lists from there on."""
    atoms = list(dict.fromkeys(e.atom for loop in term.nest.root.walk() for e in loop.step.extenders))
    bound, most = {attribute}, 1
    while left := [a for a in term.nest.attributes if a not in bound]:
        lengths = {a: min([binder.size(a), *_longest(a, bound, atoms, binder.index.statistics)]) for a in left}
        nearest = min(left, key=lengths.__getitem__)
        most *= max(1, lengths[nearest])
        bound.add(nearest)
    return most


def _longest(attribute: str, bound: set[str], atoms: Iterable[Atom], statistics: Statistics) -> Iterator[int]:
    """Give the lengths of the longest lists of an attribute, given those that are bound."""
    for atom in atoms:
        relation = statistics.of(atom)
        exchanged = [(1, 0, *order[2:]) for order in relation.lists if relation.symmetric and order[:2] == (0, 1)]
        for order, lists in [*relation.lists.items(), *((order, relation.lists[(0, 1, *order[2:])]) for order in exchanged)]:
            *key, last = (atom.attributes[column] for column in order if column < len(atom.attributes))
            if last == attribute and bound.issuperset(key) and len(order) == len(atom.attributes):
                yield lists.longest
