"""The one place that runs plans without Spark: what a task does, called from here, and the same join step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from bigjoin.compiled.loops import Counting
from bigjoin.index.directory import Index
from bigjoin.index.overlay import AskedIndex
from bigjoin.index.trie import Codes
from bigjoin.joins.bind import BoundStep, bind
from bigjoin.joins.extender import BoundExtender
from bigjoin.joins.generic_join import GenericJoin
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Plan


def count_alone(plan: CountPlan, index: AskedIndex) -> tuple[int, int]:
    """Count as a task does that has all of the seeds, and return beside the count how many values loops went through."""
    total = built = 0
    for term in plan.terms:
        counting = Counting(term, plan.query, index)
        total += term.times * counting.count(counting.ranges(1))
        built += sum(int(counting.tally[loop.number]) for loop in counting.generator.root.everything() if not loop.is_counted)
    return total // plan.divisor, built


def count_in_batches(plan: Plan, index: Index) -> tuple[int, int]:
    """Count by batches of prefixes, and return beside the count how many prefixes were built on the way, checked or not."""
    bound = bind(plan, index)
    meters = [_Meter() if step.checks else None for step in bound.steps]
    bound = replace(bound, steps=tuple(_metered(*pair) for pair in zip(bound.steps, meters, strict=True)))
    join = GenericJoin(bound, counting=True)
    count, tally = join.count([bound.seed.positions]), join.tally
    built = zip(tally.prefixes[1:], meters, strict=True)
    return count, tally.prefixes[0] + sum(kept if meter is None else meter.seen for kept, meter in built)


def explored(plan: Plan, index: Index) -> tuple[int, int]:
    """Run a plan by batches, and return the prefixes that it built before the last step, and the candidates of its steps."""
    bound = bind(plan, index)
    join = GenericJoin(bound, counting=True)
    join.count([bound.seed.positions])
    tally = join.tally
    return sum(tally.prefixes[:-1]), sum(tally.candidates[1:])


class _Meter:
    """A check that every prefix passes, and that counts those that come by."""

    seen = 0

    def holds(self, prefixes: Codes) -> NDArray[np.bool_]:
        """Let all pass."""
        self.seen += prefixes.shape[1]
        return np.ones(prefixes.shape[1], np.bool_)


def _metered(step: BoundStep, meter: _Meter | None) -> BoundStep:
    return step if meter is None else replace(step, checks=((cast(BoundExtender, meter), True), *step.checks))
