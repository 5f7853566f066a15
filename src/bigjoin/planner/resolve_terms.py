"""Refuse properties that the source does not have and comparisons between ids of different domains; read `a.id` as `a`."""

from __future__ import annotations

from dataclasses import replace

from bigjoin.errors import QueryError, did_you_mean
from bigjoin.planner.draft import Draft
from bigjoin.query.query import Comparison, Operand, Property


def resolve_terms(draft: Draft) -> Draft:
    """Set the filters, with ids where they were spelled as properties."""
    for term in draft.query.head:
        _resolved(term, draft, None)
    filters = tuple(replace(f, left=_resolved(f.left, draft, f), right=_resolved(f.right, draft, f)) for f in draft.filters)
    for comparison in filters:
        if not comparison.properties and len({draft.domain(a) for a in comparison.attributes}) > 1:
            raise QueryError(f"'{comparison}' compares values of different domains", comparison.span)
    return replace(draft, filters=filters)


def _resolved(operand: Operand, draft: Draft, comparison: Comparison | None) -> Operand:
    """Return an operand, or the attribute for the property that is its id; raise QueryError if there is no such property."""
    if not isinstance(operand, Property):
        return operand
    domain = draft.domain(operand.attribute)
    if draft.statistics.is_id(domain, operand.name):
        return operand.attribute
    known = draft.statistics.properties.get(domain, {})
    if operand.name in known:
        return operand
    span = operand.span or (comparison.span if comparison else None)
    elsewhere = [d for d, names in draft.statistics.properties.items() if operand.name in names]
    if known:
        listed = ", ".join(f"{name} ({kind})" for name, kind in sorted(known.items()))
        message = f"{operand.attribute!r} is a {domain}, and has no property {operand.name!r}"
        hint = did_you_mean(operand.name, known) or f"its properties are {listed}"
    else:
        message = f"{operand.attribute!r} is a {domain}, and this source has no properties of those"
        hint = "properties are the further columns of the tables that an index is built from"
    if elsewhere:
        hint = f"{operand.name!r} is a property of a {elsewhere[0]}" + _naming(elsewhere[0], operand.name, draft)
    raise QueryError(message, span, hint)


def _naming(domain: str, name: str, draft: Draft) -> str:
    """Say how to speak of a property of edges: by an edge id."""
    for relation, statistics in draft.statistics.relations.items():
        if statistics.rows is not None and statistics.rows.domains[-1] == domain:
            return f": name the edge, {relation}(a, b, e), and write e.{name}"
    return ""
