"""Refuse atoms over relations that the source does not have, or with the wrong number of attributes."""

from __future__ import annotations

from bigjoin.errors import QueryError, did_you_mean
from bigjoin.planner.draft import Draft


def resolve_relations(draft: Draft) -> Draft:
    """Return the draft unchanged if its relations exist and fit."""
    known = draft.statistics.relations
    for atom in draft.atoms:
        if atom.relation not in known:
            hint = did_you_mean(atom.relation, known) or f"the source has {', '.join(sorted(known))}"
            raise QueryError(f"there is no relation {atom.relation!r}", atom.span, hint)
        arity = known[atom.relation].arity
        if len(atom.attributes) != arity:
            message = f"{atom.relation!r} has {arity} columns, not {len(atom.attributes)}"
            raise QueryError(message, atom.span, f"write {atom.relation}({', '.join('abcdefgh'[:arity])})")
    return draft
