"""Plan a count that adds up, over the values of one attribute, how many matches have that value.

Where matches are numbered (`compiled/picking.py`), the count of each value has to be right, not only their sum. So all nests of
the sum begin with this attribute, the root. Of the matches of a class, the root has the largest code in its orbit, as in any
plan whose order begins with it; symmetries that fix the root leave as many matches of a class for each value, so what is
left out of their restrictions divides every count alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

from bigjoin.planner.break_symmetry import images, restricted, without_implied
from bigjoin.planner.build_nest import build_nest
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.keep_distinct import apart
from bigjoin.planner.order_attributes import prefixes_of
from bigjoin.planner.search_nest import Candidate, Ends, NestSearch
from bigjoin.planner.sum_nests import Sums, cheapest
from bigjoin.query.nest import CountPlan
from bigjoin.query.plan import Restriction


class RootedSearch(NestSearch):
    """The search for nests that begin with the key of their draft."""

    def best(self) -> Candidate:
        """Return the cheapest nest; it has no loop if the index does not lead from the key to all other attributes."""
        key = self.draft.keys[0]
        if not self.estimate.is_reachable(key, frozenset()):
            return Candidate()
        return self.bind(frozenset(), Ends(), frozenset(self.joined), key, inf)


def rooted_sum(draft: Draft) -> Draft:
    """Set the plan of a count, and an attribute order that begins with its root."""
    choices = []
    for root in _roots(draft):
        cost, divisor, found = cheapest(_options(draft, root), Sums(RootedSearch))
        for _, summands in found:
            choices.append((cost, root, divisor, summands))
    _, root, divisor, summands = min(choices, key=lambda choice: choice[0])
    terms = tuple(build_nest(s.loop, s.draft, s.times) for s in summands)
    return replace(draft, order=_order(draft, root, terms[0].attributes), plan=CountPlan(draft.query, terms, divisor))


def _roots(draft: Draft) -> list[str]:
    """Return the attributes that are worth a try: one of each orbit, or, if there are no symmetries, that of the best nest."""
    if not draft.query.unique:
        ready = drop_implied(draft)
        _, summands = Sums().of(ready, frozenset(map(frozenset, apart(ready))))
        return [summands[0].loop.attribute]
    roots: list[str] = []
    for attribute in draft.attributes:
        if not {*roots} & {*images(draft, attribute)}:
            roots.append(attribute)
    return roots


def _options(draft: Draft, root: str) -> Iterator[tuple[list[Draft], int]]:
    """Give ways to break the symmetry of a draft: the root has the largest code in its orbit, and symmetries that fix it."""
    others = images(draft, root)[1:] if draft.query.unique else ()
    first = [Restriction(smaller=image, larger=root) for image in others]
    for option, divisor in restricted(replace(draft, keys=(root,))):
        yield [replace(option, restrictions=without_implied([*first, *option.restrictions]))], divisor


def _order(draft: Draft, root: str, bound: Sequence[str]) -> tuple[str, ...]:
    """Return an attribute order that begins with a root and what a nest binds, and goes on with whatever costs least."""
    known = {*bound} <= {*draft.attributes} and bound[0] == root
    order = tuple(bound) if known else (root,)
    estimate = SizeEstimate(replace(draft, restrictions=()))
    while left := [a for a in estimate.reachable(frozenset(order)) if a not in order]:
        sets = prefixes_of(order)
        order = (*order, min(left, key=lambda a: (estimate.work(a, order, sets), draft.attributes.index(a))))
    return order
