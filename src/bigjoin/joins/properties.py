"""Comparisons of properties, as arrays indexed by code: masks of what satisfies a constant, and integers in value order.

Only codes travel through a join, so columns of values become arrays that kernels can compare. A NULL satisfies no comparison,
not even `!=`. With `with_nan`, NaN is a value: equal to itself and larger than any number, as in Spark SQL; otherwise it is
like NULL. Integers, decimals and times compare exactly, whatever their types; a decimal and a float compare as floats.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import ceil, floor, inf, isinf, nextafter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.index.values import BYTES, TEXT, Column, kind, unit
from bigjoin.query.operators import NOT_EQUAL, OPERATORS, ComparisonOperator

SortKeys: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

_MAX_EXACT_FLOAT = 2**53
_NAN_KEYS = 2**63 - 1, 2**63 - 2
"""Keys of NaN that no number has, and that differ from each other."""


def compared(operator: ComparisonOperator, left: NDArray[Any], right: Any) -> Mask:
    """Tell where an operator holds between arrays, or between an array and a constant."""
    return np.asarray(getattr(np, operator.function)(left, right), np.bool_)


def satisfying(column: Column, op: str, bound: Any, *, with_nan: bool = False) -> Mask:
    """Tell for each code whether its value satisfies a comparison with a constant of the column's kind."""
    operator = OPERATORS[op]
    if kind(column.type) == TEXT:
        return _numpy(getattr(pc, operator.function)(column, pa.scalar(bound, column.type)).fill_null(False))
    values, present = _numbers(column)
    nan = presence(column, with_nan=True) & ~present if with_nan and pa.types.is_floating(column.type) else None
    if nan is not None and nan.any():
        return satisfying(column, op, bound) | (nan & (operator is NOT_EQUAL or not (operator.is_less or operator.symmetric)))
    if isinstance(bound, Decimal):  # a column of decimals is read as counts of its last place
        bound = Fraction(bound) / unit(column.type) if bound.is_finite() else float(bound)
    below, above = _neighbours(bound, values.dtype)
    if operator.symmetric and below != above:  # no value equals the constant
        return present & (not operator.reflexive)
    # No value lies between the two neighbours of the constant, so each operator compares with the one that makes it exact.
    return present & compared(operator, values, above if operator.is_less != operator.reflexive else below)


def joint_keys(left: Column, right: Column, *, nan_differs: bool = False) -> tuple[SortKeys, SortKeys]:
    """Return integers by code that compare like the values of two columns of one kind; those of NULLs are arbitrary.

    NaN equals itself, unless it is said to differ from everything.
    """
    if nan_differs and pa.types.is_floating(left.type) and pa.types.is_floating(right.type):
        keys, others = joint_keys(left, right)
        nan, other_nan = (np.isnan(_numbers(side, nan=np.nan)[0]) for side in (left, right))
        return np.where(nan, _NAN_KEYS[0], keys), np.where(other_nan, _NAN_KEYS[1], others)
    if right is left:
        keys = joint_keys(left, left[:0])[0]
        return keys, keys
    if kind(left.type) in (TEXT, BYTES):
        return _joint_ranks(left, right)
    mine, other = _numbers(left, nan=np.nan)[0], _numbers(right, nan=np.nan)[0]
    units = unit(left.type), unit(right.type)
    if np.float64 in (mine.dtype, other.dtype):
        mine, other = _as_floats(mine, units[0]), _as_floats(other, units[1])
    else:
        mine, other = _scaled(mine, units[0] / min(units)), _scaled(other, units[1] / min(units))
    if mine.dtype == other.dtype == np.float64:
        return _ordered_bits(mine), _ordered_bits(other)
    if mine.dtype == other.dtype == np.int64:
        return mine, other
    both = np.concatenate([mine.astype(object), other.astype(object)])
    nan = np.array([value != value for value in both], np.bool_)
    both[nan] = 0
    ranks = np.where(nan, len(both), np.unique(both, return_inverse=True)[1])
    return ranks[: len(mine)], ranks[len(mine) :]


def presence(column: Column, *, with_nan: bool = False) -> Mask:
    """Tell for each code whether it has a value: no NULL, and no NaN unless that is a value."""
    return _numbers(column)[1] if pa.types.is_floating(column.type) and not with_nan else _numpy(column.is_valid())


