"""Choose what stays a list in factorized matches: tails, attributes that nothing joins once all others are bound.

A match is then a prefix and one of the values of each tail's list: what would be a product of lists stays a few lists. Which
attributes are tails decides the columns of a result. So it follows from the query alone, and never from what the data are
like today; they only decide in which order the others are bound.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from bigjoin.planner.break_symmetry import break_symmetry
from bigjoin.planner.build_steps import step_for
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.estimate import Estimate
from bigjoin.planner.keep_distinct import keep_distinct
from bigjoin.query.nest import Loop, Term


def factorize(draft: Draft) -> Term:
    """Return the nest of prefixes with the loops of the tails side by side inside, for a draft whose meaning is settled."""
    estimate, names = Estimate(draft), draft.attributes
    ready = keep_distinct(drop_implied(break_symmetry(replace(draft, order=names))))
    tails = _tails(ready)
    prefix = _order((), [a for a in names if a not in tails], tails, estimate)
    if prefix is None:  # an index of relations that are no graph may lack the column orders: what is bound last is a list
        *before, last = _order((), names, (), estimate) or names
        prefix, tails = (tuple(before), (last,)) if before else ((last,), ())
    inner = tuple(Loop(step_for(a, prefix, ready)) for a in tails)
    for i in reversed(range(len(prefix))):
        inner = (Loop(step_for(prefix[i], prefix[:i], ready), inner),)
    return Term(1, inner[0], (*prefix, *tails))


def _tails(draft: Draft) -> tuple[str, ...]:
    """Return as many attributes as can be that nothing joins to each other, such that the others still hang together.

    Those that the fewest others are joined to come first, the later ones of the query among equals.
    """
    names = draft.attributes
    scopes: list[Iterable[str]] = [part.attributes for part in draft.parts]
    scopes += [(r.smaller, r.larger) for r in draft.restrictions]
    joined: dict[str, set[str]] = {a: set() for a in names}
    for scope in scopes:
        for a in scope:
            joined[a] |= set(scope) - {a}
    whole, tails = _starts(names, draft), list[str]()
    for a in sorted(names, key=lambda a: (len(joined[a]), -names.index(a))):
        prefix = [b for b in names if b != a and b not in tails]
        is_led_to = _leads(prefix, a, draft) or not joined[a]
        if prefix and is_led_to and joined[a].isdisjoint(tails) and _starts(prefix, draft) <= whole:
            tails.append(a)
    return tuple(a for a in names if a in tails)


def _starts(attributes: Sequence[str], draft: Draft) -> float:
    """Return how many of the attributes have to be listed by themselves, where each of the others is led to by some of them."""
    left, bound, starts = list(attributes), set[str](), 0
    while left:
        led = [a for a in left if _leads(bound, a, draft)]
        if not led:
            led = [a for a in left if not _is_row(a, draft)]
            starts += 1
        if not led:
            return float("inf")
        left.remove(led[0])
        bound.add(led[0])
    return starts


def _leads(bound: Collection[str], attribute: str, draft: Draft) -> bool:
    """Tell whether an atom leads from bound attributes to another one; to the id of a row, all others of its atom do."""
    atoms = [atom for atom in draft.positive if attribute in atom.attributes]
    if _is_row(attribute, draft):
        return any(set(bound).issuperset(a for a in atom.attributes if a != attribute) for atom in atoms)
    return any(other != attribute and other in bound for atom in atoms for other in atom.attributes)


def _is_row(attribute: str, draft: Draft) -> bool:
    """Tell whether an attribute stands for the ids of rows, which only their ends lead to."""
    atoms = (atom for atom in draft.positive if attribute in atom.attributes)
    return any(atom.attributes.index(attribute) >= draft.statistics.relation(atom).arity for atom in atoms)


def _order(bound: tuple[str, ...], left: Sequence[str], tails: Sequence[str], estimate: Estimate) -> tuple[str, ...] | None:
    """Return an order in which the index leads to each attribute, and few prefixes arise; None if there is none."""
    now = frozenset(bound)
    if not left:
        return bound if all(_is_reachable(a, now, estimate) for a in tails) else None
    near = [a for a in left if bound and estimate.is_reachable(a, now)]
    near = near or [a for a in left if estimate.is_reachable(a, frozenset())]
    for a in sorted(near, key=lambda a: estimate.prefixes(now | {a})):
        found = _order((*bound, a), [b for b in left if b != a], tails, estimate)
        if found is not None:
            return found
    return None


def _is_reachable(attribute: str, bound: frozenset[str], estimate: Estimate) -> bool:
    return estimate.is_reachable(attribute, bound) or estimate.is_reachable(attribute, frozenset())
