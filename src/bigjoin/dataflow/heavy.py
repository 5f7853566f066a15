"""Heavy keys: the few whose lists are dealt out over all workers, so that no owner stores, or is asked for, more than a share.

The partitioned dataflow is lopsided where one key has much of a relation (section 3.4 of the paper). A code is heavy at a
position of a prefix if it has more than a fraction of a worker's fair share: of the tuples that bind the attribute to it or
hang on it, or of the first step's candidates that its lists are asked about. There are O(workers) such codes, so everyone
knows them, how long their lists are, and which of them stand in each other's lists.

Of the list of a heavy key, worker hash(key) + e owns the value e, and worker hash(key) + n also the n-th stretch. So prefixes
need not travel to be counted; many proposals are made in pieces, by those who own the stretches (few are read by whoever has
the prefix); and candidates go, one by one, where their values say, unless they are heavy too. Light keys remain whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.blocks import Counts, Proposals, Spread
from bigjoin.dataflow.seeds import share_out, tuple_bounds, tuples_of_codes
from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bind import BoundExtender, BoundPlan
from bigjoin.joins.extend import minimum_counts
from bigjoin.joins.seeds import decide
from bigjoin.kernels.spread import copy_marked, count_codes, count_marked

FRACTION = 8
"""A key is heavy that has more than one of so many parts of a worker's fair share."""

LEAST = 32
"""What is never heavy, nor worth a piece of its own: fewer tuples than this."""

STRETCHES = 64
"""Workers, at least, that a threshold of proposals is dealt to."""

