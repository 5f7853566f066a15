"""Choose what stays a list in factorized matches: tails, attributes that nothing joins once all others are bound.

A match is then a prefix and one of the values of each tail's list: what would be a product of lists stays a few lists.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from bigjoin.planner.break_symmetry import break_symmetry
from bigjoin.planner.build_steps import step_for
from bigjoin.planner.draft import Draft
from bigjoin.planner.drop_implied import drop_implied
from bigjoin.planner.estimate import Estimate
from bigjoin.planner.keep_distinct import keep_distinct
from bigjoin.query.nest import Loop, Term

MOST = 4
"""Tails at most: with more, the choices are many and the gain is small."""


def factorize(draft: Draft) -> Term:
    """Return the nest of prefixes with the loops of the tails side by side inside, for a draft whose meaning is settled."""
    estimate = Estimate(draft)
    best: tuple[float, Term] | None = None
    for size in range(min(MOST, len(draft.attributes) - 1), 0, -1):
        for tails in combinations(draft.attributes, size):
            cost, term = _with_tails(draft, tails, estimate)
            if term is not None and (best is None or cost < best[0]):
                best = cost, term
    return best[1] if best is not None else _whole(draft, estimate)


def _with_tails(draft: Draft, tails: tuple[str, ...], estimate: Estimate) -> tuple[float, Term | None]:
    prefix = _order([a for a in draft.attributes if a not in tails], estimate)
    order = (*prefix, *tails)
    before = {a: frozenset(order[: min(i, len(prefix))]) for i, a in enumerate(order)}
    if any(not (estimate.is_reachable(a, before[a]) or estimate.is_reachable(a, frozenset())) for a in order):
        return 0.0, None
    ready = keep_distinct(drop_implied(break_symmetry(replace(draft, order=order))))
    joined: Iterable[Iterable[str]] = [part.attributes for part in ready.parts]
    joined = [*joined, *((r.smaller, r.larger) for r in ready.restrictions)]
    if any(len(set(scope) & set(tails)) > 1 for scope in joined):
        return 0.0, None
    bound = frozenset(prefix)
    values = sum(estimate.extensions(a, prefix) for a in tails)
    cost = sum(estimate.prefixes(frozenset(prefix[: i + 1])) for i in range(len(prefix))) + estimate.prefixes(bound) * values
    return cost, _term(ready, prefix, tails)


def _whole(draft: Draft, estimate: Estimate) -> Term:
    """Return the nest of a query none of whose attributes can be a tail: one attribute, or ids of edges that come last."""
    order = _order(list(draft.attributes), estimate)
    ready = keep_distinct(drop_implied(break_symmetry(replace(draft, order=order))))
    return _term(ready, order, ())


def _term(draft: Draft, prefix: tuple[str, ...], tails: tuple[str, ...]) -> Term:
    inner = tuple(Loop(step_for(a, prefix, draft)) for a in tails)
    for i in reversed(range(len(prefix))):
        inner = (Loop(step_for(prefix[i], prefix[:i], draft), inner),)
    return Term(1, inner[0], (*prefix, *tails))


def _order(attributes: list[str], estimate: Estimate) -> tuple[str, ...]:
    """Return an order in which each attribute is next to one before it, where that can be, and few prefixes arise."""
    order: list[str] = []
    while left := [a for a in attributes if a not in order]:
        bound = frozenset(order)
        near = [a for a in left if order and estimate.is_reachable(a, bound)]
        near = near or [a for a in left if estimate.is_reachable(a, frozenset())] or left
        order.append(min(near, key=lambda a: estimate.prefixes(bound | {a})))
    return tuple(order)
