"""Choose the attribute order: the cheapest one by estimated prefixes and proposals, found by a beam search over orders.

A step costs its prefixes and its proposals, the latter once for all the neighbouring prefixes that agree on what it reads: what
many steps read is best bound first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from itertools import permutations
from math import prod

from bigjoin.errors import DisconnectedError
from bigjoin.planner.column_orders import extender, in_order
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom, Comparison, Constant

BEAM = 720
"""Partial orders kept at each length: all of them up to six attributes."""

CLOSURE = 0.05
"""The least chance that two neighbours of a vertex are neighbours: real graphs are clustered."""

_SELECTIVITY = {"<": 0.5, "<=": 0.5, ">": 0.5, ">=": 0.5, "!=": 1.0, "=": 0.1}
"""How much a comparison leaves; one for equal ids is known better."""


def order_attributes(draft: Draft) -> Draft:
    """Set the attribute order, unless it is given. It begins with the attributes of one atom, the seed."""
    _refuse_disconnected(draft)
    if draft.order:
        return draft
    names = draft.attributes
    estimate = _Estimate(draft)
    longest = max(len(set(atom.attributes)) for atom in draft.positive)
    orders = _seeds(draft, estimate)
    for size in range(1, len(names)):
        grown = [entry for entry in orders if len(entry.order) != size]
        for entry in orders:
            if len(entry.order) == size:
                grown += [entry.grown(a, estimate.work(a, entry.order)) for a in estimate.reachable(frozenset(entry.order))]
        orders = sorted(grown, key=lambda entry: (entry.cost, [names.index(a) for a in entry.order]))
        orders = orders[:BEAM] if size >= longest else orders
    best = orders[0]
    return replace(draft, order=best.order, seed=best.seed)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A partial order, what it costs so far, and how many of its attributes the seed binds."""

    cost: float
    order: tuple[str, ...]
    seed: int

    def grown(self, attribute: str, work: float) -> _Entry:
        return _Entry(self.cost + work, (*self.order, attribute), self.seed)


def components(atoms: Iterable[Atom]) -> list[set[str]]:
    """Return the sets of attributes that atoms connect."""
    found: list[set[str]] = []
    for atom in atoms:
        touched = [part for part in found if part & set(atom.attributes)]
        found = [part for part in found if part not in touched]
        found.append(set(atom.attributes).union(*touched))
    return found


def _refuse_disconnected(draft: Draft) -> None:
    parts = components(draft.positive)
    if len(parts) > 1 and not draft.query.cross_product:
        shown = " and ".join("{" + ", ".join(a for a in draft.attributes if a in part) + "}" for part in parts)
        raise DisconnectedError(
            f"the query is disconnected: no atom joins {shown}, so its answer is a cross product",
            hint="join the parts with an atom (for attributes that are equal, use one name), or ask for the product with "
            "--cross-product (cross_product=True)",
        )


def _seeds(draft: Draft, estimate: _Estimate) -> list[_Entry]:
    """Return the orders of each atom's attributes and what reading it costs.

    Attributes with a constant go first where the index can, so that seeds are looked up; else all tuples are read.
    """
    constants = {f.left for f in draft.filters if f.op == "=" and isinstance(f.right, Constant)}
    costs: dict[tuple[str, ...], float] = {}
    for atom in draft.positive:
        for order in permutations(dict.fromkeys(atom.attributes)):
            looked_up = tuple(sorted(order, key=lambda a: a not in constants))
            for seed in (looked_up, order):
                if in_order(atom, seed, draft.statistics):
                    all_tuples = float(draft.statistics.of(atom).tuples)
                    cost = estimate.prefixes(frozenset(seed)) if seed[0] in constants else all_tuples
                    costs[seed] = min(cost, costs.get(seed, cost))
                    break
    return [_Entry(cost, seed, len(seed)) for seed, cost in costs.items()]


