"""Plan a count: the cheapest sum of nests that gives the number of matches.

Three choices are made together, by cost. Restrictions may be left out if the count is divided (`break_symmetry`). Attributes
that have to differ may be counted as if they did not, and the cases in which they are equal subtracted: those are counts of
smaller queries, in which the two are one attribute (inclusion and exclusion). And each of these queries has its cheapest nest
(`search_nest`). Every choice gives the same number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, log2

from bigjoin.planner.break_symmetry import restricted
from bigjoin.planner.build_nest import build_nest, paths
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.isomorphism import Shape, Unequal
from bigjoin.planner.keep_distinct import apart, apart_by_atoms, with_different
from bigjoin.planner.pairing import renaming
from bigjoin.planner.search_nest import FULLY_SEARCHED_ATTRIBUTES, Candidate, LoopChoice, NestSearch
from bigjoin.planner.shortcuts import add_shortcuts
from bigjoin.planner.simplify import canonical, canonical_atom, ranks_of
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Restriction, ordered_pairs
from bigjoin.query.query import Comparison

MAX_MERGED_ATTRIBUTES = 6
"""Attributes that inclusion and exclusion may merge: there are as many ways to do so as partitions of their set."""

MAX_SEARCHED_PARTS = 10_000
"""Parts of queries after which no further choice is considered: planning must not take longer than counting."""

MAX_PARTS_OF_SEARCH = 9_000
"""Parts after which the nest of a query with more than FULLY_SEARCHED_ATTRIBUTES is completed greedily; fewer, if many more."""

MAX_PARTS_OF_DRAFT = 6_300
"""The same for each of many drafts that are planned together; it falls fast, so that only those of seven or eight get many."""

MIN_PARTS_OF_SEARCH = 64
"""Parts that are searched in any case."""

COST_OF_HALVING = 0.1
"""How much a count's cost is raised for each time that it is halved afterwards."""


@dataclass(frozen=True, slots=True)
class Summand:
    """A nest for a draft, and how often its count is added."""

    times: int
    loop: LoopChoice
    draft: Draft


@dataclass(slots=True)
class Sums:
    """Sums of nests for drafts, each found once; drafts that differ only in the names of attributes share one."""

    search: type[NestSearch] = NestSearch
    """How the nest of a draft is searched."""
    drafts: int = 1
    """Drafts that are planned together, and share what a search may take."""
    searched: int = 0
    """Parts of queries for which a nest was searched."""
    known: dict[Hashable, list[tuple[Shape, float, tuple[Summand, ...]]]] = field(default_factory=dict)
    estimates: dict[Hashable, SizeEstimate] = field(default_factory=dict)

    def of(self, draft: Draft, pairs: frozenset[Unequal]) -> tuple[float, tuple[Summand, ...]]:
        """Return the cost of the cheapest sum for a draft, and the sum; the attributes of each pair have to differ."""
        shape = Shape(draft, pairs)
        alike = self.known.setdefault(shape.invariant, [])
        for other, cost, summands in alike:
            if renaming(shape, other) is not None:
                return cost, summands
        found = min(self._choices(draft, pairs), key=lambda choice: choice[0], default=(inf, ()))
        alike.append((shape, *found))
        return found

    def _search(self, draft: Draft, joining: frozenset[Unequal], pairs: frozenset[Unequal]) -> Candidate:
        budget = _budget(len(draft.attributes), self.drafts)
        search = self.search(draft, self._estimate(draft), joining=joining, unequal=pairs, budget=budget)
        found = search.best()
        self.searched += search.searched
        return found

    def _estimate(self, draft: Draft) -> SizeEstimate:
        """Return the estimates for a draft. Versions do not matter to them, and restrictions to few.

        The order of atoms hardly does: only small queries, which are searched completely, keep it.
        """
        atoms = [(atom.source, atom.attributes) for atom in draft.positive]
        small = len(draft.attributes) <= FULLY_SEARCHED_ATTRIBUTES
        key = (tuple(atoms) if small else frozenset(atoms), draft.filters, draft.shortcuts)
        if key not in self.estimates:
            self.estimates[key] = SizeEstimate(draft)
        return self.estimates[key].restricted(draft.restrictions)

    def _choices(self, draft: Draft, pairs: frozenset[Unequal]) -> Iterator[tuple[float, tuple[Summand, ...]]]:
        """Give a sum in which pairs join their attributes, and one in which they do so only where that costs nothing.

        There is none if no nest binds the draft's keys.
        """
        free = self._search(draft, frozenset(), pairs)
        if free.loop is None:
            return
        together = {frozenset((a, path[-1])) for path in paths(free.loop) for a in path[:-1]}
        crossing = pairs - together
        kept = pairs - crossing
        first = Summand(1, free.loop, _differing(draft, kept))
        if not crossing:
            yield free.cost, (first,)
            return
        if (discounted := _discounted(free.loop, draft, crossing, pairs)) is not None:
            yield free.cost, (replace(first, loop=discounted),)
            return
        joined = self._search(draft, pairs, pairs)
        assert joined.loop is not None
        yield joined.cost, (Summand(1, joined.loop, _differing(draft, pairs)),)
        if len(frozenset().union(*crossing)) <= MAX_MERGED_ATTRIBUTES:
            cost, summands = free.cost, [first]
            for times, smaller, left in _merged(draft, crossing, kept):
                if cost >= joined.cost or self.searched >= MAX_SEARCHED_PARTS:
                    return
                more, terms = self.of(smaller, left)
                cost += more  # infinite, if it has no nest
                summands += [replace(term, times=times * term.times) for term in terms]
            yield cost, _collected(summands)


