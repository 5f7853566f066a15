"""Choose what stays a list in factorized matches: tails, attributes that nothing joins once all others are bound.

A match is then a prefix and one value of each tail's list: what would be a product of lists stays a few lists. Which
attributes are tails decides the columns of a result. So it follows from the query alone, never from the data of today; the
data only decide in which order the other attributes are bound.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from math import inf

from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.planner.order_attributes import components


def choose_tails(draft: Draft) -> Draft:
    """Set the tails, and an attribute order that ends with them."""
    estimate, names = SizeEstimate(replace(draft, restrictions=())), draft.attributes
    tails = _tails(draft)
    prefix = _order((), [a for a in names if a not in tails], tails, estimate)
    if prefix is None:  # the index may lack the column orders, if its relations are no graph: what is bound last is a list
        *before, last = _order((), names, (), estimate) or names
        prefix, tails = (tuple(before), (last,)) if before else ((last,), ())
    return replace(draft, order=(*prefix, *tails), tails=tails)


def _tails(draft: Draft) -> tuple[str, ...]:
    """Return as many attributes as possible that nothing joins to each other, such that the others stay connected.

    Those that are joined to the fewest others come first, the later ones of the query among equals.
    """
    names, joined = draft.attributes, draft.joined()
    starts, tails = _starts(names, draft), list[str]()
    for a in sorted(names, key=lambda a: (len(joined[a]), -names.index(a))):
        prefix = [b for b in names if b != a and b not in tails]
        is_led_to = _leads(prefix, a, draft) or not joined[a]
        if prefix and is_led_to and joined[a].isdisjoint(tails) and _starts(prefix, draft) <= starts:
            tails.append(a)
    return tuple(a for a in names if a in tails)


def _starts(attributes: Sequence[str], draft: Draft) -> float:
    """Return how many of the attributes have to be listed by themselves, if atoms lead from these to all the others."""
    if any(_is_row(a, draft) and not _leads(attributes, a, draft) for a in attributes):
        return inf
    scopes = ({a for a in atom.attributes if a in attributes} for atom in draft.positive)
    return len(components(scope for scope in scopes if scope))


def _leads(bound: Collection[str], attribute: str, draft: Draft) -> bool:
    """Tell whether an atom leads from bound attributes to another one; the id of a row needs all others of its atom."""
    needed = all if _is_row(attribute, draft) else any
    others = ([a for a in atom.attributes if a != attribute] for atom in draft.positive if attribute in atom.attributes)
    return any(others_of and needed(a in bound for a in others_of) for others_of in others)


def _is_row(attribute: str, draft: Draft) -> bool:
    """Tell whether an attribute stands for the ids of rows, which only their ends lead to."""
    atoms = (atom for atom in draft.positive if attribute in atom.attributes)
    return any(atom.attributes.index(attribute) >= draft.statistics.relation(atom).arity for atom in atoms)


def _order(bound: tuple[str, ...], left: Sequence[str], tails: Sequence[str], estimate: SizeEstimate) -> tuple[str, ...] | None:
    """Return an order in which the index leads to each attribute, with few prefixes; None if there is none."""
    now, start = frozenset(bound), frozenset[str]()
    if not left:
        reached = (estimate.is_reachable(a, now) or estimate.is_reachable(a, start) for a in tails)
        return bound if all(reached) else None
    near = [a for a in left if bound and estimate.is_reachable(a, now)]
    near = near or [a for a in left if estimate.is_reachable(a, start)]
    orders = (
        _order((*bound, a), [b for b in left if b != a], tails, estimate)
        for a in sorted(near, key=lambda a: estimate.prefixes(now | {a}))
    )
    return next((order for order in orders if order is not None), None)