class _Estimate:
    """Estimates for one draft, each made once."""

    def __init__(self, draft: Draft) -> None:
        self.draft, self.statistics = draft, draft.statistics
        self.prefixes = cache(self._prefixes)
        self.proposals = cache(self._proposals)
        self.reachable = cache(self._reachable)

    def _reachable(self, bound: frozenset[str]) -> list[str]:
        """Return the attributes that an extender can propose next; if there are none, those of another part."""
        left = [a for a in self.draft.attributes if a not in bound]
        near = [a for a in left if any(self._extends(atom, a, bound) for atom in self.draft.positive)]
        return near or [a for a in left if any(self._extends(atom, a, frozenset()) for atom in self.draft.positive)]

    def _extends(self, atom: Atom, attribute: str, bound: frozenset[str]) -> bool:
        joined = attribute in atom.attributes and (not bound or not bound.isdisjoint(atom.attributes))
        return joined and extender(atom, attribute, bound, self.statistics) is not None

    def work(self, attribute: str, order: tuple[str, ...]) -> float:
        """Estimate a step: its prefixes, and the proposals of each run of them."""
        read = {a for atom in self.draft.atoms if attribute in atom.attributes for a in atom.attributes}
        part = order[: max((i + 1 for i, a in enumerate(order) if a in read), default=0)]
        bound = frozenset(order)
        return self.prefixes(bound) + self.prefixes(frozenset(part)) * self.proposals(attribute, bound)

    def _prefixes(self, bound: frozenset[str]) -> float:
        """Estimate the bindings of a set of attributes.

        Each part that atoms connect is a tree of tuples, each new one found in the list of an end of another, and atoms that
        close a cycle: an edge joins two ends of edges as often as in the configuration model, but at least CLOSURE often.
        """
        estimate = 1.0
        seen: set[str] = set()
        for atom in self._connected_order(bound):
            relation = self.statistics.of(atom)
            typical = [lists.typical for columns, lists in relation.lists.items() if len(columns) == relation.arity]
            typical = typical or [relation.tuples ** (1 / relation.arity)]
            attributes = set(atom.attributes)
            if attributes <= seen and relation.arity == 1:
                estimate *= min(1.0, relation.tuples / max(1, self.statistics.domains[relation.domains[0]]))
            elif attributes <= seen:
                estimate *= min(1.0, max(CLOSURE, prod(typical) / max(1.0, float(relation.tuples))))
            else:
                estimate *= min(typical) if attributes & seen else relation.tuples
            seen |= attributes
        estimate *= prod(float(self._domain(a)) for a in bound - seen)
        return estimate * prod(self._selectivity(f) for f in self.draft.filters if set(f.attributes) <= bound)

    def _connected_order(self, bound: frozenset[str]) -> list[Atom]:
        """Return the atoms within a set of attributes, each next to one before it where that can be."""
        left = [atom for atom in self.draft.positive if set(atom.attributes) <= bound]
        ordered: list[Atom] = []
        seen: set[str] = set()
        while left:
            atom = next((atom for atom in left if seen & set(atom.attributes)), left[0])
            left.remove(atom)
            ordered.append(atom)
            seen |= set(atom.attributes)
        return ordered

    def _proposals(self, attribute: str, bound: frozenset[str]) -> float:
        """Estimate the shortest list that can propose the attribute."""
        lengths = [float(self._domain(attribute))]
        for atom in self.draft.positive:
            if attribute in atom.attributes and bound & set(atom.attributes):
                relation = self.statistics.of(atom)
                served = extender(atom, attribute, bound, self.statistics)
                if served is None:
                    continue
                lists = relation.lists.get(served.columns)
                lengths.append(lists.typical if lists else relation.tuples ** (1 / relation.arity))
        return min(lengths)

    def _selectivity(self, comparison: Comparison) -> float:
        if comparison.op == "=" and not comparison.properties:
            return 1 / max(1, self._domain(comparison.attributes[0]))
        return _SELECTIVITY[comparison.op]

    def _domain(self, attribute: str) -> int:
        return self.statistics.domains[self.draft.domain(attribute)]
