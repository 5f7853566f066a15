"""Columns as Python values that are equal where rows are, and back: what groups are looked up by."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import QueryError


def in_python(column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column: times as integers, lists as tuples, one zero and one NaN."""
    plain = column.cast(_plain_type(column.type))
    values: list[Any] = plain.to_pylist()
    if pa.types.is_floating(plain.type):
        return [math.nan if value != value else value for value in pc.add(plain, pa.scalar(0, plain.type)).to_pylist()]
    return [_hashable(value) for value in values] if pa.types.is_nested(plain.type) else values


def in_arrow(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of a type with values as `in_python` gives them."""
    try:
        return pa.array(values, _plain_type(kind)).cast(kind)
    except (pa.ArrowInvalid, OverflowError):
        raise QueryError(f"an aggregate of some group does not fit into {kind}") from None


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that stands for another in Python."""
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain_type(kind.value_type))
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_time(kind) or pa.types.is_duration(kind):
        return pa.int64()
    return kind


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(one) for one in value)
    return math.nan if value != value else value
