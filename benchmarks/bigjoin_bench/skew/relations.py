"""Relations that are hard for one strategy or another, each with the number of its matches.

All of them are for one query, r(a, b), s(b, c), t(a, c). A domain's codes go by descending frequency, ties by value, and a
partitioned worker owns the codes that leave its number when divided by the number of workers. So whoever wants all keys to fall
to one worker has to keep values equally frequent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, log2, sqrt

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

QUERY = "q(a,b,c) := r(a,b), s(b,c), t(a,c)"

SAFETY = 4
"""Times the least B'/w of theorem 3.4."""


@dataclass(frozen=True)
class Tables:
    """Relations by name, and how many matches the query has."""

    relations: Mapping[str, pa.Table]
    count: int


def theorem_batch(workers: int, tuples: float, most_matches: float) -> int:
    """Return a B' that is four times what theorem 3.4 asks for: B'/w at least w, and at least log(IN x MaxOut)."""
    return ceil(SAFETY * workers * max(workers, log2(max(2.0, tuples * most_matches))))


def one_key(lists: int = 200_000, values: int = 42_000, each: int = 6) -> Tables:
    """All of r has the same b: whatever is proposed for any a is looked up in the list of that b.

    Every a has as many c, spread evenly, of which b's list holds half; the other c have a b of their own.
    """
    a, half = np.arange(lists), values // 2
    c = (np.repeat(a, each) + np.tile(np.arange(each) * (values // each), lists)) % values
    others = np.arange(half, values)
    s = np.append(np.zeros(half, np.int64), others), np.append(np.arange(half), others)
    return _tables(lists * each // 2, r=(a, np.zeros_like(a)), s=s, t=(np.repeat(a, each), c))


def one_worker(period: int = 448, keys: int = 128, each: int = 32) -> Tables:
    """Every b of r is a multiple of a period: with 16, 64 or 224 workers, which divide 448, all of them have one owner.

    For the others to be as frequent, s has more of them.
    """
    b = np.arange(keys * period)
    used = b % period == 0
    lengths = np.where(used, each, 2 * each)
    s = np.repeat(b, lengths), np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    a = np.arange(keys * each)
    t = np.repeat(a, each), np.tile(2 * np.arange(each), len(a))
    return _tables(keys * each * (each // 2), r=(a, np.repeat(b[used], each)), s=s, t=t)


def same_keys(workers: int) -> Tables:
    """Give each of so many workers a batch in which it asks for the same B' keys as all others.

    This is the worst case in the proof of theorem 3.4: a key is asked for as often as there are workers, however well each of
    them puts its own requests together. Every a has the same b and the same c, B' pairs of them, and s has more for a b.
    """
    keys = length = 2 * workers
    while True:
        sizes = workers * keys, 2 * keys * length, workers * length
        wanted = theorem_batch(workers, sum(sizes), sqrt(sizes[0] * sizes[1] * sizes[2]))
        if keys * length >= wanted:
            break
        length = ceil(wanted / keys)
    a, b = np.arange(workers), np.arange(keys)
    r = np.repeat(a, keys), np.tile(b, workers)
    s = np.repeat(b, 2 * length), np.tile(np.arange(2 * length) + length // 2, keys)
    t = np.repeat(a, length), np.tile(np.arange(length), workers)
    return _tables(workers * keys * (length - length // 2), r=r, s=s, t=t)


def _tables(count: int, **relations: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Tables:
    columns = {"r": ("a", "b"), "s": ("b", "c"), "t": ("a", "c")}
    found = {name: pa.table(dict(zip(columns[name], pair, strict=True))) for name, pair in relations.items()}
    return Tables(found, count)
