"""Functions of numbers: integers of 64 bits, doubles, and decimals of up to 38 digits, with Spark's rules for their digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isfinite

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.joins.value_columns import (
    FunctionOfValues,
    Values,
    by_distinct_value,
    missing_in,
    number_argument,
)
from bigjoin.query.expressions import Call, Expression
from bigjoin.query.query import Dialect
from bigjoin.query.terms import Constant

MAX_PRECISION = 38
_MOST_DIGITS = 76
"""Digits of Arrow's widest decimals, which intermediate results have."""
_SMALLEST_SCALE = 6
"""Digits behind the point that Spark keeps where a decimal would have more than 38."""


def as_number(arrays: Sequence[Values]) -> list[Values]:
    """Return numbers of any types with one type: doubles if one of them is, otherwise decimals or integers."""
    kinds = [array.type for array in arrays if not pa.types.is_null(array.type)]
    if any(pa.types.is_floating(kind) for kind in kinds):
        return [as_double(array) for array in arrays]
    if any(pa.types.is_decimal(kind) or kind == pa.uint64() for kind in kinds):
        shapes = [_shape(kind) for kind in kinds]
        scale = max(s for _, s in shapes)
        wide = pa.decimal256(min(76, max(p - s for p, s in shapes) + scale), scale)
        return [as_decimal(array).cast(wide) for array in arrays]
    if kinds and all(pa.types.is_boolean(kind) for kind in kinds):
        return [array.cast(pa.bool_()) for array in arrays]
    return [array.cast(pa.int64()) for array in arrays]


def as_double(array: Values) -> Values:
    """Return numbers as doubles."""
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())  # by its digits: Arrow's own cast may be off by a bit
    return array.cast(pa.float64(), safe=False)


def _shape(kind: pa.DataType) -> tuple[int, int]:
    """Return the digits of a decimal type, and those behind the point; integers have as many as they need."""
    return (kind.precision, kind.scale) if pa.types.is_decimal(kind) else (20, 0)


def as_decimal(array: Values) -> Values:
    """Return exact numbers as decimals."""
    if pa.types.is_decimal(array.type):
        return array
    return array.cast(pa.decimal128(20, 0))


def sized(array: Values, argument: Expression) -> Values:
    """Return exact numbers as decimals; a whole number that is written in the text has just the digits that it needs."""
    if isinstance(argument, Constant) and isinstance(argument.value, int):
        return as_decimal(array).cast(pa.decimal128(len(str(abs(argument.value))), 0))
    return as_decimal(array)


def _adjusted(precision: int, scale: int) -> pa.DataType:
    """Return the type of a decimal result: with more than 38 digits, those behind the point give way, down to six."""
    if precision > MAX_PRECISION:
        whole = precision - scale
        scale = max(MAX_PRECISION - whole, min(scale, _SMALLEST_SCALE))
        precision = MAX_PRECISION
    return pa.decimal128(precision, scale)


CHECKED = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def arithmetic_of_doubles(function: str, left: Values, right: Values, dialect: Dialect) -> Values:
    """Compute with doubles; in SQL, a division by zero is an error."""
    match function:
        case "/" | "%" | "div" if dialect == "sql":
            refuse_zero(left, right)
    if function == "/":
        return pc.divide(left, right)
    if function == "%":
        with np.errstate(all="ignore"):
            found = np.fmod(left.to_numpy(zero_copy_only=False), right.to_numpy(zero_copy_only=False))
        return pa.array(found, pa.float64(), mask=missing_in(left, right))
    return {"+": pc.add, "-": pc.subtract, "*": pc.multiply}[function](left, right)


def arithmetic_of_decimals(function: str, left: Values, right: Values) -> Values:
    """Compute with decimals, exactly, up to the digits that Spark keeps."""
    (p, s), (q, t) = _shape(left.type), _shape(right.type)
    scale = max(s, t)
    match function:
        case "+" | "-":
            whole = pa.decimal256(min(75, max(p - s, q - t) + scale), scale)
            found = CHECKED[function](left.cast(whole), right.cast(whole))
            return rounded(found, _adjusted(max(p - s, q - t) + scale + 1, scale))
        case "*":
            fitting = min(p, _MOST_DIGITS - 1 - q)  # the product has one digit more than both together
            found = pc.multiply_checked(left.cast(pa.decimal256(fitting, s)), right.cast(pa.decimal256(q, t)))
            return rounded(found, _adjusted(p + q + 1, s + t))
    refuse_zero(left, right)
    right = without_zero(right)
    if function == "/":
        digits = max(_SMALLEST_SCALE, s + q + 1)
        result = _adjusted(p - s + t + digits, digits)
        return rounded(_quotient(left, right, result.scale), result)
    whole = pc.trunc(_quotient(left, right, 0))
    whole = whole.cast(pa.decimal256(MAX_PRECISION, 0), safe=False)
    if function == "div":
        return whole.cast(pa.int64())
    taken = pc.multiply_checked(whole, right.cast(pa.decimal256(q, t))).cast(pa.decimal256(75, scale))
    rest = pc.subtract_checked(left.cast(pa.decimal256(75, scale)), taken)
    return rest.cast(_adjusted(min(p - s, q - t) + scale, scale))


def _quotient(left: Values, right: Values, digits: int) -> Values:
    """Divide, with at least one digit behind the point more than wanted, so that the last one can be rounded."""
    (p, s), (q, t) = _shape(left.type), _shape(right.type)
    more = max(s, digits + 1 + t - q)
    return pc.divide(left.cast(pa.decimal256(min(76, p - s + more), more)), right.cast(pa.decimal256(q, t)))


