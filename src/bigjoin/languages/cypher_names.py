"""The names of a query: what its patterns bind, and that every other part uses only those."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bigjoin.errors import QueryError, did_you_mean
from bigjoin.languages.cypher_tree import (
    Comprehension,
    CypherPart,
    CypherQuery,
    ExistsPattern,
    FunctionCall,
    NodePattern,
    PathPattern,
    PatternPredicate,
    PropertyAccess,
    Quantifier,
    RelationshipPattern,
    ReturnClause,
    Variable,
    WithClause,
)

_KINDS = {NodePattern: "a node", RelationshipPattern: "a relationship", PathPattern: "a path"}
_VALUE = "a value"
_LISTED = {"nodes": "a node", "relationships": "a relationship", "rels": "a relationship"}
"""What the lists that functions give are made of."""


class _Bound(dict[str, str]):
    """Names and what they stand for; after a WITH, there are only those that it passes on."""

    passed_on = False


def check_names(query: CypherQuery) -> None:
    """Raise the first mistake in the names of a query: a name with two meanings, or one that nothing binds."""
    bound = _Bound()
    for clause in query.clauses:
        if isinstance(clause, WithClause):
            _check_returned(clause.projection, bound, "WITH")
            bound = _passed_on(clause.projection, bound)
            if clause.where is not None:
                _check_used(clause.where, bound)
            continue
        bound.update(_bound_by(clause.patterns, bound))
        _check_used(clause, bound)
    if query.returns is not None:
        _check_returned(query.returns, bound)


def _passed_on(projection: ReturnClause, bound: Mapping[str, str]) -> _Bound:
    found = _Bound(bound) if projection.star else _Bound()
    for item in projection.items:
        of = item.expression.name if isinstance(item.expression, Variable) else None
        found[item.alias or of or item.text] = _VALUE if of is None else bound[of]
    found.passed_on = True
    return found


def _bound_by(patterns: Iterable[PathPattern], outer: Mapping[str, str]) -> dict[str, str]:
    """Return what patterns that are matched together bind: each name, and what it stands for."""
    bound: dict[str, str] = {}
    for part in _parts_of(patterns):
        name, kind = part.variable, _KINDS[type(part)]
        if name is None:
            continue
        known = bound.get(name, outer.get(name, kind))
        if known != kind:
            hint = "give one of them another name"
            raise QueryError(f"{name!r} is both {known} and {kind}", part.span, hint)
        if name in bound and kind != _KINDS[NodePattern]:
            hint = "give each one a name of its own, or leave the name out"
            raise QueryError(f"{name!r} is the name of two {kind.split()[1]}s", part.span, hint)
        bound[name] = kind
    return bound


def _parts_of(patterns: Iterable[PathPattern]) -> Iterable[PathPattern | NodePattern | RelationshipPattern]:
    for path in patterns:
        yield path
        for at, node in enumerate(path.nodes):
            yield node
            yield from path.relationships[at : at + 1]


def _check_returned(returns: ReturnClause, bound: _Bound, keyword: str = "RETURN") -> None:
    if returns.star and not bound:
        message = f"{keyword} * has nothing to return: the patterns bind no names"
        raise QueryError(message, returns.span, "name a node: (a)-->(b)")
    for item in returns.items:
        _check_used(item, bound)
    sorted_by = _Bound(bound)
    sorted_by.update({item.alias: "a column" for item in returns.items if item.alias is not None})
    for sort in returns.order:
        _check_used(sort, sorted_by)


def _check_used(root: CypherPart, bound: Mapping[str, str]) -> None:
    """Check the expressions below a part. A pattern in EXISTS may bind further names, a pattern as a condition may not."""
    waiting = [root]
    while waiting:
        part = waiting.pop()
        if isinstance(part, ExistsPattern):
            inner = _Bound({**bound, **_bound_by(part.patterns, bound)})
            for child in part.children:
                _check_used(child, inner)
            continue
        if isinstance(part, Quantifier | Comprehension):
            _check_used(part.members, bound)
            inner = _Bound({**bound, part.variable: _LISTED.get(_function(part.members), _VALUE)})
            _check_used(part.where if isinstance(part, Quantifier) else part.result, inner)
            continue
        if isinstance(part, PatternPredicate):
            _check_condition(part.path, bound)
        if isinstance(part, Variable) and part.name not in bound:
            raise _unknown(part, bound)
        children = list(part.children)
        if isinstance(part, PropertyAccess) and isinstance(part.subject, Variable) and part.subject.name not in bound:
            raise _unknown(part.subject, bound, text=False)
        waiting.extend(reversed(children))


def _function(part: CypherPart) -> str:
    return part.name.casefold() if isinstance(part, FunctionCall) else ""


def _check_condition(path: PathPattern, bound: Mapping[str, str]) -> None:
    for part in _parts_of([path]):
        name, kind = part.variable, _KINDS[type(part)]
        if name is not None and name not in bound:
            hint = did_you_mean(name, bound) or "leave the name out, or write EXISTS { ... }, which may bind new names"
            raise QueryError(f"{name!r} is not bound by a MATCH: a pattern as a condition binds no names", part.span, hint)
        if name is not None and bound[name] != kind:
            raise QueryError(f"{name!r} is both {bound[name]} and {kind}", part.span, "use the name of what MATCH binds")


def _unknown(variable: Variable, bound: Mapping[str, str], *, text: bool = True) -> QueryError:
    name = variable.name
    if isinstance(bound, _Bound) and bound.passed_on:
        return QueryError(f"{name!r} is not passed on by WITH", variable.span, f"write WITH {', '.join(bound)}, {name}")
    listed = f"the patterns bind {', '.join(bound)}" if bound else "the patterns bind no names: write (a) rather than ()"
    quotes = f"; if it is text, put it in quotes: '{name}'" if text else ""
    return QueryError(f"{name!r} is not bound by a MATCH", variable.span, did_you_mean(name, bound) or listed + quotes)