def _budget(size: int, drafts: int) -> float:
    """Return how many parts of a query with so many attributes are searched, if so many drafts are planned together."""
    if size <= FULLY_SEARCHED_ATTRIBUTES:
        return inf
    larger = size / FULLY_SEARCHED_ATTRIBUTES
    return max(MIN_PARTS_OF_SEARCH, MAX_PARTS_OF_SEARCH / (larger**3 * drafts), MAX_PARTS_OF_DRAFT / larger**8)


def sum_nests(draft: Draft) -> Draft:
    """Set the plan of a count."""
    return replace(draft, plan=plan_counts(([option], divisor) for option, divisor in restricted(draft))[0])


def plan_counts(options: Iterable[tuple[Sequence[Draft], int]], drafts: int = 1) -> list[CountPlan]:
    """Return the plans of counts that are added up and then divided: the drafts of the cheapest option, each by its nests.

    So many drafts share what the search for nests may take.
    """
    cost, divisor, found = cheapest(options, Sums(drafts=drafts))
    return [
        CountPlan(draft.query, tuple(build_nest(s.loop, s.draft, s.times) for s in summands), divisor, cost / len(found))
        for draft, summands in found
    ]


def cheapest(
    options: Iterable[tuple[Sequence[Draft], int]], sums: Sums
) -> tuple[float, int, list[tuple[Draft, tuple[Summand, ...]]]]:
    """Return the cheapest option with its cost: what its counts are divided by, and each of its drafts with a sum.

    It has no drafts if no option can be counted.
    """
    best: tuple[float, int, list[tuple[Draft, tuple[Summand, ...]]]] = (inf, 1, [])
    for drafts, divisor in options:
        if best[2] and sums.searched >= MAX_SEARCHED_PARTS:
            break
        cost, found = 0.0, []
        for ready in map(drop_implied, drafts):
            each, summands = sums.of(ready, frozenset(map(frozenset, apart(ready))))
            cost += each
            found.append((ready, summands))
        best = min(best, (weighed(cost, divisor), divisor, found), key=lambda choice: choice[0])
    return best


def weighed(cost: float, divisor: int) -> float:
    """Return the cost of a count that is divided afterwards.

    Estimates hardly see how much shorter lists are beyond a bound, so a restriction is kept where it costs nothing.
    """
    return cost * (1 + COST_OF_HALVING * log2(divisor))


def _discounted(loop: LoopChoice, draft: Draft, crossing: frozenset[Unequal], pairs: frozenset[Unequal]) -> LoopChoice | None:
    """Return a nest that leaves out of each tail the values that other attributes have, or None where their number varies.

    A tail is a loop with nothing inside. If every value of another attribute satisfies all that is asked of the tail's, also
    to differ from others, then the tail's set is sure to contain it. So one is subtracted, and the two need not be joined.
    Attributes that are left out of one tail must be sure to differ from each other.
    """
    sure = pairs | apart_by_atoms(draft) | {frozenset(pair) for pair in ordered_pairs(draft.restrictions)}
    tails = [leaf for leaf in _leaves(loop) if not leaf.weights and leaf.attribute not in draft.keys]
    order = {leaf.attribute: i for i, leaf in enumerate(tails)}
    taken: dict[str, frozenset[str]] = dict.fromkeys(order, frozenset())
    for pair in crossing:
        fit = [b for b in pair if b in order and _satisfies(next(iter(pair - {b})), b, draft)]
        if not fit:
            return None
        tail = max(fit, key=order.__getitem__)
        taken[tail] |= pair - {tail}
    for tail, others in taken.items():
        against = frozenset().union(*(pair for pair in pairs if tail in pair)) - {tail}
        if any(frozenset((a, c)) not in sure for a in others for c in (against | others) - {a}):
            return None

    def rebuilt(loop: LoopChoice) -> LoopChoice:
        inner = tuple(map(rebuilt, loop.inner))
        return replace(loop, inner=inner, discount=0 if inner else len(taken.get(loop.attribute, ())))

    return rebuilt(loop)


