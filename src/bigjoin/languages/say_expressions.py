"""Say an expression in the other language: what a rule writes as Cypher has it, and the other way round.

Only what means the same in both is said (NaN apart, which comparisons treat differently): `7 / 2` is 3 in Cypher and 3.5 in a
rule, so a division is not.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime

from bigjoin.query.expressions import Call, Expression, Holds, mapped
from bigjoin.query.operators import NOT_EQUAL, OPERATORS
from bigjoin.query.terms import Constant, Interval, Property

NameOf = Callable[[str], str]
"""Returns a name as the language writes it."""

_LOGIC = ("and", "or", "not", "is null", "is not null", "in", "case", "coalesce", "nullif", *OPERATORS)
_OF_NUMBERS = ("+", "-", "*", "%", "negative", "abs", "sqrt", "exp", "power")
_OF_TEXT = (
    "starts with",
    "ends with",
    "contains",
    "lower",
    "upper",
    "length",
    "reverse",
    "replace",
    "substring",
    "left",
    "right",
)
_PARTS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_OF_TIMES = (*_PARTS, "date", "dayofyear", "unix_seconds", "unix_millis", "in zone")
_BOTH = frozenset((*_LOGIC, *_OF_NUMBERS, *_OF_TEXT, *_OF_TIMES))
"""Functions that mean the same in rules and in Cypher."""

_OF_RULES = frozenset((*_BOTH, "||", "rlike"))
_OF_PATHS = ("first", "last", "next", "src", "dst", "nodes", "edges", ".")
_OF_CYPHER = frozenset((*_BOTH, *_OF_PATHS, "matches", "dayofweek"))
_IN_CYPHER = {"lower": "toLower", "upper": "toUpper", "length": "size"}
_PARTS_IN_CYPHER = {"dayofyear": "ordinalDay", "unix_seconds": "epochSeconds", "unix_millis": "epochMillis"}
_TESTS = {name: name.upper() for name in ("and", "or", "starts with", "ends with", "contains")}
_INFIX = {**_TESTS, "power": "^"}


class Spoken(str):
    """A text that stands as it is where a name would."""

    __slots__ = ()


class UnsaidError(Exception):
    """An expression, or a part of it, that the other language does not have, or reads differently."""


def _check(expression: Expression, known: frozenset[str]) -> None:
    """Raise UnsaidError for the first part that is not among known functions, or not with these arguments."""
    if isinstance(expression, Holds):
        raise UnsaidError(str(expression))
    if not isinstance(expression, Call):
        return
    places = expression.arguments[1:] if expression.function in ("substring", "left", "right") else ()
    if expression.function not in known or any(_is_negative(place) for place in places):
        raise UnsaidError(str(expression))
    if expression.function == "substring" and expression.arguments[1] == Constant(0):
        raise UnsaidError(str(expression))  # which is the first place in SQL, and none here
    for argument in expression.arguments:
        _check(argument, known)


def _is_negative(place: Expression) -> bool:
    """Tell whether a place in a text may be negative, which SQL counts from the end."""
    is_number = isinstance(place, Constant) and isinstance(place.value, int)
    return not is_number or (isinstance(place, Constant) and isinstance(place.value, int) and place.value < 0)


def in_rule(expression: Expression) -> str:
    """Return an expression of Cypher as rules write it; raise UnsaidError for what they do not have."""
    match expression:
        case Call("list", (each,)):  # what is about each edge is a list in a rule anyway
            expression = each
    _check(expression, _OF_CYPHER)

    def change(part: Expression) -> Expression:
        match part:
            case Call("matches", (text, Constant(str() as pattern))):
                return Call("rlike", (text, Constant(rf"\A(?:{pattern})\z")), part.span)
            case Call("matches"):
                raise UnsaidError(str(part))
        return part

    return str(mapped(expression, change))


def in_cypher(expression: Expression, name_of: NameOf) -> str:
    """Return an expression of a rule as Cypher writes it; raise UnsaidError for what it does not have."""
    _check(expression, _OF_RULES)
    return _cypher(expression, name_of)


def constant_in_cypher(constant: Constant) -> str:
    """Return a constant as Cypher writes it."""
    value = constant.value
    if isinstance(value, Interval):
        parts = [f"months: {value.months}"] * bool(value.months)
        parts += [f"microseconds: {value.microseconds}"] * bool(value.microseconds or not value.months)
        return f"duration({{{', '.join(parts)}}})"
    if isinstance(value, datetime):
        return f"{'localdatetime' if value.tzinfo is None else 'datetime'}('{value.isoformat()}')"
    return f"date('{value.isoformat()}')" if isinstance(value, date) else str(constant)


def _cypher(part: Expression, name_of: NameOf) -> str:
    if isinstance(part, str):
        return part if isinstance(part, Spoken) else f"id({name_of(part)})"
    if isinstance(part, Property):
        owner = part.attribute
        return f"{owner if isinstance(owner, Spoken) else name_of(owner)}.{name_of(part.name)}"
    if isinstance(part, Constant):
        return constant_in_cypher(part)
    assert isinstance(part, Call)
    said = [_cypher(argument, name_of) for argument in part.arguments]
    inside = [f"({text})" if _has_operators(a) else text for a, text in zip(part.arguments, said, strict=True)]
    match part.function:
        case "not":
            return f"NOT {inside[0]}"
        case "negative":
            return f"-{inside[0]}"
        case "is null" | "is not null" as test:
            return f"{inside[0]} {test.upper()}"
        case "in":
            return f"{inside[0]} IN [{', '.join(said[1:])}]"
        case "case":
            pairs = zip(said[:-1:2], said[1::2], strict=True)
            otherwise = f" ELSE {said[-1]}" if len(said) % 2 else ""
            return f"CASE {' '.join(f'WHEN {condition} THEN {value}' for condition, value in pairs)}{otherwise} END"
        case "||":
            return " + ".join(f"toString({text})" for text in said)
        case "rlike":
            pattern = part.arguments[1]
            if not isinstance(pattern, Constant) or not isinstance(pattern.value, str):
                raise UnsaidError(str(part))
            around = r"[\s\S]*"
            return f"{inside[0]} =~ {Constant(f'{around}(?:{pattern.value}){around}')}"
        case "substring":
            start = part.arguments[1]
            assert isinstance(start, Constant)
            assert isinstance(start.value, int)
            return f"substring({', '.join([said[0], str(start.value - 1), *said[2:]])})"
        case "in zone":
            return said[0]
        case name if name in _PARTS or name in _PARTS_IN_CYPHER:
            return f"{inside[0]}.{_PARTS_IN_CYPHER.get(name, name)}"
        case name if name in OPERATORS or part.entry.spelling == "infix" or name == "power":
            operator = "<>" if name == NOT_EQUAL.text else _INFIX.get(name, name)
            return f" {operator} ".join(inside)
    return f"{_IN_CYPHER.get(part.function, part.function)}({', '.join(said)})"


def _has_operators(part: Expression) -> bool:
    is_call = isinstance(part, Call) and (part.entry.spelling != "call" or part.function == "power") and part.function != "case"
    return is_call or (isinstance(part, Constant) and str(part).startswith("-"))
