"""Text -> Query. Each language is a module that does not know the others; `parse` tells them apart."""

from __future__ import annotations

from dataclasses import replace
from typing import TypedDict, Unpack

from bigjoin.errors import QueryError
from bigjoin.languages import datalog, named
from bigjoin.query.query import Comparison, Query, validate
from bigjoin.query.terms import Constant, Operand


class Flags(TypedDict, total=False):
    """What goes with a query's text: more filters and columns, and the flags of `query/flags.py`."""

    where: str | None
    select: str | None
    distinct: bool
    unique: bool
    induced: bool
    cross_product: bool
    deduplicate: bool


def parse(text: str, **flags: Unpack[Flags]) -> Query:
    """Return the validated query of `text` (a name or a rule), `where`, `select` and the flags."""
    stripped = text.strip()
    if not stripped:
        raise QueryError("the query is empty", hint="give a name such as 'triangle', or a rule: q(a,b) := edge(a,b)")
    query = named.parse(stripped) if named.is_name(stripped) else datalog.parse(text)
    return refine(query, **flags)


def refine(query: Query, *, where: str | None = None, select: str | None = None, **flags: bool) -> Query:
    """Return a query with further filters, properties in its head, and flags, validated; it keeps what it already has."""
    flagged = query.with_flags({name: True for name, value in flags.items() if value})
    head = query.head + (datalog.parse_properties(select) if select and select.strip() else ())
    filters = query.filters + (datalog.parse_filters(where) if where and where.strip() else ())
    read = tuple(_with_truth_values(comparison, query.attributes) for comparison in filters)
    return validate(replace(flagged, head=head, filters=read))


def _with_truth_values(comparison: Comparison, bound: tuple[str, ...]) -> Comparison:
    """Return a comparison with `true` and `false` as constants, unless an atom binds an attribute of that name."""

    def read(side: Operand) -> Operand:
        word = side.casefold() if isinstance(side, str) and side not in bound else None
        return Constant(word == "true") if word in ("true", "false") else side

    read_as = replace(comparison, left=read(comparison.left), right=read(comparison.right))
    if not read_as.attributes:
        raise QueryError(f"'{read_as}' compares two constants", comparison.span, "compare an attribute")
    return read_as
