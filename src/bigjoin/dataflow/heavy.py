"""Heavy keys: the few keys whose lists are dealt out over all workers, so that no worker stores or answers for too much.

The partitioned dataflow is unbalanced if one key has a large part of a relation (section 3.4 of the paper). A code is heavy at
a position of a prefix if it has more than a fraction of a worker's fair share: of the tuples with that code, or of the first
step's candidates that its lists are intersected with. There are O(workers) heavy codes, so every task knows all of them, how
long their lists are, and which of them are in each other's lists.

In the list of a heavy key, worker hash(key) + e owns the value e, and worker hash(key) + n owns the n-th stretch as well. So

- prefixes with a heavy key do not travel to be counted;
- their proposals are made in pieces by the owners of the stretches, or if there are few, by the worker that has the prefix;
- candidates travel one by one to the owners of their values, unless they are heavy too.

Light keys stay whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.lookups import hashes_of
from bigjoin.dataflow.owned_seeds import share_out, tuple_bounds, tuples_of_codes
from bigjoin.index.trie import Codes, Trie
from bigjoin.joins.bind import BoundPlan
from bigjoin.joins.blocks import Block, Counts, Prefixes, Proposals, Spread, Travelling, where
from bigjoin.joins.extend import fewest_extensions
from bigjoin.joins.extender import BoundExtender
from bigjoin.joins.itinerary import Itinerary, Staying, Visit
from bigjoin.joins.seeds import prefixes_of
from bigjoin.kernels.lists import list_starts
from bigjoin.kernels.spread import copy_marked, count_codes, count_marked

HEAVY_SHARE = 1 / 8
"""A key is heavy if it has more than this fraction of a worker's fair share."""

MIN_HEAVY_TUPLES = 32
"""A key with fewer tuples is never heavy, and a piece has at least this many proposals, to be worth an exchange."""

STRETCHES_PER_THRESHOLD = 64
"""Stretches that a list of threshold length has at least, so that its proposals are spread over this many workers."""

HEAVY_SAMPLE_SEEDS = 1 << 18
"""Seeds that are sampled to estimate which keys are intersected with many candidates."""


