"""Refuse properties that the source lacks and comparisons between ids of different domains; read `a.id` as `a`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from bigjoin.errors import QueryError, did_you_mean
from bigjoin.planner.draft import Draft
from bigjoin.query.expressions import Call, Expression, Holds, mapped
from bigjoin.query.query import Predicate, QueryFilter
from bigjoin.query.terms import Operand, Property


def resolve_terms(draft: Draft) -> Draft:
    """Set the filters, with attributes where ids were spelled as properties."""
    head = tuple(term if isinstance(term, str) else mapped(term, lambda part: _part(part, draft)) for term in draft.query.head)
    if head != draft.query.head:
        draft = replace(draft, query=replace(draft.query, head=head, names=draft.query.columns))
    return replace(draft, filters=tuple(_filter(f, draft) for f in draft.filters))


def _filter(given: QueryFilter, draft: Draft) -> QueryFilter:
    if isinstance(given, Predicate):
        expression = mapped(given.expression, lambda part: _part(part, draft))
        assert isinstance(expression, Call)
        return replace(given, expression=expression)
    comparison = replace(given, left=_resolved(given.left, draft), right=_resolved(given.right, draft))
    if not comparison.properties and any(len(_domains(pair, draft)) > 1 for pair in comparison.pairs):
        raise QueryError(f"'{comparison}' compares values of different domains", comparison.span)
    return comparison


def _part(part: Expression, draft: Draft) -> Expression:
    return part if isinstance(part, Call | Holds) else _resolved(part, draft)


def _domains(pair: Iterable[Operand], draft: Draft) -> set[str]:
    """Return the domains of the attributes of a comparison of ids."""
    return {draft.domain(side) for side in pair if isinstance(side, str)}


def _resolved(operand: Operand, draft: Draft) -> Operand:
    """Return an operand, or the attribute if it is the property `id`; raise QueryError if there is no such property."""
    if not isinstance(operand, Property):
        return operand
    domain = draft.domain(operand.attribute)
    if draft.statistics.is_id(domain, operand.name):
        return operand.attribute
    known = draft.statistics.properties.get(domain, {})
    if operand.name in known:
        return operand
    span = operand.span
    written = operand.attribute if span is None else span.text[span.start : span.end].rpartition(".")[0] or operand.attribute
    message = f"{written!r} has no property {operand.name!r}"
    hint = f"its properties are {', '.join(f'{name} ({kind})' for name, kind in known.items())}"
    if not known:
        message = f"{written!r} has no properties"
        hint = "properties are the further columns of the tables that an index is built from"
    raise QueryError(message, operand.span, _elsewhere(operand.name, draft) or did_you_mean(operand.name, known) or hint)


def _elsewhere(name: str, draft: Draft) -> str | None:
    """Say what does have a property, and how to name an edge."""
    for relation, statistics in draft.statistics.relations.items():
        if statistics.rows is not None and name in draft.statistics.properties.get(statistics.rows.domains[-1], {}):
            return f"edges have it: name one, as in {relation}(a, b, e), and write e.{name}"
    domains = [domain for domain, names in draft.statistics.properties.items() if name in names]
    return f"it is a property of a {domains[0]}" if domains else None
