"""A count by groups that is ready to run where the whole index is at hand: which terms, and over which seeds.

With one key, each term's seeds are cut like those of any count, and arrays of counts are added up. With several, a *piece* has
the seeds of all terms that begin with certain codes of the first key, so that a group is in one piece.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from bigjoin.compiled.group_loops import CodeCounting, GroupListing
from bigjoin.compiled.group_rows import GroupCounts, GroupRows, added, joined
from bigjoin.compiled.loops import MAX_INT64_COUNT
from bigjoin.joins.bind import ReadableIndex
from bigjoin.joins.match_rows import Range
from bigjoin.query.groups import GroupPlan
from bigjoin.quota import quota

Piece: TypeAlias = tuple[tuple[Range, ...], ...]
"""The ranges of seeds of each term."""

MAX_ROWS_AT_ONCE = 1 << 18
"""Rows that are written before they are passed on."""


@dataclass(frozen=True)
class CodeCountProgram:
    """Counts by the codes of one key."""

    plan: GroupPlan

    def bind(self, index: ReadableIndex) -> list[CodeCounting]:
        """Bind the terms to an index."""
        return [CodeCounting(term, self.plan.query, index) for term in self.plan.terms]

    def pieces(self, index: ReadableIndex, parts: int) -> list[Piece]:
        """Cut the seeds of each term into about as many pieces."""
        cut = [found.ranges(parts) for found in self.bind(index)]
        return [tuple(tuple(ranges[i : i + 1]) for ranges in cut) for i in range(max(map(len, cut)))]

    def count(
        self, index: ReadableIndex, pieces: Sequence[Piece], progress: Callable[[int], None] = lambda _: None
    ) -> GroupCounts:
        """Return the counts of some pieces by code, not yet divided."""
        bound, times = self.bind(index), self.plan.times
        is_wide = any(found.is_wide for found in bound) or not _fit(bound, times)
        total: GroupCounts = np.zeros(bound[0].size, object if is_wide else np.int64)
        for term, (n, found) in enumerate(zip(times, bound, strict=True)):
            total += n * found.count([bounds for piece in pieces for bounds in piece[term]], progress)
        return total


@dataclass(frozen=True)
class GroupRowProgram:
    """Gives a row for each binding of several keys."""

    plan: GroupPlan

    def bind(self, index: ReadableIndex) -> list[GroupListing]:
        """Bind the terms to an index."""
        return [GroupListing(term, self.plan.query, index) for term in self.plan.terms]

    def pieces(self, index: ReadableIndex, parts: int) -> list[Piece]:
        """Cut the seeds into about as many pieces."""
        bound = self.bind(index)
        if len(bound) == 1:
            return [((found,),) for found in bound[0].ranges(parts)]
        cuts = bound[0].code_cuts(parts).tolist()
        return [tuple(tuple(found.ranges_of_codes(*ends)) for found in bound) for ends in pairwise(cuts)]

    def rows(
        self, index: ReadableIndex, pieces: Sequence[Piece], progress: Callable[[int], None] = lambda _: None
    ) -> Iterator[GroupRows]:
        """Give the groups of some pieces, each once; the next rows may overwrite them."""
        bound, times = self.bind(index), self.plan.times
        for piece in pieces:
            found = bound[0].rows(piece[0], MAX_ROWS_AT_ONCE) if times == [1] else [added(list(self._terms(bound, piece)))]
            for rows in found:
                yield from self._groups(rows)
            progress(sum(map(len, piece)))

    def _terms(self, bound: Sequence[GroupListing], piece: Piece) -> Iterator[GroupRows]:
        """Give the rows of the terms, with their counts as often as each term is added."""
        is_wide = not _fit(bound, self.plan.times)
        nothing = GroupRows(np.zeros((len(self.plan.keys), 0), np.uint32), np.zeros(0, np.int64))
        for n, found, ranges in zip(self.plan.times, bound, piece, strict=True):
            each = [GroupRows(rows.keys.copy(), rows.counts.copy()) for rows in found.rows(ranges, MAX_ROWS_AT_ONCE)]
            rows = joined([nothing, *each])
            yield GroupRows(rows.keys, n * (rows.counts.astype(object) if is_wide else rows.counts))

    def _groups(self, rows: GroupRows) -> Iterator[GroupRows]:
        """Give the groups that rows stand for."""
        counts = divided(rows.counts, self.plan.divisor)
        yield GroupRows(rows.keys, counts)
        if self.plan.mirrored:
            yield GroupRows(rows.keys[::-1], counts)


GroupProgram: TypeAlias = CodeCountProgram | GroupRowProgram


def program_of(plan: GroupPlan, index: ReadableIndex) -> GroupProgram | None:
    """Return what executes a plan, or None if its loops are too large to compile, or for the memory of the query."""
    program = CodeCountProgram(plan) if len(plan.keys) == 1 else GroupRowProgram(plan)
    bound = program.bind(index)
    is_affordable = quota().fits(sum(found.scratch_bytes for found in bound))
    return program if is_affordable and not any(found.is_too_large for found in bound) else None


def divided(counts: GroupCounts, divisor: int) -> GroupCounts:
    """Return counts after the division by the size of a symmetry."""
    if divisor == 1:
        return counts
    assert not (counts % divisor).any(), "a count is not divisible by the symmetry it was counted with"
    return counts // divisor


def _fit(bound: Sequence[CodeCounting | GroupListing], times: Sequence[int]) -> bool:
    """Tell whether the counts of terms can be added up in 64 bits."""
    return sum(abs(n) * found.bound for n, found in zip(times, bound, strict=True)) < MAX_INT64_COUNT
