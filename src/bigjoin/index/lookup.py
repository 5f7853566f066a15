"""From ids to codes, for ids that come a few at a time and may be new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.values import Column

NO_CODE = -1


class CodeLookup:
    """The code of every id: integers in sorted arrays, of which the smaller holds what was added lately; others in a dict."""

    def __init__(self, ids: pa.Array | Column) -> None:
        self.size = 0
        self.integers = pa.types.is_integer(ids.type)
        self.known: dict[Any, int] = {}
        self.sorted = [(np.empty(0, np.int64), np.empty(0, np.int64)) for _ in range(2)]
        self.add(ids)

    def codes(self, ids: pa.Array | Column) -> NDArray[np.int64]:
        """Return the codes of ids, NO_CODE for those that have none."""
        if not self.integers:
            return np.fromiter((self.known.get(value, NO_CODE) for value in ids.to_pylist()), np.int64, len(ids))
        values = np.asarray(ids).astype(np.int64)
        found = np.full(len(values), NO_CODE, np.int64)
        for keys, codes in self.sorted:
            if len(keys):
                at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
                found = np.where(keys[at] == values, codes[at], found)
        return found

    def add(self, ids: pa.Array | Column) -> None:
        """Give new ids the next codes."""
        if not len(ids):
            return
        codes = np.arange(self.size, self.size + len(ids))
        self.size += len(ids)
        if not self.integers:
            self.known.update(zip(ids.to_pylist(), codes.tolist(), strict=True))
            return
        (old, old_codes), (late, late_codes) = self.sorted
        late, late_codes = _merged(late, late_codes, np.asarray(ids).astype(np.int64), codes)
        if 4 * len(late) > len(old):
            old, old_codes = _merged(old, old_codes, late, late_codes)
            late, late_codes = late[:0], late_codes[:0]
        self.sorted = [(old, old_codes), (late, late_codes)]


def _merged(
    keys: NDArray[np.int64], codes: NDArray[np.int64], more: NDArray[np.int64], their_codes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    keys, codes = np.concatenate([keys, more]), np.concatenate([codes, their_codes])
    order = np.argsort(keys, kind="stable")
    return keys[order], codes[order]
