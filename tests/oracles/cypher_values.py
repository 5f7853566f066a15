"""What openCypher computes from values: three-valued logic, numbers, text, times. It imports nothing of ours.

An operand is plain data:

    ("variable", name), ("property", name, key), ("literal", value), ("parameter", name)
    ("call", function, operand, ...)       a function of FUNCTIONS, operators included
    ("case", ((condition, operand), ...), operand or None)
    ("choice", operand, ((operand, operand), ...), operand or None)      CASE x WHEN 1 THEN ...
    ("truth", where)                       a condition as a value

and a condition, besides those of patterns (cypher.py):

    ("and" or "or" or "xor", where, ...), ("not", where), ("compare", operator, operand, operand), ("holds", operand)
    ("missing" or "present", operand), ("member", operand, (operand, ...)), ("within", operand, parameter)
    ("text", "STARTS WITH" or "ENDS WITH" or "CONTAINS" or "=~", operand, operand)

Integers have 64 bits. NULL is None, and what is unknown is None as well.
"""

from __future__ import annotations

import math
import re
from datetime import date, datetime, timedelta


class NoValueError(Exception):
    """A row has no value: a division by zero, or a number that is too large."""


def compared(operator: str, left, right) -> bool | None:
    """A comparison: of different types never true, `<>` always; of NaN nothing but `<>`."""
    if left is None or right is None:
        return None
    is_number = [isinstance(side, int | float) and not isinstance(side, bool) for side in (left, right)]
    is_comparable = all(is_number) or type(left) is type(right)
    if operator in ("=", "<>"):
        return (is_comparable and left == right) == (operator == "=")
    if not is_comparable or isinstance(left, tuple):  # nodes and relationships have no order
        return None
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]


def both(truths) -> bool | None:
    """AND."""
    return False if False in truths else None if None in truths else True


def either(truths) -> bool | None:
    """OR."""
    return True if True in truths else None if None in truths else False


def one_of(truths) -> bool | None:
    """XOR: an odd number of them."""
    return None if None in truths else sum(truths) % 2 == 1


def opposite(truth) -> bool | None:
    """NOT."""
    return None if truth is None else not truth


def text_test(kind: str, left, right) -> bool | None:
    """A comparison of parts of text."""
    if left is None or right is None:
        return None
    if kind == "=~":
        return re.fullmatch(right, left) is not None
    return {"STARTS WITH": left.startswith, "ENDS WITH": left.endswith, "CONTAINS": lambda part: part in left}[kind](right)


def _whole(number: int) -> int:
    if not -(2**63) <= number < 2**63:
        raise NoValueError
    return number


def _plus(left, right):
    if isinstance(left, str) or isinstance(right, str):
        return as_text(left) + as_text(right)
    if isinstance(right, datetime | date) and isinstance(left, timedelta):
        return right + left
    return _number(left + right)


def _number(value):
    return _whole(value) if isinstance(value, int) else value


def _divided(left, right):
    if isinstance(left, int) and isinstance(right, int):
        if right == 0:
            raise NoValueError
        return _whole(abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1))
    if right == 0:
        return math.nan if left == 0 or left != left else math.copysign(math.inf, left) * math.copysign(1, right)
    return left / right


def _rest(left, right):
    if isinstance(left, int) and isinstance(right, int):
        return left - right * _divided(left, right)
    return math.nan if right == 0 or math.isinf(left) else math.fmod(left, right)


def _power(left, right) -> float:
    try:
        found = float(left) ** float(right)
    except ZeroDivisionError:
        return math.inf
    except OverflowError:
        return math.inf
    return math.nan if isinstance(found, complex) else found


