"""The three operators of the dataflow, each at the worker that owns the key: count minimisation, proposal, intersection.

Prefixes arrive in blocks of at most B' tuples. They are counted at each owner in turn, wait where the fewest extensions are
(prefix, min-c, min-i), are proposed from there batch by batch, and their candidates visit every other owner. A block that need
not travel to its next visit goes on at once, and prefixes wait only when there is more to propose than a task can afford.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.dataflow.blocks import Block, Counts, Prefixes, Proposals, Spread, where
from bigjoin.dataflow.heavy import Heavy, mixed
from bigjoin.dataflow.itinerary import Itinerary, Stop, Visit
from bigjoin.dataflow.waiting import batches, codes_that_travel
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundExtender, BoundPlan, BoundStep
from bigjoin.joins.constraints import Filter
from bigjoin.joins.extend import Counted, check
from bigjoin.kernels.compare import NOT_EQUAL, compare_extensions, count_differing
from bigjoin.kernels.count import count_extensions
from bigjoin.kernels.flatten import flatten_extensions
from bigjoin.kernels.intersect import count_intersections, exclude_extensions, intersect_extensions
from bigjoin.kernels.lists import list_starts
from bigjoin.kernels.runs import first_of_runs

NOBODY = 255
"""The proposer of a block whose proposer has no list at this stop."""
UNKNOWN = np.iinfo(np.int64).max

ENOUGH = 32
"""Extensions that are few enough to propose them without asking whether another extender has fewer: to look at some more
candidates costs less than a prefix that travels. As this is a constant, the bounds hold but for a constant."""

Moves: TypeAlias = Iterator[tuple[Visit, Block]]
"""Blocks and the visits that are next for them."""
Travels: TypeAlias = Iterator[tuple[Visit, Block | Spread]]
"""Blocks that have to travel to their next visits: to the owners of a key, or spread."""


@dataclass(frozen=True, slots=True)
class Staying:
    """A block that need not travel to its next visit."""

    block: Block


class Sink(Protocol):
    """Where prefixes end: they wait for their proposals, or are matches, until there are as many as are wanted."""

    @property
    def is_full(self) -> bool: ...
    def wait(self, step: int, stop: int, counts: Counts, keys: Codes | None) -> None: ...
    def match(self, matches: Codes) -> None: ...


@dataclass(slots=True)
class Tally:
    """What was done: prefixes and candidates of each step, the first entry the seed's, and matches that were only counted."""

    prefixes: list[int]
    candidates: list[int]
    matches: int = 0

    @classmethod
    def of(cls, plan: BoundPlan) -> Tally:
        return cls([0] * (len(plan.steps) + 1), [0] * (len(plan.steps) + 1))


