"""Heavy keys: the few whose lists are dealt out over all workers, so that no owner stores, or is asked for, more than a share.

The partitioned dataflow is lopsided where one key has much of a relation (section 3.4 of the paper). A code is heavy at a
position of a prefix if a list that is read there is longer than a threshold, a fraction of a worker's fair share, or if more
tuples than that bind the attribute to it. There are O(workers) such codes, so everyone knows them, and how long their lists are.
Of a heavy list, worker hash(key) + e owns the value e, and another one the k-th stretch. So prefixes need not travel to be
counted, many proposals are made in pieces by many workers, and candidates spread when they are intersected; but those that
are heavy too stay, as everyone knows which heavy codes stand beside each other. All others, the light keys, remain whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.blocks import Counts, Proposals, Spread
from bigjoin.dataflow.seeds import tuple_bounds, tuples_of_codes
from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bind import BoundExtender, BoundPlan
from bigjoin.kernels.spread import copy_marked, count_codes, count_marked

FRACTION = 8
"""A key is heavy that has more than one of so many parts of a worker's fair share."""

LEAST = 32
"""What is never heavy, nor worth a piece of its own: fewer tuples than this."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Heavy:
    """The heavy codes of each position of a prefix, as marks up to the last of them; codes fall with degree, so it comes soon."""

    threshold: float
    marks: tuple[NDArray[np.bool_], ...]
    workers: int
    least: int = LEAST

    def any(self, position: int | None) -> bool:
        """Tell whether there are heavy codes at a position."""
        return position is not None and len(self.marks[position]) > 0

    def has(self, position: int, codes: Codes) -> NDArray[np.bool_]:
        """Tell of each code whether it is heavy at a position."""
        marks = self.marks[position]
        if not len(marks):
            return np.zeros(len(codes), np.bool_)
        return marks[np.minimum(codes, len(marks) - 1)] & (codes < len(marks))

    def pieces(self, block: Counts, size: int) -> Iterator[Spread]:
        """Deal the proposals of each prefix out in pieces of one length, at most `size` pieces at a time."""
        number = np.minimum(self.workers, -(-block.counts // self.least))
        length = -(-block.counts // number)
        number = -(-block.counts // length)
        after = np.cumsum(number)
        first = mixed(block.prefixes)
        for begin in range(0, int(after[-1]), size):
            pieces = np.arange(begin, min(begin + size, int(after[-1])))
            rows = np.searchsorted(after, pieces, side="right")
            part = block.part(rows)
            turn = pieces - (after - number)[rows]
            starts = turn * length[rows]
            counts = np.minimum(length[rows], part.counts - starts)
            yield Spread(Counts(part.prefixes, counts, part.proposers, starts), first[rows] + turn.astype(np.uint64))

    def heavy_candidates(self, position: int, block: Proposals) -> Proposals:
        """Return the candidates, for an attribute at a position, that are heavy; those of a segment ascend."""
        marks = self.marks[position]
        lengths = np.zeros(len(block), np.int64)
        if len(marks):
            count_marked(block.codes, block.begins, block.lengths, marks, lengths)
        some = np.flatnonzero(lengths)
        begins, lengths = block.begins[some], lengths[some]
        placed = np.cumsum(lengths) - lengths
        codes = np.empty(int(lengths.sum()), block.codes.dtype)
        copy_marked(block.codes, begins, lengths, marks, placed, codes)
        return Proposals(block.prefixes.take(some, axis=1), placed, lengths, codes)


def mixed(columns: Codes) -> NDArray[np.uint64]:
    """Return a number for each prefix, given row by row, that looks random."""
    number: NDArray[np.uint64] = np.zeros(columns.shape[1], np.uint64)
    for codes in columns:
        number = (number + codes.astype(np.uint64) + np.uint64(1)) * _ODD
        number ^= number >> np.uint64(29)
    return number


def find_heavy(plan: BoundPlan, workers: int, *, threshold: float | None = None, least: int = LEAST) -> Heavy:
    """Return the heavy codes of a plan; without a threshold it is a fraction of the share of the largest relation."""
    readers, binders = _readers(plan), _binders(plan)
    if threshold is None:
        largest = max(len(e.trie) for e in (plan.seed.extender, *(e for some in readers.values() for e in some)))
        threshold = max(least, largest / (FRACTION * workers))
    known: dict[tuple[int, int], NDArray[np.int64]] = {}
    marks = []
    for position in range(len(plan.plan.attributes)):
        heavy: NDArray[np.bool_] = np.zeros(0, np.bool_)
        for extender in readers[position]:
            heavy = _either(heavy, _occurrences(extender.trie, 0, known) > threshold)
        binding = [_occurrences(trie, column, known) > threshold for trie, column in binders[position] if trie.keyed]
        while len(binding) > 1:  # what one relation hardly ever binds is not bound often
            one, other = binding.pop(), binding.pop()
            binding.append(one[: len(other)] & other[: len(one)])
        heavy = _either(heavy, binding[0]) if binding else heavy
        marks.append(heavy[: int(np.max(np.flatnonzero(heavy), initial=-1)) + 1].copy())
    return Heavy(threshold, tuple(marks), workers, least)


def _readers(plan: BoundPlan) -> dict[int, list[BoundExtender]]:
    """Return the lists that are read at the owner of each position."""
    found = defaultdict(list)
    for extender in plan.extenders:
        if extender.key:
            found[extender.key[0]].append(extender)
    return found


def _binders(plan: BoundPlan) -> dict[int, list[tuple[Trie, int]]]:
    """Return the columns, each of a trie, that bind each position."""
    found = defaultdict(list)
    for position, column in enumerate(plan.seed.columns):
        found[position].append((plan.seed.extender.trie, column))
    for step in plan.steps:
        for extender in step.extenders:
            found[extender.value].append((extender.trie, len(extender.trie.levels)))
    return found


def _occurrences(trie: Trie, column: int, known: dict[tuple[int, int], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return how many tuples have each code in a column, in the order of a trie whose first column is a key."""
    if (id(trie), column) not in known:
        known[id(trie), column] = tuples_of_codes(trie) if column == 0 else _counted(trie, column)
    return known[id(trie), column]


def _counted(trie: Trie, column: int) -> NDArray[np.int64]:
    values: NDArray[Any] = trie.levels[column - 1].values
    counts = np.zeros(int(values.max(initial=0)) + 1, np.int64)
    below = np.empty(0, np.int64)
    if column < len(trie.levels):
        below = np.diff(tuple_bounds(trie, column))
    count_codes(values, below, counts)
    return counts


def _either(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if len(one) < len(other):
        one, other = other, one
    found = one.copy()
    found[: len(other)] |= other
    return found
