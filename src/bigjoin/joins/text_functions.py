"""Functions of text, which is measured in characters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.joins.regular_expressions import in_re2, like_in_re2
from bigjoin.joins.value_columns import (
    FunctionOfValues,
    Values,
    are_constants,
    as_text,
    constant_argument,
    missing_in,
    number_argument,
    value_by_value,
)
from bigjoin.query.expressions import Call
from bigjoin.query.query import Dialect
from bigjoin.query.terms import Constant


def _text(function: Callable[[Values], Values]) -> FunctionOfValues:
    return lambda _, arguments, __: function(as_text(arguments[0]))


def _trimmed(of_spaces: Callable[[Values, str], Values], of_whitespace: Callable[[Values], Values]) -> FunctionOfValues:
    """Return the function that trims spaces in SQL, and all white space in Cypher."""

    def found(_: Call, arguments: list[Values], dialect: Dialect) -> Values:
        text = as_text(arguments[0])
        return of_whitespace(text) if dialect == "cypher" else of_spaces(text, " ")

    return found


def _length(_: Call, arguments: list[Values], __: Dialect) -> Values:
    return pc.utf8_length(as_text(arguments[0])).cast(pa.int64())


def _joined(_: Call, arguments: list[Values], __: Dialect) -> Values:
    wide = [as_text(a).cast(pa.large_string()) for a in arguments]
    return pc.binary_join_element_wise(*wide, pa.scalar("", pa.large_string()), null_handling="emit_null")


def _substring(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
    if dialect == "cypher":
        _refuse_negative(pc.subtract(arguments[1].cast(pa.int64()), 1), *arguments[2:])
    if not are_constants(call, 1, 2):
        return value_by_value(lambda text, *places: text[slice(*_cut(*places))], pa.large_string(), arguments)
    return pc.utf8_slice_codeunits(as_text(arguments[0]), *_cut(number_argument(call, 1, 1), number_argument(call, 2, None)))


def _cut(start: int, length: int | None = None) -> tuple[int, int | None]:
    """Return where a substring begins and ends, as Python counts; the first character is the first, and the last is -1."""
    begin = start - 1 if start > 0 else start
    stop = None if length is None else begin + max(0, length)
    return begin, None if begin < 0 and stop is not None and stop >= 0 else stop


def _refuse_negative(*arrays: Values) -> None:
    if any(pc.any(pc.less(array.cast(pa.int64()), 0)).as_py() for array in arrays):
        raise pa.ArrowInvalid("negative")


def _left(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
    if dialect == "cypher":
        _refuse_negative(arguments[1])
    if not are_constants(call, 1):
        return value_by_value(lambda text, many: text[: max(0, many)], pa.large_string(), arguments)
    return pc.utf8_slice_codeunits(as_text(arguments[0]), 0, max(0, number_argument(call, 1, 0)))


def _right(call: Call, arguments: list[Values], dialect: Dialect) -> Values:
    if dialect == "cypher":
        _refuse_negative(arguments[1])
    if not are_constants(call, 1):
        return value_by_value(lambda text, many: text[-many:] if many > 0 else "", pa.large_string(), arguments)
    many = number_argument(call, 1, 0)
    array = as_text(arguments[0])
    return pc.utf8_slice_codeunits(array, -many) if many > 0 else pc.utf8_slice_codeunits(array, 0, 0)


def _replace(call: Call, arguments: list[Values], _: Dialect) -> Values:
    if not are_constants(call, 1, 2):
        return value_by_value(lambda text, old, new: text.replace(old, new) if old else text, pa.large_string(), arguments)
    pattern, by = (constant_argument(call, place) for place in (1, 2))
    return pc.replace_substring(as_text(arguments[0]), pattern, by) if pattern else arguments[0]


def _like(call: Call, arguments: list[Values], _: Dialect) -> Values:
    if not are_constants(call, 1):
        return pa.nulls(len(arguments[0]), pa.bool_())
    pattern, text, any_case = constant_argument(call, 1), as_text(arguments[0]), call.function == "ilike"
    if "\\" not in pattern:
        return pc.match_like(text, pattern, ignore_case=any_case)
    return pc.match_substring_regex(text, like_in_re2(pattern, call.span), ignore_case=any_case)


def _matching(call: Call, arguments: list[Values], _: Dialect) -> Values:
    if not are_constants(call, 1):
        return pa.nulls(len(arguments[0]), pa.bool_())
    pattern = in_re2(constant_argument(call, 1), call.span, whole=call.function == "matches")
    return pc.match_substring_regex(as_text(arguments[0]), pattern)


def _part_of_text(call: Call, arguments: list[Values], _: Dialect) -> Values:
    left, right = map(as_text, arguments)
    if isinstance(call.arguments[1], Constant):
        if call.arguments[1].value is None:
            return pa.nulls(len(left), pa.bool_())
        test = {"starts with": pc.starts_with, "ends with": pc.ends_with, "contains": pc.match_substring}[call.function]
        return test(left, constant_argument(call, 1))
    missing = missing_in(left, right)
    texts = [np.array(pc.fill_null(side, "").to_pylist(), np.dtypes.StringDType()) for side in (left, right)]
    if call.function == "contains":
        found = np.strings.find(texts[0], texts[1]) >= 0
    else:
        found = np.strings.startswith(*texts) if call.function == "starts with" else np.strings.endswith(*texts)
    return pa.array(found, pa.bool_(), mask=missing)


TEXT_FUNCTIONS: dict[str, FunctionOfValues] = {
    "lower": _text(pc.utf8_lower),
    "upper": _text(pc.utf8_upper),
    "trim": _trimmed(pc.utf8_trim, pc.utf8_trim_whitespace),
    "ltrim": _trimmed(pc.utf8_ltrim, pc.utf8_ltrim_whitespace),
    "rtrim": _trimmed(pc.utf8_rtrim, pc.utf8_rtrim_whitespace),
    "reverse": _text(pc.utf8_reverse),
    "length": _length,
    "||": _joined,
    "substring": _substring,
    "left": _left,
    "right": _right,
    "replace": _replace,
    "like": _like,
    "ilike": _like,
    "rlike": _matching,
    "matches": _matching,
    "starts with": _part_of_text,
    "ends with": _part_of_text,
    "contains": _part_of_text,
}
