"""External sorting of pairs: tasks write sorted files, cuts deal their keys out evenly, and parts are merged between cuts.

A pair (major, minor) is one key that sorts as the pair does: both halves of a 64-bit integer while codes have 32 bits, a
record of two integers beyond. Cuts fall between keys, not between majors, so a hub's list is dealt out like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.dictionary import code_type
from bigjoin.index.stage_runner import StageRunner, in_turn
from bigjoin.ingest.radix import MIN_KEYS_BY_DIGIT, sorted_keys
from bigjoin.kernels.edges import drop_repeated
from bigjoin.storage.arrays import map_array, save_new

PACKED_KEY = np.dtype(np.uint64)
WIDE_KEY = np.dtype([("major", np.uint64), ("minor", np.uint64)])

SAMPLED_KEYS = 256
"""Keys of a sorted file that are looked at to choose the cuts."""

PairKeys: TypeAlias = NDArray[Any]
Cut: TypeAlias = "tuple[int, int] | None"
"""The first pair of a part; None stands for the beginning, or the end, of all pairs."""


@dataclass(frozen=True)
class SortedKeys:
    """A file of sorted keys, with an even sample of its pairs.

    Its pairs may be places in a sorted dictionary; then `ranking` is the file with the rank of each place, and the sample is of
    ranks.
    """

    file: str
    rows: int
    sample: tuple[tuple[int, int], ...]
    ranking: str | None = None


@dataclass(frozen=True)
class KeyPart:
    """The keys between two cuts of sorted files, each of which may have a ranking."""

    files: tuple[tuple[str, str | None], ...]
    low: Cut
    high: Cut

    def merged(self) -> PairKeys:
        """Return the keys, sorted; places become ranks."""
        slices = [self._slice(map_array(file), ranking) for file, ranking in self.files]
        return slices[0] if len(slices) == 1 else in_order(*slices)

    def _slice(self, keys: PairKeys, ranking: str | None) -> PairKeys:
        """Return a copy of the keys of a file: a map would keep it open."""
        if ranking is None:
            return keys[position(keys, self.low) : position(keys, self.high, end=True)].copy()
        ranks = map_array(ranking)
        low, high = _placed(ranks, self.low), _placed(ranks, self.high)
        major, minor = unpack(keys[position(keys, low) : position(keys, high, end=True)])
        return pack(ranks[major], ranks[minor], WIDE_KEY if ranks.dtype == np.uint64 else PACKED_KEY)


def _placed(ranks: NDArray[Any], bound: Cut) -> Cut:
    """Return a cut between ranks as one between the places of a dictionary, whose ranks these are."""
    if bound is None:
        return None
    major, minor = (int(place) for place in np.searchsorted(ranks, np.array(bound, ranks.dtype)))
    known = major < len(ranks) and int(ranks[major]) == bound[0]
    return major, minor if known else 0


def key_type(*sizes: int) -> np.dtype[Any]:
    """Return the type of keys whose halves are below these sizes."""
    return WIDE_KEY if any(code_type(size) is np.uint64 for size in sizes) else PACKED_KEY


def pack(major: NDArray[Any], minor: NDArray[Any], kind: np.dtype[Any]) -> PairKeys:
    """Return the key of each pair."""
    if kind == WIDE_KEY:
        keys = np.empty(len(major), WIDE_KEY)
        keys["major"], keys["minor"] = major, minor
        return keys
    packed = major.astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= minor.astype(np.uint64, copy=False)
    return packed


def unpack(keys: PairKeys) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return majors and minors."""
    if keys.dtype == WIDE_KEY:
        return keys["major"], keys["minor"]
    return (keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32)


def in_order(*parts: PairKeys) -> PairKeys:
    """Return all keys of some arrays, sorted."""
    keys = np.concatenate(parts)
    return np.sort(keys) if keys.dtype == WIDE_KEY else sorted_keys([keys], in_turn)


def unique(keys: PairKeys) -> PairKeys:
    """Return sorted keys without repetitions; the given array may be overwritten."""
    if keys.dtype == PACKED_KEY and len(keys) >= MIN_KEYS_BY_DIGIT:
        return keys[: drop_repeated(keys)]
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = keys[1:] != keys[:-1]
    return keys if fresh.all() else keys[fresh]


def write_sorted(keys: PairKeys, folder: str, *, distinct: bool = False) -> SortedKeys:
    """Sort keys into a file of their own, each once unless they are known to be distinct."""
    keys = in_order(keys)
    if not distinct:
        keys = unique(keys)
    step = max(1, len(keys) // SAMPLED_KEYS)
    return SortedKeys(save_new(keys, folder, "sorted"), len(keys), pairs_of(*unpack(keys[step // 2 :: step])))


def pairs_of(major: NDArray[Any], minor: NDArray[Any]) -> tuple[tuple[int, int], ...]:
    """Return pairs as Python integers."""
    return tuple(zip(major.tolist(), minor.tolist(), strict=True))


def even_cuts(weighed: Iterable[tuple[Any, float]], total: int, parts: int) -> list[Any]:
    """Return values that cut a whole of `total` into about even parts, given a sample of it and what each value stands for."""
    cuts: list[Any] = []
    passed = 0.0
    for value, weight in sorted(weighed):
        if passed >= total * (len(cuts) + 1) / parts and (not cuts or value > cuts[-1]):
            cuts.append(value)
        passed += weight
    return cuts


def cut(files: Sequence[SortedKeys], part: int) -> list[KeyPart]:
    """Return parts of about `part` keys, none of which a hub can swell; none if there are no keys."""
    rows = sum(file.rows for file in files)
    weighed = ((pair, file.rows / len(file.sample)) for file in files for pair in file.sample)
    bounds = pairwise([None, *even_cuts(weighed, rows, -(-rows // part)), None]) if rows else ()
    names = tuple((file.file, file.ranking) for file in files if file.rows)
    return [KeyPart(names, low, high) for low, high in bounds]


def run_in_groups(run: StageRunner, stage: Callable[[Any], Any], groups: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """Run a stage once for the items of several groups, and return the results in the same groups."""
    results = iter(run(stage, [item for group in groups for item in group]))
    return [[next(results) for _ in group] for group in groups]


def position(keys: PairKeys, bound: Cut, *, end: bool = False) -> int:
    """Return where a cut falls in sorted keys; None is their beginning or, for the upper bound, their end."""
    if bound is None:
        return len(keys) if end else 0
    key = np.array([bound], WIDE_KEY) if keys.dtype == WIDE_KEY else np.array([bound[0] << 32 | bound[1]], PACKED_KEY)
    return int(np.searchsorted(keys, key)[0])
