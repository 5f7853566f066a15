"""How many prefixes and candidates the steps of a plan, and the loops of a nest, are expected to have: for `explain` to show.

The planner only compares orders, and estimates may be off by a factor that all orders share: the pairs of a relation are
estimated from lists that hubs lengthen. Here the first atom that an order completes has as many bindings as its relation has
tuples, and everything after that is estimated from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.query.nest import Loop, Nest, PlanTree
from bigjoin.query.plan import Extender, Plan, Step
from bigjoin.query.query import Atom

SHARE_OF_BOUNDED = 0.5
"""The share of a list that is expected to be within a bound, as planner passes assume it."""


@dataclass(frozen=True, slots=True)
class ExpectedSizes:
    """What a step is expected to do."""

    prefixes: float
    """The prefixes that it leaves."""
    candidates: float
    """The extensions that are proposed to all prefixes before it."""


def expected_of_plan(draft: Draft, plan: Plan) -> list[ExpectedSizes]:
    """Return what is expected of a plan's seed and of each of its steps."""
    lists = [plan.seed.extender, *plan.seed.checks, *(e for step in plan.steps for e in step.lists)]
    restrictions = (*plan.seed.restrictions, *(r for step in plan.steps for r in step.restrictions))
    filters = (*plan.seed.filters, *(f for step in plan.steps for f in step.filters))
    sizes = _Sizes(replace(draft, atoms=_atoms(draft.atoms, lists), filters=filters, restrictions=restrictions))
    bound = plan.seed.attributes
    read = float(draft.statistics.of(plan.seed.extender.atom).tuples)
    found = [ExpectedSizes(min(sizes.prefixes(bound), read), read)]
    for step in plan.steps:
        found.append(sizes.step(step, bound))
        bound = (*bound, step.attribute)
    return found


def expected_of_nest(draft: Draft, nest: Nest) -> list[ExpectedSizes | None]:
    """Return what is expected of each loop of a nest, in the order of `walk`; None for loops over what a counter holds."""
    loops = list(nest.root.walk())
    filters = tuple(dict.fromkeys(f for loop in loops for f in loop.step.filters))
    atoms = _atoms((), (e for loop in loops for e in loop.step.lists))
    query = replace(draft.query, atoms=atoms)
    whole = replace(draft, query=query, atoms=atoms, filters=filters, restrictions=nest.restrictions)
    return _of_loops(_Sizes(whole), nest)


def expected_of_tree(draft: Draft, tree: PlanTree) -> list[ExpectedSizes | None]:
    """Return the same for a tree of plans; `draft` is that of one of its queries."""
    filters = tuple(dict.fromkeys(f for loop in tree.nest.root.walk() for f in loop.step.filters))
    whole = replace(draft, query=tree.scope, atoms=tree.scope.atoms, filters=filters, restrictions=(), shortcuts=())
    return _of_loops(_Sizes(whole), tree.nest)


@dataclass
class _Sizes:
    """The estimates for a draft, as far as they are shown."""

    draft: Draft

    @cached_property
    def estimate(self) -> SizeEstimate:
        return SizeEstimate(self.draft)

    def prefixes(self, order: Sequence[str]) -> float:
        """Return how many bindings of attributes are expected, in the order in which they are bound.

        A pair has as many rows as pairs have on average.
        """
        bound = frozenset(order)
        rows = [name for name in order if name in self.rows and bound.issuperset(self.rows[name].attributes)]
        ends = tuple(name for name in order if name not in rows)
        parallel = prod(self._rows_of_a_pair(self.rows[name]) for name in rows)
        filtered = self.estimate.selected(bound) / max(self.estimate.selected(frozenset(ends)), 1e-300)
        return self.estimate.prefixes(frozenset(ends)) * self._correction(ends) * parallel * filtered

    @cached_property
    def rows(self) -> dict[str, Atom]:
        """The attributes that are rows of a pair, each with the atom that reads them."""
        known, atoms = self.draft.statistics, self.estimate.stored
        wide = [atom for atom in atoms if known.of(atom) is not known.relation(atom)]
        return {atom.attributes[-1]: atom for atom in wide if sum(atom.attributes[-1] in o.attributes for o in atoms) == 1}

    def _rows_of_a_pair(self, atom: Atom) -> float:
        return self.draft.statistics.of(atom).tuples / max(1, self.draft.statistics.relation(atom).tuples)

    def _correction(self, order: Sequence[str]) -> float:
        """Return what estimates have to be multiplied with for the first atom that an order completes to be right."""
        for length in range(2, len(order) + 1):
            bound = frozenset(order[:length])
            shares = [self._known_share(atom, ends) for atom, ends in self._ends if len(ends) > 1 and bound.issuperset(ends)]
            if shares:
                return min(shares)
        return 1.0

    @cached_property
    def _ends(self) -> list[tuple[Atom, tuple[str, ...]]]:
        """The atoms with their attributes, without those that are rows."""
        return [(atom, tuple(a for a in dict.fromkeys(atom.attributes) if a not in self.rows)) for atom in self.estimate.stored]

    def _known_share(self, atom: Atom, ends: Sequence[str]) -> float:
        """Return how many tuples an atom has, compared with what the lengths of lists tell."""
        names = sorted(ends, key=self.estimate.place.__getitem__)
        estimated = 1.0
        for i, name in enumerate(names):
            estimated *= self.estimate.extensions(name, tuple(names[:i]))
        known = self.draft.statistics
        relation = known.relation(atom) if len(ends) < len(set(atom.attributes)) else known.of(atom)
        return relation.tuples / estimated if estimated > 0 else 1.0

    def step(self, step: Step, bound: Sequence[str]) -> ExpectedSizes:
        """Return what is expected of a step after some attributes are bound."""
        before, after = frozenset(bound), self.prefixes((*bound, step.attribute))
        if not bound:
            return ExpectedSizes(after, float(self.estimate.size(step.attribute)))
        each = self.estimate.proposals(step.attribute, before)
        if len(step.extenders) > 1 and (looked_at := self.estimate.reading(before, bound[-1], step.attribute)) > 0:
            each = min(each, looked_at)
        each *= SHARE_OF_BOUNDED if step.restrictions else 1.0
        return ExpectedSizes(after, max(after, self.prefixes(bound) * each))


def _atoms(given: Iterable[Atom], lists: Iterable[Extender]) -> tuple[Atom, ...]:
    return tuple(dict.fromkeys((*given, *(e.atom for e in lists))))


def _of_loops(sizes: _Sizes, nest: Nest) -> list[ExpectedSizes | None]:
    is_over_counter = [bool(loop.weights) and not loop.step.extenders for loop in nest.root.walk()]
    paths = _paths(nest.root, ())
    return [None if skipped else sizes.step(step, path) for skipped, (step, path) in zip(is_over_counter, paths, strict=True)]


def _paths(loop: Loop, path: tuple[str, ...]) -> Iterator[tuple[Step, tuple[str, ...]]]:
    """Give the step of each loop with the attributes that are bound around it, as far as it may read them.

    The order is that of `walk`.
    """
    path = path[-1:] if loop.cached else path
    yield loop.step, path
    inside = (*path, loop.attribute)
    for counter in loop.counters:
        yield from _paths(counter.spine, inside)
    for inner in (*loop.inner, *loop.apart):
        yield from _paths(inner, inside)
