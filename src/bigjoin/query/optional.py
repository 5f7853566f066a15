"""Spell out optional atoms: a query with them is a sum of queries without, one for each choice of which atoms hold."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from bigjoin.errors import QueryError
from bigjoin.query.expressions import attributes_of
from bigjoin.query.query import Atom, Comparison, Query

MAX_OPTIONAL_ATOMS = 6
"""Each optional atom doubles the number of queries."""


def branches(query: Query) -> tuple[Query, ...]:
    """Return queries without optional atoms whose matches are disjoint and together are the query's matches.

    In each of them some optional atoms hold, and the others have no tuple for what the rest of the query binds. A head lists
    only what its query binds, or else some attribute, so that it is not empty.
    """
    if not query.optional:
        return (query,)
    _check(query)
    found = []
    bound = set(query.attributes)
    needed = [atom for atom in query.optional if set(atom.attributes) - bound]  # others bind nothing: they change no match
    for there in product((True, False), repeat=len(needed)):
        chosen = zip(needed, there, strict=True)
        parts = tuple(replace(atom, optional=False) if holds else denied(atom, query) for atom, holds in chosen)
        branch = replace(query, atoms=tuple(atom for atom in query.atoms if not atom.optional) + parts)
        found.append(with_bound_head(branch))
    return tuple(found)


def with_bound_head(query: Query) -> Query:
    """Return a query whose head lists only what its atoms bind, or else some attribute, so that it is not empty."""
    bound = query.bound
    kept = [i for i, term in enumerate(query.head) if bound.issuperset(attributes_of(term))]
    if query.head and not kept:
        return replace(query, head=query.attributes[:1], names=())
    names = tuple(query.names[i] for i in kept) if query.names else ()
    return replace(query, head=tuple(query.head[i] for i in kept), names=names)


def denied(atom: Atom, query: Query) -> Atom:
    """Return the negated atom that leaves its own attributes open, under names that nothing else has."""
    taken = {a for other in query.atoms for a in other.attributes}
    names = {}
    for a in atom.attributes:
        names[a] = a
        while names[a] not in query.attributes and not a.startswith("_") and (names[a] == a or names[a] in taken):
            names[a] = f"_{names[a]}"
    return replace(atom.renamed(names), optional=False, negated=True)


def _check(query: Query) -> None:
    """Refuse what has no clear meaning together with an optional atom."""
    if len(query.optional) > MAX_OPTIONAL_ATOMS:
        raise QueryError(f"a query can have at most {MAX_OPTIONAL_ATOMS} optional atoms, not {len(query.optional)}")
    if query.injective:
        raise QueryError("optional atoms cannot be combined with distinct, unique or induced", query.optional[0].span)
    seen = set(query.attributes)
    for atom in query.optional:
        own = set(atom.attributes) - set(query.attributes)
        if own == set(atom.attributes):
            raise QueryError(f"'{atom}' shares no attribute with atoms that must hold", atom.span, "join it to one of them")
        if shared := [a for a in atom.attributes if a not in query.attributes and a in seen]:
            raise QueryError(
                f"two optional atoms share {shared[0]!r}, which no other atom binds", atom.span, "use two attributes"
            )
        seen |= own
        for other in query.atoms:
            if other.negated and (denied := sorted(own & set(other.attributes))):
                raise QueryError(f"'{other}' is about {denied[0]!r}, which may be NULL", other.span)
        for comparison in query.filters:
            in_atom = (
                isinstance(comparison, Comparison) and comparison.is_constant
            )  # a constant argument of the atom, if its attribute is ours
            if compared := [a for a in comparison.attributes if a in own and not (in_atom and a.startswith("_"))]:
                raise QueryError(f"'{comparison}' compares {compared[0]!r}, which may be NULL", comparison.span)
