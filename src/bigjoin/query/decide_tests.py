"""Decide atoms that are parts of conditions: there is one query in which such an atom holds, and one in which it does not.

`a.x > 1 or edge(a, b)` is no conjunction, so no atom of the query says it. But a tuple is there or it is not: the
matches are those with the tuple, and those without it for which `a.x > 1` holds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from bigjoin.errors import QueryError
from bigjoin.query.expressions import Expression, Holds, anchored, folded, mapped, walk
from bigjoin.query.operators import NOT_EQUAL
from bigjoin.query.query import Comparison, Predicate, Query, QueryFilter, conditions
from bigjoin.query.terms import Constant

MAX_DECIDED_ATOMS = 8
"""Atoms in conditions: each doubles the number of queries."""


def with_tests_decided(query: Query) -> tuple[Query, ...]:
    """Return the queries for each choice of which atoms in conditions hold, without those in which no match is left."""
    within = (part for f in query.filters if isinstance(f, Predicate) for part in walk(f.expression))
    tests = tuple(dict.fromkeys(part for part in within if isinstance(part, Holds)))
    if not tests:
        return (query,)
    if len(tests) > MAX_DECIDED_ATOMS:
        message = f"at most {MAX_DECIDED_ATOMS} patterns and labels can stand beside OR or NOT, not {len(tests)}"
        raise QueryError(message, tests[0].span, "ask for some of them by themselves")
    found = []
    for choice in product((True, False), repeat=len(tests)):
        filters = _decided_by(dict(zip(tests, choice, strict=True)), query)
        atoms = (replace(test.atom, negated=not holds) for test, holds in zip(tests, choice, strict=True))
        found += [] if filters is None else [replace(query, atoms=(*query.atoms, *atoms), filters=filters)]
    return tuple(found) or (replace(query, filters=(never(query),)),)


def _decided_by(truth: dict[Holds, bool], query: Query) -> tuple[QueryFilter, ...] | None:
    """Return the filters of a query in which some atoms are known to hold or not; None if one filter then never holds."""
    found: list[QueryFilter] = []
    for given in query.filters:
        if not isinstance(given, Predicate):
            found.append(given)
            continue
        decided = mapped(given.expression, lambda part: Constant(truth[part]) if isinstance(part, Holds) else part)
        if (more := filters_of(decided, given, query)) is None:
            return None
        found += more
    return tuple(found)


def filters_of(expression: Expression, given: Predicate, query: Query) -> tuple[QueryFilter, ...] | None:
    """Return the filters that say what is left of a predicate; None if it never holds."""
    left = folded(expression)
    if left == Constant(True):
        return ()
    if isinstance(left, Constant):
        return None
    return conditions(anchored(left, query.attributes[0]), query.dialect, given.span)


def never(query: Query) -> Comparison:
    """Return what never holds."""
    return Comparison(query.attributes[0], NOT_EQUAL.text, query.attributes[0])
