"""BiGJoin-S (section 3.4 of the paper): each worker manages its own candidates, and looks up what the three verbs need.

In a round every worker gets its deal of ranges (prefix, min-i, start, end) and

    proposes    by asking for the extensions at these places of the proposer's list;
    intersects  by asking every other extender, excluder and check whether it holds each candidate;
    counts      the extensions of the remaining candidates, and keeps (prefix, min-i, start, end) for the next step.

After the last step, the remaining candidates are matches. Prefixes never travel, only requests and answers do. Between two
exchanges a worker keeps its candidates, and which answer each of them waits for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.lookups import (
    Answers,
    Asked,
    CountLookup,
    Dealing,
    IntersectLookup,
    Lookup,
    ProposeLookup,
    Selection,
    ask,
    ask_ranges,
    gathered,
    held,
)
from bigjoin.dataflow.packing import Arrays
from bigjoin.dataflow.schedule import Slice
from bigjoin.dataflow.waiting import read_waiting
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan, BoundStep
from bigjoin.joins.blocks import UNCOUNTED, Counts, Proposals, join
from bigjoin.joins.dataflow_primitive import WORTH_COUNTING, Sink, Tally
from bigjoin.joins.seeds import decide
from bigjoin.kernels.walk import ascend
from bigjoin.storage import Place, place_like

MAX_TESTS = 10
"""Exchanges in which the candidates of a step are tested; if there are more tests, the last exchange makes several."""

Exchange = tuple[tuple[Lookup, ...], ...]
"""The lookups of an exchange, grouped by index, so that extenders which read the same index share requests."""


@dataclass(slots=True)
class Managed:
    """What a worker manages between two exchanges: its candidates (at first, ranges of candidates) and their requests."""

    prefixes: Codes
    proposers: NDArray[np.uint8]
    lengths: NDArray[np.int64] | None = None
    """How many candidates each prefix has, until the candidates themselves are known."""
    asked: dict[int, Asked] = field(default_factory=dict)
    """The requests to each index, by its number in the exchange."""
    known: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None
    """Where the extensions of each prefix begin and end in the list that its seed was read from, if an extender uses it."""
    is_last: bool = False
    """Whether the answers are only added up by the workers that give them, so that no state has to be kept."""

    def arrays(self) -> Arrays:
        """Return what has to be kept while requests travel."""
        lengths = np.empty(0, np.int64) if self.lengths is None else self.lengths
        shape = np.array([len(self.prefixes), self.lengths is not None, *self.asked])
        arrays: Arrays = (shape, self.prefixes.ravel(), self.proposers, lengths, *(self.known or (lengths[:0],) * 2))
        for asked in self.asked.values():
            arrays += (asked.slots, np.array(asked.sizes, np.int64), *(asked.ranges or (lengths[:0],) * 3))
        return arrays

    @classmethod
    def of(cls, arrays: Arrays) -> Managed:
        """Restore the state from its arrays."""
        (width, unknown, *numbers), prefixes, proposers, lengths, starts, ends, *rest = arrays
        asked = {}
        for at, number in enumerate(numbers):
            slots, sizes, *ranges = rest[5 * at : 5 * at + 5]
            asked[int(number)] = Asked([], slots, tuple(sizes.tolist()), tuple(ranges) if unknown else ())
        known = (starts, ends) if len(starts) else None
        return cls(prefixes.reshape(width, -1), proposers, lengths if unknown else None, asked, known)

    def rows(self, proposer: int | None) -> Selection:
        """Return which candidates an extender has proposed; all, if `proposer` is None."""
        return slice(None) if proposer is None else np.flatnonzero(self.proposers == proposer)


class Manager:
    """Runs a round for one worker after another: at a step, or with seeds (None). With `counting`, matches are not written."""

    def __init__(self, plan: BoundPlan, step: int | None, dealing: Dealing, sink: Sink, *, counting: bool) -> None:
        self.plan, self.number, self.dealing, self.sink, self.counting = plan, step, dealing, sink, counting
        self.behind = 0 if step is None else step + 1
        """How many steps are complete after the round."""
        self.exchanges = exchanges_of(plan, step)
        self.sums_last = counting and self.behind == len(plan.steps) and _asks_once(self.exchanges)
        """Whether the workers that answer the last exchange add up the matches, instead of sending answers back."""
        self.indices = {id(trie): number for number, trie in enumerate(plan.tries)}
        self.tally = Tally.of(plan)
        self.load = np.zeros(dealing.workers, np.int64)
        """Requests that each worker gets."""

    @property
    def stages(self) -> int:
        """How often something travels in a round: requests, and answers back."""
        return 2 * len(self.exchanges) - self.sums_last

    def seed(self, positions: NDArray[np.int64]) -> Managed | None:
        """Begin with seeds, given their positions."""
        self.tally.candidates[0] += len(positions)
        prefixes, kept = decide(self.plan.seed, positions)
        state = Managed(np.compress(kept, prefixes, axis=1), np.zeros(int(kept.sum()), np.uint8))
        if self.exchanges and isinstance(self.exchanges[0][0][0], CountLookup):
            extender = seeds_own(self.plan)
            if extender is not None:
                state = self._known(extender, positions[kept], state)
        return self._go_on(0, state)

    def _known(self, number: int, positions: NDArray[np.int64], state: Managed) -> Managed:
        """Count without a lookup in the lists that seeds are read from, and return the prefixes that others have to count.

        Prefixes with few extensions there are not counted by other extenders: that list proposes, even if another is shorter.
        """
        trie, count = self.plan.seed.extender.trie, len(positions)
        nodes, proposers = np.empty(count, np.int64), np.full(count, number, np.uint8)
        ascend(trie.offsets, positions, nodes)
        bounds, places = self.plan.steps[0].condition.bounds, positions - trie.offsets[nodes]
        starts = places + 1 if bounds.above else np.zeros(count, np.int64)
        ends = places if bounds.below else trie.offsets[nodes + 1] - trie.offsets[nodes]
        done = ends - starts <= (WORTH_COUNTING if len(self.plan.steps[0].extenders) > 1 else UNCOUNTED)
        self.tally.prefixes[0] += int(done.sum())
        self._minimised(state.prefixes[:, done], proposers[done], starts[done], ends[done])
        return Managed(state.prefixes[:, ~done], proposers[~done], known=(starts[~done], ends[~done]))

    def extend(self, ranges: Counts) -> Managed | None:
        """Begin with ranges, and ask for their candidates."""
        self.tally.candidates[self.behind] += int(ranges.counts.sum())
        proposers = [lookup.proposer for index in self.exchanges[0] for lookup in index if lookup.proposer is not None]
        turns = np.argsort(proposers)
        ranges = ranges.part(np.argsort(turns[ranges.proposers], kind="stable"))  # those of each index become contiguous
        state = Managed(ranges.prefixes, ranges.proposers, ranges.counts)
        for number, index in enumerate(self.exchanges[0]):
            mine = [(lookup, state.rows(lookup.proposer)) for lookup in index]
            starts, counts = (np.concatenate([array[rows] for _, rows in mine]) for array in (ranges.starts, ranges.counts))
            if len(starts):
                columns = np.concatenate([lookup.columns(ranges.prefixes, rows) for lookup, rows in mine], axis=1)
                state.asked[number] = ask_ranges(columns, starts, starts + counts, self._dealing(index), self.load)
        return state

    def advance(self, exchange: int, state: Managed, answers: Answers) -> Managed | None:
        """Process the answers of an exchange; return the state with its next requests, or None if nothing is left to ask."""
        kind = type(self.exchanges[exchange][0][0])
        if kind is CountLookup:
            self._counted(exchange, state, answers)
            return None
        state = self._proposed(state, answers) if kind is ProposeLookup else self._intersected(exchange, state, answers)
        return self._go_on(exchange + 1, state)

    def answer(self, exchange: int, number: int, asked: Arrays, task: int) -> Arrays:
        """Answer requests to an index for the workers of a task; return nothing if matches are added up here."""
        index = self.exchanges[exchange][number]
        lookup = index[0]
        if isinstance(lookup, ProposeLookup):
            return lookup.answer(asked, self._dealing(index), task, self.plan.seed.code_type)
        if isinstance(lookup, IntersectLookup) and self.sums_last and exchange == len(self.exchanges) - 1:
            self.tally.match(lookup.number_kept(asked))
            return ()
        return lookup.answer(asked)

    def _dealing(self, index: Sequence[Lookup]) -> Dealing:
        return self.dealing.of(self.indices[id(index[0].extender.trie)])

    def _go_on(self, exchange: int, state: Managed) -> Managed | None:
        """Make the requests of an exchange; candidates that have passed all exchanges are matches."""
        count, is_done = state.prefixes.shape[1], exchange == len(self.exchanges)
        if is_done and self.counting:
            self.tally.match(count)
            return None
        if is_done or not isinstance(self.exchanges[exchange][0][0], IntersectLookup):
            self.tally.prefixes[self.behind] += count
        if is_done and count:
            self.sink.match(state.prefixes)
        if is_done or not count:
            return None
        state.is_last = self.sums_last and exchange == len(self.exchanges) - 1
        for number, index in enumerate(self.exchanges[exchange]):
            columns = [lookup.columns(state.prefixes, state.rows(lookup.proposer)) for lookup in self._asking(index, state)]
            if any(column.shape[1] for column in columns):
                state.asked[number] = ask(np.concatenate(columns, axis=1), self._dealing(index), self.load, times=state.is_last)
        return state

    def _asking(self, index: Sequence[Lookup], state: Managed) -> Sequence[Lookup]:
        """Return the lookups of an index, without a count that is known from reading the seeds."""
        own = seeds_own(self.plan) if state.known is not None else None
        return [lookup for lookup in index if not (isinstance(lookup, CountLookup) and lookup.number == own)]

    def _proposed(self, state: Managed, answers: Answers) -> Managed:
        """Flatten candidates, and keep those that filters allow."""
        assert self.number is not None
        assert state.lengths is not None
        parts, row = [np.empty((len(state.prefixes) + 1, 0), state.prefixes.dtype)], 0
        for number, asked in state.asked.items():  # the ranges of each index are contiguous
            said = {task: codes for task, (codes,) in answers[number].items()}
            codes = gathered(asked, said, self._dealing(self.exchanges[0][number]))
            rows = slice(row, row + len(asked.slots))
            prefixes = np.ascontiguousarray(state.prefixes[:, rows])
            parts.append(Proposals(prefixes, asked.slots, state.lengths[rows], codes).flattened())
            row = rows.stop
        extended, proposers = np.concatenate(parts, axis=1), np.repeat(state.proposers, state.lengths)
        for f in self.plan.steps[self.number].condition.filters:
            kept = f.allows(extended[-1], extended)
            extended, proposers = np.compress(kept, extended, axis=1), proposers[kept]
        for predicate in self.plan.steps[self.number].condition.row_filters:
            kept = predicate.allows(extended)
            extended, proposers = np.compress(kept, extended, axis=1), proposers[kept]
        return Managed(extended, proposers)

    def _intersected(self, exchange: int, state: Managed, answers: Answers) -> Managed:
        """Keep the candidates that pass the tests of an exchange."""
        kept = np.ones(state.prefixes.shape[1], np.bool_)
        for number, asked in state.asked.items():
            found, at = held(asked, [said for (said,) in answers[number].values()]), 0
            for lookup in self.exchanges[exchange][number]:
                assert isinstance(lookup, IntersectLookup)
                rows = state.rows(lookup.proposer)
                many = len(kept[rows])
                kept[rows] &= lookup.keeps(state.prefixes, rows, found[at : at + many])
                at += many
        if kept.all():
            return Managed(state.prefixes, state.proposers)
        return Managed(np.compress(kept, state.prefixes, axis=1), state.proposers[kept])

    def _counted(self, exchange: int, state: Managed, answers: Answers) -> None:
        """Count minimisation: find the extender with the fewest extensions, which will propose them."""
        count = state.prefixes.shape[1]
        starts, ends = state.known or (np.zeros(count, np.int64), np.full(count, UNCOUNTED))
        proposers = state.proposers
        for number, asked in state.asked.items():
            said = [np.concatenate(column)[asked.slots] for column in zip(*answers[number].values(), strict=True)]
            for place, lookup in enumerate(self._asking(self.exchanges[exchange][number], state)):
                assert isinstance(lookup, CountLookup)
                first, last = (column[place * count : (place + 1) * count] for column in said)
                fewer = last - first < ends - starts
                starts[fewer], ends[fewer], proposers[fewer] = first[fewer], last[fewer], lookup.number
        self._minimised(state.prefixes, proposers, starts, ends)

    def _minimised(
        self, prefixes: Codes, proposers: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> None:
        """Keep the prefixes that have extensions for the next step; or count the extensions, if they are matches."""
        step = self.plan.steps[self.behind]
        if self.counting and self.behind == len(self.plan.steps) - 1 and step.counts_suffice:
            total = int((ends - starts).sum())
            self.tally.candidates[-1] += total
            self.tally.match(total)
            return
        some = np.flatnonzero(ends > starts)
        if len(some):
            self.sink.wait(self.behind, 0, Counts(prefixes, ends - starts, proposers, starts).part(some), None)


def seeds_own(plan: BoundPlan) -> int | None:
    """Return the number of the first step's extender that reads the lists seeds come from, whole or cut at the seed.

    The worker that reads a seed knows its place in the list and the list's length, so it can count there without a lookup.
    """
    seed, step = plan.seed, plan.steps[0]
    if seed.checks or len(seed.columns) != 2 or len(seed.extender.trie.levels) != 1 or not seed.extender.trie.keyed:
        return None
    key, value = seed.columns.index(0), seed.columns.index(1)
    bounds = step.condition.bounds
    if bounds.equal or bounds.codes or bounds.empty or (*bounds.above, *bounds.below) not in ((), (value,)):
        return None
    same = [i for i, e in enumerate(step.extenders) if e.trie is seed.extender.trie and e.key == (key,) and e.after is None]
    return same[0] if same else None


def _asks_once(exchanges: list[Exchange]) -> bool:
    """Tell whether the last exchange is a test in which each candidate makes exactly one request."""
    lookups = [lookup for index in exchanges[-1] for lookup in index] if exchanges else []
    tests = [lookup for lookup in lookups if isinstance(lookup, IntersectLookup) and lookup.extender.after is None]
    by_proposer = {lookup.proposer for lookup in tests}
    return bool(tests) and len(tests) == len(lookups) == len(by_proposer) and (len(tests) == 1 or None not in by_proposer)


def exchanges_of(plan: BoundPlan, number: int | None) -> list[Exchange]:
    """Return the lookups of a round, exchange by exchange: at a step, or with seeds (None)."""
    behind = 0 if number is None else number + 1
    found: list[Exchange] = []
    if number is None:
        tests = [[IntersectLookup(extender, wanted)] for extender, wanted in plan.seed.checks]
    else:
        step = plan.steps[number]
        found.append(_by_index(ProposeLookup(extender, i) for i, extender in enumerate(step.extenders)))
        tests = [*_others(step), *([IntersectLookup(excluder, False)] for excluder in step.excluders)]
        tests += [[IntersectLookup(extender, wanted)] for extender, wanted in step.checks]
    found += map(_by_index, tests[: MAX_TESTS - 1])
    if tests[MAX_TESTS - 1 :]:
        found.append(_by_index(hold for several in tests[MAX_TESTS - 1 :] for hold in several))
    if behind < len(plan.steps):
        then = plan.steps[behind]
        found.append(_by_index(CountLookup(extender, then.condition.bounds, i) for i, extender in enumerate(then.extenders)))
    return found


def _by_index(lookups: Iterable[Lookup]) -> Exchange:
    """Group the lookups of an exchange by index."""
    found: dict[int, list[Lookup]] = {}
    for lookup in lookups:
        found.setdefault(id(lookup.extender.trie), []).append(lookup)
    return tuple(map(tuple, found.values()))


def _others(step: BoundStep) -> list[list[IntersectLookup]]:
    """Return the tests of candidates by the extenders that did not propose them: in each, by the next extender in turn."""
    extenders = list(enumerate(step.extenders))
    turns = range(1, len(extenders))
    return [[IntersectLookup(e, proposer=(i - turn) % len(extenders)) for i, e in extenders] for turn in turns]


def begin(manager: Manager, slices: Sequence[Slice], folder: Place | None = None) -> tuple[int, Managed | None]:
    """Begin a worker's round with its deal; return how many ranges it was dealt, of seeds or candidates, and the state."""
    if manager.number is None:
        positions = np.concatenate([np.arange(part.first, part.last) for part in slices] or [np.empty(0, np.int64)])
        return len(slices), manager.seed(positions)
    blocks = [
        block
        for part in slices
        for block in read_waiting(part.file if folder is None else place_like(part.file, folder), part.first, part.last)
    ]
    return sum(map(len, blocks)), manager.extend(join(blocks)) if blocks else None
