"""The tree of a Cypher query: what the text says, before anybody asks what it means.

Every part has a `span`, so that an error can point at it; spans do not count when trees are compared.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import TypeAlias

from bigjoin.errors import Span

Direction: TypeAlias = typing.Literal["out", "in", "either"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CypherPart:
    """A part of a query, and where it stands in the text."""

    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def children(self) -> Iterator[CypherPart]:
        """The parts directly below this one, in the order of the fields."""
        for each in fields(self):
            yield from _parts(getattr(self, each.name))


def _parts(value: object) -> Iterator[CypherPart]:
    if isinstance(value, CypherPart):
        yield value
    elif isinstance(value, tuple):
        for element in value:
            yield from _parts(element)


@dataclass(frozen=True, slots=True, eq=False)
class Literal(CypherPart):
    """A value that is written in the query. Values of different types differ, though Python's `1 == True` holds."""

    value: bool | int | float | str | None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and type(self.value) is type(other.value) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


@dataclass(frozen=True, slots=True)
class ListLiteral(CypherPart):
    """`[1, 2]`."""

    elements: tuple[CypherExpression, ...]


@dataclass(frozen=True, slots=True)
class MapLiteral(CypherPart):
    """`{k: v}`."""

    entries: tuple[tuple[str, CypherExpression], ...]


@dataclass(frozen=True, slots=True)
class Parameter(CypherPart):
    """`$name` or `$1`, without the dollar sign."""

    name: str


@dataclass(frozen=True, slots=True)
class Variable(CypherPart):
    """A name that a pattern binds, or in ORDER BY the alias of a column."""

    name: str


@dataclass(frozen=True, slots=True)
class PropertyAccess(CypherPart):
    """`subject.name`."""

    subject: CypherExpression
    name: str


@dataclass(frozen=True, slots=True)
class Subscript(CypherPart):
    """`subject[at]`."""

    subject: CypherExpression
    at: CypherExpression


@dataclass(frozen=True, slots=True)
class SubList(CypherPart):
    """`subject[start..stop]`."""

    subject: CypherExpression
    start: CypherExpression | None
    stop: CypherExpression | None


@dataclass(frozen=True, slots=True)
class HasLabels(CypherPart):
    """`subject:A:B`: all of the labels, or with `any_label` (`subject:A|B`) one of them."""

    subject: CypherExpression
    labels: tuple[str, ...]
    any_label: bool = False


@dataclass(frozen=True, slots=True)
class Compare(CypherPart):
    """A comparison by `=`, `!=`, `<`, `<=`, `>` or `>=`. A chain `a < b < c` is the And of its comparisons."""

    left: CypherExpression
    operator: str
    right: CypherExpression


@dataclass(frozen=True, slots=True)
class And(CypherPart):
    """Two or more conditions that must all hold."""

    parts: tuple[CypherExpression, ...]


@dataclass(frozen=True, slots=True)
class Or(CypherPart):
    """Two or more conditions of which one must hold."""

    parts: tuple[CypherExpression, ...]


@dataclass(frozen=True, slots=True)
class Xor(CypherPart):
    """Two or more conditions of which an odd number must hold."""

    parts: tuple[CypherExpression, ...]


@dataclass(frozen=True, slots=True)
class Not(CypherPart):
    """A condition that must not hold."""

    part: CypherExpression


@dataclass(frozen=True, slots=True)
class IsNull(CypherPart):
    """`part IS NULL`, or IS NOT NULL."""

    part: CypherExpression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In(CypherPart):
    """`left IN right`."""

    left: CypherExpression
    right: CypherExpression


@dataclass(frozen=True, slots=True)
class StringMatch(CypherPart):
    """A comparison of text by `STARTS WITH`, `ENDS WITH`, `CONTAINS` or `=~` (the `kind`)."""

    left: CypherExpression
    kind: str
    right: CypherExpression


@dataclass(frozen=True, slots=True)
class Arithmetic(CypherPart):
    """An operation by `+`, `-`, `*`, `/`, `%` or `^`."""

    left: CypherExpression
    operator: str
    right: CypherExpression


@dataclass(frozen=True, slots=True)
class Negative(CypherPart):
    """`-part`. The negative of a number that is written in the query is a Literal."""

    part: CypherExpression


@dataclass(frozen=True, slots=True)
class FunctionCall(CypherPart):
    """A function's name as written, dots included, and its arguments."""

    name: str
    arguments: tuple[CypherExpression, ...]
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class CountStar(CypherPart):
    """`count(*)`."""


