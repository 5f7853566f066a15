"""Expressions of a Cypher text: what its operators and literals are among the functions of `query/functions.py`.

Who reads an expression decides what its variables are: a MATCH has attributes (`cypher_patterns.py`), what follows a WITH has
columns (`cypher_projections.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from bigjoin.errors import QueryError, Span
from bigjoin.languages import cypher_tree as tree
from bigjoin.languages.cypher_functions import AGGREGATES, call_of, component_of
from bigjoin.languages.cypher_scope import constant_of, later, unsupported
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.grouping import Aggregate
from bigjoin.query.operators import OPERATORS
from bigjoin.query.terms import Constant, ParameterValue, Property

_OF_ELEMENTS = {"id": "id", "elementid": "id", "type": "type"}
_TEXT_TESTS = {"STARTS WITH": "starts with", "ENDS WITH": "ends with", "CONTAINS": "contains", "=~": "matches"}


class ExpressionReader(ABC):
    """Reads expressions, given what variables are."""

    parameters: Mapping[str, ParameterValue]
    takes_aggregates: bool = False
    """Whether an aggregate may stand in what it reads; then it becomes an `Aggregate`, which is no expression yet."""

    @abstractmethod
    def variable(self, name: str, span: Span | None) -> Expression:
        """Return what a variable is: the id of a node or a relationship, or a value."""

    @abstractmethod
    def property_of(self, name: str, key: str, span: Span | None) -> Expression:
        """Return a property of a node or a relationship."""

    @abstractmethod
    def kind(self, name: str) -> str | None:
        """Tell whether a variable is a 'node' or a 'relationship'; None if it is a value."""

    @abstractmethod
    def type_of(self, name: str, span: Span | None) -> Expression:
        """Return the type of a relationship."""

    @abstractmethod
    def relation_of(self, name: str) -> Expression:
        """Return what tells relationships apart that have the same number, since they are rows of different relations."""

    @abstractmethod
    def pattern(self, expression: tree.CypherExpression) -> Expression:
        """Return a pattern or a label as a condition, or refuse it."""

    def owner(self, term: Expression) -> Expression | None:
        """Return the node or relationship whose property or type a term is."""
        match term:
            case Property(attribute):
                return attribute
            case Call("type" | "relation", (attribute,)):
                return attribute
        return None

    def element(self, expression: tree.CypherExpression) -> str | None:
        """Return the name of the node or relationship that an expression is, None if it is anything else."""
        is_element = isinstance(expression, tree.Variable) and self.kind(expression.name) is not None
        return expression.name if is_element and isinstance(expression, tree.Variable) else None

    def value(self, expression: tree.CypherExpression) -> Any:
        """Return an expression that has a value; refuse a node or a relationship, which has an id and properties."""
        if (name := self.element(expression)) is not None:
            hint = f"write id({name}), or a property such as {name}.name"
            raise QueryError(f"{name!r} is a {self.kind(name)}, which has no value itself", expression.span, hint)
        return self.read(expression)

    def read(self, expression: tree.CypherExpression) -> Any:
        """Return what an expression means; a node or a relationship is its id."""
        span = expression.span
        match expression:
            case tree.Variable(name):
                return self.variable(name, span)
            case tree.PropertyAccess(subject, key):
                return self._property(subject, key, expression)
            case tree.Literal(value):
                return constant_of(value, span)
            case tree.Parameter(name):
                return constant_of(self.parameters[name], span, f"${name}")
            case tree.And(parts) | tree.Or(parts) | tree.Xor(parts):
                return Call(type(expression).__name__.lower(), tuple(map(self.value, parts)), span)
            case tree.Not(part):
                return Call("not", (self.value(part),), span)
            case tree.Compare():
                return self._comparison(expression)
            case tree.IsNull(part, negated):
                return Call("is not null" if negated else "is null", (self.read(part),), span)
            case tree.In(left, right):
                return self._membership(left, right, span)
            case tree.StringMatch(left, kind, right):
                return Call(_TEXT_TESTS[kind], (self.value(left), self.value(right)), span)
            case tree.Arithmetic(left, operator, right):
                function = "power" if operator == "^" else operator
                return Call(function, (self.value(left), self.value(right)), span)
            case tree.Negative(part):
                return Call("negative", (self.value(part),), span)
            case tree.Case():
                return self._case(expression)
            case tree.CountStar():
                return self._aggregate("count", None, span)
            case tree.FunctionCall(name, (tree.Variable(variable),), False) if name.casefold() in _OF_ELEMENTS:
                return self._of_element(variable, expression)
            case tree.FunctionCall(name) if name.casefold() in AGGREGATES:
                return self._aggregate_call(expression)
            case tree.FunctionCall():
                return call_of(expression, self)
            case tree.HasLabels() | tree.ExistsPattern() | tree.PatternPredicate():
                return self.pattern(expression)
        unsupported(expression)

    def _property(self, subject: tree.CypherExpression, key: str, expression: tree.PropertyAccess) -> Any:
        if isinstance(subject, tree.Variable) and self.kind(subject.name) is not None:
            return self.property_of(subject.name, key, expression.span)
        return component_of(self.value(subject), key, expression.span)

    def _of_element(self, variable: str, call: tree.FunctionCall) -> Expression:
        """Return the id or the type of a node or a relationship."""
        what, kind = _OF_ELEMENTS[call.name.casefold()], self.kind(variable)
        if kind is None or (kind == "node" and what == "type"):
            of = "a relationship" if what == "type" else "a node or a relationship"
            message = f"{variable!r} is a {kind or 'value'}, which has no {what}"
            raise QueryError(message, call.span, f"write {call.name}() of {of}")
        return self.type_of(variable, call.span) if what == "type" else self.variable(variable, call.span)

    # Conditions

    def _comparison(self, compare: tree.Compare) -> Call:
        """Return a comparison; nodes and relationships only equal each other, whole."""
        for side, other in ((compare.left, compare.right), (compare.right, compare.left)):
            if isinstance(other, tree.Literal) and other.value is None:
                raise QueryError("a comparison with null is never true", compare.span, "write IS NULL or IS NOT NULL")
            if (name := self.element(side)) is None:
                continue
            kind, its = self.kind(name), self.element(other)
            if its is None or not OPERATORS[compare.operator].symmetric:
                hint = f"compare id({name}), or a property such as {name}.name"
                raise QueryError(f"{name!r} is a {kind}, which only equals another {kind}", compare.span, hint)
            if self.kind(its) != kind:
                raise QueryError("a node and a relationship are never equal", compare.span, "compare nodes with nodes")
        made = Call(compare.operator, (self.read(compare.left), self.read(compare.right)), compare.span)
        names = self.element(compare.left), self.element(compare.right)
        return made if None in names else self.compared_elements(made, str(names[0]), str(names[1]))

    def compared_elements(self, comparison: Call, left: str, right: str) -> Call:
        """Return a comparison of nodes or relationships by name, given that of their ids."""
        del left, right
        return comparison

    def _membership(self, left: tree.CypherExpression, right: tree.CypherExpression, span: Span | None) -> Expression:
        """Return `left IN right`, where the right side is a list in the text or a parameter."""
        members: list[Any] = []
        if isinstance(right, tree.ListLiteral):
            if any(self.element(part) is not None for part in (left, *right.elements)):  # compared as elements are
                equal = [self._comparison(tree.Compare(left, "=", member, span=span)) for member in right.elements]
                return Call("or", tuple(equal), span) if len(equal) > 1 else equal[0] if equal else Constant(False)
            members += map(self.read, right.elements)
        elif isinstance(right, tree.Parameter):
            given = self.parameters[right.name]
            if given is None:
                return Constant(None)
            if not isinstance(given, list | tuple | set | frozenset):
                hint = f"give a list, as in parameters={{{right.name!r}: [1, 2]}}"
                raise QueryError(f"${right.name} is no list", right.span, hint)
            members += [constant_of(member, right.span, f"a member of ${right.name}") for member in given]
        else:
            later("IN what is no list in the text", right.span or span, "write IN [1, 2], or IN $list")
        return Call("in", (self.value(left), *members), span) if members else Constant(False)

    def _case(self, case: tree.Case) -> Call:
        arguments: list[Any] = []
        for condition, value in case.branches:
            if case.subject is not None:
                condition = tree.Compare(case.subject, "=", condition, span=condition.span)
                is_null = isinstance(condition.right, tree.Literal) and condition.right.value is None
                arguments.append(Constant(None) if is_null else self._comparison(condition))
            else:
                arguments.append(self.value(condition))
            arguments.append(self.value(value))
        if case.otherwise is not None:
            arguments.append(self.value(case.otherwise))
        return Call("case", tuple(arguments), case.span)

    # Aggregates

    def _aggregate(self, function: str, argument: Any, span: Span | None) -> Aggregate:
        if not self.takes_aggregates:
            hint = "write WITH a, count(*) AS number WHERE number > 1, and RETURN after it"
            raise QueryError("an aggregate stands in RETURN or WITH", span, hint)
        return Aggregate(function, argument)

    def _aggregate_call(self, call: tree.FunctionCall) -> Aggregate:
        name = AGGREGATES[call.name.casefold()]
        if name is None:
            later(f"the aggregate {call.name}()", call.span, "aggregate the DataFrame")
        if len(call.arguments) != 1:
            raise QueryError(f"{call.name}() takes one argument", call.span, f"write {call.name}(a.age)")
        (argument,) = call.arguments
        self._aggregate(name, None, call.span)
        self.takes_aggregates = False
        try:
            inside = self._counted(argument, call) if name in ("count", "collect") else self.value(argument)
        except QueryError as error:
            if error.message == "an aggregate stands in RETURN or WITH":
                raise QueryError("an aggregate within an aggregate", error.span, "write WITH between the two") from None
            raise
        finally:
            self.takes_aggregates = True
        return Aggregate(f"{name} distinct" if call.distinct and name not in ("min", "max") else name, inside)

    def _counted(self, argument: tree.CypherExpression, call: tree.FunctionCall) -> Expression:
        """Return what is counted; rows of each type have their own numbers, so relationships are told apart by type as well."""
        found: Expression = self.read(argument)
        name = self.element(argument)
        if not call.distinct or name is None or self.kind(name) != "relationship":
            return found
        kind = self.relation_of(name)
        return found if isinstance(kind, Constant) else Call("||", (Call("toString", (found,)), Constant(" "), kind), call.span)
