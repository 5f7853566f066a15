"""Casts between kinds of values, as Spark has them in ANSI mode."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from math import isfinite

import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.joins.number_functions import as_decimal, as_double, rounded
from bigjoin.joins.time_functions import TIME_FUNCTIONS, date_of_values, timestamp_of_values
from bigjoin.joins.value_columns import Values, by_distinct_value, constant_argument, is_text
from bigjoin.query.expressions import Call
from bigjoin.query.functions import decimal_digits
from bigjoin.query.query import Dialect

_INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "integer": 32, "bigint": 64, "long": 64, "int64": 64}
_TRUTH = dict.fromkeys(("t", "true", "y", "yes", "1"), True) | dict.fromkeys(("f", "false", "n", "no", "0"), False)


def cast_values(call: Call, arguments: list[Values], _: Dialect) -> Values:
    """Return values of another type; what is no such value, or too large for it, is an error."""
    array, name = arguments[0], str(constant_argument(call, 1)).lower()
    if digits := decimal_digits(name):
        return _to_decimal(array, pa.decimal128(*digits))
    if name == "date":
        return date_of_values(call, [array], "sql")
    if name in ("timestamp", "datetime", "timestamp_ntz"):
        return _to_time(call, array)
    if name in _INTEGER_BITS:
        return _to_integer(call, array, _INTEGER_BITS[name])
    if name in ("boolean", "bool"):
        return _to_boolean(array)
    if name in ("float", "real", "double"):
        if pa.types.is_timestamp(array.type):
            return pc.divide(as_double(TIME_FUNCTIONS["unix_micros"](call, [array], "sql")), 1e6)
        return _trimmed(array).cast(pa.float64()) if is_text(array.type) else as_double(array)
    if pa.types.is_decimal(array.type):
        return by_distinct_value(array, lambda number: f"{number:f}", pa.large_string())
    return array.cast(pa.large_string())


def _to_decimal(array: Values, kind: pa.DataType) -> Values:
    if is_text(array.type):
        return by_distinct_value(_trimmed(array), lambda text: _decimal(text, kind), kind)
    if pa.types.is_floating(array.type):  # by its digits, and not by the fraction that it really is
        return by_distinct_value(array, lambda number: _decimal(repr(number), kind) if isfinite(number) else None, kind)
    return rounded(as_decimal(array.cast(pa.int64()) if pa.types.is_boolean(array.type) else array), kind)


def _decimal(text: str, kind: pa.DataType) -> Decimal:
    """Return the decimal that a text stands for, rounded half up."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise pa.ArrowInvalid(f"Failed to parse {text!r}") from None
    if not number.is_finite():
        raise pa.ArrowInvalid(f"Failed to parse {text!r}")
    if number.adjusted() >= kind.precision - kind.scale and number:
        raise pa.ArrowInvalid("overflow")
    found = number.quantize(Decimal(1).scaleb(-kind.scale), context=Context(prec=100, rounding=ROUND_HALF_UP))
    if found.adjusted() >= kind.precision - kind.scale and found:
        raise pa.ArrowInvalid("overflow")
    return found


def _to_integer(call: Call, array: Values, bits: int) -> Values:
    if pa.types.is_timestamp(array.type):
        array = TIME_FUNCTIONS["unix_seconds"](call, [array], "sql")
    elif pa.types.is_floating(array.type):
        array = pc.trunc(as_double(array))
        beyond = pc.or_(pc.is_nan(array), pc.or_(pc.less(array, -(2.0**63)), pc.greater_equal(array, 2.0**63)))
        if pc.any(beyond).as_py():
            raise pa.ArrowInvalid("overflow")
    elif pa.types.is_decimal(array.type):
        array = pc.trunc(array).cast(pa.decimal128(38, 0), safe=False)
    elif is_text(array.type):
        array = _trimmed(array)
        if pc.any(pc.invert(pc.match_substring_regex(array, r"\A[+-]?[0-9]+\z"))).as_py():  # Arrow would read 0x10
            raise pa.ArrowInvalid("Failed to parse")
        array = pc.if_else(pc.starts_with(array, "+"), pc.utf8_slice_codeunits(array, 1), array)
    found = array.cast(pa.int64())
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    if pc.any(pc.or_(pc.less(found, low), pc.greater(found, high))).as_py():
        raise pa.ArrowInvalid("overflow")
    return found


def _to_boolean(array: Values) -> Values:
    if is_text(array.type):
        return by_distinct_value(_trimmed(array), _boolean, pa.bool_())
    if pa.types.is_boolean(array.type) or pa.types.is_null(array.type):
        return array.cast(pa.bool_())
    return pc.not_equal(array, pa.scalar(0, array.type))


def _boolean(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise pa.ArrowInvalid(f"Failed to parse {text!r}")
    return _TRUTH[text.lower()]


def _to_time(call: Call, array: Values) -> Values:
    if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)):
        return timestamp_of_values(call, [array], "sql")
    if pa.types.is_integer(array.type):
        return TIME_FUNCTIONS["timestamp_seconds"](call, [array], "sql")
    micros = pc.floor(pc.multiply(as_double(array), 1e6))  # of seconds since 1970
    return micros.cast(pa.int64()).cast(pa.timestamp("us", "UTC"))


def _trimmed(array: Values) -> Values:
    return pc.utf8_trim_whitespace(array)
