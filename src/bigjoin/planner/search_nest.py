"""Find the cheapest nest of loops for counting: which attribute is bound where, what stands side by side, what is eliminated.

With some attributes bound (a path), the others fall into components that nothing joins, and each is counted by itself: by a
loop over one of its attributes, inside which the rest falls apart again. Two things make this cheaper than loops alone. A
component that only the innermost attribute joins to the path has one count for each value of that attribute, which is kept.
And a component between the path and an attribute v may be traversed first, adding up in a counter how often each v is reached
(variable elimination): then v need not be a neighbour of the path, and is looped over once.

Costs are expected numbers of values looked at. Queries of up to FULLY_SEARCHED_ATTRIBUTES are searched completely; for larger
ones only the few choices are tried that are cheapest at first sight, and only the cheapest once a budget of parts is spent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import NamedTuple

from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import ByKey, SizeEstimate
from bigjoin.planner.isomorphism import Shape, Unequal
from bigjoin.planner.pairing import renaming
from bigjoin.query.read import Version
from bigjoin.quota import quota

FULLY_SEARCHED_ATTRIBUTES = 6
CHOICES_BEYOND = 3
"""Attributes that may be bound next in a query with one attribute more; with each further attribute one less."""
MAX_COMPARED = 16
"""Attributes that are compared by cost once a budget is spent: those that most lists lead to."""
COST_OF_ADDING = 2.0
"""The cost of adding to a counter, compared with looking at a value of a list."""

VALUES_PER_WORD = 16
"""Values looked at in the time of one word of bits. It holds 64, but most of them are zeros."""

Attributes = frozenset[str]


class Ends(NamedTuple):
    """The first and the last attribute of a path: its values change least and most often."""

    first: str = ""
    last: str = ""

    def then(self, attribute: str) -> Ends:
        """Return the ends of a path that is longer by an attribute."""
        return Ends(self.first or attribute, attribute)


@dataclass(frozen=True, slots=True)
class LoopChoice:
    """A loop before its step is made."""

    attribute: str
    inner: tuple[LoopChoice, ...] = ()
    spines: tuple[LoopChoice, ...] = ()
    """One for each counter that is filled in this loop: the first inner loops lead to the one that collects."""
    weights: tuple[int, ...] = ()
    """Which counters of the loop around this one are factors here."""
    outer: tuple[LoopChoice, ...] = ()
    """Counters of loops further out that are factors here, each given by the first loop that fills it."""
    cached: bool = False
    collects: bool = False
    discount: int = 0
    """How many of its values are subtracted: those that attributes elsewhere are sure to have."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A component's nest, and its cost for all bindings of the path."""

    cost: float = inf
    loop: LoopChoice | None = None
    spines: tuple[LoopChoice, ...] = ()
    """Counters that the loop around this one has to fill first."""


