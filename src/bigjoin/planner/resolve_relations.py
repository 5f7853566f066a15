"""Refuse what the source cannot answer: unknown relations, the wrong number of attributes, values of different domains."""

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
    domains = {a: draft.domain(a) for a in draft.attributes}
    for atom in draft.atoms:
        for attribute, domain in zip(atom.attributes, known[atom.relation].domains, strict=True):
            if domains[attribute] != domain:
                message = f"{attribute!r} is a {domains[attribute]} elsewhere, and a {domain} here"
                raise QueryError(message, atom.span, "use two attributes")
    for comparison in draft.filters:
        if len({domains[a] for a in comparison.attributes}) > 1:
            raise QueryError(f"'{comparison}' compares values of different domains", comparison.span)
    return draft
