"""What NULLs do to an expression: a LEFT JOIN whose padded rows no condition lets through is an inner join."""

from __future__ import annotations

from collections.abc import Collection

from bigjoin.languages.sql_tree import SqlExpression
from bigjoin.query.expressions import Call
from bigjoin.query.terms import Property

_LOOSE = ("and", "or", "xor", "case", "is null", "is not null")
"""Functions that may have a value although one of their arguments is NULL."""


def is_strict(expression: SqlExpression, nulls: Collection[str | Property]) -> bool:
    """Tell whether an expression is NULL, for sure, where some columns are, or all columns of some uses."""
    if isinstance(expression, Property):
        return expression.attribute in nulls or expression in nulls
    if not isinstance(expression, Call):
        return False
    match expression.function, expression.arguments:
        case "in" | "nullif", (first, *_):
            return is_strict(first, nulls)
        case "coalesce" | "greatest" | "least", arguments:
            return all(is_strict(argument, nulls) for argument in arguments)
        case function, arguments:
            return function not in _LOOSE and any(is_strict(argument, nulls) for argument in arguments)


def refuses_nulls(condition: SqlExpression, nulls: Collection[str | Property]) -> bool:
    """Tell whether a condition is not true, for sure, where some columns are NULL, or all columns of some uses."""
    match condition:
        case Call("and", parts):
            return any(refuses_nulls(part, nulls) for part in parts)
        case Call("or", parts):
            return all(refuses_nulls(part, nulls) for part in parts)
        case Call("is not null", (part,)) | Call("not", (Call("is null", (part,)),)):
            return is_strict(part, nulls)
    return is_strict(condition, nulls)


def is_missing(condition: SqlExpression) -> Property | None:
    """Return the column that a condition says is NULL."""
    match condition:
        case Call("is null", (Property() as column,)):
            return column
    return None
