"""Drop atoms that cannot fail. Only after symmetry is broken: earlier, a missing atom would have looked like an asymmetry."""

from __future__ import annotations

from dataclasses import replace

from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom


def drop_implied(draft: Draft) -> Draft:
    """Drop `not edge(x, x)`, and `not edge(x, x, id)`, where the relation has no loops."""

    def cannot_fail(atom: Atom) -> bool:
        relation = draft.statistics.relation(atom)
        loop = relation.arity > 1 and len(set(atom.attributes[: relation.arity])) == 1
        return atom.negated and loop and relation.loops == 0

    return replace(draft, atoms=tuple(atom for atom in draft.atoms if not cannot_fail(atom)))