@dataclass(frozen=True)
class Heavy:
    """The heavy codes of each position of a prefix, as marks by code that end with the last heavy one: hubs come first."""

    threshold: float
    marks: tuple[NDArray[np.bool_], ...]
    workers: int
    least: int = MIN_HEAVY_TUPLES

    def any(self, position: int | None) -> bool:
        """Tell whether there are heavy codes at a position."""
        return position is not None and len(self.marks[position]) > 0

    def has(self, position: int, codes: Codes) -> NDArray[np.bool_]:
        """Tell for each code whether it is heavy at a position."""
        marks = self.marks[position]
        if not len(marks):
            return np.zeros(len(codes), np.bool_)
        return marks[np.minimum(codes, len(marks) - 1)] & (codes < len(marks))

    @property
    def stretch(self) -> int:
        """The length of a stretch: consecutive values of a heavy list that one worker owns."""
        return max(self.least, int(self.threshold) // STRETCHES_PER_THRESHOLD)

    def pieces(self, block: Counts, at: int, offsets: NDArray[np.int64], size: int) -> Iterator[Spread]:
        """Cut the proposals of each prefix, which begin at an offset of its list, by stretch; give `size` pieces at a time."""
        ends = offsets + block.counts
        lows = offsets // self.stretch
        number = (ends - 1) // self.stretch - lows + 1
        after = np.cumsum(number)
        first = hashes_of(block.prefixes[at : at + 1])
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
        """Return the candidates that are heavy at a position, sorted within each segment."""
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

        Heavy lists are dealt out twice, by place and by value. Every worker has the tuples whose first and last codes are both
        heavy.
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
            first = int(hashes_of(np.array([[code]]))[0] % self.workers)
            owned += np.bincount((values[~both].astype(np.int64) + first) % self.workers, minlength=self.workers)
            owned += np.bincount((np.arange(length) // self.stretch + first) % self.workers, minlength=self.workers)
            owned += int(both.sum())
        lengths[heavy] = 0
        return owned + share_out(lengths, self.workers)


class HeavyItinerary(Itinerary):
    """The itinerary of a plan in which some keys are heavy."""

    def __init__(self, plan: BoundPlan, heavy: Heavy, batch_size: int) -> None:
        self.heavy, self.batch_size = heavy, batch_size
        super().__init__(plan)

    def spreads(self, at: int | None) -> bool:
        """Tell whether there are heavy keys at a position."""
        return self.heavy.any(at)

    def proposals(self, step: int, stop: int, block: Proposals) -> Iterator[tuple[Proposals, bool]]:
        """Separate the proposals of heavy keys if their stop has other lists: candidates meet those at their own owners."""
        at = self.stops[step][stop].at
        if at is None or not self.comes_again(step, stop):
            yield block, False
            return
        heavy = self.heavy.has(at, block.prefixes[at])
        for mine, again in ((heavy, True), (~heavy, False)):
            if mine.any():
                yield block.view(np.flatnonzero(mine)), again

    def parts(self, visit: Visit, block: Block, here: int | None) -> Iterator[Staying | Travelling]:
        """Separate what can be done where a block is from what has to travel: to the owner of a light key, or spread."""
        at = self.place(visit)
        if at is not None and self.heavy.any(at):
            heavy = self.heavy.has(at, block.prefixes[at])
            if heavy.any():
                yield from self._spread(visit, block if heavy.all() else block.view(np.flatnonzero(heavy)), at)
                block = block.view(np.flatnonzero(~heavy))
        if len(block):
            yield from super().parts(visit, block, here)

    def _spread(self, visit: Visit, block: Block, at: int) -> Iterator[Staying | Spread]:
        """Do the same for prefixes with a heavy key: count anywhere, propose in pieces, check and intersect by value."""
        if isinstance(block, Proposals):
            position = len(block.prefixes)
            yield Spread(block, hashes_of(block.prefixes[at : at + 1]), self.heavy.marks[position])
            yield Staying(self.heavy.heavy_candidates(position, block))
        elif isinstance(block, Counts) and visit.kind == "wait":
            many = block.counts > self.heavy.threshold
            long = where(block, many)
            yield from self.heavy.pieces(long, at, self._offsets(visit, long), self.batch_size)
            yield Staying(where(block, ~many))
        elif isinstance(block, Prefixes) and visit.kind == "check":
            position = self.checks[visit.step][visit.stop].checks[0][0].value
            known = self.heavy.has(position, block.prefixes[position])
            others = where(block, ~known)
            if len(others):
                yield Spread(others, hashes_of(others.prefixes[at : at + 1]) + others.prefixes[position].astype(np.uint64))
            yield Staying(where(block, known))
        else:
            yield Staying(block)

    def _offsets(self, visit: Visit, block: Counts) -> NDArray[np.int64]:
        """Return where the extensions of each prefix begin in the list of its proposer."""
        step, offsets = self.plan.steps[visit.step], np.empty(len(block), np.int64)
        for n in self.stops[visit.step][visit.stop].extenders:
            mine = np.flatnonzero(block.proposers == n)
            prefixes, trie = block.prefixes.take(mine, axis=1), step.extenders[n].trie
            nodes = step.extenders[n].nodes(prefixes).astype(np.int64)
            begins = np.empty(len(mine), np.int64)
            list_starts(trie.offsets, trie.values, nodes, step.bounds_of(prefixes)[0], begins)
            offsets[mine] = begins - trie.offsets[nodes]
        return offsets


def find_heavy(plan: BoundPlan, workers: int, *, threshold: float | None = None, least: int = MIN_HEAVY_TUPLES) -> Heavy:
    """Return the codes of each position that have more than a fraction of a worker's fair share, or more than `threshold`.

    A fair share is that of the largest relation's tuples, or of the first step's candidates.
    """
    share = HEAVY_SHARE / workers
    most = max(least, max(map(len, plan.tries)) * share) if threshold is None else threshold
    heavy: list[list[NDArray[np.int64]]] = [[] for _ in plan.plan.attributes]
    known: dict[tuple[int, int], NDArray[np.int64]] = {}
    for trie, column, position in _columns(plan):
        if (id(trie), column) not in known:
            known[id(trie), column] = np.flatnonzero(_tuples_of_codes(trie, column) > most)
        heavy[position].append(known[id(trie), column])
    total, candidates = _candidates(plan)
    for position, counts in candidates:
        heavy[position].append(np.flatnonzero(counts > (max(least, total * share) if threshold is None else threshold)))
    return Heavy(most, tuple(_marks(codes) for codes in heavy), workers, least)


def _marks(codes: list[NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Return marks of codes, which end with the largest of them."""
    marked = np.concatenate([np.empty(0, np.int64), *codes])
    marks = np.zeros(int(marked.max(initial=-1)) + 1, np.bool_)
    marks[marked] = True
    return marks


def _columns(plan: BoundPlan) -> Iterator[tuple[Trie, int, int]]:
    """Give (trie, column, position) wherever the tuples with a code in a column show how heavy the code is at a position."""
    for position, column in enumerate(plan.seed.columns):
        if plan.seed.extender.trie.keyed:
            yield plan.seed.extender.trie, column, position
    for extender in plan.extenders:
        if extender.key:
            yield extender.trie, 0, extender.key[0]
            yield extender.trie, len(extender.trie.levels), extender.value


def _tuples_of_codes(trie: Trie, column: int) -> NDArray[np.int64]:
    """Return how many tuples of a trie have each code in a column."""
    if column == 0:
        return tuples_of_codes(trie)
    values = trie.listed() if len(trie.levels) == 1 else trie.levels[column - 1].values
    counts = np.zeros(int(values.max(initial=0)) + 1, np.int64)
    below = np.diff(tuple_bounds(trie, column)) if column < len(trie.levels) else np.empty(0, np.int64)
    count_codes(values, below, counts)
    return counts


def _candidates(plan: BoundPlan) -> tuple[int, list[tuple[int, NDArray[np.int64]]]]:
    """Estimate how many candidates the first step has, and for each extender how many its keys are intersected with."""
    first, last = plan.seed.positions
    if not plan.steps or last <= first:
        return 0, []
    stride = -(-(last - first) // HEAVY_SAMPLE_SEEDS)
    positions = np.arange(first, last, stride)
    # Drawn at random, not every stride-th seed, as degrees may repeat at regular distances in the order of the seeds.
    positions += np.random.default_rng(1).integers(0, np.minimum(stride, last - positions))
    sample = fewest_extensions(plan.steps[0], Prefixes(prefixes_of(plan.seed, positions)))
    counts = sample.counts * stride
    found = []
    for i, extender in enumerate(plan.steps[0].extenders):
        if extender.key:
            keys = sample.prefixes[extender.key[0]]
            asked = np.zeros(int(keys.max(initial=0)) + 1, np.int64)
            count_codes(keys, np.where(sample.proposers == i, 0, counts), asked)
            found.append((extender.key[0], asked))
    return int(counts.sum()), found
