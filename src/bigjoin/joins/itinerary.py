"""Where prefixes go: which worker counts, proposes and intersects next, and when prefixes do not have to travel.

The worker that owns the first attribute of an extender's key has the extender's lists. A step is therefore a tour of a few
stops, one for each attribute that owns lists. Extenders with the same owner share a stop, a tour starts where the prefix
already is, and every worker has the lists without a key (a relation of one column), as it has the dictionary.

With one worker there is one stop, and nothing travels. `dataflow/heavy.py` deals a few keys out over all workers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from bigjoin.joins.bind import BoundPlan, BoundStep
from bigjoin.joins.blocks import Block, Proposals, Travelling
from bigjoin.joins.extender import BoundExtender

VisitKind = Literal["check", "count", "wait", "intersect"]

MAX_EXCHANGES = 32
"""Exchanges of one job, unless a single step needs more. Spark plans all of them up front, and more slowly for each."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The lists that a step reads at one owner: the owner of the attribute at position `at`, or any worker if that is None."""

    at: int | None
    extenders: tuple[int, ...] = ()
    """Numbers of the step's extenders."""
    excluders: tuple[BoundExtender, ...] = ()
    checks: tuple[tuple[BoundExtender, bool], ...] = ()


@dataclass(frozen=True, slots=True)
class Visit:
    """What a worker does with prefixes that reach it, after `step` steps."""

    kind: VisitKind
    step: int
    stop: int
    left: tuple[int, ...] = ()
    """The remaining stops of the tour."""

    @property
    def next_stop(self) -> Visit:
        """The visit of the next stop of the tour."""
        return Visit(self.kind, self.step, self.left[0], self.left[1:])


@dataclass(frozen=True, slots=True)
class Staying:
    """A block that does not have to travel to its next visit."""

    block: Block


