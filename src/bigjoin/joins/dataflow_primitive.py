"""The dataflow of a plan: what a worker does with the blocks that reach it, and where the results go next.

Each owner in turn counts a prefix. The prefix then waits at the owner with the fewest extensions, which proposes them batch by
batch, and the candidates visit the other owners. A block that does not have to travel to its next visit continues at once. The
verbs are those of `extend.py`, with the extenders of a stop; the itinerary knows who owns what. With one worker this is Generic
Join on batches (`generic_join.py`); with several it is the paper's BiGJoin, and a strategy moves what has to travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundPlan
from bigjoin.joins.blocks import Block, Counts, Prefixes, Proposals, Travelling, where
from bigjoin.joins.bounds_and_filters import Filter
from bigjoin.joins.extend import check, count, count_flattened, count_intersection, flatten, intersect, propose
from bigjoin.joins.extender import BoundExtender
from bigjoin.joins.itinerary import Itinerary, Staying, Visit
from bigjoin.quota import quota

WORTH_COUNTING = 32
"""A prefix with at most this many extensions at one owner is not counted at the others: a few more candidates cost less than
travelling. Since this is a constant, the paper's bounds hold up to a constant factor."""

Moves: TypeAlias = Iterator[tuple[Visit, Block]]
"""Blocks with their next visits."""
Travels: TypeAlias = Iterator[tuple[Visit, Travelling]]
"""Blocks that have to travel to their next visits."""


class Sink(Protocol):
    """Takes the prefixes that wait to propose, and the matches; it is full once it has as many matches as are wanted."""

    @property
    def is_full(self) -> bool: ...
    def wait(self, step: int, stop: int, block: Counts, keys: Codes | None) -> None: ...
    def match(self, matches: Codes) -> None: ...


@dataclass(slots=True)
class Tally:
    """How many prefixes and candidates each step had (the first entries are the seed's), and how many matches were counted."""

    prefixes: list[int]
    candidates: list[int]
    matches: int = 0

    @classmethod
    def of(cls, plan: BoundPlan) -> Tally:
        return cls([0] * (len(plan.steps) + 1), [0] * (len(plan.steps) + 1))

    def match(self, found: int) -> None:
        """Add matches that are counted and not written."""
        self.prefixes[-1] += found
        self.matches += found


