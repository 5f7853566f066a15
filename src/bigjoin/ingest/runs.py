"""External sorting of pairs: runs that tasks sort and write, cuts that deal their rows out evenly, and parts merged from them.

A pair (major, minor) is one key that sorts as the pair does: both halves of a 64-bit integer while codes have 32 bits, a
record of two integers beyond. Cuts fall between keys, not between majors, so that a hub's list is dealt out like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bigjoin.index.dictionary import code_type
from bigjoin.storage.arrays import map_array, save_new

PACKED = np.dtype(np.uint64)
WIDE = np.dtype([("major", np.uint64), ("minor", np.uint64)])

SAMPLE = 256
"""Keys of a run that are looked at to choose the cuts."""

Keys: TypeAlias = NDArray[Any]
Pair: TypeAlias = "list[int] | None"
"""A cut, as it travels: the first key of a part; None is before all, or after all."""


def key_type(*sizes: int) -> np.dtype[Any]:
    """Return the type of keys whose halves are below these sizes."""
    return WIDE if any(code_type(size) is np.uint64 for size in sizes) else PACKED


def pack(major: NDArray[Any], minor: NDArray[Any], kind: np.dtype[Any]) -> Keys:
    """Return the key of each pair."""
    if kind == WIDE:
        keys = np.empty(len(major), WIDE)
        keys["major"], keys["minor"] = major, minor
        return keys
    packed = major.astype(np.uint64)
    packed <<= np.uint64(32)
    packed |= minor.astype(np.uint64, copy=False)
    return packed


def unpack(keys: Keys) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return majors and minors."""
    if keys.dtype == WIDE:
        return keys["major"], keys["minor"]
    return (keys >> np.uint64(32)).astype(np.uint32), keys.astype(np.uint32)


def unique(keys: Keys) -> Keys:
    """Return sorted keys without repetitions."""
    if len(keys) < 2:
        return keys
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = keys[1:] != keys[:-1]
    return keys if fresh.all() else keys[fresh]


def write_run(keys: Keys, folder: str, *, distinct: bool = True) -> dict[str, Any]:
    """Sort keys into a file of their own name, and return what the cuts need to know."""
    keys.sort()
    if distinct:
        keys = unique(keys)
    step = max(1, len(keys) // SAMPLE)
    return {"file": save_new(keys, folder, "run"), "rows": len(keys), "sample": pairs_of(keys[step // 2 :: step])}


def pairs_of(keys: Keys) -> list[list[int]]:
    """Return keys as JSON takes them."""
    major, minor = unpack(keys)
    return [[int(a), int(b)] for a, b in zip(major, minor, strict=True)]


def cut(runs: Sequence[dict[str, Any]], part: int) -> list[tuple[Pair, Pair]]:
    """Return the bounds of parts of about `part` keys, none of which a hub can swell."""
    rows = sum(run["rows"] for run in runs)
    parts = max(1, -(-rows // part))
    weighed = sorted((pair, run["rows"] / len(run["sample"])) for run in runs for pair in run["sample"])
    cuts: list[list[int]] = []
    passed = 0.0
    for pair, weight in weighed:
        if passed >= rows * (len(cuts) + 1) / parts and (not cuts or pair > cuts[-1]):
            cuts.append(pair)
        passed += weight
    bounds: list[Pair] = [None, *cuts, None]
    return list(pairwise(bounds))


def open_run(file: str) -> Keys:
    """Map the keys of a run."""
    return map_array(file)


def position(keys: Keys, bound: Pair, *, end: bool = False) -> int:
    """Return where a cut falls in sorted keys; None is their beginning or, for the upper bound, their end."""
    if bound is None:
        return len(keys) if end else 0
    key = np.array([tuple(bound)], WIDE) if keys.dtype == WIDE else np.array([bound[0] << 32 | bound[1]], PACKED)
    return int(np.searchsorted(keys, key)[0])


def between(keys: Keys, low: Pair, high: Pair) -> Keys:
    """Return a copy of the part of sorted keys between two cuts: a map would keep its file open."""
    return keys[position(keys, low) : position(keys, high, end=True)].copy()


def merge(files: Sequence[str], low: Pair, high: Pair) -> Keys:
    """Return the keys of runs between two cuts, sorted."""
    keys = np.concatenate([between(open_run(file), low, high) for file in files])
    if len(files) > 1:
        keys.sort()
    return keys
