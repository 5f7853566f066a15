"""Expressions: what conditions and computed columns are made of. A condition that one comparison cannot say is a `Predicate`.

An expression is an attribute (its id), a property, a constant, or a function of expressions. `conditions` takes a condition
apart: conjuncts are decided one by one, each at the earliest step that can decide it, and those that are plain comparisons
become `Comparison`s, which narrow lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from bigjoin.errors import Span
from bigjoin.query.functions import FunctionEntry, function_entry
from bigjoin.query.operators import OPERATORS
from bigjoin.query.terms import Constant, Property

if TYPE_CHECKING:
    from bigjoin.query.query import Atom


@dataclass(frozen=True, slots=True)
class Call:
    """A function of expressions; `function` is the name of an entry of FUNCTIONS or OPERATORS."""

    function: str
    arguments: tuple[Expression, ...]
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def entry(self) -> FunctionEntry:
        return function_entry(self.function)

    @property
    def column(self) -> str:
        """The name of its column in a result: a plain word that Spark does not have to quote."""
        return re.sub(r"\W+", "_", str(self)).strip("_")

    def __str__(self) -> str:
        return _written(self)


@dataclass(frozen=True, slots=True)
class Holds:
    """An atom as a part of a condition: whether it has a tuple. `query/spelled_out.py` decides that, and takes it out."""

    atom: Atom

    @property
    def span(self) -> Span | None:
        return self.atom.span

    @property
    def column(self) -> str:
        return re.sub(r"\W+", "_", str(self)).strip("_")

    def __str__(self) -> str:
        return str(self.atom)


Expression: TypeAlias = "str | Property | Constant | Call | Holds"
"""An attribute stands for its id."""


def walk(expression: Expression) -> Iterator[Expression]:
    """Give an expression and all within it."""
    yield expression
    if isinstance(expression, Call):
        for argument in expression.arguments:
            yield from walk(argument)


def terms_of(expression: Expression) -> tuple[str | Property, ...]:
    """Return the attributes and properties of an expression, each once."""
    found: dict[str | Property, None] = {}
    for part in walk(expression):
        if isinstance(part, Holds):
            found |= dict.fromkeys(part.atom.attributes)
        elif isinstance(part, str | Property):
            found[part] = None
    return tuple(found)


def attributes_of(expression: Expression) -> tuple[str, ...]:
    """Return the attributes that an expression is about, each once."""
    return tuple(dict.fromkeys(t.attribute if isinstance(t, Property) else t for t in terms_of(expression)))


def mapped(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return an expression with every part replaced, the inner ones first."""
    if isinstance(expression, Call):
        expression = replace(expression, arguments=tuple(mapped(a, change) for a in expression.arguments))
    return change(expression)


def renamed(expression: Expression, names: dict[str, str]) -> Expression:
    """Return an expression with its attributes replaced."""

    def change(part: Expression) -> Expression:
        if isinstance(part, str):
            return names[part]
        if isinstance(part, Holds):
            return Holds(part.atom.renamed(names))
        return replace(part, attribute=names[part.attribute]) if isinstance(part, Property) else part

    return mapped(expression, change)


def folded(expression: Expression) -> Expression:
    """Return an expression without the truth values that decide, or say nothing, in `and`, `or` and `not`."""

    def change(part: Expression) -> Expression:
        match part:
            case Call("not", (Constant(bool() as value),)):
                return Constant(not value)
            case Call("and" | "or" as function, parts):
                decides = Constant(function == "or")
                left = [each for each in parts if each != Constant(function == "and")]
                if decides in left or not left:
                    return decides if left else Constant(function == "and")
                return replace(part, arguments=tuple(left)) if len(left) > 1 else left[0]
        return part

    return mapped(expression, change)


def canonical(expression: Expression) -> Expression:
    """Return the one form that equal expressions share: arguments that can change places are sorted."""

    def change(part: Expression) -> Expression:
        if isinstance(part, Call) and part.entry.commutes:
            return replace(part, arguments=tuple(sorted(part.arguments, key=str)))
        if isinstance(part, Call) and part.function in OPERATORS and not OPERATORS[part.function].is_less:
            return replace(part, function=OPERATORS[part.function].flipped, arguments=part.arguments[::-1])
        return part

    return mapped(expression, change)


