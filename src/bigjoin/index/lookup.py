"""From ids to codes, for ids that arrive a few at a time and may be new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.dictionary import NO_CODE
from bigjoin.index.values import Column


class CodeLookup:
    """The code of every id.

    Integers lie in two sorted tables of ids and codes, a large one and a small one for those added lately, so that an addition
    rarely sorts them all; other ids lie in a dict.
    """

    def __init__(self, ids: pa.Array | Column) -> None:
        self.size = 0
        self.integers = pa.types.is_integer(ids.type)
        self.known: dict[Any, int] = {}
        self.large = self.small = np.empty((2, 0), np.int64)
        self.add(ids)

    def codes(self, ids: pa.Array | Column) -> NDArray[np.int64]:
        """Return the codes of ids, NO_CODE for those that have none."""
        if not self.integers:
            return np.fromiter((self.known.get(value, NO_CODE) for value in ids.to_pylist()), np.int64, len(ids))
        values = np.asarray(ids).astype(np.int64)
        found = np.full(len(values), NO_CODE, np.int64)
        for keys, codes in (self.large, self.small):
            if len(keys):
                at = np.minimum(np.searchsorted(keys, values), len(keys) - 1)
                found = np.where(keys[at] == values, codes[at], found)
        return found

    def add(self, ids: pa.Array | Column) -> None:
        """Give new ids the next codes."""
        codes = np.arange(self.size, self.size + len(ids))
        self.size += len(ids)
        if not self.integers:
            self.known.update(zip(ids.to_pylist(), codes.tolist(), strict=True))
        elif len(ids):
            self.small = _merged(self.small, np.stack([np.asarray(ids).astype(np.int64), codes]))
            if 4 * self.small.shape[1] > self.large.shape[1]:
                self.large, self.small = _merged(self.large, self.small), self.small[:, :0]


def _merged(one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    both = np.concatenate([one, other], axis=1)
    return both[:, np.argsort(both[0], kind="stable")]
