"""Pick matches by their numbers, at the cost of counting: for samples that are exactly uniform.

All matches have a number: those of the first code of the root come first, and so on. A count says how many matches a stretch of
codes has, so a wanted number is traced to ever shorter stretches, and at last to a code. Nests do the counting, however they
factorize or eliminate attributes (`query/nest.py`); they begin with the same attribute as the plan whose matches are picked,
and have the same restrictions, so both have equally many matches for each code. Only the codes that have a wanted match are
gone through by a chain of loops, which passes over matches that are not wanted (`pick_source.py`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from bigjoin.compiled.code_ranges import code_cuts, ranges_of_codes
from bigjoin.compiled.loops import Compiled, Counting
from bigjoin.compiled.pick_source import PickSource
from bigjoin.defaults import BATCH_SIZE
from bigjoin.errors import BigjoinError
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import Binder, ReadableIndex, bind
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.joins.seeds import equal_ranges
from bigjoin.query.nest import CountPlan, nest_of
from bigjoin.query.plan import Plan

DIVISION = 16
"""Into how many stretches one with wanted matches is divided: many are counted at once, and few more than once."""


class Numbered(Protocol):
    """Numbered matches of a plan over an index, in stretches of units."""

    def cuts(self, parts: int) -> list[int]:
        """Return units from 0 to their number, between which there is about equal work."""

    def count(self, first: int, last: int) -> int:
        """Return how many matches units first..last - 1 have."""

    def pick(self, unit: int, ranks: Sequence[int]) -> Codes:
        """Return some matches of one unit, given their sorted numbers within it."""


@dataclass(frozen=True)
class PickProgram:
    """A plan, and how its matches are counted, code by code of the attribute that both begin with."""

    counted: CountPlan
    plan: Plan
    on_batches: bool = False
    """Whether the loops would be too large to compile."""

    @classmethod
    def choose(cls, counted: CountPlan, plan: Plan, index: ReadableIndex) -> PickProgram:
        """Compile loops, unless they are too large."""
        return cls(counted, plan, on_batches=NumberedByCode(counted, plan, index).is_too_large)

    def bind(self, index: ReadableIndex) -> Numbered:
        """Bind the program to an index."""
        return NumberedBySeed(self.plan, index) if self.on_batches else NumberedByCode(self.counted, self.plan, index)


class NumberedByCode:
    """Matches in the order of the codes of their first attribute, counted and picked by compiled loops."""

    def __init__(self, counted: CountPlan, plan: Plan, index: ReadableIndex) -> None:
        self.divisor = counted.divisor
        self.terms = [(nest.times, Counting(nest, plan.query, index)) for nest in counted.terms]
        self.generator = PickSource(nest_of(plan), Binder(plan.query, plan.attributes, index))
        self.picking = Compiled(self.generator)

    @property
    def is_too_large(self) -> bool:
        return self.picking.is_too_large or any(counting.is_too_large for _, counting in self.terms)

    def cuts(self, parts: int) -> list[int]:
        """Return codes, from 0 to their number, between which there is about equal work."""
        found: list[int] = code_cuts(self.terms[0][1].generator, parts).tolist()
        return found

    def count(self, first: int, last: int) -> int:
        """Return how many matches have a first attribute with one of these codes."""
        total = sum(times * found.count(ranges_of_codes(found.generator, first, last)) for times, found in self.terms)
        assert total % self.divisor == 0, "a sum of counts is not divisible by the symmetry it was counted with"
        return total // self.divisor

    def pick(self, unit: int, ranks: Sequence[int]) -> Codes:
        """Return some of the matches whose first attribute has this code."""
        if ranks[-1] >= 1 << 63:
            raise BigjoinError("one value of an attribute has more than 2^63 matches, too many to draw from: count by groups")
        out = np.empty((len(self.generator.binder.order), len(ranks)), self.generator.code_type)
        ((first, last, low, high),) = ranges_of_codes(self.generator, unit, unit + 1)
        found = self.picking._function(np.array(ranks, np.int64), out)(first, last, low, high)
        assert found == len(ranks), "a nest and the plan that begins like it have different matches"
        return out


class NumberedBySeed:
    """Matches in the order of the seeds they start from, counted and picked on batches."""

    def __init__(self, plan: Plan, index: ReadableIndex) -> None:
        self.plan = bind(plan, index)

    def cuts(self, parts: int) -> list[int]:
        """Return positions of seeds, between which there is about equal work."""
        ranges = equal_ranges(self.plan, parts)
        return [first for first, _ in ranges] + [last for _, last in ranges[-1:]]

    def count(self, first: int, last: int) -> int:
        """Return how many matches start from seeds at these positions."""
        return GenericJoin(self.plan, counting=True).count([(first, last)])

    def pick(self, unit: int, ranks: Sequence[int]) -> Codes:
        """Return some of the matches that start from one seed."""
        found, passed = [], 0
        for matches in GenericJoin(self.plan, counting=False, batch_size=BATCH_SIZE).matches([(unit, unit + 1)]):
            chosen = ranks[bisect_left(ranks, passed) : bisect_left(ranks, passed + matches.shape[1])]
            found.append(matches[:, np.array(chosen, np.int64) - passed])
            passed += matches.shape[1]
        return np.concatenate(found, axis=1)


def picked(matches: Numbered, first: int, last: int, ranks: Sequence[int]) -> Iterator[Codes]:
    """Give the matches of units first..last - 1 with certain numbers, sorted and counted from 0 within these units."""
    if last - first == 1:
        yield matches.pick(first, ranks)
        return
    step, before = -(-(last - first) // DIVISION), 0
    for start, stop in pairwise([*range(first, last, step), last]):
        chosen = ranks[bisect_left(ranks, before) :]
        if not chosen:
            return
        after = before + matches.count(start, stop)
        mine = [rank - before for rank in chosen[: bisect_left(chosen, after)]]
        if mine:
            yield from picked(matches, start, stop, mine)
        before = after
