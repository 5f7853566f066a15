"""Optional atoms, spelled out: a query with them is the sum of queries without, one for each choice of what is there."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from bigjoin.errors import QueryError
from bigjoin.query.query import Atom, Query, attribute_of

MOST = 6
"""Optional atoms of a query: each doubles the number of queries."""


def branches(query: Query) -> tuple[Query, ...]:
    """Return queries without optional atoms, no two of which have a match in common, that together have the query's matches.

    In each of them some optional atoms hold, and the others have no tuple at all for what the query binds otherwise. A head
    lists only what its query binds.
    """
    if not query.optional:
        return (query,)
    _check(query)
    found = []
    bound = set(query.attributes)
    needed = [atom for atom in query.optional if set(atom.attributes) - bound]  # the others hold or not: a match either way
    for there in product((True, False), repeat=len(needed)):
        chosen = zip(needed, there, strict=True)
        parts = tuple(replace(atom, optional=False) if holds else _without(atom, bound) for atom, holds in chosen)
        branch = replace(query, atoms=tuple(atom for atom in query.atoms if not atom.optional) + parts)
        head = tuple(term for term in query.head if attribute_of(term) in branch.attributes)
        found.append(replace(branch, head=head))
    return tuple(found)


def _without(atom: Atom, bound: set[str]) -> Atom:
    """Return the negated atom that leaves its further attributes open."""
    open_ = (a if a in bound or a.startswith("_") else f"_{a}" for a in atom.attributes)
    return replace(atom, optional=False, negated=True, attributes=tuple(open_))


def _check(query: Query) -> None:
    """Refuse what has no plain meaning beside an optional atom."""
    if len(query.optional) > MOST:
        raise QueryError(f"a query can have {MOST} optional atoms, not {len(query.optional)}")
    if query.injective:
        raise QueryError("optional atoms do not go with distinct, unique or induced", query.optional[0].span)
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
        for comparison in query.filters:
            compared = [
                a for a in comparison.attributes if a in own and not a.startswith("_")
            ]  # constants are part of the atom
            if compared:
                raise QueryError(f"'{comparison}' compares {compared[0]!r}, which may be NULL", comparison.span)
