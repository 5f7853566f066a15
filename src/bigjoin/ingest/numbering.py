"""Stages between ranks and codes: drop duplicate edges, add up degrees, and number values by how often they occur."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.dictionary import code_type
from bigjoin.ingest.sorting import KeyPart, in_order, key_type, pack, unique, unpack
from bigjoin.storage.arrays import map_array, save_new, zeros_on_disk

MAX_VERTICES_IN_MEMORY = 1 << 24
"""More vertices are numbered in mapped files, which the system may write out."""
MAX_COUNTS_PER_EDGE = 4
"""Where the ranks of a part are spread more widely than this, they are sorted to be counted."""


@dataclass(frozen=True)
class DistinctEdges:
    """A part of a relation's edges, each once: files of their ranks, and of the edges at each end."""

    edges: str
    ends: str
    counts: str
    rows: int
    loops: int

    @property
    def degrees(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ranks at the ends of edges, and how many edges are at each."""
        return map_array(self.ends), map_array(self.counts)


@dataclass(frozen=True)
class DropDuplicates:
    """Stage: merge a part of a relation's edges into distinct ones, and count those at each end."""

    folder: str

    def __call__(self, part: KeyPart) -> DistinctEdges:
        major, minor = unpack(unique(part.merged()))
        ends, counts = _counted(major, minor)
        arrays = {"edges": np.stack([major, minor]), "ends": ends, "counts": counts}
        files = {name: save_new(array, self.folder, name) for name, array in arrays.items()}
        return DistinctEdges(**files, rows=len(major), loops=int(np.count_nonzero(major == minor)))


def _counted(major: NDArray[Any], minor: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the ranks that occur, sorted, and how often each does."""
    largest = int(max(major.max(initial=0), minor.max(initial=0)))
    if largest > MAX_COUNTS_PER_EDGE * len(major):
        return np.unique(np.concatenate([major, minor]), return_counts=True)
    counts = np.bincount(major, minlength=largest + 1) + np.bincount(minor, minlength=largest + 1)
    ends = np.flatnonzero(counts)
    return ends.astype(major.dtype), counts[ends]


@dataclass(frozen=True)
class Numbering:
    """The codes of a domain: its `size` values by descending frequency (vertices by degree), ties by value.

    `codes` is a file with the code of each rank; one that is not used has none. `order` has the rank of each code, and `ranks`
    its rank among those that have a code.
    """

    codes: str
    size: int
    order: NDArray[Any]
    ranks: NDArray[Any]


def number_values(
    counts: Iterable[tuple[NDArray[Any] | slice, NDArray[Any]]], listed: Iterable[NDArray[Any]], size: int, folder: str
) -> Numbering:
    """Give codes to those of `size` ranks that are counted (distinct ranks, and how often each occurs), or listed."""
    frequency = _zeros(folder, size, np.dtype(np.int64))
    for ranks, times in counts:
        frequency[ranks] += times
    known = frequency > 0
    for ranks in listed:
        known[ranks] = True
    kept = np.flatnonzero(known)
    frequency = frequency[kept]
    most = int(frequency.max(initial=0))
    keys = in_order(pack(most - frequency, np.arange(len(kept)), key_type(len(kept), most + 1)))
    ranks = unpack(keys)[1].astype(code_type(len(kept)), copy=False)
    order = kept[ranks]
    codes = _zeros(folder, size, np.dtype(code_type(len(kept))))
    codes[order] = np.arange(len(kept), dtype=codes.dtype)
    return Numbering(save_new(codes, folder, "codes"), len(kept), order, ranks)


def _zeros(folder: str, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.zeros(size, dtype) if size <= MAX_VERTICES_IN_MEMORY else zeros_on_disk(folder, size, dtype)
