"""The dictionary of a domain: code -> id, id -> code, and the rank of each id, because queries compare ids, not codes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.index.values import Column, constant, plain, take
from bigjoin.query.terms import ConstantValue

CODES_IN_32_BITS = 2**32
"""Domains below this size have codes of 32 bits."""

NO_CODE = -1
"""In place of the code of an id that a domain does not have."""

MAX_SEARCHED_SHARE = 16
"""Ids are searched for one by one if there are fewer than one in so many of the domain's."""


@dataclass(frozen=True)
class Dictionary:
    """The ids of a domain by code, and the rank of each: the number of smaller ids."""

    ids: pa.Array | Column
    stored_ranks: NDArray[Any]
    """The ranks among the first ids; runs of updates may have added others."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def type(self) -> pa.DataType:
        return self.ids.type

    @cached_property
    def ranks(self) -> NDArray[Any]:
        """The rank of each code."""
        if len(self.stored_ranks) == len(self.ids):
            return self.stored_ranks
        ids = self.ids.combine_chunks() if isinstance(self.ids, pa.ChunkedArray) else self.ids
        return _more_ranks(self.stored_ranks, np.asarray(ids)) if pa.types.is_integer(ids.type) else ranks_of(ids)

    @cached_property
    def _codes_by_rank(self) -> NDArray[np.int64]:
        codes = np.empty(len(self.ranks), np.int64)
        codes[self.ranks] = np.arange(len(self.ranks))
        return codes

    def decode(self, codes: NDArray[Any]) -> pa.Array:
        """Return the ids of codes."""
        return take(self.ids, codes)

    def codes(self, ids: pa.Array) -> NDArray[np.int64]:
        """Return the codes of ids, which have the type of these, NO_CODE for those that are not there or are NULL.

        Few are searched for in all by rank; for many, all are put into a hash table, which also finds NaN.
        """
        if MAX_SEARCHED_SHARE * len(ids) > len(self) or pa.types.is_floating(self.type):
            known = self.ids.combine_chunks() if isinstance(self.ids, pa.ChunkedArray) else self.ids
            places = pc.index_in(ids, value_set=known, skip_nulls=True)
            return np.asarray(pc.fill_null(places, NO_CODE)).astype(np.int64)
        low, high = np.zeros(len(ids), np.int64), np.full(len(ids), len(self), np.int64)
        while (high > low).any():
            middle = np.minimum((low + high) >> 1, len(self) - 1)
            smaller = self._is_smaller(self._codes_by_rank[middle], ids) & (low < high)
            low, high = np.where(smaller, middle + 1, low), np.where(smaller, high, np.maximum(low, middle))
        codes = self._codes_by_rank[np.minimum(low, len(self) - 1)]
        found = pc.fill_null(pc.equal(take(self.ids, codes), ids), False).to_numpy(zero_copy_only=False)
        return np.where(found, codes, NO_CODE)

    def _is_smaller(self, codes: NDArray[Any], ids: pa.Array) -> NDArray[np.bool_]:
        """Tell for each code whether its id is smaller than another id."""
        smaller: NDArray[np.bool_] = pc.fill_null(pc.less(take(self.ids, codes), ids), False).to_numpy(zero_copy_only=False)
        return smaller

    def comparable(self, value: ConstantValue) -> bool:
        """Tell whether a constant can be compared with the ids: text with text, numbers with numbers, ISO times with times."""
        return constant(value, self.type) is not None

    def smaller(self, value: ConstantValue, *, or_equal: bool = False) -> int:
        """Return how many ids are smaller than a constant (or equal to it), by binary search."""
        bound = constant(value, self.type)
        low, high = 0, len(self.ids)
        while low < high:
            middle = (low + high) // 2
            id_ = plain(self.ids[int(self._codes_by_rank[middle])])
            if id_ < bound or (or_equal and id_ == bound):
                low = middle + 1
            else:
                high = middle
        return low

    def code(self, value: ConstantValue) -> int | None:
        """Return the code of an id, or None if there is no such id."""
        rank = self.smaller(value)
        return int(self._codes_by_rank[rank]) if rank < self.smaller(value, or_equal=True) else None


@dataclass(frozen=True)
class RowNumbers:
    """The dictionary of a domain whose ids are 0, 1, 2, ...: the rows of a source. Code, id and rank are the same number."""

    size: int

    def __len__(self) -> int:
        return self.size

    @property
    def type(self) -> pa.DataType:
        return pa.int64()

    @property
    def ids(self) -> pa.Array:
        """All ids, created on request."""
        return pa.array(np.arange(self.size))

    @property
    def ranks(self) -> NDArray[Any]:
        """No ranks: codes can be compared as they are."""
        return np.empty(0, code_type(self.size))

    def decode(self, codes: NDArray[Any]) -> pa.Array:
        """Return the ids of codes."""
        return pa.array(codes.astype(np.int64))

    def codes(self, ids: pa.Array) -> NDArray[np.int64]:
        """Return the codes of ids, NO_CODE for those that are not there or are NULL."""
        codes = pc.fill_null(ids, NO_CODE).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.where((codes >= 0) & (codes < self.size), codes, NO_CODE)

    def comparable(self, value: ConstantValue) -> bool:
        """Tell whether a constant can be compared with the ids: only numbers can."""
        return constant(value, self.type) is not None

    def smaller(self, value: ConstantValue, *, or_equal: bool = False) -> int:
        """Return how many ids are smaller than a constant (or equal to it)."""
        bound = min(max(-1, constant(value, self.type)), self.size)  # it may be infinite
        return int(min(max(0, floor(bound) + 1 if or_equal else ceil(bound)), self.size))

    def code(self, value: ConstantValue) -> int | None:
        """Return the code of an id, or None if there is no such id."""
        code = self.smaller(value)
        return code if code < self.smaller(value, or_equal=True) else None


def _more_ranks(stored: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any]:
    """Return the ranks of all ids, given those among the first ids: only the others are sorted."""
    first, added = ids[: len(stored)], np.sort(ids[len(stored) :])
    by_rank = np.empty_like(first)
    by_rank[stored] = first
    old_ranks = stored + np.searchsorted(added, first)
    new_ranks = np.searchsorted(by_rank, ids[len(stored) :]) + np.searchsorted(added, ids[len(stored) :])
    return np.concatenate([old_ranks, new_ranks]).astype(code_type(len(ids)))


def ranks_of(ids: pa.Array) -> NDArray[Any]:
    """Return the rank of each of some distinct ids; text is ordered by code point."""
    order = pc.sort_indices(ids).to_numpy(zero_copy_only=False)
    ranks = np.empty(len(ids), code_type(len(ids)))
    ranks[order] = np.arange(len(ids), dtype=ranks.dtype)
    return ranks


def code_type(size: int) -> type[np.unsignedinteger[Any]]:
    """Return the narrowest type for the codes of a domain; its largest value stays free, to serve as an upper bound."""
    return np.uint32 if size < CODES_IN_32_BITS else np.uint64
