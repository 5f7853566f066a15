"""Stages between ranks and codes: drop duplicate edges, add up degrees, number vertices by them, and recode edges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.dictionary import code_type
from bigjoin.index.shards import Shards
from bigjoin.ingest.runs import Keys, Pair, between, key_type, open_run, pack, unique, unpack, write_run
from bigjoin.storage.arrays import map_array, save_new, zeros_on_disk

MAX_VERTICES_IN_MEMORY = 1 << 24
"""More vertices are numbered in mapped files, which the system may write out."""


@dataclass(frozen=True)
class Dedupe:
    """Stage: merge a part of a relation's runs into distinct edges; add up the edges at each end."""

    folder: str
    size: int

    def __call__(self, item: dict[str, Any]) -> dict[str, Any]:
        keys = np.concatenate([self._slice(run, *item["bounds"]) for run in item["runs"]])
        keys.sort()
        keys = unique(keys)
        major, minor = unpack(keys)
        ends, counts = _runs(np.sort(np.concatenate([major, minor])))
        arrays = {"edges": keys, "ends": ends, "counts": counts}
        files = {name: save_new(array, self.folder, name) for name, array in arrays.items()}
        return files | {"rows": len(keys), "loops": int(np.count_nonzero(major == minor))}

    def _slice(self, run: dict[str, Any], low: Pair, high: Pair) -> Keys:
        """Return the keys of a run between two cuts, as ranks; it may hold places in a dictionary of its own."""
        keys = open_run(run["file"])
        if "ranking" not in run:
            return between(keys, low, high)
        ranks = map_array(run["ranking"])
        low, high = (_placed(ranks, bound) for bound in (low, high))
        major, minor = unpack(between(keys, low, high))
        return pack(ranks[major], ranks[minor], key_type(self.size))


def _placed(ranks: NDArray[Any], bound: Pair) -> Pair:
    """Return a cut between ranks as one between the places of a dictionary, whose ranks these are."""
    if bound is None:
        return None
    major, minor = (int(place) for place in np.searchsorted(ranks, np.array(bound, ranks.dtype)))
    known = major < len(ranks) and int(ranks[major]) == bound[0]
    return [major, minor if known else 0]


def _runs(ordered: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values of a sorted array, and how often each occurs."""
    starts = np.flatnonzero(np.append(len(ordered) > 0, ordered[1:] != ordered[:-1]))
    return ordered[starts], np.diff(np.append(starts, len(ordered)))


@dataclass(frozen=True)
class Numbering:
    """The codes: vertices by descending degree, ties by id."""

    codes: str
    """A file with the code of each rank."""
    size: int
    """How many vertices there are; ranks that no edge uses have no code."""
    order: NDArray[Any]
    """The rank of each code."""
    ranks: NDArray[Any]
    """The rank of each code among those that have one."""
    degrees: NDArray[np.int64]
    """The degree of each code."""


def number_vertices(parts: Sequence[dict[str, Any]], listed: Sequence[str], size: int, folder: str) -> Numbering:
    """Give codes to the vertices that have an edge, or are in a list of vertices, among `size` ranks."""
    degrees = _zeros(folder, size, np.dtype(np.int64))
    for part in parts:
        degrees[map_array(part["ends"])] += map_array(part["counts"])
    known = degrees > 0
    for file in listed:
        known[map_array(file)[0]] = True
    kept = np.flatnonzero(known)
    degrees = degrees[kept]
    longest = int(degrees.max(initial=0))
    keys = pack(longest - degrees, np.arange(len(kept)), key_type(len(kept), longest + 1))
    keys.sort()
    ranks = unpack(keys)[1].astype(code_type(len(kept)), copy=False)
    order = kept[ranks]
    codes = _zeros(folder, size, np.dtype(code_type(len(kept))))
    codes[order] = np.arange(len(kept), dtype=codes.dtype)
    return Numbering(save_new(codes, folder, "codes"), len(kept), order, ranks, degrees[ranks])


def _zeros(folder: str, size: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    return np.zeros(size, dtype) if size <= MAX_VERTICES_IN_MEMORY else zeros_on_disk(folder, size, dtype)


@dataclass(frozen=True)
class Code:
    """Stage: give a part's edges their codes, and sort them in each column order: by the node of the first, then the other."""

    folder: str
    codes: str | None
    """None where ranks are codes already."""
    shards: Shards

    def __call__(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        src, dst = self.coded(unpack(map_array(item["edges"])))
        if item["directed"]:
            return [self._run(src, dst), self._run(dst, src)]
        return [self._run(np.concatenate([src, dst]), np.concatenate([dst, src]))]

    def coded(self, ranks: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """Return ranks as codes."""
        if self.codes is None:
            return [column.astype(code_type(self.shards.size), copy=False) for column in ranks]
        codes = map_array(self.codes)
        return [codes[column] for column in ranks]

    def _run(self, first: NDArray[Any], second: NDArray[Any]) -> dict[str, Any]:
        return write_run(pack(self.shards.nodes(first), second, key_type(self.shards.size)), self.folder, distinct=False)