SAMPLE = 1 << 18
"""Seeds that are looked at to estimate which keys are asked about many candidates."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Heavy:
    """The heavy codes of each position of a prefix, as marks up to the last of them: hubs have the smallest codes."""

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

    @property
    def stretch(self) -> int:
        """How many neighbours in a heavy list one worker owns, before the next worker's begin."""
        return max(self.least, int(self.threshold) // STRETCHES)

    def pieces(self, block: Counts, at: int, offsets: NDArray[np.int64], size: int) -> Iterator[Spread]:
        """Cut the proposals of each prefix, from an offset of its list on, where owners change; `size` pieces at a time."""
        ends = offsets + block.counts
        lows = offsets // self.stretch
        number = (ends - 1) // self.stretch - lows + 1
        after = np.cumsum(number)
        first = mixed(block.prefixes[at : at + 1])
        for begin in range(0, int(number.sum()), size):
            pieces = np.arange(begin, min(begin + size, int(after[-1])))
            rows = np.searchsorted(after, pieces, side="right")
            turns = lows[rows] + pieces - (after - number)[rows]
            starts = np.maximum(turns * self.stretch, offsets[rows])
            counts = np.minimum((turns + 1) * self.stretch, ends[rows]) - starts
            prefixes = block.prefixes.take(rows, axis=1)
            part = Counts(prefixes, counts, block.proposers[rows], starts - offsets[rows])
            yield Spread(part, first[rows] + turns.astype(np.uint64))

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

    def tuples_of_workers(self, extenders: Sequence[BoundExtender]) -> NDArray[np.int64]:
        """Return how many tuples of all lists each worker owns.

        Heavy lists are dealt out twice, by place and by value, and tuples whose first and last codes are heavy are everywhere.
        """
        owned = np.zeros(self.workers, np.int64)
        positions: dict[int, tuple[Trie, set[int]]] = {}
        for extender in extenders:
            positions.setdefault(id(extender.trie), (extender.trie, set()))[1].add(extender.key[0] if extender.key else 0)
        for trie, places in positions.values():
            owned += self._tuples_of_workers(trie, places) if trie.keyed else len(trie)
        return owned

    def _tuples_of_workers(self, trie: Trie, positions: set[int]) -> NDArray[np.int64]:
        lengths = tuples_of_codes(trie).copy()
        codes = np.arange(len(lengths))
        heavy = np.flatnonzero(np.any([self.has(position, codes) for position in positions], axis=0))
        starts = tuple_bounds(trie)[trie.nodes([heavy], len(heavy)).astype(np.int64)]
        owned = np.zeros(self.workers, np.int64)
        for code, start, length in zip(heavy.tolist(), starts.tolist(), lengths[heavy].tolist(), strict=True):
            values = trie.values[start : start + length]
            both = np.isin(values, heavy)
            first = int(mixed(np.array([[code]]))[0] % self.workers)
            owned += np.bincount((values[~both].astype(np.int64) + first) % self.workers, minlength=self.workers)
            owned += int(both.sum())
            stretches = np.bincount((np.arange(length) // self.stretch + first) % self.workers, minlength=self.workers)
            owned += stretches
        lengths[heavy] = 0
        return owned + share_out(lengths, self.workers)


def mixed(columns: Codes) -> NDArray[np.uint64]:
    """Return a number for each prefix, given row by row, that looks random."""
    number: NDArray[np.uint64] = np.zeros(columns.shape[1], np.uint64)
    for codes in columns:
        number = (number + codes.astype(np.uint64) + np.uint64(1)) * _ODD
        number ^= number >> np.uint64(29)
    return number


def find_heavy(plan: BoundPlan, workers: int, *, threshold: float | None = None, least: int = LEAST) -> Heavy:
    """Return the codes of each position that have more than a fraction of a worker's fair share, or more than a threshold.

    Their tuples are compared with those of the largest relation, and candidates of the first step with all of them.
    """
    share = 1 / (FRACTION * workers)
    used = (plan.seed.extender, *plan.extenders)
    most = max(least, max(len(e.trie) for e in used) * share) if threshold is None else threshold
    heavy: list[NDArray[np.bool_]] = [np.zeros(0, np.bool_) for _ in plan.plan.attributes]
    known: dict[tuple[int, int], NDArray[np.int64]] = {}
    for trie, column, position in _columns(plan):
        if (id(trie), column) not in known:
            known[id(trie), column] = _tuples_of_codes(trie, column)
        heavy[position] = _either(heavy[position], known[id(trie), column] > most)
    total, candidates = _candidates(plan)
    for position, counts in candidates:
        heavy[position] = _either(heavy[position], counts > (max(least, total * share) if threshold is None else threshold))
    ends = [int(np.max(np.flatnonzero(marks), initial=-1)) + 1 for marks in heavy]
    return Heavy(most, tuple(marks[:end].copy() for marks, end in zip(heavy, ends, strict=True)), workers, least)


def _columns(plan: BoundPlan) -> Iterator[tuple[Trie, int, int]]:
    """Give the columns of tries that say how often a prefix has a code at a position, and how long the lists are there."""
    for position, column in enumerate(plan.seed.columns):
        if plan.seed.extender.trie.keyed:
            yield plan.seed.extender.trie, column, position
    for extender in plan.extenders:
        if extender.key:
            yield extender.trie, 0, extender.key[0]
            yield extender.trie, len(extender.trie.levels), extender.value


def _tuples_of_codes(trie: Trie, column: int) -> NDArray[np.int64]:
    """Return how many tuples have each code in a column, counted in the order of a trie whose first column is a key."""
    if column == 0:
        return tuples_of_codes(trie)
    values = trie.levels[column - 1].values
    counts = np.zeros(int(values.max(initial=0)) + 1, np.int64)
    below = np.diff(tuple_bounds(trie, column)) if column < len(trie.levels) else np.empty(0, np.int64)
    count_codes(values, below, counts)
    return counts


def _candidates(plan: BoundPlan) -> tuple[int, list[tuple[int, NDArray[np.int64]]]]:
    """Return how many candidates the first step has, and for each extender how many of them its keys are asked about."""
    first, last = plan.seed.positions
    if not plan.steps or last <= first:
        return 0, []
    stride = -(-(last - first) // SAMPLE)
    positions = np.arange(first, last, stride)
    positions += np.random.default_rng(1).integers(0, np.minimum(stride, last - positions))  # a graph may have a rhythm
    prefixes, kept = decide(plan.seed, positions)
    prefixes = np.compress(kept, prefixes, axis=1)
    step = plan.steps[0]
    counts, proposers = minimum_counts(step, prefixes)
    counts *= stride
    found = []
    for i, extender in enumerate(step.extenders):
        if extender.key:
            keys = prefixes[extender.key[0]]
            asked = np.zeros(int(keys.max(initial=0)) + 1, np.int64)
            count_codes(keys, np.where(proposers == i, 0, counts), asked)
            found.append((extender.key[0], asked))
    return int(counts.sum()), found


def _either(one: NDArray[np.bool_], other: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if len(one) < len(other):
        one, other = other, one
    found = one.copy()
    found[: len(other)] |= other
    return found
