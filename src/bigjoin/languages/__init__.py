"""Text -> Query. Each language is a module of its own and knows none of the others; `parse` tells them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

from bigjoin.errors import QueryError
from bigjoin.languages import datalog, named
from bigjoin.query.query import Comparison, Query, validate
from bigjoin.query.terms import Constant, Operand


class Flags(TypedDict, total=False):
    """What goes with a query's text: further filters and columns, and the flags that say which bindings are matches."""

    where: str | None
    select: str | None
    distinct: bool
    unique: bool
    induced: bool
    cross_product: bool
    deduplicate: bool


def parse(text: str, **flags: Unpack[Flags]) -> Query:
    """Return the validated query that `text` (a name or a rule), `where`, `select` and the flags stand for."""
    stripped = text.strip()
    if not stripped:
        raise QueryError("the query is empty", hint="give a name such as 'triangle', or a rule: q(a,b) := edge(a,b)")
    query = named.parse(stripped) if named.is_name(stripped) else datalog.parse(text)
    return refine(query, **flags)


def refine(
    query: Query,
    *,
    where: str | None = None,
    select: str | None = None,
    distinct: bool = False,
    unique: bool = False,
    induced: bool = False,
    cross_product: bool = False,
    deduplicate: bool = False,
) -> Query:
    """Return a query with further filters, properties in its head, and flags, validated; what it has already stays."""
    filters = query.filters + (datalog.parse_filters(where) if where and where.strip() else ())
    return validate(
        replace(
            query,
            head=query.head + (datalog.parse_properties(select) if select and select.strip() else ()),
            filters=tuple(_with_truth_values(comparison, query.attributes) for comparison in filters),
            distinct=distinct or query.distinct,
            unique=unique or query.unique,
            induced=induced or query.induced,
            cross_product=cross_product or query.cross_product,
            deduplicate=deduplicate or query.deduplicate,
        )
    )


def _with_truth_values(comparison: Comparison, bound: tuple[str, ...]) -> Comparison:
    """Return a comparison with `true` and `false` as constants, unless an atom binds an attribute of that name."""

    def read(side: Operand) -> Operand:
        word = side.casefold() if isinstance(side, str) and side not in bound else None
        return Constant(word == "true") if word in ("true", "false") else side

    read_as = replace(comparison, left=read(comparison.left), right=read(comparison.right))
    if not read_as.attributes:
        raise QueryError(f"'{read_as}' compares two constants", comparison.span, "compare an attribute")
    return read_as
