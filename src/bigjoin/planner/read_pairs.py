"""Add to every atom with an edge id the one without: pays(a, b, e) implies pays(a, b).

The ends can then be bound long before the id, in any order, from lists in which a pair appears once however many edges join it.
"""

from __future__ import annotations

from dataclasses import replace

from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom


def read_pairs(draft: Draft) -> Draft:
    """Add r(x, y) before each r(x, y, id)."""
    atoms: list[Atom] = []
    for atom in draft.atoms:
        arity = draft.statistics.relation(atom).arity
        if not atom.negated and len(atom.attributes) > arity:
            atoms.append(replace(atom, attributes=atom.attributes[:arity]))
        atoms.append(atom)
    return replace(draft, atoms=tuple(atoms))