def _leaves(loop: LoopChoice) -> Iterator[LoopChoice]:
    if not loop.inner:
        yield loop
    for child in loop.inner:
        yield from _leaves(child)


def _satisfies(a: str, b: str, draft: Draft) -> bool:
    """Tell whether all that is asked of attribute b is asked of attribute a as well."""
    names = {name: name for name in draft.attributes} | {b: a}
    implied = (Restriction(*pair) for pair in ordered_pairs(draft.restrictions))
    ranks = ranks_of(draft)
    asked = {canonical(part, draft, ranks) for part in (*draft.parts, *implied)}
    return all(canonical(part.renamed(names), draft, ranks) in asked for part in draft.parts if b in part.attributes)


def _differing(draft: Draft, pairs: frozenset[Unequal]) -> Draft:
    ordered = (tuple(sorted(pair)) for pair in pairs)
    return with_different(draft, sorted((a, b) for a, b in ordered))


def _merged(
    draft: Draft, crossing: frozenset[Unequal], kept: frozenset[Unequal]
) -> Iterator[tuple[int, Draft, frozenset[Unequal]]]:
    """Give the drafts in which some crossing pairs are equal, and how often each is added.

    The product over the pairs of (1 - [equal]) is multiplied out, pair by pair; what merges the same attributes is collected.
    """
    alone = frozenset(frozenset((a,)) for pair in crossing for a in pair)
    ways = {alone: 1}
    for pair in sorted(crossing, key=sorted):
        for partition, times in list(ways.items()):
            block = frozenset[str]().union(*(other for other in partition if other & pair))
            merged = frozenset(other for other in partition if not other & pair) | {block}
            ways[merged] = ways.get(merged, 0) - times
    for partition in sorted(ways.keys() - {alone}, key=lambda partition: (-len(partition), sorted(map(sorted, partition)))):
        names = {a: block[0] for block in map(sorted, partition) for a in block}
        smaller = _renamed(draft, names) if ways[partition] else None
        left = {frozenset(names.get(a, a) for a in pair) for pair in kept}
        if smaller is not None and all(len(pair) == 2 for pair in left):
            yield ways[partition], smaller, frozenset(left) - apart_by_atoms(smaller)


def _renamed(draft: Draft, names: dict[str, str]) -> Draft | None:
    """Return a draft with attributes merged, or None if it has no matches."""
    full = {a: names.get(a, a) for atom in draft.positive for a in atom.attributes}
    ranks = ranks_of(draft)
    merged = draft.with_parts(dict.fromkeys(canonical(part.renamed(full), draft, ranks) for part in draft.parts))
    first = None if draft.first is None else canonical_atom(draft.first.renamed(full), draft, ranks)
    keys = tuple(full[key] for key in draft.keys)
    merged = replace(merged, first=first, order=tuple(dict.fromkeys(full[a] for a in draft.order)), keys=keys)
    return None if _is_impossible(merged) else drop_implied(add_shortcuts(merged))


def _is_impossible(draft: Draft) -> bool:
    """Tell whether parts of a draft contradict each other, or ask for a loop of a relation without loops."""
    loops = (a for a in draft.positive if len(a.attributes) > 1 and len(set(a.attributes[:2])) == 1)
    return (
        any(draft.statistics.relation(a).loops == 0 and draft.statistics.relation(a).arity == 2 for a in loops)
        or any(smaller == larger for smaller, larger in ordered_pairs(draft.restrictions))
        or any(isinstance(f, Comparison) and f.left == f.right and f.keeps_apart for f in draft.filters)
        or any(replace(atom, negated=False) in draft.atoms for atom in draft.atoms if atom.negated)
    )


def _collected(summands: list[Summand]) -> tuple[Summand, ...]:
    """Return a sum with equal nests added up."""
    found: dict[int, Summand] = {}
    for summand in summands:
        earlier = found.get(id(summand.loop))
        found[id(summand.loop)] = summand if earlier is None else replace(earlier, times=earlier.times + summand.times)
    return tuple(summand for summand in found.values() if summand.times)
