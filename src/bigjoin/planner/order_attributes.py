"""Choose the attribute order: the cheapest one by estimated prefixes and proposals, found by a beam search over orders.

A step costs its prefixes and its proposals, the latter only once for neighbouring prefixes that agree on what it reads: what
many steps read is best bound first. Symmetry is broken afterwards, so restrictions do not count here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import permutations

from bigjoin.errors import DisconnectedError
from bigjoin.planner.column_orders import in_order
from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import Estimate

BEAM_WIDTH = 720
"""Partial orders kept at each length: all of them up to six attributes."""


def order_attributes(draft: Draft) -> Draft:
    """Set the attribute order, unless it is given. It begins with the attributes of one atom, the seed."""
    if draft.order:
        return draft
    names = draft.attributes
    estimate = Estimate(replace(draft, restrictions=()))
    longest = max(len(set(atom.attributes)) for atom in (*draft.positive, *(s.atom for s in draft.shortcuts)))
    orders = _seeds(draft, estimate)
    for size in range(1, len(names)):
        grown = [entry for entry in orders if len(entry.order) != size]
        for entry in orders:
            if len(entry.order) == size:
                grown += [entry.grown(a, estimate.work(a, entry.order)) for a in estimate.reachable(frozenset(entry.order))]
        orders = sorted(grown, key=lambda entry: (entry.cost, [names.index(a) for a in entry.order]))
        orders = orders[:BEAM_WIDTH] if size >= longest else orders
    return replace(draft, order=orders[0].order, seed=orders[0].seed)


def order_as_written(draft: Draft) -> Draft:
    """Set the attribute order to that of the query."""
    return replace(draft, order=draft.attributes)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A partial order, its cost so far, and how many of its attributes the seed binds."""

    cost: float
    order: tuple[str, ...]
    seed: int

    def grown(self, attribute: str, work: float) -> _Entry:
        return _Entry(self.cost + work, (*self.order, attribute), self.seed)


def components(scopes: Iterable[Iterable[str]]) -> list[set[str]]:
    """Return the attributes of some scopes in sets such that no scope joins two of them."""
    found: list[set[str]] = []
    for scope in map(set, scopes):
        touched = [part for part in found if part & scope]
        found = [part for part in found if part not in touched]
        found.append(scope.union(*touched))
    return found


def refuse_disconnected(draft: Draft) -> Draft:
    """Raise DisconnectedError for a query that is a cross product, unless one is asked for."""
    parts = components(atom.attributes for atom in draft.positive)
    if len(parts) > 1 and not draft.query.cross_product:
        shown = " and ".join("{" + ", ".join(a for a in draft.attributes if a in part) + "}" for part in parts)
        raise DisconnectedError(
            f"the query is disconnected: no atom joins {shown}, so its answer is a cross product",
            hint="join the parts with an atom (for attributes that are equal, use one name), or ask for the product with "
            "--cross-product (cross_product=True)",
        )
    return draft


def _seeds(draft: Draft, estimate: Estimate) -> list[_Entry]:
    """Return the orders of each atom's attributes and the cost of reading its tuples.

    Attributes with a constant go first if the index allows it, so that seeds are looked up; otherwise all tuples are read.
    """
    constants = {f.left for f in draft.filters if f.is_constant}
    costs: dict[tuple[str, ...], float] = {}
    atoms = (*draft.positive, *(shortcut.atom for shortcut in draft.shortcuts)) if draft.first is None else (draft.first,)
    for atom in atoms:
        for order in permutations(dict.fromkeys(atom.attributes)):
            looked_up = tuple(sorted(order, key=lambda a: a not in constants))
            seed = next((seed for seed in (looked_up, order) if in_order(atom, seed, draft)), None)
            if seed is not None:
                all_tuples = float(draft.statistics.of(atom).tuples)
                cost = estimate.prefixes(frozenset(seed)) if seed[0] in constants else all_tuples
                costs[seed] = min(cost, costs.get(seed, cost))
    return [_Entry(cost, seed, len(seed)) for seed, cost in costs.items()]
