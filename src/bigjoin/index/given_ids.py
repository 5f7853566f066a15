"""Ids that a user gives, as codes. What a domain does not have is no mistake, but ids of another kind are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.errors import SourceError, shown
from bigjoin.index.dictionary import Dictionary, RowNumbers
from bigjoin.index.values import NUMBER, TEXT, TIME, kind


def codes_of(ids: pa.Array, dictionary: Dictionary | RowNumbers, what: str, *, is_text: bool = False) -> NDArray[np.int64]:
    """Return the codes of ids, NO_CODE for those that the domain lacks; raise SourceError for another kind of ids.

    `is_text` says that they are spelled as in a text file, which has no types.
    """
    return dictionary.codes(as_type(ids, dictionary.type, what, is_text=is_text)) if len(ids) else np.empty(0, np.int64)


def as_type(ids: pa.Array, wanted: pa.DataType, what: str, *, is_text: bool = False) -> pa.Array:
    """Return ids as another type, NULL where one has no value of that type."""
    if ids.type == wanted and not pa.types.is_floating(wanted):
        return ids
    if kind(ids.type) == TEXT and (is_text or kind(wanted) == TIME) and kind(wanted) != TEXT:
        return _parsed(ids, wanted, what)
    if kind(ids.type) != kind(wanted):
        raise SourceError(f"{what} are {_named(ids.type)}, and the ids that they are compared with are {_named(wanted)}")
    if pa.types.is_floating(ids.type) and pa.types.is_integer(wanted):
        is_whole = pc.and_(pc.equal(ids, pc.floor(ids)), pc.less(pc.abs(ids), 2.0**63))  # neither for NaN nor an infinity
        ids = pc.if_else(is_whole, ids, pa.scalar(None, ids.type))
    try:
        found = ids.cast(wanted)
        return pc.add(found, pa.scalar(0.0, wanted)) if pa.types.is_floating(wanted) else found  # -0.0 is 0.0
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # some of them do not fit, or Arrow has no such cast
        return pa.array([_one(scalar, wanted) for scalar in ids], wanted)


def _parsed(ids: pa.Array, wanted: pa.DataType, what: str) -> pa.Array:
    try:
        return pc.utf8_trim_whitespace(ids).cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        odd = next((text for text in ids.to_pylist() if _one(pa.scalar(text.strip()), wanted) is None), "")
        raise SourceError(
            f"{what} include {shown(odd, 60)!r}, and the ids that they are compared with are {_named(wanted)}"
        ) from None


def _one(scalar: pa.Scalar, wanted: pa.DataType) -> Any:
    """Return a value as another type, None if it has none that is equal."""
    try:
        return scalar.cast(wanted).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OverflowError):
        return None


def _named(arrow: pa.DataType) -> str:
    """Return what a user calls the type of some ids."""
    called = {NUMBER: "numbers", TEXT: "text", TIME: "times"}.get(kind(arrow) or "")
    return str(arrow) if called is None else f"{called} ({arrow})"
