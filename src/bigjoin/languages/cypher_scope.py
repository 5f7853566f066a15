"""What the parts of a Cypher text share: attributes of variables, parameters, and how what is not supported is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from itertools import count
from typing import Any, NoReturn

from bigjoin.errors import QueryError, Span, did_you_mean
from bigjoin.languages import cypher_tree as tree
from bigjoin.query.terms import Constant, Value

LATER = "not supported yet"


@dataclass
class Names:
    """The attribute of every variable, and fresh ones."""

    text: str
    used: frozenset[str]
    """Relationships that are named outside of their patterns, so that they need an id."""
    parameters: Mapping[str, Value]
    attributes: dict[str, str] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    """The attributes that only an OPTIONAL MATCH binds, so that they may be NULL."""
    _numbers: Iterator[int] = field(default_factory=lambda: count(1))

    def attribute(self, variable: str, kind: str, span: Span | None) -> str:
        """Return the attribute of a variable; refuse one that is a node here and a relationship there."""
        if self.kinds.setdefault(variable, kind) != kind:
            raise QueryError(f"{variable!r} is a {self.kinds[variable]} elsewhere, and a {kind} here", span, "use two names")
        if variable not in self.attributes:
            name = variable if variable.isidentifier() and not variable.startswith("_") else f"v{len(self.attributes)}"
            while name in self.attributes.values():
                name += "_"
            self.attributes[variable] = name
        return self.attributes[variable]

    def fresh(self) -> str:
        """Return an attribute that nobody names."""
        return f"_{next(self._numbers)}"


AGGREGATES = ("count", "sum", "avg", "min", "max", "collect", "stdev", "stdevp", "percentilecont", "percentiledisc")

_UNSUPPORTED: tuple[tuple[type[tree.CypherPart], str, str], ...] = (
    (tree.Or, "OR", "ask for each side by itself, and unite the results"),
    (tree.Xor, "XOR", "ask for each side by itself, and unite the results"),
    (tree.In, "IN", "compare with one value, or filter the result"),
    (tree.IsNull, "IS NULL", "filter the result: a comparison is never true of NULL"),
    (tree.StringMatch, "a comparison of parts of text", "filter the result"),
    (tree.Arithmetic, "arithmetic", "filter the result, or add a column to the source"),
    (tree.Negative, "arithmetic", "filter the result, or add a column to the source"),
    (tree.Case, "CASE", "add a column to the result"),
    (tree.ListLiteral, "a list", "compare with one value"),
    (tree.MapLiteral, "a map", "compare properties one by one"),
    (tree.Subscript, "an index into a list", "compare properties"),
    (tree.SubList, "a part of a list", "compare properties"),
    (tree.CountStar, "an aggregate in a condition", "filter the result"),
)


def unsupported(expression: tree.Expression) -> NoReturn:
    """Refuse an expression, by name."""
    if isinstance(expression, tree.Call):
        what = (
            "an aggregate in a condition" if expression.name.casefold() in AGGREGATES else f"the function {expression.name}()"
        )
        later(what, expression.span, "compare variables, properties and constants")
    for kind, name, hint in _UNSUPPORTED:
        if isinstance(expression, kind):
            later(name, expression.span, hint)
    if isinstance(expression, tree.PropertyAccess):
        later("a property of a property", expression.span, "properties are flat: a.name")
    hint = "compare it with something, as in a.age > 30"
    raise QueryError("this is not a condition", expression.span, hint)


def later(what: str, span: Span | None, hint: str | None = None) -> NoReturn:
    """Refuse something that people write in Cypher, by name."""
    raise QueryError(f"{what} is {LATER}", span, hint)


def constant_of(value: Any, span: Span | None, name: str = "a value") -> Constant:
    """Return a literal or the value of a parameter as a constant of a query."""
    if value is None:
        raise QueryError("a comparison with null is never true", span, "IS NULL is not supported yet: filter the result")
    if isinstance(value, (date, datetime)):
        return Constant(value.isoformat(sep=" ") if isinstance(value, datetime) else value.isoformat())
    if hasattr(value, "item") and not isinstance(value, (bool, int, float, str)):
        value = value.item()  # a NumPy scalar
    if not isinstance(value, (bool, int, float, str)):
        raise QueryError(f"{name} is a {type(value).__name__}", span, "give a number, text, true or false, a date or a time")
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
    """Return the relationships that expressions name, or several patterns: they need an id."""
    patterns = [part.variable for part in _walk(query) if isinstance(part, tree.RelationshipPattern) and part.variable]
    named = {part.name for part in _walk(query) if isinstance(part, tree.Variable)}
    star = set(patterns) if query.returns is not None and query.returns.star else set()
    return frozenset(v for v in patterns if v in named or v in star or patterns.count(v) > 1)


def check_parameters(query: tree.CypherQuery, given: Mapping[str, Value]) -> None:
    """Refuse parameters that are not given, and given ones that the text does not have."""
    used = {part.name: part for part in _walk(query) if isinstance(part, tree.Parameter)}
    for name, part in used.items():
        if name not in given:
            hint = did_you_mean(name, given) or f"give parameters={{{name!r}: ...}} (--param {name}=VALUE)"
            raise QueryError(f"the parameter ${name} has no value", part.span, hint)
    if unused := sorted(given.keys() - used.keys()):
        hint = did_you_mean(unused[0], used) or "leave it out"
        raise QueryError(f"the query has no parameter ${unused[0]}", hint=hint)