def as_text(value) -> str:
    """A value as a text, numbers as Java writes them."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
        assert value == 0 or 1e-3 <= abs(value) < 1e7, "others are not drawn"
    return str(value)


def _integer(value):
    if isinstance(value, str):
        found = re.fullmatch(r"\s*([+-]?\d+)(\.\d*)?\s*", value)
        return int(found[1]) if found else None
    return None if isinstance(value, float) and not math.isfinite(value) else int(value)


def _float(value):
    if isinstance(value, str):
        return float(value) if re.fullmatch(r"\s*[+-]?\d+(\.\d*)?\s*", value) else None
    return float(value)


def _rounded(value) -> float:
    """Halves go up."""
    return float(value) if not math.isfinite(value) else float(math.floor(value + 0.5))


def _sign(value):
    return None if value != value else (value > 0) - (value < 0)


def _root(value) -> float:
    return math.nan if value < 0 or value != value else math.sqrt(value)


def _towards(function):
    return lambda value: float(value) if not math.isfinite(value) else float(function(value))


FUNCTIONS = {
    "+": _plus,
    "-": lambda left, right: _number(left - right),
    "*": lambda left, right: _number(left * right),
    "/": _divided,
    "%": _rest,
    "^": _power,
    "minus": lambda value: -value,
    "toLower": str.lower,
    "toUpper": str.upper,
    "trim": str.strip,
    "ltrim": str.lstrip,
    "rtrim": str.rstrip,
    "reverse": lambda text: text[::-1],
    "size": len,
    "substring": lambda text, start, *length: text[start:][: length[0] if length else None],
    "left": lambda text, many: text[:many],
    "right": lambda text, many: text[len(text) - many :] if many < len(text) else text,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "toString": as_text,
    "toInteger": _integer,
    "toFloat": _float,
    "abs": abs,
    "ceil": _towards(math.ceil),
    "floor": _towards(math.floor),
    "round": _rounded,
    "sign": _sign,
    "sqrt": _root,
    "date": lambda value: value.date() if isinstance(value, datetime) else value,
    "duration": lambda days: timedelta(days=days),
    "days between": lambda start, end: abs(end - start).days * (1 if end >= start else -1),
    "hours between": lambda start, end: abs(end - start) // timedelta(hours=1) * (1 if end >= start else -1),
    **{part: lambda value, part=part: getattr(value, part) for part in ("year", "month", "day", "hour", "minute")},
    "weekDay": lambda value: value.isoweekday(),
    "ordinalDay": lambda value: value.timetuple().tm_yday,
}
"""Functions of values that are there; of NULL, all are NULL."""


def called(function: str, arguments: list):
    """The value of a function; `coalesce` is the only one that NULL does not make NULL."""
    if function == "coalesce":
        return next((value for value in arguments if value is not None), None)
    return None if None in arguments else FUNCTIONS[function](*arguments)


# Groups


def aggregated(function: str, is_distinct: bool, values: list):
    """An aggregate of the values of a group."""
    there = [value for value in values if value is not None]
    if is_distinct:
        there = list({same(value): value for value in there}.values())
    if function in ("count", "collect"):
        return len(there) if function == "count" else there
    if function == "sum" and not there:
        return 0
    if not there:
        return None
    total = sum(there) if function in ("sum", "avg") else None
    if function == "avg":
        return total / len(there)
    return _number(total) if function == "sum" else min(there, key=rank) if function == "min" else max(there, key=rank)


def same(value):
    """What values of one group have in common: NaN is one value, and 1 and 1.0 are the same, true and 1 are not."""
    if isinstance(value, float) and value != value:
        return ("NaN",)
    if isinstance(value, tuple):
        return tuple(map(same, value))
    return isinstance(value, bool), value


def rank(value):
    """A value by which others are sorted: NaN is larger than any number, and NULL than anything."""
    is_nan = isinstance(value, float) and value != value
    return value is None, is_nan, 0 if value is None or is_nan else value


def comparable(row: tuple) -> tuple:
    """A row that can be compared: NaN is itself, true is not 1, and a list (but no tuple) has no order."""

    def shown(value):
        if isinstance(value, list):
            return tuple(sorted(map(shown, value), key=repr))
        if isinstance(value, tuple):
            return tuple(map(shown, value))
        return "NaN" if isinstance(value, float) and value != value else str(value) if isinstance(value, bool) else value

    return tuple(map(shown, row))
