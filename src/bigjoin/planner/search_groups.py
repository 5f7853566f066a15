"""Find the cheapest nest for counting by groups, in which the keys are bound by loops that know the whole product.

With several keys, their loops are the outermost ones, and everything else is counted inside. A single key may also be
reached: loops through the other attributes lead to it, and what they come to is added to the value's entry, as a counter does.
A key that no list leads to from the keys before it is reached in the same way, by a counter of its own.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf

from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import COST_OF_LOOKUP, SizeEstimate
from bigjoin.planner.isomorphism import Unequal
from bigjoin.planner.search_nest import (
    COST_OF_ADDING,
    FULLY_SEARCHED_ATTRIBUTES,
    Attributes,
    Candidate,
    Ends,
    LoopChoice,
    NestSearch,
)


class GroupSearch(NestSearch):
    """The search for a draft with keys."""

    def __init__(
        self,
        draft: Draft,
        estimate: SizeEstimate,
        *,
        joining: frozenset[Unequal] = frozenset(),
        unequal: frozenset[Unequal] = frozenset(),
        budget: float = inf,
    ) -> None:
        self.keys = tuple(dict.fromkeys(draft.keys))
        together = frozenset(map(frozenset, combinations(self.keys, 2)))  # so that one loop is within the other
        super().__init__(draft, estimate, joining=joining | together, unequal=unequal, budget=budget)

    def best(self) -> Candidate:
        """Return the cheapest nest; it has no loop if the index does not lead to the keys."""
        everything = frozenset(self.joined)
        found = [self.component(frozenset(), Ends(), everything)]
        if len(self.keys) == 1:
            rest = everything - {*self.keys}
            starts = [u for u in sorted(rest) if self.estimate.is_reachable(u, frozenset())]
            found += [self.along(frozenset(), Ends(), rest, u, self.keys[0], frozenset()) for u in starts]
        best = min(found, key=lambda candidate: candidate.cost)
        return best if best.loop is None else replace(best, loop=_plain(best.loop))

    def _component(self, path: Attributes, ends: Ends, attributes: Attributes) -> Candidate:
        """Return the cheapest nest of a component, whose next loop binds the next key if it has any."""
        left = [key for key in self.keys if key in attributes]
        if not left:
            return super()._component(path, ends, attributes)
        key, best = left[0], Candidate()
        if self.estimate.served(key, path) or self.estimate.is_reachable(key, frozenset()):
            best = self.bind(path, ends, attributes, key, inf)
        if path and len(attributes) > 1:
            best = min(best, self.eliminate(path, ends, attributes, key), key=lambda found: found.cost)
        if path and len(attributes) <= FULLY_SEARCHED_ATTRIBUTES:
            for v in sorted(attributes - {*left}):
                for part in self.components(attributes - {*left, v}):
                    best = min(best, self.count_before(path, ends, attributes, part, v), key=lambda found: found.cost)
        return best

    def count_before(self, path: Attributes, ends: Ends, attributes: Attributes, part: Attributes, v: str) -> Candidate:
        """Return the nest that counts how often an attribute is reached through a part before the next key is bound.

        Loops inside that of the key then use the counter, however many values the key has: for the 4-cycles at the edges of a
        vertex, paths of two steps from it are counted once.
        """
        around = self.around(part)
        if v not in around or not around <= path | {v} or around.isdisjoint(path):
            return Candidate()
        counter, found = self.spine(path, ends, part, v, path), self.component(path, ends, attributes - part)
        if counter.loop is None or found.loop is None:
            return Candidate()
        loop, looped = _with_factor(found.loop, v, counter.loop, path)
        if loop is None:
            return Candidate()
        cost = counter.cost + found.cost + self.estimate.prefixes(looped)
        return Candidate(cost, loop, (*found.spines, counter.loop))

    def _spine(self, path: Attributes, ends: Ends, part: Attributes, v: str, outer: Attributes) -> Candidate:
        """Return loops that fill a counter; none of them binds a key on the way."""
        return Candidate() if part & {*self.keys} else super()._spine(path, ends, part, v, outer)


class ChainSearch(NestSearch):
    """The search for loops within each other, without products and counters."""

    def __init__(self, draft: Draft, estimate: SizeEstimate) -> None:
        super().__init__(draft, estimate, joining=frozenset(map(frozenset, combinations(draft.attributes, 2))))

    def eliminate(self, path: Attributes, ends: Ends, attributes: Attributes, v: str) -> Candidate:
        """Return nothing: a counter does not know which values it was reached through."""
        del path, ends, attributes, v
        return Candidate()

    def cost_of_adding(self, loop: LoopChoice, attributes: Attributes) -> float:
        """Return what it costs to add what is inside each loop of some attributes to the entry of its value.

        The values of the innermost loop are looked at one by one if it is such a loop. Otherwise they are only counted, and
        each attribute that its own has to differ from is looked up among them.
        """
        path, cost = frozenset[str](), 0.0
        while True:
            outer, path = path, path | {loop.attribute}
            is_last = not loop.inner
            if loop.attribute in attributes:
                cost += (COST_OF_ADDING + is_last) * self.estimate.prefixes(path)
            elif is_last:
                differing = sum(f.keeps_apart and loop.attribute in f.attributes for f in self.draft.filters)
                cost += differing * COST_OF_LOOKUP * self.estimate.prefixes(outer)
            if is_last:
                return cost
            (loop,) = loop.inner


def _with_factor(loop: LoopChoice, v: str, counter: LoopChoice, path: Attributes) -> tuple[LoopChoice | None, Attributes]:
    """Return loops in which that of an attribute has a counter from further out as a factor, and what is bound there.

    There are none if it is part of what is kept for each value of another attribute, or only fills a counter.
    """
    now = path | {loop.attribute}
    if loop.attribute == v:
        return replace(loop, outer=(*loop.outer, counter)), now
    for i, child in enumerate(loop.inner):
        found, looped = (None, now) if child.cached else _with_factor(child, v, counter, now)
        if found is not None:
            return replace(loop, inner=(*loop.inner[:i], found, *loop.inner[i + 1 :])), looped
    return None, now


def _plain(loop: LoopChoice) -> LoopChoice:
    """Return loops in which none is the last of a counter's, but those of counters within."""
    return replace(loop, collects=False, inner=tuple(map(_plain, loop.inner)))