def anchored(expression: Expression, attribute: str) -> Expression:
    """Return a condition that says the same and is about an attribute that is bound, if it is about none."""
    return expression if attributes_of(expression) else Call("case", (Call("is not null", (attribute,)), expression))


@dataclass(frozen=True, slots=True)
class Predicate:
    """A filter that is no plain comparison: a match has to make the expression true, neither false nor unknown."""

    expression: Call
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def attributes(self) -> tuple[str, ...]:
        return attributes_of(self.expression)

    @property
    def properties(self) -> tuple[Property, ...]:
        return tuple(term for term in terms_of(self.expression) if isinstance(term, Property))

    @property
    def keeps_apart(self) -> bool:
        """Whether it says that two values differ: nobody looks that closely."""
        return False

    def led_by(self, attribute: str) -> Predicate:
        """Return the same condition; which attribute comes last does not change how it is evaluated."""
        del attribute
        return self

    def canonical(self) -> Predicate:
        """Return the one form that equal conditions share."""
        form = canonical(self.expression)
        assert isinstance(form, Call)
        return replace(self, expression=form)

    def renamed(self, names: dict[str, str]) -> Predicate:
        """Return the condition with its attributes replaced."""
        changed = renamed(self.expression, names)
        assert isinstance(changed, Call)
        return replace(self, expression=changed)

    def __str__(self) -> str:
        return str(self.expression)


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """Give conditions that all have to hold for an expression to hold; De Morgan's laws are true of unknown values as well."""
    match expression:
        case Call("and", parts):
            for part in parts:
                yield from conjuncts(part)
        case Call("not", (Call("or", parts),)):
            for part in parts:
                yield from conjuncts(Call("not", (part,), expression.span))
        case Call("not", (Call("not", (part,)),)):
            yield from conjuncts(part)
        case Call("not", (Call("is null", parts),)):
            yield Call("is not null", parts, expression.span)
        case Call("not", (Call("is not null", parts),)):
            yield Call("is null", parts, expression.span)
        case _:
            yield expression


def _written(call: Call) -> str:
    """Return a call as a text that can be read again."""
    entry, arguments = call.entry, call.arguments
    match call.function, entry.spelling:
        case ("in", _):
            first, *others = arguments
            return f"{_inside(first, entry)} in ({', '.join(map(str, others))})"
        case ("in zone", _):  # which nobody writes: the planner adds it
            return str(arguments[0])
        case ("cast", _):
            kind = arguments[1].value if isinstance(arguments[1], Constant) else arguments[1]
            return f"cast({arguments[0]} as {kind})"
        case ("case", _):
            pairs = zip(arguments[:-1:2], arguments[1::2], strict=True)
            branches = " ".join(f"when {condition} then {value}" for condition, value in pairs)
            otherwise = f" else {arguments[-1]}" if len(arguments) % 2 else ""
            return f"case {branches}{otherwise} end"
        case (".", _):
            return str(Property(str(arguments[0]), str(getattr(arguments[1], "value", ""))))
        case (_, "infix"):
            return f" {call.function} ".join(_inside(a, entry, later=bool(i)) for i, a in enumerate(arguments))
        case ("negative", _):
            return f"-{_inside(arguments[0], entry)}"
        case (_, "prefix"):
            return f"{call.function} {_inside(arguments[0], entry)}"
        case (_, "postfix"):
            return f"{_inside(arguments[0], entry)} {call.function}"
    return f"{call.function}({', '.join(map(str, arguments))})"


def _inside(argument: Expression, around: FunctionEntry, *, later: bool = False) -> str:
    """Return an argument of an operator, in parentheses if it would be read differently without."""
    if not isinstance(argument, Call) or argument.function in ("case", "cast", "in zone"):
        return str(argument)
    looser = argument.entry.binding < around.binding or (
        argument.entry.binding == around.binding and (later or around.binding == 4)
    )
    return f"({argument})" if looser else str(argument)