class NestSearch:
    """The search for one draft. `unequal` are all pairs that have to differ; those in `joining` are joined by that."""

    def __init__(
        self,
        draft: Draft,
        estimate: SizeEstimate,
        *,
        joining: frozenset[Unequal] = frozenset(),
        unequal: frozenset[Unequal] = frozenset(),
        budget: float = inf,
    ) -> None:
        self.draft, self.estimate, self.unequal = draft, estimate, unequal
        self.budget = budget
        self.searched = 0
        """How many parts of the query have been searched."""
        later = [atom for atom in draft.atoms if draft.first is not None and atom.version is Version.LATER]
        # The seed's tuple decides what is later, so no count of that can be kept for one attribute alone.
        seed = draft.first.attributes if draft.first is not None else ()
        self.joined = draft.joined([*joining, *((*atom.attributes, *seed) for atom in later)])
        self.components = cache(self._components)
        self.component = cache(self._component)
        self.spine = cache(self._spine)
        self.reading = cache(self._reading)
        self.around = cache(self._around)
        self._bounds = {a: [{*r.attributes} - {a} for r in draft.restrictions if a in r.attributes] for a in self.joined}

    @property
    def is_greedy(self) -> bool:
        """Whether the budget is spent: from then on, only what is cheapest at first sight is looked at."""
        return self.searched >= self.budget

    def best(self) -> Candidate:
        """Return the cheapest nest for all attributes; those of the seed, if it is a delta, come first in their order."""
        if self.draft.first is None:
            return self.component(frozenset(), Ends(), frozenset(self.joined))
        *before, last = (a for a in self.draft.order if a in self.draft.first.attributes)
        left = frozenset(self.joined) - set(before)
        found = self.bind(frozenset(before), Ends(before[0], before[-1]) if before else Ends(), left, last, inf)
        loop = found.loop
        for attribute in reversed(before):
            loop = None if loop is None else LoopChoice(attribute, (loop,))
        return replace(found, loop=loop)

    def _components(self, attributes: Attributes) -> list[Attributes]:
        """Return the parts that nothing joins to each other once all other attributes are bound."""
        left, parts = set(attributes), []
        while left:
            part: set[str] = set()
            new = {min(left)}
            while new:
                part |= new
                new = {b for a in new for b in self.joined[a] if b in left} - part
            left -= part
            parts.append(frozenset(part))
        return parts

    def _component(self, path: Attributes, ends: Ends, attributes: Attributes) -> Candidate:
        """Return the cheapest nest of a component inside a path, the last attribute of which varies fastest."""
        quota().check()
        self.searched += 1
        best = Candidate()
        for v in self.candidates(path, ends, attributes):
            best = min(best, self.bind(path, ends, attributes, v, best.cost), key=lambda found: found.cost)
        if path and 1 < len(attributes) <= FULLY_SEARCHED_ATTRIBUTES:
            for v in sorted(attributes):
                if self.is_greedy:
                    break
                best = min(best, self.eliminate(path, ends, attributes, v), key=lambda found: found.cost)
        return best

    def candidates(self, path: Attributes, ends: Ends, attributes: Attributes) -> list[str]:
        """Return the attributes that may be bound next."""
        near = [v for v in sorted(attributes) if path and self.estimate.served(v, path)]
        near = near or [v for v in sorted(attributes) if self.estimate.is_reachable(v, frozenset())]
        if len(near) == 1:
            return near
        if self.is_greedy and len(near) > MAX_COMPARED:
            near = sorted(near, key=lambda v: -self.estimate.served(v, path))[:MAX_COMPARED]
        near = sorted(near, key=lambda v: self.reading(path, ends, v) + self.estimate.prefixes(path | {v}))
        beyond = len(self.joined) - FULLY_SEARCHED_ATTRIBUTES
        choices = len(near) if beyond <= 0 else CHOICES_BEYOND + 1 - beyond
        return near[: 1 if self.is_greedy else max(1, choices)]

    def _around(self, attributes: Attributes) -> Attributes:
        return frozenset[str]().union(*(self.joined[a] for a in attributes)) - attributes

    def _reading(self, path: Attributes, ends: Ends, v: str) -> float:
        """Estimate the cost of finding the extensions of an attribute, for all bindings of a path."""
        times = self.estimate.prefixes(path)
        if self.estimate.served(v, path) <= 1:
            return times
        bounded = any(others <= path for others in self._bounds[v])
        looked_at = self.estimate.reading(path, ends.last, v) * (0.5 if bounded else 1.0)
        rows = self.estimate.making_rows(ends.first, ends.last, v) if len(path) > 2 else inf
        return min(times * (1 + looked_at), times * (1 + looked_at / VALUES_PER_WORD) + rows)

    def bind(self, path: Attributes, ends: Ends, attributes: Attributes, v: str, limit: float) -> Candidate:
        """Return the nest that binds an attribute next, or none if it costs as much as a limit."""
        now, rest = path | {v}, attributes - {v}
        cost = self.reading(path, ends, v) if path else 0.0
        if not rest:
            return Candidate(cost, LoopChoice(v))
        cost += self.estimate.prefixes(now)
        inner: list[LoopChoice] = []
        spines: tuple[LoopChoice, ...] = ()
        sets: set[frozenset[ByKey]] = set()
        for part in self.components(rest):
            if cost >= limit:
                return Candidate()
            found = self.inside(now, part, ends.then(v), deep=bool(path))
            if found.loop is None:
                return Candidate()
            lists = self.estimate.lists(now, found.loop.attribute)
            is_known = len(lists) > 1 and lists in sets and not (found.loop.cached or found.spines)
            sets.add(lists)
            cost += found.cost - (self.reading(now, ends.then(v), found.loop.attribute) if is_known else 0.0)
            inner.append(replace(found.loop, weights=tuple(len(spines) + number for number in found.loop.weights)))
            spines += found.spines
        sets.update(self.estimate.lists(now, spine.attribute) for spine in spines)
        for later in sorted(rest):  # a deeper loop intersects this set further; it is found here, once for all of them
            lists = self.estimate.lists(now, later)
            if len(lists) > 1 and lists not in sets and any(key == v for key, *_ in lists):
                sets.add(lists)
                cost += self.reading(now, ends.then(v), later)
        return Candidate(cost, LoopChoice(v, tuple(inner), spines))

    def inside(self, path: Attributes, part: Attributes, ends: Ends, *, deep: bool) -> Candidate:
        """Return the nest of a component inside the loop of an attribute, kept for each value where that is cheaper."""
        alone = Candidate()
        if deep and self.around(part) == {ends.last}:
            kept = self.component(frozenset({ends.last}), Ends(ends.last, ends.last), part)
            if kept.loop is not None and not kept.spines:
                alone = Candidate(kept.cost + self.estimate.prefixes(path), replace(kept.loop, cached=True))
        if alone.loop is not None and self.is_greedy:
            return alone
        found = self.component(path, ends, part)
        return alone if alone.cost < found.cost else found

    def eliminate(self, path: Attributes, ends: Ends, attributes: Attributes, v: str) -> Candidate:
        """Return the nest that counts how often an attribute is reached through others, and then loops over it once."""
        now, parts = path | {v}, self.components(attributes - {v})
        loops = [self.component(now, ends.then(v), part) for part in parts]
        loops = [Candidate() if loop.spines else loop for loop in loops]
        between = [v in around and bool(around & path) for around in map(self.around, parts)]
        counters = [
            self.spine(path, ends, part, v, path) if is_between else Candidate()
            for part, is_between in zip(parts, between, strict=True)
        ]
        counted = [counter.cost < loop.cost for loop, counter in zip(loops, counters, strict=True)]
        if not any(counted):  # at least one counter is filled: otherwise this is a plain loop
            more = [inf if c.loop is None else c.cost - loop.cost for loop, c in zip(loops, counters, strict=True)]
            if min(more, default=inf) == inf:
                return Candidate()
            counted[more.index(min(more))] = True
        spines: list[tuple[Shape | None, Candidate]] = []
        weights, inner, cost = [], [], 0.0
        touched = self.estimate.prefixes(path) * self.estimate.size(v)
        for part, loop, counter, is_counted in zip(parts, loops, counters, counted, strict=True):
            if is_counted and counter.loop is not None:
                shape = self.shape(path, part, v) if sum(counted) > 1 else None
                alike = (i for i, (other, _) in enumerate(spines) if shape and other and _is_same(shape, other, now))
                weights.append(next(alike, len(spines)))
                if weights[-1] == len(spines):
                    spines.append((shape, counter))
                touched = min(touched, self.estimate.prefixes(path | part | {v}))
            elif loop.loop is None:
                return Candidate()
            else:
                inner.append(loop.loop)
                cost += loop.cost
        cost += sum(counter.cost for _, counter in spines)
        cost += self.estimate.prefixes(now) + self.reading(path, ends, v) if self.estimate.served(v, path) else touched
        filled = tuple(counter.loop for _, counter in spines if counter.loop is not None)
        return Candidate(cost, LoopChoice(v, tuple(inner), weights=tuple(weights)), filled)

    def _spine(self, path: Attributes, ends: Ends, part: Attributes, v: str, outer: Attributes) -> Candidate:
        """Return the cheapest loops through a component that end at an attribute and count how often it is reached."""
        self.searched += 1
        if part:
            near = [u for u in sorted(part) if self.estimate.served(u, path)]
            choices = [self.along(path, ends, part, u, v, outer) for u in near[: 1 if self.is_greedy else len(near)]]
            return min(choices, key=lambda choice: choice.cost, default=Candidate())
        through = path - outer  # what joins the attribute to those around the counter is not read here
        if not self.estimate.served(v, through):
            return Candidate()
        reached = self.estimate.extensions(v, tuple(sorted(through)))
        each = 1 + self.estimate.reading(through, ends.last, v) + COST_OF_ADDING * reached
        return Candidate(self.estimate.prefixes(path) * each, LoopChoice(v, collects=True))

    def along(self, path: Attributes, ends: Ends, part: Attributes, u: str, v: str, outer: Attributes) -> Candidate:
        """Return loops through a component that bind a certain attribute of it next."""
        now, then = path | {u}, ends.then(u)
        cost = self.reading(path, ends, u) + self.estimate.prefixes(now)
        inner: list[LoopChoice] = []
        for piece in self.components(part - {u} | {v}):
            found = self.spine(now, then, piece - {v}, v, outer) if v in piece else self.component(now, then, piece)
            if found.loop is None or found.spines:
                return Candidate()
            cost += found.cost
            inner.insert(0 if v in piece else len(inner), found.loop)
        return Candidate(cost, LoopChoice(u, tuple(inner)))

    def shape(self, path: Attributes, part: Attributes, v: str) -> Shape | None:
        """Return what a component's counter asks for; None if a pair has to differ there, for which there is no part yet."""
        scope = path | part | {v}
        if any(pair <= scope and part & pair for pair in self.unequal):
            return None
        mine = [p for p in self.draft.parts if scope.issuperset(p.attributes) and not part.isdisjoint(p.attributes)]
        return Shape(self.draft.with_parts(mine))


def _is_same(one: Shape, other: Shape, around: Attributes) -> bool:
    """Tell whether two counters are filled alike, so that one serves for both; the attributes around them are the same."""
    return renaming(one, other, [a for a in {*one.attributes, *other.attributes} if a in around]) is not None
