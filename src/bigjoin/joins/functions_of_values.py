"""What functions mean for columns of values, by name. Logic and comparisons are in `evaluate.py`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.joins.casts import cast_values
from bigjoin.joins.cypher_casts import CYPHER_CASTS
from bigjoin.joins.number_functions import (
    CHECKED,
    NUMBER_FUNCTIONS,
    arithmetic_of_decimals,
    arithmetic_of_doubles,
    as_double,
    refuse_zero,
    sized,
    without_zero,
)
from bigjoin.joins.text_functions import TEXT_FUNCTIONS
from bigjoin.joins.time_functions import TIME_FUNCTIONS, time_arithmetic
from bigjoin.joins.value_columns import FunctionOfValues, Values, missing_in
from bigjoin.query.expressions import Call
from bigjoin.query.query import Dialect


def _arithmetic(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
    left, right = arguments
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(left))
    if pa.types.is_duration(right.type) and not pa.types.is_temporal(left.type):
        left, right = right, left  # a number times a span
    if pa.types.is_duration(left.type) and pa.types.is_temporal(right.type) and not pa.types.is_duration(right.type):
        left, right, call = right, left, replace(call, arguments=call.arguments[::-1])  # a span and then a time
    if pa.types.is_temporal(left.type):
        return time_arithmetic(call, left, right)
    kinds = (left.type, right.type)
    if any(pa.types.is_floating(kind) for kind in kinds):
        return arithmetic_of_doubles(call.function, as_double(left), as_double(right), dialect)
    if any(pa.types.is_decimal(kind) or kind == pa.uint64() for kind in kinds):
        one, other = (sized(array, argument) for array, argument in zip((left, right), call.arguments, strict=True))
        return arithmetic_of_decimals(call.function, one, other)
    one, other = left.cast(pa.int64()), right.cast(pa.int64())
    match call.function:
        case "/":
            return arithmetic_of_doubles("/", as_double(one), as_double(other), dialect)
        case "%" | "div":
            refuse_zero(one, other)
            if call.function == "div":
                return pc.divide_checked(one, without_zero(other))
            rest = np.fmod(one.fill_null(0).to_numpy(), without_zero(other).fill_null(1).to_numpy())
            return pa.array(rest, pa.int64(), mask=missing_in(one, other))
    return CHECKED[call.function](one, other)


def _not(_: Call, arguments: list[Values], __: Dialect) -> Values:
    return pc.invert(arguments[0].cast(pa.bool_()))


def _xor(_: Call, arguments: list[Values], __: Dialect) -> Values:
    found = arguments[0].cast(pa.bool_())
    for other in arguments[1:]:
        found = pc.xor(found, other.cast(pa.bool_()))
    return found


FUNCTIONS_OF_VALUES: dict[str, FunctionOfValues] = {
    **NUMBER_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **TIME_FUNCTIONS,
    "not": _not,
    "xor": _xor,
    **dict.fromkeys(("+", "-", "*", "/", "%", "div"), _arithmetic),
    "cast": cast_values,
    **CYPHER_CASTS,
}
