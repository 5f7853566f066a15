"""Spell out `induced`: a negated atom for every tuple that the query does not ask for."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom
from bigjoin.query.read import View


def expand_induced(draft: Draft) -> Draft:
    """Add `not r(x, y)` for each relation r of the query and attributes x, y that no atom r(x, y) joins.

    Loops count: a vertex x with edge(x, x) in a directed relation is part of a match only if the query asks for that loop. In
    a symmetric relation edge(y, x) is the same tuple as edge(x, y). Labels, relations of one column, join
    nothing, and seeds are no tuples of the source.
    """
    if not draft.query.induced:
        return draft
    added = []
    by_relation: dict[tuple[str, View | None], list[Atom]] = {}
    for atom in draft.positive:
        by_relation.setdefault((atom.relation, atom.view), []).append(atom)
    for (relation, view), atoms in by_relation.items():
        statistics = draft.statistics.relation(atoms[0])
        if statistics.arity == 1 or statistics.given:
            continue
        asked = {atom.attributes for atom in atoms}
        if statistics.symmetric:
            asked |= {attributes[::-1] for attributes in asked}
        candidates = [[a for a in draft.attributes if draft.domain(a) == domain] for domain in statistics.domains]
        unasked = (attributes for attributes in product(*candidates) if attributes not in asked)
        added += [Atom(relation, attributes, negated=True, view=view) for attributes in unasked]
    return replace(draft, atoms=draft.atoms + tuple(added))
