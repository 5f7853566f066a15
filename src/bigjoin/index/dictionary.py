"""The dictionary of a domain: code -> id, id -> code, and the rank of each id, so that comparisons mean ids and not codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.query.query import Value


@dataclass(frozen=True)
class Dictionary:
    """The ids of a domain by code, and each code's rank: the number of smaller ids."""

    ids: pa.Array
    ranks: NDArray[Any]

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def _codes_by_rank(self) -> NDArray[np.int64]:
        codes = np.empty(len(self.ranks), np.int64)
        codes[self.ranks] = np.arange(len(self.ranks))
        return codes

    def decode(self, codes: NDArray[Any]) -> pa.Array:
        """Return the ids of codes."""
        return self.ids.take(pa.array(codes))

    def comparable(self, value: Value) -> bool:
        """Tell whether a constant can be compared with the ids: text with text, numbers with numbers."""
        kind = self.ids.type
        if isinstance(value, str):
            return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
        return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))

    def smaller(self, value: Value, *, or_equal: bool = False) -> int:
        """Return how many ids are smaller than a constant (or equal to it), by binary search."""
        low, high = 0, len(self.ids)
        while low < high:
            middle = (low + high) // 2
            id_ = self.ids[int(self._codes_by_rank[middle])].as_py()
            if id_ < value or (or_equal and id_ == value):
                low = middle + 1
            else:
                high = middle
        return low

    def code(self, value: Value) -> int | None:
        """Return the code of an id, or None where there is no such id."""
        rank = self.smaller(value)
        if rank == self.smaller(value, or_equal=True):
            return None
        return int(self._codes_by_rank[rank])


def ranks_of(ids: pa.Array) -> NDArray[Any]:
    """Return the rank of each of the distinct ids in their own order (text by code point)."""
    order = pc.sort_indices(ids).to_numpy(zero_copy_only=False)
    ranks = np.empty(len(ids), code_type(len(ids)))
    ranks[order] = np.arange(len(ids), dtype=ranks.dtype)
    return ranks


def code_type(size: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest type for the codes of a domain; the largest value stays free for an upper bound."""
    return np.uint32 if size < 2**32 else np.uint64
