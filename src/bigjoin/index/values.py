"""Values of Arrow types: which of them compare, what a constant means among them, and how to take them from columns by code."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.kernels.gather import gather
from bigjoin.query.terms import ConstantValue

Column: TypeAlias = pa.ChunkedArray
"""Values by code, in one or several pieces."""

NUMBER, TEXT, TIME, BOOLEAN, BYTES = "a number", "text", "a time", "a truth value", "bytes"
SPAN = "a span of time"

_MICROSECONDS = {"s": Fraction(10**6), "ms": Fraction(10**3), "us": Fraction(1), "ns": Fraction(1, 10**3)}
_GATHERED = (pa.int32(), pa.int64(), pa.float64())
_EPOCH = datetime(1970, 1, 1)


def kind(arrow: pa.DataType) -> str | None:
    """Return the kind of a type's values, None if they have no order; only values of one kind can be compared."""
    kinds = {
        NUMBER: (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
        TEXT: (pa.types.is_string, pa.types.is_large_string),
        TIME: (pa.types.is_timestamp, pa.types.is_date),
        BOOLEAN: (pa.types.is_boolean,),
        SPAN: (pa.types.is_duration,),
        BYTES: (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary),
    }
    return next((name for name, tests in kinds.items() if any(test(arrow) for test in tests)), None)


def unit(arrow: pa.DataType) -> Fraction:
    """Return what a stored integer counts: microseconds for times, the last decimal place for decimals, otherwise ones."""
    if pa.types.is_timestamp(arrow) or pa.types.is_duration(arrow):
        return _MICROSECONDS[arrow.unit]
    if pa.types.is_date(arrow):
        return Fraction(86_400 * 10**6 if pa.types.is_date32(arrow) else 10**3)
    return Fraction(10) ** -arrow.scale if pa.types.is_decimal(arrow) else Fraction(1)


def constant(value: ConstantValue, arrow: pa.DataType) -> Any:
    """Return a constant in a form that compares exactly with `plain` values of a type, or None if it cannot be compared."""
    wanted = kind(arrow)
    value = str(value) if isinstance(value, date) else value
    if isinstance(value, bool):
        return value if wanted == BOOLEAN else None
    if isinstance(value, str):
        if wanted == TIME:
            moment = instant(value)
            return None if moment is None else moment / unit(arrow)
        return value if wanted == TEXT else None
    if wanted != NUMBER or not isinstance(value, int | float | Decimal):
        return None
    # A number with a point means the digits that were written, unless it is compared with a double.
    if pa.types.is_floating(arrow):
        return float(value) if isinstance(value, Decimal) else value
    return Decimal(str(value)) if pa.types.is_decimal(arrow) else value


def plain(scalar: pa.Scalar) -> Any:
    """Return a value as Python compares it; a time as the integer that is stored."""
    return scalar.value if kind(scalar.type) == TIME else scalar.as_py()


def instant(text: str) -> Fraction | None:
    """Return the microseconds since 1970 of an ISO date or time (UTC unless it has a zone), or None if it is neither."""
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    if re.search(r"[.,]\d{7}", text):  # finer than a microsecond: fromisoformat would truncate it
        return None
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC).replace(tzinfo=None)
    return Fraction((moment - _EPOCH) // timedelta(microseconds=1))


def take(column: pa.Array | Column, codes: NDArray[Any]) -> pa.Array:
    """Return the values of codes; only the pieces that the codes lie in are read."""
    pieces = [column] if isinstance(column, pa.Array) else column.chunks
    if len(pieces) == 1 and column.type in _GATHERED and not column.null_count:
        found = np.empty(len(codes), pieces[0].type.to_pandas_dtype())  # several times as fast as Arrow
        gather(pieces[0].to_numpy(), codes, found)
        return pa.array(found)
    if len(pieces) == 1:
        return pieces[0].take(pa.array(codes))
    if not len(codes):
        return pa.array([], column.type)
    starts = np.cumsum([0, *map(len, pieces[:-1])])
    piece = np.searchsorted(starts, codes, side="right") - 1  # never an empty one
    parts = [pieces[p].take(pa.array(codes[piece == p].astype(np.int64) - starts[p])) for p in np.unique(piece)]
    back = np.empty(len(codes), np.int64)
    back[np.argsort(piece, kind="stable")] = np.arange(len(codes))
    return pa.concat_arrays(parts).take(pa.array(back))
