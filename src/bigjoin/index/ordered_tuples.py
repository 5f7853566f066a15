"""Tuples of integers in order, each once: as single numbers where they fit, which sort ten times as fast as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def ordered_tuples(columns: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """Return tuples, given column by column, in the order of the columns and without duplicates."""
    if not len(columns[0]):
        return [np.asarray(column) for column in columns]
    lows = [int(column.min()) for column in columns]
    bits = [(int(column.max()) - low).bit_length() for column, low in zip(columns, lows, strict=True)]
    if sum(bits) > 64:
        order = np.lexsort(columns[::-1])
        ordered = [column[order] for column in columns]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = np.any([column[1:] != column[:-1] for column in ordered], axis=0)
        return [column[fresh] for column in ordered]
    packed = np.zeros(len(columns[0]), np.uint64)
    for column, low, width in zip(columns, lows, bits, strict=True):
        packed <<= np.uint64(width)
        packed |= (column.astype(np.int64, copy=False) - low).astype(np.uint64)
    packed.sort()
    packed = packed[np.append(True, packed[1:] != packed[:-1])]  # NumPy's `unique` would use a hash table, and be slow
    found = []
    for column, low, width in zip(reversed(columns), reversed(lows), reversed(bits), strict=True):
        found.append(((packed & np.uint64((1 << width) - 1)).astype(np.int64) + low).astype(column.dtype))
        packed >>= np.uint64(width)
    return found[::-1]