class Itinerary:
    """The stops of a plan, and which visits follow a visit."""

    def __init__(self, plan: BoundPlan) -> None:
        self.plan = plan
        self.stops = [self._stops(step) for step in plan.steps]
        self.checks = [self._check_stops(plan.seed.checks), *(self._check_stops(step.checks) for step in plan.steps)]
        self._further: dict[tuple[Visit, int | None, int], int] = {}

    def owner(self, extender: BoundExtender) -> int | None:
        """Return the position of the attribute whose owner has an extender's lists; None if every worker has them."""
        return extender.key[0] if extender.key else None

    def parts(self, visit: Visit, block: Block, here: int | None) -> Iterator[Staying | Travelling]:
        """Separate what can be done where a block is from what has to travel."""
        yield Staying(block) if self.is_here(visit, here) else block

    def proposals(self, step: int, stop: int, block: Proposals) -> Iterator[tuple[Proposals, bool]]:
        """Give what was proposed at a stop, and whether it has to visit that stop again for the stop's other lists."""
        del step, stop
        yield block, False

    def spreads(self, at: int | None) -> bool:
        """Tell whether some keys at a position have no owner because they are dealt out over all workers."""
        del at
        return False

    @property
    def seeds_at(self) -> int | None:
        """The position of the attribute whose owner reads a seed; None if any worker does."""
        return 0 if self.plan.seed.extender.trie.keyed else None

    def place(self, visit: Visit) -> int | None:
        """Return the position of the attribute whose owner is visited; None if any worker will do."""
        stops = self.checks if visit.kind == "check" else self.stops
        return stops[visit.step][visit.stop].at

    def extended(self, step: int, here: int | None) -> Visit | None:
        """Return the visit of prefixes that have just completed `step` steps: checks, or counting; None for a match."""
        if self.checks[step]:
            return Visit("check", step, *self._tour(self.checks[step], range(len(self.checks[step])), here))
        return self.counting(step, here)

    def counting(self, step: int, here: int | None) -> Visit | None:
        """Return the first visit of count minimisation; None for a match."""
        if step == len(self.stops):
            return None
        return Visit("count", step, *self._tour(self.stops[step], self._counted(step), here))

    def intersecting(self, step: int, proposer: int, *, again: bool = False) -> Visit | None:
        """Return the first visit after a proposal: the other stops intersect, and with `again` the proposer's own stop too.

        Return None if no stop is left.
        """
        others = [i for i, stop in enumerate(self.stops[step]) if (again or i != proposer) and stop.at is not None]
        if not others:
            return None
        # Stops where the next step can start counting without an exchange come last.
        wanted = {stop.at for stop in self.stops[step + 1]} if step + 1 < len(self.stops) else set()
        first, *left = sorted(others, key=lambda i: self.stops[step][i].at in wanted)
        return Visit("intersect", step, first, tuple(left))

    def proposed(self, step: int, stop: int) -> list[Visit | None]:
        """Return the visits that may follow a proposal at a stop; None for a match."""
        found = [self.intersecting(step, stop) or self.extended(step + 1, self.stops[step][stop].at)]
        return [*found, self.intersecting(step, stop, again=True)] if self.comes_again(step, stop) else found

    def comes_again(self, step: int, stop: int) -> bool:
        """Tell whether candidates of dealt-out keys visit their stop again: its other lists are with other workers."""
        lists = self.stops[step][stop]
        return self.spreads(lists.at) and len(lists.extenders) + len(lists.excluders) > 1

    def following(self, visit: Visit, here: int | None) -> Iterator[Visit]:
        """Give the visits that may follow a visit which took place here."""
        then: list[Visit | None] = [visit.next_stop] if visit.left else []
        if visit.kind == "count":
            then += [Visit("wait", visit.step, i) for i in self.proposing(visit.step)]
        elif visit.kind == "wait":
            then += self.proposed(visit.step, visit.stop)
        elif not visit.left:
            is_check = visit.kind == "check"
            then.append(self.counting(visit.step, here) if is_check else self.extended(visit.step + 1, here))
        yield from (one for one in then if one is not None)

    def proposing(self, step: int) -> list[int]:
        """Return the stops of a step that own extenders, and may therefore propose."""
        return [i for i, stop in enumerate(self.stops[step]) if stop.extenders]

    def starts(self, step: int | None) -> list[tuple[Visit | None, int | None]]:
        """Return the first visits of a round after the seeds (None) or a step's proposals, each with where it starts from."""
        if step is None:
            return [(self.extended(0, self.seeds_at), self.seeds_at)]
        return [(visit, self.stops[step][i].at) for i in self.proposing(step) for visit in self.proposed(step, i)]

    def exchanges(self, step: int | None) -> int:
        """Return how many exchanges a round has at most, starting with the seeds (None) or with a step's proposals."""
        return self._exchanges(step, self.furthest(step))

    def furthest(self, step: int | None) -> int:
        """Return the last step that may propose in a round: the plan's last, unless a job would have too many exchanges."""
        last = -1 if step is None else step
        while last + 1 < len(self.stops) and self._exchanges(step, last + 1) <= MAX_EXCHANGES:
            last += 1
        return last

    def _exchanges(self, step: int | None, last: int) -> int:
        return max((self._longest(visit, here, last) for visit, here in self.starts(step) if visit is not None), default=0)

    @cached_property
    def shares_last(self) -> bool:
        """Whether candidates of the last step travel only once, as shared lists, so that their codes cost, not their number."""
        return bool(self.stops) and self.exchanges(len(self.stops) - 1) <= 1

    def is_here(self, visit: Visit, here: int | None) -> bool:
        """Tell whether a visit needs no exchange."""
        place = self.place(visit)
        return place is None or place == here

    def travels(self, visit: Visit, here: int | None) -> bool:
        """Tell whether prefixes may need an exchange to a visit. Those with dealt-out keys do, except to be counted."""
        return not self.is_here(visit, here) or (visit.kind != "count" and self.spreads(self.place(visit)))

    def there(self, visit: Visit, here: int | None) -> int | None:
        """Return where prefixes that come from here are during a visit."""
        return here if self.is_here(visit, here) else self.place(visit)

    @cached_property
    def visits(self) -> list[Visit]:
        """All visits, in the same order in every task: blocks travel with the number of their visit."""
        found: dict[tuple[Visit, int | None], None] = {}
        starts = [start for step in (None, *range(len(self.stops))) for start in self.starts(step)]
        pending = [(visit, self.there(visit, here)) for visit, here in starts if visit is not None]
        while pending:
            visit, here = pending.pop()
            if (visit, here) not in found:
                found[visit, here] = None
                pending += [(then, self.there(then, here)) for then in self.following(visit, here)]
        return list(dict.fromkeys(visit for visit, _ in found))

    def _longest(self, visit: Visit, here: int | None, last: int) -> int:
        """Return how many exchanges follow at most, including the one to a visit. Tours meet, so results are remembered."""
        there = self.there(visit, here)
        if (visit, there, last) not in self._further:
            ends = visit.kind == "wait" and visit.step > last
            further = (self._longest(then, there, last) for then in (() if ends else self.following(visit, there)))
            self._further[visit, there, last] = max(further, default=0)
        return self._further[visit, there, last] + self.travels(visit, here)

    def _counted(self, step: int) -> list[int]:
        """Return the stops that count: those with an owner, or else the one that any worker can be."""
        return [i for i in self.proposing(step) if self.stops[step][i].at is not None] or self.proposing(step)

    def _stops(self, step: BoundStep) -> list[Stop]:
        """Return the stops of a step, in the order of its extenders."""
        places = dict.fromkeys(self.owner(e) for e in (*step.extenders, *step.excluders))
        return [
            Stop(
                at,
                tuple(i for i, e in enumerate(step.extenders) if self.owner(e) == at),
                tuple(e for e in step.excluders if self.owner(e) == at),
            )
            for at in places
        ]

    def _check_stops(self, checks: Sequence[tuple[BoundExtender, bool]]) -> list[Stop]:
        """Return the stops of checks, one for each value if keys are dealt out: the value then decides who owns a tuple."""
        stops: dict[tuple[int | None, int | None], list[tuple[BoundExtender, bool]]] = defaultdict(list)
        for extender, wanted in checks:
            at = self.owner(extender)
            stops[at, extender.value if self.spreads(at) else None].append((extender, wanted))
        return [Stop(at, checks=tuple(some)) for (at, _), some in stops.items()]

    @staticmethod
    def _tour(stops: Sequence[Stop], chosen: Iterable[int], here: int | None) -> tuple[int, tuple[int, ...]]:
        """Return the first stop and the remaining ones, starting where the prefix is."""
        first, *left = sorted(chosen, key=lambda i: stops[i].at != here)
        return first, tuple(left)


class OneWorker(Itinerary):
    """One worker has every list: a step is a single stop, and nothing travels."""

    def owner(self, extender: BoundExtender) -> int | None:
        """Return None: every worker (there is only one) has the lists."""
        del extender
        return None
