"""From ids of any type to ranks: each chunk of rows has a sorted dictionary, and these are merged a range of ids at a time."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.index.dictionary import code_type
from bigjoin.index.stage_runner import StageRunner, in_threads
from bigjoin.index.values import plain
from bigjoin.ingest.radix import are_ranked_by_digit, ranked_keys
from bigjoin.ingest.sorting import even_cuts
from bigjoin.kernels.strings import common_prefix, following_bytes
from bigjoin.storage.arrays import map_array, map_table, new_file, save_new, write_table

RANGE_IDS = 1 << 20
"""Ids, counted in every chunk's dictionary, that are merged in one task."""
_SIGN = np.uint64(1 << 63)
"""The bit that makes signed integers sort as unsigned ones do."""
SAMPLED_IDS = 512
"""Ids of a chunk's dictionary that are looked at to choose the ranges."""
MAX_RANGES_MERGED_HERE = 8
"""Up to this many ranges are merged in this process: a Spark job would take longer."""


def sorted_unique(ids: pa.Array) -> tuple[pa.Array, NDArray[Any]]:
    """Return the distinct ids, sorted, and the place of each given id among them."""
    if pa.types.is_string(ids.type) and len(ids):
        text = _Text.of(ids)
        if text.whole:
            keys, places = _sorted_unique_keys(text.keys)
            return text.spelled(keys), places
    if pa.types.is_signed_integer(ids.type):
        keys = ids.to_numpy().astype(np.int64).view(np.uint64) ^ _SIGN
        if are_ranked_by_digit(keys):
            keys, places = ranked_keys(keys)
            return pa.array((keys ^ _SIGN).view(np.int64)).cast(ids.type), places
    encoded = ids.dictionary_encode()
    order = sort_order(encoded.dictionary)
    ranks = np.empty(len(order), code_type(len(order)))
    ranks[order] = np.arange(len(order), dtype=ranks.dtype)
    return encoded.dictionary.take(pa.array(order)), ranks[encoded.indices.to_numpy(zero_copy_only=False)]


def _sorted_unique_keys(keys: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[Any]]:
    """Do the same as `sorted_unique` for numbers, which are hashed and compared faster than text."""
    if are_ranked_by_digit(keys):
        return ranked_keys(keys)
    distinct, places = sorted_unique(pa.array(keys))
    return distinct.to_numpy(), places


def sort_order(ids: pa.Array) -> NDArray[np.int64]:
    """Return the order of distinct ids: numbers by value, text by code point."""
    if pa.types.is_integer(ids.type):
        return np.argsort(ids.to_numpy(zero_copy_only=False))
    if pa.types.is_string(ids.type) and len(ids):
        return _Text.of(ids).order(ids)
    return np.asarray(pc.sort_indices(ids), np.int64)


@dataclass(frozen=True)
class _Text:
    """Text as numbers: the eight bytes that follow the prefix common to all ids. Most ids differ there, or end there."""

    common: bytes
    keys: NDArray[np.uint64]
    whole: bool
    """Whether all ids end there, so that a key identifies its id."""

    @classmethod
    def of(cls, ids: pa.Array) -> _Text:
        _, offsets, data = ids.buffers()
        starts = np.frombuffer(offsets, np.int32)[ids.offset : ids.offset + len(ids) + 1].astype(np.int64)
        content = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
        common = common_prefix(starts, content)
        keys = np.empty(len(ids), np.uint64)
        whole = following_bytes(starts, content, common, keys)
        return cls(content[starts[0] : starts[0] + common].tobytes(), keys, bool(whole))

    def order(self, ids: pa.Array) -> NDArray[np.int64]:
        """Return the order of distinct ids: by key, ties by the text itself."""
        order = np.argsort(self.keys)
        ordered = self.keys[order]
        tied = np.zeros(len(order), np.bool_)
        tied[1:] = ordered[1:] == ordered[:-1]
        tied[:-1] |= tied[1:]
        if tied.any():
            places = np.flatnonzero(tied)
            members = order[places]
            order[places] = members[np.asarray(pc.sort_indices(ids.take(pa.array(members))), np.int64)]
        return order

    def spelled(self, keys: NDArray[np.uint64]) -> pa.Array:
        """Return the text of keys that identify their ids."""
        common = np.frombuffer(self.common, np.uint8)
        letters = np.empty((len(keys), len(common) + 8), np.uint8)
        letters[:, : len(common)] = common
        letters[:, len(common) :] = keys.astype(">u8").view(np.uint8).reshape(-1, 8)
        used = np.ones(letters.shape, np.bool_)
        used[:, len(common) :] = letters[:, len(common) :] != 0
        offsets = np.zeros(len(keys) + 1, np.int32)
        np.cumsum(used.sum(axis=1), out=offsets[1:])
        return pa.Array.from_buffers(pa.string(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(letters[used])])


