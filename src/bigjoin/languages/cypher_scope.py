"""What the parts of a Cypher text share: attributes of variables, parameters, and how what is not supported is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Any, NoReturn

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_paths import PathList
from bigjoin.query.expressions import Expression, attributes_of
from bigjoin.query.terms import Constant, ParameterValue

LATER = "not supported yet"

LIST, PATH = "list of relationships", "path"
"""What a relationship of several hops and a path are called, beside a 'node' and a 'relationship'."""


@dataclass
class Names:
    """The attribute of every variable, and fresh ones."""

    text: str
    used: frozenset[str]
    """Relationships that are named outside of their patterns, so that they need an id."""
    parameters: Mapping[str, ParameterValue]
    attributes: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    values: dict[str, Expression] = field(default_factory=dict)
    """What a WITH gave names to: expressions of attributes."""
    optional: set[str] = field(default_factory=set)
    """The attributes that only an OPTIONAL MATCH binds, so that they may be NULL."""
    types: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The types of each attribute that is a relationship."""
    lists: dict[tuple[str, str], PathList] = field(default_factory=dict)
    """The nodes and the relationships of each path, by its attribute and by what they are."""
    _taken: set[str] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def attribute(self, variable: str, kind: str, span: Span | None) -> str:
        """Return the attribute of a variable; refuse one that is a node here and a relationship there."""
        if self.kinds.setdefault(variable, kind) != kind:
            raise QueryError(f"{variable!r} is a {self.kinds[variable]} elsewhere, and a {kind} here", span, "use two names")
        if variable not in self.attributes:
            name = variable if variable.isidentifier() and not variable.startswith("_") else f"v{len(self._taken)}"
            while name in self._taken:
                name += "_"
            self.attributes[variable] = name
            self._taken.add(name)
        return self.attributes[variable]

    def may_be_missing(self, expression: Expression) -> bool:
        """Tell whether an expression is about something that only an OPTIONAL MATCH binds."""
        return not self.optional.isdisjoint(attributes_of(expression))

    def pass_on(self, elements: Mapping[str, str], values: Mapping[str, Expression]) -> None:
        """Keep what a WITH passes on: the variable behind each name, and values; other names may then mean something else."""
        self.attributes = {name: self.attributes[variable] for name, variable in elements.items()}
        self.kinds = {name: self.kinds[variable] for name, variable in elements.items()}
        self.values = dict(values)

    def fresh(self) -> str:
        """Return an attribute that nobody names."""
        return f"_{next(self._numbers)}"


_UNSUPPORTED: tuple[tuple[type[tree.CypherPart], str, str], ...] = (
    (tree.ListLiteral, "a list outside of IN", "compare with one value, or write IN [1, 2]"),
    (tree.MapLiteral, "a map", "compare properties one by one"),
    (tree.Subscript, "an index into a list", "compare properties"),
    (tree.SubList, "a part of a list", "compare properties"),
)


def unsupported(expression: tree.CypherExpression) -> NoReturn:
    """Refuse an expression, by name."""
    for kind, name, hint in _UNSUPPORTED:
        if isinstance(expression, kind):
            later(name, expression.span, hint)
    raise AssertionError(expression)


def later(what: str, span: Span | None, hint: str | None = None) -> NoReturn:
    """Refuse something that people write in Cypher, by name."""
    raise QueryError(f"{what} is {LATER}", span, hint)


def constant_of(value: Any, span: Span | None, name: str = "a value") -> Constant:
    """Return a literal or the value of a parameter as a constant of a query."""
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        value = value.item()  # a NumPy scalar
    if isinstance(value, datetime):
        return Constant(value if value.tzinfo is None else value.astimezone(UTC))
    if value is not None and not isinstance(value, (bool, int, float, str, date, Decimal)):
        is_list = isinstance(value, list | tuple | set | frozenset)
        hint = f"write IN {name}" if is_list else "give a number, text, true or false, a date, a time or a list"
        raise QueryError(f"{name} is a {type(value).__name__}", span, hint)
    return Constant(value)


def _walk(part: tree.CypherPart) -> Iterator[tree.CypherPart]:
    yield part
    for child in part.children:
        yield from _walk(child)


def variables_of(part: tree.CypherPart) -> set[str]:
    """Return the variables that a part of a query names."""
    found = set()
    for each in _walk(part):
        if isinstance(each, tree.Variable):
            found.add(each.name)
        elif isinstance(each, (tree.NodePattern, tree.RelationshipPattern, tree.PathPattern)) and each.variable is not None:
            found.add(each.variable)
    return found


def used_relationships(query: tree.CypherQuery) -> frozenset[str]:
    """Return what needs ids: relationships that expressions or several patterns name, and paths whose relationships are."""
    patterns = [part.variable for part in _walk(query) if isinstance(part, tree.RelationshipPattern) and part.variable]
    named = {part.name for part in _outside_of_type(query) if isinstance(part, tree.Variable)}
    star = set(patterns) if query.returns is not None and query.returns.star else set()
    calls = (part for part in _walk(query) if isinstance(part, tree.FunctionCall) and part.name.casefold() in _RELATIONSHIPS)
    paths = {part.name for call in calls for part in call.arguments if isinstance(part, tree.Variable)}
    return frozenset((*paths, *(v for v in patterns if v in named or v in star or patterns.count(v) > 1)))


_RELATIONSHIPS = ("relationships", "rels")


def _outside_of_type(part: tree.CypherPart) -> Iterator[tree.CypherPart]:
    """Give the parts of a query without the arguments of type(), which needs no id."""
    yield part
    if not (isinstance(part, tree.FunctionCall) and part.name.casefold() == "type"):
        for child in part.children:
            yield from _outside_of_type(child)


def check_parameters(query: tree.CypherQuery, given: Mapping[str, ParameterValue]) -> None:
    """Refuse parameters that are not given, and given ones that the text does not have."""
    used = {part.name: part for part in _walk(query) if isinstance(part, tree.Parameter)}
    for name, part in used.items():
        if name not in given:
            hint = did_you_mean(name, given) or f"give parameters={{{name!r}: ...}} (--param {name}=VALUE)"
            raise QueryError(f"the parameter ${name} has no value", part.span, hint)
    if unused := sorted(given.keys() - used.keys()):
        hint = did_you_mean(unused[0], used) or "leave it out"
        raise QueryError(f"the query has no parameter ${unused[0]}", hint=hint)
