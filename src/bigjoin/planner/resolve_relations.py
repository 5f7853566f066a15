"""Refuse atoms that the source cannot answer: unknown relations, the wrong number of attributes, values of two domains."""

from __future__ import annotations

from bigjoin.errors import QueryError, did_you_mean
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Atom
from bigjoin.query.statistics import RelationStatistics


def resolve_relations(draft: Draft) -> Draft:
    """Return the draft unchanged if its relations exist and fit."""
    known = draft.statistics.relations
    for atom in draft.atoms:
        if atom.relation not in known:
            hint = did_you_mean(atom.relation, known) or f"the source has {', '.join(sorted(known))}"
            raise QueryError(f"there is no relation {atom.relation!r}", atom.span, hint)
        if len(atom.attributes) != draft.statistics.of(atom).arity:
            raise _misfit(atom, known[atom.relation])
    domains = {a: draft.domain(a) for a in draft.attributes}
    for atom in draft.atoms:
        for attribute, domain in zip(atom.attributes, draft.statistics.of(atom).domains, strict=True):
            if domains[attribute] != domain:
                message = f"{attribute!r} is {_a(domains[attribute])} elsewhere, and {_a(domain)} here"
                raise QueryError(message, atom.span, "use two attributes")
    return draft


def _a(domain: str) -> str:
    return f"{'an' if domain[0] in 'aeiou' else 'a'} {domain}"


def _misfit(atom: Atom, relation: RelationStatistics) -> QueryError:
    """Return the error of an atom with too few or too many attributes."""
    name, arity, asked = atom.relation, relation.arity, len(atom.attributes)
    columns = f"{arity} column{'s' * (arity != 1)}"
    hint = f"write {name}({', '.join('abcdefgh'[:arity])})"
    if relation.rows is not None:
        message = f"{name!r} has {columns}, and an edge id as one more, not {asked}"
        return QueryError(message, atom.span, f"{hint}, or {name}({', '.join('abcdefgh'[:arity])}, e) to name the edge")
    if arity == 2 and asked == 3:
        message = f"this index keeps no edge ids for {name!r}: it has {columns}, not {asked}"
        hint += ", or build the index from a table with further columns or with --parallel (parallel=True), which keeps them"
        return QueryError(message, atom.span, hint)
    return QueryError(f"{name!r} has {columns}, not {asked}", atom.span, hint)
