"""Columns of properties of which updates have replaced some values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bigjoin.index.values import take

CODE = "code"
"""The column of replaced properties with the codes of their values."""


class ReplacedColumns(Mapping[str, pa.ChunkedArray]):
    """Properties by code, after replacements: a column is put together when somebody asks for it.

    That takes as long as the column is long, once.
    """

    def __init__(self, columns: Mapping[str, pa.ChunkedArray], replaced: pa.Table) -> None:
        self._columns, self._replaced = columns, replaced
        self._made: dict[str, pa.ChunkedArray] = {}

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        if name not in self._made:
            column, codes = self._columns[name], self._replaced[CODE].to_numpy()
            rows = np.arange(len(column))
            rows[codes] = np.arange(len(column), len(column) + len(codes))  # the last one of a code wins
            every = pa.chunked_array([*column.chunks, *self._replaced[name].chunks], column.type)
            self._made[name] = every.take(pa.array(rows))
        return self._made[name]

    def values_of(self, name: str, codes: NDArray[np.int64]) -> pa.Array:
        """Return the values of some codes, without putting the whole column together."""
        column, known = self._columns[name], self._replaced[CODE].to_numpy()
        order = np.argsort(known, kind="stable")
        last = np.searchsorted(known[order], codes, side="right") - 1
        is_replaced = (last >= 0) & (known[order][last] == codes)
        rows = np.where(is_replaced, len(column) + order[last], codes)
        return take(pa.chunked_array([*column.chunks, *self._replaced[name].chunks], column.type), rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def values_of(columns: Mapping[str, pa.ChunkedArray], name: str, codes: NDArray[np.int64]) -> pa.Array:
    """Return the values of some codes in a column."""
    return columns.values_of(name, codes) if isinstance(columns, ReplacedColumns) else take(columns[name], codes)
