"""Plan a count by groups: the cheapest sums of nests that give the number of matches for each binding of the keys.

Everything that makes a count cheap may be used inside the loops of the keys (`sum_nests`). Symmetries have to fix the keys: the
shape of a draft with keys tells these apart (`isomorphism.py`), so restrictions leave one match of each class *in each group*,
and whatever they leave out divides every group alike.

Where a `unique` query is grouped by one attribute, there is another way. The values of a match all differ, so a class under all
symmetries has one class under those that fix the key in the group of each value that an image of the key has. So each class is
found once, with all restrictions, and added to the entries of all these values: a triangle to those of its three corners.

Of two keys that a symmetry exchanges, only the pairs are counted in which the first has the larger code; those in the other
order have the same counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

from bigjoin.planner.break_symmetry import are_exchanged, images, restricted
from bigjoin.planner.build_nest import build_nest
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.keep_distinct import apart_by_atoms, keep_distinct
from bigjoin.planner.search_groups import ChainSearch, GroupSearch
from bigjoin.planner.sum_nests import Sums, cheapest, weighed
from bigjoin.query.groups import GroupPlan, GroupTerm
from bigjoin.query.plan import Restriction

MAX_ORDERED_KEYS = 3
"""Keys up to which every order of their loops is tried."""


def plan_groups(draft: Draft) -> GroupPlan | None:
    """Return the plan that counts a draft by its keys, or None if no order of loops that the index serves binds them."""
    found = [*_rooted(draft), *_by_images(draft)]
    return min(found, key=lambda choice: choice[0])[1] if found else None


def _rooted(draft: Draft) -> Iterator[tuple[float, GroupPlan]]:
    """Give plans whose loops of the keys know the whole product, and their costs."""
    keys, mirrored = draft.keys, _are_mirrored(draft)
    orders = permutations(keys) if len(keys) <= MAX_ORDERED_KEYS and not mirrored else (keys,)
    restrictions = (Restriction(smaller=keys[1], larger=keys[0]),) if mirrored else ()
    for order in orders:
        ordered = replace(draft, keys=order, restrictions=restrictions)
        options = (([option], divisor) for option, divisor in restricted(ordered))
        cost, divisor, found = cheapest(options, Sums(GroupSearch))
        for _, summands in found:
            places = [dict(zip(order, s.draft.keys, strict=True)) for s in summands]
            terms = tuple(
                GroupTerm(build_nest(s.loop, s.draft, s.times), tuple(at[key] for key in keys))
                for s, at in zip(summands, places, strict=True)
            )
            yield cost, GroupPlan(draft.query, keys, terms, divisor, mirrored)


def _are_mirrored(draft: Draft) -> bool:
    """Tell whether there are two keys that differ, and that a symmetry exchanges: (a, b) then has as many matches as (b, a)."""
    if len(draft.keys) != 2:
        return False
    a, b = draft.keys
    free = replace(draft, keys=())
    known = apart_by_atoms(draft) | {frozenset(f.attributes) for f in draft.filters if f.keeps_apart}
    differ = frozenset(draft.keys) in known or draft.query.injective
    return differ and draft.domain(a) == draft.domain(b) and are_exchanged(free, a, b)


def _by_images(draft: Draft) -> Iterator[tuple[float, GroupPlan]]:
    """Give plans that find each class once and add it to the entries of all its values that the key may have."""
    free = replace(draft, keys=())
    if not draft.query.unique or len(draft.keys) > 1:
        return
    orbit = frozenset(images(free, draft.keys[0]))
    if len(orbit) == 1:
        return
    for option, divisor in restricted(free):
        ready = keep_distinct(drop_implied(option))
        search = ChainSearch(ready, SizeEstimate(ready))
        found = search.best()
        if found.loop is not None:
            cost = weighed(found.cost + search.cost_of_adding(found.loop, orbit), divisor)
            term = GroupTerm(build_nest(found.loop, ready, 1), tuple(sorted(orbit)))
            yield cost, GroupPlan(draft.query, draft.keys, (term,), divisor)
