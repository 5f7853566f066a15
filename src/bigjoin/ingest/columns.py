"""Types of columns: which type a column of a source becomes, which type two columns share, and how values are cast."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bigjoin.errors import SourceError

_SIGNED_TYPES = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.int64()}
_TEXT_TYPES = (pa.string(), pa.large_string(), pa.string_view())
_BINARY_TYPES = (pa.binary(), pa.large_binary(), pa.binary_view())
_UNCHANGED_TYPES = (pa.float32(), pa.float64(), pa.bool_(), pa.date32())
_TIME_UNITS = ("s", "ms", "us", "ns")
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)
_UUID_DIGITS = np.array([i for i in range(36) if i not in (8, 13, 18, 23)])


def property_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that a column of this type becomes; None if it is nested, or if no filter could use it."""
    if kind in _UNCHANGED_TYPES or pa.types.is_signed_integer(kind) or pa.types.is_timestamp(kind):
        return kind
    if kind in _SIGNED_TYPES:
        return _SIGNED_TYPES[kind]
    if kind in _TEXT_TYPES or kind == pa.uuid():
        return pa.string()
    if kind in _BINARY_TYPES or pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_decimal(kind):
        if kind.scale > 38:
            return None
        return pa.decimal128(min(kind.precision, 38), kind.scale)
    if pa.types.is_date64(kind):
        return pa.date32()
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_dictionary(kind):
        return property_type(kind.value_type)
    if isinstance(kind, pa.BaseExtensionType):
        return property_type(kind.storage_type)
    return None


def id_type(kind: pa.DataType, column: str, source: str) -> pa.DataType:
    """Return the type that ids of this type become; refuse types that cannot be ids."""
    becomes = joined_type(kind)
    if becomes is None or pa.types.is_floating(becomes) or pa.types.is_boolean(becomes):
        raise SourceError(
            f"column {column!r} of {source} is {kind}; ids are integers, text, UUIDs, decimals, dates or binary: cast it"
        )
    return becomes


def joined_type(kind: pa.DataType) -> pa.DataType | None:
    """Return the type of values that are joined and come back in results: times are in microseconds, as in Spark.

    Finer times are refused when they are cast, since two of them could come back as one.
    """
    becomes = property_type(kind)
    return pa.timestamp("us", becomes.tz) if becomes is not None and pa.types.is_timestamp(becomes) else becomes


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type that holds the values of both types; None if they are of different sorts."""
    if one == other:
        return one
    for is_sort in (pa.types.is_signed_integer, pa.types.is_floating):
        if is_sort(one) and is_sort(other):
            return max(one, other, key=lambda kind: kind.bit_width)
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        scale = max(one.scale, other.scale)
        precision = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(precision, scale) if precision <= 38 else None
    if pa.types.is_timestamp(one) and pa.types.is_timestamp(other) and (one.tz is None) == (other.tz is None):
        return pa.timestamp(max(one.unit, other.unit, key=_TIME_UNITS.index), one.tz if one.tz == other.tz else "UTC")
    return None


def cast(values: pa.Array, kind: pa.DataType, *, column: str, source: str) -> pa.Array:
    """Return values as the type that their column becomes."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_fixed_size_binary(values.type) and pa.types.is_string(kind):
        return uuid_text(values)
    if values.type == pa.uint64():
        check_64_bits(pc.max(values).as_py(), column=column, source=source)
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        times = pa.types.is_timestamp(values.type) and pa.types.is_timestamp(kind)
        if times and _TIME_UNITS.index(values.type.unit) > _TIME_UNITS.index(kind.unit):
            _refuse_finer(values, kind, column=column, source=source)
        raise SourceError(f"column {column!r} of {source} does not fit {kind}: {error}") from None


def _refuse_finer(values: pa.Array, kind: pa.DataType, *, column: str, source: str) -> None:
    """Refuse a column with the first of its times that is not a whole number of a type's unit."""
    found = values.drop_null()
    back = found.cast(kind, safe=False).cast(found.type, safe=False)
    finer = found.filter(pc.not_equal(found, back))
    if len(finer):
        unit = {"s": "seconds", "ms": "milliseconds", "us": "microseconds"}.get(kind.unit, kind.unit)
        raise SourceError(
            f"column {column!r} of {source} holds {finer.cast(pa.string())[0]}, and ids that are times are in whole {unit}: "
            "round it, or cast it to text"
        ) from None


def check_64_bits(largest: int | None, *, column: str, source: str) -> None:
    """Refuse an unsigned integer that does not fit signed 64 bits."""
    if largest is not None and largest >= 2**63:
        raise SourceError(f"column {column!r} of {source} holds {largest}, beyond signed 64 bits: cast it to text")


def uuid_text(values: pa.Array) -> pa.Array:
    """Return UUIDs of 16 bytes as text, as they are usually spelled."""
    if not len(values):
        return pa.array([], pa.string())
    raw = np.frombuffer(values.buffers()[1], np.uint8, count=16 * len(values), offset=16 * values.offset)
    spelled = np.full((len(values), 36), ord("-"), np.uint8)
    spelled[:, _UUID_DIGITS] = _HEX[raw].reshape(-1, 32)
    offsets = np.arange(0, 36 * (len(values) + 1), 36, dtype=np.int32)
    text = pa.Array.from_buffers(pa.string(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(spelled)])
    return pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string()))
