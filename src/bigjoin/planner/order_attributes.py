"""Choose the attribute order: the cheapest way to grow the set of bound attributes, by estimated proposals.

The number of prefixes over a set of attributes does not depend on the order in which they were bound, so the cheapest order
is a shortest path through the sets (dynamic programming, kept to the best `BEAM` sets of each size). Prefixes are estimated as
if tuples were independent; a step costs its prefixes times the shortest list that can propose.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from bigjoin.errors import DisconnectedError
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom, Comparison

BEAM = 512
"""Sets kept at each size: all of them up to ten attributes or so."""

_SELECTIVITY = {"<": 0.5, "<=": 0.5, ">": 0.5, ">=": 0.5, "!=": 1.0}


def order_attributes(draft: Draft) -> Draft:
    """Set the attribute order, unless it is given. It begins with the attributes of one atom, the seed."""
    _refuse_disconnected(draft)
    if draft.order:
        return draft
    names = draft.attributes
    best = _seeds(draft)
    for size in range(1, len(names) + 1):
        level = sorted((s for s in best.items() if len(s[0]) == size), key=lambda s: s[1])[:BEAM]
        for bound, (cost, positions) in level:
            prefixes = _prefixes(bound, draft)
            for position, attribute in enumerate(names):
                if attribute in bound or not _reachable(attribute, bound, draft):
                    continue
                grown = bound | {attribute}
                candidate = (cost + prefixes * _proposals(attribute, bound, draft), (*positions, position))
                if grown not in best or candidate < best[grown]:
                    best[grown] = candidate
    return replace(draft, order=tuple(names[p] for p in best[frozenset(names)][1]))


def components(atoms: tuple[Atom, ...]) -> list[set[str]]:
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
            hint="join the parts with an atom, or ask for the product with --cross-product (cross_product=True)",
        )


def _seeds(draft: Draft) -> dict[frozenset[str], tuple[float, tuple[int, ...]]]:
    """Return each atom's attributes as a first set, those with a constant first, so that seeds can be looked up."""
    constants = {f.left for f in draft.filters if f.op == "=" and not isinstance(f.right, str)}
    seeds: dict[frozenset[str], tuple[float, tuple[int, ...]]] = {}
    for atom in draft.positive:
        attributes = sorted(set(atom.attributes), key=lambda a: (a not in constants, draft.attributes.index(a)))
        cost = _prefixes(frozenset(attributes), draft)
        entry = (cost, tuple(draft.attributes.index(a) for a in attributes))
        key = frozenset(attributes)
        seeds[key] = min(entry, seeds.get(key, entry))
    return seeds


def _reachable(attribute: str, bound: frozenset[str], draft: Draft) -> bool:
    """Tell whether an extender can propose the attribute, or the bound part is a whole component of a cross product."""
    if any(attribute in atom.attributes and bound & set(atom.attributes) for atom in draft.positive):
        return True
    return all(part <= bound or not part & bound for part in components(draft.positive))


def _prefixes(bound: frozenset[str], draft: Draft) -> float:
    """Estimate the bindings of a set of attributes, as if tuples were independent."""
    domains = draft.statistics.domains
    estimate = prod(float(max(1, domains[draft.domain(a)])) for a in bound)
    for atom in draft.positive:
        relation = draft.statistics.relations[atom.relation]
        if set(atom.attributes) <= bound:
            estimate *= relation.tuples / prod(max(1, domains[d]) for d in relation.domains)
    for comparison in draft.filters:
        if set(comparison.attributes) <= bound:
            estimate *= _selectivity(comparison, draft)
    return estimate


def _selectivity(comparison: Comparison, draft: Draft) -> float:
    if comparison.op == "=":
        return 1 / max(1, draft.statistics.domains[draft.domain(comparison.attributes[0])])
    return _SELECTIVITY[comparison.op]


def _proposals(attribute: str, bound: frozenset[str], draft: Draft) -> float:
    """Estimate the shortest list that can propose the attribute."""
    lengths = [float(draft.statistics.domains[draft.domain(attribute)])]
    for atom in draft.positive:
        if attribute in atom.attributes and bound & set(atom.attributes):
            relation = draft.statistics.relations[atom.relation]
            value = atom.attributes.index(attribute)
            keys = tuple(c for c, a in enumerate(atom.attributes) if a in bound)
            lists = relation.lists.get((*keys, value))
            lengths.append(lists.typical if lists else relation.tuples ** (1 / relation.arity))
    return min(lengths)