def rounded(array: Values, kind: pa.DataType) -> Values:
    """Return decimals with fewer digits behind the point, rounded half up; those that do not fit are an error."""
    if array.type.scale > kind.scale:
        array = pc.round(_with_room(array), ndigits=kind.scale, round_mode="half_towards_infinity")
    try:
        return array.cast(kind)
    except pa.ArrowInvalid:
        raise pa.ArrowInvalid("overflow") from None


def _with_room(array: Values) -> Values:
    """Return decimals of a type with room for one more digit, which rounding may bring about."""
    return array.cast(pa.decimal256(min(_MOST_DIGITS, array.type.precision + 1), array.type.scale))


def refuse_zero(left: Values, right: Values) -> None:
    """Raise an error if something is divided by zero."""
    zero = pc.and_kleene(pc.equal(right, pa.scalar(0, right.type)), pc.is_valid(left))
    if pc.any(zero).as_py():
        raise pa.ArrowInvalid("divide by zero")


def without_zero(divisor: Values) -> Values:
    """Return divisors with NULL in the place of zero: where they divide something, they have been refused."""
    return pc.if_else(pc.equal(divisor, pa.scalar(0, divisor.type)), pa.scalar(None, divisor.type), divisor)


def _negative(_: Call, arguments: list[Values], __: Dialect) -> Values:
    (array,) = arguments
    if pa.types.is_duration(array.type):
        return pc.negate_checked(array.cast(pa.int64())).cast(array.type)
    return array if pa.types.is_null(array.type) else pc.negate_checked(_signed(array))


def _signed(array: Values) -> Values:
    return array.cast(pa.int64()) if pa.types.is_integer(array.type) else array


def _absolute(_: Call, arguments: list[Values], __: Dialect) -> Values:
    return pc.abs_checked(_signed(arguments[0]))


def _round(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
    digits = number_argument(call, 1, 0)
    array = _signed(arguments[0])
    if dialect == "cypher":  # whole numbers are doubles, and halves go up, those of a given number of digits away from zero
        mode = "half_up" if len(call.arguments) == 1 else "half_towards_infinity"
        return pc.round(as_double(array), ndigits=digits, round_mode=mode)
    if pa.types.is_integer(array.type) and digits >= 0:
        return array
    if pa.types.is_decimal(array.type):
        behind = max(0, min(array.type.scale, digits))
        whole = max(array.type.precision - array.type.scale + 1, 1 - digits)
        found = pc.round(_with_room(array), ndigits=digits, round_mode="half_towards_infinity")
        return rounded(found, pa.decimal128(min(MAX_PRECISION, whole + behind), behind))
    if pa.types.is_floating(array.type):  # by its digits, as Spark does: 1.005 is a little less than that
        place = Decimal(1).scaleb(-digits)
        return by_distinct_value(as_double(array), lambda number: _rounded_double(number, place), pa.float64())
    return pc.round(array, ndigits=digits, round_mode="half_towards_infinity")


def _rounded_double(number: float, place: Decimal) -> float:
    if not isfinite(number):
        return number
    return float(Decimal(repr(number)).quantize(place, context=Context(prec=700, rounding=ROUND_HALF_UP)))


def _whole(function: Callable[[Values], Values]) -> FunctionOfValues:
    def found(_: Call, arguments: list[Values], dialect: Dialect) -> Values:
        array = _signed(arguments[0])
        if dialect == "cypher":
            return function(as_double(array))
        if pa.types.is_integer(array.type):
            return array
        if pa.types.is_floating(array.type):  # NaN is zero, and what is too large the largest, as in Java
            doubles = function(as_double(array)).fill_null(0.0).to_numpy()
            numbers = np.where(np.abs(doubles) < 2.0**63, doubles, 0.0).astype(np.int64)
            numbers[doubles >= 2.0**63], numbers[doubles <= -(2.0**63)] = 2**63 - 1, -(2**63)
            return pa.array(numbers, pa.int64(), mask=missing_in(array))
        kind = pa.decimal128(min(MAX_PRECISION, array.type.precision - array.type.scale + 1), 0)
        return rounded(function(_with_room(array)), kind)

    return found


def _of_double(function: Callable[[Values], Values]) -> FunctionOfValues:
    return lambda _, arguments, __: function(as_double(arguments[0]))


def _logarithm(function: Callable[[Values], Values]) -> FunctionOfValues:
    def found(_: Call, arguments: list[Values], dialect: Dialect) -> Values:
        array = as_double(arguments[0])
        if dialect == "cypher":
            return function(array)
        is_defined = pc.or_(pc.greater(array, 0.0), pc.is_nan(array))
        return function(pc.if_else(is_defined, array, pa.scalar(None, pa.float64())))  # as Spark has it

    return found


def _sign(_: Call, arguments: list[Values], dialect: Dialect) -> Values:
    found = pc.sign(as_double(arguments[0]))
    if dialect == "sql":
        return found
    return pc.if_else(pc.is_nan(found), pa.scalar(None, pa.float64()), found).cast(pa.int64())


def _power(_: Call, arguments: list[Values], __: Dialect) -> Values:
    return pc.power(as_double(arguments[0]), as_double(arguments[1]))


NUMBER_FUNCTIONS: dict[str, FunctionOfValues] = {
    "negative": _negative,
    "abs": _absolute,
    "round": _round,
    "floor": _whole(pc.floor),
    "ceil": _whole(pc.ceil),
    "sqrt": _of_double(pc.sqrt),
    "exp": _of_double(pc.exp),
    "sign": _sign,
    "ln": _logarithm(pc.ln),
    "log10": _logarithm(pc.log10),
    "power": _power,
}
