"""Choose the attribute order: the cheapest one by estimated prefixes and proposals, found by a beam search over orders.

A step costs its prefixes and its proposals, the latter only once for neighbouring prefixes that agree on what it reads: what
many steps read is best bound first. Symmetry is broken afterwards, so restrictions do not count here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations

from bigjoin.errors import DisconnectedError
from bigjoin.planner.column_orders import in_order
from bigjoin.planner.draft import Draft
from bigjoin.planner.estimate import SizeEstimate
from bigjoin.query.query import Atom, Comparison
from bigjoin.quota import quota

FULLY_ORDERED_ATTRIBUTES = 6
BEAM_WIDTH = 720
"""Partial orders kept at each length: all of them up to so many attributes."""

MAX_GROWN_ORDERS = 30_000
"""Partial orders that are tried, over the square of the attributes: with more attributes, fewer are kept at each length."""

MIN_BEAM_WIDTH = 4
"""Partial orders that are kept however many attributes there are, unless many plans share the work."""

MAX_PERMUTED_SEEDS = 5
"""Attributes of seeds up to which all their orders are tried; wider ones are read in the query's order, which is as cheap."""


def order_attributes(draft: Draft) -> Draft:
    """Set the attribute order, unless it is given. It begins with the attributes of one atom, the seed."""
    return draft if draft.order else in_cheapest_order(draft, SizeEstimate(replace(draft, restrictions=())))


def in_cheapest_order(draft: Draft, estimate: SizeEstimate, plans: int = 1) -> Draft:
    """Set the attribute order, by estimates without restrictions, if so many plans are made and share the work."""
    size = len(estimate.attributes)
    atoms = (*draft.positive, *(s.atom for s in draft.shortcuts))
    longest = max(len(set(atom.attributes)) for atom in atoms if not _is_wide(atom, draft))
    width = _beam_width(size, plans)
    orders = sorted(_seeds(draft, estimate), key=_by_cost)
    if size > FULLY_ORDERED_ATTRIBUTES:
        orders = orders[: max(width, MAX_GROWN_ORDERS // (8 * size))]
    for length in range(1, size):
        quota().check()
        grown = [entry for entry in orders if len(entry.order) != length]
        for entry in orders:
            if len(entry.order) == length:
                grown += [entry.grown(a, estimate) for a in estimate.reachable(entry.sets[-1])]
        orders = sorted(grown, key=_by_cost)
        if length >= longest:
            longer = [entry for entry in orders if len(entry.order) > length + 1]  # wide seeds, whose turn is still to come
            orders = [entry for entry in orders if len(entry.order) == length + 1][:width] + longer
    return replace(draft, order=orders[0].order, seed=orders[0].seed)


def _beam_width(size: int, plans: int) -> int:
    """Return how many partial orders of so many attributes are kept at each length, if so many plans are made."""
    if size <= FULLY_ORDERED_ATTRIBUTES:
        return BEAM_WIDTH
    return max(1, MIN_BEAM_WIDTH // plans, MAX_GROWN_ORDERS // (size * size * plans))


def order_as_written(draft: Draft) -> Draft:
    """Set the attribute order to that of the query."""
    return replace(draft, order=draft.attributes)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A partial order, its cost so far, and how many of its attributes the seed binds."""

    cost: float
    order: tuple[str, ...]
    seed: int
    sets: tuple[frozenset[str], ...]
    """The attributes of each of its prefixes."""
    places: tuple[int, ...]
    """Where the query has its attributes."""

    def grown(self, attribute: str, estimate: SizeEstimate) -> _Entry:
        cost = self.cost + estimate.work(attribute, self.order, self.sets)
        sets, places = (*self.sets, self.sets[-1] | {attribute}), (*self.places, estimate.place[attribute])
        return _Entry(cost, (*self.order, attribute), self.seed, sets, places)


def _by_cost(entry: _Entry) -> tuple[float, tuple[int, ...]]:
    return entry.cost, entry.places


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


def _seeds(draft: Draft, estimate: SizeEstimate) -> list[_Entry]:
    """Return the orders of each atom's attributes and the cost of reading its tuples.

    Attributes with a constant go first if the index allows it, so that seeds are looked up; otherwise all tuples are read.
    """
    constants = {f.left for f in draft.filters if isinstance(f, Comparison) and f.is_constant}
    costs: dict[tuple[str, ...], float] = {}
    atoms = (*draft.positive, *(shortcut.atom for shortcut in draft.shortcuts)) if draft.first is None else (draft.first,)
    for atom in atoms:
        as_written = (tuple(a for a in draft.attributes if a in atom.attributes),)
        for order in as_written if _is_wide(atom, draft) else permutations(dict.fromkeys(atom.attributes)):
            looked_up = tuple(sorted(order, key=lambda a: a not in constants))
            seed = next((seed for seed in (looked_up, order) if in_order(atom, seed, draft)), None)
            if seed is not None:
                all_tuples = float(draft.statistics.of(atom).tuples)
                cost = estimate.prefixes(frozenset(seed)) if seed[0] in constants else all_tuples
                costs[seed] = min(cost, costs.get(seed, cost))
    place = estimate.place
    return [_Entry(cost, seed, len(seed), prefixes_of(seed), tuple(place[a] for a in seed)) for seed, cost in costs.items()]


def prefixes_of(order: Sequence[str]) -> tuple[frozenset[str], ...]:
    """Return the attributes of each prefix of an order, beginning with none of them."""
    return tuple(frozenset(order[:i]) for i in range(len(order) + 1))


def _is_wide(atom: Atom, draft: Draft) -> bool:
    return draft.statistics.relation(atom).given and len(set(atom.attributes)) > MAX_PERMUTED_SEEDS