@dataclass
class Operators:
    """What a worker can do with a block, for one plan. With `counting`, matches are counted and not written."""

    plan: BoundPlan
    sink: Sink
    heavy: Heavy | None = field(default=None, kw_only=True)
    """Keys that are dealt out, if some are."""
    counting: bool = field(kw_only=True)
    batch_size: int = field(kw_only=True)
    """B': proposals that are alive at a step."""
    allowance: int = field(default=0, kw_only=True)
    """Proposals of each step that prefixes make as soon as they reach their proposer; beyond, they wait."""
    last: int | None = field(default=None, kw_only=True)
    """The last step that may propose in this round, if it is not the last of all."""
    shares: bool = field(default=True, kw_only=True)
    """Whether proposals of the last step that travel together cost their codes alone; else each costs, as a match does."""
    enough: int = field(default=ENOUGH, kw_only=True)
    itinerary: Itinerary = field(init=False)
    tally: Tally = field(init=False)
    left: list[int] = field(init=False)
    """What is left of the allowance of each step."""

    def __post_init__(self) -> None:
        self.itinerary = Itinerary(self.plan, self.heavy)
        self.tally = Tally.of(self.plan)
        self.left = [self.allowance if self.last is None or s <= self.last else 0 for s in range(len(self.plan.steps))]
        self.operators: dict[str, Callable[[Visit, Any, int | None], Moves]] = {
            "check": self._check,
            "count": self._count,
            "wait": self._wait,
            "intersect": self._intersect,
        }

    def seed(self, prefixes: Codes) -> Travels:
        """Send the prefixes of seeds on their way, and give what has to travel."""
        here = self.itinerary.seeds_at
        yield from self._go_on(self._bound(0, prefixes, here), here)

    def propose(self, step: int, stop: int, batch: Counted) -> Travels:
        """Propose the extensions of prefixes that wait at a stop, and give what has to travel."""
        here = self.itinerary.stops[step][stop].at
        yield from self._go_on(self._propose(step, stop, batch), here)

    def visit(self, visit: Visit, block: Block) -> Travels:
        """Do what a visit asks for, and give what has to travel further."""
        place = self.itinerary.place(visit)
        yield from self._go_on(self.operators[visit.operator](visit, block, place), place)

    def _go_on(self, moves: Moves, here: int | None) -> Travels:
        pending = [(moves, here)]  # what comes of a block goes on before the next one is made: B' at each step are alive
        while pending and not self.sink.is_full:
            moves, here = pending[-1]
            visit, block = next(moves, (None, None))
            if visit is None or block is None:
                pending.pop()
                continue
            there = self.itinerary.there(visit, here)
            for part in self._parts(visit, block, here):
                if isinstance(part, Staying) and len(part.block):
                    pending.append((self.operators[visit.operator](visit, part.block, there), there))
                elif not isinstance(part, Staying) and len(part):
                    yield visit, part

    def _parts(self, visit: Visit, block: Block, here: int | None) -> Iterator[Staying | Block | Spread]:
        """Tell apart what can be done here, and what has to travel."""
        at, is_here = self.itinerary.place(visit), self.itinerary.is_here(visit, here)
        if self.heavy is not None and at is not None and len(block) and self.heavy.any(at):
            heavy = self.heavy.has(at, block.prefixes[at])
            if heavy.all():
                yield from self._spread(visit, block, at)
                return
            if heavy.any():
                yield from self._spread(visit, block.view(np.flatnonzero(heavy)), at)
                block = block.view(np.flatnonzero(~heavy))
        if len(block):
            yield Staying(block) if is_here else block

    def _spread(self, visit: Visit, block: Block, at: int) -> Iterator[Staying | Spread]:
        """Do the same for prefixes with a heavy key, which are counted anywhere, propose in pieces and are met by value."""
        assert self.heavy is not None
        if isinstance(block, Proposals):
            position = len(block.prefixes)
            yield Spread(block, mixed(block.prefixes[at : at + 1]), self.heavy.marks[position])
            yield Staying(self.heavy.heavy_candidates(position, block))
        elif isinstance(block, Counts) and visit.operator == "wait":
            many = block.counts > self.heavy.threshold
            long = where(block, many)
            yield from self.heavy.pieces(long, at, self._offsets(visit, long), self.batch_size)
            yield Staying(where(block, ~many))
        elif isinstance(block, Prefixes) and visit.operator == "check":
            position = self.itinerary.checks[visit.step][visit.stop].checks[0][0].value
            known = self.heavy.has(position, block.prefixes[position])
            others = where(block, ~known)
            yield Spread(others, mixed(others.prefixes[at : at + 1]) + others.prefixes[position].astype(np.uint64))
            yield Staying(where(block, known))
        else:
            yield Staying(block)

    def _offsets(self, visit: Visit, block: Counts) -> NDArray[np.int64]:
        """Return where in the list of its proposer the extensions of each prefix begin."""
        step, offsets = self.plan.steps[visit.step], np.empty(len(block), np.int64)
        for n in self.itinerary.stops[visit.step][visit.stop].extenders:
            mine = np.flatnonzero(block.proposers == n)
            prefixes, trie = block.prefixes.take(mine, axis=1), step.extenders[n].trie
            nodes = step.extenders[n].nodes(prefixes).astype(np.int64)
            begins = np.empty(len(mine), np.int64)
            list_starts(trie.offsets, trie.values, nodes, step.window.bounds(prefixes)[0], begins)
            offsets[mine] = begins - trie.offsets[nodes]
        return offsets

    def _bound(self, step: int, prefixes: Codes, here: int | None) -> Moves:
        """Prefixes have a new attribute: checks and counting follow, or they are matches."""
        yield from self._reach(self.itinerary.extended(step, here), step, prefixes)

    def _reach(self, visit: Visit | None, step: int, prefixes: Codes) -> Moves:
        if visit is None or visit.operator == "count":  # no checks are left
            self.tally.prefixes[step] += prefixes.shape[1]
        if visit is not None:
            yield visit, Prefixes(prefixes)
        elif self.counting:
            self.tally.matches += prefixes.shape[1]
        elif prefixes.shape[1]:
            self.sink.match(prefixes)

    def _check(self, visit: Visit, block: Prefixes, here: int | None) -> Moves:
        """Keep the prefixes for which atoms hold that they bind wholly."""
        prefixes = check(self.itinerary.checks[visit.step][visit.stop].checks, block.prefixes)
        if visit.left:
            yield visit.next_stop, Prefixes(prefixes)
        else:
            yield from self._reach(self.itinerary.counting(visit.step, here), visit.step, prefixes)

    def _count(self, visit: Visit, block: Prefixes | Counts, _: int | None) -> Moves:
        """Count minimisation: lower (min-c, min-i) to the extenders of this stop, and drop prefixes without extensions."""
        step, stops = self.plan.steps[visit.step], self.itinerary.stops[visit.step]
        numbers = stops[visit.stop].extenders
        if isinstance(block, Prefixes):
            block = Counts(block.prefixes, np.full(len(block), UNKNOWN), np.zeros(len(block), np.uint8))
            if stops[visit.stop].at is not None:  # lists that are everywhere are counted at once
                numbers += tuple(n for stop in stops if stop.at is None for n in stop.extenders)
        lower, upper = step.window.bounds(block.prefixes)
        for n in numbers:
            trie, nodes = step.extenders[n].trie, step.extenders[n].nodes(block.prefixes)
            count_extensions(trie.offsets, trie.values, nodes, lower, upper, n, block.counts, block.proposers)
        block = where(block, block.counts > 0)
        if visit.left:
            few = block.counts <= self.enough
            yield from self._to_proposers(visit.step, where(block, few))
            yield visit.next_stop, where(block, ~few)
        elif self.counting and visit.step == len(self.plan.steps) - 1 and step.counts_suffice:
            total = int(block.counts.sum())
            self.tally.candidates[-1] += total
            self.tally.prefixes[-1] += total
            self.tally.matches += total
        else:
            yield from self._to_proposers(visit.step, block)

    def _to_proposers(self, step: int, block: Counts) -> Moves:
        """Send each prefix to the stop with the fewest extensions, which proposes."""
        stops = [(i, stop) for i, stop in enumerate(self.itinerary.stops[step]) if stop.extenders]
        if len(stops) == 1:
            yield Visit("wait", step, stops[0][0]), block
            return
        stop_of = np.zeros(len(self.plan.steps[step].extenders), np.uint8)
        for i, stop in stops:
            stop_of[list(stop.extenders)] = i
        chosen = stop_of[block.proposers]
        for i, _ in stops:
            yield Visit("wait", step, i), where(block, chosen == i)

    def _wait(self, visit: Visit, block: Counts, _: int | None) -> Moves:
        """Prefixes have reached their proposer: those with the same list stand together, so that it will travel once.

        As many of them as the task can afford propose now, and the others wait.
        """
        at = self.itinerary.place(visit)
        if at is not None:
            block = block.part(order_of(block.prefixes[at]))
        keys = None if at is None else block.prefixes[at]
        shared = self.shares and self.itinerary.shares_last and visit.step == len(self.plan.steps) - 1
        costs = np.cumsum(codes_that_travel(block, keys) if shared else block.counts)
        now = int(np.searchsorted(costs, self.left[visit.step], side="right"))
        if now < len(block):
            later = np.arange(now, len(block))
            self.sink.wait(visit.step, visit.stop, block.part(later), None if keys is None else keys[later])
        if now:
            self.left[visit.step] -= int(costs[now - 1])
            for batch in batches(block, 0, int(block.counts[:now].sum()), self.batch_size):
                yield from self._propose(visit.step, visit.stop, batch)

    def _propose(self, number: int, at: int, batch: Counted) -> Moves:
        """Proposal: the extender with the fewest extensions gives its list, cut to the window; it is not copied yet."""
        step, stop = self.plan.steps[number], self.itinerary.stops[number][at]
        self.tally.candidates[number + 1] += int((batch.ends - batch.starts).sum())
        for n in stop.extenders:
            mine = batch.where(batch.proposers == n)
            if len(mine):
                trie, nodes = step.extenders[n].trie, step.extenders[n].nodes(mine.prefixes)
                begins = np.empty(len(mine), np.int64)
                list_starts(trie.offsets, trie.values, nodes, step.window.bounds(mine.prefixes)[0], begins)
                begins += mine.starts
                yield from self._proposed(number, at, n, Proposals(mine.prefixes, begins, mine.ends - mine.starts, trie.values))

    def _proposed(self, number: int, at: int, proposer: int, block: Proposals, *, again: bool = False) -> Moves:
        """Intersect with what else is here, drop what filters refuse, and go on to the first of the other owners.

        If the key is heavy, nothing else of this stop is here: candidates come to it again, each where it is owned.
        """
        step, stops = self.plan.steps[number], self.itinerary.stops[number]
        place = stops[at].at
        if not again and self.heavy is not None and place is not None and self.itinerary.comes_again(number, at):
            heavy = self.heavy.has(place, block.prefixes[place])
            if heavy.any():
                yield from self._proposed(number, at, proposer, block.view(np.flatnonzero(heavy)), again=True)
                block = block.view(np.flatnonzero(~heavy))
        here = [stop for i, stop in enumerate(stops) if (i == at and not again) or stop.at is None]
        extenders = [step.extenders[n] for stop in here for n in stop.extenders if n != proposer]
        excluders = [extender for stop in here for extender in stop.excluders]
        filters = [f for f in step.condition.filters if not _is_late(f)]
        if extenders or excluders or filters:
            block = _kept(step, block, np.arange(len(block)), extenders, excluders, filters)
        visit = self.itinerary.intersecting(number, at, again=again)
        if visit is None:
            yield from self._extended(number, block, place)
        else:
            yield visit, block

    def _intersect(self, visit: Visit, block: Proposals, here: int | None) -> Moves:
        """Intersection: keep the candidates that the lists of this stop hold."""
        step, stop = self.plan.steps[visit.step], self.itinerary.stops[visit.step][visit.stop]
        order = order_of(block.prefixes[stop.at])
        if self._only_counts(visit, stop, here):
            found = _number_kept(step, block, order, step.extenders[stop.extenders[0]])
            self.tally.prefixes[-1] += found
            self.tally.matches += found
            return
        block = _kept(step, block, order, [step.extenders[n] for n in stop.extenders], stop.excluders)
        if visit.left:
            yield visit.next_stop, block
        else:
            yield from self._extended(visit.step, block, here)

    def _only_counts(self, visit: Visit, stop: Stop, here: int | None) -> bool:
        """Tell whether the last list is met, nothing is asked of matches beyond, and nobody has to know them."""
        last = self.counting and not visit.left and self.itinerary.extended(visit.step + 1, here) is None
        filtered = any(map(_is_late, self.plan.steps[visit.step].condition.filters))
        return last and not filtered and len(stop.extenders) == 1 and not stop.excluders

    def _extended(self, number: int, block: Proposals, here: int | None) -> Moves:
        """Every owner has been visited: flatten the candidates that are left, or count them if they are matches."""
        late = [f for f in self.plan.steps[number].condition.filters if _is_late(f)]
        if self.counting and self.itinerary.extended(number + 1, here) is None:
            found = block.tuples
            if late:
                rows = np.array([f.position for f in late])
                found = int(count_differing(block.prefixes, rows, block.codes, block.begins, block.lengths))
            self.tally.prefixes[number + 1] += found
            self.tally.matches += found
            return
        extended = np.empty((len(block.prefixes) + 1, block.tuples), block.prefixes.dtype)
        flatten_extensions(block.prefixes, block.codes, block.begins, block.lengths, extended)
        for f in late:
            extended = np.compress(f.allows(extended[-1], extended), extended, axis=1)
        yield from self._bound(number + 1, extended, here)


