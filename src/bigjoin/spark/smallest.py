"""A sample of matches that come in any order, from any task: those with the smallest hashes.

A hash of a match's codes and of a salt is as good as a random number that all tasks agree on. So each task keeps only as many
matches as the sample has, and the sample is the smallest of what all of them have kept, whatever the strategy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bigjoin.index.trie import Codes
from bigjoin.local.matches import arrow_batches
from bigjoin.storage import Place

HASH_COLUMN = "hash of the match"
"""The column that files of a sample have besides those of the matches. No attribute has spaces in its name."""


class Smallest:
    """The matches with the smallest hashes so far."""

    def __init__(self, size: int, salt: int, attributes: Sequence[str]) -> None:
        self.size, self.salt = size, salt
        self.order = sorted(range(len(attributes)), key=attributes.__getitem__)  # the same hash whatever the attribute order
        self._kept: list[tuple[Codes, NDArray[np.uint64]]] = []
        self._bound = np.uint64(2**64 - 1)
        """A hash that no match of the sample exceeds."""

    def put(self, matches: Codes) -> None:
        """Consider further matches."""
        hashes = hashes_of(matches[self.order], self.salt)
        small = np.flatnonzero(hashes <= self._bound)
        self._kept.append((matches.take(small, axis=1), hashes[small]))
        if sum(len(hashes) for _, hashes in self._kept) > 4 * self.size + (1 << 12):
            self._kept = [self.matches()]
            self._bound = self._kept[0][1].max(initial=np.uint64(0)) if len(self._kept[0][1]) == self.size else self._bound

    def matches(self) -> tuple[Codes, NDArray[np.uint64]]:
        """Return the matches with the smallest hashes, and their hashes."""
        if not self._kept:
            return np.empty((len(self.order), 0), np.uint32), np.empty(0, np.uint64)
        matches, hashes = (np.concatenate(some, axis=-1) for some in zip(*self._kept, strict=True))
        if len(hashes) > self.size:
            chosen = np.sort(np.argpartition(hashes, self.size)[: self.size])
            matches, hashes = matches.take(chosen, axis=1), hashes[chosen]
        return matches, hashes


def hashes_of(matches: Codes, salt: int) -> NDArray[np.uint64]:
    """Return a hash of each match: its codes are mixed in one after another (the finalizer of SplitMix64)."""
    found = np.full(matches.shape[1], salt, np.uint64)
    for codes in matches:
        found ^= codes
        found += np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(30)
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(27)
        found *= np.uint64(0x94D049BB133111EB)
        found ^= found >> np.uint64(31)
    return found


def smallest_of(files: Sequence[Sequence[Place]], schemas: Sequence[pa.Schema], size: int) -> list[pa.Table]:
    """Return the rows with the smallest hashes of several results together: a table for each, given their files."""
    tables = []
    for parts, schema in zip(files, schemas, strict=True):
        batches = list(chain.from_iterable(arrow_batches(file) for file in parts))
        tables.append(pa.Table.from_batches(batches, with_hash(schema)))
    hashes = np.sort(np.concatenate([np.empty(0, np.uint64), *(table[HASH_COLUMN].to_numpy() for table in tables)]))
    if len(hashes) > size:
        bound = pa.scalar(hashes[size], pa.uint64())
        tables = [table.filter(pc.less(table[HASH_COLUMN], bound)) for table in tables]
    return [table.drop_columns(HASH_COLUMN) for table in tables]


def with_hash(schema: pa.Schema) -> pa.Schema:
    """Return columns with that of the hash."""
    return schema.append(pa.field(HASH_COLUMN, pa.uint64()))