def write_ids(ids: pa.Array, folder: str, counts: NDArray[Any] | None = None) -> str:
    """Write ids, and how often each occurs if that is counted, to a file of its own."""
    file = new_file(folder, "ids", ".arrow")
    write_table(pa.table({"id": ids} if counts is None else {"id": ids, "count": counts}), file)
    return file


def read_ids(file: str) -> pa.Array:
    """Map the ids of one file."""
    column = map_table(file)["id"]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True)
class MergedIds:
    """A range of the ids of all chunks: files of the distinct ids, and of the place among them of each id of each chunk.

    The places of the first chunk come first; `ends` says where those of each chunk end.
    """

    ids: str
    size: int
    places: str
    ends: tuple[int, ...]


def merge_ids(dictionaries: Sequence[str], folder: str, run: StageRunner) -> tuple[list[MergedIds], list[str]]:
    """Merge the dictionaries of chunks, a range of ids at a time; return the ranges, and each chunk's file of ranks."""
    ranges = _id_ranges(dictionaries)
    run = run if len(ranges) > MAX_RANGES_MERGED_HERE else in_threads
    merged = run(MergeIds(folder, tuple(dictionaries)), ranges)
    return merged, run(RankIds(folder, tuple(merged)), range(len(dictionaries)))


def _id_ranges(dictionaries: Sequence[str]) -> list[tuple[Any, Any]]:
    """Return ranges of ids, as pairs of bounds (None is open), each with about RANGE_IDS entries of the dictionaries."""
    opened = [read_ids(file) for file in dictionaries]
    total = sum(map(len, opened))
    count = -(-total // RANGE_IDS)
    if count <= 1:
        return [(None, None)] if dictionaries else []
    sample = []
    for ids in opened:
        step = max(1, len(ids) // SAMPLED_IDS)
        sample += [(plain(ids[i]), step) for i in range(step // 2, len(ids), step)]
    known = (entry for entry in sample if entry[0] == entry[0])  # NaN, the last of all ids, bounds nothing
    return list(pairwise([None, *even_cuts(known, total, count), None]))


@dataclass(frozen=True)
class MergeIds:
    """Stage: merge one range of every dictionary; write its distinct ids, and the place of each entry among them."""

    folder: str
    dictionaries: tuple[str, ...]

    def __call__(self, bounds: tuple[Any, Any]) -> MergedIds:
        low, high = bounds
        slices = []
        for file in self.dictionaries:
            ids = read_ids(file)
            first, last = _place(ids, low, 0), _place(ids, high, len(ids))
            slices.append(ids.slice(first, last - first))
        merged, places = sorted_unique(pa.concat_arrays(slices))
        ends = np.cumsum([len(part) for part in slices]).tolist()
        return MergedIds(write_ids(merged, self.folder), len(merged), save_new(places, self.folder, "places"), tuple(ends))


def _place(ids: pa.Array, bound: Any, default: int) -> int:
    return default if bound is None else bisect_left(range(len(ids)), bound, key=lambda i: plain(ids[i]))


@dataclass(frozen=True)
class RankIds:
    """Stage: write the rank, among all ids, of each entry of a chunk's dictionary."""

    folder: str
    ranges: tuple[MergedIds, ...]

    def __call__(self, number: int) -> str:
        parts, before = [], 0
        kind = code_type(sum(merged.size for merged in self.ranges))
        for merged in self.ranges:
            first, last = (merged.ends[number - 1] if number else 0), merged.ends[number]
            parts.append(map_array(merged.places)[first:last].astype(kind) + kind(before))
            before += merged.size
        return save_new(np.concatenate(parts), self.folder, "ranking")