def _kept(
    step: BoundStep,
    block: Proposals,
    order: NDArray[np.int64],
    extenders: Sequence[BoundExtender],
    excluders: Sequence[BoundExtender],
    filters: Sequence[Filter] = (),
) -> Proposals:
    """Shorten the segments of a block, put into an order, to what extenders hold, excluders do not, and filters allow.

    Neighbours with one segment and the same keys keep the same candidates, which are found once and shared again.
    """
    firsts = np.ones(len(block), np.bool_)
    if not filters:  # which may read anything of a prefix
        firsts = _first_alike(block, order, {p for extender in (*extenders, *excluders) for p in extender.reads})
    found = block.unshared(order[firsts])
    prefixes, segments = found.prefixes, (found.codes, found.begins, found.lengths)
    lower, upper = step.window.bounds(prefixes)
    nobody = np.full(len(found), NOBODY, np.uint8)
    for extender in extenders:
        trie, nodes = extender.trie, extender.nodes(prefixes)
        intersect_extensions(trie.offsets, trie.values, nodes, lower, upper, 0, nobody, step.marks, *segments)
    for extender in excluders:
        trie, nodes = extender.trie, extender.nodes(prefixes)
        exclude_extensions(trie.offsets, trie.values, nodes, extender.lower(prefixes, lower), upper, *segments)
    for f in filters:
        compare_extensions(f.ranks, f.operator, f.others(prefixes), *segments)
    if not firsts.all():
        run = np.cumsum(firsts) - 1
        prefixes = block.prefixes.take(order, axis=1)
        found = Proposals(prefixes, found.begins[run], found.lengths[run], found.codes)
    return where(found, found.lengths > 0)