@dataclass(frozen=True, slots=True)
class Case(CypherPart):
    """`CASE subject WHEN .. THEN .. ELSE otherwise END`; without a subject, the branches have conditions."""

    subject: CypherExpression | None
    branches: tuple[tuple[CypherExpression, CypherExpression], ...]
    otherwise: CypherExpression | None


@dataclass(frozen=True, slots=True)
class Quantifier(CypherPart):
    """`all(variable IN members WHERE where)`, also by `any`, `none` and `single` (the `kind`)."""

    kind: str
    variable: str
    members: CypherExpression
    where: CypherExpression


@dataclass(frozen=True, slots=True)
class Comprehension(CypherPart):
    """`[variable IN members | result]`."""

    variable: str
    members: CypherExpression
    result: CypherExpression


@dataclass(frozen=True, slots=True)
class NodePattern(CypherPart):
    """`(variable:A:B {k: v})`: all of the labels, or with `any_label` (`:A|B`) one of them."""

    variable: str | None = None
    labels: tuple[str, ...] = ()
    any_label: bool = False
    properties: tuple[tuple[str, CypherExpression], ...] = ()


@dataclass(frozen=True, slots=True)
class RelationshipPattern(CypherPart):
    """`-[variable:T1|T2 {k: v}]->`. An edge has one type, so several types mean any of them."""

    variable: str | None = None
    types: tuple[str, ...] = ()
    direction: Direction = "out"
    properties: tuple[tuple[str, CypherExpression], ...] = ()
    hops: tuple[int | None, int | None] | None = None
    """The fewest and the most edges of a variable length, None where the text has no bound: `*` is (None, None)."""


@dataclass(frozen=True, slots=True)
class PathPattern(CypherPart):
    """Nodes and the relationships between them, one fewer than the nodes."""

    nodes: tuple[NodePattern, ...]
    relationships: tuple[RelationshipPattern, ...] = ()
    variable: str | None = None
    """p, in `p = (a)-->(b)`."""
    function: str | None = None
    """`shortestPath` or `allShortestPaths`, if one is asked for."""


@dataclass(frozen=True, slots=True)
class ExistsPattern(CypherPart):
    """`EXISTS { MATCH patterns WHERE where }`, also `exists((a)-->(b))`. Its patterns may bind names of their own."""

    patterns: tuple[PathPattern, ...]
    where: CypherExpression | None = None


@dataclass(frozen=True, slots=True)
class PatternPredicate(CypherPart):
    """A path as a condition, `(a)-[:T]->(b)`. It binds no new names."""

    path: PathPattern


CypherExpression: TypeAlias = (
    Literal
    | ListLiteral
    | MapLiteral
    | Parameter
    | Variable
    | PropertyAccess
    | Subscript
    | SubList
    | HasLabels
    | Compare
    | And
    | Or
    | Xor
    | Not
    | IsNull
    | In
    | StringMatch
    | Arithmetic
    | Negative
    | FunctionCall
    | CountStar
    | Case
    | Quantifier
    | Comprehension
    | ExistsPattern
    | PatternPredicate
)


@dataclass(frozen=True, slots=True)
class MatchClause(CypherPart):
    """`MATCH patterns WHERE where`, or OPTIONAL MATCH."""

    patterns: tuple[PathPattern, ...]
    where: CypherExpression | None = None
    optional: bool = False


@dataclass(frozen=True, slots=True)
class ReturnItem(CypherPart):
    """A column of the result; `text` is the expression as written, which names the column if there is no alias."""

    expression: CypherExpression
    alias: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class SortItem(CypherPart):
    """What ORDER BY sorts by."""

    expression: CypherExpression
    descending: bool = False


@dataclass(frozen=True, slots=True)
class ReturnClause(CypherPart):
    """`RETURN DISTINCT items ORDER BY order SKIP skip LIMIT limit`; `star` is `*`, which may come before items."""

    items: tuple[ReturnItem, ...]
    star: bool = False
    distinct: bool = False
    order: tuple[SortItem, ...] = ()
    skip: Literal | Parameter | None = None
    limit: Literal | Parameter | None = None


@dataclass(frozen=True, slots=True)
class WithClause(CypherPart):
    """`WITH items ... WHERE where`: what a RETURN says, and a condition on its rows."""

    projection: ReturnClause
    where: CypherExpression | None = None


@dataclass(frozen=True, slots=True)
class CypherQuery(CypherPart):
    """The clauses before RETURN, in their order, and RETURN."""

    clauses: tuple[MatchClause | WithClause, ...]
    returns: ReturnClause | None = None
