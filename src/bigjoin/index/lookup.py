"""From ids to codes, for ids that arrive a few at a time and may be new."""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.dictionary import NO_CODE
from bigjoin.index.values import Column
from bigjoin.kernels.id_table import enter_ids, find_codes
from bigjoin.storage.arena import Growing

MIN_SLOTS = 1 << 10
"""Slots of a table, however few ids it has."""


class CodeLookup:
    """The code of every id: integers are found in a hash table, other ids in a dict."""

    def __init__(self, ids: pa.Array | Column) -> None:
        self.size = 0
        self.integers = pa.types.is_integer(ids.type)
        self.known: dict[Any, int] = {}
        self.values = Growing(np.empty(0, np.int64))
        """By code."""
        self.slots = np.zeros(MIN_SLOTS, np.uint32)
        self.salt = np.uint64(secrets.randbits(64))
        self.add(ids)

    def codes(self, ids: pa.Array | Column) -> NDArray[np.int64]:
        """Return the codes of ids, NO_CODE for those that have none."""
        if not self.integers:
            return np.fromiter((self.known.get(value, NO_CODE) for value in ids.to_pylist()), np.int64, len(ids))
        found = np.empty(len(ids), np.int64)
        find_codes(self.slots, self.values.filled, _as_integers(ids), self.salt, NO_CODE, found)
        return found

    def add(self, ids: pa.Array | Column) -> None:
        """Give new ids the next codes."""
        first, self.size = self.size, self.size + len(ids)
        if not self.integers:
            self.known.update(zip(ids.to_pylist(), range(first, self.size), strict=True))
        elif len(ids):
            self.values.extend(len(ids))[:] = _as_integers(ids)
            if 2 * self.size > len(self.slots):
                first, self.slots = 0, np.zeros(1 << (4 * self.size - 1).bit_length(), np.uint32)
            enter_ids(self.slots, self.values.filled, first, self.size, self.salt)


def _as_integers(ids: pa.Array | Column) -> NDArray[np.int64]:
    return np.asarray(ids).astype(np.int64, copy=False)
