"""Bound paths early: where a value never falls along a path, what the last edge may not exceed, no edge before it may exceed.

With `next(e).time > e.time`, the condition `last(e).time - first(e).time < 30` says the same as `e.time - first(e).time < 30`,
which holds for each edge: a path that takes too long is given up where that happens, and not where it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bigjoin.query.expressions import Call, Expression, mapped, walk
from bigjoin.query.operators import OPERATORS
from bigjoin.query.terms import Constant, Property


def bounded_early(conditions: Iterable[Expression]) -> list[Expression]:
    """Return conditions about paths, with those about a last edge said of each edge where that means the same."""
    given = list(conditions)
    trends = {term: sign for condition in given for term, sign in _trends(condition)}
    return [_said_of_each(condition, trends) for condition in given]


def _trends(condition: Expression) -> Iterator[tuple[Property, int]]:
    """Give what a condition says never falls (1) or never rises (-1) from one edge to the next."""
    match condition:
        case Call(op, (one, other)) if op in OPERATORS and not OPERATORS[op].symmetric:
            rises = 1 if OPERATORS[op].is_less else -1
            for here, there, sign in ((one, other, rises), (other, one, -rises)):
                if isinstance(here, Property) and there == _at("next", here):
                    yield here, sign


def _at(place: str, term: Property) -> Call:
    return Call(".", (Call(place, (term.attribute,)), Constant(term.name)))


def _said_of_each(condition: Expression, trends: dict[Property, int]) -> Expression:
    match condition:
        case Call(op, (left, right)) if op in OPERATORS and not OPERATORS[op].symmetric:
            for term, trend in trends.items():
                last = _at("last", term)
                if edges_of(condition, [term.attribute]):
                    continue
                if [part for part in walk(condition) if part == last] != [last]:
                    continue
                grows = (_sign(left, last) or 0) - (_sign(right, last) or 0)
                if grows * (1 if OPERATORS[op].is_less else -1) == trend:  # it bounds the last value on the side it moves to
                    return mapped(condition, lambda part, last=last, term=term: term if part == last else part)  # type: ignore[misc]
    return condition


def _sign(expression: Expression, term: Expression) -> int | None:
    """Return whether an expression grows (1) or falls (-1) with a term that it is a sum of; None if it is no such sum."""
    match expression:
        case _ if expression == term:
            return 1
        case Call("+", (one, other)):
            return _sign(one, term) or _sign(other, term)
        case Call("-", (one, other)):
            found = _sign(other, term)
            return _sign(one, term) or (None if found is None else -found)
    return None


def edges_of(expression: Expression, chains: Iterable[str]) -> dict[str, bool]:
    """Return the paths whose edges an expression is about one by one, each with whether it is about the next edge as well."""
    match expression:
        case Call("first" | "last" | "nodes" | "edges" | "length", (str() as name,)) if name in chains:
            return {}
        case Call("list"):
            return {}
        case Call("every" | "some", (str() as path, condition)):
            return {name: needs for name, needs in edges_of(condition, chains).items() if name != path}
        case Call("next", (str() as name,)) if name in chains:
            return {name: True}
        case Call(_, arguments):
            found: dict[str, bool] = {}
            for inner in (edges_of(argument, chains) for argument in arguments):
                found |= {name: needs or found.get(name, False) for name, needs in inner.items()}
            return found
    if isinstance(expression, Property):
        expression = expression.attribute
    return {expression: False} if isinstance(expression, str) and expression in chains else {}
