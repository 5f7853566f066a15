"""Plan a count: the cheapest sum of nests that comes to the number of matches.

Three choices are made together, by cost. Restrictions may be left out if the count is divided (`break_symmetry`). Attributes
that are to differ may be counted as if they need not, and the cases in which they are equal taken away: those are counts of
smaller queries, in which the two are one attribute (inclusion and exclusion). And each of these queries has its cheapest nest
(`search_nest`). Every choice gives the same number.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from math import inf, log2

from bigjoin.planner.break_symmetry import restricted
from bigjoin.planner.build_nest import build_nest, paths
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.estimate import Estimate
from bigjoin.planner.isomorphism import Shape, renaming
from bigjoin.planner.keep_distinct import apart, apart_by_atoms
from bigjoin.planner.search_nest import Found, Node, Pair, Search
from bigjoin.planner.shortcuts import add_shortcuts
from bigjoin.planner.simplify import canonical_atom
from bigjoin.query.nest import CountPlan, Term
from bigjoin.query.plan import ordered_pairs
from bigjoin.query.query import Comparison

MERGED = 6
"""Attributes that inclusion and exclusion may merge: the ways to merge n of them are as many as the partitions of a set."""

MOST = 10_000
"""Parts of queries after which no further choice is looked at: planning must not take longer than counting."""

KEEP = 0.1
"""How much dearer a count is taken to be for each time that it is halved afterwards."""


@dataclass(frozen=True, slots=True)
class Summand:
    """A nest for a draft, and how often its count is added."""

    times: int
    node: Node
    draft: Draft


@dataclass(slots=True)
class Sums:
    """Sums of nests for drafts, each found once; drafts that differ only in the names of attributes share one."""

    looked_at: int = 0
    """Parts of queries for which a nest was sought."""
    known: dict[Hashable, list[tuple[Shape, float, tuple[Summand, ...]]]] = field(default_factory=dict)

    def of(self, draft: Draft, pairs: frozenset[Pair]) -> tuple[float, tuple[Summand, ...]]:
        """Return what the cheapest sum for a draft costs, and the sum; the attributes of each pair are to differ."""
        shape = Shape(draft, pairs)
        alike = self.known.setdefault(shape.invariant, [])
        for other, cost, summands in alike:
            if renaming(shape, other) is not None:
                return cost, summands
        found = min(self._choices(draft, pairs), key=lambda choice: choice[0])
        alike.append((shape, *found))
        return found

    def _search(self, draft: Draft, apart: frozenset[Pair], differing: frozenset[Pair]) -> Found:
        search = Search(draft, Estimate(draft), apart, differing)
        found = search.best()
        self.looked_at += len(search.memo) + len(search.spine_memo)
        return found

    def _choices(self, draft: Draft, pairs: frozenset[Pair]) -> Iterator[tuple[float, tuple[Summand, ...]]]:
        """Give a sum in which pairs join their attributes, and one in which they do so only where that costs nothing."""
        free = self._search(draft, frozenset(), pairs)
        assert free.node is not None
        together = {frozenset(pair) for path in paths(free.node) for pair in combinations(path, 2)}
        crossing = frozenset(pair for pair in pairs if pair not in together)
        kept = pairs - crossing
        first = Summand(1, free.node, _differing(draft, kept))
        if not crossing:
            yield free.cost, (first,)
            return
        if (discounted := _discounted(free.node, draft, crossing, pairs)) is not None:
            yield free.cost, (replace(first, node=discounted),)
            return
        joined = self._search(draft, pairs, pairs)
        assert joined.node is not None
        yield joined.cost, (Summand(1, joined.node, _differing(draft, pairs)),)
        if len(frozenset().union(*crossing)) <= MERGED:
            cost, summands = free.cost, [first]
            for times, smaller, left in _merged(draft, crossing, kept):
                if cost >= joined.cost or self.looked_at >= MOST:
                    return
                more, terms = self.of(smaller, left)
                cost += more
                summands += [replace(term, times=times * term.times) for term in terms]
            yield cost, _collected(summands)


def _discounted(node: Node, draft: Draft, crossing: frozenset[Pair], pairs: frozenset[Pair]) -> Node | None:
    """Return a nest that leaves out of each tail the values that other attributes have, or None where their number varies.

    A tail is a loop with nothing inside. If every value of another attribute satisfies all that is asked of the tail's, also
    to differ from others, then the tail's set holds it for sure: so it is left out by subtracting one, and the two need not be
    joined. Attributes that are left out of one tail must differ from each other for sure.
    """
    sure = pairs | apart_by_atoms(draft) | {frozenset(pair) for pair in ordered_pairs(draft.restrictions)}
    tails = [leaf for leaf in _leaves(node) if not leaf.weights]
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

    def rebuilt(node: Node) -> Node:
        inner = tuple(rebuilt(child) for child in node.inner)
        return replace(node, inner=inner, discount=0 if node.inner else len(taken.get(node.attribute, ())))

    return rebuilt(node)


def _leaves(node: Node) -> Iterator[Node]:
    if not node.inner:
        yield node
    for child in node.inner:
        yield from _leaves(child)


def _satisfies(a: str, b: str, draft: Draft) -> bool:
    """Tell whether all that is asked of an attribute is asked of another as well."""
    names = {name: name for name in draft.attributes} | {b: a}
    atoms = {canonical_atom(atom, draft) for atom in draft.atoms}
    filters = {f.canonical() for f in draft.filters}
    limits = ordered_pairs(draft.restrictions)
    return (
        all(canonical_atom(atom.renamed(names), draft) in atoms for atom in draft.atoms if b in atom.attributes)
        and all(f.renamed(names).canonical() in filters for f in draft.filters if b in f.attributes)
        and all((names[r.smaller], names[r.larger]) in limits for r in draft.restrictions if b in (r.smaller, r.larger))
    )


def plan_count(draft: Draft) -> CountPlan:
    """Return the plan of a count, for a draft whose atoms and filters are simplified."""
    return plan_counts(([option], divisor) for option, divisor in restricted(draft))[0]


def plan_counts(options: Iterable[tuple[Sequence[Draft], int]]) -> list[CountPlan]:
    """Return the plans of counts that are added up and then divided: the drafts of the cheapest option, each by its nests."""
    best: tuple[float, int, list[tuple[Draft, tuple[Summand, ...]]]] = (inf, 1, [])
    sums = Sums()
    for drafts, divisor in options:
        if best[2] and sums.looked_at >= MOST:
            break
        cost, found = 0.0, []
        for ready in map(drop_implied, drafts):
            each, summands = sums.of(ready, frozenset(map(frozenset, apart(ready))))
            cost += each
            found.append((ready, summands))
        # Estimates hardly see how much shorter lists are beyond a bound, so a restriction is kept where it costs nothing.
        best = min(best, (cost * (1 + KEEP * log2(divisor)), divisor, found), key=lambda choice: choice[0])
    _, divisor, found = best
    return [CountPlan(draft.query, tuple(map(_term, summands)), divisor) for draft, summands in found]


def _term(summand: Summand) -> Term:
    attributes = tuple(dict.fromkeys(a for path in paths(summand.node) for a in path))
    return Term(summand.times, build_nest(summand.node, summand.draft), attributes)


def _differing(draft: Draft, pairs: frozenset[Pair]) -> Draft:
    added = tuple(Comparison(a, "!=", b) for a, b in sorted(tuple(sorted(pair)) for pair in pairs))
    return replace(draft, filters=draft.filters + added)


def _merged(draft: Draft, crossing: frozenset[Pair], kept: frozenset[Pair]) -> Iterator[tuple[int, Draft, frozenset[Pair]]]:
    """Give the drafts in which some crossing pairs are equal, with the sign and number of the ways to come to each.

    The product over the pairs of (1 - [equal]) is multiplied out; choices that merge the same attributes come together.
    """
    attributes = sorted(frozenset().union(*crossing))
    for partition in _partitions(attributes):
        blocks = [block for block in partition if len(block) > 1]
        times = 1
        for block in blocks:
            times *= _connected_sum(block, crossing)
        if blocks and times:
            names = {a: block[0] for block in blocks for a in block}
            smaller = _renamed(draft, names)
            left = {frozenset(names.get(a, a) for a in pair) for pair in kept}
            if smaller is not None and all(len(pair) == 2 for pair in left):
                yield times, smaller, frozenset(left) - apart_by_atoms(smaller)


def _partitions(items: list[str]) -> Iterator[list[list[str]]]:
    if not items:
        yield []
        return
    first, *rest = items
    for partition in _partitions(rest):
        yield [[first], *partition]
        for i, block in enumerate(partition):
            yield [*partition[:i], [first, *block], *partition[i + 1 :]]


def _connected_sum(block: list[str], pairs: frozenset[Pair]) -> int:
    """Return the sum, over sets of pairs that connect a block, of -1 to the power of their number.

    Zero if the pairs do not connect it; for a block with all pairs, (-1)^(n-1) (n-1)!. By deletion and contraction.
    """
    edges = [pair for pair in pairs if pair <= set(block)]

    def signed(vertices: frozenset[str], edges: tuple[Pair, ...]) -> int:
        if len(vertices) == 1:
            return 1 if not edges else 0
        if not edges:
            return 0
        edge, *rest = edges
        a, b = sorted(edge)
        merged = [frozenset(a if x == b else x for x in e) for e in rest]
        if any(len(e) == 1 for e in merged):  # parallel ones: taking or leaving them cancels
            return signed(vertices, tuple(rest))
        return signed(vertices, tuple(rest)) - signed(vertices - {b}, tuple(dict.fromkeys(merged)))

    return signed(frozenset(block), tuple(sorted(edges, key=sorted)))


def _renamed(draft: Draft, names: dict[str, str]) -> Draft | None:
    """Return a draft with attributes merged, or None where it has no matches."""
    full = {a: names.get(a, a) for atom in draft.positive for a in atom.attributes}
    atoms = tuple(dict.fromkeys(canonical_atom(atom.renamed(full), draft) for atom in draft.atoms))
    filters = tuple(dict.fromkeys(f.renamed(full).canonical() for f in draft.filters))
    limits = tuple(dict.fromkeys(replace(r, smaller=full[r.smaller], larger=full[r.larger]) for r in draft.restrictions))
    first = None if draft.first is None else canonical_atom(draft.first.renamed(full), draft)
    order = tuple(dict.fromkeys(full[a] for a in draft.order))
    merged = add_shortcuts(replace(draft, atoms=atoms, filters=filters, restrictions=limits, first=first, order=order))
    loops = (a for a in atoms if not a.negated and len(a.attributes) > 1 and len(set(a.attributes[:2])) == 1)
    if any(draft.statistics.relation(a).loops == 0 and draft.statistics.relation(a).arity == 2 for a in loops):
        return None
    if any(smaller == larger for smaller, larger in ordered_pairs(limits)):
        return None
    if any(f.left == f.right and f.op in ("<", ">", "!=") and not f.properties for f in filters):
        return None
    if any(replace(atom, negated=False) in atoms for atom in atoms if atom.negated):
        return None
    return drop_implied(merged)


def _collected(summands: list[Summand]) -> tuple[Summand, ...]:
    """Return a sum with equal nests added up."""
    times: dict[int, int] = {}
    nodes: dict[int, Summand] = {}
    for summand in summands:
        key = id(summand.node)
        nodes.setdefault(key, summand)
        times[key] = times.get(key, 0) + summand.times
    return tuple(replace(nodes[key], times=n) for key, n in times.items() if n)
