"""Conversions as Cypher has them: what is no number becomes NULL, and numbers are written as Java writes them."""

from __future__ import annotations

import re
from decimal import Decimal
from math import inf, isfinite

import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.joins.value_columns import by_distinct_value, is_text
from bigjoin.query.expressions import Call
from bigjoin.query.query import Dialect

_WHOLE = re.compile(r"[+-]?\d{1,600}")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?")


def java_text(number: float) -> str:
    """Return a double as Java writes it: 1.0, 1.5E10, NaN."""
    if not isfinite(number):
        return "NaN" if number != number else f"{'-' * (number < 0)}Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return f"{Decimal(repr(number)):f}" if "e" in repr(number) else repr(number)
    sign, digits, _ = Decimal(repr(number)).normalize().as_tuple()
    shown = "".join(map(str, digits))
    return f"{'-' * sign}{shown[0]}.{shown[1:] or '0'}E{Decimal(repr(number)).adjusted()}"


def _integer_of_text(text: str) -> int | None:
    text = text.strip()
    if _WHOLE.fullmatch(text):
        number = int(text)
    elif _NUMBER.fullmatch(text) and abs(float(text)) < inf:
        number = int(float(text))
    else:
        return None
    return number if -(2**63) <= number < 2**63 else None


def _integer_of_double(number: float) -> int | None:
    return int(number) if -(2.0**63) <= number < 2.0**63 else None


def _float_of_text(text: str) -> float | None:
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) or text in ("NaN", "Infinity", "-Infinity") else None


def _to_integer(_: Call, arguments: list[pa.Array], __: Dialect) -> pa.Array:
    (array,) = arguments
    if is_text(array.type):
        return by_distinct_value(array, _integer_of_text, pa.int64())
    if pa.types.is_decimal(array.type):
        return by_distinct_value(array, lambda value: int(value) if -(2**63) <= int(value) < 2**63 else None, pa.int64())
    if pa.types.is_floating(array.type):
        return by_distinct_value(array, _integer_of_double, pa.int64())
    return array.cast(pa.int64())


def _to_float(_: Call, arguments: list[pa.Array], __: Dialect) -> pa.Array:
    (array,) = arguments
    if is_text(array.type):
        return by_distinct_value(array, _float_of_text, pa.float64())
    if pa.types.is_decimal(array.type):
        return by_distinct_value(array, float, pa.float64())
    return array.cast(pa.float64(), safe=False)


def _to_text(_: Call, arguments: list[pa.Array], __: Dialect) -> pa.Array:
    (array,) = arguments
    if pa.types.is_floating(array.type):
        return by_distinct_value(array.cast(pa.float64()), java_text, pa.large_string())
    return array.cast(pa.large_string())


def _to_boolean(_: Call, arguments: list[pa.Array], __: Dialect) -> pa.Array:
    (array,) = arguments
    if is_text(array.type):
        words = {"true": True, "false": False}
        return by_distinct_value(array, lambda text: words.get(text.strip().casefold()), pa.bool_())
    if pa.types.is_integer(array.type):
        return pc.not_equal(array, pa.scalar(0, array.type))
    return array.cast(pa.bool_())


CYPHER_CASTS = {"toInteger": _to_integer, "toFloat": _to_float, "toString": _to_text, "toBoolean": _to_boolean}