def _numbers(column: Column, nan: float = 0.0) -> tuple[NDArray[Any], Mask]:
    """Return numbers, times or booleans as floats or 64-bit integers (Python's if too large), and which are present.

    NaN is not present, and its number is `nan`.
    """
    present = _numpy(column.is_valid())
    if pa.types.is_floating(column.type):
        values = _numpy(column.cast(pa.float64()).fill_null(0.0))
        missing = np.isnan(values)
        return np.where(missing, nan, values), present & ~missing
    stored = column
    if pa.types.is_decimal(column.type):
        wide = pa.decimal256(76, 0) if pa.types.is_decimal256(column.type) else pa.decimal128(38, 0)
        stored = pa.chunked_array([_unscaled(piece, wide) for piece in column.chunks], wide)
    elif pa.types.is_date32(column.type):
        stored = column.cast(pa.int32())
    elif pa.types.is_boolean(column.type):
        stored = column.cast(pa.uint8())
    elif pa.types.is_duration(column.type):
        stored = column.cast(pa.duration("us"))
    try:
        return _numpy(stored.cast(pa.int64()).fill_null(0)), present
    except pa.ArrowInvalid:
        return np.array([int(value or 0) for value in stored.to_pylist()], object), present


def _unscaled(piece: pa.Array, wide: pa.DataType) -> pa.Array:
    """Return decimals as the integers that Arrow stores: counts of their last place."""
    stored = piece.cast(pa.decimal128(38, piece.type.scale)) if piece.type.bit_width < 128 else piece
    return stored.view(wide)


def _neighbours(bound: Any, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Return the largest value of a type that is at most a constant, and the smallest that is at least that constant."""
    if isinstance(bound, float) and isinf(bound):
        return bound, bound
    if dtype != np.float64:
        return floor(bound), ceil(bound)
    try:
        near = float(bound)
    except OverflowError:
        near = inf if bound > 0 else -inf
    return near if near <= bound else nextafter(near, -inf), near if near >= bound else nextafter(near, inf)


def _scaled(values: NDArray[Any], factor: Fraction) -> NDArray[Any]:
    """Return integers in a finer unit, as Python integers if they would overflow."""
    times = int(factor)
    if times == 1 or not len(values):
        return values
    largest = max(abs(int(values.min())), abs(int(values.max())))
    return values * times if largest * times < 2**63 else values.astype(object) * times


def _as_floats(values: NDArray[Any], each: Fraction) -> NDArray[Any]:
    """Return values as floats, except integers that floats cannot represent exactly: these are returned unchanged."""
    if each != 1:
        return values.astype(np.float64) * float(each)
    exact = values.dtype == np.int64 and (not len(values) or max(-int(values.min()), int(values.max())) <= _MAX_EXACT_FLOAT)
    return values.astype(np.float64) if exact else values


def _ordered_bits(values: NDArray[np.float64]) -> SortKeys:
    """Return integers in the order of floats: for negative floats, all bits except the sign are inverted."""
    bits = (values + 0.0).view(np.int64)  # adding zero makes -0.0 equal to 0.0
    return bits ^ ((bits >> 63) & np.int64(2**63 - 1))


def _joint_ranks(left: Column, right: Column) -> tuple[SortKeys, SortKeys]:
    """Return the ranks of text or bytes among the values of both columns."""
    wide = pa.large_string() if kind(left.type) == TEXT else pa.large_binary()
    common = left.type if left.type == right.type else wide
    encoded = pa.chunked_array([*left.cast(common).chunks, *right.cast(common).chunks], common).dictionary_encode()
    if not len(encoded):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    values = encoded.chunks[-1].dictionary
    ranks = np.zeros(len(values) + 1, np.int64)  # the last rank is for NULL
    ranks[pc.sort_indices(values).to_numpy(zero_copy_only=False)] = np.arange(len(values))
    codes = [_numpy(chunk.indices.fill_null(len(values))) for chunk in encoded.chunks]
    keys = ranks[np.concatenate(codes)]
    return keys[: len(left)], keys[len(left) :]


def _numpy(column: Column | pa.Array) -> NDArray[Any]:
    """Return a column as one NumPy array, without a copy if it has one chunk."""
    if isinstance(column, pa.ChunkedArray) and column.num_chunks == 1:
        column = column.chunk(0)
    return np.asarray(column.to_numpy(zero_copy_only=False) if isinstance(column, pa.Array) else column.to_numpy())