def _number_kept(step: BoundStep, block: Proposals, order: NDArray[np.int64], extender: BoundExtender) -> int:
    """Return how many candidates of a block, put into an order, an extender holds."""
    firsts = _first_alike(block, order, set(extender.key))
    chosen = order[firsts]
    prefixes, trie = block.prefixes.take(chosen, axis=1), extender.trie
    lower, upper = step.window.bounds(prefixes)
    segments = (block.codes, block.begins[chosen], block.lengths[chosen])
    counts = np.empty(len(chosen), np.int64)
    count_intersections(trie.offsets, trie.values, extender.nodes(prefixes), lower, upper, step.marks, *segments, counts)
    return int(counts @ np.diff(np.append(np.flatnonzero(firsts), len(order))))


def _first_alike(block: Proposals, order: NDArray[np.int64], keys: set[int]) -> NDArray[np.bool_]:
    """Tell, for a block put into an order, which prefixes differ from their predecessors in a segment or in these positions."""
    firsts = np.ones(len(block), np.bool_)
    first_of_runs(block.prefixes.take(order, axis=1), np.array(sorted(keys), np.int64), firsts)
    firsts[1:] |= (np.diff(block.begins[order]) != 0) | (np.diff(block.lengths[order]) != 0)
    return firsts


def _is_late(f: Filter) -> bool:
    """Tell whether a filter takes away at most one candidate of each prefix: dropped late, the others still share a list."""
    return f.by_code and f.operator == NOT_EQUAL and f.position is not None


def order_of(keys: Codes) -> NDArray[np.int64]:
    """Return the order in which keys ascend, equal ones as they stand."""
    if keys.dtype.itemsize > 4:
        return np.argsort(keys, kind="stable")
    numbered = (keys.astype(np.uint64) << np.uint64(32)) | np.arange(len(keys), dtype=np.uint64)
    numbered.sort()  # many times as fast as argsort
    return (numbered & np.uint64(0xFFFFFFFF)).astype(np.int64)
