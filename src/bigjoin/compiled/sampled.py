"""Estimate how many values a nest of loops reads, by extending a sample of its prefixes through the real lists.

Of all proposals at a loop, some are drawn with equal probability and extended, and each of them stands for an equal share of
all. So the estimate has no bias however skewed the lists are, and it takes milliseconds however long the nest would run.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bigjoin.index.dictionary import code_type
from bigjoin.index.trie import Codes, Trie, single_list
from bigjoin.joins.bind import Binder, BoundStep, ReadableIndex
from bigjoin.joins.blocks import Counts, Prefixes
from bigjoin.joins.extend import count, extend
from bigjoin.joins.extender import BoundExtender
from bigjoin.query.nest import Loop, Nest
from bigjoin.query.query import Query

SAMPLED_PROPOSALS = 1 << 12
"""Proposals that are drawn at each loop."""


def expected_candidates(term: Nest, query: Query, index: ReadableIndex) -> float:
    """Estimate how many values the loops of a nest read; the estimate is the same each time."""
    sampling = _Sampling(query, index)
    code = code_type(max(map(Binder(query, (), index).size, term.attributes)))
    return sampling.looked_at(term.root, (), np.empty((0, 1), code), 1.0)


class _Sampling:
    def __init__(self, query: Query, index: ReadableIndex) -> None:
        self.query, self.index = query, index
        self.random = np.random.default_rng(0)

    def looked_at(self, loop: Loop, bound: tuple[str, ...], prefixes: Codes, each: float) -> float:
        """Estimate what a loop and those within it read for sampled prefixes, each of which stands for `each` of them."""
        binder = Binder(self.query, (*bound, loop.attribute), self.index)
        if loop.cached:  # by the last attribute, so at most once for each of its values
            each = min(each, binder.size(bound[-1]) / max(1, prefixes.shape[1]))
        if not loop.step.extenders and loop.weights:  # over the entries of a counter: filling it has been counted
            return 0.0
        step = self._bound(binder, loop)
        if not step.extenders:
            step = replace(step, extenders=(BoundExtender(_whole(binder.size(loop.attribute), prefixes), (), len(bound)),))
        proposed = count(step, Prefixes(prefixes))
        proposals = proposed.proposals
        is_counted = not (loop.inner or loop.counters or loop.weights or loop.collects is not None or step.checks)
        if is_counted and step.counts_suffice:
            return each * int(prefixes.shape[1])
        total = each * proposals
        if is_counted or not proposals:
            return total
        drawn = self._draw(proposed, proposals)
        each *= proposals / drawn.proposals
        extended = extend(step, drawn)
        heads = [*(counter.spine for counter in loop.counters), *loop.inner]
        return total + sum(self.looked_at(head, binder.order, extended, each) for head in heads)

    def _draw(self, proposed: Counts, proposals: int) -> Counts:
        """Return a sample of proposals, or all if they are few."""
        if proposals <= SAMPLED_PROPOSALS:
            return proposed
        return proposed.only(np.sort(self.random.integers(0, proposals, SAMPLED_PROPOSALS)))

    @staticmethod
    def _bound(binder: Binder, loop: Loop) -> BoundStep:
        step = loop.step
        return BoundStep(
            step.attribute,
            tuple(binder.extender(e) for e in step.extenders),
            tuple(binder.extender(e) for e in step.excluders),
            binder.checks(step.checks),
            binder.condition(step.attribute, step.restrictions, step.filters),
            np.zeros(binder.size(step.attribute), np.uint8),
        )


def _whole(size: int, prefixes: Codes) -> Trie:
    """Return all codes of a domain as one list."""
    return single_list(np.arange(size, dtype=prefixes.dtype))
