"""What a SELECT says, before it is known which tables there are: a tree of its clauses, with a span on every part.

Expressions are those of `query/expressions.py`. A column is a `Property` of the table that it is qualified with, or of "" if
it is not; an `Aggregate` or a `Subquery` may stand for a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from bigjoin.errors import Span
from bigjoin.query.expressions import Call
from bigjoin.query.grouping import Aggregate
from bigjoin.query.terms import Property

JoinKind: TypeAlias = Literal["inner", "left", "semi", "anti"]

SqlExpression: TypeAlias = Any
"""An Expression in which an Aggregate or a Subquery may stand for a value."""

UNQUALIFIED = ""
"""The table of a column that is written without one."""


@dataclass(frozen=True, slots=True)
class Subquery:
    """A SELECT in a condition: EXISTS (SELECT ...), or `operand` IN (SELECT ...)."""

    select: Select
    operand: SqlExpression = None
    span: Span | None = field(default=None, compare=False, repr=False)

    def __str__(self) -> str:
        return "EXISTS (SELECT ...)" if self.operand is None else f"{self.operand} IN (SELECT ...)"


@dataclass(frozen=True, slots=True)
class Star:
    """All columns, or those of one table."""

    table: str | None
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Item:
    """A column of the result: what it is, the name that it is given, and the name that it has otherwise."""

    expression: SqlExpression
    alias: str | None
    natural: str
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TableUse:
    """A table in FROM, under a name of its own."""

    table: str
    alias: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Derived:
    """A SELECT in FROM, or one of WITH that is used there."""

    select: Select
    alias: str
    columns: tuple[str, ...]
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Nested:
    """Joined tables in parentheses."""

    joined: tuple[Joined, ...]
    span: Span = field(compare=False, repr=False)


Source: TypeAlias = TableUse | Derived | Nested


@dataclass(frozen=True, slots=True)
class Joined:
    """What FROM adds to the tables before it, and on which condition."""

    source: Source
    kind: JoinKind = "inner"
    on: SqlExpression = None
    using: tuple[tuple[str, Span], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Sort:
    """What rows are sorted by."""

    expression: SqlExpression
    descending: bool
    nulls_first: bool
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Select:
    """A SELECT with its clauses."""

    items: tuple[Item | Star, ...]
    joined: tuple[Joined, ...]
    where: SqlExpression = None
    distinct: bool = False
    group: tuple[SqlExpression, ...] | None = None
    """None without GROUP BY."""
    group_all: bool = False
    """Whether rows are grouped by all columns without an aggregate: GROUP BY ALL."""
    having: SqlExpression = None
    order: tuple[Sort, ...] = ()
    limit: int | None = None
    offset: int = 0
    cross_product: bool = False
    """Whether tables need not be joined: it is asked for besides the text."""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def is_grouped(self) -> bool:
        """Whether its rows are groups."""
        parts = [*(item.expression for item in self.items if isinstance(item, Item)), self.having]
        parts += [sort.expression for sort in self.order]
        return self.group is not None or self.group_all or any(map(has_aggregate, parts))


def inside(expression: SqlExpression) -> Iterator[SqlExpression]:
    """Give an expression and all within it, also what is aggregated."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from inside(argument)
    elif isinstance(expression, Aggregate) and expression.argument is not None:
        yield from inside(expression.argument)


def has_aggregate(expression: SqlExpression) -> bool:
    """Tell whether an expression has an aggregate in it."""
    return any(isinstance(part, Aggregate) for part in inside(expression))


def uses_of(expression: SqlExpression) -> set[str]:
    """Return the tables that an expression names, also in what is aggregated."""
    return {part.attribute for part in inside(expression) if isinstance(part, Property)}


def span_of(expression: SqlExpression) -> Span | None:
    """Return where an expression stands, as far as its parts know."""
    spans = [span for part in inside(expression) if (span := getattr(part, "span", None)) is not None]
    return Span(spans[0].text, min(s.start for s in spans), max(s.end for s in spans)) if spans else None