@dataclass
class DataflowPrimitive:
    """What a worker can do with the blocks of a plan. With `counting`, matches are counted and not written."""

    plan: BoundPlan
    sink: Sink
    itinerary: Itinerary
    counting: bool = field(kw_only=True)
    batch_size: int = field(kw_only=True)
    """B': proposals that are alive at a step."""
    allowance: int = field(default=0, kw_only=True)
    """Proposals of each step that may be made as soon as prefixes reach their proposer; prefixes beyond that wait."""
    last: int | None = field(default=None, kw_only=True)
    """The last step that may propose in this round, if not the plan's last."""
    shares: bool = field(default=True, kw_only=True)
    """Whether proposals of the last step that share a list are charged for its codes once; otherwise each is charged."""
    worth_counting: int = field(default=WORTH_COUNTING, kw_only=True)
    tally: Tally = field(init=False)
    left: list[int] = field(init=False)
    """What remains of the allowance of each step."""

    def __post_init__(self) -> None:
        self.tally = Tally.of(self.plan)
        self.left = [self.allowance if self.last is None or s <= self.last else 0 for s in range(len(self.plan.steps))]
        self.visits: dict[str, Callable[[Visit, Any, int | None], Moves]] = {
            "check": self._check,
            "count": self._count,
            "wait": self._wait,
            "intersect": self._intersect,
        }

    def seed(self, prefixes: Codes) -> Travels:
        """Begin with the prefixes of seeds, and give what has to travel."""
        here = self.itinerary.seeds_at
        yield from self._go_on(self._reach(self.itinerary.extended(0, here), 0, prefixes), here)

    def propose(self, step: int, stop: int, batch: Counts) -> Travels:
        """Propose the extensions of prefixes that wait at a stop, and give what has to travel."""
        yield from self._go_on(self._propose(step, stop, batch), self.itinerary.stops[step][stop].at)

    def visit(self, visit: Visit, block: Block) -> Travels:
        """Do what a visit asks for, and give what has to travel further."""
        place = self.itinerary.place(visit)
        yield from self._go_on(self.visits[visit.kind](visit, block, place), place)

    def _go_on(self, moves: Moves, here: int | None) -> Travels:
        """Follow blocks through all visits that need no exchange, and give those that have to travel."""
        pending = [(moves, here)]  # depth first: results of a block continue before the next is made, so B' are alive at a step
        while pending and not self.sink.is_full:
            quota().check()
            moves, here = pending[-1]
            visit, block = next(moves, (None, None))
            if visit is None or block is None:
                pending.pop()
                continue
            there = self.itinerary.there(visit, here)
            for part in self.itinerary.parts(visit, block, here) if len(block) else ():
                if not isinstance(part, Staying):
                    yield visit, part
                elif len(part.block):
                    pending.append((self.visits[visit.kind](visit, part.block, there), there))

    def _reach(self, visit: Visit | None, step: int, prefixes: Codes) -> Moves:
        """Send prefixes that have completed some steps to their next visit; without one they are matches."""
        if visit is None and self.counting:
            self.tally.match(prefixes.shape[1])
            return
        if visit is None or visit.kind == "count":  # no checks are left
            self.tally.prefixes[step] += prefixes.shape[1]
        if visit is not None:
            yield visit, Prefixes(prefixes)
        elif prefixes.shape[1]:
            self.sink.match(prefixes)

    def _check(self, visit: Visit, block: Prefixes, here: int | None) -> Moves:
        """Keep the prefixes for which the atoms hold whose attributes are all bound."""
        prefixes = check(self.itinerary.checks[visit.step][visit.stop].checks, block.prefixes)
        if visit.left:
            yield visit.next_stop, Prefixes(prefixes)
        else:
            yield from self._reach(self.itinerary.counting(visit.step, here), visit.step, prefixes)

    def _count(self, visit: Visit, block: Prefixes | Counts, _: int | None) -> Moves:
        """Count minimisation: lower (min-c, min-i) to the extenders of this stop, and drop prefixes without extensions."""
        step, stops = self.plan.steps[visit.step], self.itinerary.stops[visit.step]
        numbers = stops[visit.stop].extenders
        if isinstance(block, Prefixes) and stops[visit.stop].at is not None:  # the first stop counts lists without an owner too
            numbers += tuple(n for stop in stops if stop.at is None for n in stop.extenders)
        counted = count(step, block, numbers)
        if visit.left:
            few = counted.counts <= self.worth_counting
            yield from self._to_proposers(visit.step, where(counted, few))
            yield visit.next_stop, where(counted, ~few)
        elif self.counting and visit.step == len(self.plan.steps) - 1 and step.counts_suffice:
            self.tally.candidates[-1] += counted.proposals
            self.tally.match(counted.proposals)
        else:
            yield from self._to_proposers(visit.step, counted)

    def _to_proposers(self, step: int, block: Counts) -> Moves:
        """Send each prefix to the stop of its proposer."""
        stops = self.itinerary.proposing(step)
        if len(stops) == 1:
            yield Visit("wait", step, stops[0]), block
            return
        stop_of = np.zeros(len(self.plan.steps[step].extenders), np.uint8)
        for i in stops:
            stop_of[list(self.itinerary.stops[step][i].extenders)] = i
        chosen = stop_of[block.proposers]
        for i in stops:
            yield Visit("wait", step, i), where(block, chosen == i)

    def _wait(self, visit: Visit, block: Counts, _: int | None) -> Moves:
        """Let prefixes that have reached their proposer propose as far as the allowance goes; the others wait.

        They are sorted by key: neighbours then share a list, which travels once.
        """
        at, keys = self.itinerary.place(visit), None
        if at is not None:
            block = block.part(order_of(block.prefixes[at]))
            keys = block.prefixes[at]
        now = 0
        if self.left[visit.step]:
            shared = self.shares and self.itinerary.shares_last and visit.step == len(self.plan.steps) - 1
            costs = np.cumsum(codes_that_travel(block, keys) if shared else block.counts)
            now = int(np.searchsorted(costs, self.left[visit.step], side="right"))
            self.left[visit.step] -= int(costs[now - 1]) if now else 0
        if now < len(block):
            later = slice(now, None)
            self.sink.wait(visit.step, visit.stop, block.part(later), None if keys is None else keys[later])
        for batch in block.part(slice(now)).batches(self.batch_size):
            yield from self._propose(visit.step, visit.stop, batch)

    def _propose(self, number: int, at: int, batch: Counts) -> Moves:
        """Proposal: give each prefix the list of its proposer, and intersect it at once with the other lists that are here."""
        step, stops = self.plan.steps[number], self.itinerary.stops[number]
        self.tally.candidates[number + 1] += batch.proposals
        for proposer, proposed in propose(step, batch, stops[at].extenders):
            for block, again in self.itinerary.proposals(number, at, proposed):
                here = [stop for i, stop in enumerate(stops) if (i == at and not again) or stop.at is None]
                extenders = [step.extenders[n] for stop in here for n in stop.extenders if n != proposer]
                excluders = [extender for stop in here for extender in stop.excluders]
                then = self.itinerary.intersecting(number, at, again=again)
                yield from self._meet(number, block, then, stops[at].at, extenders, excluders, step.early_filters)

    def _intersect(self, visit: Visit, block: Proposals, here: int | None) -> Moves:
        """Intersection: keep the candidates that the lists of this stop hold."""
        stop = self.itinerary.stops[visit.step][visit.stop]
        extenders = [self.plan.steps[visit.step].extenders[n] for n in stop.extenders]
        then, order = visit.next_stop if visit.left else None, order_of(block.prefixes[stop.at])
        yield from self._meet(visit.step, block, then, here, extenders, stop.excluders, order=order)

    def _meet(
        self,
        number: int,
        block: Proposals,
        then: Visit | None,
        here: int | None,
        extenders: Sequence[BoundExtender],
        excluders: Sequence[BoundExtender],
        filters: Sequence[Filter] = (),
        order: NDArray[np.int64] | None = None,
    ) -> Moves:
        """Intersect candidates with lists; then send them to the next owner or step, or count them if they are matches."""
        step, extended = self.plan.steps[number], self.itinerary.extended(number + 1, here)
        is_counted = self.counting and then is None and extended is None
        is_filtered = bool(filters or step.late_filters or step.condition.row_filters)
        if is_counted and len(extenders) == 1 and not (excluders or is_filtered):
            self.tally.match(count_intersection(step, block, extenders[0], order))
            return
        kept = intersect(step, block, extenders, excluders, filters, order)
        if is_counted:
            self.tally.match(count_flattened(step, kept))
        elif then is not None:
            yield then, kept
        else:
            yield from self._reach(extended, number + 1, flatten(step, kept))


def codes_that_travel(block: Counts, keys: Codes | None) -> NDArray[np.int64]:
    """Return how many codes travel when each prefix proposes: its own, and once for all neighbours with its key, the list."""
    firsts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if keys is not None else np.arange(len(block))
    codes = np.full(len(block), len(block.prefixes))
    codes[firsts] += np.maximum.reduceat(block.counts, firsts)
    return codes


def order_of(keys: Codes) -> NDArray[np.int64]:
    """Return the order that sorts keys and keeps equal ones in place."""
    if keys.dtype.itemsize > 4:
        return np.argsort(keys, kind="stable")
    numbered = (keys.astype(np.uint64) << np.uint64(32)) | np.arange(len(keys), dtype=np.uint64)
    numbered.sort()  # many times as fast as argsort
    return (numbered & np.uint64(0xFFFFFFFF)).astype(np.int64)
