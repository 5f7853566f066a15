"""Give equal parts of a query one form, and drop what says nothing new."""

from __future__ import annotations

from dataclasses import replace

from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom, Comparison


def simplify(draft: Draft) -> Draft:
    """Drop repeated atoms and filters, and filters that always hold.

    In a symmetric relation edge(b, a) is edge(a, b). Where a match's values differ anyway, `a != b` always holds and `a <= b`
    is `a < b`; left as they are, they would look like an asymmetry and make `unique` count too much. Properties of different
    values may be equal, and a missing one equals nothing, so comparisons of properties stay as they are.
    """
    atoms = tuple(dict.fromkeys(canonical_atom(atom, draft) for atom in draft.atoms))
    filters = tuple(dict.fromkeys(_canonical_filter(comparison, draft) for comparison in draft.filters))
    return replace(draft, atoms=atoms, filters=tuple(f for f in filters if not _always_holds(f, draft)))


def canonical_atom(atom: Atom, draft: Draft) -> Atom:
    """Return the atom, or its mirror image where the relation is symmetric and that one comes first."""
    if not draft.statistics.relation(atom.relation).symmetric:
        return atom
    rank = {attribute: i for i, attribute in enumerate(draft.attributes)}
    return replace(atom, attributes=(*sorted(atom.attributes[:2], key=rank.__getitem__), *atom.attributes[2:]))


def _canonical_filter(comparison: Comparison, draft: Draft) -> Comparison:
    canonical = comparison.canonical()
    apart = len(set(canonical.attributes)) == 2 and draft.query.injective and not canonical.properties
    return replace(canonical, op="<") if apart and canonical.op == "<=" else canonical


def _always_holds(comparison: Comparison, draft: Draft) -> bool:
    if comparison.properties:
        return False
    if comparison.left == comparison.right:
        return comparison.op in ("=", "<=", ">=")
    both = isinstance(comparison.left, str) and isinstance(comparison.right, str)
    return both and comparison.op == "!=" and draft.query.injective
